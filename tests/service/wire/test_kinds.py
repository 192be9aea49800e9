"""Kinds of values: the sentence, the schema and the check of each say the same."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from localrank_service.wire.members import (
    ANYTHING,
    FLAG,
    ID,
    OBJECT,
    TEXT,
    Kind,
    integer,
    matching,
    number,
    one_of,
    text_of,
)


@pytest.mark.parametrize(
    ("kind", "expected", "good", "bad"),
    [
        (TEXT, "a text", ["", "a"], [1, None, ["a"]]),
        (ID, "a text or an integer", ["", 1, -1, 2**70], [1.5, True, None, []]),
        (FLAG, "true or false", [True, False], [0, 1, "true", None]),
        (OBJECT, "an object", [{}, {"a": 1}], [[], "a", None]),
        (integer(2), "an integer of at least 2", [2, 3, 2**70], [1, -2, "2", True, None]),
        (integer(2, 4), "an integer from 2 to 4", [2, 3, 4], [1, 5, "3", None]),
        (integer(0, 0), "an integer from 0 to 0", [0], [1, -1, False]),
        (number(1, 2.5), "a number from 1 to 2.5", [1, 1.0, 2.5, 2], [0.999, 2.501, "2", True, None]),
        (number(0, 3_600_000), "a number from 0 to 3.6e+06", [0, 3_600_000], [-1, 3_600_000.5]),
        (number(1, 2, above=True), "a number above 1, at most 2", [1.001, 2], [1, 1.0, 2.001, "2", True]),
        (number(0, 3_600_000, above=True), "a number above 0, at most 3600000", [1e-9], [0]),
        (text_of(1, 3), "a text of 1 to 3 characters", ["a", "abc", "\u00e4\u00e4\u00e4"], ["", "abcd", 12, None]),
        (matching("[a-c]+", "some of a, b, c"), "some of a, b, c", ["a", "cab"], ["", "d", "ad", "da", 1]),
        (one_of(iter(("x", "y"))), "one of x, y", ["x", "y"], ["z", "", 1, None, ["x"]]),
    ],
)  # fmt: skip
def test_a_kind_takes_what_it_describes(kind: Kind, expected: str, good: list[Any], bad: list[Any]) -> None:
    assert kind.accepts is not None
    assert expected == kind.expected
    valid = jsonschema.Draft202012Validator(dict(kind.schema)).is_valid
    for values, answer in ((good, True), (bad, False)):
        assert [answer] * len(values) == [kind.accepts(value) for value in values]
        assert [answer] * len(values) == [valid(value) for value in values]


def test_anything_is_not_looked_at() -> None:
    assert (None, {}, "anything") == (ANYTHING.accepts, ANYTHING.schema, ANYTHING.expected)
