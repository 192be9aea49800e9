"""How good a model is: the rows, captions and worst queries, from comparisons that are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank_training.report import Dots, Plot, Table
from localrank_training.reporting.quality import quality


def comparison(
    metric: str, low: float | None, *, difference: float = 0.02, wins: int = 3, **more: Any
) -> Any:
    interval = None if low is None else SimpleNamespace(low=low, high=2 * difference - low)
    found = {
        "metric": metric,
        "interval": interval,
        "difference": difference,
        "wins": wins,
        "losses": 0,
        "n_queries": 40,
    }
    return SimpleNamespace(
        **{**found, "candidate": 0.5, "baseline": 0.4, "p_holm": 0.03, "helped": 4, "hurt": 2, **more}
    )


class Judged:
    """Queries of four documents each, with so many relevant ones."""

    def __init__(self, *relevant: int) -> None:
        self.labels = np.array([float(place < count) for count in relevant for place in range(4)])
        self.offsets = np.arange(0, len(self.labels) + 1, 4)
        self.lengths = np.diff(self.offsets)
        self.query_ids = tuple(f"q{number}" for number in range(len(relevant)))

    def __len__(self) -> int:
        return len(self.query_ids)


def held(*relevant: int, learned_from: int = 0) -> Any:
    return SimpleNamespace(queries=Judged(*relevant), learned_from=learned_from)


def report(values: list[float], comparisons: tuple[Any, ...] = (), blend: Any = None) -> Any:
    measured = [
        SimpleNamespace(name=name, per_query=np.array(values), n_queries=len(values))
        for name in ("map", "ndcg@10")
    ]
    return SimpleNamespace(how="10 validation queries", local=measured, comparisons=comparisons, blend=blend)


def parts_of(kind: type, section: Any) -> list[Any]:
    return [part for part in section.parts if isinstance(part, kind)]


def test_the_eight_worst_queries_that_have_an_answer_are_named() -> None:
    values = [0.9, 0.0, 0.3, 0.2, 0.2, 0.8, 0.7, 0.6, 0.5, 0.4, 0.95, 0.0]
    relevant = (1, 0, 2, 3, 1, 1, 1, 1, 1, 1, 1, 0)

    *_, table = parts_of(Table, quality(report(values), held(*relevant)))

    # Equal ones stay in their order; queries 1 and 11 have no relevant document.
    assert [
        ("q3", 4, 3, 0.2),
        ("q4", 4, 1, 0.2),
        ("q2", 4, 2, 0.3),
        *((f"q{number}", 4, 1, values[number]) for number in (9, 8, 7, 6, 5)),
    ] == list(table.rows)
    assert table.caption.endswith(" 2 queries have no relevant document, which counts 0.")
    assert "NDCG@10" == table.header[-1]


@pytest.mark.parametrize(
    ("relevant", "said"), [((1, 0), "1 query has no relevant"), ((1, 2), "feature measures?")]
)
def test_queries_without_a_relevant_document_are_counted(relevant: tuple[int, ...], said: str) -> None:
    *_, table = parts_of(Table, quality(report([0.5, 0.0]), held(*relevant)))

    assert said in table.caption
    assert ("no relevant" in said) == ("no relevant" in table.caption)


def test_without_any_relevant_document_no_query_is_the_worst() -> None:
    assert [] == parts_of(Table, quality(report([0.0, 0.0]), held(0, 0)))


@pytest.mark.parametrize("learned_from", [0, 3])
def test_a_reader_is_told_if_the_model_knows_the_queries(learned_from: int) -> None:
    said = [
        str(part) for part in quality(report([0.5] * 4), held(1, 1, 1, 1, learned_from=learned_from)).parts
    ]

    assert said[0].startswith("How it was measured: 10 validation queries.")
    assert (learned_from > 0) == any("trained on 3 of 4 of these queries" in one for one in said)


def test_one_model_for_all_is_drawn_by_itself() -> None:
    found = quality(report([0.5, 0.7, np.nan]), held(1, 1, 1))

    (plot,) = parts_of(Plot, found)
    (dots,) = plot.marks
    assert ["MAP", "NDCG@10"] == plot.x.categories
    assert [0.6, 0.6] == pytest.approx(dots.y)
    assert "95 % intervals over 3 queries" == plot.intervals
    assert any("There is one model for all queries" in str(part) for part in found.parts)


def test_local_models_are_compared_with_the_global_scorer() -> None:
    compared = (
        comparison("map", 0.001),
        comparison("ndcg@10", -0.01),
        comparison("ndcg@5", None),
        comparison("p@5", 0.0),
    )

    found = quality(report([0.5], compared), held(1))

    (plot,) = parts_of(Plot, found)
    assert "They are clearly better in MAP." in plot.caption
    dots = plot.marks[0]
    assert isinstance(dots, Dots)
    assert ([0, 1, 2, 3], [0.001, -0.01, None, 0.0]) == (dots.x, dots.low)
    assert [0.039, 0.05, 0.04] == pytest.approx([one for one in dots.high or () if one is not None])
    table = parts_of(Table, found)[0]
    assert ("MAP", 0.5, 0.4, "+0.0200 ± 0.0190", 0.03, 4, 2) == table.rows[0]
    assert ("NDCG@5", 0.5, 0.4, "+0.0200", 0.03, 4, 2) == table.rows[2]
    unclear = quality(report([0.5], compared[1:]), held(1))
    assert "They are not clearly better in any metric." in parts_of(Plot, unclear)[0].caption


@pytest.mark.parametrize(("wins", "losses"), [(1, 0), (0, 1)])
def test_one_query_that_differs_makes_a_comparison(wins: int, losses: int) -> None:
    compared = (comparison("map", None, wins=0), comparison("ndcg@10", None, wins=wins, losses=losses))

    assert (
        "What local models gain over the global scorer"
        == parts_of(Plot, quality(report([0.5], compared), held(1)))[0].title
    )
    alike = (comparison("map", None, wins=0), comparison("ndcg@10", None, wins=0))
    assert "Quality on held-out queries" == parts_of(Plot, quality(report([0.5], alike), held(1)))[0].title


@pytest.mark.parametrize("local", [True, False])
def test_a_blend_is_compared_with_each_member(*, local: bool) -> None:
    def rival(name: str, lows: tuple[float | None, float | None], weight: float) -> Any:
        both = (
            comparison("map", lows[0], baseline=0.3),
            comparison("ndcg@10", lows[1], baseline=0.2, n_queries=40),
        )
        return SimpleNamespace(name=name, comparisons=both, weight=weight, microseconds=12.6)

    blend = SimpleNamespace(
        rivals=[
            rival("linear", (-0.1, 0.01), 0.5),
            rival("trees", (0.01, 0.0), 0.2),
            rival("nets", (0.01, None), 0.0),
        ]
    )
    # In another order than the members' metrics.
    globally = (
        comparison("ndcg@10", 0.005, baseline=0.45, wins=int(local)),
        comparison("map", None, baseline=0.41, wins=0),
    )

    found = quality(report([0.5], globally, blend), held(1))

    (plot,) = parts_of(Plot, found)
    rows = [("without local models", None)] * local + [
        (f"`{name}` alone", 13) for name in ("linear", "trees", "nets")
    ]
    assert [name for name, _ in rows] == plot.x.categories
    better, count = (2, 4) if local else (1, 3)
    assert f"In NDCG@10 it is clearly better than {better} of {count}: " in plot.caption
    assert ["MAP", "NDCG@10"] == [mark.name for mark in plot.marks[:2]]
    table = parts_of(Table, found)[0]
    assert ("this model", 0.5, 0.5, "", "", None) == table.rows[0]
    assert rows == [(row[0], row[-1]) for row in table.rows[1:]]
    if local:
        assert ("without local models", 0.41, 0.45, "+0.0200", "+0.0200 ± 0.0150", None) == table.rows[1]
    assert ("`trees` alone", 0.3, 0.2, "+0.0200 ± 0.0100", "+0.0200 ± 0.0200", 13) == table.rows[-2]
    header = ("ranker", "MAP", "NDCG@10", "better by, MAP", "better by, NDCG@10", "CPU µs")
    assert header == table.header
