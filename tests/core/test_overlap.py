"""KNN offline-1, against sets."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.points.signature import Signature, one_to_many
from localrank.routing.router import ExactRouter
from localrank.routing.routers import OverlapRouter

from .clouds import clustered, scattered


def nearest_of(similarities: np.ndarray, count: int) -> list[int]:
    return sorted(range(len(similarities)), key=lambda query: -similarities[query])[:count]


@pytest.mark.parametrize("count", [1, 4, 10])
def test_the_model_that_shares_most_neighbours_answers(count: int) -> None:
    """Geng et al., KNN offline-1: the model whose training set has the largest intersection with the neighbours."""
    signatures = scattered(60)
    known, asked = signatures.take(np.arange(40)), signatures.take(np.arange(40, 60))
    sets = [nearest_of(one_to_many(known.of(query), known), count) for query in range(40)]
    router = OverlapRouter(known, np.arange(40), np.array(sets))

    for query in range(len(asked)):
        similarities = one_to_many(asked.of(query), known)
        own = set(nearest_of(similarities, count))
        shared = [len(own & set(members)) for members in sets]
        most = max(shared)
        expected = max((one for one in range(40) if shared[one] == most), key=lambda one: similarities[one])

        route = router.route(asked.of(query))

        assert expected == route.cluster
        assert most / count == pytest.approx(route.similarity)
        rest = max(value for one, value in enumerate(shared) if one != expected)
        lead = (most - rest) / count
        if most == rest:
            tied = [one for one in range(40) if shared[one] == most and one != expected]
            lead = similarities[expected] - max(similarities[tied])
        assert lead == pytest.approx(route.margin)
        found = router.nearest(asked.of(query), 40)
        assert found is not None
        np.testing.assert_allclose(np.array(shared) / count, found)


def test_with_one_neighbour_it_is_the_nearest_query() -> None:
    signatures, _ = clustered(30, 3, 0.5)
    asked, _ = clustered(40, 3, 0.5)
    router = OverlapRouter(signatures, np.arange(30), np.arange(30)[:, None])

    for query in range(30, 40):
        expected = ExactRouter(signatures, np.arange(30)).route(asked.of(query))

        assert expected.cluster == router.route(asked.of(query)).cluster


def test_a_query_without_directions_goes_to_the_global_scorer() -> None:
    known = scattered(6)
    router = OverlapRouter(known, np.arange(6), np.arange(6)[:, None])
    nothing = Signature(np.zeros_like(known.directions[0]), np.zeros(known.directions.shape[1]), 0)

    route = router.route(nothing)

    assert (None, "no_signature", False) == (route.cluster, route.fallback, route.local)


def test_a_new_query_stands_for_the_first_query_of_its_cluster() -> None:
    known, new = scattered(8).take(np.arange(6)), scattered(8).take(np.arange(6, 8))
    neighbours = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]])
    router = OverlapRouter(known, np.array([2, 0, 1, 0, 2, 1]), neighbours)

    grown = router.grown(new, np.array([2, 1]))

    assert isinstance(grown, OverlapRouter)
    assert [2, 0, 1, 0, 2, 1, 2, 1] == grown.clusters.tolist()
    assert [*neighbours.tolist(), [0, 1], [2, 3]] == grown.neighbours.tolist()
