"""A body is checked before it is parsed, and parsed in pieces: each piece is what parsing the whole would give."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank.native import texts as scan
from localrank_service.http.problems import Problem
from localrank_service.wire import text, uncompiled
from localrank_service.wire.query import Limits
from localrank_service.wire.text import SMALL, Elements, Text, checked, outline_members, refuse

pytestmark = pytest.mark.usefixtures("arithmetic")

LIMITS = Limits(5000, refuse_extra_features=False, max_numbers=50, max_members=99)

texts = st.text(alphabet='ab"\\\n,:[]{}é\u2028😀', max_size=6)
scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=30,
)


@st.composite
def bodies(draw: st.DrawFn, inner: st.SearchStrategy[Any] = values) -> bytes:
    written = json.dumps(
        draw(inner),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 0, 2])),
        separators=draw(st.sampled_from([None, (",", ":"), (" ,\t", "\r\n: ")])),
    )
    return (
        draw(st.sampled_from(["", " ", "\n\t"])).encode()
        + written.encode()
        + draw(st.sampled_from([b"", b" \r"]))
    )


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    body = draw(bodies())
    parts = [
        b"",
        b'"',
        b"[",
        b"}",
        b",",
        b":",
        b"\\",
        b"\xff",
        b"\xed\xa0\x80",
        b"\x00",
        b"0",
        b"-",
        b".5",
        b"nul",
    ]
    for _ in range(draw(st.integers(0, 2))):
        position = draw(st.integers(0, len(body)))
        body = body[:position] + draw(st.sampled_from(parts)) + body[position + draw(st.integers(0, 2)) :]
    return body


def counted(value: Any, *, in_list: bool = False) -> tuple[int, int, int, int]:
    """Levels, numbers in lists, other values and names, counted in the parsed value."""
    if isinstance(value, dict | list):
        inner = [
            counted(one, in_list=isinstance(value, list))
            for one in (value if isinstance(value, list) else value.values())
        ]
        levels, numbers, members, names = (([part[i] for part in inner] if inner else [0]) for i in range(4))
        own = len(value) if isinstance(value, dict) else 0
        return 1 + max(levels), sum(numbers), 1 + sum(members), own + sum(names)
    is_number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    return (0, 1, 0, 0) if in_list and is_number else (0, 0, 1, 0)


def loads(body: bytes) -> Any:
    """Parse; a number beyond double is JSON, though orjson refuses it."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return json.loads(body) if "infinity" in str(error) else error


def sized(body: bytes, members: int = 10**6, numbers: int = 10**6, levels: int = 64) -> scan.Size:
    limits = {"members": members, "numbers": numbers, "levels": levels}
    return scan.scan(body, **limits) or uncompiled.scan(body, **limits)


@given(body=damaged())
def test_what_is_json_is_what_a_parser_takes(body: bytes) -> None:
    assert isinstance(loads(body), Exception) == (sized(body).problem == "syntax")


@given(body=bodies())
def test_values_are_counted(body: bytes) -> None:
    # Limits that are near: without compiled code nothing is counted far from them.
    levels, numbers, members, names = counted(loads(body))

    found = sized(body, members=members, numbers=max(numbers, 1))

    assert "" == found.problem
    assert levels == found.levels
    if found.members:
        assert (numbers, members, names) == (found.numbers, found.members, found.names)


@given(body=bodies())
def test_a_limit_is_passed_by_one(body: bytes) -> None:
    levels, numbers, members, _ = counted(loads(body))

    if levels:
        assert "levels" == sized(body, levels=levels - 1).problem
    if members:
        assert "members" == sized(body, members=members - 1, numbers=numbers).problem
    if numbers:
        assert "numbers" == sized(body, members=members, numbers=numbers - 1).problem


@pytest.fixture
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (scan, uncompiled):
        monkeypatch.setattr(place, "RUN_VALUES", 5)
        monkeypatch.setattr(place, "RUN_BYTES", 40)


def whole(body: bytes) -> Text:
    return checked(body, Limits(5000, refuse_extra_features=False))


