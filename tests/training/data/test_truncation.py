from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.data.truncation import with_shorter_lists
from tests.training.kinds import two_kinds


def test_full_lists_stay_where_they_are_and_shorter_ones_follow() -> None:
    queries = two_kinds(4, n_docs=9)

    lists, weights = with_shorter_lists(queries, [5, 2])

    assert [9] * 4 + [5] * 4 + [2] * 4 == lists.lengths.tolist()
    assert queries.query_ids * 3 == lists.query_ids
    np.testing.assert_array_equal(queries.documents, lists.documents[: queries.n_docs])
    np.testing.assert_allclose(np.full(12, 1 / 3), weights)


def test_lists_that_are_short_already_are_not_repeated() -> None:
    queries = two_kinds(3, n_docs=5)

    lists, weights = with_shorter_lists(queries, [5, 20])

    assert queries is lists
    assert [1, 1, 1] == weights.tolist()


def test_a_shorter_list_holds_documents_of_its_query_with_their_labels_in_their_order() -> None:
    queries = two_kinds(6, n_docs=12)

    lists, _ = with_shorter_lists(queries, [4], seed=3)

    for query in range(6):
        lines = lists.lines[lists.span(6 + query)]
        assert sorted(set(lines.tolist())) == lines.tolist()
        np.testing.assert_array_equal(queries.documents[lines], lists.documents_of(6 + query))
        np.testing.assert_array_equal(queries.labels[lines], lists.labels_of(6 + query))
        assert set(lines) <= set(range(*queries.span(query).indices(queries.n_docs)))


def test_by_a_feature_the_largest_are_kept_and_missing_values_go_first() -> None:
    queries = two_kinds(2, n_docs=8)
    documents = queries.documents.copy()
    documents[0, 1] = np.nan
    queries = queries.with_documents(documents)

    lists, _ = with_shorter_lists(queries, [3], by="f2")

    for query in range(2):
        values = np.nan_to_num(queries.documents_of(query)[:, 1], nan=-np.inf)
        assert sorted(values)[-3:] == sorted(lists.documents_of(2 + query)[:, 1].tolist())


def test_the_sample_follows_the_seed() -> None:
    queries = two_kinds(6, n_docs=12)
    first, again, other = (with_shorter_lists(queries, [4], seed=seed)[0].lines for seed in (1, 1, 2))

    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_an_unknown_feature_is_named() -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"\[lists\] by: expected 'random' or a feature .* found 'bm25'"
    ):
        with_shorter_lists(two_kinds(), [3], by="bm25")


def test_the_largest_values_are_kept_in_the_order_of_their_documents_and_ties_go_to_the_first() -> None:
    queries = two_kinds(1, n_docs=6)
    documents = queries.documents.copy()
    documents[:, 3] = [2, 5, np.nan, 5, 2, 7]
    queries = queries.with_documents(documents)

    kept = [with_shorter_lists(queries, [n], by="f4")[0].lines[6:].tolist() for n in range(1, 6)]

    assert [[5], [1, 5], [1, 3, 5], [0, 1, 3, 5], [0, 1, 3, 4, 5]] == kept


def test_only_lists_that_are_longer_are_shortened_and_each_query_counts_once() -> None:
    queries = two_kinds(3, n_docs=4)
    offsets = np.array([0, 6, 9, 12])  # of 6, 3 and 3 documents
    queries = replace(queries, offsets=offsets, positions=np.arange(12), comments=tuple("abcdefghijkl"))

    lists, weights = with_shorter_lists(queries, [3, 5, 2])

    assert [6, 3, 3, 3, 5, 2, 2, 2] == lists.lengths.tolist()
    assert ("q0", "q1", "q2", "q0", "q0", "q0", "q1", "q2") == lists.query_ids
    np.testing.assert_allclose([1 / 4, 1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 4, 1 / 2, 1 / 2], weights)
    assert lists.documents.flags.c_contiguous


def test_the_samples_of_several_queries_are_not_the_same_places() -> None:
    queries = two_kinds(12, n_docs=12)

    lists, _ = with_shorter_lists(queries, [4])
    again, _ = with_shorter_lists(queries, [4], seed=0)

    places = {tuple((lists.lines[lists.span(12 + q)] - 12 * q).tolist()) for q in range(12)}
    assert len(places) > 6
    np.testing.assert_array_equal(lists.lines, again.lines)


def test_features_that_could_have_been_meant_are_up_to_five() -> None:
    with pytest.raises(InvalidConfiguration, match=r"a feature \(f1, f2, f3, f4, f5, …\)"):
        with_shorter_lists(two_kinds(), [3], by="f6")


def test_weights_are_kept_if_nothing_is_shortened() -> None:
    queries = replace(two_kinds(3, n_docs=5), weights=np.array([2.0, 1.0, 0.5]))

    lists, weights = with_shorter_lists(queries, [5])

    assert queries is lists
    assert [2.0, 1.0, 0.5] == weights.tolist()
