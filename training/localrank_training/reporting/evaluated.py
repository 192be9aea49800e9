"""The page of an evaluation: one model beside its global scorer, or two models beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank._version import __version__
from localrank_training.report import Facts, Page, Pre, Section, Table
from localrank_training.reporting.differences import INTERVALS, called, differences, means, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.metrics import Measured
    from localrank_training.comparisons import Comparison
    from localrank_training.evaluation import Evaluation
    from localrank_training.report import Part

_LEVEL = 0.05
_CLUSTERS = 25


class Sides(NamedTuple):
    """What is compared.

    Attributes:
        candidate, baseline: figures, metric by metric and convention by convention.
        comparisons: the one less the other; empty if there is nothing to compare.
        names: of the two.
    """

    candidate: Sequence[Measured]
    baseline: Sequence[Measured]
    comparisons: Sequence[Comparison]
    names: tuple[str, str]


def page_of_evaluation(evaluations: Sequence[Evaluation], sides: Sides, command: str) -> Page:
    """Return the page."""
    candidate, comparisons, names = sides.candidate, sides.comparisons, sides.names
    first = candidate[0]
    parts: list[Part] = [
        Facts(
            [
                (called(one.name), one.mean, f"{one.convention.name}, {one.n_queries:,} queries")
                for one in candidate
                if one.convention.name == first.convention.name
            ]
        )
    ]
    for convention in dict.fromkeys(one.convention.name for one in candidate):
        parts += [_figures(convention, sides)]
    parts += [_routes(one) for one in evaluations]
    parts.append(Section("How to make it again", [Pre(command)]))
    return Page(
        f"Evaluation of {names[0]}" + (f" beside {names[1]}" if comparisons else ""),
        _lead(candidate, comparisons, names),
        parts,
        foot=f"LocalRank {__version__}. This file asks no other host for anything.",
    )


def _lead(candidate: Sequence[Measured], comparisons: Sequence[Comparison], names: tuple[str, str]) -> str:
    if not comparisons:
        return f"{names[0]}: {called(candidate[0].name)} {candidate[0].mean:.4f}, with nothing to compare."
    clear = sorted((one for one in comparisons if one.p_holm <= _LEVEL), key=lambda one: one.p_holm)
    if not clear:
        return f"No figure of {names[0]} differs from that of {names[1]} by more than chance."
    most = clear[0]
    word = "better" if most.difference > 0 else "worse"
    both = any((one.difference > 0) != (most.difference > 0) for one in clear)
    mixed = ", but not in every figure" if both else ""
    return (
        f"{names[0]} is {word} than {names[1]}{mixed}: {called(most.metric)} {most.candidate:.4f} instead of {most.baseline:.4f} "
        f"(p = {most.p_holm:.2g}); {len(clear)} of {len(comparisons)} differences are more than chance."
    )


def _figures(convention: str, sides: Sides) -> Section:
    candidate, baseline, comparisons, names = sides
    mine = [one for one in candidate if one.convention.name == convention]
    theirs = {one.name: one for one in baseline if one.convention.name == convention}
    compared = {one.metric: one for one in comparisons if one.convention == convention}
    title = f"Figures by the convention {convention}"
    basis = (
        f"{mine[0].n_queries:,} queries, {mine[0].n_empty:,} of them empty, {mine[0].convention.empty_text}."
    )
    if not compared:
        rows = [(called(one.name), one.per_query[~np.isnan(one.per_query)]) for one in mine]
        plot = means(
            "Means over queries",
            "From 0 to 1; 1 is the best order there is.",
            rows,
            unit="mean over queries",
            names="metric",
            intervals=INTERVALS.format(mine[0].n_queries),
        )
        return Section(title, [basis, plot])
    plot = differences(
        f"{names[0]} less {names[1]}",
        f"Right of the line {names[0]} is better.",
        [("difference", [(called(name), one) for name, one in compared.items()])],
        unit="difference",
        names="metric",
    )
    table = Table(
        f"{names[0]} beside {names[1]}",
        ("metric", names[0], names[1], "difference", "p (Holm)", "better", "equal", "worse"),
        [
            (
                called(one.name),
                one.mean,
                theirs[one.name].mean,
                within(compared[one.name].difference, compared[one.name].interval),
                compared[one.name].p_holm,
                compared[one.name].wins,
                compared[one.name].ties,
                compared[one.name].losses,
            )
            for one in mine
            if one.name in compared
        ],
        "The number after ± is half of the 95 % interval. p is adjusted for the number of figures.",
    )
    return Section(title, [basis, plot, table])


def _routes(found: Evaluation) -> Section:
    routing = found.routing
    title = f"Routes of {found.name}"
    if not routing.clusters:
        return Section(title, ["It is one global model, without clusters."])
    n = max(sum(routing.clusters) + routing.to_global, 1)
    fallbacks = "".join(f" {reason}: {count:,}." for reason, count in routing.fallbacks.items())
    said = (
        f"Routed by `{routing.strategy}` to {sum(map(bool, routing.clusters))} of {len(routing.clusters)} clusters; the global scorer "
        f"answered {routing.to_global / n:.1%}.{fallbacks}"
    )
    figure = found.local[0]
    order = sorted(found.clusters, key=lambda one: -one.queries)[:_CLUSTERS]
    rows = [
        (
            "global" if one.cluster is None else str(one.cluster),
            one.queries,
            f"{one.queries / n:.1%}",
            one.local,
            one.global_,
        )
        for one in order
    ]
    more = len(found.clusters) - len(order)
    table = Table(
        "Clusters, by number of queries",
        ("cluster", "queries", "share", called(figure.name), "its global scorer"),
        rows,
        f"{more} more clusters are left out." if more else "",
    )
    return Section(title, [said, table])
