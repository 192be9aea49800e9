"""Documents that features do not tell apart."""

from __future__ import annotations

from itertools import permutations, product
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank_training.data.queries import QuerySet
from localrank_training.evaluation.twins import NEAR, twins_of


def one_query(documents: np.ndarray, labels: list[int]) -> QuerySet:
    rows = np.asarray(documents, np.float32).reshape(len(labels), -1)
    return QuerySet(
        rows,
        np.asarray(labels, np.float64),
        np.array([0, len(labels)]),
        ("q1",),
        tuple(f"f{number}" for number in range(rows.shape[1])),
        np.arange(len(labels)),
    )


def dcg(labels: list[int]) -> float:
    return sum((2.0**label - 1) / log2(1 + place) for place, label in enumerate(labels[:10], 1))


def best_expected(values: list[int], labels: list[int]) -> float:
    """The largest mean NDCG@10 over all orders of equal documents, of all orders of the groups."""
    groups = sorted(set(values))
    ideal = dcg(sorted(labels, reverse=True))
    best = 0.0
    for order in permutations(groups):
        members = [[i for i, value in enumerate(values) if value == group] for group in order]
        lists = [
            [i for part in parts for i in part] for parts in product(*(permutations(one) for one in members))
        ]
        best = max(best, float(np.mean([dcg([labels[i] for i in one]) for one in lists])) / ideal)
    return best


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=5))
def test_the_ceiling_is_the_best_that_any_order_of_equal_documents_is_expected_to_reach(
    pairs: list[tuple[int, int]],
) -> None:
    values, labels = [value for value, _ in pairs], [label for _, label in pairs]

    found = twins_of(one_query(np.array(values), labels))

    assert found.ceiling == pytest.approx(best_expected(values, labels) if any(labels) else 0.0)
    contested = [
        any(values[j] == values[i] and labels[j] != labels[i] for j in range(len(pairs)))
        for i in range(len(pairs))
    ]
    assert sum(contested) == found.equal


def test_near_documents_are_those_that_no_feature_tells_apart_by_more_than_a_share_of_its_range() -> None:
    rng = np.random.default_rng(0)
    documents = rng.random((40, 3)).astype(np.float32)
    documents[20:] = documents[:20] + np.float32(0.012) * rng.random((20, 3)).astype(np.float32)
    labels = rng.integers(0, 2, 40)

    found = twins_of(one_query(documents, labels.tolist()))

    ranges = np.ptp(documents.astype(np.float64), axis=0)
    apart = (np.abs(documents[:, None].astype(np.float64) - documents[None]) / ranges).max(axis=2)
    near = (apart <= NEAR) & (labels[:, None] != labels[None])
    assert int(near.any(axis=1).sum()) == found.near > 0
    assert 0 == found.equal
    assert found.ceiling == found.best == 1.0


def test_missing_values_equal_each_other_and_nothing_else() -> None:
    nan = float("nan")

    found = twins_of(one_query(np.array([[nan, 1.0], [nan, 1.0], [0.0, 1.0], [-0.0, 1.0]]), [0, 1, 0, 0]))

    assert (2, 2) == (found.equal, found.near)


def test_queries_with_the_most_of_them_are_named() -> None:
    queries = QuerySet(
        np.zeros((7, 2), np.float32),
        np.array([0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 2.0]),
        np.array([0, 2, 4, 7]),
        ("two", "none", "three"),
        ("a", "b"),
        np.arange(7),
    )

    assert ("three", "two") == twins_of(queries).examples
