"""``application/x-npy``: what numpy.save writes is ranked, and nothing else is believed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank_service.apis.rerank import npy
from localrank_service.http.problems import Problem
from localrank_service.process.settings import Settings
from localrank_service.wire.query import Limits, Options
from tests.service.conftest import three_kinds

if TYPE_CHECKING:
    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

LIMITS = Limits(5, refuse_extra_features=False)

pytestmark = pytest.mark.anyio

NPY = {"content-type": "application/x-npy"}
NAMES = ("bm25", "pagerank", "ctr:7d", "age")
ROW = np.array([[1, 2, 3, 4]], np.float32)


def saved(array: Any, version: tuple[int, int] | None = None) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asanyarray(array), version=version, allow_pickle=True)
    return buffer.getvalue()


def written(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """A file whose header is the text given."""
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode("latin-1") + data


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.filterwarnings("ignore:Stored array in format")
async def test_every_kind_of_array_gets_the_ranker_s_own_bits(
    version: tuple[int, int], dtype: str, order: Any, client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    documents = np.random.default_rng(1).standard_normal((20, 4)).astype(dtype, order=order)
    expected = tiny_ranker.rank(np.ascontiguousarray(documents, np.float32))

    response = await client.post("/v1/rerank", content=saved(documents, version), headers=NPY)

    results = response.json()["results"]
    assert expected.order.tolist() == [result["index"] for result in results]
    assert expected.scores[expected.order].tolist() == [result["score"] for result in results]
    assert ["decode", "sign", "route", "score", "order", "encode", "total"] == list(
        response.json()["timings_ms"]
    )


async def test_float32_is_ranked_where_it_lies_in_the_body(tiny_ranker: Ranker) -> None:
    body = saved(ROW)

    documents = npy.read(body, b"", LIMITS).documents(tiny_ranker.contract)

    lies = np.frombuffer(body, np.uint8)
    assert np.shares_memory(lies, documents.matrix)


async def test_a_misaligned_array_is_read_as_well(client: httpx.AsyncClient) -> None:
    header = "{'shape': (1, 4), 'fortran_order': False, 'descr': '<f4'}\n"
    bodies = [written(header + " " * padding, ROW.tobytes()) for padding in range(4)]

    answers = [await client.post("/v1/rerank", content=body, headers=NPY) for body in bodies]

    assert [[10.0]] * 4 == [[one["score"] for one in answer.json()["results"]] for answer in answers]


async def test_options_stand_in_the_query_string(
    client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    options: dict[str, Any] = {
        "model": "tiny@3",
        "query_id": "q 17",
        "top_n": 2,
        "explain": "route",
        "contract": tiny_ranker.contract.digest,
        "feature_names": ["new", *NAMES[::-1]],
    }
    wider = np.column_stack([np.zeros(20), queries[0][:, ::-1]]).astype(np.float32)

    plain = await client.post("/v1/rerank", content=saved(queries[0]), headers=NPY)
    response = await client.post("/v1/rerank", params=options, content=saved(wider), headers=NPY)

    answer = response.json()
    assert plain.json()["results"][:2] == answer["results"]
    assert [{"code": "feature_ignored", "feature": "new", "count": 20}] == answer["warnings"]
    assert 2 == answer["explanation"]["signature"]["rank"]


async def test_nan_is_a_missing_value(client: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    matrix = np.array([[1, 2, 3, 4], [5, np.nan, np.nan, 8], [9, np.nan, 1, 1]], np.float32)
    expected = tiny_ranker.rank(matrix)

    response = await client.post("/v1/rerank", content=saved(matrix), headers=NPY)

    answer = response.json()
    assert expected.scores[expected.order].tolist() == [result["score"] for result in answer["results"]]
    assert {"pagerank": 2, "ctr:7d": 1} == {one["feature"]: one["count"] for one in answer["warnings"]}


async def test_no_documents_are_an_empty_ranking(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/rerank", content=saved(np.zeros((0, 4))), headers=NPY)

    assert (200, []) == (response.status_code, response.json()["results"])


def with_value(value: float, dtype: str = "<f4") -> bytes:
    array = np.array([[1, 2, 3, 4], [1, 2, 3, 4]], dtype)
    array[1, 2] = value
    return saved(array)


SIMPLE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }\n"
CASES: dict[str, tuple[bytes, int, str | None, str]] = {
    # case: (body, status, pointer, what the sentence says)
    "an empty body": (b"", 400, "", "does not start with"),
    "JSON": (b'{"features": []}', 400, "", "does not start with"),
    "a zip of arrays": (b"PK\x03\x04" + bytes(60), 400, "", "does not start with"),
    "only the magic": (b"\x93NUMPY", 400, "", "version 0"),
    "version 4": (written(SIMPLE, ROW.tobytes(), version=4), 400, "", "version 4; expected 1, 2 or 3"),
    "no length": (b"\x93NUMPY\x01\x00", 400, "", "header is truncated"),
    "a header that ends early": (saved(ROW)[:40], 400, "", "header is truncated"),
    "a header of 4 GB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(99), 400, "", "at most 4096"),
    "a long header": (written(SIMPLE + " " * 5000, ROW.tobytes()), 400, "", "at most 4096"),
    "a header of code": (
        written("{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').getpid(), 4)}"),
        400,
        "",
        "cannot be read",
    ),
    "a header of brackets": (written("{'descr': " + "[" * 4000), 400, "", "cannot be read"),
    "a header with less": (written("{'descr': '<f4', 'shape': (1, 4)}"), 400, "", "cannot be read"),
    "a header with a member twice": (
        written("{'descr': '<f4', 'descr': '<f8', 'shape': (1, 4)}"),
        400,
        "",
        "cannot be read",
    ),
    "a header with more": (
        written("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), 'x': 1}"),
        400,
        "",
        "cannot be read",
    ),
    "a shape of nothing": (
        written("{'descr': '<f4', 'fortran_order': False, 'shape': (1,,4)}"),
        400,
        "",
        "shape (1,,4)",
    ),
    "a shape beyond all bounds": (
        written("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 30 + ", 4)}"),
        400,
        "",
        "shape (999",
    ),
    "a shape of exabytes": (
        written("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"),
        400,
        "",
        "holds 0 bytes",
    ),
    "truncated data": (saved(ROW)[:-1], 400, "", "holds 15 bytes; shape [1, 4] of '<f4' needs 16"),
    "more data": (saved(ROW) + b"\0", 400, "", "holds 17 bytes"),
    "objects": (saved(np.array([[1, None]], object)), 422, "", "dtype is '|O'"),
    "integers": (saved(np.ones((1, 4), np.int32)), 422, "", "dtype is '<i4'"),
    "complex": (saved(np.ones((1, 4), np.complex64)), 422, "", "dtype is '<c8'"),
    "long doubles": (saved(np.ones((1, 4), np.longdouble)), 422, "", "dtype is '<f16'"),
    "records": (saved(np.zeros((1, 4), [("a", "<f4")])), 422, "", "dtype is [('a', '<f4')]"),
    "one document's row": (saved(ROW[0]), 422, "", "shape [4]; expected [documents, features]"),
    "a scalar": (saved(np.float32(1)), 422, "", "shape []"),
    "three dimensions": (saved(ROW[None]), 422, "", "shape [1, 1, 4]"),
    "too few features": (saved(ROW[:, :3]), 422, "", "3 features per document; expected 4"),
    "too many features": (saved(np.ones((2, 5))), 422, "", "5 features per document; expected 4"),
    "infinite": (with_value(np.inf), 422, "/1/2", "'ctr:7d' of document 1 is infinite"),
    "beyond float32": (with_value(1e39, "<f8"), 422, "/1/2", "beyond float32"),
    "missing where it may not be": (saved(np.array([[np.nan, 1, 1, 1]])), 422, "/0/0", "'bm25'"),
}


@pytest.mark.parametrize("case", CASES)
async def test_anything_else_is_refused_and_says_why(case: str, client: httpx.AsyncClient) -> None:
    body, status, at, said = CASES[case]

    response = await client.post("/v1/rerank", content=body, headers=NPY)

    assert (status, at) == (response.status_code, response.json()["pointer"]), response.text
    assert said in response.json()["detail"]


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ({"documents": "a,b"}, 422, "unknown option 'documents'"),
        ({"top_n": "0"}, 422, "at least 1, found 0"),
        ({"top_n": "-1"}, 422, "at least 1"),
        ({"top_n": ""}, 422, "at least 1"),
        ({"top_n": "٣"}, 422, "at least 1"),
        ({"top_n": "9" * 5000}, 422, "at least 1"),
        ({"top_n": ["1", "2"]}, 400, "'top_n' stands twice"),
        ({"explain": "all"}, 422, "one of none, route"),
        ({"model": "nope"}, 404, "expected one of: tiny"),
        ({"contract": "sha256:0"}, 409, "the model's is"),
        ({"feature_names": ["bm25", "pagerank", "ctr:7d", "AGE"]}, 409, "'age' is not among the names"),
        ({"feature_names": [*NAMES, "age"]}, 422, "'age' is named twice"),
    ],
)
async def test_wrong_options_are_refused_and_point_nowhere_in_the_body(
    options: dict[str, Any], status: int, said: str, client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/rerank", params=options, content=saved(ROW), headers=NPY)

    assert (status, None) == (response.status_code, response.json()["pointer"]), response.text
    assert said in response.json()["detail"]


async def test_infinity_in_another_order_points_to_where_it_stands(client: httpx.AsyncClient) -> None:
    body = saved(np.array([[4, 3, 2, np.inf]]))

    response = await client.post(
        "/v1/rerank", params={"feature_names": NAMES[::-1]}, content=body, headers=NPY
    )

    assert "/0/3" == response.json()["pointer"]
    assert "'bm25' of document 0" in response.json()["detail"]


async def test_too_many_documents_are_413(connect: Any, tiny_model: Any) -> None:
    async with connect(Settings(max_documents=3), models=[tiny_model]) as client:
        response = await client.post("/v1/rerank", content=saved(np.ones((4, 4))), headers=NPY)

    assert 413 == response.status_code
    assert "4 documents; this server takes 3" in response.json()["detail"]


@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_array_is_ranked_or_refused_never_a_failure(data: st.DataObject) -> None:
    body = bytearray(saved(np.ones((2, 4), np.float32)))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "repeat", "drop"]))
        if kind == "flip":
            body[position] = data.draw(st.integers(0, 255))
        elif kind == "drop" and len(body) > 1:
            del body[position]
        elif kind == "repeat":
            body[position:position] = body[position : position + 20]
        elif position:
            del body[position:]

    try:
        npy.read(bytes(body), b"", LIMITS)
        status = 200
    except Problem as problem:
        status = problem.status

    assert status in {200, 400, 422}


@pytest.mark.parametrize(
    ("array", "options", "expected"),
    [
        (ROW, [], 0),
        (ROW.astype("<f8"), [], 1),
        (ROW.astype(">f4"), [], 1),
        (np.asfortranarray(np.repeat(ROW, 2, axis=0)), [], 1),
        (ROW, [("feature_names", name) for name in NAMES], 1),
    ],
    ids=["as it is needed", "doubles", "big-endian", "by columns", "named"],
)
async def test_only_numbers_that_have_to_be_changed_cost_something(
    array: Any, options: list[tuple[str, str]], expected: int
) -> None:
    body = saved(array)

    assert expected * len(body) == npy.read(body, urlencode(options).encode(), LIMITS).cost


@pytest.mark.parametrize(("padding", "expected"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 0)])
async def test_numbers_at_an_odd_place_cost_a_copy(padding: int, expected: int) -> None:
    header = "{'shape': (1, 4), 'fortran_order': False, 'descr': '<f4'}"
    # The header begins at byte 10 of the file.
    header += " " * (-(len(header) + 10) % 4 + padding)
    body = written(header, ROW.tobytes())

    assert expected * len(body) == npy.read(body, b"", LIMITS).cost


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_the_longest_header_is_exact(version: int) -> None:
    most = SIMPLE + " " * (4096 - len(SIMPLE))

    assert (1, 4) == npy.read(written(most, ROW.tobytes(), version=version), b"", LIMITS)._header.shape
    with pytest.raises(Problem, match="the npy header has 4097 bytes; expected at most 4096"):
        npy.read(written(most + " ", ROW.tobytes(), version=version), b"", LIMITS)


async def test_every_option_is_taken_from_the_query_string() -> None:
    options = npy.read(
        saved(ROW),
        b"model=m&query_id=q&session_id=s&top_n=3&contract=c&timeout_ms=1.5&allow_degraded=false&fallback_feature=f",
        LIMITS,
    ).options
    compared = npy.read(saved(ROW), b"explain=contributions&compare=0,12", LIMITS).options

    assert options == Options(
        model="m",
        query_id="q",
        session_id="s",
        top_n=3,
        contract="c",
        timeout_ms=1.5,
        allow_degraded=False,
        fallback_feature="f",
        timeout_at=None,
    )
    assert ("contributions", (0, 12)) == (compared.explain, compared.compare)


@pytest.mark.parametrize(("digits", "status"), [(18, 200), (19, 422)])
async def test_a_number_of_results_has_so_many_digits(digits: int, status: int) -> None:
    try:
        options = npy.read(saved(ROW), b"top_n=" + b"9" * digits, LIMITS).options
        assert (200, 10**digits - 1) == (status, options.top_n)
    except Problem as problem:
        assert status == problem.status  # noqa: PT017 - one of the cases


async def test_no_documents_have_no_feature_that_is_ignored() -> None:
    options = urlencode([("feature_names", name) for name in (*NAMES, "new")]).encode()

    empty = npy.read(saved(np.zeros((0, 5), "<f4")), options, LIMITS).documents(three_kinds().contract)
    some = npy.read(saved(np.ones((2, 5), "<f4")), options, LIMITS).documents(three_kinds().contract)

    assert ({}, {"new": 2}) == (empty.ignored, some.ignored)
