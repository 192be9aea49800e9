"""The sections of a training run's page on what the model is worth: overall, query by query, in clusters, by feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank_training.evaluation.comparisons import interval_of
from localrank_training.evaluation.latency import DOCUMENTS
from localrank_training.evaluation.stability import IN_WORDS
from localrank_training.grouping.kinds import SHAPE
from localrank_training.report.html import Section, Table
from localrank_training.report.parts import (
    INTERVALS,
    called,
    differences,
    dots,
    gained,
    means,
    signed,
    wilson,
    within,
)
from localrank_training.report.plots import Axis, Bars, Dots, Level, Plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices
    from localrank.points.similarity import QueryMap
    from localrank_training.evaluation.baselines import AgainstBaseline
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.evaluation.features import Importances
    from localrank_training.report.figures import BlendReport, TrainingReport
    from localrank_training.report.html import Part
    from localrank_training.run.blended import Localised
    from localrank_training.run.train import HeldOut, Trained

#: Queries that are named because a model ranks them worst.
_WORST = 8
#: Clusters that are drawn and listed, the largest first; and those with a colour of their own on the map.
_CLUSTERS, _COLOURS = 25, 6
#: Features that are drawn, and those that are listed of each cluster.
_FEATURES, _OF_A_CLUSTER = 15, 4
#: Deviations of a 95 % interval.
_Z = 1.96


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
    parts.append(_baseline(report.baseline))
    if report.blend is not None:
        parts += _of_blend(report.blend, report)
    elif report.differs:
        parts += _of_clusters(report)
    else:
        parts += _alone(report)
    parts += _worst(report, held)
    return Section("How good it is", parts)


def _baseline(found: AgainstBaseline) -> Table:
    rows = [
        (called(one.metric), one.candidate, one.baseline, gained(one), one.p_holm)
        for one in found.comparisons
    ]
    header = ("metric", "this model", "baseline", "difference", "p (Holm)")
    note = "The number after ± is half of the 95 % interval. p is adjusted for the number of metrics."
    if not found.given:
        note += " `--baseline` compares the model with the order that your users see today."
    return Table(f"This model and {found.name}".removesuffix(","), header, rows, note)


def _of_blend(blend: BlendReport, report: TrainingReport) -> list[Part]:
    metrics = [one.metric for one in blend.rivals[0].comparisons]
    globally = {one.metric: one for one in report.comparisons} if report.differs else {}
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
            *(gained(one) for one in compared),
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
            gained(one),
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


def locality(report: TrainingReport, trained: Trained, drawn: QueryMap | None) -> Section:
    """Return the section."""
    title = "Queries of different kinds"
    if not report.clusters:
        return Section(
            title,
            [
                (
                    "This is one model for all queries: there are no clusters. `localrank assess` says whether the queries are of "
                    "different kinds."
                )
            ],
        )
    parts: list[Part] = [_said(report, trained)]
    found = None if report.blend is None else report.blend.localised
    if found is not None:
        parts += _control(found)
    elif len(report.clusters) > 1:
        parts.append(
            "No random clusters were trained for comparison, so a part of the gain may be chance. `--method "
            "auto` measures that part."
        )
    parts += _clusters(report, trained)
    if drawn is not None:
        clusters = trained.built.clusters[: len(trained.queries)]
        parts.append(query_plot(drawn, clusters, trained.queries.query_ids))
    if report.stability:
        parts.append(_flips(report, min(len(trained.held_out.queries), 1000)))
    return Section(title, parts)


def _said(report: TrainingReport, trained: Trained) -> str:
    own = sum(scorer is not trained.built.ranker.global_scorer for scorer in trained.built.ranker.scorers)
    n = len(report.clusters)
    if n == 1:
        return "All queries are in one cluster, so there are no local models."
    if not own:
        return (
            f"The queries fall into {n} clusters, but local models were not enough better, so the version has no clusters: "
            "the global scorer answers every query. What follows still shows the kinds of queries."
        )
    count = "each has" if own == n else f"{own} of them have" if own > 1 else "one of them has"
    return (
        f"The queries fall into {n} clusters; {count} a scorer of its own."
        if own in {1, n}
        else f"The queries fall into {n} clusters; {count} scorers of their own."
    )


def _control(found: Localised) -> list[Part]:
    by = "likeness" if found.by == SHAPE else found.by
    ways = [(f"by {name}", gain) for name, gain in found.ways if len(found.ways) > 1]
    gains = [("chosen" if ways else f"by {by}", found.gain), *ways, ("at random", found.random)]
    used = "Local models are used" if found.locality is not None else "Local models are not used"
    plot = Plot(
        "The gain of local models",
        f"Local models by {by} gain {signed(found.gain.mean)}; those around random prototypes gain "
        f"{signed(found.random.mean)}. {used}.",
        x=Axis("prototypes", categories=[name for name, _ in gains]),
        y=Axis("gain over the global model, mean of MAP and NDCG@10"),
        marks=[
            dots("gain", [(gain.mean, gain.interval) for _, gain in gains]),
            Level("", 0.0),
        ],
        intervals=f"95 % intervals over {found.gain.n_queries} queries that no model had seen",
        sideways=True,
    )
    return [
        plot,
        (
            "The gains are those of the whole blend when one of its members is local. Local models are used if "
            "the blend is better by two standard errors, or by the number of the setting `gate`."
            + (
                f" For {found.agreement:.1%} of the queries, the nearest other query belongs to the prototype that "
                "is nearest to the query itself."
                if found.by == SHAPE
                else ""
            )
        ),
    ]


def _clusters(report: TrainingReport, trained: Trained) -> list[Part]:
    mine, base = report.local[-1], report.global_[-1]
    gains = mine.per_query - base.per_query
    local = bool(np.any(np.abs(gains) > 1e-12))
    held = trained.held_out.clusters
    order = _largest(report)
    rows, drawn = [], []
    for number in order:
        one, here = report.clusters[number], held == number
        some = gains[here]
        interval = interval_of(some) if len(some) else None
        drawn.append((f"{number} ({int(here.sum())})", some if local else mine.per_query[here]))
        gain = within(float(some.mean()), interval) if len(some) else ""
        figures = (one.figures["local"], *((one.figures["global"], gain) if local else ()))
        rows.append((number, one.size, one.exemplar, one.figures["queries"], *figures))
    name = called(mine.name)
    header = (
        "cluster",
        "queries",
        "typical query",
        "held out",
        name,
        *(("global scorer", "gain") if local else ()),
    )
    more = len(report.clusters) - len(order)
    caption = (
        "The number after ± is half of the 95 % interval, if 8 queries differ. It is not adjusted for the "
        "number of clusters."
    ) if local else ""  # fmt: skip
    if more:
        caption = f"{caption} The {more} smallest clusters are left out.".strip()
    table = Table("The clusters, largest first", header, rows, caption)
    drawn = [(place, values) for place, values in drawn if len(values)]
    if len(drawn) < 2:
        return [table]
    # fmt: off
    plot = means(
        "Gain of each cluster" if local else "Quality of each cluster",
        "The largest cluster first, with its number of held-out queries in brackets." + (" Right of 0, the scorer of the cluster is better than the global one." if local else ""),
        drawn,
        unit=f"{name}, gain over the global scorer" if local else name,
        names="cluster (held-out queries)",
        intervals="95 % intervals over the held-out queries of a cluster, if 8 of them differ",
    )
    # fmt: on
    return [plot, table]


def _largest(report: TrainingReport) -> list[int]:
    return sorted(range(len(report.clusters)), key=lambda number: -report.clusters[number].size)[:_CLUSTERS]


def _flips(report: TrainingReport, n: int) -> Plot:
    names = [IN_WORDS.get(name, name) for name in report.stability]
    rates = list(report.stability.values())
    ends = [wilson(rate, n) for rate in rates]
    first = rates[0]
    return Plot(
        "How easily a query changes its cluster",
        f"{first:.0%} of the queries go to another cluster if a tenth of their documents is left out.",
        x=Axis("change", categories=names),
        y=Axis("queries that change their cluster", unit="%"),
        marks=[
            Bars(
                "",
                list(range(len(names))),
                [100 * rate for rate in rates],
                [100 * low for low, _ in ends],
                [100 * high for _, high in ends],
            )
        ],
        intervals=f"95 % intervals of a share of {n} queries",
        sideways=True,
    )


def query_plot(drawn: QueryMap, clusters: Indices, names: tuple[str, ...]) -> Plot:
    """Draw a map; the largest clusters have a colour and shape each, the others one together."""
    here = clusters[drawn.queries]
    sizes = np.bincount(here[here >= 0]) if (here >= 0).any() else np.zeros(0, np.int64)
    largest = [int(one) for one in np.argsort(-sizes, kind="stable")[:_COLOURS] if sizes[one]]
    groups = [(f"cluster {number}", here == number) for number in largest]
    others = ~np.isin(here, largest)
    if others.any():
        groups.append(("other clusters", others))
    marks = []
    for tone, (name, some) in enumerate(groups):
        chosen = np.flatnonzero(some)
        queries = drawn.queries[chosen]
        marks.append(
            Dots(
                name,
                drawn.coordinates[chosen, 0].tolist(),
                drawn.coordinates[chosen, 1].tolist(),
                hints=[f"query {names[query]}, cluster {clusters[query]}" for query in queries.tolist()],
                radius=3.5,
                tone=tone if name != "other clusters" else 7,
            )
        )
    most = f"{len(drawn.queries):,} of {len(clusters):,} queries. " if len(drawn.queries) < len(clusters) else ""  # fmt: skip
    return Plot(
        "The training queries, by similarity",
        f"{most}Two queries are near each other if their documents vary in the same directions. The two "
        f"dimensions show {drawn.shown:.0%} of the similarities.",
        x=Axis("first direction", ticks=()),
        y=Axis("second direction", ticks=()),
        marks=marks,
        equal=True,
        numbers=False,
    )


def features(importances: Importances | None, report: TrainingReport) -> Section:
    """Return the section."""
    title = "Which features matter"
    if importances is None:
        return Section(
            title,
            [
                (
                    "There are no importances, because a score of this model is not a sum over features. "
                    "Linear models, trees and blends of these have importances."
                )
            ],
        )
    parts: list[Part] = [_importance(importances)]
    unused = [name for name, share in zip(importances.names, importances.overall, strict=True) if share == 0]
    if unused:
        some = ", ".join(f"`{name}`" for name in unused[:10])
        more = f" and {len(unused) - 10} more" if len(unused) > 10 else ""
        parts.append(
            f"{len(unused)} of {len(importances.names)} features add nothing to any score: {some}{more}."
        )
    if len(importances.clusters) > 1:
        parts.append(_by_cluster(importances, report))
    return Section(title, parts)


def _importance(found: Importances) -> Plot:
    order = [
        int(one) for one in np.argsort(-found.overall, kind="stable")[:_FEATURES] if found.overall[one] > 0
    ]
    shares, half = 100 * found.overall, 100 * _Z * found.errors
    known = bool(np.isfinite(found.errors).all())
    together = float(found.overall[order[:3]].sum())
    places = list(range(len(order)))
    return Plot(
        "Importance of features",
        f"The first {min(3, len(order))} of {len(found.names)} features carry {together:.0%} of what features add to scores.",
        x=Axis("feature", categories=[found.names[one] for one in order]),
        y=Axis("share of what features add to scores", unit="%"),
        marks=[
            Bars(
                "",
                places,
                [float(shares[one]) for one in order],
                [max(0.0, float(shares[one] - half[one])) for one in order] if known else None,
                [float(shares[one] + half[one]) for one in order] if known else None,
            )
        ],
        intervals="95 % intervals over queries" if known else "",
        sideways=True,
    )


def _by_cluster(found: Importances, report: TrainingReport) -> Table:
    rows = []
    order = _largest(report)
    for number in order:
        shares = found.clusters[number]
        first = [int(one) for one in np.argsort(-shares, kind="stable")[:_OF_A_CLUSTER] if shares[one] > 0]
        said = ", ".join(f"`{found.names[one]}` {shares[one]:.0%}" for one in first)
        more = shares - found.overall
        most = int(np.argmax(more))
        apart = (
            f"`{found.names[most]}` {100 * more[most]:+.0f} points" if first and more[most] >= 0.005 else ""
        )
        rows.append((number, report.clusters[number].size, said, apart.replace("-", "−")))
    return Table(
        "Important features of each cluster",
        ("cluster", "queries", "most important", "more than overall"),
        rows,
        "Points are percentage points above the share over all queries.",
    )
