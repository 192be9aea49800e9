"""Vectors are compared by one over one and their distance."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.points import vectors
from localrank.points.vectors import VectorPoint, VectorPoints, euclidean_to_all, euclidean_to_many, stacked

ASKED = VectorPoint(np.array([1, 2], np.float32))
OTHERS = stacked(VectorPoint(np.array(one, np.float32)) for one in ([1, 2], [4, 6], [1, 3], [-5, 10]))


@pytest.mark.parametrize("cells", [1, 4, 1000])
def test_the_similarity_is_one_over_one_and_the_distance(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_CELLS", cells)

    assert [1.0, 1 / 6, 1 / 2, 1 / 11] == euclidean_to_many(ASKED, OTHERS).tolist()


def test_all_pairs_are_one_to_many_from_each() -> None:
    expected = [euclidean_to_many(OTHERS.of(query), OTHERS).tolist() for query in range(4)]

    assert expected == euclidean_to_all(OTHERS).tolist()


def test_vectors_of_no_width_are_alike() -> None:
    none = VectorPoints(np.zeros((3, 0), np.float32), np.zeros(3, np.bool_))

    assert [1.0, 1.0, 1.0] == euclidean_to_many(none.of(0), none).tolist()


def test_points_are_stacked_in_their_order_with_what_is_known() -> None:
    points = stacked([ASKED, VectorPoint(np.zeros(2, np.float32), known=False)])

    assert ([[1, 2], [0, 0]], [True, False]) == (points.values.tolist(), points.known.tolist())
    assert not points.take(np.array([1, 0])).of(0).known
    assert (0, (0, 0)) == (len(stacked([])), stacked([]).values.shape)
