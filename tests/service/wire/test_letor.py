"""Judged queries as text, one document on a line: what is read, and what is refused with the line's number."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_service.http.problems import Problem
from localrank_service.wire import letor
from localrank_service.wire.query import Limits

LIMITS = Limits(4, refuse_extra_features=False, max_numbers=12)


def read(
    text: str | bytes, width: int = 3, *, most_queries: int = 2, limits: Limits = LIMITS
) -> list[letor.Judged]:
    body = text.encode() if isinstance(text, str) else text
    return letor.read(body, width, most_queries, limits, lambda: None)


def refused(text: str | bytes, width: int = 3, *, most_queries: int = 2, limits: Limits = LIMITS) -> Problem:
    with pytest.raises(Problem) as caught:
        read(text, width, most_queries=most_queries, limits=limits)
    return caught.value


def test_lines_are_gathered_by_query_and_what_is_left_out_is_zero() -> None:
    text = """\
# made by hand
2 qid:b 1:0.5 3:-1e2 # the best

0 qid:a
0.5 qid:b 1:1 2:2 3:3
  1   qid:a   2:nan
"""

    b, a = read(text)

    assert ("b", [2.0, 0.5], [2, 5]) == (b.query_id, b.labels.tolist(), b.lines)
    assert [[0.5, 0.0, -100.0], [1.0, 2.0, 3.0]] == b.matrix.tolist()
    assert ("a", [0.0, 1.0], [4, 6]) == (a.query_id, a.labels.tolist(), a.lines)
    np.testing.assert_array_equal([[0, 0, 0], [0, np.nan, 0]], a.matrix)
    assert np.float32 == a.matrix.dtype


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_without_documents_there_are_no_queries(text: str) -> None:
    assert [] == read(text)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1", "a label, qid:QUERY and INDEX:VALUE pairs, found '1'"),
        ("1 qid:", "a label, qid:QUERY and INDEX:VALUE pairs"),
        ("1 query:7 1:1", "a label, qid:QUERY and INDEX:VALUE pairs"),
        ("-1 qid:a 1:1", "a finite label of at least 0, found '-1'"),
        ("inf qid:a 1:1", "a finite label of at least 0"),
        ("nan qid:a 1:1", "a finite label of at least 0"),
        ("1_0 qid:a 1:1", "a number, found '1_0'"),
        ("x qid:a 1:1", "a number, found 'x'"),
        ("1 qid:a 1:1 2", "INDEX:VALUE, found '2'"),
        ("1 qid:a :1", "INDEX:VALUE, found ':1'"),
        ("1 qid:a x:1", "INDEX:VALUE, found 'x:1'"),
        ("1 qid:a \u0661:1", "INDEX:VALUE"),
        ("1 qid:a 1234567890:1", "INDEX:VALUE"),
        ("1 qid:a 123456789:1", "rising indices from 1 to 3, the model's features, found '123456789:1'"),
        ("1 qid:a 0:1", "rising indices from 1 to 3"),
        ("1 qid:a 4:1", "rising indices from 1 to 3"),
        ("1 qid:a 2:1 2:1", "rising indices from 1 to 3, the model's features, found '2:1'"),
        ("1 qid:a 2:1 1:5", "rising indices from 1 to 3, the model's features, found '1:5'"),
        ("1 qid:a 1:1 2:x", "a number, found 'x'"),
        ("1 qid:a 1:1 2:1_0", "a number, found '1_0'"),
        ("1 qid:a " + "9" * 100, f"INDEX:VALUE, found '{'9' * 80}'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(line: str, said: str) -> None:
    problem = refused(f"1 qid:a 1:1\n{line}\n")

    assert (422, "") == (problem.status, problem.pointer)
    assert problem.detail.startswith(f"line 2: expected {said}"), problem.detail


def test_what_is_no_text_is_refused() -> None:
    problem = refused(b"1 qid:a 1:1\n1 qid:\xff 1:1\n")

    assert (400, "line 2: no UTF-8 at byte 6") == (problem.status, problem.detail)


def test_so_many_documents_numbers_and_queries_are_taken() -> None:
    line = "1 qid:a 1:1\n"

    assert 4 == len(read(line * 4)[0].lines)
    assert (413, "the text has more than 4 documents, the limit of this server") == (
        (problem := refused(line * 5)).status,
        problem.detail,
    )
    assert 3 == len(read(line * 3, 4)[0].lines)
    assert "more than 12 numbers" in refused(line * 4, 4).detail
    assert ["a", "b"] == [query.query_id for query in read("1 qid:a\n1 qid:b\n1 qid:a\n")]
    assert "more than 2 queries" in refused("1 qid:a\n1 qid:b\n1 qid:c\n").detail


def test_a_line_has_a_longest_length() -> None:
    """16,384 bytes, and 64 for each of three features; the end of the line counts."""
    line = "1 qid:a 1:1 #"
    line += "x" * (16_384 + 3 * 64 - len(line) - 1) + "\n"

    assert ["a"] == [query.query_id for query in read(line)]
    assert "line 1: expected at most 16576 bytes, found 16577" == refused(f"1{line}").detail


def test_reading_goes_on_only_as_long_as_it_may() -> None:
    calls: list[int] = []

    letor.read(b"1 qid:a 1:1\n\n# no\n1 qid:a 2:1\n", 3, 2, LIMITS, lambda: calls.append(1))

    assert 4 == len(calls)
