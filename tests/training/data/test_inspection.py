from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.features.feature import Feature
from localrank_training.data import inspection
from localrank_training.data.inspection import inspect
from localrank_training.data.queries import Gap, QuerySet
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank.arrays import Vector
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


# ------------------------------------------------------------------------------------------------- limits and ties


def suspicions(found: Inspection, what: str) -> list[Suspicion]:
    return [entry for entry in found.suspicions if what in entry.what]


@pytest.mark.parametrize(("levels", "names"), [(20, {str(i) for i in range(20)}), (21, {"min", "median"})])
def test_up_to_twenty_labels_are_counted_one_by_one(levels: int, names: set[str]) -> None:
    found = inspect(query_set(np.eye(levels), np.arange(float(levels)), [levels]))

    assert levels == found.label_levels
    assert names <= set(found.labels)
    assert (levels == 20) == (set(found.labels) == names)


def test_at_most_ten_pairs_and_three_examples_are_shown() -> None:
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((60, 6))
    documents[:, :5] = [[1, 2, 3, 4, 5]]

    constants = inspect(query_set(documents, rng.integers(0, 3, 60), [30, 30]))
    varying = inspect(query_set(rng.standard_normal((60, 6)), rng.integers(0, 3, 60), [30, 30]))

    assert (5, 6, ("f1", "f2", "f3")) == (
        suspicion(constants, "constant features").count,
        suspicion(constants, "constant features").of,
        suspicion(constants, "constant features").examples,
    )
    assert () == constants.correlations
    assert 10 == len(varying.correlations)
    assert all(pair.first < pair.second for pair in varying.correlations)


def test_examples_of_queries_and_documents_are_the_first_three() -> None:
    documents = np.repeat(np.arange(10.0), 2)[:, None]
    found = inspect(query_set(np.hstack([documents, documents**2]), [0, 1] * 5 + [0] * 10, [2] * 10))

    assert ("q5", "q6", "q7") == suspicion(found, "without a relevant document").examples
    assert (10, 20, ("q0", "q1", "q2")) == (
        suspicion(found, "equal to another document").count,
        suspicion(found, "equal to another document").of,
        suspicion(found, "equal to another document").examples,
    )
    assert (5, ("q0", "q1", "q2")) == (
        suspicion(found, "a different label").count,
        suspicion(found, "a different label").examples,
    )


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        # Two features: 12 numbers are six documents, which hold the queries of 2, 3 and 1, but not of 4; 4 and 3 are too many.
        (12, [6, 10, 13, 19, 23, 26]),
        # A query that is too long alone is a piece all the same.
        (4, [2, 5, 6, 10, 13, 15, 18, 19, 23, 26]),
        (1 << 20, [13, 26]),
    ],
)
def test_progress_tells_the_documents_of_both_passes_piece_by_piece(
    cells: int, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "_CELLS", cells)
    queries = query_set(np.random.default_rng(0).random((13, 2)), [0, 1] * 6 + [0], [2, 3, 1, 4, 3])
    seen: list[tuple[str, int, int]] = []

    inspect(queries, progress=lambda task, done, total: seen.append((task, done, total)))

    assert [("looking at values", done, 26) for done in told] == seen


@pytest.mark.parametrize(("sample", "step"), [(100, 4), (150, 3), (399, 2), (400, 1)])
def test_medians_come_from_documents_that_are_evenly_spaced(
    plain: QuerySet, sample: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "_SAMPLE", sample)

    found = inspect(plain)

    np.testing.assert_allclose(
        np.median(plain.documents[::step].astype(np.float64), axis=0),
        [feature.median for feature in found.features],
    )


def test_a_feature_without_values_has_no_figures(plain: QuerySet) -> None:
    documents = plain.documents.copy()
    documents[:, 2] = np.nan

    empty = inspect(plain.with_documents(documents)).features[2]

    figures = [empty.minimum, empty.median, empty.maximum, empty.mean, empty.deviation]
    assert np.isnan(figures).all()
    assert (400, 0.0, True, True, None, 0.0) == (
        empty.missing,
        empty.zeros,
        empty.constant,
        empty.per_query,
        empty.normalised,
        empty.label_correlation,
    )


