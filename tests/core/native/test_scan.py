"""What a JSON text holds and where its parts are: as a reader in Python finds it, and no byte beyond the text.

The reader descends and uses regular expressions; scan.c does neither.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import numpy as np
import pytest

from localrank.native import texts as scanning
from localrank.native.library import library
from tests.core.native.fences import fenced, room

FINE, NOT_JSON, TOO_DEEP, TOO_MANY_MEMBERS, TOO_MANY_NUMBERS = range(5)

SPACE = re.compile(rb"[ \n\r\t]*")
CHARACTER = (
    rb"[\x20\x21\x23-\x5b\x5d-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ALONE = rb"\\u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
TEXT = re.compile(rb'"(?:' + CHARACTER + rb'|\\["\\/bfnrt]|' + ALONE + rb"|" + PAIR + rb')*"')
NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
BROKEN_NUMBER = re.compile(rb"-?(?:0[0-9]|(?:0|[1-9][0-9]*)(?:\.(?![0-9])|(?:\.[0-9]+)?[eE](?![+-]?[0-9])))")
WORD = re.compile(rb"true|false|null")


class Found(NamedTuple):
    status: int
    at: int
    deepest: int
    numbers: int
    others: int
    names: int


class Stop(Exception):
    """Reading ended: with this status, at this place."""


class Reader:
    def __init__(self, text: bytes, levels: int, members: int, numbers: int) -> None:
        self.text, self.most = text, (min(levels, 64), members, numbers)
        self.deepest = self.numbers = self.others = self.names = 0

    def read(self) -> Found:
        try:
            at = self.after_space(self.value(self.after_space(0), 0, in_array=False))
            status = FINE if at == len(self.text) else NOT_JSON
        except Stop as stop:
            status, at = stop.args
        return Found(status, at, self.deepest, self.numbers, self.others, self.names)

    def after_space(self, at: int) -> int:
        found = SPACE.match(self.text, at)
        assert found is not None
        return found.end()

    def count(self, at: int, *, is_number: bool) -> None:
        if is_number:
            self.numbers += 1
            if self.numbers > self.most[2]:
                raise Stop(TOO_MANY_NUMBERS, at)
        else:
            self.others += 1
            if self.others > self.most[1]:
                raise Stop(TOO_MANY_MEMBERS, at)

    def value(self, at: int, level: int, *, in_array: bool) -> int:
        first = self.text[at : at + 1]
        if first and first in b"[{":
            return self.listed(at, level + 1, closing=b"]" if first == b"[" else b"}")
        kind = NUMBER if first and first in b"-0123456789" else TEXT if first == b'"' else WORD
        found = kind.match(self.text, at)
        if found is None or (kind is NUMBER and BROKEN_NUMBER.match(self.text, at)):
            raise Stop(NOT_JSON, at)
        self.count(at, is_number=in_array and (kind is NUMBER or first == b"n"))
        return found.end()

    def listed(self, at: int, level: int, closing: bytes) -> int:
        if level > self.most[0]:
            raise Stop(TOO_DEEP, at)
        self.deepest = max(self.deepest, level)
        self.count(at, is_number=False)
        at = self.after_space(at + 1)
        if self.text[at : at + 1] == closing:
            return at + 1
        while True:
            if closing == b"}":
                name = TEXT.match(self.text, at)
                if name is None:
                    raise Stop(NOT_JSON, at)
                at = self.after_space(name.end())
                if self.text[at : at + 1] != b":":
                    raise Stop(NOT_JSON, at)
                self.names += 1
                at = self.after_space(at + 1)
            at = self.after_space(self.value(at, level, in_array=closing == b"]"))
            following = self.text[at : at + 1]
            if following == closing:
                return at + 1
            if following != b",":
                raise Stop(NOT_JSON, at)
            at = self.after_space(at + 1)


def scanned(text: bytes, levels: int, members: int, numbers: int) -> Found:
    opened = library()
    assert opened is not None
    given, totals = fenced(text), room(5, np.int64)
    status = opened.localrank_scan_json(
        given.ctypes.data, len(text), levels, members, numbers, totals.ctypes.data
    )
    return Found(status, *totals.tolist())


def check(text: bytes, levels: int = 64, members: int = 999, numbers: int = 999) -> Found:
    expected = Reader(text, levels, members, numbers).read()

    assert expected == scanned(text, levels, members, numbers), text
    return expected


TEXTS = [
    b'{"a": [1, 2.5, null, -3e-7], "b": {"c": true, "d": null, "e": 7}, "f": ["x", false]}',
    b"[[[]], {}, [{}], [[1], [null, 2]]]",
    rb'["\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t", "plain text that is longer than sixteen bytes", "\uD800\uDFFF", "0123456789abcdef"]',
    '["é€😀", "sixteen bytes ööööö and more \U0010ffff", "\ud7ff\ue000\uffff"]'.encode(),
    b" \t\r\n[ 0 , -0 , 0.0 , 1E+5 , 10e-1, -1.25 ] ",
    b'{"":{"":{"":""}}, "x" : 1}',
    b"null", b"true", b"false", b"-1.5e3", b'""', b"[]", b"{}", b"7 ", b"",
    b"[1 2]", b"[1,]", b"[,1]", b"[", b"]", b"{", b"}", b"{]", b"[}", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{1:2}", b'{"a" 1}',
    b"[1]]", b"[1] 2", b"nul", b"nulls", b"truefalse", b"tru", b"fals", b"[nul]", b"[null5]", b"-", b"[-]", b"[+1]", b"01",
    b"00", b"-01", b"1.", b".5", b"1.e5", b"1e", b"1e+", b"1e-", b"1ee5", b"0x1", b"1.5.2", b"1.a", b"0e0", b"0E-0", b"0.5e", b"1/", b"1:",
    b'"', b'"a', b'"\\', b'"\\"', b'"\\x"', b'"\\\x00"', b'"\x1f"', b'"\x20"', b'"\x7f"', b'"\x00"', b'"\n"', b'["a\tb"]',
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_found_is_what_a_reader_in_python_finds(text: bytes) -> None:
    check(text)
    check(b" " + text)
    check(b"[" + text + b"]")
    check(b'{"a":' + text + b"}")


def test_every_beginning_of_a_text_is_read_within_itself() -> None:
    for text in TEXTS[:6]:
        for end in range(len(text)):
            check(text[:end])


@pytest.mark.parametrize(
    "digits",
    [b"0", b"9", b"a", b"f", b"A", b"F", b"/", b":", b"@", b"G", b"g", b"`", b"\x10", b"\x80", b"Q", b"\\"],
)
def test_four_hexadecimal_digits_follow_an_escape(digits: bytes) -> None:
    for place in range(4):
        for four in (b"0041", b"D7FF", b"dc00"):
            check(b'["\\u' + four[:place] + digits + four[place + 1 :] + b'"]')


@pytest.mark.parametrize(
    "first", ["0000", "d7ff", "d800", "dbff", "dc00", "dfff", "e000", "ffff", "DBFF", "dC00"]
)
def test_surrogates_stand_in_pairs(first: str) -> None:
    seconds = [
        "",
        "\\ud7ff",
        "\\udbff",
        "\\udc00",
        "\\udfff",
        "\\ue000",
        "\\uDFFF",
        "\\n",
        "\\",
        "u",
        "\\u",
        "\\udc0",
        "\\udc0x",
        "\\xdc00",
        "/udc00",
        "a",
    ]
    for second in seconds:
        text = f'"\\u{first}{second}"'.encode()
        for end in range(len(text) - 7, len(text) + 1):
            check(text[:end])


def test_characters_are_in_their_shortest_form_and_exist() -> None:
    edges = b"\x00\x1f\x20\x22\x5c\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xff"
    for first in (
        0x7E,
        0x7F,
        0x80,
        0xBF,
        0xC0,
        0xC1,
        0xC2,
        0xDF,
        0xE0,
        0xE1,
        0xEC,
        0xED,
        0xEE,
        *range(0xEF, 0x100),
    ):
        for second in edges:
            for more in (b"", b"\x80", b"\x80\x80", b"\xbf\xbf\xbf", b"\x80\x7f", b"\xc0\x80", b"\x80\xc0"):
                character = bytes([first, second]) + more
                assert (TEXT.fullmatch(b'"' + character + b'"') is not None) == (
                    scanned(b'"' + character + b'"', 9, 9, 9).status == FINE
                ), character
                assert NOT_JSON == scanned(b'"' + character, 9, 9, 9).status or b'"' in character


@pytest.mark.parametrize(
    "special", [b'"', b"\\n", b"\x1f", b"\xc3\xa9", b"\x80", b"\x7f", b"\xf0\x9f\x98\x80", b"\\"]
)
@pytest.mark.parametrize("behind", [0, 1, 15, 16, 17, 33])
def test_texts_are_read_sixteen_bytes_at_a_time_up_to_what_is_special(special: bytes, behind: int) -> None:
    for before in range(34):
        text = b'["' + b"a" * before + special + b"b" * behind
        check(text + b'"]')
        check(text + b'"')
        check(text)


@pytest.mark.parametrize("text", TEXTS[:6])
def test_each_limit_is_passed_by_one(text: bytes) -> None:
    found = check(text)

    for less in range(4):
        check(text, levels=max(found.deepest - less, 0))
        check(text, members=max(found.others - less, 0))
        check(text, numbers=max(found.numbers - less, 0))


@pytest.mark.parametrize("levels", [63, 64, 65, 1000])
def test_no_more_than_64_levels_are_read_whatever_is_allowed(levels: int) -> None:
    for depth in (62, 63, 64, 65, 66):
        check(b"[" * depth + b"]" * depth, levels=levels)
        check(b'{"a":' * depth + b"1" + b"}" * depth, levels=levels)
        check(
            b'[{"a":' * (depth // 2)
            + b"[" * (depth % 2)
            + b"null"
            + b"]" * (depth % 2)
            + b"}]" * (depth // 2),
            levels=levels,
        )


def test_damaged_texts_are_read_as_by_python() -> None:
    random = np.random.default_rng(1)
    parts = [
        b"",
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"\\",
        b",",
        b":",
        b"null",
        b"-",
        b".",
        b"e",
        b"0",
        b" ",
        b"\xc3",
        b"\\u",
        b"1",
    ]
    fine = []
    for _ in range(3000):
        text = TEXTS[int(random.integers(7))]
        for _ in range(int(random.integers(1, 3))):
            at = int(random.integers(len(text) + 1))
            text = text[:at] + parts[int(random.integers(len(parts)))] + text[at + int(random.integers(3)) :]
        levels, members, numbers = (int(one) for one in random.integers(0, 25, 3))
        fine.append(check(text, levels, members, numbers).status)

    assert {FINE, NOT_JSON, TOO_DEEP, TOO_MANY_MEMBERS, TOO_MANY_NUMBERS} == set(fine)


class Run(NamedTuple):
    begin: int
    end: int
    elements: int
    values: int
    names: int
    colon: int


def elements_of(text: bytes, begin: int) -> tuple[list[Run], int]:
    """Return every element of an array or object as a run of its own, and where that ends."""
    reader = Reader(text, 64, 999, 999)
    is_object = text[begin : begin + 1] == b"{"
    at, found = reader.after_space(begin + 1), []
    while text[at : at + 1] not in (b"]", b"}"):
        first, colon = at, 0
        if is_object:
            name = TEXT.match(text, at)
            assert name is not None
            colon = reader.after_space(name.end())
            at = reader.after_space(colon + 1)
        end = reader.value(at, 0, in_array=True)
        inside = TEXT.sub(b"", text[first:end])
        # What opens and what follows a comma is counted as a value, whether it is one or not.
        values = 1 + sum(inside.count(one) for one in (b"[", b"{", b","))
        found.append(Run(first, end, 1, values, inside.count(b":"), colon))
        at = reader.after_space(end)
        if text[at : at + 1] == b",":
            at = reader.after_space(at + 1)
    return found, at + 1


def joined(elements: list[Run], values: int, size: int) -> list[Run]:
    runs: list[Run] = []
    for one in elements:
        last = runs[-1] if runs else None
        if last and last.values + one.values <= values and one.end - last.begin <= size:
            runs[-1] = last._replace(
                end=one.end,
                elements=last.elements + 1,
                values=last.values + one.values,
                names=last.names + one.names,
            )
        else:
            runs.append(one)
    return runs


def cut(  # noqa: PLR0917
    text: bytes, begin: int, end: int, values: int, size: int, n_runs: int
) -> tuple[int, list[int], list[Run]]:
    opened = library()
    assert opened is not None
    given, runs, totals = fenced(text), room(6 * n_runs, np.int64), room(2, np.int64)
    written = opened.localrank_cut_json(
        given.ctypes.data, begin, end, values, size, runs.ctypes.data, n_runs, totals.ctypes.data
    )
    return written, totals.tolist(), [Run(*one) for one in runs.reshape(-1, 6)[: max(written, 0)].tolist()]


CONTAINERS = [
    b'[1, "a,]", [2, [3]], {"b": [4, {"c": null}], "d": ":"}, [], {} ,\n7 ]',
    b'{"a": 1, "b" : [1, 2, {"x": 3}], "c,\\"": {"d": {"e": 5}, "f": 6}, "g":null ,"h":[]}',
    b"[[1,2,3],[4,5,6],[7,8,9]]",
    b"[1]", b'{"a":1}', b"[ ]", b"{}", b'["\\\\"]', b'["]", "\\"]"]',
]  # fmt: skip


@pytest.mark.parametrize("text", CONTAINERS)
@pytest.mark.parametrize("before", [b"", b"[7, "])
def test_elements_are_put_together_up_to_both_limits(text: bytes, before: bytes) -> None:
    whole = before + text + b", 8]"
    elements, end = elements_of(whole, len(before))
    limits = {
        0,
        1,
        99,
        *(one.values for one in elements),
        *(sum(one.values for one in elements[:n]) for n in range(9)),
    }
    sizes = {0, 1, 999} | {
        two.end - one.begin + more for one in elements for two in elements for more in (-1, 0)
    }

    for values in limits:
        for size in sizes:
            runs = joined(elements, values, size)
            for n_runs in {0, 1, len(runs)} if size == 999 else {len(runs)}:
                written, totals, found = cut(whole, len(before), len(whole), values, size, n_runs)

                assert (len(runs), [end, len(elements)]) == (written, totals)
                assert runs[:n_runs] == found[:n_runs]


@pytest.mark.parametrize("text", CONTAINERS)
def test_what_was_not_scanned_is_not_cut(text: bytes) -> None:
    for end in range(len(text)):
        assert -1 == cut(text[:end], 0, end, 3, 99, 9)[0] if end else True


def test_an_array_of_more_runs_than_fit_a_limit_is_cut_into_all_of_them() -> None:
    """Runs of 4,096 values, or of 65,536 bytes, and the room that is made for them."""
    many = b"[" + b",".join([b"1"] * 10_000) + b"]"
    large = b"[" + b",".join([b'"' + b"a" * 40_000 + b'"'] * 9) + b"]"

    for text, counts in ((many, [4096, 4096, 1808]), (large, [1] * 9)):
        found = scanning.cut(text, 0, len(text))

        assert found is not None
        assert counts == found.runs[:, 2].tolist()
        assert (len(text), len(json.loads(text))) == (found.end, found.elements)


def test_single_elements_are_cut_up_to_a_number() -> None:
    text = b"[1, [2, 3], 4]"

    for most, expected in ((1, [[1, 2]]), (2, [[1, 2], [4, 10]]), (3, [[1, 2], [4, 10], [12, 13]])):
        found = scanning.cut(text, 0, len(text), single=most)

        assert found is not None
        assert expected == found.runs[:, :2].tolist()
        assert (len(text), 3) == (found.end, found.elements)


def test_cutting_what_was_not_scanned_is_an_error() -> None:
    with pytest.raises(ValueError, match="the text was not scanned"):
        scanning.cut(b"[1, ", 0, 4)


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        (b"[1, x]", "syntax", 4),
        (b"[[[1]]]", "levels", 2),
        (b'["a", "b", "c"]', "members", 11),
        (b"[1, 2, 3, 4]", "numbers", 10),
        (b"[1, 2, 3]", "", 9),
    ],
)
def test_what_passes_a_limit_is_named(text: bytes, problem: str, at: int) -> None:
    found = scanning.scan(text, members=3, numbers=3, levels=2)

    assert found is not None
    assert (problem, at) == (found.problem, found.at)
