"""Numbers lifted out of JSON: the same as by a reader in Python, and no byte beyond what is given.

The reader here is written from the words of json.c, not from its code: regular expressions and fractions.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from localrank.native.library import FOLDER, library
from localrank.native.texts import lift_numbers, powers_of_five
from tests.core.native.building import build_script
from tests.core.native.fences import fenced, room

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Array

UNUSUAL = -1
NAME = b"features"
#: So much before and after a number lets it be read sixteen bytes at a time.
MARGIN = b" " * 48

SPACE = rb"[ \n\r\t]*"
NUMBER = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
TEXT = re.compile(rb'"((?:[^"\\]|\\[\s\S])*)"')
WORD = rb'(?:true|false|"(?:[^"\\]|\\[\s\S])*")'


class Arrays:
    """What the arrays to be lifted look like, with or without texts and truth values among the numbers."""

    def __init__(self, cell: bytes) -> None:
        self.cell = re.compile(cell)
        row = cell + SPACE + rb"(?:," + SPACE + cell + SPACE + rb")*\]"
        self.row = re.compile(rb"\[" + SPACE + row)
        self.rows = re.compile(
            rb"\["
            + SPACE
            + rb"\["
            + SPACE
            + row
            + SPACE
            + rb"(?:,"
            + SPACE
            + rb"\["
            + SPACE
            + row
            + SPACE
            + rb")*\]"
        )


ARRAYS = {
    False: Arrays(rb"(?:null|" + NUMBER + rb")"),
    True: Arrays(rb"(?:null|" + WORD + rb"|" + NUMBER + rb")"),
}


class Lifted(NamedTuple):
    values: bytes
    outline: bytes
    spans: list[list[int]]
    members: int
    places: list[int]


def number_of(text: bytes) -> np.float32 | None:
    """Return the float nearest to the double nearest to a number; nothing if it is infinite or 19 digits leave it open."""
    parts = re.fullmatch(rb"(-?)([0-9]+)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?", text)
    assert parts is not None
    sign, whole, fraction, exponent = parts.groups()
    digits = (whole + fraction).lstrip(b"0")
    power = int(exponent or 0) - len(fraction) + max(len(digits) - 19, 0)
    kept, rest = int(digits[:19] or 0), digits[19:].strip(b"0")
    if kept and len(digits[:19]) + power > 310:
        return None
    if not kept or len(digits[:19]) + power < -400:
        low = high = 0.0
    else:
        try:
            low, high = (float((kept + more) * Fraction(10) ** power) for more in (0, bool(rest)))
        except OverflowError:
            return None
    if low != high:
        return None
    with np.errstate(over="ignore"):
        found = np.float32(low)
    return -found if sign and text != b"-0" else found


def by_python(text: bytes, name: bytes = NAME, *, texts: bool = False) -> Lifted | None:
    values: list[np.float32] = []
    places: list[int] = []
    kinds = ARRAYS[texts]
    spans, outline, members, copied, at = [], b"", 0, 0, 0
    while (quote := text.find(b'"', at)) >= 0:
        named = TEXT.match(text, quote)
        if named is None:
            return None
        at = named.end() + len(text[named.end() :]) - len(text[named.end() :].lstrip(b" \n\r\t"))
        if text[at : at + 1] != b":":
            continue
        members += 1
        if b"\\" in named[1]:
            return None
        at += 1
        at += len(text[at:]) - len(text[at:].lstrip(b" \n\r\t"))
        if named[1] != name:
            continue
        if text[at : at + 1] in (b"{", b"n"):
            return None
        if text[at : at + 1] != b"[":
            continue
        inside = text[at + 1 :].lstrip(b" \n\r\t")[:1]
        if not inside or inside not in b"[n-0123456789" + b'"tf' * texts:
            continue
        array = (kinds.rows if inside == b"[" else kinds.row).match(text, at)
        if array is None:
            return None
        cells = kinds.cell.findall(array[0])
        words = [one for one in cells if one[:1] in (b'"', b"t", b"f")]
        places += [len(values) + place for place, one in enumerate(cells) if one in words]
        found = [
            number_of(one) if one != b"null" and one not in words else np.float32(np.nan) for one in cells
        ]
        rows = kinds.row.findall(array[0][1:]) if inside == b"[" else []
        widths = {len(kinds.cell.findall(row)) for row in rows} or {len(found)}
        if len(widths) > 1 or any(one is None for one in found):
            return None
        values += [one for one in found if one is not None]
        spans.append([*array.span(), len(rows), *widths])
        outline += text[copied:at] + (b"[" + b",".join(words) + b"]" if words else b"null")
        copied = at = array.end()
    return Lifted(
        np.array(values, np.float32).tobytes(),
        outline + text[copied:] if spans else b"",
        spans,
        members,
        places,
    )


def by_library(
    text: bytes, rooms: tuple[int, ...], name: bytes = NAME, *, in_front: bool = False
) -> Lifted | None:
    """Call the library with memory that ends where the text and the rooms end."""
    opened = library()
    assert opened is not None
    given, named = fenced(text, in_front=in_front), fenced(name)
    n_places = rooms[3] if len(rooms) > 3 else 0
    values, spans, outline, places = (
        room(count, kind)
        for count, kind in zip(
            (rooms[0], 4 * rooms[1], rooms[2], n_places), ("f4", "i8", "u1", "i8"), strict=True
        )
    )
    totals = room(4, np.int64)
    found = opened.localrank_lift_numbers(
        given.ctypes.data, len(text), named.ctypes.data, len(name), powers_of_five(), values.ctypes.data, rooms[0],
        spans.ctypes.data, rooms[1], outline.ctypes.data, rooms[2], places.ctypes.data, n_places, totals.ctypes.data,
    )  # fmt: skip
    if found == UNUSUAL:
        return None
    n_values, n_outline, members, n_texts = totals.tolist()
    return Lifted(
        values[:n_values].tobytes(),
        outline[:n_outline].tobytes(),
        spans.reshape(-1, 4)[:found].tolist(),
        members,
        places[:n_texts].tolist(),
    )


def check(text: bytes) -> Lifted | None:
    """Compare the two on memory that ends with the text, and on some that begins with it; with texts and without."""
    for texts in (True, False):
        expected = by_python(text, texts=texts)
        exact = (
            (9, 3, len(text) + 9, 9)
            if expected is None
            else (len(expected.values) // 4, len(expected.spans), len(expected.outline), len(expected.places))
        )
        # Room for one place more says that there may be any.
        rooms = (*exact[:3], exact[3] or 1) if texts else exact[:3]
        for in_front in (False, True):
            assert expected == by_library(text, rooms, in_front=in_front)
    return expected


CASES = [
    b'{"features": [1, 2.5, -3e-2], "ids": ["a"]}',
    b'{"features": [[1, null], [-0, -0.0]]}',
    b'{"a\\"b": "\\\\", "features" : [ [ 1 ] ,\n[ 2 ]\t] , "n": null}',
    b'{"documents": [{"features": [1, 2], "id": "features"}, {"id": 7, "features":[null,4]}]}',
    b'{"features": ["a"], "x": {"features": [true]}, "y": 1}',
    b'{"features": [["a", 1, true], [null, 2, false], ["b\\"\\u00e9", 3.5 , "" ]], "x": {"features": ["c"]}}',
    b'{"documents": [{"features": [1, "x"]}, {"features":[ "features" , "]" ], "id": "d"}]}',
    b'{"features": 5, "features": "x", "features": [], "features" : [ null ] }',
    b'{"features": null}',
    b'{"features": {"a": 1}}',
    b'{"f\\u0065atures": [1]}',
    b'{"a": "\\n", "features": [1]}',
    b'{"features": [[1, 2], [3]]}',
    b'{"features": [[1], [2, 3]]}',
    b'{"features": [[1] [2]]}',
    b'{"features": [1 2]}',
    b'{"features": [nul]}',
    b'{"features": [nulx, 1]}',
    b'{"features": [null',
    b'{"features": [nul',
    b'{"features": [[1], null]}',
    b'{"features": [[1], [',
    b'{"features": [01]}',
    b'{"features": [00]}',
    b'{"features": [-01.5]}',
    b'{"features": [1.]}',
    b'{"features": [.5]}',
    b'{"features": [-]}',
    b'{"features": [--1]}',
    b'{"features": [1e]}',
    b'{"features": [1e+]}',
    b'{"features": [1E5, 1e+5, 1e-5, 1E-05, 0e0, -0e0, -0e-7, 0.0e9]}',
    b'{"features": [1ee5]}',
    b'{"features": [1.2.3]}',
    b'{"features": [1-2]}',
    b'{"features": [1e400]}',
    b'{"features": [1e99999999999999999999999999999]}',
    b'{"features": [1e-99999999999999999999999999999, 0e99999999999999999999999]}',
    b'{"features": [/1]}',
    b'{"features": [1:]}',
    b'{"features": [1/]}',
    b'{"feature": [1], "featuresx": [2], "Features": [3]}',
    b'"features": [1]',
    b'"features":[1',
    b'"features":[',
    b'"features":',
    b'"features"',
    b'"features',
    b'["features", "features", 1]',
    b'"\\"',
    b'"\\\\"',
    b'"\\\\\\""',
    b'""',
    b'"',
    b"",
    b"{}",
    b'{"features": ["a" "b"]}',
    b'{"features": ["a", 1, "b]}',
    b'{"features": [1, "a": 2]}',
    b'{"features": [1, tru]}',
    b'{"features": [true',
    b'{"features": [falsetrue]}',
    b'{"features": [f, 1]}',
    b'{"features": [["a", "b"], ["c"]]}',
    b'{"features": [[["a"]]]}',
    b'{"features": ["a", {}]}',
]


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("margin", [b"", MARGIN])
def test_what_is_lifted_is_what_a_reader_in_python_lifts(text: bytes, margin: bytes) -> None:
    check(margin + text + margin)


def test_every_beginning_of_a_text_is_read_within_itself() -> None:
    for text in CASES[:4]:
        for end in range(len(text)):
            check(text[:end])
            check(MARGIN + text[:end])


def test_damaged_texts_are_read_as_by_python() -> None:
    random = np.random.default_rng(3)
    parts = [
        b"",
        b"[",
        b"]",
        b"{",
        b'"',
        b"\\",
        b",",
        b":",
        b"null",
        b"n",
        b"-",
        b".",
        b"e",
        b"0",
        b"7",
        b" ",
        b"1234567890" * 3,
    ]
    lifted = []
    for _ in range(700):
        text = CASES[int(random.integers(12))]
        for _ in range(int(random.integers(1, 4))):
            at = int(random.integers(len(text) + 1))
            text = text[:at] + parts[int(random.integers(len(parts)))] + text[at + int(random.integers(3)) :]
        margin = MARGIN if random.random() < 0.5 else b""
        lifted.append(check(margin + text + margin) is not None)

    assert 0.1 < np.mean(lifted) < 0.9


@pytest.mark.parametrize("missing", [0, 1, 2, 3])
def test_one_place_less_than_is_needed_is_unusual(missing: int) -> None:
    text = b'{"features": [[1, "a"], [true, 4]], "x": {"features": [5]}, "y": "features"}'
    needed = (5, 2, len(text) - len(b'[[1, "a"], [true, 4]][5]') + len(b'["a",true]null'), 2)

    assert by_library(text, needed) == by_python(text, texts=True)
    assert by_library(text, tuple(size - (place == missing) for place, size in enumerate(needed))) is None


def test_an_outline_without_room_for_a_null_is_unusual() -> None:
    """The text before the array would fit."""
    text = b'{"features": [1]}'

    for short in range(1, len(b'{"features": null}') + 1):
        assert by_library(text, (1, 1, len(b'{"features": null}') - short)) is None


def in_a_row(texts: list[bytes], margin: bytes) -> Array:
    body = margin + b'{"features":[' + b",".join(texts) + b"]}" + margin
    found = by_library(body, (len(texts), 1, len(body) + 4))
    assert found is not None
    return np.frombuffer(found.values, np.uint32)


def check_row(texts: list[bytes]) -> None:
    expected = np.array([number_of(text) for text in texts], np.float32).view(np.uint32)

    inside = in_a_row(texts, MARGIN)

    wrong = np.flatnonzero(expected != inside)
    assert [] == [texts[place] for place in wrong]
    for text, one in zip(texts[:40], expected.tolist(), strict=False):
        assert [one] == in_a_row([text], b"").tolist()


def spelled(digits: str, point: int) -> bytes:
    """Write digits with a point before the last ``point`` of them."""
    return (f"{digits[:-point]}.{digits[-point:]}" if point else digits).encode()


@pytest.mark.parametrize("count", range(1, 23))
def test_every_number_of_digits_with_a_point_anywhere_is_read(count: int) -> None:
    random = np.random.default_rng(count)
    texts = []
    for point in range(count):
        for first in ("0", *map(str, random.integers(1, 10, 3))):
            rest = "".join(map(str, random.integers(0, 10, count - 1)))
            digits = first + rest
            if first == "0" and count - point > 1:
                continue
            texts += [spelled(digits, point), b"-" + spelled(digits, point)]
    texts = [text for text in texts if number_of(text) is not None]

    check_row(texts)


def test_digits_are_those_of_the_number_alone() -> None:
    """Beside short numbers stand long ones, whose digits are in the same sixteen bytes."""
    random = np.random.default_rng(0)
    texts = []
    for _ in range(400):
        count = int(random.integers(1, 20))
        digits = str(random.integers(1, 10)) + "".join(map(str, random.integers(0, 10, count - 1)))
        texts.append(spelled(digits, int(random.integers(0, count))))

    check_row(texts)


@pytest.mark.parametrize(
    "good", [b"9", b"0", b"10", b"-7", b"0.5", b"-0.25", b"1234567890123456", b"12345678901234567"]
)
def test_a_byte_that_is_no_digit_is_no_part_of_a_number(good: bytes) -> None:
    for place in range(len(good) + 1):
        for other in b"/:.-+ xX\x00\x7f\xb0\xff":
            for text in (
                good[:place] + bytes([other]) + good[place:],
                good[:place] + bytes([other]) + good[place + 1 :],
            ):
                check(MARGIN + b'{"features":[' + text + b"]}" + MARGIN)


def test_the_double_that_decides_on_the_float_is_the_nearest() -> None:
    """Beside the middle of two floats, the last bit of the double says which of them it is."""
    random = np.random.default_rng(1)
    texts = []
    for power in range(-140, 120, 3):
        for significand in random.integers(2**23, 2**24, 2).tolist():
            middle = Fraction(2 * significand + 1) * Fraction(2) ** power
            step = Fraction(2) ** (power - 28)
            for beside in (middle - step / 2, middle + step / 2):
                digits = 18 - len(str(int(beside))) if beside >= 1 else 18
                scale = digits if beside >= 1 else 18 - len(str(int(beside * 10**60))) + 60
                whole = int(beside * Fraction(10) ** scale)
                texts += [f"{whole + more}e{-scale}".encode() for more in (-1, 0, 1, 2)]
    texts = [text for text in texts if number_of(text) is not None and b"inf" not in text]

    check_row(texts)


def exactly_between() -> list[bytes]:
    """Numbers of 54 bits exactly between two doubles of which one is between two floats, times powers of ten."""
    found = []
    for beside in (1, -1):
        for power in range(11):
            fives = 5**power
            if power == 0:
                odd = 2**24 + 1
            else:
                odd = (-beside * pow(2**29, -1, fives)) % fives
                odd += max(0, -(-(2**24 - odd) // fives)) * fives
                while odd % 2 == 0:
                    odd += fives
            exact = odd * 2**29 + beside
            if odd < 2**25 and exact % fives == 0:
                found.append(f"{exact * 2**power // 10**power}e{power}".encode())
        exact = (2**24 + 1) * 2**29 + beside
        found += [f"{exact * 5**power}e-{power}".encode() for power in range(1, 6)]
    return found


def test_halfway_between_two_doubles_is_the_even_one() -> None:
    texts = exactly_between()

    assert len(texts) > 20
    check_row([text for text in texts if number_of(text) is not None])


@pytest.mark.parametrize("zeros", [0, 1, 5, 40])
@pytest.mark.parametrize("point", [0, 3, 18])
def test_digits_beyond_nineteen_count_if_they_are_no_zeros(zeros: int, point: int) -> None:
    """These nineteen are as close to the middle as nineteen can be, so the next decides."""
    tie = (2**24 + 1) * 2**29 + 1
    first = str(tie * 10**19)[:19]
    texts = [f"{first}{'0' * zeros}{tail}" for tail in ("", "1", "9")]

    for digits in texts:
        for text in (
            digits,
            f"{digits[:1]}.{digits[1:]}",
            f"{digits[: 19 - point]}.{digits[19 - point :]}" if point else digits,
        ):
            check(MARGIN + b'{"features":[%b]}' % text.encode() + MARGIN)
            check(b'{"features":[%be3]}' % text.encode())


@pytest.mark.parametrize("text", ["0." + "0" * 60 + "1234567890123456789", "0" * 1 + "." + "0" * 20 + "1", "1" + "0" * 30, "123456789012345678901234567890e-5",
    "1e38", "3.4028235e38", "3.4028236e38", "1e-45", "7e-46", "7.1e-46", "1.7976931348623157e308", "1.7976931348623159e308", "1e308", "1e309", "1e310",
    "9e-330", "4e-342", "1e-343", "1e-400", "18446744073709551615", "18446744073709551616", "9999999999999999999", "99999999999999999999"])  # fmt: skip
def test_large_and_small_numbers_are_read_or_left(text: str) -> None:
    for sign in ("", "-"):
        for margin in (b"", MARGIN):
            check(margin + f'{{"features":[{sign}{text}]}}'.encode() + margin)


@pytest.mark.parametrize("length", [79, 80, 81, 82, 120])
def test_texts_just_long_enough_for_sixteen_bytes_at_a_time_are_read(length: int) -> None:
    inner = b'{"features":[1.5,22]}'
    for before in range(length - len(inner) + 1):
        check(b" " * before + inner + b" " * (length - len(inner) - before))


@pytest.mark.parametrize(
    ("text", "numbers", "arrays", "lifted"),
    [
        ('{"features":[1,2,3]}', 3, 1, True),
        ('{"features":[1,2,3]}', 2, 1, False),
        ('{"features":[1],"a":{"features":[2]}}', 9, 2, True),
        ('{"features":[1],"a":{"features":[2]}}', 9, 1, False),
        ('{"features":[1]}', 1, 0, False),
        ('{"features":[1]}', 0, 1, False),
    ],
)
def test_what_passes_a_limit_is_unusual(text: str, numbers: int, arrays: int, *, lifted: bool) -> None:
    found = lift_numbers(text.encode(), NAME, numbers=numbers, arrays=arrays)

    assert lifted == (found is not None)


def test_the_densest_text_has_room() -> None:
    """One digit and one comma for a number, and no more than an array needs for an array."""
    text = b'{"":[' + b",".join([b"7"] * 500) + b"]" + b',"":[0]' * 40 + b"}"

    found = lift_numbers(text, b"", numbers=10**6, arrays=10**6)

    assert found is not None
    assert [7.0] * 500 + [0.0] * 40 == found.values.tolist()
    assert json.loads(found.outline, object_pairs_hook=list) == [("", None)] * 41
    assert [0, 1] == [len(found.array(0)) - 500, len(found.array(40))]


def test_arrays_are_taken_out_one_by_one() -> None:
    text = b'[{"x":[1,2]},{"x":[[3],[4]]},{"x":[[5,6,7]]}]'

    found = lift_numbers(text, b"x", numbers=99, arrays=9)

    assert found is not None
    assert [[1, 2], [[3], [4]], [[5, 6, 7]]] == [found.array(place).tolist() for place in range(3)]


def test_powers_of_five_are_their_first_128_bits() -> None:
    """Those with a finite expansion exactly, all others rounded: down, but up if the inverse has less than 64 bits."""
    words = np.frombuffer(bytes(powers_of_five()), np.uint64).reshape(-1, 2).tolist()

    assert 651 == len(words)
    for power, (high, low) in zip(range(-342, 309), words, strict=True):
        found = Fraction(high * 2**64 + low)
        exact = Fraction(5) ** power
        while exact >= 2**128:
            exact /= 2
        while exact < 2**127:
            exact *= 2
        assert 2**127 <= found < 2**128
        if -27 <= power < 0:
            assert 0 < found - exact <= 1
        else:
            assert 0 <= exact - found < 1


def usual_number(folder: Path) -> ctypes.CDLL:
    """Build the reader of numbers once more, so that one number can be given to the fast half of it."""
    source = (FOLDER / "json.c").read_text()
    exposed = """
        int64_t usual(const uint64_t (*powers)[2], const uint8_t *at, float *value)
        {
            reader into = {at + 64, powers, value, value + 1, at, at + 1};
            const uint8_t *const after = usual_number(&into, at);
            return after ? after - at : 0;
        }
    """
    (folder / "json.c").write_text(source + exposed)
    made = folder / "built"
    command = [
        *build_script().compiler(),
        "-O2",
        "-std=gnu99",
        "-shared",
        "-fPIC",
        "-ffp-contract=off",
        "-Wno-psabi",
    ]
    subprocess.run([*command, f"-I{FOLDER}", "-o", made, folder / "json.c", "-lm"], check=True)
    return ctypes.CDLL(str(made))


def test_ordinary_numbers_are_read_sixteen_bytes_at_a_time(tmp_path: Path) -> None:
    """Up to nineteen digits, with a minus, and a point in the first sixteen; all else is left to the reader of bytes."""
    try:
        built = usual_number(tmp_path)
    except build_script().CompilerError as problem:
        pytest.skip(str(problem))
    value = np.zeros(1, np.float32)
    random = np.random.default_rng(5)
    usual = [
        sign + spelled(str(first) + "".join(map(str, random.integers(0, 10, count - 1))), point)
        for count in range(1, 20)
        for point in range(count)
        for first in (random.integers(1, 10), 0)
        if first or point == count - 1
        for sign in (b"", b"-")
        if not point or len(sign) + count - point < 16
    ]
    other = [b"1e5", b"01", b"00.5", b"-", b".5", b"5.", b"1.2.3", b"1 ", b"+1", b"", b"--1", b"1-1", b"null",
             b"12345678901234567890", b"1234567890.1234567890", b"1" * 32, b"1" * 40, b"0." + b"1" * 30]  # fmt: skip

    for text, is_usual in [*((one, True) for one in usual), *((one, False) for one in other)]:
        for separator in b",]":
            for around in (b"0", b",", b"]", b"."):
                here = fenced(around * 40 + text + bytes([separator]) + around * (72 - len(text)))

                length = built.usual(powers_of_five(), ctypes.c_void_p(here.ctypes.data + 40), value.ctypes)

                assert (len(text) if is_usual else 0) == length, text
                if is_usual:
                    assert number_of(text) == value[0], text
