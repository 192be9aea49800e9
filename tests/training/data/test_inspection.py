from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank_training.data import inspection
from localrank_training.data.inspection import inspect
from localrank_training.data.queries import QuerySet
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank_training.data.inspection import Inspection, Suspicion


def query_set(
    documents: object,
    labels: object,
    lengths: Sequence[int],
    comments: tuple[str, ...] | None = None,
) -> QuerySet:
    matrix = np.array(documents, np.float32)
    return QuerySet(
        documents=matrix,
        labels=np.array(labels, np.float64),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        query_ids=tuple(f"q{i}" for i in range(len(lengths))),
        feature_names=tuple(f"f{i + 1}" for i in range(matrix.shape[1])),
        lines=np.arange(len(matrix)),
        comments=comments,
    )


@pytest.fixture
def plain() -> QuerySet:
    """Random values without anything wrong."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 400).astype(float)
    labels[::20], labels[1::20] = 0, 2
    return query_set(rng.standard_normal((400, 6)), labels, [20] * 20)


def suspicion(found: Inspection, what: str) -> Suspicion:
    matching = [entry for entry in found.suspicions if what in entry.what]
    assert 1 == len(matching), [entry.what for entry in found.suspicions]
    return matching[0]


def test_nothing_is_wrong_with_plain_data(plain: QuerySet) -> None:
    assert () == inspect(plain).suspicions


def test_sizes_lengths_and_labels_are_counted() -> None:
    found = inspect(query_set(np.eye(6), [0, 1, 2, 0, 0, 2.5], [1, 2, 3]))

    assert (3, 6, 6) == (found.n_queries, found.n_docs, found.n_features)
    assert (1, 2, 3, 2) == tuple(found.lengths[name] for name in ("min", "median", "max", "mean"))
    assert {"0": 3, "1": 1, "2": 1, "2.5": 1} == found.labels
    assert 4 == found.label_levels


def test_many_different_labels_become_quantiles() -> None:
    found = inspect(query_set(np.eye(101), np.arange(101.0), [101]))

    assert 101 == found.label_levels
    assert {"min": 0, "5%": 5, "25%": 25, "median": 50, "75%": 75, "95%": 95, "max": 100} == found.labels


@pytest.mark.parametrize("cells", [1, 100, 1 << 20])
def test_columns_are_what_numpy_says(plain: QuerySet, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces or at once."""
    monkeypatch.setattr(inspection, "_CELLS", cells)
    documents = plain.documents.copy()
    documents[3:50, 2] = np.nan
    documents[::3, 4] = 0

    found = inspect(plain.with_documents(documents))

    values = documents.astype(np.float64)
    for column, feature in enumerate(found.features):
        there = values[:, column][~np.isnan(values[:, column])]
        np.testing.assert_allclose(
            [there.min(), np.median(there), there.max(), there.mean(), there.std()],
            [feature.minimum, feature.median, feature.maximum, feature.mean, feature.deviation],
            rtol=1e-9,
        )
        assert 400 - len(there) == feature.missing
        assert (there == 0).mean() == feature.zeros
        assert not feature.constant
        assert not feature.per_query
        assert feature.normalised is None


def test_correlations_between_features_are_pearsons(plain: QuerySet) -> None:
    documents = plain.documents.copy()
    documents[:, 5] = -2 * documents[:, 0] + documents[:, 1]

    found = inspect(plain.with_documents(documents))

    expected = np.asarray(np.corrcoef(documents.T.astype(np.float64)))
    assert ("f1", "f6") == (found.correlations[0].first, found.correlations[0].second)
    for pair in found.correlations:
        first, second = int(pair.first[1:]) - 1, int(pair.second[1:]) - 1
        np.testing.assert_allclose(expected[first, second], pair.correlation, rtol=1e-9)
    strengths = [abs(pair.correlation) for pair in found.correlations]
    assert sorted(strengths, reverse=True) == strengths


def test_the_correlation_with_the_label_is_within_queries(plain: QuerySet) -> None:
    """A feature that only tells queries apart says nothing about their documents' order."""
    documents = plain.documents.copy()
    documents[:, 0] += 100 * plain.query_of
    centred = documents.astype(np.float64)
    labels = plain.labels.copy()
    for query in range(len(plain)):
        centred[plain.span(query)] -= centred[plain.span(query)].mean(axis=0)
        labels[plain.span(query)] -= labels[plain.span(query)].mean()

    found = inspect(plain.with_documents(documents))

    np.testing.assert_allclose(
        [np.corrcoef(column, labels)[0, 1] for column in centred.T],
        [feature.label_correlation for feature in found.features],
        rtol=1e-6,
    )


def test_queries_that_teach_nothing_are_named() -> None:
    found = inspect(
        query_set(np.random.default_rng(0).random((8, 2)), [0, 0, 2, 2, 1, 0, 1, 1], [2, 2, 1, 3])
    )

    empty = suspicion(found, "without a relevant document")
    assert (1, 4, ("q0",)) == (empty.count, empty.of, empty.examples)
    same = suspicion(found, "all have the same label")
    assert (2, ("q0", "q1")) == (same.count, same.examples)
    assert ("q2",) == suspicion(found, "of one document").examples


