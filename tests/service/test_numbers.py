"""Numbers straight into a buffer: the same answer as without, whatever the body; and only where nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank_service.problems import Problem
from localrank_service.wire import numbers, rerank_json
from localrank_service.wire.query import Limits
from tests.service.conftest import three_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTRACT = three_kinds().contract
LIMITS = Limits(6, refuse_extra_features=False)

pytest.importorskip("simdjson", reason="simdjson has no wheel for this Python")


def outcome(body: bytes) -> tuple[Any, ...]:
    """Everything that a request's reading decides."""
    try:
        query = rerank_json.read(body)
        documents = query.documents(CONTRACT, LIMITS)
    except Problem as problem:
        return problem.status, problem.detail, problem.pointer
    cells = [documents.locate(d, f) for d in range(len(documents.matrix)) for f in (None, 0, 3)]
    return (
        query.options,
        documents.matrix.shape,
        documents.matrix.tobytes(),
        documents.ids,
        documents.ignored,
        cells,
    )


def check_same(body: bytes) -> tuple[Any, ...]:
    fast = outcome(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "simdjson", None)
        slow = outcome(body)
    assert slow == fast
    return fast


PLAIN: dict[str, str] = {
    "rows": '{"documents": [{"features": [1, 2, 3, 4]}, {"features": [5, 6, 7, 8.5]}]}',
    "rows with ids": '{"documents": [{"id": "a", "features": [1, 2, 3, 4]}, {"features": [5, 6, 7, 8], "id": 7}]}',
    "rows some of which have ids": '{"documents": [{"features": [1, 2, 3, 4]}, {"features": [5, 6, 7, 8], "id": 7}]}',
    "columns": '{"model": "m", "ids": ["a", 2], "top_n": 3, "features": [[1, 2, 3, 4], [5, 6, 7, 8e-3]]}',
    "flat": '{"features": [1, 2, 3, 4, 5, 6, 7, 8], "shape": [2, 4]}',
    "nulls": '{"features": [[1, null, 3, 4], [null, 6, null, 8]]}',
    "nulls in rows": '{"documents": [{"id": "a", "features": [1, null, 3, 4]}]}',
    "flat nulls": '{"features": [1, null, 3, null], "shape": [1, 4]}',
    "late nulls": '{"query_id": "' + "q" * 3000 + '", "features": [[1, null, 3, 4]]}',
    "brackets in ids": '{"ids": ["a[0]", "]["], "features": [[1, 2, 3, 4], [1, 2, 3, 4]]}',
    "integers of 64 bits": '{"features": [[18446744073709551615, -9223372036854775808, 9007199254740993, 0]]}',
    "texts that look like more": '{"model": "[[true]] {\\"a\\": 1}", "features": [[1, 2, 3, 4]]}',
    "zeros": '{"features": [[-0, -0.0, 0, 1e-400]]}',
    "null for a row": '{"features": [null]}',
    "empty rows": '{"features": [[], []]}',
    "names": '{"feature_names": ["age", "ctr:7d", "pagerank", "bm25"], "features": [[1, 2, 3, 4]]}',
    "a zero byte in an id": '{"ids": ["a\\u0000b"], "features": [[1, 2, 3, 4]]}',
}

