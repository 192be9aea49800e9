"""Weights of queries: learners and choices follow them, and clusters and figures do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.metrics import Judgements
from localrank_training.data.reading import read_table
from localrank_training.estimator import LocalRanker
from localrank_training.journal import fingerprint
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet


@pytest.fixture(scope="module")
def two_kinds() -> QuerySet:
    """Half of the queries want a high first feature, the other half a low one."""
    rng = np.random.default_rng(0)
    n, k = 60, 10
    documents = rng.normal(size=(n * k, 2)).astype(np.float32)
    sign = np.repeat(np.where(np.arange(n) % 2, 1, -1), k)
    labels = (sign * documents[:, 0] + 0.1 * rng.normal(size=n * k) > 0.5).astype(np.float64)
    return read_table(
        {
            "label": labels,
            "qid": np.repeat([f"q{i:02d}" for i in range(n)], k),
            "x": documents[:, 0],
            "y": documents[:, 1],
        }
    )


def direction(queries: QuerySet, **tables: Any) -> float:
    """The sign that a model gives to the first feature."""
    config = TrainingConfig.from_tables(
        {"clustering": {"method": "none"}, "learner": {"method": "ranksvm", "C": 1.0}, **tables}, "test"
    )
    ranker = train(queries, config).built.ranker
    documents = np.array([[1, 0], [-1, 0]], np.float32)
    first, second = ranker.rank(documents).scores
    return float(np.sign(first - second))


@pytest.mark.parametrize("tables", [{}, {"lists": {"lengths": [5]}}], ids=["full lists", "shorter lists"])
def test_what_is_learned_follows_the_weights(two_kinds: QuerySet, tables: dict[str, Any]) -> None:
    odd = np.arange(len(two_kinds)) % 2

    assert 1 == direction(replace(two_kinds, weights=np.where(odd, 10.0, 1.0)), **tables)
    assert -1 == direction(replace(two_kinds, weights=np.where(odd, 1.0, 10.0)), **tables)


def test_what_is_chosen_follows_the_weights(two_kinds: QuerySet) -> None:
    """The metric of a choice is the weighted mean: by hand, over the held-out queries."""
    weights = np.where(np.arange(len(two_kinds)) % 2, 10.0, 1.0)
    config = TrainingConfig.from_tables(
        {"clustering": {"method": "none"}, "learner": {"method": "ranksvm", "C": [0.01, 1.0]}}, "test"
    )

    trained = train(replace(two_kinds, weights=weights), config)

    held = trained.held_out
    assert held.queries.weights is not None
    figures = Judgements(held.queries.labels, held.queries.offsets).per_query(held.ranked.scores, "ndcg@10")
    by_hand = float(
        weights @ figures[np.argsort([int(q[1:]) for q in held.queries.query_ids])] / weights.sum()
    )
    (chosen,) = [trial.value for trial in trained.trials if trial.chosen]
    assert by_hand == pytest.approx(chosen)
    assert any("queries count by their weights, 1 to 10" in warning for warning in trained.warnings)


def test_auto_s_blend_takes_the_weights(two_kinds: QuerySet) -> None:
    members = [{"method": "linear", "ridge": 0.01}, {"method": "linear", "ridge": 1.0, "blocks": "[minmax]"}]
    tables = {"learner": {"method": "blend", "members": members}}
    odd = np.arange(len(two_kinds)) % 2

    assert 1 == direction(replace(two_kinds, weights=np.where(odd, 10.0, 1.0)), **tables)
    assert -1 == direction(replace(two_kinds, weights=np.where(odd, 1.0, 10.0)), **tables)


def test_the_fingerprint_of_the_data_knows_the_weights(two_kinds: QuerySet) -> None:
    one, two = (replace(two_kinds, weights=np.full(len(two_kinds), weight)) for weight in (1.0, 2.0))

    assert 3 == len({fingerprint(two_kinds), fingerprint(one), fingerprint(two)})


def test_the_estimator_takes_weights(two_kinds: QuerySet) -> None:
    qid = two_kinds.query_of
    weights = np.where(qid % 2, 10.0, 1.0)
    settings = {"clustering.method": "none", "learner.method": "ranksvm", "learner.C": 1.0}

    def learned(query_weight: Any) -> float:
        ranker = LocalRanker(settings=settings).fit(
            two_kinds.documents, two_kinds.labels, qid=qid, query_weight=query_weight
        )
        first, second = ranker.predict(np.array([[1, 0], [-1, 0]], np.float32))
        return float(np.sign(first - second))

    assert 1 == learned(weights)
    assert -1 == learned(11 - weights)
    with pytest.raises(
        ValueError, match="query_weight: row 1: expected one weight for all documents of query '0'"
    ):
        learned(np.arange(len(qid)) + 1.0)
    with pytest.raises(ValueError, match="query_weight: expected one for each of 600 rows, found 3"):
        learned([1, 2, 3])
    with pytest.raises(
        ValueError, match="query_weight: expected finite numbers of at least 0, found -1 in row 0"
    ):
        learned(-np.ones(len(qid)))
