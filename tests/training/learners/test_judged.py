"""What every learner checks before it starts, called by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank_training.learners.judged import (
    check_finite,
    check_grades,
    check_informative,
    differs_within,
    query_weights,
)

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    """The second query is empty, the third has one document."""
    clouds = [
        np.arange(6.0).reshape(3, 2),
        np.zeros((0, 2)),
        [[6.0, 7.0]],
        np.arange(8.0, 16.0).reshape(4, 2),
    ]
    return judged(clouds, [[0, 1, 2], [], [1], [0, 0, 3, 0]])


def test_no_documents_are_refused(queries: QuerySet) -> None:
    with pytest.raises(InvalidData, match=r"^svmmap: expected judged documents, found none$"):
        check_finite(queries.select([1]), "svmmap")
    check_finite(queries.select([2]), "svmmap")


@pytest.mark.parametrize("cells", [1, 4, 1000])
@pytest.mark.parametrize(("where", "query"), [((0, 0), "0"), ((3, 1), "2"), ((7, 1), "3")])
def test_a_value_that_is_not_finite_is_named_in_whatever_portion_it_is(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch, cells: int, where: tuple[int, int], query: str
) -> None:
    monkeypatch.setattr("localrank_training.learners.judged.CELLS", cells)
    sentence = f"mhr: query '{query}', feature 'f{where[1] + 1}': expected a finite value, found"

    queries.documents[where] = np.nan
    with pytest.raises(InvalidData, match=rf"^{sentence} nan; impute missing values first$"):
        check_finite(queries, "mhr")
    check_finite(queries, "mhr", missing=True)
    queries.documents[where] = np.inf
    for missing in (False, True):
        with pytest.raises(InvalidData, match=rf"^{sentence} inf$"):
            check_finite(queries, "mhr", missing=missing)


def test_the_first_label_that_is_not_finite_is_named(queries: QuerySet) -> None:
    queries.labels[[3, 5]] = np.nan

    with pytest.raises(InvalidData, match=r"^mhr: query '2': expected a finite label, found nan$"):
        check_finite(queries, "mhr", missing=True)


def test_grades_are_from_zero_to_the_highest_and_whole_if_they_must_be(queries: QuerySet) -> None:
    check_grades(queries, "gbrt", whole=True, highest=3)
    queries.labels[4] = 0.5
    check_grades(queries, "gbrt")
    with pytest.raises(InvalidData, match=r"query '3': expected whole numbers as labels, found 0.5"):
        check_grades(queries, "gbrt", whole=True)
    queries.labels[0] = 3.5
    with pytest.raises(InvalidData, match=r"query '0': expected labels of at most 3, found 3.5"):
        check_grades(queries, "gbrt", highest=3)
    queries.labels[2] = -0.5
    with pytest.raises(InvalidData, match=r"query '0': expected labels of at least 0, found -0.5"):
        check_grades(queries, "gbrt")


def test_queries_differ_where_any_column_does(queries: QuerySet) -> None:
    """Neither an empty query nor one document differs from anything."""
    second = queries.documents.copy()
    second[:, 0] = 1.0

    assert [True, False, False, True] == differs_within(queries.labels, queries).tolist()
    assert [True, False, False, True] == differs_within(second, queries).tolist()
    assert [False] * 4 == differs_within(np.zeros((8, 2)), queries).tolist()


def test_only_queries_that_count_can_teach(queries: QuerySet) -> None:
    check_informative(queries, np.array([0.0, 0.0, 0.0, 0.5]), "mhr")
    with pytest.raises(InvalidData, match=r"different labels, found none in 4 queries"):
        check_informative(queries, np.array([0.0, 1.0, 1.0, 0.0]), "mhr")
    queries.documents[queries.span(0)] = 1.0
    check_informative(queries, np.ones(4), "mhr")
    with pytest.raises(
        InvalidData, match=r"different features, found none in 1 queries with different labels"
    ):
        check_informative(queries, np.array([1.0, 1.0, 1.0, 0.0]), "mhr")


def test_weights_are_one_for_each_query_some_of_them_positive(queries: QuerySet) -> None:
    np.testing.assert_array_equal(np.ones(4), query_weights(queries, None))
    np.testing.assert_array_equal([0, 0, 2, 0], query_weights(queries, np.array([0, 0, 2, 0])))
    for broken in ([0.0, 0, 0, 0], [1.0, -0.5, 1, 1], [1.0, np.nan, 1, 1]):
        with pytest.raises(InvalidData, match=r"none negative and at least one positive, found "):
            query_weights(queries, np.array(broken))
