"""The Open Inference Protocol: what is answered in every form, and what is refused."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank import ranker as stages
from localrank_service.apis.v2 import reader as v2
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_service.wire.query import Limits
from localrank_service.wire.text import Text
from tests.arithmetic import without_library
from tests.service.conftest import three_kinds

if TYPE_CHECKING:
    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("arithmetic")]

INFER = "/v2/models/tiny/infer"
ROW = [1.0, 2.0, 3.0, 4.0]


def tensor(name: str, data: Any, datatype: str, shape: list[int] | None = None) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape or list(np.shape(data)), "data": data}


def features(data: Any, datatype: str = "FP32", shape: list[int] | None = None) -> dict[str, Any]:
    return tensor("features", data, datatype, shape)


def binary(
    members: dict[str, Any], *tails: tuple[str, list[int], str, bytes]
) -> tuple[bytes, dict[str, str]]:
    """A body of JSON and binary tensors, and its header."""
    inputs = [
        {"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": len(tail)}}
        for name, shape, datatype, tail in tails
    ]
    head = json.dumps(members | {"inputs": members.get("inputs", []) + inputs}).encode()
    body = head + b"".join(tail for _, _, _, tail in tails)
    return body, {"inference-header-content-length": str(len(head))}


def outputs_of(response: httpx.Response) -> dict[str, list[Any]]:
    """The outputs as Python lists, whichever way they came."""
    assert 200 == response.status_code, response.text
    length = response.headers.get("inference-header-content-length")
    head, rest = (
        (response.content, b"")
        if length is None
        else (response.content[: int(length)], response.content[int(length) :])
    )
    found: dict[str, list[Any]] = {}
    for output in json.loads(head)["outputs"]:
        if (size := output.get("parameters", {}).get("binary_data_size")) is None:
            found[output["name"]] = output["data"]
        else:
            data, rest = rest[:size], rest[size:]
            if output["datatype"] == "BYTES":
                texts = []
                while data:
                    (n,) = struct.unpack_from("<I", data)
                    texts.append(data[4 : 4 + n].decode())
                    data = data[4 + n :]
                found[output["name"]] = texts
            else:
                kind = {"FP64": "<f8", "INT32": "<i4", "INT64": "<i8"}[output["datatype"]]
                found[output["name"]] = np.frombuffer(data, kind).tolist()
        assert [len(found[output["name"]])] == output["shape"]
    assert not rest
    return found


async def test_json_in_and_out(client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]) -> None:
    expected = tiny_ranker.rank(queries[0])
    ids = [f"d{i}" for i in range(20)]

    response = await client.post(
        INFER,
        json={"id": "42", "inputs": [features(queries[0].tolist()), tensor("doc_ids", ids, "BYTES")]},
    )

    answer = response.json()
    assert ("tiny", "3", "42") == (answer["model_name"], answer["model_version"], answer["id"])
    assert [("scores", "FP64"), ("ranking", "INT32"), ("cluster", "INT32"), ("doc_ids", "BYTES")] == [
        (output["name"], output["datatype"]) for output in answer["outputs"]
    ]
    assert {
        "scores": expected.scores.tolist(),
        "ranking": expected.order.tolist(),
        "cluster": [expected.route.cluster],
        "doc_ids": [ids[index] for index in expected.order],
    } == outputs_of(response)
    stages = [entry.partition(";")[0] for entry in response.headers["server-timing"].split(", ")]
    assert ["decode", "sign", "route", "score", "order", "encode", "total"] == stages


@pytest.mark.parametrize("form", ["nested", "flat", "FP64", "binary", "binary FP64", "raw", "slow", "mixed"])
async def test_every_form_of_the_features_gets_the_ranker_s_own_bits(
    form: str, client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    documents = queries[1]
    expected = tiny_ranker.rank(documents)
    headers: dict[str, str] = {}
    content: bytes
    if form.startswith("binary"):
        datatype = form[7:] or "FP32"
        data = documents.astype({"FP32": "<f4", "FP64": "<f8"}[datatype]).tobytes()
        content, headers = binary(
            {"parameters": {"binary_data_output": True}}, ("features", [20, 4], datatype, data)
        )
    elif form == "raw":
        content, headers = documents.tobytes(), {"inference-header-content-length": "0"}
    elif form == "mixed":
        inputs = {"inputs": [features(documents.tolist())]}
        content, headers = binary(inputs, ("doc_ids", [20], "INT64", np.arange(20, dtype="<i8").tobytes()))
    else:
        values = documents.ravel().tolist() if form == "flat" else documents.tolist()
        members: dict[str, Any] = {
            "inputs": [features(values, "FP64" if form == "FP64" else "FP32", [20, 4])]
        }
        if form == "slow":
            members["query\u0000"] = [[None]]
        content = json.dumps(members).encode()

    outputs = outputs_of(await client.post(INFER, content=content, headers=headers))

    assert expected.scores.tolist() == outputs["scores"]
    assert expected.order.tolist() == outputs["ranking"]
    assert [expected.route.cluster] == outputs["cluster"]
    assert outputs.get("doc_ids", outputs["ranking"]) == outputs["ranking"]


async def test_half_precision_is_read_binary(client: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    half = np.random.default_rng(3).standard_normal((9, 4)).astype("<f2")
    expected = tiny_ranker.rank(half.astype(np.float32))
    content, headers = binary({}, ("features", [9, 4], "FP16", half.tobytes()))

    outputs = outputs_of(await client.post(INFER, content=content, headers=headers))

    assert expected.scores.tolist() == outputs["scores"]


@pytest.mark.parametrize("wire", ["json", "binary"])
async def test_several_queries_in_one_call_are_routed_one_by_one(
    wire: str, client: httpx.AsyncClient, tiny_ranker: Ranker, queries: list[Matrix]
) -> None:
    parts = [queries[0], queries[1][:7], queries[2][:0], queries[2][:1], queries[2]]
    rankings = [tiny_ranker.rank(part) for part in parts]
    sizes, documents = [len(part) for part in parts], np.concatenate(parts)
    starts = np.cumsum([0, *sizes])
    ids = [2**63 - 1 - number for number in range(len(documents))]
    members: dict[str, Any] = {"parameters": {"top_n": 3}}
    headers: dict[str, str] = {}
    if wire == "json":
        inputs = [
            features(documents.tolist()),
            tensor("group", sizes, "INT64"),
            tensor("doc_ids", ids, "INT64"),
        ]
        content = json.dumps(members | {"inputs": inputs}).encode()
    else:
        content, headers = binary(
            members,
            ("group", [5], "INT32", np.array(sizes, "<i4").tobytes()),
            ("doc_ids", [len(ids)], "INT64", np.array(ids, "<i8").tobytes()),
            ("features", list(documents.shape), "FP32", documents.tobytes()),
        )

    response = await client.post(INFER, content=content, headers=headers)

    outputs = outputs_of(response)
    assert np.concatenate([ranking.scores for ranking in rankings]).tolist() == outputs["scores"]
    expected = [
        start + index for start, ranking in zip(starts, rankings, strict=False) for index in ranking.order[:3]
    ]
    assert expected == outputs["ranking"]
    clusters = [-1 if ranking.route.cluster is None else ranking.route.cluster for ranking in rankings]
    assert clusters == outputs["cluster"]
    assert clusters[2:4] == [-1, -1]
    assert [2**63 - 1 - index for index in expected] == outputs["doc_ids"]
    metrics = (await client.get("/metrics")).text
    assert 'localrank_requests_total{api="v2",model="tiny",outcome="ok",version="3"} 5.0' in metrics


async def test_no_queries_at_all_are_answered(client: httpx.AsyncClient) -> None:
    inputs = [
        features([], shape=[0, 4]),
        tensor("group", [], "INT32", [0]),
        tensor("doc_ids", [], "BYTES", [0]),
    ]

    outputs = outputs_of(await client.post(INFER, json={"inputs": inputs}))
    one = outputs_of(await client.post(INFER, json={"inputs": inputs[:1]}))
    raw = outputs_of(await client.post(INFER, content=b"", headers={"inference-header-content-length": "0"}))

    assert {"scores": [], "ranking": [], "cluster": [], "doc_ids": []} == outputs
    assert {"scores": [], "ranking": [], "cluster": [-1]} == one == raw


async def test_outputs_come_as_asked_for(client: httpx.AsyncClient) -> None:
    members = {
        "inputs": [features([ROW, ROW]), tensor("doc_ids", ["ä", "b"], "BYTES")],
        "parameters": {"binary_data_output": True, "priority": 0, "whatever": "x"},
        "outputs": [
            {"name": "doc_ids"},
            {"name": "ranking", "parameters": {"binary_data": False}},
            {"name": "cluster", "parameters": {"binary_data": True}},
        ],
    }

    response = await client.post(INFER, json=members)

    head = json.loads(response.content[: int(response.headers["inference-header-content-length"])])
    assert ["doc_ids", "ranking", "cluster"] == [output["name"] for output in head["outputs"]]
    assert ["parameters", "data", "parameters"] == [list(output)[-1] for output in head["outputs"]]
    assert "application/octet-stream" == response.headers["content-type"]
    assert {"doc_ids": ["ä", "b"], "ranking": [0, 1]} == {
        name: data for name, data in outputs_of(response).items() if name != "cluster"
    }


async def test_null_and_nan_are_missing_values(client: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    matrix = np.array([[1, np.nan, 3, 4], [5, 6, np.nan, 8]], np.float32)
    rows = [[None if np.isnan(value) else value for value in row] for row in matrix.tolist()]
    content, headers = binary({}, ("features", [2, 4], "FP32", matrix.tobytes()))
    expected = tiny_ranker.rank(matrix).scores.tolist()

    answers = [
        await client.post(INFER, json={"inputs": [features(rows, shape=[2, 4])]}),
        await client.post(INFER, json={"inputs": [features(rows[0] + rows[1], shape=[2, 4])]}),
        await client.post(INFER, content=content, headers=headers),
    ]

    assert [expected] * 3 == [outputs_of(answer)["scores"] for answer in answers]


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [("gzip", True), ("deflate", True), ("gzip, deflate", False), ("identity", False), ("br", False)],
)
async def test_an_answer_is_compressed_where_that_alone_is_asked_for(
    accepted: str, compressed: int, client: httpx.AsyncClient
) -> None:
    response = await client.post(
        INFER, json={"inputs": [features([ROW])]}, headers={"accept-encoding": accepted}
    )

    assert compressed == (accepted == response.headers.get("content-encoding"))
    assert [10.0] == outputs_of(response)["scores"]


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_requests_may_be_compressed(encoding: str, compress: Any, client: httpx.AsyncClient) -> None:
    content, headers = binary({}, ("features", [1, 4], "FP32", np.array([ROW], "<f4").tobytes()))

    response = await client.post(
        INFER, content=compress(content), headers=headers | {"content-encoding": encoding}
    )

    assert [10.0] == outputs_of(response)["scores"]


async def test_models_are_addressed_by_path(connect: Any, make_ranker: Any) -> None:
    models = [
        LiveModel("a", 2, make_ranker()),
        LiveModel("a", 1, make_ranker()),
        LiveModel("b", 7, make_ranker()),
    ]
    body = {"inputs": [features([ROW])]}

    async with connect(models=models) as client:
        paths = ("a", "a@champion", "a%40champion", "a@1", "a/versions/1", "a/versions/champion", "b")
        versions = {
            path: (await client.post(f"/v2/models/{path}/infer", json=body)).json()["model_version"]
            for path in paths
        }
        metadata = (await client.get("/v2/models/a/versions/1")).json()
        ready = await client.get("/v2/models/a/versions/2/ready")
        unknown = await client.get("/v2/models/a/versions/3/ready")

    assert dict(zip(paths, ("2", "2", "2", "1", "1", "2", "7"), strict=True)) == versions
    assert ("a", ["1", "2"]) == (metadata["name"], metadata["versions"])
    assert {"name": "a", "ready": True} == ready.json()
    assert 404 == unknown.status_code


WRONG: dict[str, tuple[Any, int, str | None, str]] = {
    # case: (members, status, pointer, what the sentence says)
    "a list": ([], 422, "", "an object"),
    "no inputs": ({}, 422, "/inputs", "a list of tensors"),
    "inputs an object": ({"inputs": {}}, 422, "/inputs", "a list of tensors"),
    "no input": ({"inputs": []}, 422, "/inputs", "expected the input 'features', found none"),
    "an input null": ({"inputs": [None]}, 422, "/inputs/0", "an object, found null"),
    "an input a list": ({"inputs": [[]]}, 422, "/inputs/0", "an object"),
    "an unknown input": ({"inputs": [tensor("x", [1], "FP32")]}, 422, "/inputs/0/name", "one of features"),
    "a name null": ({"inputs": [tensor(None, [1], "FP32")]}, 422, "/inputs/0/name", "found null"),  # type: ignore[arg-type]
    "an input twice": (
        {"inputs": [features([ROW]), features([ROW])]},
        422,
        "/inputs/1/name",
        "'features' stands twice",
    ),
    "only ids": (
        {"inputs": [tensor("doc_ids", ["a"], "BYTES")]},
        422,
        "/inputs",
        "expected the input 'features', found none",
    ),
    "integers": (
        {"inputs": [features([ROW], "INT32")]},
        422,
        "/inputs/0/datatype",
        "one of FP16, FP32, FP64",
    ),
    "halves in JSON": (
        {"inputs": [features([ROW], "FP16")]},
        422,
        "/inputs/0/datatype",
        "JSON cannot hold FP16",
    ),
    "no shape": (
        {"inputs": [{"name": "features", "datatype": "FP32", "data": ROW}]},
        422,
        "/inputs/0/shape",
        "null",
    ),
    "an empty shape": ({"inputs": [features(ROW) | {"shape": []}]}, 422, "/inputs/0/shape", "extents"),
    "a negative shape": ({"inputs": [features(ROW, shape=[-1, 4])]}, 422, "/inputs/0/shape", "extents"),
    "a shape of floats": (
        {"inputs": [features(ROW) | {"shape": [1.0, 4]}]},
        422,
        "/inputs/0/shape",
        "extents",
    ),
    "one dimension": ({"inputs": [features(ROW, shape=[4])]}, 422, "/inputs/0/shape", "shape [4]; expected"),
    "too few features": (
        {"inputs": [features([ROW[:3]])]},
        422,
        "/inputs/0/shape/1",
        "3 features per document",
    ),
    "no data": (
        {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 4]}]},
        422,
        "/inputs/0",
        "either data or binary_data_size",
    ),
    "data and bytes": (
        {"inputs": [features([ROW]) | {"parameters": {"binary_data_size": 16}}]},
        422,
        "/inputs/0",
        "either data or binary_data_size",
    ),
    "bytes that are not there": (
        {
            "inputs": [
                {
                    "name": "features",
                    "datatype": "FP32",
                    "shape": [1, 4],
                    "parameters": {"binary_data_size": 16},
                }
            ]
        },
        400,
        "",
        "the body has",
    ),
    "a size that is a text": (
        {
            "inputs": [
                {
                    "name": "features",
                    "datatype": "FP32",
                    "shape": [1, 4],
                    "parameters": {"binary_data_size": "16"},
                }
            ]
        },
        422,
        "/inputs/0/parameters/binary_data_size",
        "an integer",
    ),
    "data an object": ({"inputs": [features({}, shape=[1, 4])]}, 422, "/inputs/0/data", "a list of numbers"),
    "data null": ({"inputs": [features(None, shape=[1, 4])]}, 422, "/inputs/0/data", "found null"),
    "rows in another shape": (
        {"inputs": [features([[1, 2], [3, 4]], shape=[1, 4])]},
        422,
        "/inputs/0/data",
        "2 rows; expected 1",
    ),
    "rows in another shape, slowly": (
        {"inputs": [features([[1, None], [3, 4]], shape=[1, 4])]},
        422,
        "/inputs/0/data",
        "2 rows; expected 1",
    ),
    "rows of another length": (
        {"inputs": [features([[1, 2, 3], [1, 2, 3]], shape=[2, 4])]},
        422,
        "/inputs/0/data/0",
        "features: data[0] has 3 values; expected 4",
    ),
    "ragged": (
        {"inputs": [features([[1, 2, 3], [1, 2, 3, 4, 5]], shape=[2, 4])]},
        422,
        "/inputs/0/data/0",
        "3 values; expected 4",
    ),
    "flat too long": (
        {"inputs": [features([*ROW, 5], shape=[1, 4])]},
        422,
        "/inputs/0/data",
        "5 numbers; shape [1, 4] needs 4",
    ),
    "flat too long, slowly": (
        {"inputs": [features([*ROW, None], shape=[1, 4])]},
        422,
        "/inputs/0/data",
        "5 numbers; shape [1, 4] needs 4",
    ),
    "a text in a row": (
        {"inputs": [features([[1, 2, "3", 4]], shape=[1, 4])]},
        422,
        "/inputs/0/data/0/2",
        '"3"',
    ),
    "true in a flat list": (
        {"inputs": [features([1, 2, True, 4], shape=[1, 4])]},
        422,
        "/inputs/0/data/2",
        "true",
    ),
    "beyond float32": (
        {"inputs": [features([ROW, [1, 2, 1e39, 4]])]},
        422,
        "/inputs/0/data/1/2",
        "beyond float32",
    ),
    "beyond float32, flat": (
        {"inputs": [features([*ROW, 1, 2, 1e39, 4], shape=[2, 4])]},
        422,
        "/inputs/0/data/6",
        "beyond float32",
    ),
    "missing where it may not be": (
        {"inputs": [features([ROW, [None, 2, 3, 4]], shape=[2, 4])]},
        422,
        "/inputs/0/data/1/0",
        "'bm25' of document 1",
    ),
    "ids too few": (
        {"inputs": [features([ROW, ROW]), tensor("doc_ids", ["a"], "BYTES")]},
        422,
        "/inputs/1/shape",
        "expected [2]",
    ),
    "ids of another number": (
        {"inputs": [features([ROW]), tensor("doc_ids", ["a", "b"], "BYTES", [1])]},
        422,
        "/inputs/1/data",
        "2 values; expected 1",
    ),
    "ids of another type": (
        {"inputs": [features([ROW]), tensor("doc_ids", [1], "BYTES")]},
        422,
        "/inputs/1/data/0",
        "a text, found 1",
    ),
    "ids beyond 64 bits": (
        {"inputs": [features([ROW]), tensor("doc_ids", [2**63], "INT64", [1])]},
        422,
        "/inputs/1/data/0",
        "64 bits",
    ),
    "groups that do not sum up": (
        {"inputs": [features([ROW, ROW]), tensor("group", [1, 2], "INT32")]},
        422,
        "/inputs/1",
        "sums up to 3; expected",
    ),
    "a negative group": (
        {"inputs": [features([ROW]), tensor("group", [2, -1], "INT32")]},
        422,
        "/inputs/1",
        "0 or more",
    ),
    "groups of floats": (
        {"inputs": [features([ROW]), tensor("group", [1.0], "INT32")]},
        422,
        "/inputs/1/data/0",
        "an integer",
    ),
    "groups in two dimensions": (
        {"inputs": [features([ROW]), tensor("group", [1], "INT32", [1, 1])]},
        422,
        "/inputs/1/shape",
        "expected [queries]",
    ),
    "an unknown output": (
        {"inputs": [features([ROW])], "outputs": [{"name": "x"}]},
        422,
        "/outputs/0/name",
        "scores",
    ),
    "an output null": ({"inputs": [features([ROW])], "outputs": [None]}, 422, "/outputs/0", "an object"),
    "outputs an object": ({"inputs": [features([ROW])], "outputs": {}}, 422, "/outputs", "a list"),
    "ids out, but none in": (
        {"inputs": [features([ROW])], "outputs": [{"name": "doc_ids"}]},
        422,
        "/outputs",
        "needs the input doc_ids",
    ),
    "classes": (
        {"inputs": [features([ROW])], "outputs": [{"name": "scores", "parameters": {"classification": 3}}]},
        422,
        "/outputs/0/parameters/classification",
        "no classes",
    ),
    "binary_data a number": (
        {"inputs": [features([ROW])], "outputs": [{"name": "scores", "parameters": {"binary_data": 1}}]},
        422,
        "/outputs/0/parameters/binary_data",
        "true or false",
    ),
    "an id a number": ({"id": 42, "inputs": [features([ROW])]}, 422, "/id", "a text"),
    "parameters a list": ({"parameters": [], "inputs": [features([ROW])]}, 422, "/parameters", "an object"),
    "top_n zero": (
        {"parameters": {"top_n": 0}, "inputs": [features([ROW])]},
        422,
        "/parameters/top_n",
        "at least 1",
    ),
    "top_n true": (
        {"parameters": {"top_n": True}, "inputs": [features([ROW])]},
        422,
        "/parameters/top_n",
        "true",
    ),
    "another contract": (
        {"parameters": {"contract": "sha256:0"}, "inputs": [features([ROW])]},
        409,
        "/parameters/contract",
        "the model's is",
    ),
    "no time": (
        {
            "parameters": {"timeout": 1, "allow_degraded": False},
            "inputs": [features([ROW] * 3), tensor("group", [1, 1, 1], "INT32")],
        },
        504,
        "/parameters/timeout",
        "the timeout of 0.001 ms",
    ),
    "a priority": (
        {"parameters": {"priority": 3}, "inputs": [features([ROW])]},
        422,
        "/parameters/priority",
        "expected 0, as requests are answered in the order in which they come",
    ),
    "too many documents": (
        {"inputs": [features([ROW] * 6)]},
        413,
        "/inputs/0/shape/0",
        "6 documents; this server takes 5",
    ),
    "too many tensors": (
        {"inputs": [features([ROW]), tensor("group", [1], "INT32"), *[tensor("other", [1], "INT32")] * 63]},
        422,
        "/inputs",
        "65 tensors; expected at most 64",
    ),
    "a shape of truth values": (
        {"inputs": [features(ROW) | {"shape": [True, 4]}]},
        422,
        "/inputs/0/shape",
        "extents",
    ),
    "three dimensions": (
        {"inputs": [features(ROW, shape=[1, 1, 4])]},
        422,
        "/inputs/0/shape",
        "shape [1, 1, 4]; expected",
    ),
    "a size below zero": (
        {
            "inputs": [
                {
                    "name": "features",
                    "datatype": "FP32",
                    "shape": [1, 4],
                    "parameters": {"binary_data_size": -1},
                }
            ]
        },
        422,
        "/inputs/0/parameters/binary_data_size",
        "an integer of at least 0, found -1",
    ),
    "ids below 64 bits": (
        {"inputs": [features([ROW]), tensor("doc_ids", [-(2**63) - 1], "INT64", [1])]},
        422,
        "/inputs/1/data/0",
        "64 bits",
    ),
    "ids that are truth values": (
        {"inputs": [features([ROW]), tensor("doc_ids", [True], "INT64")]},
        422,
        "/inputs/1/data/0",
        "an integer of 64 bits",
    ),
    "groups of another number": (
        {"inputs": [features([ROW]), tensor("group", [1], "INT32", [2])]},
        422,
        "/inputs/1/data",
        "data holds 1 values; expected 2",
    ),
    "ids of floats": (
        {"inputs": [features([ROW]), tensor("doc_ids", ["a"], "FP32")]},
        422,
        "/inputs/1/datatype",
        "doc_ids: datatype: expected one of BYTES, INT64",
    ),
    "too many queries": (
        {"inputs": [features([], shape=[0, 4]), tensor("group", [0] * 6, "INT32")]},
        413,
        "/inputs/1/shape/0",
        "takes 5",
    ),
}


async def test_as_many_queries_and_documents_as_allowed_are_taken(
    connect: Any, tiny_model: LiveModel
) -> None:
    queries = {"inputs": [features([], shape=[0, 4]), tensor("group", [0] * 5, "INT32")]}
    documents = {"inputs": [features([ROW] * 5)]}

    async with connect(Settings(max_documents=5), models=[tiny_model]) as client:
        for members in (queries, documents):
            assert 200 == (await client.post(INFER, content=json.dumps(members))).status_code


@pytest.mark.parametrize("case", WRONG)
async def test_what_is_wrong_is_said_with_its_place(case: str, connect: Any, tiny_model: LiveModel) -> None:
    members, status, at, said = WRONG[case]

    async with connect(Settings(max_documents=5), models=[tiny_model]) as client:
        response = await client.post(INFER, content=json.dumps(members))

    assert (status, at) == (response.status_code, response.json()["pointer"]), response.text
    assert said in response.json()["error"]


MALFORMED: dict[str, tuple[bytes, str | None]] = {
    "nothing": (b"", None),
    "nesting without end": (b'{"x": ' + b"[" * 5000, None),
    "nesting that a parser takes": (b'{"x": ' + b"[" * 1000 + b"]" * 1000 + b', "inputs": []}', None),
    "not JSON": (b"{", None),
    "a member twice": (b'{"inputs": [], "inputs": []}', None),
    "a tensor's member twice": (b'{"inputs": [{"name": "features", "name": "group"}]}', None),
    "a length that is no number": (b"{}", "two"),
    "a negative length": (b"{}", "-2"),
    "a length beyond the body": (b"{}", "3"),
    "a length that cuts the JSON": (b'{"inputs": []}', "5"),
    "raw, of another length": (b"12345", "0"),
    "more than was announced": (
        b'{"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}!!!',
        "93",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
async def test_malformed_bodies_are_400(case: str, client: httpx.AsyncClient) -> None:
    content, length = MALFORMED[case]
    headers = {} if length is None else {"inference-header-content-length": length}

    response = await client.post(INFER, content=content, headers=headers)

    assert 400 == response.status_code, response.text
    assert response.json()["error"]


@pytest.mark.parametrize(
    "tails",
    [
        [("features", [2, 4], "FP32", bytes(31))],
        [("features", [2, 4], "FP64", bytes(32))],
        [("features", [2**40, 4], "FP32", bytes(32))],
        [("features", [1, 4], "FP32", bytes(16)), ("doc_ids", [1], "BYTES", b"")],
        [("features", [1, 4], "FP32", bytes(16)), ("doc_ids", [1], "BYTES", b"\x05\0\0\0a")],
        [("features", [1, 4], "FP32", bytes(16)), ("doc_ids", [1], "BYTES", b"\0\0\0\0" * 2)],
        [("features", [1, 4], "FP32", bytes(16)), ("doc_ids", [1], "BYTES", b"\xff\xff\xff\xff")],
        [("doc_ids", [1], "INT64", bytes(7)), ("features", [1, 4], "FP32", bytes(16))],
        [("group", [1], "INT64", bytes(4)), ("features", [0, 4], "FP32", b"")],
    ],
)
async def test_binary_tensors_of_another_size_are_refused(tails: Any, client: httpx.AsyncClient) -> None:
    content, headers = binary({}, *tails)

    response = await client.post(INFER, content=content, headers=headers)

    assert response.status_code in {400, 413}, response.text


async def test_ids_that_are_no_texts_come_back_binary_only(client: httpx.AsyncClient) -> None:
    tails: Any = [("features", [1, 4], "FP32", bytes(16)), ("doc_ids", [1], "BYTES", b"\1\0\0\0\xff")]
    as_json, headers = binary({}, *tails)
    as_binary, more = binary({"parameters": {"binary_data_output": True}}, *tails)

    refused = await client.post(INFER, content=as_json, headers=headers)
    answered = await client.post(INFER, content=as_binary, headers=more)

    assert (422, "/outputs") == (refused.status_code, refused.json()["pointer"])
    assert answered.content.endswith(b"\1\0\0\0\xff")


async def test_health_has_both_keys(client: httpx.AsyncClient) -> None:
    live, ready = [(await client.get(f"/v2/health/{path}")) for path in ("live", "ready")]

    assert {"live": True, "ready": True} == live.json() == ready.json()


async def test_a_service_that_is_not_ready_says_so_in_both_keys(connect: Any, tmp_path: Any) -> None:
    async with connect(Settings(models_dir=tmp_path)) as client:
        live, ready = [(await client.get(f"/v2/health/{path}")) for path in ("live", "ready")]

    assert (200, {"live": True, "ready": False}) == (live.status_code, live.json())
    assert (503, True, False) == (ready.status_code, ready.json()["live"], ready.json()["ready"])
    assert ready.json()["error"]


async def test_statistics_count_every_wire(client: httpx.AsyncClient) -> None:
    before = (await client.get("/v2/models/tiny/stats")).json()["model_stats"][0]
    for _ in range(2):
        await client.post(INFER, json={"inputs": [features([ROW])]})
    await client.post("/v1/rerank", json={"features": [ROW]})
    await client.post(INFER, json={"inputs": [features([[1]])]})

    every = (await client.get("/v2/models/stats")).json()["model_stats"]
    [after] = (await client.get("/v2/models/tiny/versions/3/stats")).json()["model_stats"]

    assert [after] == every
    assert ("tiny", "3", 0, 3) == (
        after["name"],
        after["version"],
        before["inference_count"],
        after["inference_count"],
    )
    stats = after["inference_stats"]
    assert (3, 1) == (stats["success"]["count"], stats["fail"]["count"])
    parts = sum(stats[f"compute_{part}"]["ns"] for part in ("input", "infer", "output"))
    assert 0 < parts <= stats["success"]["ns"] + 10
    assert stats["fail"]["ns"] > 0
    assert after["last_inference"] > before["last_inference"] == 0


async def test_statistics_begin_at_nothing_and_stand_by_name_and_version(
    connect: Any, make_ranker: Any
) -> None:
    models = [LiveModel(name, version, make_ranker()) for name, version in (("b", 1), ("a", 2), ("a", 1))]
    async with connect(models=models) as client:
        answer = (await client.get("/v2/models/stats")).json()["model_stats"]

    assert [("a", "1"), ("a", "2"), ("b", "1")] == [(one["name"], one["version"]) for one in answer]
    nothing = {"count": 0, "ns": 0}
    parts = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
    assert {
        "name": "a",
        "version": "1",
        "last_inference": 0,
        "inference_count": 0,
        "execution_count": 0,
        "inference_stats": dict.fromkeys((*parts, "cache_hit", "cache_miss"), nothing),
        "batch_stats": [],
    } == answer[0]


async def test_statistics_are_those_of_the_meters(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = client._transport.app.state.service  # type: ignore[attr-defined]
    figures = {
        "ok": 5.0,
        "degraded": 2.0,
        "invalid": 3.0,
        "error": 1.0,
        "last": 1234.5678,
        "success": 0.5,
        "fail": 0.25,
        "queue": 0.125,
        "input": 1e-9,
        "compute": 2e-6,
        "output": 0.0,
    }
    monkeypatch.setattr(type(service.meters), "statistics", lambda _: {("tiny", "3"): figures})

    [found] = (await client.get("/v2/models/tiny/stats")).json()["model_stats"]

    assert (1234568, 7, 7) == (found["last_inference"], found["inference_count"], found["execution_count"])
    assert {
        "success": {"count": 7, "ns": 500_000_000},
        "fail": {"count": 4, "ns": 250_000_000},
        "queue": {"count": 7, "ns": 125_000_000},
        "compute_input": {"count": 7, "ns": 1},
        "compute_infer": {"count": 7, "ns": 2000},
        "compute_output": {"count": 7, "ns": 0},
        "cache_hit": {"count": 0, "ns": 0},
        "cache_miss": {"count": 0, "ns": 0},
    } == found["inference_stats"]


async def test_times_of_several_queries_are_added_up(client: httpx.AsyncClient) -> None:
    """Each query is signed, routed, scored and ordered; the header has the sum of each."""
    body = {
        "inputs": [
            {"name": "features", "datatype": "FP32", "shape": [6, 4], "data": [ROW] * 6},
            {"name": "group", "datatype": "INT32", "shape": [3], "data": [2, 2, 2]},
        ]
    }

    answer = await client.post("/v2/models/tiny/infer", json=body)

    assert 200 == answer.status_code
    stages = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
    assert ["decode", "sign", "route", "score", "order", "encode", "total"] == list(stages)
    times = {stage: float(text) for stage, text in stages.items()}
    assert all(times[stage] > 0 for stage in ("decode", "score", "order", "total"))
    assert {"application/json"} == {answer.headers["content-type"]}
    assert "vary" not in answer.headers


async def test_nothing_is_added_to_times_that_were_not_spent(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "perf_counter", lambda: 5.0)
    tensors = [
        {"name": "features", "datatype": "FP32", "shape": [4, 4], "data": [ROW] * 4},
        {"name": "group", "datatype": "INT32", "shape": [2], "data": [2, 2]},
    ]

    found = await client.post("/v2/models/tiny/infer", json={"inputs": tensors})

    assert {"0"} == {part.partition(";dur=")[2] for part in found.headers["server-timing"].split(", ")}


ADMIN = {"x-api-key": "admin-key"}
AS_JSON = {"content-type": "application/json"}
SETTINGS: dict[str, Any] = {"admin_key": "admin-key", "poll_seconds": 0.01}


async def test_a_model_is_unloaded_and_loaded(connect: Any, models_dir: Any, loaded: Any) -> None:
    body = {"inputs": [features([ROW])]}
    async with connect(Settings(models_dir=models_dir, preload="demo@2", **SETTINGS)) as client:
        await loaded(client)

        async def status() -> tuple[int, int, int]:
            one = await client.post("/v2/models/demo/infer", json=body)
            two = await client.post("/v1/rerank", json={"model": "demo@2", "features": [ROW]})
            other = await client.post("/v2/models/web/infer", json=body)
            return one.status_code, two.status_code, other.status_code

        async def states() -> dict[tuple[str, str], str]:
            index = (await client.post("/v2/repository/index")).json()
            return {(one["name"], one["version"]): f"{one['state']} {one['reason']}" for one in index}

        assert (200, 200, 200) == await status()
        unloaded = await client.post("/v2/repository/models/demo/unload", headers=ADMIN, json={})
        assert (404, 404, 200) == await status()
        gone = await states()
        promoted = await client.post("/v1/models/demo/promote", json={"version": 2}, headers=ADMIN)
        nameless = await client.post("/v1/rerank", json={"features": [ROW]})
        reloaded = await client.post("/v2/repository/models/demo/load", headers=ADMIN, json={})
        back = await states()
        assert (200, 200, 200) == await status()

    assert (200, False) == (unloaded.status_code, unloaded.json()["loaded"])
    assert (200, True) == (reloaded.status_code, reloaded.json()["loaded"])
    assert ("UNAVAILABLE unloaded", "READY ") == (gone["demo", "1"], gone["web", "1"])
    assert ("READY ", "READY ") == (back["demo", "1"], back["web", "1"])
    assert (409, "model 'demo' is unloaded; load it first") == (
        promoted.status_code,
        promoted.json()["detail"],
    )
    # No other model takes its place unasked.
    assert 422 == nameless.status_code


async def test_with_every_model_unloaded_the_service_is_not_ready_and_says_why(
    connect: Any, models_dir: Any, loaded: Any
) -> None:
    async with connect(Settings(models_dir=models_dir, **SETTINGS)) as client:
        await loaded(client)
        for name in ("demo", "web"):
            await client.post(f"/v2/repository/models/{name}/unload", headers=ADMIN, json={})

        ready = await client.get("/readyz")

    assert (503, "model 'demo' is unloaded; model 'web' is unloaded") == (
        ready.status_code,
        ready.json()["detail"],
    )


async def test_loading_says_why_it_cannot(connect: Any, models_dir: Any, loaded: Any) -> None:
    (models_dir / "web" / "1" / "manifest.json").write_text("{}")
    async with connect(Settings(models_dir=models_dir, **SETTINGS)) as client:
        await loaded(client)
        broken = await client.post("/v2/repository/models/web/load", headers=ADMIN, json={})
        unknown = await client.post("/v2/repository/models/nope/load", headers=ADMIN, json={})
        outside = await client.post("/v2/repository/models/..%2fdemo/unload", headers=ADMIN, json={})
        missing = await client.post("/v2/repository/models/nope/unload", headers=ADMIN, json={})
        wrong = await client.post("/v2/repository/index", json={"ready": "x"})
        index = (await client.post("/v2/repository/index", json={"ready": True})).json()
        every = (await client.post("/v2/repository/index", json={"ready": False})).json()

    assert 503 == broken.status_code
    assert "model 'web' is broken: version 1" in broken.json()["error"]
    assert [404, 404, 404] == [one.status_code for one in (unknown, outside, missing)]
    said = (wrong.status_code, wrong.json()["detail"], wrong.json()["pointer"])
    assert (422, 'ready: expected true or false, found "x"', "/ready") == said
    assert [("demo", "1", "READY")] == [(one["name"], one["version"], one["state"]) for one in index]
    assert {"it is not loaded: no alias stands for it"} == {
        one["reason"] for one in every if (one["name"], one["version"]) == ("demo", "2")
    }
    [reason] = [one["reason"] for one in every if one["name"] == "web"]
    assert reason.startswith("version 1:")


@pytest.mark.parametrize("action", ["load", "unload"])
async def test_changing_what_is_served_needs_the_admin_key_and_no_models_from_outside(
    action: str, connect: Any, models_dir: Any, loaded: Any
) -> None:
    path = f"/v2/repository/models/demo/{action}"
    async with connect(Settings(models_dir=models_dir, **SETTINGS)) as client:
        await loaded(client)
        statuses = [
            (await client.post(path)).status_code,
            (await client.post(path, headers={"x-api-key": "another"})).status_code,
            (await client.post(path, headers=ADMIN | {"origin": "http://evil.example"})).status_code,
            (await client.post(path, headers=ADMIN | {"host": "evil.example"})).status_code,
            (await client.post(path, headers=ADMIN | {"content-type": "text/plain"})).status_code,
            (await client.post(path, headers=ADMIN)).status_code,
            (await client.post(path, headers=ADMIN | AS_JSON, content="{")).status_code,
            (await client.post(path, headers=ADMIN | AS_JSON, content="[]")).status_code,
        ]
        refused = [
            await client.post(path, headers=ADMIN, json={"parameters": {name: "{}"}})
            for name in ("config", "file:1/model.onnx")
        ]
        still = await client.get("/v2/models/demo/ready")

    assert [401, 403, 403, 403, 415, 415, 400, 422] == statuses
    assert [422, 422] == [one.status_code for one in refused]
    assert "/parameters/file:1~1model.onnx" == refused[1].json()["pointer"]
    assert 200 == still.status_code


async def test_models_that_were_given_cannot_be_unloaded(connect: Any, tiny_model: LiveModel) -> None:
    async with connect(Settings(admin_key="admin-key"), models=[tiny_model]) as client:
        response = await client.post("/v2/repository/models/tiny/unload", headers=ADMIN, json={})
        index = await client.post("/v2/repository/index")

    assert 503 == response.status_code
    assert [{"name": "tiny", "version": "3", "state": "READY", "reason": ""}] == index.json()


async def test_the_serving_key_guards_the_protocol_but_not_its_health(
    connect: Any, tiny_model: LiveModel
) -> None:
    async with connect(Settings(api_key="serving-key"), models=[tiny_model]) as client:
        statuses = {
            path: (await client.get(path)).status_code
            for path in ("/v2", "/v2/models/tiny", "/v2/health/ready")
        }

    assert {"/v2": 401, "/v2/models/tiny": 401, "/v2/health/ready": 200} == statuses


CONTRACT = three_kinds().contract
LIMITS = Limits(10, refuse_extra_features=False)


def outcome(body: bytes, length: str | None) -> Any:
    try:
        queries, ids = v2.read(body, length, LIMITS).queries(CONTRACT)
    except Problem as problem:
        return problem.status
    return [query.matrix.tobytes() for query in queries], ids


@settings(max_examples=500)
@given(data=st.data())
def test_a_damaged_call_is_answered_alike_by_both_parsers_and_never_a_failure(data: st.DataObject) -> None:
    ids = b"".join(struct.pack("<I", 1) + bytes([65 + i]) for i in range(2))
    body, headers = binary(
        {"id": "x", "inputs": [features([ROW, ROW])]},
        ("doc_ids", [2], "BYTES", ids),
        ("group", [1], "INT32", b"\2\0\0\0"),
    )
    length: str | None = headers["inference-header-content-length"]
    if data.draw(st.booleans()):
        inputs = [features([ROW, [1, None, 2, 3]], shape=[2, 4]), tensor("group", [1, 1], "INT32")]
        body, length = json.dumps({"inputs": inputs, "parameters": {"top_n": 1}}).encode(), None
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(0, 2))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        kind = data.draw(st.sampled_from(["flip", "drop", "repeat", "null", "bracket"]))
        if kind == "flip":
            damaged[position] = data.draw(st.integers(0, 255))
        elif kind == "drop":
            del damaged[position]
        elif kind == "repeat":
            damaged[position:position] = damaged[position : position + 20]
        else:
            damaged[position : position + 1] = {"null": b"null", "bracket": b"[]"}[kind]

    fast = outcome(bytes(damaged), length)

    assert not isinstance(fast, int) or fast in {400, 409, 413, 422}
    with without_library():
        assert outcome(bytes(damaged), length) == fast


@pytest.mark.parametrize(
    "inputs",
    [
        [{**features([]), "data": None}],
        [{**features([ROW]), "parameters": {"data": [1, 2]}}],
        [{**features([ROW]), "data": None, "parameters": {"data": [1, 2, 3, 4]}}],
    ],
)
def test_numbers_elsewhere_are_not_taken_for_a_tensor(
    inputs: list[Any],
) -> None:
    body = json.dumps({"inputs": inputs}).encode()
    fast = outcome(body, None)

    with without_library():
        assert outcome(body, None) == fast


def test_both_parsers_were_compared(arithmetic: str) -> None:
    data = v2.read(json.dumps({"inputs": [features([ROW])]}).encode(), None, LIMITS)._inputs["features"].data

    assert isinstance(data, np.ndarray if arithmetic == "compiled" else Text)


@pytest.mark.parametrize(("padding", "expected"), [(0, 0), (1, 32), (2, 32), (3, 32), (4, 0)])
async def test_only_numbers_at_an_odd_place_cost_what_copying_them_costs(padding: int, expected: int) -> None:
    values = np.zeros((2, 4), np.float32).tobytes()
    body, headers = binary({}, ("features", [2, 4], "FP32", values))
    length = int(headers["inference-header-content-length"])
    spaces = -length % 4 + padding
    body = body[:length] + b" " * spaces + body[length:]

    assert expected == v2.read(body, str(length + spaces), LIMITS).cost