UNUSUAL: dict[str, str | bytes] = {
    "ragged": '{"features": [[1, 2, 3], [4]]}',
    "ragged, the total fits": '{"features": [[1, 2, 3, 4, 5], [1, 2, 3]]}',
    "ragged documents": '{"documents": [{"features": [1, 2, 3, 4, 5]}, {"features": [1, 2, 3]}]}',
    "a nested list in place of two": '{"features": [[1, [], [2, 3], 4]]}',
    "a nested list in a document": '{"documents": [{"features": [1, [2, 3], 4]}]}',
    "nested, and an empty one, in a document": '{"documents": [{"features": [1, [], [2, 3], 4]}]}',
    "nested, and as many brackets escaped": '{"query_id": "\\u005b\\u005b", "features": [[1, [], [2, 3], 4]]}',
    "flat, nested": '{"features": [1, [], [2, 3], 4], "shape": [1, 4]}',
    "a number for a row": '{"features": [[1, 2, 3, 4], 5]}',
    "a row for a number": '{"features": [5, [1, 2, 3, 4]], "shape": [1, 5]}',
    "a boolean": '{"features": [[1, true, 3, 4]]}',
    "a text": '{"features": [[1, "2", 3, 4]]}',
    "the text null": '{"features": [[1, "null", 3, 4]]}',
    "a null and a boolean": '{"features": [[1, null, false, 4]]}',
    "a null elsewhere": '{"top_n": null, "features": [[1, 2, 3, 4]]}',
    "a null here and there": '{"top_n": null, "features": [[1, null, 3, 4]]}',
    "null in a text, and what stands for it": '{"ids": ["null"], "features": [[1, 4e99, 3, 4]]}',
    "null in a name, and what stands for it": '{"null": 1, "features": [[1, 4e99, 3, 4]]}',
    "null for a text, and what stands for it": '{"model": null, "features": [[1, 4e99, 3, 4]]}',
    "null among ids, and what stands for it": '{"ids": [null], "features": [[1, 4e99, 3, 4]]}',
    "null and what stands for it": '{"features": [[null, 4e99, 3, 4]]}',
    "null after a digit": '{"features": [[1null, 4e99, 3, 4]]}',
    "null after a minus": '{"features": [[-null, 2, 3, 4]]}',
    "null before a digit": '{"features": [[null5, 2, 3, 4]]}',
    "null for documents": '{"documents": null}',
    "null for features": '{"features": null}',
    "null for a document": '{"documents": [null]}',
    "null for a document's features": '{"documents": [{"features": null}]}',
    "null for a document's id": '{"documents": [{"id": null, "features": [1, 2, 3, 4]}]}',
    "a member twice": '{"features": [[1, 2, 3, 4]], "features": [[4, 3, 2, 1]]}',
    "a member twice, and a colon escaped": '{"query_id": "\\u003a", "features": [[1, 2, 3, 4]], "features": [[4, 3, 2, 1]]}',
    "a document's member twice": '{"documents": [{"id": 1, "id": 2, "features": [1, 2, 3, 4]}]}',
    "a document's features twice": '{"documents": [{"features": [1, 2, 3, 4], "features": [1, 2, 3, 4]}]}',
    "a document of nothing": '{"documents": [{}]}',
    "a document with more": '{"documents": [{"features": [1, 2, 3, 4], "text": 1}]}',
    "named": '{"documents": [{"features": {"bm25": 1, "pagerank": 2, "ctr:7d": 3, "age": 4}}]}',
    "named later": '{"documents": [{"features": [1, 2, 3, 4]}, {"features": {"bm25": 1, "age": 4}}]}',
    "no documents": '{"documents": []}',
    "no rows": '{"features": []}',
    "a zero byte in a name": '{"features\\u0000": 1, "features": [[1, 2, 3, 4]]}',
    "a zero byte in a document's name": '{"documents": [{"features\\u0000": 1, "features": [1, 2, 3, 4]}]}',
    "both forms": '{"features": [[1, 2, 3, 4]], "documents": []}',
    "base64": '{"features_b64": "AAAAAAAAAAAAAAAAAAAAAA==", "shape": [1, 4]}',
    "a byte order mark": b'\xef\xbb\xbf{"features": [[1, 2, 3, 4]]}',
    "bytes that are no text": b'{"model": "\xff", "features": [[1, 2, 3, 4]]}',
    "a lone surrogate": '{"model": "\\ud800", "features": [[1, 2, 3, 4]]}',
    "a huge integer": '{"features": [[18446744073709551616, 2, 3, 4]]}',
    "an enormous integer": '{"features": [[1' + "0" * 400 + ", 2, 3, 4]]}",
    "beyond double": '{"features": [[1e400, 2, 3, 4]]}',
    "NaN": '{"features": [[NaN, 2, 3, 4]]}',
    "deep": "[" * 3000 + "]" * 3000,
    "deep ids": '{"features": [[1, 2, 3, 4]], "ids": ' + "[" * 1000 + "]" * 1000 + "}",
    "deep features": '{"features": ' + "[" * 1000 + "]" * 1000 + "}",
    "deep below features": '{"features": ' + "[" * 1500 + "]" * 1500 + "}",
    "an id that is a list": '{"ids": [["a"]], "features": [[1, 2, 3, 4]]}',
    "an object for a list": '{"ids": {"a": 1}, "features": [[1, 2, 3, 4]]}',
    "a list": "[1, 2, 3, 4]",
    "nothing": "",
    "cut": '{"features": [[1, 2, 3, 4',
    "more": '{"features": [[1, 2, 3, 4]]} {}',
}


def encoded(body: str | bytes) -> bytes:
    return body if isinstance(body, bytes) else body.encode()


@pytest.mark.parametrize("case", PLAIN)
def test_plain_bodies_are_read_the_fast_way_and_to_the_same_bits(case: str) -> None:
    body = encoded(PLAIN[case])

    assert numbers.plain_members(body) is not None
    check_same(body)


