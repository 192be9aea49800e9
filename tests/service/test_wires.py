"""The same documents get the same order and the same bits on every wire."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import sys
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from localrank import artifact
from localrank.client import AsyncClient, Query, Reranked
from localrank.probe import choose
from localrank.scorers import BlendScorer, LinearScorer
from localrank_service.app import create_app
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_training.data.clouds import Clouds
from localrank_training.data.queries import QuerySet
from localrank_training.learners.boosting import LambdaMart
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig
from tests.service.conftest import queries_of_three_kinds, three_kinds

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

NAMES = ("bm25", "pagerank", "ctr:7d", "age")


class Answer(NamedTuple):
    """What every wire says of a query: positions best first, their scores, the cluster."""

    order: list[int]
    scores: list[float]
    cluster: int | None


JSON = {"content-type": "application/json"}
NPY = {"content-type": "application/x-npy"}


def cells(documents: Matrix) -> list[list[float | None]]:
    return [[None if np.isnan(value) else value for value in row] for row in documents.tolist()]


def of_results(answer: dict[str, Any], route: dict[str, Any] | None = None) -> Answer:
    results = answer["results"]
    return Answer(
        [result["index"] for result in results],
        [result["score"] for result in results],
        (route or answer["route"])["cluster"],
    )


async def native(client: httpx.AsyncClient, content: bytes, **headers: str) -> Answer:
    response = await client.post("/v1/rerank", content=content, headers=headers)
    assert 200 == response.status_code, response.text
    return of_results(response.json())


def as_json(form: Callable[[Matrix], dict[str, Any]]) -> Any:
    async def send(client: httpx.AsyncClient, documents: Matrix) -> Answer:
        return await native(client, json.dumps({"model": "tiny"} | form(documents)).encode(), **JSON)

    return send


def compressed(encoding: str, compress: Callable[[bytes], bytes]) -> Any:
    async def send(client: httpx.AsyncClient, documents: Matrix) -> Answer:
        body = json.dumps({"model": "tiny", "features": cells(documents)}).encode()
        return await native(client, compress(body), **JSON, **{"content-encoding": encoding})

    return send


def as_npy(dtype: str, order: Any = "C") -> Any:
    async def send(client: httpx.AsyncClient, documents: Matrix) -> Answer:
        buffer = io.BytesIO()
        np.save(buffer, documents.astype(dtype, order=order))
        return await native(client, buffer.getvalue(), **NPY)

    return send


async def in_batch(client: httpx.AsyncClient, documents: Matrix) -> Answer:
    queries = [{"features": [[0, 0, 0, 1]]}, {"features": cells(documents)}, {}]
    response = await client.post("/v1/rerank/batch", json={"queries": queries})
    answer: dict[str, Any] = response.json()["answers"][1]["answer"]
    return of_results(answer)


async def as_cohere(client: httpx.AsyncClient, documents: Matrix) -> Answer:
    body = {"model": "tiny", "query": "x", "documents": [{"features": row} for row in cells(documents)]}
    answer = (await client.post("/v2/rerank", json=body)).json()
    return of_results(answer, answer["meta"]["localrank"]["route"])


def of_outputs(outputs: dict[str, Any]) -> Answer:
    order = list(outputs["ranking"])
    [cluster] = outputs["cluster"]
    return Answer(order, [outputs["scores"][index] for index in order], None if cluster == -1 else cluster)


async def v2_json(client: httpx.AsyncClient, documents: Matrix) -> Answer:
    tensor = {
        "name": "features",
        "shape": list(documents.shape),
        "datatype": "FP32",
        "data": cells(documents),
    }
    response = await client.post("/v2/models/tiny/infer", json={"inputs": [tensor]})
    return of_outputs({output["name"]: output["data"] for output in response.json()["outputs"]})


def v2_binary(dtype: str, datatype: str) -> Any:
    async def send(client: httpx.AsyncClient, documents: Matrix) -> Answer:
        tail = documents.astype(dtype).tobytes()
        tensor = {
            "name": "features",
            "shape": list(documents.shape),
            "datatype": datatype,
            "parameters": {"binary_data_size": len(tail)},
        }
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        response = await client.post(
            "/v2/models/tiny/infer",
            content=head + tail,
            headers={"inference-header-content-length": str(len(head))},
        )
        assert 200 == response.status_code, response.text
        length = int(response.headers["inference-header-content-length"])
        rest, found = response.content[length:], {}
        for output in json.loads(response.content[:length])["outputs"]:
            size = output["parameters"]["binary_data_size"]
            kind = {"FP64": "<f8", "INT32": "<i4"}[output["datatype"]]
            found[output["name"]], rest = np.frombuffer(rest[:size], kind).tolist(), rest[size:]
        return of_outputs(found)

    return send


async def v2_raw(client: httpx.AsyncClient, documents: Matrix) -> Answer:
    response = await client.post(
        "/v2/models/tiny/infer",
        content=documents.tobytes(),
        headers={"inference-header-content-length": "0"},
    )
    return of_outputs({output["name"]: output["data"] for output in response.json()["outputs"]})


async def v2_group(client: httpx.AsyncClient, documents: Matrix) -> Answer:
    """As the second of two queries in one call."""
    both = np.concatenate([documents[:2], documents])
    first = len(documents[:2])
    inputs = [
        {"name": "features", "shape": list(both.shape), "datatype": "FP32", "data": cells(both)},
        {"name": "group", "shape": [2], "datatype": "INT32", "data": [first, len(documents)]},
    ]
    response = await client.post("/v2/models/tiny/infer", json={"inputs": inputs})
    outputs = {output["name"]: output["data"] for output in response.json()["outputs"]}
    return of_outputs(
        {
            "scores": outputs["scores"][first:],
            "ranking": [index - first for index in outputs["ranking"][first:]],
            "cluster": outputs["cluster"][1:],
        }
    )


def of_client(answer: Reranked) -> Answer:
    return Answer(answer.order.tolist(), answer.scores.tolist(), answer.route.cluster)


async def with_client(client: httpx.AsyncClient, documents: Matrix) -> Answer:
    async with AsyncClient("http://localhost", transport=client._transport) as one:
        return of_client(await one.rerank(documents))


async def with_client_in_batch(client: httpx.AsyncClient, documents: Matrix) -> Answer:
    async with AsyncClient("http://localhost", transport=client._transport) as one:
        [answer] = await one.rerank_batch([Query(documents)])
        assert isinstance(answer, Reranked)
        return of_client(answer)


async def cohere_texts(client: httpx.AsyncClient, documents: Matrix) -> Answer:
    body = {"model": "tiny", "documents": [json.dumps(row) for row in cells(documents)]}
    answer = (await client.post("/v2/rerank", json=body)).json()
    return of_results(answer, answer["meta"]["localrank"]["route"])


def lines(documents: Matrix) -> dict[str, Any]:
    return {
        "documents": [
            "\n".join(f"{name}: {value}" for name, value in zip(NAMES, row, strict=True))
            for row in cells(documents)
        ]
    }


def columns(documents: Matrix) -> dict[str, Any]:
    return {"columns": dict(zip(NAMES, cells(documents.T), strict=True))}


def rows(documents: Matrix) -> dict[str, Any]:
    return {"documents": [{"id": i, "features": row} for i, row in enumerate(cells(documents))]}


def named(documents: Matrix) -> dict[str, Any]:
    return {"documents": [{"features": dict(zip(NAMES, row, strict=True))} for row in cells(documents)]}


def reordered(documents: Matrix) -> dict[str, Any]:
    return {"features": cells(documents[:, ::-1]), "feature_names": NAMES[::-1]}


WIRES: dict[str, Any] = {
    "JSON columns": as_json(lambda documents: {"features": cells(documents)}),
    "JSON rows": as_json(rows),
    "JSON named": as_json(named),
    "JSON reordered": as_json(reordered),
    "JSON columns by name": as_json(columns),
    "JSON lines": as_json(lines),
    "gzip": compressed("gzip", gzip.compress),
    "deflate": compressed("deflate", zlib.compress),
    "zstd": compressed("zstd", zstd.compress),
    "npy": as_npy("<f4"),
    "npy big-endian": as_npy(">f4"),
    "npy double": as_npy("<f8"),
    "npy by columns": as_npy("<f4", "F"),
    "batch": in_batch,
    "Cohere": as_cohere,
    "Cohere texts": cohere_texts,
    "V2 JSON": v2_json,
    "V2 binary": v2_binary("<f4", "FP32"),
    "V2 binary double": v2_binary("<f8", "FP64"),
    "V2 raw": v2_raw,
    "V2 group": v2_group,
    "client": with_client,
    "client's batch": with_client_in_batch,
}


@pytest.fixture(scope="module")
def judged() -> QuerySet:
    queries = queries_of_three_kinds()
    documents = np.concatenate(queries)
    labels = np.digitize(documents @ np.array([1, -1, 0.5, 2], np.float32), [-8, 8]).astype(float)
    return QuerySet(
        documents=documents,
        labels=labels,
        offsets=np.arange(len(queries) + 1) * len(queries[0]),
        query_ids=tuple(map(str, range(len(queries)))),
        feature_names=NAMES,
        lines=np.arange(len(documents)),
    )


@pytest.fixture(scope="module")
def blend(judged: QuerySet) -> Ranker:
    """A line and trees, learned on blocks of their own and blended; the trees are the same for all three clusters."""
    plain = three_kinds()
    clouds = Clouds(judged, plain.contract)
    line_blocks, tree_blocks = "[minmax, zscore * 0.25, rank]", "[raw, zscore, rank]"
    line = RankSvm(C=1.0, blocks=line_blocks).fit(Lesson(clouds.seen_as(line_blocks)))
    learner = LambdaMart(num_iterations=20, members=1, min_data_in_leaf=2, blocks=tree_blocks)
    trees = learner.fit(Lesson(clouds.seen_as(tree_blocks)))
    locals_ = [LinearScorer(np.roll([4.0, 3.0, 2.0, 1.0], kind), "zscore") for kind in range(3)]
    return replace(
        plain,
        scorers=tuple(BlendScorer((line, trees, own), np.array([1.0, 0.5, 0.25])) for own in locals_),
        global_scorer=BlendScorer((line, trees), np.array([1.0, 0.5])),
    )


@pytest.fixture(scope="module")
def published(blend: Ranker, tmp_path_factory: pytest.TempPathFactory) -> Ranker:
    """The same, saved and loaded."""
    folder = tmp_path_factory.mktemp("models") / "blend" / "1"
    artifact.save(folder, blend, artifact.Provenance("", {}, choose(blend, queries_of_three_kinds(seed=1))))
    return artifact.load(folder).ranker


@pytest.fixture(scope="module")
def answers_of(make_ranker: Any) -> Iterator[Callable[[Matrix], dict[str, Answer]]]:
    yield from served(make_ranker())


@pytest.fixture(scope="module")
def blends_answers_of(published: Ranker) -> Iterator[Callable[[Matrix], dict[str, Answer]]]:
    yield from served(published)


def served(ranker: Ranker) -> Iterator[Callable[[Matrix], dict[str, Answer]]]:
    """Send documents over every wire of one application."""
    app = create_app(Settings(), models=[LiveModel("tiny", 3, ranker)])
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost")

    async def everywhere(documents: Matrix) -> dict[str, Answer]:
        return {name: await send(client, documents) for name, send in WIRES.items()}

    with asyncio.Runner() as runner:
        yield lambda documents: runner.run(everywhere(documents))
        runner.run(client.aclose())


values = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 0.1, 16777217.0, 3.4028235e38, -3.4028235e38, 1e-45]
)


@st.composite
def queries(draw: st.DrawFn) -> Any:
    documents = draw(arrays(np.float32, (draw(st.integers(0, 9)), 4), elements=values))
    holes = draw(arrays(np.bool_, documents.shape, elements=st.integers(0, 9).map(lambda one: one == 0)))
    holes[:, 0] = False  # the first feature may not be missing
    documents[holes] = np.nan
    return documents


@settings(max_examples=60)
@given(documents=queries())
def test_every_wire_gives_the_ranker_s_own_order_and_bits(
    documents: Any, answers_of: Callable[[Matrix], dict[str, Answer]], tiny_ranker: Ranker
) -> None:
    ranking = tiny_ranker.rank(documents)
    expected = Answer(ranking.order.tolist(), ranking.scores[ranking.order].tolist(), ranking.route.cluster)

    answers = answers_of(documents)

    bits = np.array(expected.scores).tobytes()
    for name, answer in answers.items():
        assert expected == answer, name
        assert bits == np.array(answer.scores).tobytes(), name


@settings(max_examples=30)
@given(documents=queries())
def test_a_blend_of_a_line_and_trees_is_served_with_the_bits_that_it_had_before_it_was_saved(
    documents: Any, blends_answers_of: Callable[[Matrix], dict[str, Answer]], blend: Ranker, published: Ranker
) -> None:
    ranking = blend.rank(documents)
    expected = Answer(ranking.order.tolist(), ranking.scores[ranking.order].tolist(), ranking.route.cluster)

    answers = blends_answers_of(documents)

    bits = np.array(expected.scores).tobytes()
    for name, answer in answers.items():
        assert expected == answer, name
        assert bits == np.array(answer.scores).tobytes(), name
    one, another = published.scorers[:2]
    assert one.members()[1] is another.members()[1] is published.global_scorer.members()[1]


@pytest.mark.parametrize(
    ("method", "similarity"),
    [
        ("mean", "euclidean"),
        ("variance", "euclidean"),
        ("skew", "euclidean"),
        ("top_documents", "euclidean"),
        ("top_scores_pca", "euclidean"),
        ("gaussian", "kl"),
        ("gaussian", "bhattacharyya"),
    ],
)
def test_every_representation_is_served_with_the_bits_that_it_had_before_it_was_saved(
    method: str, similarity: str, judged: QuerySet, tmp_path: Path
) -> None:
    config = TrainingConfig.from_tables(
        {
            "representation": {"method": method},
            "similarity": {"method": similarity},
            "clustering": {"clusters": 3},
            "routing": {"method": "exact"},
            "learner": {"C": 1.0},
        }
    )
    (learner,) = config.learner.candidates()
    built = build(judged, config, learner).ranker
    (tmp_path / "tiny").mkdir()
    probe = choose(built, queries_of_three_kinds(seed=1))
    artifact.save(tmp_path / "tiny" / "1", built, artifact.Provenance("", {}, probe))
    documents = queries_of_three_kinds(seed=2)[0]
    ranking = built.rank(documents)
    expected = Answer(ranking.order.tolist(), ranking.scores[ranking.order].tolist(), ranking.route.cluster)

    for answers in served(artifact.load(tmp_path / "tiny" / "1").ranker):
        found = answers(documents)

    assert len(WIRES) == len(found)
    for name, answer in found.items():
        assert expected == answer, name
        assert np.array(expected.scores).tobytes() == np.array(answer.scores).tobytes(), name
