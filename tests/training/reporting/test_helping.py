"""What would help: losses and the learning curve, as the numbers of the plots and of the tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from localrank_training.report import Dots, Line, Plot, Table
from localrank_training.reporting.helping import advised, curved


def loss(low: float | None, difference: float) -> Any:
    interval = None if low is None else SimpleNamespace(low=low, high=2 * difference - low)
    return SimpleNamespace(
        candidate=0.6,
        baseline=0.6 - difference,
        difference=difference,
        interval=interval,
        p_holm=0.04,
        n_queries=30,
    )


def test_advice_shows_each_loss_with_its_interval() -> None:
    removals = [
        SimpleNamespace(text=text, loss=one)
        for text, one in (("half", loss(0.01, 0.03)), ("f1", loss(None, -0.02)))
    ]
    advice: Any = SimpleNamespace(
        removals=removals, queries=1000, of=2000, documents=12_345, sentences=("map 0.5 is one.", "Second.")
    )

    *sentences, plot, table = advised(advice).parts

    assert ["MAP 0.5 is one.", "Second."] == sentences
    assert isinstance(plot, Plot)
    assert "reaches NDCG@10 0.6000 with all data" in plot.caption
    assert ["without half", "without f1"] == plot.x.categories
    dots = plot.marks[0]
    assert isinstance(dots, Dots)
    assert ([0.03, -0.02], [0.01, None]) == (dots.y, dots.low)
    assert isinstance(table, Table)
    assert [("half", 0.57, "+0.0300 ± 0.0200", 0.04), ("f1", 0.62, "−0.0200", 0.04)] == table.rows
    assert "1,000 of 2,000 queries and their 12,345 documents" in table.caption


def test_a_curve_shows_how_far_each_point_is_behind_the_last() -> None:
    points = [
        SimpleNamespace(queries=10.4, mean=0.4, behind=SimpleNamespace(difference=0.2, interval=SimpleNamespace(low=0.15, high=0.25))),
        SimpleNamespace(queries=20.6, mean=0.5, behind=SimpleNamespace(difference=0.1, interval=None)),
        SimpleNamespace(queries=40.0, mean=0.6, behind=None),
    ]  # fmt: skip
    curve: Any = SimpleNamespace(points=points, examined=25, sentence="ndcg@10 would rise.")

    sentence, plot, table = curved(curve).parts

    assert "NDCG@10 would rise." == sentence
    assert isinstance(plot, Plot)
    line, dots = plot.marks
    assert isinstance(line, Line)
    assert isinstance(dots, Dots)
    assert not line.dots
    assert [10.4, 20.6, 40.0] == line.x == dots.x
    assert [0.4, 0.5, 0.6] == line.y == dots.y
    # The last point less what is missing to it.
    assert [0.35, None, None] == pytest.approx(dots.low)
    assert [0.45, None, None] == pytest.approx(dots.high)
    assert 0 == line.tone == dots.tone
    assert plot.x.zero
    assert not plot.numbers
    assert "over 25 queries" in plot.intervals
    assert isinstance(table, Table)
    assert [
        (10, 0.4, "−0.2000", "[−0.2500, −0.1500]"),
        (21, 0.5, "−0.1000", ""),
        (40, 0.6, "", ""),
    ] == table.rows


def test_what_is_not_known_is_a_sentence() -> None:
    assert ["too few"] == advised(None, "too few").parts
    assert ["none asked for"] == curved(None, "none asked for").parts
