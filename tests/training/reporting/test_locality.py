"""The worth of clusters: what the sentences, the table, the plots and the map are made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank.query_map import QueryMap
from localrank_training.report import Bars, Dots, Level, Plot, Section, Table
from localrank_training.reporting.locality import locality, query_plot

GLOBAL = object()


class Queries:
    """As many queries."""

    def __init__(self, count: int) -> None:
        self.query_ids = tuple(f"q{number}" for number in range(count))

    def __len__(self) -> int:
        return len(self.query_ids)


def measured(values: list[float]) -> Any:
    return SimpleNamespace(name="ndcg@10", per_query=np.array(values))


def run(
    sizes: list[int],
    held: list[int],
    local: list[float],
    base: list[float],
    own: list[int] | None = None,
    **more: Any,
) -> tuple[Any, Any]:
    """Return a report and a run of clusters with these sizes; ``own`` have scorers of their own."""
    clusters = [
        SimpleNamespace(size=size, exemplar=f"q{number}", figures={"queries": held.count(number), "local": 0.5 + number, "global": 0.25})
        for number, size in enumerate(sizes)
    ]  # fmt: skip
    scorers = [object() if own is None or number in own else GLOBAL for number in range(len(sizes))]
    report: dict[str, Any] = {
        "clusters": clusters,
        "blend": None,
        "stability": {},
        "local": [None, measured(local)],
    }
    report |= {"global_": [None, measured(base)], **more}
    trained = SimpleNamespace(
        built=SimpleNamespace(
            ranker=SimpleNamespace(global_scorer=GLOBAL, scorers=scorers),
            clusters=np.arange(sum(sizes)) % max(len(sizes), 1),
        ),
        held_out=SimpleNamespace(clusters=np.array(held), queries=range(len(held))),
        queries=Queries(sum(sizes)),
    )
    return SimpleNamespace(**report), trained


@pytest.mark.parametrize(
    ("sizes", "own", "said"),
    [
        ([4], [0], "All queries are in one cluster, so there are no local models."),
        (
            [4, 3],
            [],
            "The queries fall into 2 clusters, but local models were not enough better, so the global",
        ),
        ([4, 3], [0, 1], "The queries fall into 2 clusters; each has a scorer of its own."),
        ([4, 3, 2], [1], "The queries fall into 3 clusters; one of them has a scorer of its own."),
        ([4, 3, 2], [1, 2], "The queries fall into 3 clusters; 2 of them have scorers of their own."),
    ],
)
def test_it_says_how_many_clusters_have_scorers_of_their_own(
    sizes: list[int], own: list[int], said: str
) -> None:
    found = locality(*run(sizes, [0, 1, 0], [0.5, 0.5, 0.5], [0.5, 0.4, 0.5], own), None)

    assert str(found.parts[0]).startswith(said)
    # Random clusters matter if there are several.
    assert (len(sizes) > 1) == any("No random clusters" in str(part) for part in found.parts)


def plot_and_table(found: Section) -> tuple[Plot, Table]:
    (plot,) = [part for part in found.parts if isinstance(part, Plot)]
    (table,) = [part for part in found.parts if isinstance(part, Table)]
    return plot, table


def test_clusters_come_largest_first_with_the_gain_of_their_held_out_queries() -> None:
    held = [0] * 10 + [1] * 9 + [3]
    base = [0.5] * 20
    gains = [*np.linspace(-0.11, 0.21, 10), *np.linspace(0.1, 0.3, 9), -0.05]
    local = [0.5 + gain for gain in gains]

    found = locality(*run([5, 9, 7, 3], held, local, base), None)
    plot, table = plot_and_table(found)

    # Student's quantile of 9 and 8 degrees of freedom, times the standard error.
    half = {
        0: 2.262157 * np.std(gains[:10], ddof=1) / 10**0.5,
        1: 2.306004 * np.std(gains[10:19], ddof=1) / 9**0.5,
    }
    assert [
        [1, 9, "q1", 9, 1.5, 0.25, f"+0.2000 ± {half[1]:.4f}"],
        [2, 7, "q2", 0, 2.5, 0.25, ""],
        [0, 5, "q0", 10, 0.5, 0.25, f"+0.0500 ± {half[0]:.4f}"],
        [3, 3, "q3", 1, 3.5, 0.25, "−0.0500"],
    ] == [list(row) for row in table.rows]
    assert ["cluster", "queries", "typical query", "held out", "NDCG@10", "global scorer", "gain"] == list(
        table.header
    )
    assert "left out" not in table.caption
    assert ["1 (9)", "0 (10)", "3 (1)"] == plot.x.categories
    dots = plot.marks[0]
    assert isinstance(dots, Dots)
    assert [0.2, 0.05, -0.05] == pytest.approx(dots.y)
    assert dots.low is not None
    assert [0.2 - half[1], 0.05 - half[0]] == pytest.approx(dots.low[:2], abs=1e-6)
    assert dots.low[2] is None
    assert "Gain of each cluster" == plot.title


def test_if_no_query_differs_quality_is_shown_and_no_gain() -> None:
    values = [0.5, 0.7, 0.2, 0.4]

    found = locality(*run([5, 9], [0, 0, 1, 1], values, values, []), None)
    plot, table = plot_and_table(found)

    assert ["cluster", "queries", "typical query", "held out", "NDCG@10"] == list(table.header)
    assert [5, 5] == [len(row) for row in table.rows]
    assert "" == table.caption
    assert "Quality of each cluster" == plot.title
    dots = plot.marks[0]
    assert isinstance(dots, Dots)
    assert [0.3, 0.6] == pytest.approx(dots.y)


@pytest.mark.parametrize(
    ("count", "listed", "said"), [(25, 25, ""), (28, 25, "The 3 smallest clusters are left out.")]
)
def test_twenty_five_clusters_are_listed(count: int, listed: int, said: str) -> None:
    found = locality(*run([40 - number for number in range(count)], [0], [0.5], [0.4]), None)

    (table,) = [part for part in found.parts if isinstance(part, Table)]
    assert listed == len(table.rows)
    assert table.caption.endswith(said or "number of clusters.")


def test_one_cluster_with_held_out_queries_is_not_drawn() -> None:
    found = locality(*run([5, 9], [0, 0], [0.5, 0.7], [0.5, 0.6]), None)

    assert [] == [part for part in found.parts if isinstance(part, Plot)]


def gain(mean: float, interval: tuple[float, float] | None) -> Any:
    ends = None if interval is None else SimpleNamespace(low=interval[0], high=interval[1])
    return SimpleNamespace(mean=mean, interval=ends, n_queries=50)


@pytest.mark.parametrize("used", [True, False])
def test_the_gain_of_likeness_stands_above_that_of_chance(*, used: bool) -> None:
    localised = SimpleNamespace(
        locality=object() if used else None,
        gain=gain(0.02, (0.01, 0.03)),
        random=gain(-0.005, None),
        agreement=0.8125,
    )
    report, trained = run([5, 9], [0, 1], [0.5, 0.7], [0.5, 0.6], blend=SimpleNamespace(localised=localised))

    parts = locality(report, trained, None).parts

    plot = parts[1]
    assert isinstance(plot, Plot)
    assert ["by likeness", "at random"] == plot.x.categories
    dots, zero = plot.marks
    assert isinstance(dots, Dots)
    assert ([0, 1], [0.02, -0.005], [0.01, None], [0.03, None]) == (dots.x, dots.y, dots.low, dots.high)
    assert Level("", 0.0) == zero
    assert plot.sideways
    assert "gain +0.0200; those around random prototypes gain −0.0050" in plot.caption
    assert plot.caption.endswith("Local models are used." if used else "Local models are not used.")
    assert "95 % intervals over 50 queries that no model had seen" == plot.intervals
    assert "81.2%" in str(parts[2])
    assert not any("No random clusters" in str(part) for part in parts)


def test_shares_of_queries_that_change_their_cluster_have_wilsons_intervals() -> None:
    report, trained = run(
        [5, 9], [0, 1] * 10, [0.5] * 20, [0.4] * 20, stability={"unknown change": 0.1, "another": 0.0}
    )

    plot = locality(report, trained, None).parts[-1]

    assert isinstance(plot, Plot)
    (bars,) = plot.marks
    assert isinstance(bars, Bars)
    assert ["unknown change", "another"] == plot.x.categories
    assert [10, 0] == pytest.approx(bars.y)
    # scipy.stats.binomtest(2, 20) and (0, 20), by Wilson.
    assert [2.786648, 0] == pytest.approx(bars.low, abs=1e-5)
    assert [30.10336, 16.112516] == pytest.approx(bars.high, abs=1e-5)
    assert "10% of the queries go to another cluster" in plot.caption
    assert "95 % intervals of a share of 20 queries" == plot.intervals


def test_a_model_without_clusters_has_a_sentence_only() -> None:
    found = locality(*run([], [], [], []), None)

    assert 1 == len(found.parts)
    assert str(found.parts[0]).startswith("This is one model for all queries")


def drawn(queries: list[int], clusters: list[int]) -> QueryMap:
    count = len(queries)
    coordinates = np.column_stack([np.arange(count), -np.arange(count)]).astype(np.float32)
    return QueryMap(
        queries=np.array(queries, np.int32),
        clusters=np.array([clusters[query] for query in queries], np.int32),
        coordinates=coordinates,
        means=np.ones(count, np.float32),
        similarity="eq5",
        shown=0.756,
        points=None,
    )


def test_the_six_largest_clusters_of_the_map_have_a_colour_each() -> None:
    # Cluster k has k + 1 queries, but for cluster 6 with one; one query has none.
    clusters = [-1, 6, *(k for k in range(6) for _ in range(k + 1)), 7, 7, 7, 7, 7, 7, 7, 7]
    names = tuple(f"q{number}" for number in range(len(clusters)))

    plot = query_plot(drawn(list(range(len(clusters))), clusters), np.array(clusters), names)

    marks = [mark for mark in plot.marks if isinstance(mark, Dots)]
    assert [
        "cluster 7",
        "cluster 5",
        "cluster 4",
        "cluster 3",
        "cluster 2",
        "cluster 1",
        "other clusters",
    ] == [mark.name for mark in marks]
    assert [0, 1, 2, 3, 4, 5, 7] == [mark.tone for mark in marks]
    assert {3.5} == {mark.radius for mark in marks}
    # The others: without a cluster, clusters 6 and 0.
    assert ([0, 1, 2], [0, -1, -2]) == (marks[-1].x, marks[-1].y)
    assert ["query q0, cluster -1", "query q1, cluster 6", "query q2, cluster 0"] == marks[-1].hints
    assert 8 == len(marks[0].x)
    assert plot.equal
    assert not plot.numbers
    assert "The two dimensions show 76% of the similarities." in plot.caption
    assert not plot.caption.startswith(f"{len(clusters)} of")


def test_a_map_of_some_queries_says_how_many() -> None:
    clusters = [0, 1] * 600

    plot = query_plot(drawn([0, 3, 4, 7], clusters), np.array(clusters), tuple(map(str, range(1200))))

    assert plot.caption.startswith("4 of 1,200 queries. ")
    assert ["cluster 0", "cluster 1"] == [mark.name for mark in plot.marks]
    one = plot.marks[1]
    assert isinstance(one, Dots)
    assert ["query 3, cluster 1", "query 7, cluster 1"] == one.hints
    assert ([1, 3], [-1, -3]) == (one.x, one.y)


def test_a_map_without_any_cluster_draws_the_others() -> None:
    plot = query_plot(drawn([0, 1], [-1, -1]), np.array([-1, -1]), ("a", "b"))

    assert ["other clusters"] == [mark.name for mark in plot.marks]


def test_a_map_of_one_cluster_has_its_colour() -> None:
    plot = query_plot(drawn([0, 1], [0, 0]), np.array([0, 0]), ("a", "b"))

    assert ["cluster 0"] == [mark.name for mark in plot.marks]
