"""Routers that predict the cluster, against softmax of scipy and sums written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import zscore

from localrank.errors import InvalidConfiguration
from localrank.points.vectors import VectorPoint
from localrank.routing.routers import LARGEST, ClassifierRouter, FusionRouter
from tests.core.examples import example_queries, example_ranker


def drawn(seed: int, n_clusters: int = 4, width: int = 6) -> tuple[np.ndarray, np.ndarray, VectorPoint]:
    random = np.random.default_rng(seed)
    values = random.standard_normal(width).astype(np.float32)
    return (
        random.standard_normal((n_clusters, width)),
        random.standard_normal(n_clusters),
        VectorPoint(values),
    )


@given(seed=st.integers(0, 2**32 - 1))
def test_the_most_probable_cluster_answers(seed: int) -> None:
    weights, intercepts, point = drawn(seed)
    expected = softmax(weights @ point.values + intercepts)

    route = ClassifierRouter(weights, intercepts).route(point)

    first, second = np.sort(expected)[:-3:-1]
    assert (int(np.argmax(expected)), ()) == (route.cluster, route.shares)
    assert (first, first - second) == pytest.approx((route.similarity, route.margin))


def test_fusion_has_the_probabilities_as_shares() -> None:
    weights, intercepts, point = drawn(1)

    route = FusionRouter(weights, intercepts).route(point)

    np.testing.assert_allclose(softmax(weights @ point.values + intercepts), route.shares, rtol=1e-12)
    assert sum(route.shares) == pytest.approx(1)
    assert ClassifierRouter(weights, intercepts).route(point)[1:4] == route[1:4]


@pytest.mark.parametrize("router", [ClassifierRouter, FusionRouter])
def test_an_unknown_point_goes_to_the_global_scorer(router: type[ClassifierRouter | FusionRouter]) -> None:
    weights, intercepts, point = drawn(2)

    route = router(weights, intercepts).route(replace(point, known=False))

    assert (None, "no_signature", (), False) == (route.cluster, route.fallback, route.shares, route.local)


def test_one_cluster_has_no_margin() -> None:
    weights, intercepts, point = drawn(3, n_clusters=1)

    assert (0, 1.0, None) == ClassifierRouter(weights, intercepts).route(point)[1:4]


def test_no_weight_that_may_be_stored_makes_a_probability_that_is_not_finite() -> None:
    largest = VectorPoint(np.full(6, np.finfo(np.float32).max, np.float32))
    weights = LARGEST * np.array([[1.0] * 6, [-1.0] * 6, [1.0, -1.0] * 3])

    shares = FusionRouter(weights, np.array([0.0, LARGEST, -LARGEST])).route(largest).shares

    assert [1.0, 0.0, 0.0] == list(shares)


@pytest.mark.parametrize("scores", ["standard", "raw"])
def test_the_scores_of_all_clusters_are_added_by_their_shares(scores: str) -> None:
    """Cremers et al., eq. 2: the sum over clusters of their score times p(c|q); raw is as published."""
    ranker = example_ranker("fusion")
    assert isinstance(ranker.router, FusionRouter)
    ranker = replace(ranker, router=replace(ranker.router, scores=scores))

    for documents in example_queries(6, seed=4):
        cloud = ranker.contract.cloud(documents)
        shares = ranker.route(cloud).shares
        expected = np.zeros(len(documents))
        for share, scorer in zip(shares, ranker.scorers, strict=True):
            own = scorer.score(cloud)
            expected += share * (zscore(own) if scores == "standard" else own)

        ranking = ranker.rank(documents)

        np.testing.assert_allclose(expected, ranking.scores, rtol=1e-9, atol=1e-9)
        assert (scores == "standard", True) == (ranking.route.standard, ranking.route.local)


def test_a_cluster_whose_scores_are_large_does_not_drown_the_others_unless_asked_for() -> None:
    ranker = example_ranker("fusion")
    loud = replace(ranker.scorers[0], weights=1e6 * ranker.scorers[0].weights)  # type: ignore[type-var, attr-defined]
    louder = replace(ranker, scorers=(loud, *ranker.scorers[1:]))
    (documents,) = example_queries(1, seed=7)

    np.testing.assert_allclose(ranker.rank(documents).scores, louder.rank(documents).scores, rtol=1e-9)


def test_unknown_scores_are_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="expected scores to be one of standard, raw, found 'sum'"):
        FusionRouter(np.zeros((2, 3)), np.zeros(2), "sum")
