"""Models that are learned when the query is known, against kernels and loops written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.points.signature import PcaRepresentation
from localrank.points.similarity import one_to_many
from localrank_papers.transductive import (
    KernelFeatures,
    Neighbours,
    rank_by_neighbours,
    rank_transductively,
)
from localrank_training.data.clouds import Clouds
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.seen import scores_of
from localrank_training.run.pipeline import learn_contract, lesson_of
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

PLAIN = TrainingConfig.from_tables({"contract": {"normalise": "none"}})


def kernel(kind: str, x: np.ndarray, z: np.ndarray) -> float:
    if kind == "linear":
        return float(x @ z)
    if kind == "poly":
        return float((0.3 * (x @ z) + 1) ** 3)
    return float(np.exp(-0.3 * ((x - z) ** 2).sum()))


@pytest.mark.parametrize("kind", ["linear", "poly", "rbf"])
def test_kernel_features_follow_their_formula(kind: Any) -> None:
    random = np.random.default_rng(0)
    known, other = random.standard_normal((7, 4)).astype(np.float32), random.standard_normal((5, 4))
    n = len(known)
    z = known.astype(np.float64)
    matrix = np.array([[kernel(kind, a, b) for b in z] for a in z])
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(centring @ matrix @ centring)
    order = np.argsort(-values)[:3]
    expected = np.empty((5, 3))
    for row, x in enumerate(other.astype(np.float32).astype(np.float64)):
        near = np.array([kernel(kind, x, b) for b in z])
        centred = near - near.mean() - matrix.mean(axis=0) + matrix.mean()
        for column, p in enumerate(order):
            expected[row, column] = (vectors[:, p] @ centred) / np.sqrt(values[p])

    projection = KernelFeatures(kind, 3, degree=3, gamma=0.3).of(known)

    assert projection is not None
    found = projection.of(other.astype(np.float32))
    np.testing.assert_allclose(np.abs(expected), np.abs(found), rtol=2e-4, atol=1e-5)


def test_features_may_be_kept_beside_the_components() -> None:
    documents = np.random.default_rng(1).standard_normal((9, 4)).astype(np.float32)
    projection = KernelFeatures("rbf", 2, keep=True).of(documents)

    assert projection is not None
    found = projection.of(documents)
    assert (9, 6) == found.shape
    np.testing.assert_array_equal(documents, found[:, :4])


def test_no_more_components_than_directions_come_out() -> None:
    line = np.outer(np.arange(6), [1, 2, 3]).astype(np.float32)

    projection = KernelFeatures("linear", 5).of(line)

    assert projection is not None
    assert (6, 1) == projection.of(line).shape
    assert None is KernelFeatures().of(line[:1])
    assert None is KernelFeatures().of(np.repeat(line[1:2], 4, axis=0))


def test_senseless_settings_are_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="components: expected at least 1"):
        KernelFeatures(components=0)


@pytest.mark.parametrize("kind", ["linear", "rbf"])
@pytest.mark.parametrize("keep", [False, True])
def test_every_query_has_a_model_of_its_own_components(kind: Any, keep: bool) -> None:  # noqa: FBT001
    training, exam = two_kinds(8), two_kinds(4, seed=1)
    learner, features = RankSvm(), KernelFeatures(kind, 3, keep=keep)
    clouds = Clouds(training, learn_contract(training, PLAIN))
    lesson = lesson_of(clouds, None, None, learner)

    found = rank_transductively(lesson, exam, learner, features)

    for query, documents in enumerate(exam.clouds()):
        projection = features.of(documents)
        assert projection is not None
        width = 3 + 5 * keep
        names = tuple(f"c{i}" for i in range(width))
        own = replace(
            lesson,
            queries=replace(training, documents=projection.of(training.documents), feature_names=names),
        )
        expected = projection.of(documents) @ learner.fit(own).weights
        np.testing.assert_allclose(expected, found[exam.span(query)], rtol=1e-6, atol=1e-9)


def test_documents_that_are_all_alike_score_alike() -> None:
    training = two_kinds(8)
    learner = RankSvm()
    lesson = lesson_of(Clouds(training, learn_contract(training, PLAIN)), None, None, learner)

    exam = two_kinds(2, n_docs=4, seed=1)
    exam.documents[exam.span(0)] = 1.0
    found = rank_transductively(lesson, exam, learner, KernelFeatures())

    assert [0.0] * 4 == found[exam.span(0)].tolist()
    assert found[exam.span(1)].any()


def test_neighbours_teach_the_model_of_a_query() -> None:
    """KNN online: the K nearest training queries of each query."""
    training, exam = two_kinds(12), two_kinds(5, seed=1)
    learner, representation = RankSvm(), PcaRepresentation(1)
    clouds = Clouds(training, learn_contract(training, PLAIN))
    points = representation.of_all(clouds)
    asked = representation.of_all(Clouds(exam, clouds.contract))
    lesson = lesson_of(clouds, None, None, learner)

    found = rank_by_neighbours(lesson, exam, learner, Neighbours(points, asked, 3, "eq5"))

    for query in range(5):
        similarities = one_to_many(asked.of(query), points, "eq5")
        nearest = sorted(range(12), key=lambda one: -similarities[one])[:3]
        scorer = learner.fit(lesson.select(sorted(nearest)))
        expected = scores_of(scorer, lesson_of(Clouds(exam, clouds.contract), None, None, learner))
        np.testing.assert_allclose(expected[exam.span(query)], found[exam.span(query)])
        assert {query % 2} == {one % 2 for one in nearest}
