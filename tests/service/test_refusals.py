"""Everything that can be wrong with a request: its status, a sentence, and where."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.app import create_app
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

pytestmark = pytest.mark.anyio

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: A frame of a few bytes that wants a window of a gigabyte.
WIDE_WINDOW = b"\x28\xb5\x2f\xfd" + b"\x00" + b"\xa0" + b"\x11\x00\x00" + b"{}"

JSON = {"content-type": "application/json"}
ROW = [1, 2, 3, 4]


MALFORMED: dict[str, tuple[str | bytes, str]] = {
    "an empty body": ("", "empty"),
    "only spaces": (" \n", "empty"),
    "not JSON": ("features=1,2,3,4", "not JSON"),
    "a truncated body": ('{"features": [[1, 2, 3', "not JSON"),
    "a truncated text": ('{"model": "de', "not JSON"),
    "two documents": ("{} {}", "not JSON"),
    "single quotes": ("{'features': []}", "not JSON"),
    "a trailing comma": ('{"features": [[1,2,3,4],]}', "trailing comma"),
    "bytes that are no text": (b'{"model": "\xff"}', "UTF-8"),
    "a lone surrogate": ('{"model": "\\ud800"}', "surrogate"),
    "UTF-16": ('{"features": []}'.encode("utf-16"), "not JSON"),
    "a byte order mark": (b'\xef\xbb\xbf{"features": []}', "the body is not JSON"),
    "nesting without end": ("[" * 5000, "nested too deeply: more than 64 levels"),
    "NaN": ('{"features": [[1, 2, 3, NaN]]}', "NaN at byte 24; a missing value is null"),
    "nan": ('{"features": [[1, 2, 3, nan]]}', "NaN at byte 24; a missing value is null"),
    "Infinity": ('{"features": [[1, 2, 3, Infinity]]}', "Infinity at byte 24"),
    "-Infinity": ('{"features": [[1, 2, 3, -Infinity]]}', "not JSON"),
    "inf": ('{"features": [[1, 2, 3, inf]]}', "Infinity at byte 24"),
    "a hexadecimal number": ('{"features": [[1, 2, 3, 0x10]]}', "not JSON"),
    "a leading plus": ('{"features": [[1, 2, 3, +1]]}', "not JSON"),
    "a member twice": ('{"features": [[1,2,3,4]], "features": [[4,3,2,1]]}', "'features' stands twice"),
    "a member twice, and colons in ids": (
        '{"ids": ["a:b"], "model": "tiny", "features": [[1,2,3,4]], "model": "tiny"}',
        "'model' stands twice",
    ),
    "a feature twice": (
        '{"documents": [{"features": {"bm25": 1, "pagerank": 1, "ctr:7d": 1, "age": 1, "age": 2}}]}',
        "'age' stands twice",
    ),
    "a document's member twice": (
        '{"documents": [{"id": "a", "id": "b", "features": [1,2,3,4]}]}',
        "'id' stands twice",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
async def test_malformed_bodies_are_400(case: str, client: httpx.AsyncClient) -> None:
    body, said = MALFORMED[case]

    response = await client.post("/v1/rerank", content=body, headers=JSON)

    assert 400 == response.status_code, response.text
    assert "" == response.json()["pointer"]
    assert said in response.json()["detail"]


REFUSED: dict[str, tuple[Any, str, str]] = {
    # case: (body, pointer, what the sentence says)
    "a list": ([], "", "the body: expected an object, found a list"),
    "a text": ('"features"', "", 'found "features"'),
    "null": ("null", "", "found null"),
    "an unknown member": ({"features": [ROW], "topn": 3}, "/topn", "unknown member 'topn'"),
    "an unknown member with a slash": ({"features": [ROW], "a/b~c": 3}, "/a~1b~0c", "unknown member"),
    "no documents": ({"model": "tiny"}, "", "expected one of documents, features, columns;"),
    "two forms": ({"features": [ROW], "documents": []}, "", "found documents and features"),
    "documents no list": ({"documents": {"id": "a"}}, "/documents", "expected a list"),
    "documents null": ({"documents": None}, "/documents", "expected a list"),
    "a document no object": ({"documents": [ROW]}, "/documents/0", "documents[0]: expected an object"),
    "a document without features": (
        {"documents": [{"features": ROW}, {"id": "a"}]},
        "/documents/1",
        "documents[1] has no features",
    ),
    "a document with more": (
        {"documents": [{"id": "a", "features": ROW, "title": "…"}]},
        "/documents/0/title",
        "unknown member 'title'",
    ),
    "a document's features a text": (
        {"documents": [{"features": "1234"}]},
        "/documents/0/features",
        'found "1234"',
    ),
    "features no list": ({"features": "1234"}, "/features", 'found "1234"'),
    "features of numbers": ({"features": ROW}, "/features/0", "features[0]: expected a list"),
    "features an object": ({"features": {"bm25": 1}}, "/features", "found an object"),
    "a row an object": (
        {"features": [{"bm25": 1, "pagerank": 1, "ctr:7d": 1, "age": 1}]},
        "/features/0",
        "expected a list of numbers, found an object",
    ),
    "ragged": ({"features": [ROW, ROW[:3]]}, "/features/1", "features[1] has 3 values; expected 4"),
    "ragged, the total fits": (
        {"features": [[1, 2, 3], [1, 2, 3, 4, 5]]},
        "/features/0",
        "features[0] has 3 values; expected 4",
    ),
    "ragged with nulls, the total fits": (
        {"features": [ROW, [1, None, 3], [1, 2, None, 4, 5]]},
        "/features/1",
        "features[1] has 3 values; expected 4",
    ),
    "ragged documents, the total fits": (
        {"documents": [{"features": [1, 2, 3, 4, 5]}, {"features": [1, 2, 3]}]},
        "/documents/0/features",
        "documents[0].features has 5 values; expected 4",
    ),
    "too few features": ({"features": [ROW[:3]] * 3}, "/features/0", "has 3 values; expected 4"),
    "too many features": ({"features": [[*ROW, 5]]}, "/features/0", "has 5 values; expected 4"),
    "empty rows": ({"features": [[], []]}, "/features/0", "has 0 values; expected 4"),
    "deeper nesting": ({"features": [[[1, 2, 3, 4]]]}, "/features/0", "has 1 values"),
    "a list for a number": ({"features": [[1, 2, 3, [4]]]}, "/features/0/3", "found [4]"),
    "an object for a number": ({"features": [[1, {}, 3, 4]]}, "/features/0/1", "found an object"),
    "a text for a number": ({"features": [[1, 2, "3", 4]]}, "/features/0/2", 'found "3"'),
    "the text NaN": ({"features": [[1, 2, "NaN", 4]]}, "/features/0/2", 'found "NaN"'),
    "the text Infinity": ({"features": [[1, 2, 3, "-Infinity"]]}, "/features/0/3", "-Infinity"),
    "true for a number": ({"features": [ROW, [1, 2, True, 4]]}, "/features/1/2", "found true"),
    "false for a number": (
        {"documents": [{"features": [False, 2, 3, 4]}]},
        "/documents/0/features/0",
        "false",
    ),
    "a named text": (
        {"documents": [{"features": {"bm25": "1", "pagerank": 1, "ctr:7d": 1, "age": 1}}]},
        "/documents/0/features/bm25",
        'found "1"',
    ),
    "an unknown feature that is an object": (
        {"documents": [{"features": {"bm25": 1, "x": {"y": {}}}}]},
        "/documents/0/features/x",
        "documents[0].features['x']: expected a number or null, found an object",
    ),
    "a missing name": (
        {"documents": [{"features": {"bm52": 1, "pagerank": 1, "ctr:7d": 1, "age": 1}}]},
        "/documents/0/features",
        "feature 'bm25' of document 0 is missing",
    ),
    "a null that may not be": ({"features": [ROW, [None, 2, 3, 4]]}, "/features/1/0", "'bm25' of document 1"),
    "beyond float32": ({"features": [ROW, [1, 1e39, 3, 4]]}, "/features/1/1", "beyond float32"),
    "beyond float32, negative": ({"features": [[1, 2, 3, -3.5e38]]}, "/features/0/3", "beyond float32"),
    "beyond double": ('{"features": [[1, 2, 1e400, 4]]}', "/features/0/2", "beyond"),
    "a huge integer": (
        '{"features": [[1, 2, 3, 4], [1, 2, 3, 1' + "0" * 400 + "]]}",
        "/features/1/3",
        "beyond",
    ),
    "an integer beyond float32": (
        '{"documents": [{"features": [1' + "0" * 39 + ", 2, 3, 4]}]}",
        "/documents/0/features/0",
        "beyond float32",
    ),
    "beyond float32 by name": (
        {"documents": [{"features": {"bm25": 1, "pagerank": 1, "ctr:7d": 1, "age": 1e39}}]},
        "/documents/0/features/age",
        "beyond float32",
    ),
    "beyond float32 in another order": (
        {"features": [[4, 3, 2, 1e39]], "feature_names": ["age", "ctr:7d", "pagerank", "bm25"]},
        "/features/0/3",
        "'bm25' of document 0",
    ),
    "ids too few": ({"features": [ROW, ROW], "ids": ["a"]}, "/ids", "1 ids for 2 documents"),
    "ids too many": ({"features": [ROW], "ids": ["a", "b"]}, "/ids", "2 ids for 1 documents"),
    "ids no list": ({"features": [ROW], "ids": "a"}, "/ids", "expected a list"),
    "an id a float": ({"features": [ROW, ROW], "ids": ["a", 1.5]}, "/ids/1", "found 1.5"),
    "an id null": ({"features": [ROW], "ids": [None]}, "/ids/0", "found null"),
    "an id true": ({"features": [ROW], "ids": [True]}, "/ids/0", "found true"),
    "an id a list": ({"documents": [{"id": [], "features": ROW}]}, "/documents/0/id", "found a list"),
    "a document's id null": ({"documents": [{"id": None, "features": ROW}]}, "/documents/0/id", "null"),
    "ids beside documents": ({"documents": [{"features": ROW}], "ids": ["a"]}, "/ids", "beside features"),
    "top_n zero": ({"features": [ROW], "top_n": 0}, "/top_n", "at least 1"),
    "top_n a float": ({"features": [ROW], "top_n": 1.5}, "/top_n", "found 1.5"),
    "top_n a text": ({"features": [ROW], "top_n": "3"}, "/top_n", 'found "3"'),
    "top_n true": ({"features": [ROW], "top_n": True}, "/top_n", "found true"),
    "explain something": ({"features": [ROW], "explain": "all"}, "/explain", "one of none, route"),
    "explain a list": ({"features": [ROW], "explain": []}, "/explain", "found a list"),
    "model a number": ({"features": [ROW], "model": 3}, "/model", "expected a text"),
    "contract a number": ({"features": [ROW], "contract": 3}, "/contract", "expected a text"),
    "query_id a list": ({"features": [ROW], "query_id": []}, "/query_id", "a text or an integer"),
    "feature_names a text": ({"features": [ROW], "feature_names": "a"}, "/feature_names", "a list of texts"),
    "feature_names of numbers": ({"features": [ROW], "feature_names": [1]}, "/feature_names/0", "a text"),
    "a name twice": (
        {"features": [[*ROW, 5]], "feature_names": ["bm25", "pagerank", "ctr:7d", "age", "age"]},
        "/feature_names/4",
        "'age' is named twice",
    ),
    "numbers for rows": ({"features": ROW}, "/features/0", "a list of numbers, found 1"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_breaks_the_contract_is_422_and_says_where(case: str, client: httpx.AsyncClient) -> None:
    body, pointer, said = REFUSED[case]

    response = await client.post(
        "/v1/rerank", content=body if isinstance(body, str) else json.dumps(body), headers=JSON
    )

    assert 422 == response.status_code, response.text
    assert pointer == response.json()["pointer"]
    assert said in response.json()["detail"]


async def test_more_unknown_features_than_warnings_are_413(client: httpx.AsyncClient) -> None:
    def body(count: int) -> dict[str, Any]:
        known = dict(zip(("bm25", "pagerank", "ctr:7d", "age"), ROW, strict=True))
        new = {f"new{position}": 1 for position in range(count)}
        return {"documents": [{"features": known}, {"features": known | new}]}

    most = await client.post("/v1/rerank", json=body(1000))
    more = await client.post("/v1/rerank", json=body(1001))

    assert (200, 1000) == (most.status_code, len(most.json()["warnings"]))
    assert (413, "/documents/1/features") == (more.status_code, more.json()["pointer"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["bm25", "pagerank", "age"], "'ctr:7d' is not among the names"),
        (["BM25", "pagerank", "ctr:7d", "age"], "'bm25' is not among the names"),
        ([], "'bm25' is not among the names"),
    ],
)
async def test_other_feature_names_than_the_model_s_are_409(
    names: list[str], said: str, client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/rerank", json={"features": [ROW], "feature_names": names})

    assert (409, "/feature_names") == (response.status_code, response.json()["pointer"])
    assert said in response.json()["detail"]


@pytest.mark.parametrize("address", ["nope", "tiny@4", "tiny@challenger", "tiny@", "@3", "", "tiny/../x"])
async def test_an_unknown_model_is_404_and_the_known_are_named(
    address: str, client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/rerank", json={"features": [ROW], "model": address})

    assert (404, "/model") == (response.status_code, response.json()["pointer"])
    assert "expected one of: tiny" in response.json()["detail"]


async def test_with_several_models_a_request_names_one(connect: Any, make_ranker: Any) -> None:
    models = [LiveModel(name, 1, make_ranker()) for name in ("a", "b")]

    async with connect(models=models) as client:
        response = await client.post("/v1/rerank", json={"features": [ROW]})

    assert (422, "/model") == (response.status_code, response.json()["pointer"])
    assert "expected one of: a, b" in response.json()["detail"]


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "application/json; charset=latin-1",
    ],
)
async def test_another_content_type_is_415_and_the_right_one_is_named(
    content_type: str | None, client: httpx.AsyncClient
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}

    response = await client.post("/v1/rerank", content=json.dumps({"features": [ROW]}), headers=headers)

    assert 415 == response.status_code
    assert "application/json, application/x-npy" == response.headers["accept-post"]
    assert "expected application/json" in response.json()["detail"]


async def test_an_unknown_content_encoding_is_415(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/rerank", content=b"...", headers=JSON | {"content-encoding": "br"})

    assert (415, "gzip, deflate, zstd") == (response.status_code, response.headers["accept-encoding"])


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_another_method_is_405_and_the_right_one_is_named(
    method: str, client: httpx.AsyncClient
) -> None:
    response = await client.request(method, "/v1/rerank")

    assert (405, "POST") == (response.status_code, response.headers["allow"])


async def test_too_many_documents_are_413(connect: Any, tiny_model: LiveModel) -> None:
    bodies: list[tuple[dict[str, Any], str]] = [
        ({"documents": [{"features": ROW}] * 4}, "/documents"),
        ({"features": [ROW] * 4}, "/features"),
    ]
    async with connect(Settings(max_documents=3), models=[tiny_model]) as client:
        fits = await client.post("/v1/rerank", json={"features": [ROW] * 3})
        answers = [await client.post("/v1/rerank", json=body) for body, _ in bodies]

    assert 200 == fits.status_code
    for answer, (_, pointer) in zip(answers, bodies, strict=True):
        assert (413, pointer) == (answer.status_code, answer.json()["pointer"])
        assert "4 documents; this server takes 3" in answer.json()["detail"]


async def in_chunks(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def test_a_body_over_the_limit_is_413_however_it_comes(connect: Any, tiny_model: LiveModel) -> None:
    body = json.dumps({"features": [ROW]}).encode()
    too_large = body + b" " * (1001 - len(body))
    bomb = gzip.compress(b" " * 10_000_000)
    assert len(bomb) > 1000 < len(zlib.compress(b" " * 10_000_000))
    async with connect(Settings(max_body_bytes=1000), models=[tiny_model]) as client:

        async def status(content: Any, **headers: str) -> int:
            response = await client.post("/v1/rerank", content=content, headers=JSON | headers)
            code: int = response.status_code
            return code

        assert 200 == await status(too_large[:-1])
        assert 413 == await status(too_large)
        assert 200 == await status(in_chunks(too_large[:-1], 7))
        assert 413 == await status(in_chunks(too_large, 7))
        for encoding, compress in (
            ("gzip", gzip.compress),
            ("deflate", zlib.compress),
            ("zstd", zstd.compress),
        ):
            assert 200 == await status(compress(too_large[:-1]), **{"content-encoding": encoding})
            assert 413 == await status(compress(too_large), **{"content-encoding": encoding})
        pieces = gzip.compress(too_large[:500]) + gzip.compress(too_large[500:])
        assert 413 == await status(pieces, **{"content-encoding": "gzip"})
        frames = zstd.compress(too_large[:500]) + zstd.compress(too_large[500:])
        assert 413 == await status(frames, **{"content-encoding": "zstd"})


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b""),
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-3]),
        ("gzip", gzip.compress(b"{}", mtime=0) + b"and more"),
        ("deflate", b""),
        ("deflate", zlib.compress(b"{}")[:-1]),
        ("deflate", zlib.compress(b"{}") + b"and more"),
        ("deflate", gzip.compress(b"{}", mtime=0)),
        ("zstd", b""),
        ("zstd", b"not zstd"),
        ("zstd", zstd.compress(b"{}")[:-1]),
        ("zstd", zstd.compress(b"{}") + b"and more"),
        ("zstd", WIDE_WINDOW),
    ],
)
async def test_a_compressed_body_that_cannot_be_read_is_400(
    encoding: str, body: bytes, client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/rerank", content=body, headers=JSON | {"content-encoding": encoding})

    assert 400 == response.status_code, response.text


async def test_a_body_that_declares_too_much_is_not_read(tiny_model: LiveModel) -> None:
    app = create_app(Settings(max_body_bytes=10), models=[tiny_model])
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"11")]
    scope = {"type": "http", "method": "POST", "path": "/v1/rerank", "headers": headers, "query_string": b""}
    await app(scope, receive, send)

    assert 413 == sent[0]["status"]
