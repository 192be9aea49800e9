"""Numbers straight into a buffer: the same answer as without, whatever the body, and the same bits of every number."""

from __future__ import annotations

import ctypes
import decimal
import json
import math
import shutil
import subprocess
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.features.contract import Encoding, FeatureContract
from localrank.features.feature import Feature
from localrank.native import texts as lift
from localrank.native.library import FOLDER, PROTOTYPES, library
from localrank.native.texts import lift_numbers, powers_of_five
from localrank_service.apis import cohere
from localrank_service.apis.rerank import reader as rerank_json
from localrank_service.http.problems import Problem
from localrank_service.wire import numbers
from localrank_service.wire.query import Limits
from localrank_service.wire.text import count_members
from tests.arithmetic import without_library
from tests.service.conftest import three_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from localrank.arrays import Array

CONTRACT = three_kinds().contract
#: The same features, one of them a category.
OF_SHOPS = FeatureContract.learn(
    np.tile(np.arange(4, dtype=np.float32), (4, 1)),
    [4],
    features=[
        Feature(name, "category", ("nike", "3", "true")) if name == "pagerank" else Feature(name)
        for name in CONTRACT.names
    ],
    encodings=[Encoding(CONTRACT.names.index("pagerank"), None, np.zeros(5))],
)
LIMITS = Limits(6, refuse_extra_features=False)
LARGE = Limits(5000, refuse_extra_features=False)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compare the compiled reading with the other inside each test."""
    if library() is None:
        pytest.skip("the compiled kernels were not built when localrank was installed")


def outcome(
    body: bytes,
    read: Callable[[bytes, Limits], rerank_json.JsonQuery] = rerank_json.JsonQuery.read,
    contract: FeatureContract = CONTRACT,
) -> tuple[Any, ...]:
    """Everything that a request's reading decides."""
    try:
        query = read(body, LIMITS)
        documents = query.documents(contract)
    except Problem as problem:
        return problem.status, problem.detail, problem.pointer
    cells = [documents.locate(d, f) for d in range(len(documents.matrix)) for f in (None, 0, 3)]
    return (
        query.options,
        documents.matrix.shape,
        documents.matrix.tobytes(),
        None if read is cohere.CohereQuery.read else documents.ids,  # Cohere's documents have none
        documents.ignored,
        cells,
    )


def check_same(body: bytes) -> tuple[Any, ...]:
    """Read a body as both wires that take documents, with and without compiled code."""
    reads: tuple[Any, ...] = rerank_json.JsonQuery.read, cohere.CohereQuery.read
    each = [(read, contract) for contract in (CONTRACT, OF_SHOPS) for read in reads]
    fast = [outcome(body, *one) for one in each]
    with without_library():
        slow = [outcome(body, *one) for one in each]
    assert slow == fast
    return fast[0]