@pytest.mark.usefixtures("_short_runs")
@given(body=bodies(st.lists(values, max_size=12)))
def test_runs_put_together_are_the_array(body: bytes) -> None:
    elements = Elements(whole(body))
    expected = loads(body)

    runs = list(elements)

    assert expected == [element for _, run in runs for element in run] == elements.all()
    assert all(expected[first : first + len(run)] == run for first, run in runs)
    assert len(expected) == elements.count
    assert expected == [elements[position] for position in range(elements.count)]
    assert expected == [loads(one.content) for one in elements.texts()]
    assert [f"/{position}" for position in range(elements.count)] == [one.at for one in elements.texts()]


@pytest.mark.usefixtures("_short_runs")
@given(body=bodies(st.dictionaries(texts, values, max_size=8)))
def test_members_are_those_of_the_object(body: bytes) -> None:
    members = whole(body).members()

    assert loads(body) == {name: loads(one.content) for name, one in members.items()}
    assert loads(body) == {name: one.value() for name, one in members.items()}
    for one in members.values():
        assert one.kind == one.content[:1].decode()


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"[" * 64 + b"]" * 64, 200, ""),
        (b"[" * 65 + b"]" * 65, 400, "nested too deeply: more than 64 levels"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, 400, "nested too deeply: more than 64 levels"),
        (b"[" + b"1," * 49 + b"1]", 200, ""),
        (b"[" + b"1," * 50 + b"1]", 413, "more than 50 numbers"),
        (b"[" + b"[]," * 97 + b"[]]", 200, ""),
        (b"[" + b"[]," * 98 + b"[]]", 413, "more than 99 values, not counting numbers in lists"),
        (b"[" + b"null," * 50 + b"null]", 413, "more than 50 numbers"),
        (b'["' + b"[,{:" * 500 + b'"]', 200, ""),
    ],
)
def test_what_a_body_may_hold_is_checked_before_it_is_parsed(
    body: bytes, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orjson, "loads", lambda _: pytest.fail("parsed"))
    try:
        checked(body, LIMITS)
        found, detail = 200, ""
    except Problem as problem:
        found, detail = problem.status, problem.detail

    assert status == found
    assert said in detail


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'[{"a": 1, "a": 2}]', "'a' stands twice"),
        (b'[[{"x": {"a": 1, "b": 3, "\\u0061": 2}}]]', "'a' stands twice"),
        (b'["a:b", {"c": ":", "d": {"e": 1, "e": 1}}]', "'e' stands twice"),
    ],
)
def test_an_object_that_has_a_member_twice_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(Problem, match=said) as refused:
        Elements(whole(body)).all()

    assert 400 == refused.value.status


def test_of_an_object_s_own_members_none_stands_twice() -> None:
    with pytest.raises(Problem, match="'a' stands twice") as refused:
        whole(b'{"a": 1, "\\u0061": 2}').members()

    assert 400 == refused.value.status


@pytest.mark.parametrize(
    ("body", "at"),
    [
        (b"[1, 2, 1e999]", "/2"),
        (b"[[], [1, -1e400]]", "/1/1"),
        (b'[{"a": 1}, {"b/": [9' + b"9" * 400 + b"]}]", "/1/b~1/0"),
    ],
)
def test_a_number_beyond_double_is_pointed_at(body: bytes, at: str) -> None:
    with pytest.raises(Problem, match="beyond the range of float32") as refused:
        Elements(whole(body)).all()

    assert (422, at) == (refused.value.status, refused.value.pointer)


@pytest.mark.parametrize("inner", [b"[]," * 20_000 + b"[]", b'"' + b"a" * 2**20 + b'"'])
def test_an_element_that_is_too_large_is_refused_unparsed(inner: bytes) -> None:
    elements = Elements(whole(b"[1, [%b]]" % inner))

    with pytest.raises(Problem, match=r"\[1\] has \d+ values in \d+ bytes") as refused:
        elements.all()

    assert (413, "/1") == (refused.value.status, refused.value.pointer)


def test_a_value_that_is_too_large_is_refused_unparsed() -> None:
    with pytest.raises(Problem, match="model has 70002 bytes; expected at most 65536"):
        whole(b'{"model": "' + b"a" * 70_000 + b'"}').members()["model"].value()


