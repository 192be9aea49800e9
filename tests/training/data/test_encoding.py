"""Encodings of categories: what they say, and that none knows the labels it is used for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from localrank.features.contract import FeatureContract
from localrank.features.feature import Feature
from localrank_training.data.clouds import Clouds
from localrank_training.data.encoding import Encoders
from localrank_training.data.queries import QuerySet

N_QUERIES, N_DOCS = 120, 10


def made(effect: float, values: int = 6, seed: int = 0) -> QuerySet:
    """Return queries whose labels depend on a category and the kind of the query together by so much."""
    rng = np.random.default_rng(seed)
    n = N_QUERIES * N_DOCS
    brand, kind = rng.integers(values, size=n), np.repeat(rng.integers(2, size=N_QUERIES), N_DOCS)
    worth = np.linspace(-1, 1, values)[brand] * np.where(kind == 0, 1.0, -1.0)
    features = (
        Feature("brand", "category", tuple(f"b{one}" for one in range(values))),
        Feature("kind", "category", ("m", "d"), "query"),
    )
    return QuerySet(
        documents=np.column_stack([brand, kind, rng.normal(size=n)]).astype(np.float32),
        labels=np.maximum(0.0, 2 + effect * worth + rng.normal(size=n)),
        offsets=np.arange(0, n + 1, N_DOCS),
        query_ids=tuple(f"q{one}" for one in range(N_QUERIES)),
        feature_names=("brand", "kind", "x"),
        lines=np.arange(n),
        special={one.name: one for one in features},
    )


def clouds_of(queries: QuerySet) -> Clouds:
    encoders = Encoders.of(queries)
    assert encoders is not None
    contract = FeatureContract.learn(
        queries.documents,
        queries.lengths.tolist(),
        features=queries.features,
        normalise="none",
        encodings=encoders.encodings(),
    )
    return Clouds(queries, contract)


def centred(queries: QuerySet) -> np.ndarray:
    means = np.add.reduceat(queries.labels, queries.offsets[:-1]) / queries.lengths
    found: np.ndarray = queries.labels - np.repeat(means, queries.lengths)
    return found


def test_an_encoding_is_the_mean_label_of_a_value_and_of_two_values_together() -> None:
    queries = made(2.0)
    single, of_kind, both = clouds_of(queries).contract.encodings

    assert ((0, None), (1, None), (0, 1)) == tuple(one[:2] for one in (single, of_kind, both))
    brand, kind = queries.documents[:, 0], queries.documents[:, 1]
    means = [[centred(queries)[(brand == b) & (kind == k)].mean() for k in (0, 1)] for b in range(6)]
    np.testing.assert_allclose(means, both.numbers[:6, :2], atol=0.1)
    # The brand alone says little, and the kind nothing, for it is the same for all documents of a query.
    assert np.abs(single.numbers).max() < 0.15
    assert not of_kind.numbers.any()
    assert not single.numbers[6:].any()
    np.testing.assert_array_equal(single.numbers[:, None].repeat(2, 1)[6:], both.numbers[6:, :2])


def test_no_document_is_encoded_by_the_labels_of_its_own_query() -> None:
    queries = made(1.0)
    other = replace(
        queries, labels=np.where(queries.query_of == 7, 4 - queries.labels.clip(0, 4), queries.labels)
    )

    before, after = (
        Clouds(one, clouds_of(queries).contract).to_learn_from().seen_as("normalised").documents
        for one in (queries, other)
    )

    assert np.array_equal(before[70:80], after[70:80])
    assert not np.array_equal(before, after)


def test_what_is_held_out_teaches_no_encoding_and_sees_those_of_all_others() -> None:
    queries = made(1.0)
    groups = np.arange(N_QUERIES) % 3
    held = groups[queries.query_of] == 1
    other = replace(queries, labels=np.where(held, queries.labels[::-1], queries.labels))
    contract = clouds_of(queries).contract

    before, after = (
        Clouds(one, contract).to_learn_from(groups).without(1).seen_as("normalised").documents
        for one in (queries, other)
    )

    np.testing.assert_array_equal(before, after)
    rest = queries.select(np.flatnonzero(groups != 1))
    exam = Clouds(queries.select(np.flatnonzero(groups == 1)), clouds_of(rest).contract)
    np.testing.assert_allclose(exam.seen_as("normalised").documents, before[held], atol=1e-6)


@pytest.mark.parametrize("values", [5, 400])
def test_random_labels_have_no_encoding_that_helps(values: int) -> None:
    """A value of three documents says much of their own labels, and nothing of others."""
    gains = []
    for seed in range(8):
        queries = made(0.0, values, seed)
        encoded = Clouds(queries, clouds_of(queries).contract).to_learn_from().seen_as("normalised")
        gains.append(float((encoded.documents[:, 0] * centred(queries)).mean()))
    assert abs(np.mean(gains)) <= 3 * max(np.std(gains) / np.sqrt(len(gains)), 1e-4)


def test_without_categories_nothing_changes() -> None:
    queries = replace(made(1.0), special={})
    contract = FeatureContract.learn(queries.documents, queries.lengths.tolist(), names=queries.feature_names)
    clouds = Clouds(queries, contract)

    assert Encoders.of(queries) is None
    assert clouds is clouds.to_learn_from() is clouds.without(0) is clouds.as_served
