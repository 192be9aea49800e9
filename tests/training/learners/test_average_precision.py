"""The worst ranking, against every ranking there is."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank_training.learners.svmmap import _CELLS, AveragePrecisionLoss

if TYPE_CHECKING:
    import pytest

    from tests.training.learners.conftest import Judged


def average_precision(order: tuple[int, ...], relevant: np.ndarray) -> float:
    hits, total = 0, 0.0
    for rank, document in enumerate(order, start=1):
        if relevant[document]:
            hits += 1
            total += hits / rank
    return total / hits


def feature_map(order: tuple[int, ...], relevant: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Yue et al. (2007), equation 1 of section 3.2, pair by pair."""
    place = {document: rank for rank, document in enumerate(order)}
    pairs = [
        (1 if place[k] < place[j] else -1) * (documents[k] - documents[j])
        for k in np.flatnonzero(relevant).tolist()
        for j in np.flatnonzero(~relevant).tolist()
    ]
    return np.asarray(np.sum(pairs, axis=0) / len(pairs))


def ideal(relevant: np.ndarray) -> tuple[int, ...]:
    return tuple(np.argsort(~relevant, kind="stable"))


@settings(max_examples=60)
@given(data=st.data())
def test_the_worst_ranking_equals_a_search_of_all_rankings(judged: Judged, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(2, 6), min_size=1, max_size=4))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    scale = data.draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    queries = judged([rng.standard_normal((n, 3)) for n in sizes], [rng.integers(0, 2, n) for n in sizes])
    w = rng.standard_normal(3) * scale
    if data.draw(st.booleans()):
        w = np.round(w)

    worst = AveragePrecisionLoss(queries).worst(queries.documents @ w)

    for query in range(len(queries)):
        span = queries.span(query)
        relevant, documents = queries.labels[span] >= 1, queries.documents[span].astype(float)
        direction = worst.coefficients[span] @ documents
        if relevant.all() or not relevant.any():
            assert (worst.losses[query], worst.slacks[query]) == (0.0, 0.0)
            np.testing.assert_array_equal(worst.coefficients[span], 0.0)
            continue
        best = feature_map(ideal(relevant), relevant, documents)
        values = {
            order: 1
            - average_precision(order, relevant)
            - w @ (best - feature_map(order, relevant, documents))
            for order in permutations(range(len(relevant)))
        }
        np.testing.assert_allclose(worst.slacks[query], max(values.values()), atol=1e-12)
        np.testing.assert_allclose(worst.losses[query] - w @ direction, max(values.values()), atol=1e-12)
        assert any(
            np.isclose(worst.losses[query], 1 - average_precision(order, relevant), atol=1e-12)
            and np.allclose(direction, best - feature_map(order, relevant, documents), atol=1e-12)
            for order, value in values.items()
            if value >= max(values.values()) - 1e-9
        )


def test_the_worst_ranking_of_a_larger_query_equals_the_greedy_of_the_paper(judged: Judged) -> None:
    """Yue et al. (2007), algorithm 2: each other document in turn takes its best place, pair by pair."""
    rng = np.random.default_rng(3)
    queries = judged([rng.standard_normal((n, 4)) for n in (50, 9)], [rng.integers(0, 2, n) for n in (50, 9)])
    scores = queries.documents.astype(float) @ rng.standard_normal(4) * 0.1

    worst = AveragePrecisionLoss(queries).worst(scores)

    for query in range(2):
        span = queries.span(query)
        relevant = queries.labels[span] >= 1
        high, low = np.sort(scores[span][relevant])[::-1], np.sort(scores[span][~relevant])[::-1]
        n_relevant, n_other = len(high), len(low)
        slack = 0.0
        for j in range(1, n_other + 1):
            terms = [
                (j / (j + k) - (j - 1) / (j + k - 1)) / n_relevant
                - 2 * (high[k - 1] - low[j - 1]) / (n_relevant * n_other)
                for k in range(1, n_relevant + 1)
            ]
            slack += max(sum(terms[i:]) for i in range(n_relevant + 1))
        np.testing.assert_allclose(worst.slacks[query], slack, rtol=1e-12)


