"""Which queries prove a model; what proving means is tested where artifacts are damaged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from localrank import probe
from localrank.errors import ProbeMismatch
from localrank.features.contract import FeatureContract
from localrank.points.signature import PcaRepresentation
from localrank.points.vectors import MeanRepresentation, VectorPoints
from localrank.ranker import Ranker
from localrank.routing.router import ExactRouter
from localrank.routing.routers import CentroidRouter
from localrank.scorers import LinearScorer


def along(degrees: float, n_docs: int = 5) -> np.ndarray:
    """Documents on a line through the plane of the first two features."""
    direction = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    return np.outer(np.arange(n_docs), direction).astype(np.float32)


@pytest.fixture
def ranker() -> Ranker:
    """Cluster 0 spreads along the first feature, cluster 1 along the second."""
    clouds = [along(0), along(90)]
    contract = FeatureContract.learn(np.concatenate(clouds), [5, 5], normalise="none")
    representation = PcaRepresentation(1)
    scorer = LinearScorer(np.ones(2))
    router = ExactRouter(representation.sign_all(clouds), np.array([0, 1]))
    return Ranker(contract, representation, router, (scorer, scorer), scorer)


def positions(chosen: list[np.ndarray], candidates: list[np.ndarray]) -> list[int]:
    return [next(i for i, one in enumerate(candidates) if one is query) for query in chosen]


def test_clusters_take_turns_with_their_widest_margins_after_one_lone_document(ranker: Ranker) -> None:
    """The margin of a direction at angle a is ``|cos a| - |sin a|``."""
    candidates = [along(30), along(10), along(20), along(70), along(85)]

    lone, *chosen = probe.choose(ranker, candidates, count=5)

    np.testing.assert_array_equal(candidates[0][:1], lone)
    assert [1, 4, 2, 3] == positions(chosen, candidates)


@pytest.mark.parametrize(
    "unfit",
    [along(45.001), along(10, n_docs=201), along(0, n_docs=0)],
    ids=["hangs by a hair", "too long", "empty"],
)
def test_what_proves_nothing_is_not_chosen(ranker: Ranker, unfit: np.ndarray) -> None:
    candidates = [along(30), unfit, along(70)]

    _, *chosen = probe.choose(ranker, candidates)

    assert [0, 2] == positions(chosen, candidates)


def test_of_many_candidates_an_even_part_is_looked_at(
    ranker: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_MOST_CANDIDATES", 3)
    candidates = [along(degrees) for degrees in (30, 0, 0, 20, 0, 0, 10)]

    _, *chosen = probe.choose(ranker, candidates)

    assert [6, 3, 0] == positions(chosen, candidates)


def test_a_lone_document_between_two_clusters_is_left_out(ranker: Ranker) -> None:
    means = np.array([[0, 1], [0, -1]], np.float32)
    router = CentroidRouter(VectorPoints(means, np.ones(2, np.bool_)))
    of_means = replace(ranker, representation=MeanRepresentation(), router=router)
    candidates = [np.array([[3, 0], [0, 4]], np.float32), np.array([[3, 0], [0, -4]], np.float32)]

    chosen = probe.choose(of_means, candidates)

    assert [0, 1] == positions(chosen, candidates)


def test_nothing_is_chosen_from_nothing(ranker: Ranker) -> None:
    assert [] == probe.choose(ranker, [])
    assert [] == probe.choose(ranker, [along(0, n_docs=0)])


@pytest.mark.parametrize(
    ("off", "refused"), [(0.9e-6, False), (1.1e-6, True), (-0.9e-6, False), (-1.1e-6, True)]
)
def test_scores_may_differ_by_a_millionth_of_the_largest(
    ranker: Ranker, off: float, *, refused: bool
) -> None:
    kept = probe.Probe.record(ranker, [along(10), along(70)])
    moved = tuple(
        scores + off * np.abs(scores).max() * (np.arange(len(scores)) == 1) for scores in kept.scores
    )

    try:
        largest = replace(kept, scores=moved).check(ranker)
    except ProbeMismatch as error:
        assert refused
        assert "query 0: expected the score" in str(error)  # noqa: PT017 - either outcome is right for some
    else:
        assert not refused
        assert largest == pytest.approx(abs(off), rel=1e-6)