def test_empty_constant_and_incomplete_features_are_told_apart(plain: QuerySet) -> None:
    documents = plain.documents.copy()
    documents[:, 0] = np.nan
    documents[:, 1] = 7
    documents[9, 2] = np.nan

    found = inspect(plain.with_documents(documents))

    assert [1, 1, 1] == [
        suspicion(found, what).count
        for what in ("without any value", "constant features", "with missing values")
    ]
    assert [] == suspicions(found, "constant within every query")
    assert [] == suspicions(found, "infinite")


@pytest.mark.parametrize("labels", [[1e200, 0, 3e200, 2e200, 1e200, 0], [1e-3, 0, 3e-3, 2e-3, 1e-3, 0]])
def test_the_correlation_with_the_label_does_not_depend_on_its_scale(labels: list[float]) -> None:
    documents = [[0.5], [0.1], [0.9], [0.2], [0.3], [0.4]]

    (feature,) = inspect(query_set(documents, labels, [6])).features

    plain = np.array([1.0, 0, 3, 2, 1, 0])
    expected = np.corrcoef(np.array(documents)[:, 0], plain)[0, 1]
    assert expected == pytest.approx(feature.label_correlation, rel=1e-6)


def normalised(plain: QuerySet, column: Vector) -> str | None:
    documents = plain.documents.copy()
    documents[:, 0] = column
    return inspect(plain.with_documents(documents)).features[0].normalised


def standard_scores(plain: QuerySet, ddof: int, mean: float = 0.0, stretch: float = 1.0) -> Vector:
    column = plain.documents[:, 0].astype(np.float64).reshape(20, 20)
    column = (column - column.mean(axis=1, keepdims=True)) / column.std(axis=1, ddof=ddof, keepdims=True)
    return np.asarray((column * stretch + mean).reshape(-1))


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize(
    ("mean", "stretch", "expected"),
    [
        (0.0, 1.0, "zscore"),
        # Within a thousandth: of the mean, and of the variance, which is the square of what stretches.
        (0.0008, 1.0, "zscore"),
        (-0.0008, 1.0, "zscore"),
        (0.0015, 1.0, None),
        (-0.0015, 1.0, None),
        (0.0, 1.0004, "zscore"),
        (0.0, 0.9996, "zscore"),
        (0.0, 1.00075, None),
        (0.0, 0.99925, None),
    ],
)
def test_standard_scores_are_recognised_within_a_thousandth(
    plain: QuerySet, ddof: int, mean: float, stretch: float, expected: str | None
) -> None:
    assert expected == normalised(plain, standard_scores(plain, ddof, mean, stretch))


def test_one_query_that_is_not_normalised_is_enough() -> None:
    rng = np.random.default_rng(2)
    values = rng.random((3, 10))
    values[:, 0], values[:, 1] = 0, 1
    queries = query_set(values.reshape(-1, 1), rng.integers(0, 3, 30), [10] * 3)

    assert "minmax" == inspect(queries).features[0].normalised
    for low, high in ((0.001, 1), (0, 0.999), (-0.001, 1), (0, 1.001)):
        changed = values.copy()
        changed[1, 0], changed[1, 1] = low, high
        found = inspect(queries.with_documents(changed.reshape(-1, 1).astype(np.float32)))
        assert found.features[0].normalised is None
    # A query in which the feature is constant says nothing about it, and one query alone does not show a rule.
    changed = values.copy()
    changed[1] = 5
    found = inspect(queries.with_documents(changed.reshape(-1, 1).astype(np.float32)))
    assert "minmax" == found.features[0].normalised
    changed[2] = 6
    found = inspect(queries.with_documents(changed.reshape(-1, 1).astype(np.float32)))
    assert found.features[0].normalised is None
    assert not found.features[0].per_query


def test_missing_values_do_not_hide_a_normalisation() -> None:
    values = np.tile([0, 1, np.nan, 0.25, 0.5, np.nan], 4)
    scores = np.tile([-np.sqrt(1.5), np.nan, 0, np.nan, np.sqrt(1.5), np.nan], 4)

    found = inspect(query_set(np.stack([values, scores], 1), [0, 1, 2, 0, 1, 2] * 4, [6] * 4))

    assert ["minmax", "zscore"] == [feature.normalised for feature in found.features]
    assert [8, 12] == [feature.missing for feature in found.features]
    # Zeros among the values that are there.
    assert [1 / 4, 1 / 3] == [feature.zeros for feature in found.features]