PLAIN: dict[str, str] = {
    "rows": '{"documents": [{"features": [1, 2, 3, 4]}, {"features": [5, 6, 7, 8.5]}]}',
    "rows with ids": '{"documents": [{"id": "a", "features": [1, 2, 3, 4]}, {"features": [5, 6, 7, 8], "id": 7}]}',
    "rows some of which have ids": '{"documents": [{"features": [1, 2, 3, 4]}, {"features": [5, 6, 7, 8], "id": 7}]}',
    "columns": '{"model": "m", "ids": ["a", 2], "top_n": 3, "features": [[1, 2, 3, 4], [5, 6, 7, 8e-3]]}',
    "nulls": '{"features": [[1, null, 3, 4], [null, 6, null, 8]]}',
    "nulls in rows": '{"documents": [{"id": "a", "features": [1, null, 3, 4]}]}',
    "late nulls": '{"query_id": "' + "q" * 3000 + '", "features": [[1, null, 3, 4]]}',
    "brackets in ids": '{"ids": ["a[0]", "]["], "features": [[1, 2, 3, 4], [1, 2, 3, 4]]}',
    "integers of 64 bits": '{"features": [[18446744073709551615, -9223372036854775808, 9007199254740993, 0]]}',
    "texts that look like more": '{"model": "[[true]] {\\"a\\": 1}", "features": [[1, 2, 3, 4]]}',
    "zeros": '{"features": [[-0, -0.0, 0, 1e-400]]}',
    "zeros with exponents": '{"features": [[-0e0, -0E+5, -0.000e-3, -1e-400]]}',
    "numbers for rows": '{"features": [1, 2, 3, 4]}',
    "null for a row": '{"features": [null]}',
    "names": '{"feature_names": ["age", "ctr:7d", "pagerank", "bm25"], "features": [[1, 2, 3, 4]]}',
    "a null elsewhere": '{"top_n": null, "features": [[1, 2, 3, 4]]}',
    "a null here and there": '{"top_n": null, "features": [[1, null, 3, 4]]}',
    "null in texts": '{"ids": ["null"], "null": "null", "features": [[1, null, 3, 4]]}',
    "null among ids": '{"ids": [null], "features": [[1, 2, 3, 4]]}',
    "a huge integer": '{"features": [[18446744073709551616, 2, 3, 4]]}',
    "an id that is a list": '{"ids": [["a"]], "features": [[1, 2, 3, 4]]}',
    "space everywhere": ' {\t"features"\r:\n[ [ 1 , null ,3\t,4 ] \n, [\r5,6,7,8] ] } ',
    "escapes in texts": '{"model": "\\\\\\"features\\": [", "query_id": "\\\\", "features": [[1, 2, 3, 4]]}',
    "an escaped quote": '{"model": "a\\"b", "features": [[1, 2, 3, 4]]}',
    "exponents": '{"features": [[1e0, 2E+1, 3.5e-2, -4.25E0]]}',
    "beyond float32": '{"features": [[1e39, 2, 3, 4]]}',
    "an unknown member": '{"features": [[1, 2, 3, 4]], "label": 1}',
    "as many features as text and numbers": '{"features": [[1, 2, 3, 4]], "model": "features", "query_id": 7}',
    "a boolean": '{"features": [[1, true, 3, 4]]}',
    "a text": '{"features": [[1, "2", 3, 4]]}',
    "the text null": '{"features": [[1, "null", 3, 4]]}',
    "a null and a boolean": '{"features": [[1, null, false, 4]]}',
    "values of a category": '{"features": [[1, "nike", 3, 4], [1, null, 3, 4], [1, true, 3, 4], [1, "", 3, 4]]}',
    "values of a category in rows": '{"documents": [{"id": "nike", "features": [1, "3.0", 3, 4]}, {"features": [1, "n\\u00e4h\\"e", 3, 4]}]}',
    "a category without values": '{"features": [[1, null, 3, 4], [1, null, 3, 4]]}',
    "a number for one value of a category": '{"features": [[1, "nike", 3, 4], [1, 3.00000001, 3, 4]]}',
    "a text elsewhere": '{"features": [[1, "nike", 3, "4"]]}',
    "names in another order": '{"feature_names": ["age", "x", "ctr:7d", "pagerank", "bm25"], "features": [[1, "a", 2, "nike", 4], [1, 5, 2, null, 4], [1, null, 2, "3", 4]]}',
    "a text in a flat row": '{"features": ["nike", 2, 3, 4]}',
    "a zero byte in an id": '{"ids": ["a\\u0000b"], "features": [[1, 2, 3, 4]]}',
}

