"""Everything that reads what others wrote, each with examples to start from and what must hold for any bytes.

A target takes bytes and raises if anything comes out but an answer or a refusal by name. Where there are two ways to read the
same, both must come to the same. `test_decoders.py` damages the examples; `coverage.py` looks for bytes that lead to
code which no bytes before have led to.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import sys
import tempfile
import warnings
import zlib
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from localrank import artifact
from localrank import letor as core_letor
from localrank.errors import ArtifactError, InvalidData
from localrank.features.contract import FeatureContract
from localrank.native import texts as lift
from localrank.native import texts as scan
from localrank_service.apis import batch, cohere
from localrank_service.apis.rerank import npy
from localrank_service.apis.rerank import reader as rerank_json
from localrank_service.apis.v2 import reader as v2
from localrank_service.http import body as bodies
from localrank_service.http.messages import Chunks, Head
from localrank_service.http.problems import Problem
from localrank_service.wire.query import Limits
from localrank_training.data import letor
from localrank_training.data.reading import read
from tests.core.examples import example_ranker, provenance
from tests.fuzzing.oracles import letor_lines
from tests.hostile.folders import relist

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


NAMES = ("bm25", "pagerank", "ctr:7d", "age")
LIMITS = Limits(20, refuse_extra_features=False, max_numbers=1000, max_members=2000)
REFUSALS = {400, 404, 409, 413, 415, 422, 417, 431, 501, 505}
ROW = [1, -2.5, None, 4e-3]


class Target(NamedTuple):
    """Something that reads bytes.

    Attributes:
        examples: bytes that it answers, to start from.
        check: raises if what it makes of any bytes is wrong.
    """

    examples: tuple[bytes, ...]
    check: Callable[[bytes], None]


@cache
def contract() -> FeatureContract:
    documents = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
    return FeatureContract.learn(documents, [40], names=NAMES, missing="median", normalise="none")


@contextmanager
def uncompiled() -> Iterator[None]:
    """Read as an installation without compiled code does; quicker than to look for the library each time."""
    with (
        mock.patch.object(lift, "library", return_value=None),
        mock.patch.object(scan, "library", return_value=None),
    ):
        yield


def outcome(run: Callable[[], Any]) -> Any:
    """What comes out: a value, or what a refusal says."""
    try:
        return run()
    except Problem as problem:
        return refusal(problem)


def refusal(problem: Problem) -> tuple[int, str | None]:
    assert problem.status in REFUSALS, problem.status
    assert problem.detail
    assert problem.pointer is None or problem.pointer == "" or problem.pointer[0] == "/"
    assert problem.body("id")
    return problem.status, problem.pointer


def names_what_is_wrong(error: Exception, start: str = "") -> None:
    assert str(error).startswith(start)
    assert len(str(error)) > len(start)


def both(run: Callable[[], Any]) -> Any:
    """What comes out, the same with compiled code and without."""
    compiled = outcome(run)
    with uncompiled():
        plain = outcome(run)
    assert compiled == plain, (compiled, plain)
    return compiled


def _documents(query: Any) -> Any:
    found = query.documents(contract())
    width = contract().n_features
    assert found.matrix.shape[1] == width
    places = [
        found.locate(at, feature) for at in range(len(found.matrix)) for feature in (None, 0, width - 1)
    ]
    return query.options, found.matrix.tobytes(), found.ids, found.ignored, places


def _rerank(data: bytes) -> None:
    both(lambda: _documents(rerank_json.JsonQuery.read(data, LIMITS)))


def _cohere(data: bytes) -> None:
    def run() -> Any:
        query = cohere.CohereQuery.read(data, LIMITS)
        options, matrix, _, ignored, places = _documents(query)
        sent = query.documents(contract()).sent
        return options, matrix, ignored, places, sent and [json.loads(one) for one in sent]

    both(run)


def _batch(data: bytes) -> None:
    queries = both(lambda: [query.content for query in batch.split(data, LIMITS)])
    if isinstance(queries, list):
        for query in queries:
            _rerank(query)


def _inference(data: bytes) -> None:
    if len(data) < 2:
        return
    (length,) = struct.unpack_from("<H", data)
    declared, body = None if length == 0xFFFF else str(length), data[2:]

    def run() -> Any:
        queries, ids = v2.read(body, declared, LIMITS).queries(contract())
        return [query.matrix.tobytes() for query in queries], ids

    both(run)


def _array(data: bytes) -> None:
    options = b"model=web&feature_names=age" if data[-1:] == b"\x01" else b""

    def run() -> Any:
        return _documents(npy.read(data, options, LIMITS))

    outcome(run)


def _compressed(encoding: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        limit = 2**16
        found = outcome(lambda: b"".join(_up_to(limit, bodies._pieces(data, encoding))))
        if isinstance(found, bytes) and encoding == "gzip":
            assert gzip.decompress(data) == found
        if isinstance(found, bytes) and encoding == "deflate":
            assert zlib.decompress(data) == found

    return check


def _up_to(limit: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        limit -= len(piece)
        if limit < 0:
            raise Problem(413, "too large")
        yield piece


def _head(data: bytes) -> None:
    def run(step: int) -> Any:
        head, at = Head(), 0
        while at < len(data) and not head.complete:
            at += head.feed(memoryview(data)[at : at + step])
        return head.complete, at if head.complete else 0, head.method, head.headers, head.length

    whole, parts = outcome(lambda: run(len(data) or 1)), outcome(lambda: run(7))
    assert whole == parts or 2 in {len(whole), len(parts)}  # a refusal may come sooner or later


def _chunked(data: bytes) -> None:
    def run(step: int) -> Any:
        chunks, content, at = Chunks(), b"", 0
        while at < len(data) and not chunks.complete:
            part, used = chunks.feed(memoryview(data)[at : at + step])
            content, at = content + part, at + used
        return chunks.complete, content, at if chunks.complete else 0

    assert outcome(lambda: run(len(data) or 1)) == outcome(lambda: run(3))


def _letor(data: bytes) -> None:
    """The service's numbers, training's and those of the oracle are the same."""
    text = data if data.endswith(b"\n") else data + b"\n"
    expected = letor_lines(text, 50)
    for parse in (partial(core_letor.parse, text), partial(letor.parse, text, name="a.txt")):
        try:
            lines = parse(max_features=50)
        except InvalidData as error:
            names_what_is_wrong(error, f"a.txt:{expected}:")
        except core_letor.WrongLineError as error:
            names_what_is_wrong(error, f"line {expected}, column ")
        else:
            assert not isinstance(expected, int), expected
            assert [one.line for one in expected] == lines.line_numbers.tolist()
            assert [one.label for one in expected] == lines.labels.tolist()
            assert [one.query_id for one in expected] == [lines.query_ids[at] for at in lines.queries]
            values = [pair for one in expected for pair in one.values]
            assert [index - 1 for index, _ in values] == lines.columns.tolist()
            assert np.array([value for _, value in values], np.float32).tobytes() == lines.values.tobytes()


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="localrank-fuzzing-"))
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _file(suffix: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        path = _folder() / f"data{suffix}"
        path.write_bytes(data)
        try:
            found = read(path, n_features=None)
        except InvalidData as error:
            names_what_is_wrong(error)
        else:
            assert len(found.documents) == len(found.labels) == int(found.offsets[-1])

    return check


@cache
def _version() -> Path:
    ranker = example_ranker()
    artifact.save(_folder() / "web" / "1", ranker, provenance(ranker))
    return _folder() / "web" / "1"


def _artifact(name: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        version = _version()
        saved = {one: (version / one).read_bytes() for one in (name, "manifest.json")}
        try:
            (version / name).write_bytes(data)
            if name != "manifest.json":
                relist(version, name)
            try:
                artifact.load(version)
            except ArtifactError as error:
                names_what_is_wrong(error)
        finally:
            for one, content in saved.items():
                (version / one).write_bytes(content)

    return check


def _saved(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _parquet() -> bytes:
    table = pa.table(
        {"qid": ["a", "a", "b"], "label": [1.0, 0.0, 2.0], "f1": [0.5, None, 1.0], "f2": [1, 2, 3]}
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _json(*members: Any) -> tuple[bytes, ...]:
    return tuple(json.dumps(one).encode() for one in members)


def _calls() -> tuple[bytes, ...]:
    features = {"name": "features", "datatype": "FP32", "shape": [2, 4], "data": [ROW, ROW]}
    ids = {"name": "doc_ids", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}
    group = {"name": "group", "datatype": "INT32", "shape": [2], "data": [1, 1]}
    call = {
        "id": "1",
        "inputs": [features, ids, group],
        "parameters": {"top_n": 1},
        "outputs": [{"name": "ranking"}],
    }
    sizes = {"features": 32, "doc_ids": 10}
    binary = [
        {
            "name": "features",
            "datatype": "FP32",
            "shape": [2, 4],
            "parameters": {"binary_data_size": sizes["features"]},
        },
        {
            "name": "doc_ids",
            "datatype": "BYTES",
            "shape": [2],
            "parameters": {"binary_data_size": sizes["doc_ids"]},
        },
    ]
    head = json.dumps({"inputs": binary}).encode()
    tail = np.ones(8, "<f4").tobytes() + b"\1\0\0\0a\1\0\0\0b"
    return (
        b"\xff\xff" + json.dumps(call).encode(),
        struct.pack("<H", len(head)) + head + tail,
        struct.pack("<H", 0) + np.ones(8, "<f4").tobytes(),
    )


_REQUESTS = _json(
    {
        "model": "web",
        "query_id": "q",
        "top_n": 2,
        "explain": "route",
        "ids": ["a", 2],
        "features": [ROW, ROW],
    },
    {"documents": [{"id": "a", "features": ROW}, {"features": {"bm25": 1, "new": 2, "age": None}}]},
    {"feature_names": ["age", "ctr:7d", "pagerank", "bm25", "x"], "features": [[*ROW, 5]]},
    {
        "columns": {"bm25": [1, 2.5], "age": [None, 3], "x": ["a", "b"]},
        "ids": [1, 2],
        "answer": "scores",
        "boost": {"2": 1},
    },
    {"columns": {"bm25": [1], "hour": 3}, "query_features": {"hour": 3}},
)

_TEXT = b"2 qid:1 1:0.5 2:-1e-3 7:3 # a comment\n0 qid:1 3:?\n\n1.5 qid:q-2 1:1\n"

TARGETS: dict[str, Target] = {
    "rerank": Target(_REQUESTS, _rerank),
    "cohere": Target(
        _json(
            {
                "model": "web",
                "query": "q",
                "documents": [{"features": ROW, "text": "x"}],
                "return_documents": True,
            },
            {
                "documents": [{"features": {"bm25": 1}, "more": {"a": [1, {}]}}, {"features": ROW}],
                "rank_fields": ["x"],
            },
            {
                "documents": [
                    "[1, 2.5, null, 4]",
                    '{"bm25": 1, "features": {"age": 2}}',
                    "{main=[{name=bm25, value=1.5}, {value=1.0E3, name=age}, {name=x}]}",
                    "1 2.5 nan 4",
                    "1:1 2:3 4:?",
                    "bm25: 1.5\ntitle: a: b\nage: None\n\nbm25: 3",
                    {"text": "[1, 2, 3, 4]\nmore"},
                ],
                "relevance": "rank",
                "return_documents": True,
            },
            {"query": "q", "documents": ["[1, 2, 3, 4]", "[1, 2, 3, -4.5e-2]"], "relevance": "raw"},
        ),
        _cohere,
    ),
    "batch": Target(
        (b'{"queries":[' + b" ,\n".join(_REQUESTS) + b"]}", b'{"\\u0071ueries": [{}, 1, [2], "]"]}'), _batch
    ),
    "inference": Target(_calls(), _inference),
    "npy": Target(
        (
            _saved(np.ones((3, 4), np.float32)),
            _saved(np.ones((2, 4), np.float64, order="F")),
            _saved(np.ones((1, 4), np.float16)) + b"\x01",
        ),
        _array,
    ),
    "gzip": Target(
        (gzip.compress(b"abc" * 50, mtime=0), gzip.compress(b"", mtime=0) + gzip.compress(b"x", mtime=0)),
        _compressed("gzip"),
    ),
    "deflate": Target((zlib.compress(b"abc" * 50), zlib.compress(b"")), _compressed("deflate")),
    "zstd": Target(
        (zstd.compress(b"abc" * 50), zstd.compress(b"") + zstd.compress(b"x")),
        _compressed("zstd"),
    ),
    "head": Target(
        (
            b"POST /v1/rerank?top_n=1 HTTP/1.1\r\nHost: localhost:80\r\nContent-Length: 12\r\nX-Request-Id: a\r\n\r\n",
            b"GET http://a/b HTTP/1.0\r\nHost: a\r\nConnection: keep-alive, upgrade\r\nUpgrade: h2c\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
        ),
        _head,
    ),
    "chunks": Target(
        (b"5;a=b\r\nhello\r\n0\r\nA: 1\r\n\r\n", b"1\r\nx\r\na\r\n0123456789\r\n0\r\n\r\n"), _chunked
    ),
    "letor": Target((_TEXT, b"1 qid:1 1:1e39\n"), _letor),
    "text file": Target((_TEXT,), _file(".txt")),
    "compressed text file": Target((gzip.compress(_TEXT, mtime=0),), _file(".txt.gz")),
    "csv": Target((b"qid,label,f1,f2\na,1,0.5,\nb,0,1,2\n",), _file(".csv")),
    "parquet": Target((_parquet(),), _file(".parquet")),
    "manifest": Target((), _artifact("manifest.json")),
    "array of a version": Target((), _artifact("scorers.weights.npy")),
}


def examples(name: str) -> tuple[bytes, ...]:
    """The examples of a target; those of a version are what was saved."""
    files = {"manifest": "manifest.json", "array of a version": "scorers.weights.npy"}
    if name in files:
        return ((_version() / files[name]).read_bytes(),)
    return TARGETS[name].examples


def check(name: str, data: bytes) -> None:
    """Give the bytes to a target. A warning is a failure, as it is in every test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TARGETS[name].check(data)
