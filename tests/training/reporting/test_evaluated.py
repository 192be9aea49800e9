"""The page of an evaluation: its lead, its figures and its routes, from figures that are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank_training.report import Facts, Plot, Section, Table
from localrank_training.reporting.evaluated import Sides, page_of_evaluation


def measured(name: str, convention: str = "standard", mean: float = 0.5) -> Any:
    ways = SimpleNamespace(name=convention, empty_text="counted 0")
    values = np.array([mean - 0.1, mean + 0.1, np.nan])
    return SimpleNamespace(name=name, convention=ways, mean=mean, n_queries=1200, n_empty=7, per_query=values)


def comparison(metric: str, p: float, difference: float, convention: str = "standard") -> Any:
    interval = SimpleNamespace(low=difference - 0.01, high=difference + 0.01)
    return SimpleNamespace(
        metric=metric, convention=convention, p_holm=p, difference=difference, candidate=0.5, baseline=0.4,
        interval=interval, n_queries=1200, wins=5, ties=3, losses=2,
    )  # fmt: skip


def model(clusters: list[Any] | None = None, sizes: list[int] | None = None, to_global: int = 0) -> Any:
    routing = SimpleNamespace(
        clusters=sizes or [], to_global=to_global, fallbacks={"outlier": 1500}, strategy="lsh"
    )
    return SimpleNamespace(
        name="web@2", routing=routing, clusters=clusters or [], local=[measured("ndcg@10")]
    )


def page(comparisons: list[Any], *models: Any) -> Any:
    figures = [measured("map"), measured("ndcg@10"), measured("map", "letor4")]
    theirs = [measured("map", mean=0.3), measured("ndcg@10", mean=0.2), measured("map", "letor4", 0.1)]
    return page_of_evaluation(
        models or (model(),), Sides(figures, theirs, comparisons, ("web@2", "web@1")), "command"
    )


@pytest.mark.parametrize(
    ("comparisons", "said"),
    [
        ([], "web@2: MAP 0.5000, with nothing to compare."),
        ([comparison("map", 0.051, 0.1)], "No figure of web@2 differs from that of web@1 by more than chance."),
        # A twentieth is enough.
        ([comparison("map", 0.05, 0.1)], "web@2 is better than web@1: MAP 0.5000 instead of 0.4000 (p = 0.05); 1 of 1 "),
        (
            [comparison("map", 0.04, 0.1), comparison("ndcg@10", 0.012, -0.1), comparison("map", 0.3, 0.1, "letor4")],
            "web@2 is worse than web@1, but not in every figure: NDCG@10 0.5000 instead of 0.4000 (p = 0.012); 2 of 3 ",
        ),
        (
            [comparison("map", 0.04, -0.1), comparison("ndcg@10", 0.01, -0.1), comparison("map", 0.3, 0.1, "letor4")],
            "web@2 is worse than web@1: NDCG@10 0.5000",
        ),
    ],
)  # fmt: skip
def test_the_lead_names_the_clearest_difference(comparisons: list[Any], said: str) -> None:
    found = page(comparisons)

    assert found.lead.startswith(said)
    assert ("Evaluation of web@2 beside web@1" if comparisons else "Evaluation of web@2") == found.title


def test_every_convention_has_its_figures() -> None:
    found = page(
        [
            comparison("map", 0.04, 0.1),
            comparison("ndcg@10", 0.5, -0.1),
            comparison("map", 0.3, 0.2, "letor4"),
        ]
    )

    facts, standard, letor, *_ = found.parts
    assert isinstance(facts, Facts)
    assert [
        ("MAP", 0.5, "standard, 1,200 queries"),
        ("NDCG@10", 0.5, "standard, 1,200 queries"),
    ] == facts.facts
    basis, plot, table = standard.parts
    assert "1,200 queries, 7 of them empty, counted 0." == basis
    assert isinstance(plot, Plot)
    assert ["MAP", "NDCG@10"] == plot.x.categories
    assert isinstance(table, Table)
    assert [
        ("MAP", 0.5, 0.3, "+0.1000 ± 0.0100", 0.04, 5, 3, 2),
        ("NDCG@10", 0.5, 0.2, "−0.1000 ± 0.0100", 0.5, 5, 3, 2),
    ] == table.rows
    assert [("MAP", 0.5, 0.1, "+0.2000 ± 0.0100", 0.3, 5, 3, 2)] == letor.parts[2].rows


def test_without_a_comparison_means_are_drawn() -> None:
    standard = page([]).parts[1]

    plot = standard.parts[1]
    assert isinstance(plot, Plot)
    # Queries without a figure are left out.
    assert [0.5, 0.5] == pytest.approx(plot.marks[0].y)  # type: ignore[union-attr]
    assert "95 % intervals over 1200 queries" == plot.intervals


def test_routes_are_counted() -> None:
    clusters = [
        SimpleNamespace(cluster=one, queries=queries, local=0.5, global_=0.4)
        for one, queries in ((0, 3), (2, 5), (None, 2))
    ]

    routes = page([], model(clusters, [3, 0, 5], 2)).parts[-2]

    assert isinstance(routes, Section)
    said, table = routes.parts
    assert "Routed by `lsh` to 2 of 3 clusters; the global scorer answered 20.0%. outlier: 1,500." == said
    assert isinstance(table, Table)
    assert [
        ("2", 5, "50.0%", 0.5, 0.4),
        ("0", 3, "30.0%", 0.5, 0.4),
        ("global", 2, "20.0%", 0.5, 0.4),
    ] == table.rows
    assert "" == table.caption


@pytest.mark.parametrize(("count", "caption"), [(25, ""), (26, "1 more clusters are left out.")])
def test_twenty_five_clusters_are_listed(count: int, caption: str) -> None:
    clusters = [SimpleNamespace(cluster=one, queries=1, local=0.5, global_=0.4) for one in range(count)]

    table = page([], model(clusters, [1] * count)).parts[-2].parts[1]

    assert (25, caption) == (len(table.rows), table.caption)


def test_one_global_model_has_no_routes() -> None:
    assert ["It is one global model, without clusters."] == page([]).parts[-2].parts