UNUSUAL: dict[str, str | bytes] = {
    "empty rows": '{"features": [[], []]}',
    "ragged": '{"features": [[1, 2, 3], [4]]}',
    "ragged, the total fits": '{"features": [[1, 2, 3, 4, 5], [1, 2, 3]]}',
    "ragged documents": '{"documents": [{"features": [1, 2, 3, 4, 5]}, {"features": [1, 2, 3]}]}',
    "a nested list in place of two": '{"features": [[1, [], [2, 3], 4]]}',
    "a nested list in a document": '{"documents": [{"features": [1, [2, 3], 4]}]}',
    "nested, and an empty one, in a document": '{"documents": [{"features": [1, [], [2, 3], 4]}]}',
    "nested, and as many brackets escaped": '{"query_id": "\\u005b\\u005b", "features": [[1, [], [2, 3], 4]]}',
    "numbers and lists for rows": '{"features": [1, [], [2, 3], 4]}',
    "text after a digit": '{"features": [[1null, 2, 3, 4]]}',
    "a zero in front": '{"features": [[01, 2, 3, 4]]}',
    "a zero in front of a fraction": '{"features": [[-00.5, 2, 3, 4]]}',
    "a plus": '{"features": [[+1, 2, 3, 4]]}',
    "a minus alone": '{"features": [[-, 2, 3, 4]]}',
    "two minuses": '{"features": [[--1, 2, 3, 4]]}',
    "nothing before the point": '{"features": [[.5, 2, 3, 4]]}',
    "nothing after the point": '{"features": [[5., 2, 3, 4]]}',
    "two points": '{"features": [[1.2.3, 2, 3, 4]]}',
    "no exponent": '{"features": [[1e, 2, 3, 4]]}',
    "a comma too many": '{"features": [[1, 2, 3, 4,]]}',
    "a comma too few": '{"features": [[1 2, 3, 4]]}',
    "a row too many": '{"features": [[1, 2, 3, 4],]}',
    "another space": '{"features": [[1,\f2, 3, 4]]}',
    "null in capitals": '{"features": [[Null, 2, 3, 4]]}',
    "half of null": '{"features": [[nul, 2, 3, 4]]}',
    "an escape in a name": '{"f\\u0065atures": [[1, 2, 3, 4]]}',
    "a null for one of two features": '{"features": null, "features": [[1, 2, 3, 4]]}',
    "features in another member": '{"query_id": {"features": [1, 2, 3, 4]}, "documents": []}',
    "features of an id": '{"documents": [{"features": null, "id": {"features": [1, 2, 3, 4]}}]}',
    "features of a feature": '{"documents": [{"features": {"features": [1, 2, 3, 4]}}]}',
    "rows in a document": '{"documents": [{"features": [[1, 2, 3, 4]]}]}',
    "documents in an object": '{"documents": {"features": [1, 2, 3, 4]}}',
    "documents in a list": '{"documents": [[{"features": [1, 2, 3, 4]}]]}',
    "features below a document": '{"documents": [{"document": {"features": [1, 2, 3, 4]}}]}',
    "a member in a text only": '"\\"features\\": [1, 2, 3, 4]"',
    "a member without braces": '"features": [[1, 2, 3, 4]]',
    "garbage before": 'x{"features": [[1, 2, 3, 4]]}',
    "a zero byte after": '{"features": [[1, 2, 3, 4]]}\x00',
    "a brace missing": '{"features": [[1, 2, 3, 4]]',
    "a quote missing": '{"features: [[1, 2, 3, 4]]}',
    "a number for a row": '{"features": [[1, 2, 3, 4], 5]}',
    "a row after a number": '{"features": [5, [1, 2, 3, 4]]}',
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
    "a document with more, another with an id": '{"documents": [{"features": [1, 2, 3, 4], "text": 1}, {"id": 1, "features": [1, 2, 3, 4]}]}',
    "named": '{"documents": [{"features": {"bm25": 1, "pagerank": 2, "ctr:7d": 3, "age": 4}}]}',
    "named later": '{"documents": [{"features": [1, 2, 3, 4]}, {"features": {"bm25": 1, "age": 4}}]}',
    "no documents": '{"documents": []}',
    "no rows": '{"features": []}',
    "a zero byte in a name": '{"features\\u0000": 1, "features": [[1, 2, 3, 4]]}',
    "a zero byte in a document's name": '{"documents": [{"features\\u0000": 1, "features": [1, 2, 3, 4]}]}',
    "both forms": '{"features": [[1, 2, 3, 4]], "documents": []}',
    "a byte order mark": b'\xef\xbb\xbf{"features": [[1, 2, 3, 4]]}',
    "bytes that are no text": b'{"model": "\xff", "features": [[1, 2, 3, 4]]}',
    "a lone surrogate": '{"model": "\\ud800", "features": [[1, 2, 3, 4]]}',
    "an enormous integer": '{"features": [[1' + "0" * 400 + ", 2, 3, 4]]}",
    "beyond double": '{"features": [[1e400, 2, 3, 4]]}',
    "NaN": '{"features": [[NaN, 2, 3, 4]]}',
    "deep ids": '{"features": [[1, 2, 3, 4]], "ids": ' + "[" * 1000 + "]" * 1000 + "}",
    "deep": "[" * 3000 + "]" * 3000,
    "deep features": '{"features": ' + "[" * 1000 + "]" * 1000 + "}",
    "deep below features": '{"features": ' + "[" * 1500 + "]" * 1500 + "}",
    "an object for a list": '{"ids": {"a": 1}, "features": [[1, 2, 3, 4]]}',
    "a text that is no JSON": '{"features": [[1, "\\x", 3, 4]]}',
    "a text without its end": '{"features": [[1, "nike, 3, 4]]}',
    "a text for a member": '{"features": [[1, "nike": 3, 4]]}',
    "half of true": '{"features": [[1, tru, 3, 4]]}',
    "a text beside an object": '{"features": ["nike", {}]}',
    "objects, and texts below": '{"features": [{}], "boost": {"features": ["nike"]}}',
    "a list": "[1, 2, 3, 4]",
    "nothing": "",
    "cut": '{"features": [[1, 2, 3, 4',
    "more": '{"features": [[1, 2, 3, 4]]} {}',
}


