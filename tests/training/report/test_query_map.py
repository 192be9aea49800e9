"""Training queries in two dimensions: the best ones, near each other if they are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank import Registry, artifact
from localrank.features.contract import FeatureContract
from localrank.points.signature import PcaRepresentation, Signatures
from localrank.points.similarity import all_pairs, one_to_many
from localrank.routing.router import ExactRouter
from localrank.routing.routers import LshRouter
from localrank_training.data.clouds import Clouds
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.publishing.publish import publish
from localrank_training.report.query_map import map_of, query_map
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank.points.representation import Point
    from localrank.points.similarity import QueryMap
    from localrank.routing.router import Router
    from localrank_training.data.queries import QuerySet
    from localrank_training.run.train import Trained


def points_of(n_queries: int = 60, kinds: int = 3) -> tuple[Signatures, np.ndarray]:
    queries, of_kind = synthesize(n_queries, Recipe(features=12, kinds=kinds), seed=1)
    contract = FeatureContract.learn(queries.documents, queries.lengths.tolist(), normalise="global_zscore")
    return PcaRepresentation(2).of_all(Clouds(queries, contract)), of_kind


def placed(found: QueryMap, point: Point, router: Router) -> Vector:
    place = found.place(point, router)
    assert place is not None
    return place


@pytest.mark.parametrize("similarity", ["eq5", "covariance"])
def test_coordinates_are_the_best_two_dimensions_of_the_centred_similarities(similarity: str) -> None:
    points, kinds = points_of()
    similarities = all_pairs(points, similarity)
    centring = np.eye(len(points)) - 1 / len(points)
    centred = centring @ similarities @ centring

    found = query_map(points, kinds, similarity)

    left, sizes, right = np.linalg.svd(centred)
    best = (left[:, :2] * sizes[:2]) @ right[:2]
    np.testing.assert_allclose(found.coordinates @ found.coordinates.T, best, atol=1e-4)
    assert found.shown == pytest.approx((sizes[:2] ** 2).sum() / (sizes**2).sum(), abs=1e-6)


def test_queries_of_one_kind_are_near_each_other() -> None:
    points, kinds = points_of()

    found = query_map(points, kinds, "covariance").coordinates

    apart = np.linalg.norm(found[:, None] - found[None], axis=2)
    same = kinds[:, None] == kinds[None]
    assert apart[same].mean() < 0.5 * apart[~same].mean()


def test_queries_that_cannot_be_compared_have_no_place() -> None:
    points, kinds = points_of()
    ranks = points.ranks.copy()
    ranks[[3, 17]] = 0

    found = query_map(Signatures(points.directions, points.eigenvalues, ranks), kinds, "eq5")

    assert {3, 17} == set(range(60)) - set(found.queries.tolist())
    assert (58, 2) == found.coordinates.shape


def test_of_many_queries_some_are_drawn_and_the_same_ones_again() -> None:
    points, kinds = points_of()

    found, again = (query_map(points, kinds, "eq5", most=20, seed=5) for _ in range(2))

    assert 20 == len(found.queries) == len(np.unique(found.queries))
    np.testing.assert_array_equal(found.queries, again.queries)
    np.testing.assert_array_equal(found.coordinates, again.coordinates)
    np.testing.assert_array_equal(kinds[found.queries], found.clusters)


@pytest.mark.parametrize("n_queries", [0, 1, 2])
def test_a_map_of_hardly_any_queries(n_queries: int) -> None:
    points, kinds = points_of()

    found = query_map(points.take(np.arange(n_queries)), kinds[:n_queries], "eq5")

    assert (n_queries, 2) == found.coordinates.shape
    assert np.isfinite(found.coordinates).all()


@pytest.mark.parametrize("similarity", ["eq5", "covariance"])
def test_a_query_of_the_map_gets_its_own_place(similarity: str) -> None:
    points, kinds = points_of()
    found = query_map(points, kinds, similarity)
    router = ExactRouter(points, kinds, similarity)

    places = [placed(found, points.of(query), router) for query in range(len(points))]

    np.testing.assert_allclose(np.stack(places), found.coordinates, atol=1e-4)


def test_a_new_query_gets_the_place_that_keeps_its_scalar_products_best() -> None:
    """[gower1968]: the least squares solution of ``X y = b``, b being its similarities, centred as those of the map are."""
    points, kinds = points_of()
    found = query_map(points.take(np.arange(50)), kinds[:50], "covariance")
    router = ExactRouter(points.take(np.arange(50)), kinds[:50], "covariance")
    among = all_pairs(points.take(np.arange(50)), "covariance")

    for query in range(50, 60):
        place = placed(found, points.of(query), router)

        similarities = one_to_many(points.of(query), points.take(np.arange(50)), "covariance")
        centred = similarities - similarities.mean() - among.mean(axis=0) + among.mean()
        expected, *_ = np.linalg.lstsq(found.coordinates.astype(float), centred, rcond=None)
        np.testing.assert_allclose(place, expected, atol=1e-4)


def trained(*overrides: str) -> tuple[Trained, QuerySet]:
    queries, _ = synthesize(60, Recipe(features=6, kinds=3), seed=1)
    settings = overrides or ("clustering.clusters=3",)
    config = TrainingConfig.read(method="localrank", overrides=["learner.method=linear", *settings])
    return train(queries, config), queries


def mapped(found: Trained) -> QueryMap | None:
    return map_of(
        found.built.ranker, found.queries, found.built.clusters, found.config.similarity.name, seed=3
    )


def test_the_map_of_a_model_names_the_queries_that_its_router_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_training.report.query_map.MOST", 25)
    found, _ = trained()
    router = found.built.ranker.router

    drawn = mapped(found)

    assert drawn is not None
    assert drawn.points is None
    assert 25 == len(drawn) == len(np.unique(drawn.queries))
    assert isinstance(router, LshRouter)
    np.testing.assert_array_equal(router.clusters[drawn.queries], drawn.clusters)
    places = [placed(drawn, router.points.of(int(query)), router) for query in drawn.queries]
    np.testing.assert_allclose(np.stack(places), drawn.coordinates, atol=1e-4)


def test_a_map_holds_points_if_the_router_holds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = trained("clustering.clusters=3", "routing.method=medoid")

    whole = mapped(found)
    monkeypatch.setattr("localrank_training.report.query_map._ROOM", 2000)
    without = mapped(found)

    assert whole is not None
    assert without is not None
    assert whole.points is not None
    assert (60, None) == (len(without), without.points)
    places = [placed(whole, whole.points.of(query), found.built.ranker.router) for query in range(60)]
    np.testing.assert_allclose(np.stack(places), whole.coordinates, atol=1e-4)
    assert without.place(whole.points.of(0), found.built.ranker.router) is None


def test_a_model_without_clusters_has_no_map() -> None:
    found, _ = trained("clustering.method=none")

    assert mapped(found) is None


def test_a_published_version_holds_its_map(tmp_path: Path) -> None:
    found, queries = trained()

    reference = publish(Registry(tmp_path), "web", found, queries)

    drawn, stored = mapped(found), artifact.load(reference.path).query_map
    assert drawn is not None
    assert stored is not None
    np.testing.assert_array_equal(drawn.coordinates, stored.coordinates)
    assert (drawn.shown, drawn.similarity) == (stored.shown, stored.similarity)