def test_repeated_documents_and_conflicting_labels_are_counted() -> None:
    rows = [[1, 2], [1, 2], [3, 4], [1, 2], [3, 4], [-0.0, np.nan], [0.0, np.nan]]
    found = inspect(query_set(rows, [0, 0, 1, 0, 2, 0, 1], [3, 4]))

    # In the second query (0, missing) is there twice, with labels 0 and 1; (1, 2) is there once per query otherwise.
    copies = suspicion(found, "equal to another document")
    assert (2, 7, ("q0", "q1")) == (copies.count, copies.of, copies.examples)
    conflicts = suspicion(found, "a different label")
    assert (1, ("q1",)) == (conflicts.count, conflicts.examples)


def test_the_same_document_in_two_queries_is_no_copy() -> None:
    found = inspect(query_set([[1, 2], [1, 2]], [0, 1], [1, 1]))

    assert not [entry for entry in found.suspicions if "another document of their query" in entry.what]


def test_equal_hashes_of_different_documents_are_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = query_set([[1, 2], [2, 1], [3, 3]], [0, 1, 0], [3])
    monkeypatch.setattr(inspection._Twins, "__init__", without_weights)

    assert not [entry for entry in inspect(queries).suspicions if "repeat" in entry.what]


def without_weights(self: inspection._Twins, queries: QuerySet) -> None:
    self._queries = queries
    self.copies = self.conflicts = 0
    self.copied, self.conflicting = [], []
    self._weights = np.zeros(queries.n_features, np.uint64)


def test_features_that_say_nothing_are_named(plain: QuerySet) -> None:
    documents = plain.documents.copy()
    documents[:, 0] = np.nan
    documents[:, 1] = 7
    documents[:, 2] = plain.query_of
    documents[:, 4] = 1 - documents[:, 3]
    documents[5, 5] = np.nan

    found = inspect(plain.with_documents(documents))

    assert ("f1",) == suspicion(found, "without any value").examples
    assert ("f2",) == suspicion(found, "constant features").examples
    assert ("f3",) == suspicion(found, "constant within every query").examples
    assert ("f4 = f5",) == suspicion(found, "correlation ±1").examples
    assert ("f6",) == suspicion(found, "with missing values").examples


def test_values_normalised_per_query_are_recognised(plain: QuerySet) -> None:
    documents = plain.documents.astype(np.float64)
    for query in range(len(plain)):
        span = plain.span(query)
        column = documents[span, 0]
        documents[span, 0] = (column - column.min()) / (column.max() - column.min())
        documents[span, 1] = (documents[span, 1] - documents[span, 1].mean()) / documents[span, 1].std(ddof=1)
        documents[span, 2] = np.arange(20) % 2  # a flag is no normalised value

    found = inspect(plain.with_documents(documents.astype(np.float32)))

    assert ["minmax", "zscore", None, None, None, None] == [feature.normalised for feature in found.features]
    assert ("f1",) == suspicion(found, "(minmax)").examples
    assert ("f2",) == suspicion(found, "(zscore)").examples


def test_infinite_values_are_named(plain: QuerySet) -> None:
    """Only a mapped set can have them, which is not checked when it is opened."""
    documents = plain.documents.copy()
    documents[3, 1] = np.inf
    documents[7, 2] = -np.inf

    found = inspect(plain.with_documents(documents))

    assert ("f2", "f3") == suspicion(found, "infinite").examples


def test_scales_far_apart_are_named(plain: QuerySet) -> None:
    scale = np.array([1, 1, 1, 1e-3, 1e9, 1], np.float32)

    found = inspect(plain.with_documents(plain.documents * scale))

    assert ("f5", "f4") == suspicion(found, "scales differ").examples
    assert ("f5",) == suspicion(found, "16,777,216").examples


def test_documents_sorted_by_label_are_named(plain: QuerySet) -> None:
    order = np.lexsort((-plain.labels, plain.query_of))

    found = inspect(query_set(plain.documents[order].astype(np.float64), plain.labels[order], [20] * 20))

    assert 20 == suspicion(found, "sorted by label").count


def test_negative_labels_and_repeated_comments_are_named() -> None:
    values = np.random.default_rng(0).random((4, 2))

    found = inspect(query_set(values, [-1, 2, 1, 0], [2, 2], ("d1", "d1", "d1", "")))

    assert (1, ("q0",)) == (suspicion(found, "negative").count, suspicion(found, "negative").examples)
    assert (1, ("q0",)) == (suspicion(found, "comment").count, suspicion(found, "comment").examples)


def test_comments_that_say_something_else_than_which_document_it_is_are_no_fault() -> None:
    comments = ("kind=0", "kind=0", "kind=0", "kind=1", "kind=1", "kind=1")
    queries = query_set(np.random.default_rng(0).random((6, 2)), [1, 0, 2, 0, 1, 2], [3, 3], comments)

    assert not [one for one in inspect(queries).suspicions if "comment" in one.what]


def test_too_many_features_are_not_correlated(plain: QuerySet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_MOST_CORRELATED", 5)

    assert () == inspect(plain).correlations


@pytest.mark.realdata
def test_a_real_set_shows_its_known_faults(real_data: Path) -> None:
    found = inspect(read([real_data / "MQ2008"]))

    queries = read([real_data / "MQ2008"])
    empty = sum(not queries.labels_of(query).any() for query in range(len(queries)))
    assert empty == suspicion(found, "without a relevant document").count
    constant = np.flatnonzero(np.ptp(queries.documents, axis=0) == 0)
    assert len(constant) == suspicion(found, "constant features").count
    assert found.n_features - len(constant) == suspicion(found, "(minmax)").count