@pytest.mark.parametrize("case", UNUSUAL)
def test_anything_else_is_read_the_other_way(case: str) -> None:
    body = encoded(UNUSUAL[case])

    assert numbers.plain_members(body) is None
    check_same(body)


def test_the_same_numbers_in_other_rows_are_another_request() -> None:
    """A flattening parser has the same buffer for both."""
    ragged = numbers.plain_members(b'{"features": [[1, 2, 3], [4]]}')
    square = numbers.plain_members(b'{"features": [[1, 2], [3, 4]]}')

    assert ragged is None
    assert square is not None
    np.testing.assert_array_equal([[1, 2], [3, 4]], square["features"])


@pytest.mark.parametrize(
    ("body", "status", "at"),
    [
        ('{"features": [[1, 2, 3]]}', 422, "/features/0"),
        ('{"features": [[1, 2, 3, 4]], "ids": []}', 422, "/ids"),
        ('{"features": [1, 2, 3, 4], "shape": [2, 4]}', 422, "/features"),
        ('{"features": [[1, 2, 3, 4]], "shape": [1, 4]}', 422, "/features"),
        ('{"features": [1, 2, 3, 4]}', 422, "/features/0"),
        (json.dumps({"features": [[1, 2, 3, 4]] * 7}), 413, "/features"),
        (json.dumps({"documents": [{"features": [1, 2, 3, 4]}] * 7}), 413, "/documents"),
    ],
)
def test_plain_bodies_that_do_not_fit_are_refused_as_others_are(body: str, status: int, at: str) -> None:
    assert numbers.plain_members(body.encode()) is not None

    found = check_same(body.encode())

    assert (status, at) == (found[0], found[2])


def test_a_parser_serves_again_after_an_unusual_body() -> None:
    for _ in range(3):
        assert numbers.plain_members(b'{"features": [[1, true]]}') is None
        assert numbers.plain_members(b'{"features": [[1, 2]]}') is not None


cell = st.sampled_from(
    ["1", "-2.5", "0", "-0", "1e-3", "4e99", "null", "null", "true", '"3"', "[]", "[2,3]", "1e39"]
)
row = st.lists(cell, min_size=3, max_size=5) | st.lists(
    st.sampled_from(["1", "2.5", "null"]), min_size=4, max_size=4
)
space = st.sampled_from(["", " ", "\n"])
texts = st.sampled_from(
    ['"a"', "7", '"a[:"', '"\\u005b"', '"\\u003a"', '"null"', "null", '"4e99"', "4e99", "1.5"]
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    def listed(items: list[str]) -> str:
        return "[" + ("," + draw(space)).join(items) + "]"

    rows = [listed(one) for one in draw(st.lists(row, min_size=1, max_size=4))]
    form = draw(st.integers(0, 2))
    members = []
    if form == 0:
        members.append(f'"features":{draw(space)}{listed(rows)}')
        if draw(st.booleans()):
            members.append('"ids":' + listed([draw(texts) for _ in rows]))
    elif form == 1:
        flat = ",".join(one[1:-1] for one in rows)
        members += [f'"features":[{flat}]', f'"shape":[{len(rows)},4]']
    else:
        documents = [
            '{"features":' + one + (f',"id":{draw(texts)}' if draw(st.booleans()) else "") + "}"
            for one in rows
        ]
        members.append('"documents":' + listed(documents))
    extras = ['"model":' + draw(texts), '"top_n":2', '"query_id":' + draw(texts), '"features":[]', '"null":1']
    members += draw(st.lists(st.sampled_from(extras), max_size=2))
    body = "{" + ("," + draw(space)).join(draw(st.permutations(members))) + "}"
    if draw(st.integers(0, 3)) == 0:
        position = draw(st.integers(0, len(body) - 1))
        damage = draw(st.sampled_from(["", "[", "]", '"', ",", ":", "null", "1", "\\", "\x00"]))
        body = body[:position] + damage + body[position + draw(st.integers(0, 2)) :]
    return body.encode()


@pytest.fixture(scope="module")
def seen() -> Iterator[list[bool]]:
    """Whether each body of the property below was plain: both kinds must have come up often."""
    kinds: list[bool] = []
    yield kinds
    assert 0.05 < np.mean(kinds) < 0.95


@settings(max_examples=1000, deadline=None)
@given(body=bodies())
def test_with_and_without_simdjson_the_answer_is_the_same(body: bytes, seen: list[bool]) -> None:
    seen.append(numbers.plain_members(body) is not None)

    check_same(body)
