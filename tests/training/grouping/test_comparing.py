from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.points.signature import SIMILARITIES, PcaRepresentation
from localrank.points.similarity import all_pairs, one_to_many
from localrank.points.vectors import VectorPoints
from localrank_training.grouping import clustering as comparing
from localrank_training.grouping.clustering import between, farthest_members, most_similar, total_similarity

if TYPE_CHECKING:
    from localrank.points.representation import Points
    from localrank.points.signature import Signatures


def signatures_of(n_queries: int, seed: int) -> Signatures:
    """Make signatures of full and of lower rank."""
    rng = np.random.default_rng(seed)
    clouds = [
        (rng.normal(size=(2 + one % 9, 6)) * rng.uniform(0.1, 3, 6)).astype(np.float32)
        for one in range(n_queries)
    ]
    return PcaRepresentation(3).sign_all(clouds)


@pytest.mark.parametrize("similarity", [*SIMILARITIES, "euclidean"])
def test_blocks_hold_the_similarity_of_every_point_to_every_other(
    similarity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points: Points = signatures_of(50, seed=1)
    others: Points = signatures_of(7, seed=2)
    if similarity == "euclidean":
        points, others = (
            VectorPoints(one.directions[:, 0], np.ones(len(one), np.bool_))
            for one in (signatures_of(50, 1), signatures_of(7, 2))
        )
    monkeypatch.setattr(comparing, "_BLOCK", 4 * 7 * 20)

    blocks = list(between(points, others, similarity))

    expected = [one_to_many(points.of(one), others, similarity) for one in range(50)]
    assert [0, 20, 40] == [start for start, _ in blocks]
    np.testing.assert_allclose(np.concatenate([block for _, block in blocks]), expected, atol=1e-6)
    np.testing.assert_allclose(
        np.sum(expected, axis=1), total_similarity(points, others, similarity), rtol=1e-5
    )


def test_the_most_similar_other_is_found() -> None:
    points, others = signatures_of(40, seed=1), signatures_of(9, seed=2)

    found = most_similar(points, others, "eq5")

    expected = [one_to_many(points.of(one), others, "eq5").argmax() for one in range(40)]
    np.testing.assert_array_equal(expected, found)


@pytest.mark.parametrize("n_groups", [1, 2, 30, 200])
def test_groups_are_as_far_as_their_farthest_members(n_groups: int) -> None:
    points = signatures_of(200, seed=3)
    groups = np.random.default_rng(0).permutation(np.arange(200) % n_groups)

    found = farthest_members(points, groups, "eq5")

    distances = 1.0 - all_pairs(points, "eq5")
    expected = [
        [0.0 if a == b else distances[np.ix_(groups == a, groups == b)].max() for b in range(n_groups)]
        for a in range(n_groups)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)