def test_batches_do_not_change_the_answer(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 40, 60)
    queries = judged([rng.standard_normal((n, 2)) for n in sizes], [rng.integers(0, 3, n) for n in sizes])
    scores = rng.standard_normal(queries.n_docs)
    together = AveragePrecisionLoss(queries).worst(scores)

    monkeypatch.setattr("localrank_training.learners.svmmap._CELLS", 1)
    alone = AveragePrecisionLoss(queries).worst(scores)

    np.testing.assert_allclose(together.losses, alone.losses, atol=1e-14)
    np.testing.assert_allclose(together.coefficients, alone.coefficients, atol=1e-14)


def test_the_feature_map_counts_discordant_pairs_twice(judged: Judged) -> None:
    """With scores that are exactly wrong every pair is discordant: the map differs by 2 / (R N) per pair."""
    queries = judged([np.arange(5.0)[:, None]], [np.array([1, 1, 0, 0, 0])])

    worst = AveragePrecisionLoss(queries).worst(np.arange(5.0) * 100)

    np.testing.assert_allclose(worst.coefficients, [2 * 3 / 6, 2 * 3 / 6, -2 * 2 / 6, -2 * 2 / 6, -2 * 2 / 6])
    np.testing.assert_allclose(worst.losses, 1 - (1 / 4 + 2 / 5) / 2)


def test_the_threshold_of_relevance_is_a_setting(judged: Judged) -> None:
    queries = judged([np.arange(3.0)[:, None]], [np.array([2, 1, 0])])

    strict = AveragePrecisionLoss(queries, relevant=2.0)

    np.testing.assert_array_equal(strict.n_relevant, [1])
    np.testing.assert_array_equal(AveragePrecisionLoss(queries).n_relevant, [2])
    np.testing.assert_array_equal(AveragePrecisionLoss(queries, relevant=3.0).usable, [False])


def test_padding_stays_below_half_of_the_work(judged: Judged) -> None:
    """Every query with something to learn is in one batch; a batch ends only where the next query would not fit."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 200, 150)
    queries = judged(
        [np.zeros((n, 1)) for n in sizes], [(rng.random(n) < rng.random()).astype(int) for n in sizes]
    )
    loss = AveragePrecisionLoss(queries)

    def fits(some: np.ndarray) -> bool:
        """Rows of other documents times places, padded to the largest of each, against the same without padding."""
        places, others = loss.n_relevant[some] + 1, loss.n_other[some]
        cells = len(some) * places.max() * others.max()
        return bool(cells <= _CELLS and cells <= 2 * (places * others).sum() + 1024)

    batches = loss._batches
    for batch in batches:
        assert (len(batch.queries), loss.n_relevant[batch.queries].max()) == batch.relevant.shape
        assert (len(batch.queries), loss.n_other[batch.queries].max()) == batch.other.shape
        assert len(batch.queries) == 1 or fits(batch.queries)
    for batch, following in pairwise(batches):
        assert not fits(np.append(batch.queries, following.queries[0]))
    together = np.concatenate([batch.queries for batch in batches])
    assert np.flatnonzero(loss.usable).tolist() == sorted(together.tolist())
    assert 3 < len(batches) < len(together) / 3


def test_relevance_begins_at_one_unless_told_otherwise(judged: Judged) -> None:
    queries = judged([np.zeros((4, 1))], [[0, 0.75, 1, 3]])

    assert ([2], [2]) == (
        AveragePrecisionLoss(queries).n_relevant.tolist(),
        AveragePrecisionLoss(queries).n_other.tolist(),
    )
    assert [1] == AveragePrecisionLoss(queries, relevant=1.5).n_relevant.tolist()
