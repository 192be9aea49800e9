"""Which features matter: the numbers of the plot and of the table, from importances that are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank_training.importances import Importances
from localrank_training.report import Bars, Plot, Table
from localrank_training.reporting.features import features


def importances(overall: list[float], clusters: list[list[float]], errors: list[float]) -> Importances:
    names = tuple(f"f{number}" for number in range(len(overall)))
    return Importances(names, np.array(overall), np.array(clusters), np.array(errors))


def report(*sizes: int) -> Any:
    return SimpleNamespace(clusters=[SimpleNamespace(size=size) for size in sizes])


def bars(part: Any) -> tuple[Plot, Bars]:
    assert isinstance(part, Plot)
    (mark,) = part.marks
    assert isinstance(mark, Bars)
    return part, mark


def test_the_largest_shares_come_first_with_their_intervals() -> None:
    found = importances([0.1, 0.6, 0.0, 0.3], [], [0.1, 0.02, 0.0, 0.05])

    plot, text = features(found, report(4)).parts
    drawn, mark = bars(plot)

    assert ["f1", "f3", "f0"] == drawn.x.categories
    assert [0, 1, 2] == list(mark.x)
    assert [60, 30, 10] == pytest.approx(mark.y)
    # 1.96 standard errors on both sides; nothing is below zero.
    assert [60 - 3.92, 30 - 9.8, 0] == pytest.approx(mark.low)
    assert [60 + 3.92, 30 + 9.8, 10 + 19.6] == pytest.approx(mark.high)
    assert drawn.sideways
    assert "The first 3 of 4 features carry 100% of" in drawn.caption
    assert "95 % intervals over queries" == drawn.intervals
    assert "1 of 4 features add nothing to any score: `f2`." == text


def test_of_one_query_there_are_no_intervals() -> None:
    plot, *_ = features(importances([0.9, 0.1], [], [np.nan, np.nan]), report()).parts
    drawn, mark = bars(plot)

    assert (None, None, "") == (mark.low, mark.high, drawn.intervals)
    assert "The first 2 of 2 features carry 100% of" in drawn.caption


def test_fifteen_features_are_drawn_and_ten_of_those_without_a_share_are_named() -> None:
    shares = [0.2] * 3 + [0.03] * 13 + [0.01]

    plot, text = features(importances([*shares, *[0.0] * 12], [], [0.0] * 29), report(3)).parts
    *_, ten = features(importances([*shares, *[0.0] * 10], [], [0.0] * 27), report(3)).parts

    assert [f"f{number}" for number in range(15)] == bars(plot)[0].x.categories
    assert "carry 60% of" in bars(plot)[0].caption
    named = ", ".join(f"`f{number}`" for number in range(17, 27))
    assert f"12 of 29 features add nothing to any score: {named} and 2 more." == text
    assert f"10 of 27 features add nothing to any score: {named}." == ten


def test_clusters_come_largest_first_with_their_features_and_what_is_more_than_overall() -> None:
    overall = [0.4, 0.3, 0.2, 0.06, 0.04]
    clusters = [
        [0.1, 0.3, 0.5, 0.06, 0.04],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [0.404, 0.297, 0.2, 0.06, 0.039],
        [0.405, 0.295, 0.2, 0.06, 0.04],
    ]

    *_, table = features(importances(overall, clusters, [0.1] * 5), report(10, 30, 20, 5)).parts

    assert isinstance(table, Table)
    assert [
        (1, 30, "", ""),
        # Less than half a point is no difference.
        (2, 20, "`f0` 40%, `f1` 30%, `f2` 20%, `f3` 6%", ""),
        (0, 10, "`f2` 50%, `f1` 30%, `f0` 10%, `f3` 6%", "`f2` +30 points"),
        (3, 5, "`f0` 40%, `f1` 30%, `f2` 20%, `f3` 6%", "`f0` +1 points"),
    ] == [tuple(row) for row in table.rows]


def test_twenty_five_clusters_are_listed_and_a_single_one_is_not() -> None:
    many = importances([1.0], [[1.0]] * 27, [0.0])

    *_, table = features(many, report(*range(1, 28))).parts
    alone = features(importances([1.0], [[1.0]], [0.0]), report(9)).parts

    assert isinstance(table, Table)
    assert list(range(26, 1, -1)) == [row[0] for row in table.rows]
    assert 1 == len(alone)


def test_without_importances_it_is_a_sentence() -> None:
    (text,) = features(None, report(3, 2)).parts

    assert "There are no importances" in str(text)