#: Numbers with little around them are read byte by byte.
AROUND = (b"", b" " * 50)


def encoded(body: str | bytes) -> bytes:
    return body if isinstance(body, bytes) else body.encode()


@pytest.mark.parametrize("case", PLAIN)
def test_plain_bodies_are_read_the_fast_way_and_to_the_same_bits(case: str) -> None:
    body = encoded(PLAIN[case])

    for around in AROUND:
        assert numbers.plain_members(around + body + around, LIMITS) is not None
        check_same(around + body + around)


def test_values_of_categories_are_read_as_quickly_as_numbers() -> None:
    query = rerank_json.JsonQuery.read(
        b'{"features": [[1, "nike", 3, 4], [1, null, 3, 4], [1, "x", 3, 4]]}', LIMITS
    )

    # Another model may have other codes; the query is the same.
    for _ in range(2):
        np.testing.assert_array_equal([0, np.nan, 3], query.documents(OF_SHOPS).matrix[:, 1])
        assert len(query._body) == query.cost


@pytest.mark.parametrize("case", UNUSUAL)
def test_anything_else_is_read_the_other_way(case: str) -> None:
    body = encoded(UNUSUAL[case])

    for around in AROUND:
        assert numbers.plain_members(around + body + around, LIMITS) is None
        check_same(around + body + around)


def test_the_same_numbers_in_other_rows_are_another_request() -> None:
    """A flattening parser has the same buffer for both."""
    ragged = numbers.plain_members(b'{"features": [[1, 2, 3], [4]]}', LIMITS)
    square = numbers.plain_members(b'{"features": [[1, 2], [3, 4]]}', LIMITS)

    assert ragged is None
    assert square is not None
    np.testing.assert_array_equal([[1, 2], [3, 4]], square["features"].values)


@pytest.mark.parametrize(
    ("body", "status", "at"),
    [
        ('{"features": [[1, 2, 3]]}', 422, "/features/0"),
        ('{"features": [[1, 2, 3, 4]], "ids": []}', 422, "/ids"),
        ('{"features": [1, 2, 3, 4]}', 422, "/features/0"),
        (json.dumps({"features": [[1, 2, 3, 4]] * 7}), 413, "/features"),
    ],
)
def test_plain_bodies_that_do_not_fit_are_refused_as_others_are(body: str, status: int, at: str) -> None:
    assert numbers.plain_members(body.encode(), LIMITS) is not None

    found = check_same(body.encode())

    assert (status, at) == (found[0], found[2])