def test_a_feature_that_is_constant_within_queries_may_differ_between_them(plain: QuerySet) -> None:
    documents = plain.documents.copy()
    documents[:, 0] = plain.query_of
    documents[:, 1] = plain.query_of
    documents[399, 1] += 1

    found = inspect(plain.with_documents(documents))

    assert [True, False] == [feature.per_query for feature in found.features[:2]]
    assert (1, ("f1",)) == (
        suspicion(found, "constant within every query").count,
        suspicion(found, "constant within every query").examples,
    )
    assert 0.0 == found.features[0].label_correlation

    named = replace(plain.with_documents(documents), special={"f1": Feature("f1", scope="query")})

    assert [] == suspicions(inspect(named), "constant within every query")


def ids(values: object) -> list[str]:
    """The features that look like ids, of documents with these values in their first column."""
    column = np.array(values, np.float64)
    rng = np.random.default_rng(0)
    documents = np.stack([column, rng.standard_normal(len(column))], 1)
    found = inspect(query_set(documents, rng.integers(0, 3, len(column)), [len(column)]))
    return [name for entry in suspicions(found, "ids of documents") for name in entry.examples]


def test_a_different_whole_number_in_each_document_looks_like_an_id() -> None:
    numbers = np.random.default_rng(1).permutation(40).astype(float)

    assert ["f1"] == ids(numbers)
    assert ["f1"] == ids(numbers * 3 - 50)
    assert ["f1"] == ids(numbers[numbers < 20])
    assert [] == ids(numbers[numbers < 19])  # so few may differ by chance
    assert [] == ids(np.where(numbers == 7, 8, numbers))
    assert [] == ids(numbers / 2)
    assert [] == ids(np.where(numbers == 39, 38.5, numbers))
    assert [] == ids(np.where(numbers == 7, np.nan, numbers))
    assert [] == ids(np.where(numbers == 7, np.inf, numbers))


def test_a_number_with_decimals_far_down_is_no_id() -> None:
    numbers = np.arange(1200.0)
    assert ["f1"] == ids(numbers)

    numbers[1100] = 1500.5

    assert [] == ids(numbers)


def test_a_repeated_feature_is_counted_once_and_shown_with_each_that_it_repeats(plain: QuerySet) -> None:
    documents = plain.documents.copy()
    documents[:, 2] = 2 * documents[:, 0]
    documents[:, 3] = -documents[:, 0]

    repeated = suspicion(inspect(plain.with_documents(documents)), "correlation ±1")

    # The pairs are 1 = 3, 1 = 4 and 3 = 4; the third and the fourth repeat another one.
    assert (2, 6, ("f1 = f3", "f1 = f4", "f3 = f4")) == (repeated.count, repeated.of, repeated.examples)


def test_features_that_are_nearly_the_same_are_no_repetition(plain: QuerySet) -> None:
    documents = plain.documents.copy()
    documents[:, 2] = documents[:, 0] + 1e-3 * documents[:, 1]

    found = inspect(plain.with_documents(documents))

    assert 1 - 1e-5 < found.correlations[0].correlation < 1 - 1e-9
    assert [] == suspicions(found, "correlation ±1")


def test_scales_are_far_apart_above_ten_thousand_times(plain: QuerySet) -> None:
    """Powers of two, so that the deviations of the copies are the same but for the scale."""
    column = plain.documents[:, 0]
    near = np.stack([column, column[::-1] * 2**13], 1)  # 8,192 times
    far = np.stack([column, column[::-1] * 2**14, column[::-1] * 2**15, np.ones(400)], 1)
    labels = plain.labels

    assert [] == suspicions(inspect(query_set(near, labels, [20] * 20)), "scales differ")
    found = suspicion(inspect(query_set(far, labels, [20] * 20)), "scales differ")
    assert (2, 4, ("f3", "f1")) == (found.count, found.of, found.examples)


