"""LambdaMART on clicks: places that users look at more often must not make documents better."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.data.queries import QuerySet
from localrank_training.learners.boosting import LambdaMart
from localrank_training.learners.lesson import Lesson

N_QUERIES, N_DOCS = 400, 8


def clicks(*, places: bool = True) -> QuerySet:
    """The first feature is what users like; by the second the lists were ordered, and it means nothing."""
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((N_QUERIES, N_DOCS, 2)).astype(np.float32)
    place = 1 + np.argsort(np.argsort(-documents[..., 1], axis=1), axis=1)
    clicked = rng.random(place.shape) < 1 / (1 + np.exp(-2 * documents[..., 0])) / place
    return QuerySet(
        documents=documents.reshape(-1, 2),
        labels=clicked.ravel().astype(float),
        offsets=np.arange(N_QUERIES + 1) * N_DOCS,
        query_ids=tuple(map(str, range(N_QUERIES))),
        feature_names=("liked", "old"),
        lines=np.arange(N_QUERIES * N_DOCS),
        positions=place.ravel() if places else None,
    )


def test_the_old_order_counts_less_if_places_are_left_out() -> None:
    queries = clicks()

    def by_old(*, unbiased: bool) -> float:
        learner = LambdaMart(
            num_iterations=30,
            members=1,
            early_stopping_rounds=0,
            learning_rate=0.1,
            feature_fraction=1.0,
            unbiased=unbiased,
        )
        scorer = learner.fit(Lesson(queries))
        scores = scorer.score_rows(queries.documents)  # type: ignore[attr-defined]
        return float(np.corrcoef(scores, queries.documents[:, 1])[0, 1])

    assert by_old(unbiased=True) < 0.7 * by_old(unbiased=False)


def test_without_places_it_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="unbiased: expected the places of the documents"):
        LambdaMart(unbiased=True, members=1).fit(Lesson(clicks(places=False)))