@pytest.mark.parametrize(
    "body",
    [
        '{"documents": [{"features": [1, 2, 3, 4], "text": "a [1]: b", "id": null, "list": [1, [2]]}]}',
        '{"documents": [{"features": [1, 2, 3, null], "text": "x"}, {"id": 3, "features": [1, 2, 3, 4]}], "query": "q"}',
        '{"documents": [{"features": [1, 2, 3], "text": "x"}]}',
        '{"documents": [{"features": [1, 2, 3, 4], "x": true}], "model": 3}',
    ],
)
def test_described_documents_are_plain_to_cohere_alone(body: str) -> None:
    assert numbers.plain_members(body.encode(), LIMITS) is None
    assert numbers.plain_members(body.encode(), LIMITS, described=True) is not None
    check_same(body.encode())


@pytest.mark.parametrize(
    "body",
    [
        '{"documents": [{"features": [1, 2, 3, 4], "x": ' + "[" * 1000 + "]" * 1000 + "}]}",
        '{"documents": [{"features": [1, 2, 3, 4], "x": {"y": 1}}]}',
        '{"documents": [{"features": [1, 2, 3, 4], "x": 1, "x": 2}]}',
        '{"documents": [{"features": [1, 2, 3, 4], "x": {"features": [1]}}]}',
        '{"documents": [{"features": null, "x": {"features": [1]}}]}',
    ],
)
def test_documents_with_more_below_are_unusual_to_cohere_too(body: str) -> None:
    assert numbers.plain_members(body.encode(), LIMITS, described=True) is None
    check_same(body.encode())


def as_floats(texts: list[str], before: str = " " * 40, after: str = " " * 40) -> Array | None:
    """Lift one row out of a text that has much or little around it."""
    body = f'{before}{{"features":[{",".join(texts)}]}}{after}'.encode()
    lifted = lift_numbers(body, b"features", numbers=9999, arrays=99)
    return None if lifted is None else lifted.array()


def by_python(text: str) -> np.float32:
    """Round twice, as the service without compiled code does: to double, and that to float."""
    with np.errstate(over="ignore"):
        return np.float32(float(orjson.loads(text)))


def check_numbers(texts: list[str]) -> None:
    expected = np.array([by_python(text) for text in texts], np.float32)
    whole = as_floats(texts)
    assert whole is not None
    assert expected.tobytes() == whole.tobytes()
    # Short texts are read byte by byte.
    for text, one in zip(texts, expected, strict=True):
        alone = as_floats([text], "", "")
        assert alone is not None
        assert one.tobytes() == alone.tobytes()


digits = st.text("0123456789", max_size=25)
whole_parts = st.just("0") | st.builds("{}{}".format, st.sampled_from("123456789"), digits)
exponents = st.just("") | st.builds(
    "{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 45).map(str)
)
json_numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    whole_parts,
    st.just("") | st.builds(".{}".format, st.text("0123456789", min_size=1, max_size=25)),
    exponents,
)


@st.composite
def halfway(draw: st.DrawFn) -> str:
    """A decimal at, or a hair beside, the middle of two doubles, or of two floats."""
    single = draw(st.booleans())
    value = draw(st.floats(0, 2.0**100, width=32 if single else 64))
    following = (
        float(np.nextafter(np.float32(value), np.float32(np.inf)))
        if single
        else math.nextafter(value, math.inf)
    )
    middle = (Fraction(value) + Fraction(following)) / 2
    context = decimal.Context(prec=draw(st.integers(15, 40)))
    return f"{context.divide(middle.numerator, decimal.Decimal(middle.denominator)):{draw(st.sampled_from(['', 'f', 'e']))}}"