def test_an_object_of_many_members_is_not_looked_at() -> None:
    body = b"{" + b",".join(b'"%d": 1' % position for position in range(65)) + b"}"

    with pytest.raises(Problem, match="the body has 65 members; expected at most 64"):
        whole(body).members()


@pytest.mark.parametrize("at", [0, 70_000])
def test_where_a_body_is_no_json_is_said(at: int) -> None:
    body = b'{"a":' + b" " * at + b'"x", b}'

    with pytest.raises(Problem, match="the body is not JSON: ") as refused:
        checked(body, LIMITS)

    assert (400, "") == (refused.value.status, refused.value.pointer)
    if at:
        assert str(len(body) - 2) in refused.value.detail


@pytest.mark.parametrize(
    "body", [b'{"a": 1, "a": 2}', b'[{"a": {"b": 1, "b": 1}}]', rb'{"a": 1, "\u0061": 2}']
)
def test_a_small_value_with_a_member_twice_is_refused_too(body: bytes) -> None:
    with pytest.raises(Problem, match=r"twice"):
        whole(body).value()


@pytest.mark.parametrize("body", [b'{"a": 1, "b": [{"a": 1}, {"a": 1}]}', b'["a:a", "a:a"]', b'"a:1"', b"7"])
def test_a_small_value_is_what_a_parser_makes_of_it(body: bytes) -> None:
    assert orjson.loads(body) == whole(body).value()


@pytest.mark.parametrize(("size", "taken"), [(SMALL, True), (SMALL + 1, False)])
def test_the_largest_value_and_the_largest_name_are_exact(size: int, *, taken: bool) -> None:
    value = whole(b'{"model": "%b"}' % (b"a" * (size - 2))).members()["model"]
    named = whole(b'{"%b":1}' % (b"a" * (size - 2)))

    if taken:
        assert "a" * (size - 2) == value.value()
        assert ["a" * (size - 2)] == list(named.members())
    else:
        with pytest.raises(Problem, match="model has 65537 bytes; expected at most 65536") as large:
            value.value()
        with pytest.raises(Problem, match="a member's name has 65537 bytes") as long:
            named.members()
        assert (413, "/model") == (large.value.status, large.value.pointer)
        assert (422, "") == (long.value.status, long.value.pointer)


def test_a_body_that_is_too_large_a_value_is_called_the_body() -> None:
    with pytest.raises(Problem, match="the body has 70002 bytes"):
        whole(b'"' + b"a" * 70_000 + b'"').value()


def test_an_object_may_have_64_members() -> None:
    body = b"{" + b",".join(b'"%d": 1' % position for position in range(64)) + b"}"

    assert 64 == len(whole(body).members())


