from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from localrank import ranker
from localrank.errors import ScoringFailed
from localrank.features.contract import FeatureContract
from localrank.points.signature import PcaRepresentation
from localrank.ranker import Ranker, Stopwatch, best_first
from localrank.routing.router import ExactRouter, GlobalRouter
from localrank.scorers import LinearScorer

pytestmark = pytest.mark.usefixtures("arithmetic")


def ranker_of(*weights: float) -> Ranker:
    """Two kinds of query, spread along the first or the second feature, each with its own scorer."""
    rng = np.random.default_rng(0)
    clouds = [(rng.normal(size=(9, 3)) * spread).astype(np.float32) for spread in ([9, 1, 0.1], [1, 9, 0.1])]
    contract = FeatureContract.learn(np.concatenate(clouds), [9, 9], normalise="none", missing="zero")
    representation = PcaRepresentation(1)
    scorers = tuple(LinearScorer(np.roll([1.0, 0.0, 0.0], i)) for i in range(2))
    router = ExactRouter(representation.sign_all(clouds), np.array([0, 1]))
    return Ranker(
        contract, representation, router, scorers, LinearScorer(np.array(weights or (0.0, 0.0, 1.0)))
    )


def test_a_query_is_scored_by_the_cluster_it_looks_like() -> None:
    spread_along_second = np.array([[0, 1, 5], [0, 3, 4], [0, 2, 3]], np.float32)

    ranking = ranker_of().rank(spread_along_second)

    assert 1 == ranking.route.cluster
    assert [1, 2, 0] == ranking.order.tolist()
    np.testing.assert_array_equal([1, 3, 2], ranking.scores)


@pytest.mark.parametrize("documents", [[[1, 2, 3]], [[1, 2, 3], [1, 2, 3]], np.zeros((0, 3))])
def test_a_query_without_a_shape_gets_the_global_scorer_and_says_so(documents: object) -> None:
    ranking = ranker_of().rank(np.array(documents, np.float32))

    assert (None, "no_signature") == (ranking.route.cluster, ranking.route.fallback)
    assert [0.0 + 3] * len(ranking.scores) == ranking.scores.tolist()


def test_the_global_router_never_leaves_the_global_scorer() -> None:
    base = ranker_of()
    ranker = Ranker(base.contract, base.representation, GlobalRouter(), (), base.global_scorer)

    ranking = ranker.rank(np.array([[1, 2, 3], [3, 1, 5]], np.float32))

    assert (None, None, "global") == (ranking.route.cluster, ranking.route.fallback, ranking.route.strategy)
    assert [1, 0] == ranking.order.tolist()


def test_a_query_that_cannot_go_elsewhere_is_neither_signed_nor_routed() -> None:
    base = ranker_of()
    ranker = Ranker(base.contract, PcaRepresentation(10**15), GlobalRouter(), (), base.global_scorer)
    stopwatch = Stopwatch()
    documents = np.array([[1, 2, 3], [3, 1, 5]], np.float32)

    ranking = ranker.rank(documents, stage=stopwatch)

    assert ["score", "order"] == list(stopwatch.milliseconds)
    assert ranking.route == ranker.route(ranker.contract.cloud(documents))
    with pytest.raises(MemoryError):  # a signature of so many directions cannot be made
        ranker.representation.of(ranker.contract.cloud(documents))


def test_missing_values_are_counted() -> None:
    documents = np.array([[1, np.nan, 3], [2, np.nan, 1]], np.float32)

    assert {1: 2} == ranker_of().rank(documents).imputed


def test_every_stage_is_measured_in_the_order_run() -> None:
    stopwatch = Stopwatch()

    ranker_of().rank(np.eye(3, dtype=np.float32), stage=stopwatch)

    assert ["sign", "route", "score", "order"] == list(stopwatch.milliseconds)
    assert all(milliseconds >= 0 for milliseconds in stopwatch.milliseconds.values())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time is the last of these."""
    times = [100.0]
    monkeypatch.setattr(ranker, "perf_counter", lambda: times[-1])
    return times


def test_a_stage_lasts_until_the_next_one_and_goes_on_if_it_begins_again(clock: list[float]) -> None:
    stopwatch = Stopwatch()
    clock.append(102.0)
    stopwatch.start("decode")
    for at, stage in ((103.0, "decode"), (105.0, "sign"), (106.0, ""), (108.0, "decode"), (112.0, "")):
        clock.append(at)
        stopwatch(stage)
    clock.append(115.0)

    assert [("decode", 102.0, 3e3), ("sign", 105.0, 1e3), ("decode", 108.0, 4e3)] == stopwatch.laps()
    assert {"decode": 7e3, "sign": 1e3} == stopwatch.milliseconds
    assert {"decode": 7e3, "sign": 1e3, "total": 13e3} == stopwatch.stop()


def test_times_are_rounded_to_a_tenth_of_a_microsecond_and_stay(clock: list[float]) -> None:
    stopwatch = Stopwatch()
    stopwatch("decode")
    clock.append(100.00123456)

    first = dict(stopwatch.stop())
    clock.append(200.0)
    stopwatch("late")

    assert {"decode": 1.2346, "total": 1.2346} == first == stopwatch.stop()
    assert 100.0 == stopwatch.begun


def test_equal_scores_keep_the_callers_order() -> None:
    assert [1, 3, 0, 2, 4] == best_first(np.array([1.0, 2.0, 1.0, 2.0, 1.0])).tolist()


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_never_ranked(score: float) -> None:
    with pytest.raises(ScoringFailed, match="document 1 scored"):
        best_first(np.array([0.0, score]))


@given(
    documents=arrays(np.float32, (7, 3), elements=st.floats(-100, 100, width=32)),
    order=st.permutations(range(7)),
)
def test_identical_documents_tie_wherever_they_stand(
    documents: np.ndarray[tuple[int, int], np.dtype[np.float32]], order: list[int]
) -> None:
    twice = np.concatenate([documents, documents[order]])

    scores = LinearScorer(np.array([0.1, -0.7, 1 / 3])).score_rows(twice)

    np.testing.assert_array_equal(scores[:7][order], scores[7:])
