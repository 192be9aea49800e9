from __future__ import annotations

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
