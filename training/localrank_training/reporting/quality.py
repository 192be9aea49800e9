"""How good a trained model is: beside its global scorer, beside each member, query by query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank_training.latency import DOCUMENTS
from localrank_training.report import Section, Table
from localrank_training.reporting.differences import INTERVALS, called, differences, means, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank_training.blend_report import BlendReport
    from localrank_training.comparisons import Comparison
    from localrank_training.report import Part
    from localrank_training.reports import TrainingReport
    from localrank_training.training import HeldOut

#: Queries that are named because a model ranks them worst.
_WORST = 8


def quality(report: TrainingReport, held: HeldOut) -> Section:
    """Return the section."""
    parts: list[Part] = [
        (
            f"How it was measured: {report.how}. A 95 % interval contains the true mean over queries of the "
            "same kind 19 times in 20."
        )
    ]
    if held.learned_from:
        count = f"{held.learned_from:,} of {len(held.queries):,}"
        parts.append(
            f"Attention: the model was trained on {count} of these queries, so the figures are too good."
        )
    if report.blend is not None:
        parts += _of_blend(report.blend, report)
    elif _differs(report):
        parts += _of_clusters(report)
    else:
        parts += _alone(report)
    parts += _worst(report, held)
    return Section("How good it is", parts)


def _differs(report: TrainingReport) -> bool:
    return any(one.wins or one.losses for one in report.comparisons)


def _of_blend(blend: BlendReport, report: TrainingReport) -> list[Part]:
    metrics = [one.metric for one in blend.rivals[0].comparisons]
    globally = {one.metric: one for one in report.comparisons} if _differs(report) else {}
    rivals: list[tuple[str, float | None, Sequence[Comparison], float | None]] = []
    if globally:
        rivals.append(("without local models", None, [globally[name] for name in metrics], None))
    rivals += [(f"`{one.name}` alone", one.weight, one.comparisons, one.microseconds) for one in blend.rivals]
    groups = [
        (called(name), [(rival, compared[number]) for rival, _, compared, _ in rivals])
        for number, name in enumerate(metrics)
    ]
    behind = sum(compared[-1].interval is not None and compared[-1].interval.low > 0 for _, _, compared, _ in rivals)  # fmt: skip
    caption = (
        f"Right of the line this model is better. In {called(metrics[-1])} it is clearly better than {behind} of "
        f"{len(rivals)}: their intervals do not reach the line."
    )
    rows = [("this model", *(one.candidate for one in rivals[0][2]), *([""] * len(metrics)), None)]
    rows += [
        (
            name,
            *(one.baseline for one in compared),
            *(within(one.difference, one.interval) for one in compared),
            None if microseconds is None else round(microseconds),
        )
        for name, _, compared, microseconds in rivals
    ]
    header = (
        "ranker",
        *map(called, metrics),
        *(f"better by, {called(name)}" for name in metrics),
        "CPU µs",
    )
    return [
        differences(
            "What this model gains over simpler ones",
            caption,
            groups,
            unit="this model is better by",
            names="compared with",
        ),
        Table(
            "This model and simpler ones",
            header,
            rows,
            "Better by: this model minus the other; the number after ± is half of the 95 % interval. CPU: "
            f"processor time to score {DOCUMENTS} documents, counted and not timed. The settings of the "
            "members were chosen without the query that is measured.",
        ),
    ]


def _of_clusters(report: TrainingReport) -> list[Part]:
    compared = [(called(one.metric), one) for one in report.comparisons]
    better = [name for name, one in compared if one.interval is not None and one.interval.low > 0]
    caption = "Right of the line local models are better. " + (
        f"They are clearly better in {', '.join(better)}."
        if better
        else "They are not clearly better in any metric."
    )
    rows = [
        (
            name,
            one.candidate,
            one.baseline,
            within(one.difference, one.interval),
            one.p_holm,
            one.helped,
            one.hurt,
        )
        for name, one in compared
    ]
    return [
        differences(
            "What local models gain over the global scorer",
            caption,
            [("difference", compared)],
            unit="local models are better by",
            names="metric",
        ),
        Table(
            "This model and its global scorer",
            ("metric", "this model", "global scorer", "difference", "p (Holm)", "helped", "hurt"),
            rows,
            "The number after ± is half of the 95 % interval. p is adjusted for the number of metrics. "
            "Helped and hurt: queries that change by more than 0.1.",
        ),
    ]


def _alone(report: TrainingReport) -> list[Part]:
    rows = [(called(one.name), one.per_query[~np.isnan(one.per_query)]) for one in report.local]
    return [
        means(
            "Quality on held-out queries",
            "From 0 to 1; 1 is the best order there is.",
            rows,
            unit="mean over queries",
            names="metric",
            intervals=INTERVALS.format(report.local[0].n_queries),
        ),
        (
            "There is one model for all queries, so there is no simpler model to compare it with. `localrank "
            "train` without options compares several kinds of models."
        ),
    ]


def _worst(report: TrainingReport, held: HeldOut) -> list[Part]:
    measured = report.local[-1]
    labels, offsets = held.queries.labels, held.queries.offsets
    relevant = np.add.reduceat(labels > 0, offsets[:-1], dtype=np.int64)
    asked = np.flatnonzero(relevant > 0)
    order = asked[np.argsort(measured.per_query[asked], kind="stable")][:_WORST]
    if not len(order):
        return []
    rows = [
        (
            held.queries.query_ids[query],
            int(held.queries.lengths[query]),
            int(relevant[query]),
            float(measured.per_query[query]),
        )
        for query in order.tolist()
    ]
    empty = len(held.queries) - len(asked)
    have = "queries have" if empty > 1 else "query has"
    counted = f" {empty:,} {have} no relevant document, which counts 0." if empty else ""
    return [
        Table(
            "The queries that it ranks worst",
            ("query", "documents", "relevant", called(measured.name)),
            rows,
            "Check these first: are their labels right, and do their documents differ in something that no "
            f"feature measures?{counted}",
        )
    ]
