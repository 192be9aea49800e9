"""What every ranker that learns a metric makes of clusters with hardly anything in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank_training.learners.catalogue import make
from localrank_training.learners.lesson import Lesson
from tests.core.clouds import as_cloud

if TYPE_CHECKING:
    from tests.training.learners.conftest import Judged

Ranker: TypeAlias = tuple[str, dict[str, object]]

RANKERS: list[Ranker] = [
    ("gmml", {}),
    ("gmml", {"anchor": "mean"}),
    ("lgmml", {"weights": "uniform"}),
    ("lgmml", {"weights": "mean", "queries_per_set": 1}),
    ("lgmml", {"weights": "similarity"}),
    ("rmlr", {}),
    ("rmlr", {"anchor": "mean", "C": 1e-3}),
]


@pytest.mark.parametrize("ranker", RANKERS)
@pytest.mark.parametrize(
    ("documents", "labels"),
    [
        pytest.param([[[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]], [[0, 1, 1]], id="one query"),
        pytest.param([[[0.0, 1.0], [1.0, 0.0]]], [[0, 1]], id="one relevant document"),
        pytest.param([np.eye(3, 40)], [[0, 1, 2]], id="fewer documents than features"),
        pytest.param([np.hstack([np.eye(3), np.ones((3, 5))])], [[0, 1, 2]], id="constant features"),
        pytest.param(
            [[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [[0, 1], [0, 1]], id="a query all alike"
        ),
        pytest.param([[[0.0]], [[0.0], [1.0]]], [[1], [0, 1]], id="a single document"),
        pytest.param([[[1e30, 0.0], [0.0, 1e-30], [1e30, 1.0]]], [[0, 1, 1]], id="extreme features"),
        pytest.param([[[0.0, 1.0], [1.0, 0.0], [0.5, 0.25]]], [[0, 1.5, 3.25]], id="fractional labels"),
    ],
)
def test_a_poor_cluster_gets_a_scorer_of_finite_scores(
    judged: Judged, ranker: Ranker, documents: list[object], labels: list[object]
) -> None:
    queries = judged(documents, labels)

    scorer = make(*ranker).fit(Lesson(queries))

    for cloud in queries.clouds():
        assert np.isfinite(scorer.score(as_cloud(cloud))).all()
    unseen = np.full((3, queries.n_features), np.finfo(np.float32).max, np.float32)
    assert np.isfinite(scorer.score(as_cloud(unseen))).all()


@pytest.mark.parametrize("ranker", RANKERS)
def test_relevant_documents_come_first_where_that_is_easy(judged: Judged, ranker: Ranker) -> None:
    rng = np.random.default_rng(0)
    clouds = [rng.random((20, 3)) for _ in range(12)]
    labels = [np.arange(20) < 5 for _ in clouds]
    for cloud in clouds:
        cloud[:5, 0] += 2.0

    scorer = make(*ranker).fit(Lesson(judged(clouds, labels)))

    fresh = rng.random((20, 3)).astype(np.float32)
    fresh[:5, 0] += 2.0
    scores = scorer.score(as_cloud(fresh))
    assert scores[:5].min() > scores[5:].max()


@pytest.mark.parametrize("ranker", RANKERS)
@pytest.mark.parametrize(
    ("documents", "labels", "message"),
    [
        ([[[0.0], [1.0]]], [[0, 0]], "expected two documents of one query with different labels"),
        ([[[0.0], [0.0]]], [[0, 1]], "expected two documents of one query with different features"),
        (
            [[[0.0], [1.0]]],
            [[1, 2]],
            "expected a query with documents below and from label 1 on, found none",
        ),
        (
            [[[0.0], [1.0]]],
            [[0.25, 0.5]],
            r"from label 1 on, found none \(labels 0.25 to 0.5, 1 queries\)",
        ),
        (
            [[[0.0], [0.0]], [[0.0], [1.0]]],
            [[0, 1], [2, 1]],
            "expected relevant and other documents of one query with different features, found none in 1",
        ),
        ([[[np.nan], [0.0]]], [[0, 1]], "feature 'f1': expected a finite value, found nan"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(
    judged: Judged,
    ranker: Ranker,
    documents: list[object],
    labels: list[object],
    message: str,
) -> None:
    with pytest.raises(InvalidData, match=f"{ranker[0]}: .*{message}"):
        make(*ranker).fit(Lesson(judged(documents, labels)))


@pytest.mark.parametrize("ranker", RANKERS)
def test_weights_that_do_not_fit_are_refused(judged: Judged, ranker: Ranker) -> None:
    queries = judged([[[0.0], [1.0]]], [[0, 1]])

    with pytest.raises(InvalidData, match="weights: expected one per query"):
        make(*ranker).fit(Lesson(queries, weights=np.ones(2)))
