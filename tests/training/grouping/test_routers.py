"""Routers as training makes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from localrank.points.vectors import VectorPoint, VectorPoints
from localrank.routing.router import ExactRouter
from localrank.routing.routers import CentroidRouter, ClassifierRouter, FusionRouter, OverlapRouter
from localrank_training.data.clouds import Clouds
from localrank_training.grouping.clustering import cluster
from localrank_training.grouping.routers import centroids_of, fit_classifier, make_router
from localrank_training.learners.notes import collected
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.run.pipeline import build, learn_contract, own_routes, plan_of
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import ClusteringSettings
from tests.training.kinds import two_kinds

PLAIN = {"contract": {"normalise": "none"}, "representation": {"components": 1}}
VECTORS = {"representation": {"method": "mean"}, "similarity": {"method": "euclidean"}}


def points_of(n: int, width: int = 4, seed: int = 0) -> VectorPoints:
    random = np.random.default_rng(seed)
    centres = 3 * random.standard_normal((3, width))
    values = centres[np.arange(n) % 3] + random.standard_normal((n, width)) * [1, 10, 0.01, 1]
    return VectorPoints(values.astype(np.float32), np.ones(n, np.bool_))


@pytest.mark.parametrize("n_clusters", [2, 3])
@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_the_classifier_is_scikit_learns(n_clusters: int, strength: float) -> None:
    points = points_of(90)
    clusters = np.arange(90) % 3 % n_clusters
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=10_000))
    theirs.fit(points.values.astype(np.float64), clusters)

    router = FusionRouter(*fit_classifier(points, clusters, n_clusters, strength))

    expected = theirs.predict_proba(points.values.astype(np.float64))
    found = [router.route(points.of(query)).shares for query in range(90)]
    np.testing.assert_allclose(expected, found, atol=1e-9)


def test_a_cluster_that_no_query_teaches_is_never_predicted() -> None:
    points = points_of(30)

    weights, intercepts = fit_classifier(points, np.arange(30) % 3 * 2, 6, 1.0)

    shares = FusionRouter(weights, intercepts).route(points.of(0)).shares
    assert [0.0, 0.0, 0.0] == [shares[1], shares[3], shares[5]]
    only = ClassifierRouter(*fit_classifier(points, np.full(30, 1), 2, 1.0))
    assert {1} == {only.route(points.of(query)).cluster for query in range(30)}


def test_a_column_of_one_value_counts_nothing() -> None:
    points = points_of(30)
    values = points.values.copy()
    values[:, 1] = 0.1

    weights, _ = fit_classifier(VectorPoints(values, points.known), np.arange(30) % 3, 3, 1.0)

    assert [0.0] * 3 == weights[:, 1].tolist()


def test_a_query_that_is_not_known_teaches_no_classifier() -> None:
    points = points_of(31)
    known = np.arange(31) < 30
    values = points.values.copy()
    values[30] = 1e9

    with_it = fit_classifier(VectorPoints(values, known), np.arange(31) % 3, 3, 1.0)

    without = fit_classifier(points_of(31).take(np.arange(30)), np.arange(30) % 3, 3, 1.0)
    np.testing.assert_array_equal(without[0], with_it[0])


def test_a_classifier_that_does_not_settle_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_training.grouping.routers._STEPS", 2)

    with collected() as notes:
        fit_classifier(points_of(90), np.arange(90) % 3, 3, 100.0)

    assert ["the classifier did not converge in 2 steps; set a smaller [routing] C"] == [
        one.text for one in notes
    ]


def config(**tables: object) -> TrainingConfig:
    return TrainingConfig.from_tables({**PLAIN, **VECTORS, "clustering": {"clusters": 2}, **tables})


def test_a_centroid_is_the_mean_of_its_queries_points() -> None:
    queries = two_kinds()
    settings = config(clustering={"method": "kmeans", "clusters": 2}, routing={"method": "centroid"})
    clouds = Clouds(queries, learn_contract(queries, settings))

    plan = plan_of(clouds, settings)

    assert isinstance(plan.router, CentroidRouter)
    means = np.array([cloud.normalised.astype(np.float64).mean(axis=0) for cloud in clouds])
    for number in range(2):
        members = plan.clustering.labels == number
        np.testing.assert_allclose(
            means[members].mean(axis=0), plan.router.centroids.values[number], rtol=1e-5, atol=1e-6
        )


def test_nothing_is_near_a_centroid_of_nothing() -> None:
    points = points_of(10)

    found = centroids_of(points, np.arange(10) % 2 * 2, 3)

    assert [True, False, True] == found.known.tolist()
    router = CentroidRouter(found)
    assert {0, 2} == {router.route(points.of(query)).cluster for query in range(10)}
    assert {0, 2} >= {router.route(VectorPoint(np.zeros(4, np.float32))).cluster}


@pytest.mark.parametrize("method", ["centroid", "classifier", "fusion"])
def test_a_training_query_is_routed_by_what_others_teach(method: str) -> None:
    queries = two_kinds(23)
    settings = config(clustering={"method": "kmeans", "clusters": 3}, routing={"method": method})
    plan = plan_of(Clouds(queries, learn_contract(queries, settings)), settings)

    found = own_routes(plan, settings)

    part_of = np.random.default_rng(settings.seed).permutation(np.arange(23) % 5)
    for query in range(23):
        labels = np.where(part_of == part_of[query], -1, plan.clustering.labels)
        apart = make_router(plan.points, replace(plan.clustering, labels=labels), settings)
        assert apart.route(plan.points.of(query)) == found[query]
    assert found != [plan.router.route(plan.points.of(query)) for query in range(23)]


@pytest.mark.parametrize(
    ("routing", "router"),
    [
        ({"method": "centroid"}, CentroidRouter),
        ({"method": "classifier", "C": 2.0}, ClassifierRouter),
        ({"method": "fusion", "scores": "raw"}, FusionRouter),
        ({"method": "exact", "member": "farthest"}, ExactRouter),
    ],
)
def test_the_router_is_the_one_asked_for(routing: dict[str, object], router: type) -> None:
    built = build(two_kinds(), config(routing=routing), RankSvm())

    found = built.ranker.router
    assert router is type(found)
    assert "raw" == getattr(found, "scores", "raw")
    assert "farthest" == getattr(found, "member", "farthest")


def test_models_of_neighbours_are_found_by_the_neighbours_in_common() -> None:
    queries = two_kinds()
    settings = config(
        representation={"components": 1},
        similarity={},
        clustering={"method": "knn", "neighbours": 4},
        routing={"method": "overlap"},
    )
    clouds = Clouds(queries, learn_contract(queries, settings))

    plan = plan_of(clouds, settings)

    assert isinstance(plan.router, OverlapRouter)
    assert (24, 4) == plan.router.neighbours.shape
    for number, lesson in enumerate(plan.clustering.lessons):
        np.testing.assert_array_equal(lesson.queries, plan.router.neighbours[number])
        assert number in lesson.queries
    # Every neighbour is of the same kind.
    assert {0} == {len(set((lesson.queries % 2).tolist())) - 1 for lesson in plan.clustering.lessons}


@pytest.mark.parametrize("method", ["per_query", "knn"])
def test_a_model_per_query_has_the_query_and_its_neighbours_as_its_lesson(method: str) -> None:
    points = points_of(20)

    found = cluster(points, ClusteringSettings(method, neighbours=5), similarity="euclidean")  # type: ignore[arg-type]

    np.testing.assert_array_equal(np.arange(20), found.labels)
    np.testing.assert_array_equal(np.arange(20), found.prototypes)
    for query, lesson in enumerate(found.lessons):
        distances = np.linalg.norm(points.values.astype(np.float64) - points.values[query], axis=1)
        expected = np.sort(np.argsort(distances, kind="stable")[: 5 if method == "knn" else 1])
        np.testing.assert_array_equal(expected, lesson.queries)
        assert None is lesson.weights


def test_a_model_per_query_leaves_out_what_cannot_be_compared() -> None:
    points = points_of(6)
    points = VectorPoints(points.values, np.array([True, False, True, True, False, True]))

    found = cluster(points, ClusteringSettings("knn", neighbours=3), similarity="euclidean")

    assert [0, -1, 1, 2, -1, 3] == found.labels.tolist()
    assert all(set(lesson.queries.tolist()) <= {0, 2, 3, 5} for lesson in found.lessons)
    assert [0, 2, 3, 5] == found.prototypes.tolist()
    assert VectorPoint.kind == points.of(0).kind
