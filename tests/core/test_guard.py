"""A guard sends queries that do not fit their cluster down a chain, and says why."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from localrank.artifact import load, save
from localrank.artifact.manifest import MANIFEST, seal
from localrank.errors import ArtifactCorrupt
from localrank.features.contract import FeatureContract
from localrank.points.similarity import one_to_many
from localrank.ranker import Ranker
from localrank.routing.guard import Guard, GuardedRanker, Thresholds
from localrank.routing.route import Route
from localrank.routing.router import GlobalRouter

from .examples import ROUTER_EXAMPLES, example_queries, example_ranker, provenance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank.points.signature import Signature
    from localrank.routing.routers import LshRouter


def guarded(**thresholds: Thresholds) -> GuardedRanker:
    return GuardedRanker.around(example_ranker(), Guard(**thresholds))


def never() -> float:
    raise AssertionError("the distance was measured")


def test_the_distance_is_the_mean_excess_over_the_bulk_of_the_training_values() -> None:
    rng = np.random.default_rng(0)
    training = rng.normal(size=(500, 3)).astype(np.float32)
    training[:, 2] = 7.0
    contract = FeatureContract.learn(training, [500], normalise="none")
    documents = np.array([[0.0, 0.0, 7.0], [9.0, -3.0, 7.0], [2.5, 1e30, 6.5]], np.float32)

    expected = 0.0
    for row in documents:
        for feature, value in enumerate(row):
            low, high = (float(np.quantile(training[:, feature], q)) for q in (0.01, 0.99))
            spread = high - low if high > low else 1.0
            expected += min(1.0, max(0.0, low - value, value - high) / spread)

    assert contract.cloud(documents).outside() == pytest.approx(expected / 9, rel=1e-5)
    assert 0.0 == contract.outside(np.zeros((0, 3), np.float32))


@pytest.mark.parametrize(
    ("measure", "reason"),
    [("similarity", "low_similarity"), ("margin", "low_margin"), ("distance", "far_outside")],
)
def test_a_query_beyond_a_threshold_goes_to_the_global_scorer_and_says_why(measure: str, reason: str) -> None:
    unfit = -1.0 if measure == "distance" else 2.0
    plain, ranker = example_ranker(), guarded(**{measure: Thresholds(alone=unfit)})
    query = example_queries()[0]

    ranking = ranker.rank(query)

    assert (None, reason, False) == (ranking.route.cluster, ranking.route.fallback, ranking.route.local)
    assert plain.rank(query).route.similarity == ranking.route.similarity
    np.testing.assert_array_equal(plain.global_scorer.score(plain.contract.cloud(query)), ranking.scores)


def test_a_blend_is_the_mean_of_the_standardised_scores_of_the_two_best_clusters() -> None:
    ranker = guarded(margin=Thresholds(blend=2.0))
    for query in example_queries():
        cloud = ranker.contract.cloud(query)
        point = ranker.representation.of(cloud)
        first = ranker.router.route(point).cluster
        assert first is not None
        second = ranker.router.runner_up(point, first, len(ranker.scorers))
        assert second is not None

        ranking = ranker.rank(query)

        assert "low_margin" == ranking.route.fallback
        assert first == ranking.route.cluster
        assert {first: 0.5, second: 0.5} == {c: s for c, s in enumerate(ranking.route.shares) if s}
        scores = [ranker.scorers[cluster].score(cloud) for cluster in (first, second)]
        expected = sum((one - one.mean()) / one.std() for one in scores) / 2
        np.testing.assert_allclose(expected, ranking.scores, rtol=1e-9)


def test_a_query_that_fits_is_ranked_as_without_a_guard() -> None:
    plain = example_ranker()
    ranker = guarded(
        similarity=Thresholds(-1.0, -2.0), margin=Thresholds(-1.0), distance=Thresholds(2.0, 3.0)
    )
    for query in [*example_queries(), example_queries()[0][:1], example_queries()[0][:0]]:
        expected, found = plain.rank(query), ranker.rank(query)

        assert expected.route == found.route
        np.testing.assert_array_equal(expected.scores, found.scores)


def test_the_rung_furthest_down_counts_whatever_measure_it_is_of() -> None:
    route = Route("exact", 1, 0.4, 0.1, 9)
    both = Guard(similarity=Thresholds(blend=0.5), margin=Thresholds(alone=0.2))

    assert ("global", "low_margin") == both.judge(route, never)
    assert ("blend", "low_similarity") == both.judge(route._replace(margin=None), never)
    assert both.judge(route._replace(similarity=0.5, margin=0.2), never) is None
    assert ("global", "far_outside") == Guard(distance=Thresholds(0.1, 0.2)).judge(route, lambda: 0.21)
    assert ("blend", "far_outside") == Guard(distance=Thresholds(0.1, 0.2)).judge(route, lambda: 0.2)


def test_the_global_scorers_queries_are_not_judged() -> None:
    plain = example_ranker()
    alone = Ranker(plain.contract, plain.representation, GlobalRouter(), (), plain.global_scorer)

    route = (
        GuardedRanker.around(alone, Guard(distance=Thresholds(alone=-1.0))).rank(example_queries()[0]).route
    )

    assert route.fallback is None


@pytest.mark.parametrize("strategy", sorted(ROUTER_EXAMPLES.keys() - {"lsh"}))
def test_the_runner_up_is_the_nearest_other_cluster(strategy: str) -> None:
    ranker = example_ranker(strategy)
    n_clusters = len(ranker.scorers)
    for query in example_queries(seed=1):
        point = ranker.representation.of(ranker.contract.cloud(query))
        first = ranker.router.route(point).cluster
        near = ranker.router.nearest(point, n_clusters)

        second = ranker.router.runner_up(point, first or 0, n_clusters)

        if near is None or first is None:
            assert second is None
        else:
            assert second not in {None, first}
            assert np.delete(near, first).max() == near[second]


def test_the_runner_up_of_hash_tables_is_the_best_other_cluster_of_what_was_compared() -> None:
    ranker = example_ranker("lsh")
    router = cast("LshRouter", ranker.router)
    for query in example_queries(seed=1):
        signature = cast("Signature", ranker.representation.of(ranker.contract.cloud(query)))
        found = router.tables.candidates(signature, None, router.rerank, cap=router.cap, probes=router.probes)
        compared = [*found.tolist(), *router.exemplars]
        first = router.route(signature).cluster
        similarities = one_to_many(signature, router.points, router.similarity)
        others = [one for one in compared if router.clusters[one] != first]
        expected = router.clusters[max(others, key=lambda one: similarities[one])]

        assert first is not None
        assert expected == router.runner_up(signature, first, 3)


def test_an_artifact_keeps_its_guard(tmp_path: Path) -> None:
    guard = Guard(Thresholds(0.5, 0.25), Thresholds(blend=1 / 3), Thresholds(alone=0.125))
    ranker = GuardedRanker.around(example_ranker(), guard)

    save(tmp_path / "m" / "1", ranker, provenance(example_ranker()))

    found = load(tmp_path / "m" / "1").ranker
    assert isinstance(found, GuardedRanker)
    assert guard == found.guard
    assert [one.name for one in fields(Ranker)] == [one.name for one in fields(GuardedRanker)][:-1]


def test_an_artifact_without_a_guard_says_nothing_of_one(tmp_path: Path) -> None:
    ranker = example_ranker()

    manifest = save(tmp_path / "m" / "1", ranker, provenance(ranker))

    assert "guard" not in manifest.raw
    assert type(load(tmp_path / "m" / "1").ranker) is Ranker


def _without(members: dict[str, Any]) -> None:
    del members["margin"]


def _text(members: dict[str, Any]) -> None:
    members["margin"]["blend"] = "0.5"


def _truth(members: dict[str, Any]) -> None:
    members["distance"]["global"] = True


def _rung(members: dict[str, Any]) -> None:
    members["distance"]["first"] = 1.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without, "guard: expected similarity, margin, distance, found 'similarity', 'distance'"),
        (_text, "guard: margin: blend: expected a number or null, found '0.5'"),
        (_truth, "guard: distance: global: expected a number or null, found True"),
        (_rung, "guard: distance: expected blend and global, found"),
    ],
)
def test_a_guard_that_is_not_one_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    ranker = guarded(margin=Thresholds(blend=-1.0))
    save(tmp_path / "m" / "1", ranker, provenance(ranker))
    path = tmp_path / "m" / "1" / MANIFEST
    members = json.loads(path.read_text())
    change(members["guard"])
    path.write_bytes(seal(json.dumps(members)))

    with pytest.raises(ArtifactCorrupt, match=said):
        load(tmp_path / "m" / "1")
