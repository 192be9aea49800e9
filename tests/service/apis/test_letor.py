"""Judged queries as text: how lines become queries, and the limits. `tests/core/test_letor.py` has the rules of a line."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_service.apis.evaluate import letor
from localrank_service.http.problems import Problem
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
\ufeff# made by hand
2 qid:b 1:0.5 3:-1e2 # the best

0 qid:a
0.5 qid:b 1:1 2:2 3:3
  1   qid:a   2:?"""

    b, a = read(text)

    assert ("b", [2.0, 0.5]) == (b.query_id, b.labels.tolist())
    assert [[0.5, 0.0, -100.0], [1.0, 2.0, 3.0]] == b.matrix.tolist()
    assert ("a", [0.0, 1.0]) == (a.query_id, a.labels.tolist())
    np.testing.assert_array_equal([[0, 0, 0], [0, np.nan, 0]], a.matrix)
    assert np.float32 == a.matrix.dtype


def test_queries_are_gathered_across_blocks() -> None:
    """Blocks have 64 KiB; the second wrong line is in a later one."""
    limits = Limits(10_000, refuse_extra_features=False, max_numbers=10_000)
    lines = [f"{at % 5} qid:{at % 3} 1:{at}" for at in range(9000)]

    found = read("\n".join(lines), 1, most_queries=3, limits=limits)

    assert ["0", "1", "2"] == [one.query_id for one in found]
    for query, one in enumerate(found):
        places = np.arange(query, 9000, 3)
        np.testing.assert_array_equal(places, one.matrix[:, 0])
        np.testing.assert_array_equal(places % 5, one.labels)
    lines[8000] = "wrong"
    assert refused("\n".join(lines), 1, most_queries=3, limits=limits).detail.startswith("line 8001, ")


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "\ufeff"])
def test_without_documents_there_are_no_queries(text: str) -> None:
    assert [] == read(text)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"1 qid:a 1:1,2:1", "column 11: expected a number as value of feature 1, found '1,2:1'"),
        (b"1 qid:a 4:1", "column 9: expected at most 3 features, found index 4"),
        (b"1 qid:\xff 1:1", "column 7: expected UTF-8 text, found the byte 0xff"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_column(line: bytes, said: str) -> None:
    problem = refused(b"1 qid:a 1:1\n" + line)

    assert (422, "", f"line 2, {said}") == (problem.status, problem.pointer, problem.detail)


def test_so_many_documents_numbers_and_queries_are_taken() -> None:
    line = "1 qid:a 1:1\n"

    assert 4 == len(read(line * 4)[0].labels)
    assert (413, "the text has more than 4 documents, the limit of this server") == (
        (problem := refused(line * 5)).status,
        problem.detail,
    )
    assert 3 == len(read(line * 3, 4)[0].labels)
    assert "more than 12 numbers" in refused(line * 4, 4).detail
    assert ["a", "b"] == [query.query_id for query in read("1 qid:a\n1 qid:b\n1 qid:a\n")]
    assert "more than 2 queries" in refused("1 qid:a\n1 qid:b\n1 qid:c\n").detail


def test_cells_are_limited_before_there_is_room_for_them() -> None:
    """A line of eight bytes asks for as many cells as the model has features."""
    limits = Limits(100_000, refuse_extra_features=False, max_numbers=10**9)

    problem = refused("0 qid:1\n" * 100_000, 2**40, limits=limits)

    assert (413, "the text has more than 1000000000 numbers, the limit of this server") == (
        problem.status,
        problem.detail,
    )


@pytest.mark.parametrize("character", ["x", "\r", "1", "#"])
def test_a_line_longer_than_a_block_is_refused_and_none_of_it_is_left_out(character: str) -> None:
    line = "1 qid:a 1:1" + character * 70_000 + " 2:2"

    problem = refused(f"1 qid:a 1:1\n{line}\n1 qid:a 1:1\n")

    assert "line 2, column 16577: expected at most 16576 bytes on a line, found more" == problem.detail


def test_reading_goes_on_only_as_long_as_it_may() -> None:
    calls: list[int] = []
    text = "1 qid:a 1:1 # a comment\n" * 10_000
    limits = Limits(10_000, refuse_extra_features=False, max_numbers=10_000)

    letor.read(text.encode(), 1, 2, limits, lambda: calls.append(1))

    assert 4 == len(calls)
