"""The worth of clusters: their gains, the gains of chance, how stable routes are, and a map of the queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank_training.comparisons import interval_of
from localrank_training.report import Axis, Bars, Dots, Level, Plot, Section, Table
from localrank_training.reporting.differences import called, means, signed, within
from localrank_training.reporting.intervals import wilson
from localrank_training.stability import IN_WORDS

if TYPE_CHECKING:
    from localrank.arrays import Indices
    from localrank.query_map import QueryMap
    from localrank_training.cross_fitting import Localised
    from localrank_training.report import Part
    from localrank_training.reports import TrainingReport
    from localrank_training.training import Trained

#: Clusters that are drawn and listed, the largest first; and those with a colour of their own on the map.
_SHOWN, _COLOURS = 25, 6


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
            f"The queries fall into {n} clusters, but local models were not enough better, so the global "
            "scorer answers every cluster. The clusters still show the kinds of queries."
        )
    count = "each has" if own == n else f"{own} of them have" if own > 1 else "one of them has"
    return (
        f"The queries fall into {n} clusters; {count} a scorer of its own."
        if own in {1, n}
        else f"The queries fall into {n} clusters; {count} scorers of their own."
    )


def _control(found: Localised) -> list[Part]:
    gains = [("by likeness", found.gain), ("at random", found.random)]
    used = "Local models are used" if found.locality is not None else "Local models are not used"
    plot = Plot(
        "The gain of local models",
        f"Local models of similar queries gain {signed(found.gain.mean)}; those around random prototypes gain "
        f"{signed(found.random.mean)}. {used}.",
        x=Axis("prototypes", categories=[name for name, _ in gains]),
        y=Axis("gain over the global model, mean of MAP and NDCG@10"),
        marks=[
            Dots(
                "gain",
                [0, 1],
                [gain.mean for _, gain in gains],
                [None if gain.interval is None else gain.interval.low for _, gain in gains],
                [None if gain.interval is None else gain.interval.high for _, gain in gains],
            ),
            Level("", 0.0),
        ],
        intervals=f"95 % intervals over {found.gain.n_queries} queries that no model had seen",
        sideways=True,
    )
    return [
        plot,
        (
            "The gains are those of the one member that can be local, by itself. Local models are used if "
            "they are better by two standard errors, or by the number of the setting `gate`. For "
            f"{found.agreement:.1%} of the queries, the nearest other query belongs to the prototype that is "
            "nearest to the query itself."
        ),
    ]


def _clusters(report: TrainingReport, trained: Trained) -> list[Part]:
    mine, base = report.local[-1], report.global_[-1]
    gains = mine.per_query - base.per_query
    local = bool(np.any(np.abs(gains) > 1e-12))
    held = trained.held_out.clusters
    order = sorted(range(len(report.clusters)), key=lambda number: -report.clusters[number].size)[:_SHOWN]
    rows, drawn = [], []
    for number in order:
        one, here = report.clusters[number], held == number
        some = gains[here]
        interval = interval_of(some) if len(some) else None
        drawn.append((f"{number} ({int(here.sum())})", some if local else mine.per_query[here]))
        gained = within(float(some.mean()), interval) if len(some) else ""
        figures = (one.figures["local"], *((one.figures["global"], gained) if local else ()))
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