@pytest.mark.parametrize(
    ("largest", "named"), [(2.0**24, []), (2.0**24 + 2, ["f2"]), (-(2.0**24) - 2, ["f2"])]
)
def test_integers_that_float32_cannot_tell_apart_are_named(largest: float, named: list[str]) -> None:
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((20, 2))
    documents[4, 1] = largest

    found = suspicions(inspect(query_set(documents, rng.integers(0, 3, 20), [20])), "16,777,216")

    assert named == [name for entry in found for name in entry.examples]


def sorted_queries(lengths: list[int], in_order: list[bool]) -> int:
    """How many queries are said to be sorted by label, of lists that are, and lists that have their best document last."""
    labels: list[float] = []
    for length, falling in zip(lengths, in_order, strict=True):
        best_first = [2.0, *[1.0] * (length - 2), 0.0]
        labels += best_first if falling else best_first[::-1]
    documents = np.random.default_rng(0).standard_normal((len(labels), 2))
    found = suspicions(inspect(query_set(documents, labels, lengths)), "sorted by label")
    return sum(entry.count for entry in found)


def test_sorted_lists_are_told_if_most_of_the_long_ones_are() -> None:
    assert 2 == sorted_queries([5, 5, 5], [True, True, False])
    assert 0 == sorted_queries([5, 5], [True, False])  # half is not most
    assert 0 == sorted_queries([4, 4, 4], [True, True, True])  # four in order are no wonder
    assert 4 == sorted_queries([5, 4, 4, 4], [True, True, True, True])
    assert 0 == sorted_queries([6, 4, 4, 4], [False, True, True, True])


def test_queries_of_one_label_are_neither_sorted_nor_against_it() -> None:
    labels = [2, 1, 1, 0, 0, *[1] * 5, *[0] * 5]
    documents = np.random.default_rng(0).standard_normal((15, 2))

    found = inspect(query_set(documents, labels, [5, 5, 5]))

    assert (1, 3, ("q0",)) == (
        suspicion(found, "sorted by label").count,
        suspicion(found, "sorted by label").of,
        suspicion(found, "sorted by label").examples,
    )
    assert ("q1", "q2") == suspicion(found, "all have the same label").examples
    assert ("q2",) == suspicion(found, "without a relevant document").examples


@pytest.mark.parametrize(
    ("comments", "count", "queries"),
    [
        (("a", "a", "b", "c", "a", "d", "e", "e"), 2, ("q0", "q1")),
        (("a", "a", "a", "c", "e", "d", "e", "f"), 3, ("q0", "q1")),
        # Half of the documents: such comments are no ids.
        (("a", "a", "a", "c", "e", "e", "e", "f"), 0, ()),
        (("", " ", "", "", "e", "d", "c", "f"), 0, ()),
    ],
)
def test_repeated_comments_are_counted_within_queries(
    comments: tuple[str, ...], count: int, queries: tuple[str, ...]
) -> None:
    values = np.random.default_rng(0).random((8, 2))

    found = suspicions(inspect(query_set(values, [0, 1] * 4, [4, 4], comments)), "comment")

    assert count == sum(entry.count for entry in found)
    assert queries == tuple(name for entry in found for name in entry.examples)


def test_places_are_described_by_the_documents_that_were_shown() -> None:
    queries = query_set(np.random.default_rng(0).random((6, 2)), [0, 1] * 3, [3, 3])

    some = inspect(replace(queries, positions=np.array([1, 0, 2, 0, 6, 0])))
    none = inspect(replace(queries, positions=np.zeros(6, np.int64)))

    assert some.positions is not None
    assert (1, 2, 6, 3, 3) == tuple(
        some.positions[name] for name in ("min", "median", "max", "mean", "not shown")
    )
    assert {"not shown": 6.0} == none.positions
    assert inspect(queries).positions is None


def test_gaps_of_text_are_told_with_their_place() -> None:
    queries = query_set(np.random.default_rng(0).random((4, 2)), [0, 1] * 2, [2, 2])

    found = inspect(replace(queries, gaps=(Gap("a.txt", 3, 2, 1, 4),)))

    gap = suspicion(found, "lines lack features")
    assert (1, 4, ("a.txt:3 has no feature 2",)) == (gap.count, gap.of, gap.examples)