@settings(max_examples=1000)
@given(
    texts=st.lists(
        json_numbers
        | halfway()
        | st.floats(allow_nan=False, allow_infinity=False).map(json.dumps)
        | st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda value: str(np.float32(value)))
        | st.integers(-(2**70), 2**70).map(str),
        min_size=1,
        max_size=8,
    )
)
def test_numbers_are_rounded_as_python_rounds_them(texts: list[str]) -> None:
    known: list[str] = []
    for text in texts:
        if as_floats([text]) is None:
            # More digits than are looked at may leave it open; none of a double's own, or of an integer of 64 bits.
            assert len(text.lower().partition("e")[0].strip("-").replace(".", "").lstrip("0")) > 19
        else:
            known.append(text)
    if known:
        check_numbers(known)


def test_every_power_of_ten_is_the_nearest_double() -> None:
    mantissas = ("1", "9007199254740993", "9223372036854775807", "1844674407370955161", "9999999999999999999")
    texts = [f"{mantissa}e{power}" for mantissa in mantissas for power in range(-345, 309)]

    check_numbers([text for text in texts if math.isfinite(float(text))])


@pytest.mark.parametrize("tail", ["", "1", "0" * 30 + "1"])
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("power", [-40, -20, 0, 10, 60])
def test_digits_that_are_not_looked_at_leave_nothing_to_chance(power: int, tail: str, *, below: bool) -> None:
    """Halfway between two doubles, one of them halfway between two floats: the last digit decides on the float."""
    middle = (1 + Fraction(2) ** -24 + (-1 if below else 1) * Fraction(2) ** -53) * Fraction(2) ** power
    exact = decimal.Context(prec=400)
    text = f"{exact.divide(middle.numerator, decimal.Decimal(middle.denominator)):f}"
    text += ("" if "." in text else ".0") + tail

    lifted = as_floats([text])

    assert lifted is None or by_python(text).tobytes() == lifted.tobytes()


def test_doubles_themselves_are_nearest(tmp_path: Path) -> None:
    """A float hides the last bits of a double, so the library is built once more to give them all."""
    source = (FOLDER / "json.c").read_text()
    exposed = "\ndouble nearest_double(const uint64_t (*powers)[2], uint64_t mantissa, int64_t power)\n"
    built = compiled(tmp_path, source + exposed + "{ return nearest(powers, mantissa, power); }\n")
    function = built.nearest_double
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64], ctypes.c_double
    random = np.random.default_rng(0)
    mantissas = random.integers(0, 2**64, 60_000, np.uint64) >> random.integers(0, 64, 60_000, np.uint64)
    drawn = random.integers(-345, 312, 60_000)
    ties = [
        (mantissa, power) for mantissa in (2**53 + 1, 2**54 + 2, 3 * 2**53 + 3) for power in range(-30, 31)
    ]
    edges = [
        (22250738585072011, -324),
        (22250738585072014, -324),
        (17976931348623157, 292),
        (17976931348623159, 292),
    ]
    edges += [(5, -324), (24703282292062327, -340), (24703282292062328, -340), (2**64 - 1, 0), (0, 5)]
    edges += [(2**shift, 23) for shift in range(5)]  # the last power of five with ties

    for mantissa, power in [*zip(mantissas.tolist(), drawn.tolist(), strict=True), *ties, *edges]:
        found = function(powers_of_five(), mantissa, power)

        assert float(f"{mantissa}e{power}").hex() == found.hex()


def compiled(folder: Path, source: str, *options: str) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    (folder / "json.c").write_text(source)
    made = folder / "built"
    command = [
        "cc",
        "-O2",
        "-std=gnu99",
        "-shared",
        "-fPIC",
        "-ffp-contract=off",
        "-Wno-psabi",
        f"-I{FOLDER}",
        *options,
    ]
    subprocess.run([*command, "-o", str(made), str(folder / "json.c"), "-lm"], check=True)
    return ctypes.CDLL(str(made))