@pytest.mark.parametrize(
    ("element", "taken"),
    [
        (b'"' + b"a" * (2**20 - 2) + b'"', True),
        (b'"' + b"a" * (2**20 - 1) + b'"', False),
        (b"[" + b"0," * (2**15 - 2) + b"0]", True),
        (b"[" + b"0," * 2**15 + b"0]", False),
    ],
    ids=["1 MiB", "a byte more", "32,768 values", "more values"],
)
def test_the_largest_element_is_exact(element: bytes, *, taken: bool) -> None:
    elements = Elements(whole(b"[0,%b]" % element))

    if taken:
        assert [0, orjson.loads(element)] == elements.all()
    else:
        with pytest.raises(
            Problem, match=r"^\[1\] has \d+ values in \d+ bytes; expected at most 32768 in 1048576$"
        ):
            elements.all()


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("/documents/3", "documents[3]"),
        ("/a~1b/3/c~0d", "a/b[3].c~d"),
        ("/0/1", "[0][1]"),
        ("/queries/2/features/4/id", "queries[2].features[4].id"),
        ("/a/b", "a.b"),
        ("/~01", "~1"),
    ],
)
def test_a_place_is_shown_as_one_says_it(at: str, shown: str) -> None:
    assert shown == text._path(at)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("\u00e4", '"\u00e4"'),
        ("a" * 38, '"' + "a" * 38 + '"'),
        ("a" * 39, '"' + "a" * 36 + "\u2026"),
        ([], "a list"),
        ([-1], "[-1]"),
        ([1, 2.5, 3, 4], "[1, 2.5, 3, 4]"),
        ([1, 2, 3, 4, 5], "a list"),
        ([1, True], "a list"),
        ([1, "2"], "a list"),
        ([[1]], "a list"),
        ([10**37], "[1" + "0" * 37 + "]"),
        ([10**38], "a list"),
        ({"a": 1}, "an object"),
        (Text(b"  [1] ", 2, 5, ""), "a list"),
        (Text(b'{"a": 1}', 0, 8, ""), "an object"),
        (Text(b"[12]", 1, 3, ""), "12"),
        (Text(b'"' + b"a" * SMALL + b'"', 0, SMALL + 2, ""), '"\\"' + "a" * 34 + "\u2026"),
    ],
)
def test_what_was_found_is_shown_shortly(found: Any, shown: str) -> None:
    with pytest.raises(Problem) as caught:
        refuse("member", "something else", found, "/at")

    assert (422, "/at") == (caught.value.status, caught.value.pointer)
    assert f"member: expected something else, found {shown}" == caught.value.detail


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is empty; expected a JSON object"),
        (b" \n", "the body is empty; expected a JSON object"),
        (b"[NaN]", "the body is not JSON: NaN at byte 1; a missing value is null"),
        (b"[1, nan]", "the body is not JSON: NaN at byte 4; a missing value is null"),
        (b"[Infinity]", "the body is not JSON: Infinity at byte 1; a missing value is null"),
        (b'{"\xc3\xa4": -Infinity}', None),
        (b"[" + b" " * SMALL + b"x]", f"the body is not JSON: unexpected 'x]' at byte {SMALL + 1}"),
        (b"[" + b" " * SMALL + b"abcdefghijklmnop", None),
        (b"[" + b" " * SMALL, f"the body is not JSON: it ends at byte {SMALL + 1}"),
    ],
)
def test_what_is_no_json_is_explained(body: bytes, said: str | None) -> None:
    with pytest.raises(Problem) as caught:
        checked(body, LIMITS)

    assert (400, "") == (caught.value.status, caught.value.pointer)
    assert said is None or said == caught.value.detail


def test_a_text_begins_after_the_space_before_it() -> None:
    found = whole(b" \t\r\n[1 ] ")

    assert (4, 9, "[", "") == (found.begin, found.end, found.kind, found.at)
    assert ["b", 1] == [one.value() for one in whole(b'{"a" : \n "b", "c":1}').members().values()]
    assert "" == Elements(whole(b"[ ]")).kind
    assert "{" == Elements(whole(b"[ {}, 1]")).kind


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ({}, 0),
        ([], 0),
        ({"a": 1, "b": {"c": 2}}, 3),
        ([[{"a": [{"b": 1}]}], {"c": None}], 3),
        ({"a": [1, {"b": 1, "c": [{"d": {}}]}]}, 4),
    ],
)
def test_members_are_counted_at_every_level(value: Any, count: int) -> None:
    assert count == text.count_members(value)


@pytest.mark.parametrize(
    ("outline", "parsed"),
    [
        (b'{"a": [null]}', True),
        (b"[]", False),
        (b"{", False),
        (b'{"a": 1e999}', False),
        (b"{}".ljust(2**20), True),
        (b"{}".ljust(2**20 + 1), False),
        (b'{"a": [' + b"{}," * (2**15 - 3) + b"{}]}", True),
        (b'{"a": [' + b"{}," * (2**15 - 2) + b"{}]}", False),
        (b'{"a": [' + b"0," * (2**15 - 1) + b"0]}", True),
        (b'{"a": [' + b"0," * 2**15 + b"0]}", False),
        (b'{"a":' * 64 + b"1" + b"}" * 64, True),
        (b'{"a":' * 65 + b"1" + b"}" * 65, False),
    ],
)
def test_what_is_left_of_a_body_is_parsed_if_it_is_small(
    outline: bytes, arithmetic: str, *, parsed: bool
) -> None:
    """Without compiled code no body is read so."""
    expected = orjson.loads(outline) if parsed and arithmetic == "compiled" else None

    assert expected == outline_members(outline)