def test_a_missing_value_counts_as_the_mean_of_its_query_in_the_correlation_with_the_label() -> None:
    nothing = np.nan
    values = np.array([[1, 4, 3, 9], [nothing, 5, nothing, nothing], [2, nothing, 8, 5]])
    labels = np.array([[0, 2, 1, 2], [1, 0, 2, 1], [0, 1, 2, 0.0]])
    filled = np.where(np.isnan(values), np.nanmean(values, axis=1, keepdims=True), values)
    filled -= filled.mean(axis=1, keepdims=True)
    relevance = labels - labels.mean(axis=1, keepdims=True)
    expected = np.corrcoef(filled.reshape(-1), relevance.reshape(-1))[0, 1]

    (feature,) = inspect(query_set(values.reshape(-1, 1), labels.reshape(-1), [4, 4, 4])).features

    assert expected == pytest.approx(feature.label_correlation, rel=1e-6)


@pytest.mark.parametrize(
    ("labels", "count"),
    [([2, 1, 2, 1, 0], 0), ([2, 1, 1, 1, 1], 1), ([1, 1, 1, 1, 0], 1), ([3, 2, 1, 1, 2], 0)],
)
def test_one_step_up_is_not_sorted_and_one_step_down_is(labels: list[float], count: int) -> None:
    found = inspect(query_set(np.random.default_rng(0).random((5, 2)), labels, [5]))

    assert count == sum(entry.count for entry in suspicions(found, "sorted by label"))


def test_how_much_is_looked_at() -> None:
    assert (2**20, 50_000, 3000, 2.0**24) == (
        inspection._CELLS,
        inspection._SAMPLE,
        inspection._MOST_CORRELATED,
        inspection._EXACT_INTEGERS,
    )


@pytest.mark.parametrize(("most", "pairs"), [(6, 10), (5, 0)])
def test_as_many_features_as_may_be_are_correlated(
    plain: QuerySet, monkeypatch: pytest.MonkeyPatch, most: int, pairs: int
) -> None:
    monkeypatch.setattr(inspection, "_MOST_CORRELATED", most)
    documents = plain.documents.copy()
    documents[:, 4] = documents[:, 3]

    found = inspect(plain.with_documents(documents))

    assert pairs == len(found.correlations)
    assert (pairs > 0) == bool(suspicions(found, "correlation ±1"))


def test_standard_scores_of_two_documents_are_recognised() -> None:
    """Over n - 1, which is one."""
    scores = np.tile([-np.sqrt(0.5), np.sqrt(0.5)], 3)

    (feature,) = inspect(query_set(scores[:, None], [0, 1, 1, 0, 2, 1], [2, 2, 2])).features

    assert "zscore" == feature.normalised


def test_the_figures_of_a_single_value_are_its_own() -> None:
    values = np.full((6, 2), np.nan)
    values[:, 1] = np.arange(6)
    values[4, 0] = 5

    single = inspect(query_set(values, [0, 1, 2, 0, 1, 2], [3, 3])).features[0]

    assert (5, 5, 5, 5, 0, 5) == (
        single.minimum,
        single.median,
        single.maximum,
        single.mean,
        single.deviation,
        single.missing,
    )
    assert single.constant
    assert 0.0 == single.label_correlation


def test_small_values_that_differ_are_no_copies() -> None:
    found = inspect(query_set([[1e-9, 1], [2e-9, 1], [0, 1], [0, 1]], [0, 1, 2, 2], [4]))

    assert 1 == suspicion(found, "equal to another document").count


@pytest.mark.parametrize(
    ("noise", "low", "high", "count"), [(3e-5, 0, 0.9e-9, 1), (5.5e-5, 1.1e-9, 1.9e-9, 0)]
)
def test_features_repeat_each_other_if_they_correlate_within_a_billionth(
    plain: QuerySet, noise: float, low: float, high: float, count: int
) -> None:
    documents = plain.documents.astype(np.float64)
    documents[:, 2] = documents[:, 0] + noise * documents[:, 1]
    queries = plain.with_documents(documents.astype(np.float32))
    first, third = queries.documents[:, [0, 2]].T.astype(np.float64)
    pair = np.corrcoef(first, third)[0, 1]

    found = inspect(queries)

    assert low < 1 - pair < high
    assert count == len(suspicions(found, "correlation ±1"))