def test_processors_without_sse_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = compiled(tmp_path, (FOLDER / "json.c").read_text(), "-U__SSE2__")
    takes, returns = PROTOTYPES["localrank_lift_numbers"]
    built.localrank_lift_numbers.argtypes, built.localrank_lift_numbers.restype = takes, returns
    random = np.random.default_rng(0)
    values = random.standard_normal(2000) * 10.0 ** random.integers(-3, 9, 2000)
    rows = [[float(str(np.float32(one))), float(one), int(one), None] for one in values]
    body = json.dumps({"features": rows}).encode()
    expected = rerank_json.JsonQuery.read(body, LARGE)._members["features"].values

    # The scan of the text has no instructions of its own.
    both = SimpleNamespace(
        localrank_lift_numbers=built.localrank_lift_numbers,
        localrank_scan_json=library().localrank_scan_json,  # type: ignore[union-attr]
    )
    monkeypatch.setattr(lift, "library", lambda: both)

    assert expected.tobytes() == rerank_json.JsonQuery.read(body, LARGE)._members["features"].values.tobytes()
    assert expected.shape == (2000, 4)


def test_rooms_that_are_too_small_are_not_exceeded() -> None:
    opened = library()
    assert opened is not None
    body = b'{"documents": [{"features": [1, 2.5, 3]}, {"features": [4, 5, 6]}]}'
    needed = (6, 2, len(body) - 2 * len("[4, 5, 6]") - 2 + 8)
    for spared in range(3):
        for room in range(needed[spared] + 1):
            rooms = [6, 2, len(body)]
            rooms[spared] = room
            values, spans, outline = (
                np.full(count, 7, kind) for count, kind in ((8, "f4"), (12, "i8"), (99, "u1"))
            )
            totals = np.zeros(4, np.int64)

            found = opened.localrank_lift_numbers(
                body, len(body), b"features", 8, powers_of_five(), values.ctypes.data, rooms[0],
                spans.ctypes.data, rooms[1], outline.ctypes.data, rooms[2], None, 0, totals.ctypes.data,
            )  # fmt: skip

            assert (2 if room == needed[spared] else -1) == found
            assert (values[rooms[0] :] == 7).all()
            assert (spans[4 * rooms[1] :] == 7).all()
            assert (outline[rooms[2] :] == 7).all()


def test_without_numbers_the_outline_is_the_body() -> None:
    body = b'{"query_id": "AAAA", "ids": [1, 1], "x": {"y": [], "data": 1}}'

    lifted = lift_numbers(body, b"features", numbers=9999, arrays=99)

    assert lifted is not None
    assert body is lifted.outline
    assert 5 == lifted.members == count_members(json.loads(body))
    assert (0, 0) == (len(lifted.spans), len(lifted.values))


def test_what_is_lifted_stands_in_the_spans() -> None:
    body = b'{"data": [1, 2], "x": [{"data": [[3.5, null]]}, {"data": ["a"]}], "data ": [1]}'

    lifted = lift_numbers(body, b"data", numbers=9999, arrays=99)

    assert lifted is not None
    assert b'{"data": null, "x": [{"data": null}, {"data": ["a"]}], "data ": [1]}' == lifted.outline
    assert [b"[1, 2]", b"[[3.5, null]]"] == [body[begin:end] for begin, end, _, _ in lifted.spans.tolist()]
    np.testing.assert_array_equal([1, 2], lifted.array(0))
    np.testing.assert_array_equal([[3.5, np.nan]], lifted.array(1))
    assert 5 == lifted.members


cell = st.sampled_from(
    ["1", "-2.5", "0", "-0", "1e-3", "4e99", "null", "null", "true", '"3"', '"nike"', "[]", "[2,3]", "1e39"]
)
row = st.lists(cell, min_size=3, max_size=5) | st.lists(
    st.sampled_from(["1", "2.5", "null", '"3.0"', "true"]), min_size=4, max_size=4
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
    form = draw(st.integers(0, 1))
    members = []
    if form == 0:
        members.append(f'"features":{draw(space)}{listed(rows)}')
        if draw(st.booleans()):
            members.append('"ids":' + listed([draw(texts) for _ in rows]))
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


@settings(max_examples=1000)
@given(body=bodies())
def test_with_and_without_compiled_code_the_answer_is_the_same(body: bytes, seen: list[bool]) -> None:
    seen.append(numbers.plain_members(body, LIMITS) is not None)

    check_same(body)
