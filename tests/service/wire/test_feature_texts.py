"""Features that are written as text: every form, what is near to one, and how long texts take."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank.native.library import library
from localrank_service.wire.feature_texts import Places, WrongTextError, features_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN = frozenset({"bm25", "price", "ctr:7d", "brand", "a=b"})

FORMS: list[tuple[str, Any]] = [
    ("[1, 2.5, null]", [1, 2.5, None]),
    (" [1]\n", [1]),
    ('["nike", true, 16777217]', ["nike", True, 16777217]),
    ('{"bm25": 1, "brand": "nike"}', {"bm25": 1, "brand": "nike"}),
    ('{"features": [1, 2]}', [1, 2]),
    ('{"features": {"bm25": 2}, "text": "x"}', {"bm25": 2}),
    ('{"features": 3}', {"features": 3}),
    ("{main=[{name=bm25, value=1.5}, {name=price}]}", {"bm25": 1.5, "price": None}),
    ("{main=[{value=1.5, name=bm25}, {value=-2.0E-7, name=price}]}", {"bm25": 1.5, "price": -2e-7}),
    ("{main=[{name=ctr:7d, value=NaN}, {name=a=b, value=1.0}]}", {"ctr:7d": None, "a=b": 1.0}),
    ("{main=[{name=brand, value=Infinity}]}", {"brand": "Infinity"}),
    ("[{main=[{name=bm25, value=1.5}]}]", {"bm25": 1.5}),
    ("{main=[]}", {}),
    ("0.1 2.0 3.2", [0.1, 2.0, 3.2]),
    ("-1e3\tnull 0 NaN", [-1000.0, None, 0, None]),
    ("7", [7]),
    ("1:0.2 3:4", Places({0: 0.2, 2: 4})),
    ("2:? 12:nan", Places({1: None, 11: None})),
    ("bm25: 7.1\nbrand: nike", {"bm25": 7.1, "brand": "nike"}),
    ("bm25: 7.1\r\nctr:7d: 3\r\n\r\nbm25: 4", {"bm25": 7.1, "ctr:7d": 3}),
    (
        "title: Rambo: First Blood\nwith a hero\nprice: None\nbrand:\n \nA man. price: 3",
        {"title": "Rambo: First Blood", "price": None, "brand": None},
    ),
    ("note: a\nnote: b\nbm25: 1", {"note": "b", "bm25": 1}),
    ("brand: 007\nprice: +1\nbm25: 1,5", {"brand": "007", "price": "+1", "bm25": "1,5"}),
    ("[0.5, 1]\nA man goes home.", [0.5, 1]),
    ("{main=[{name=bm25, value=1.5}]}\nmore", {"bm25": 1.5}),
    ("1 2 3\nmore", [1, 2, 3]),
    ("1:2\nmore", Places({0: 2})),
    ('{"bm25": 1e999}', {"bm25": float("inf")}),
    (f"bm25: {chr(57) * 400}", {"bm25": float("inf")}),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
@pytest.mark.usefixtures("arithmetic")
def test_a_text_of_each_form_is_read(text: str, expected: Any) -> None:
    found = features_of(text, KNOWN)

    assert (type(expected), expected) == (type(found), found)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a plain text", "1 2 three", "1:2 3", "0:1", "1:x", "1.5:2", "[1, 2", '"[1]"', "3,4", "1_0 2", "\u0663 1"),
        *("{main=[{name=x, value=1.5}", "{main=[{nome=x}]}", "{main=[x]}", "{=}", "main=[{name=x}]", "{main=[{value=1}]}"),
        *("[" * 100 + "]" * 100, "[" + "1," * 40_000 + "1]", "true", "null\nx", "a:b"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("arithmetic")
def test_any_other_text_is_none(text: str) -> None:
    found = features_of(text, KNOWN)

    assert found is None or [None] == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"bm25": 1, "bm25": 2}', "a name stands twice"),
        ('{"features": {"bm25": 1, "bm25": 2}}', "a name stands twice"),
        ("{main=[{name=x}, {name=x, value=1}]}", "feature 'x' is logged twice"),
        ("{a=[{name=x, value=1}], b=[{name=y, value=2}]}", 'several logged entries, "a" first'),
        ("{a=[], b=[{name=y, value=2}]}", 'several logged entries, "a" first'),
        ("1:2 3:4 1:2", "holds the index 1 twice"),
        ("bm25: 1\nprice: 2\nbm25: 1", "holds the feature 'bm25' twice"),
    ],
)
@pytest.mark.usefixtures("arithmetic")
def test_what_stands_twice_is_refused(text: str, said: str) -> None:
    with pytest.raises(WrongTextError, match=said):
        features_of(text, KNOWN)


def java(values: dict[str, float | None]) -> str:
    """As ``Map.toString`` of a list of maps writes it."""
    listed = [f"{{name={n}}}" if v is None else f"{{name={n}, value={v!r}}}" for n, v in values.items()]
    return "{main=[" + ", ".join(listed) + "]}"


WRITERS: dict[str, Callable[[dict[str, float | None]], str]] = {
    "JSON": json.dumps,
    "Java": java,
    "lines": lambda values: "".join(f"{name}: {value}\n" for name, value in values.items()) + "\nthe: end",
}

names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("form", WRITERS)
@given(values=st.dictionaries(names.filter(lambda name: name != "features"), numbers, min_size=1))
def test_what_is_written_is_read_back(form: str, values: dict[str, float | None]) -> None:
    assert values == features_of(WRITERS[form](values), values)


@given(values=st.lists(numbers, min_size=1))
def test_numbers_are_read_back(values: list[float | None]) -> None:
    bare = " ".join("null" if one is None else repr(one) for one in values)
    places = " ".join(f"{at}:{'?' if one is None else repr(one)}" for at, one in enumerate(values, 1))

    assert values == features_of(bare, KNOWN) == features_of(json.dumps(values), KNOWN)
    assert Places(dict(enumerate(values))) == features_of(places, KNOWN)


@given(
    lists=st.lists(
        st.text(st.sampled_from('[]{}1,5. -e"n:\\'), max_size=8) | st.just("[1,2]") | st.just("[3, null]"),
        min_size=1,
        max_size=4,
    )
)
def test_lists_are_read_together_exactly_if_each_is_one(lists: list[str]) -> None:
    """Two halves of a list, or two lists in one text, are no rows."""

    def row(text: str) -> list[float | None] | None:
        try:
            found = json.loads(text)
        except ValueError:
            return None
        return (
            found
            if type(found) is list and all(one is None or type(one) in {int, float} for one in found)
            else None
        )

    found, rows = rows_of(lists, 100), [row(text) for text in lists]

    if found is not None:
        assert None not in rows
        np.testing.assert_array_equal(np.array(rows, float).astype(np.float32), found)


@pytest.mark.usefixtures("arithmetic")
def test_lists_of_numbers_are_read_together_by_compiled_code() -> None:
    found = rows_of(["[1, 2.5]", "[-3 ,4e0 ]"], 4)

    assert (library() is None) == (found is None)
    assert found is None or [[1.0, 2.5], [-3.0, 4.0]] == found.tolist()
    assert rows_of(["[1, 2.5]", "[-3, 4]"], 3) is None


@pytest.mark.parametrize(
    "part",
    ["[", "{", "}, {", "{a=[", "], a=[", "name=x, value=", "\n", "\n ", ": ", "a: b\n", "1 ", "1:1 ", '{"a":', "[1],", "-", "\\", "0.", "é"],
)  # fmt: skip
@pytest.mark.parametrize("before", ["", "{", "[", "{a=[{", "1", "a: "])
@pytest.mark.parametrize("after", ["", "]}", "}]}", "x"])
def test_every_text_takes_time_in_proportion_to_its_length(before: str, part: str, after: str) -> None:
    text = before + part * (300_000 // len(part)) + after
    begun = time.thread_time()

    with contextlib.suppress(WrongTextError):
        features_of(text, KNOWN)

    assert time.thread_time() - begun < 1.0
