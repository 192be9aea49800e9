"""Large requests are ranked aside, and nothing but that changes."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pytest

from localrank.scorers import BordaScorer, LinearScorer, TreesScorer
from localrank_service.apis import cohere
from localrank_service.apis.rerank import reader as rerank_json
from localrank_service.apis.v2 import reader as v2
from localrank_service.models.live import LiveModel
from localrank_service.ranking import reranking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    import httpx

    from localrank.arrays import Array, Indices, Layouts, Vector
    from localrank.features.blocks import Cloud
    from localrank.ranker import Ranker
    from localrank.scorers import Scorer

    Connect = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]

FEATURES = 4


@pytest.fixture
def ranker(tiny_ranker: Ranker) -> Ranker:
    return tiny_ranker


@pytest.fixture
def forest() -> TreesScorer:
    """Three trees that are constants."""
    nothing = np.zeros(0, np.int32)
    return TreesScorer(
        splits=np.zeros(3, np.int32),
        features=nothing,
        thresholds=np.zeros(0),
        decisions=np.zeros(0, np.uint8),
        left=nothing,
        right=nothing,
        values=np.zeros(3),
        category_words=nothing,
        category_bits=np.zeros(0, np.uint32),
    )


@dataclass(frozen=True, eq=False)
class Held:
    """Scores nothing before it is let go; knows the thread that it ran in."""

    begun: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    kind: ClassVar[str] = "held"
    layout: ClassVar[Layouts] = {}
    made_of: ClassVar[tuple[str, ...]] = ()

    def score(self, cloud: Cloud, /) -> Vector:
        self.threads.append(threading.current_thread())
        self.begun.set()
        assert self.released.wait(10)
        return np.zeros(len(cloud))

    def contributions(self, cloud: Cloud, which: Indices, /) -> Vector:
        return np.zeros((len(which), cloud.contract.n_features))

    def terms(self, _cloud: Cloud, /) -> Sequence[tuple[float, Scorer]]:
        return ()

    def settings(self) -> dict[str, Any]:
        return {}

    def arrays(self) -> dict[str, Array]:
        return {}

    def members(self) -> Sequence[Scorer]:
        return ()

    @classmethod
    def rebuild(cls, *_: Any) -> Self:
        raise AssertionError("this scorer is never stored")


def of(ranker: Ranker, scorer: Scorer) -> LiveModel:
    return LiveModel("tiny", 1, replace(ranker, scorers=(scorer,) * 3, global_scorer=scorer))


def body(count: int) -> dict[str, Any]:
    return {"features": np.random.default_rng(0).standard_normal((count, FEATURES)).round(3).tolist()}


async def test_health_checks_and_small_requests_are_answered_while_a_large_one_is_ranked(
    connect: Connect, ranker: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranking, "LARGE", 100 * FEATURES)
    held = Held()
    other = LiveModel("other", 1, ranker)
    async with connect(models=[of(ranker, held), other]) as client:
        large = asyncio.create_task(client.post("/v1/rerank", json={"model": "tiny", **body(100)}))
        assert await asyncio.to_thread(held.begun.wait, 10)
        try:
            health = await client.get("/livez")
            small = await client.post("/v1/rerank", json={"model": "other", **body(5)})
            waited = not large.done()
        finally:
            held.released.set()
        answer = await large

    assert (200, 200, True) == (health.status_code, small.status_code, waited)
    assert list(range(100)) == [result["index"] for result in answer.json()["results"]]


@pytest.mark.parametrize(("count", "aside"), [(99, False), (100, True)])
async def test_only_what_is_large_leaves_the_event_loop(
    connect: Connect, ranker: Ranker, monkeypatch: pytest.MonkeyPatch, count: int, *, aside: bool
) -> None:
    monkeypatch.setattr(reranking, "LARGE", 100 * FEATURES)
    held = Held()
    held.released.set()
    async with connect(models=[of(ranker, held)]) as client:
        await client.post("/v1/rerank", json=body(count))

    assert [aside] == [thread is not threading.current_thread() for thread in held.threads]


async def test_a_large_request_has_the_same_answer_and_stages(
    connect: Connect, ranker: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(models=[LiveModel("tiny", 1, ranker)]) as client:
        inline = (await client.post("/v1/rerank", json=body(60))).json()
        monkeypatch.setattr(reranking, "LARGE", 1)
        aside = (await client.post("/v1/rerank", json=body(60))).json()

    assert [*inline["timings_ms"]] == [*aside["timings_ms"]]
    for member in ("results", "route"):
        assert inline[member] == aside[member]


@pytest.mark.parametrize(
    ("path", "wire", "as_body"),
    [
        ("/v1/rerank", rerank_json.JsonQuery, lambda rows: {"features": rows}),
        ("/v2/rerank", cohere.CohereQuery, lambda rows: {"documents": [{"features": row} for row in rows]}),
        (
            "/v2/models/tiny/infer",
            v2,
            lambda rows: {
                "inputs": [
                    {"name": "features", "datatype": "FP32", "shape": [len(rows), FEATURES], "data": rows}
                ]
            },
        ),
    ],
)
async def test_a_large_body_is_read_aside_and_answered_alike(
    *,
    connect: Connect,
    ranker: Ranker,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    wire: Any,
    as_body: Callable[[Any], Any],
) -> None:
    threads: list[threading.Thread] = []
    read = wire.read

    def seen(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return read(*given)

    monkeypatch.setattr(wire, "read", seen)
    content = json.dumps(as_body(body(60)["features"])).encode()
    headers = {"content-type": "application/json"}
    answers = []
    async with connect(models=[LiveModel("tiny", 1, ranker)]) as client:
        for least in (len(content) + 1, len(content)):
            monkeypatch.setattr(reranking, "LARGE_BODY", least)
            answers.append((await client.post(path, content=content, headers=headers)).json())

    assert [False, True] == [thread is not threading.current_thread() for thread in threads]
    for member in {"results", "outputs"} & answers[0].keys():
        assert answers[0][member] == answers[1][member]
    assert {"results", "outputs"} & answers[0].keys()


async def test_what_is_wrong_with_a_large_body_is_said_as_ever(
    connect: Connect, ranker: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranking, "LARGE_BODY", 1)
    async with connect(models=[LiveModel("tiny", 1, ranker)]) as client:
        wrong = await client.post("/v1/rerank", json={"features": [[1, 2, 3, "4"]]})
        good = await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]]})

    assert (422, "/features/0/3", 200) == (wrong.status_code, wrong.json()["pointer"], good.status_code)


async def test_what_is_wrong_with_a_large_request_is_said_as_ever(
    connect: Connect, ranker: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranking, "LARGE", 1)
    wrong = body(3)
    wrong["features"][1][0] = None
    async with connect(models=[LiveModel("tiny", 1, ranker)]) as client:
        answer = await client.post("/v1/rerank", json=wrong)

    assert (422, "/features/1/0") == (answer.status_code, answer.json()["pointer"])


def test_work_is_the_features_or_four_for_each_tree(ranker: Ranker, forest: Scorer) -> None:
    linear = LinearScorer(np.ones(FEATURES))
    other = copy.copy(forest)
    both = BordaScorer((forest, other, other, linear), np.ones(4))

    assert FEATURES == of(ranker, linear).work
    assert 4 * 3 == of(ranker, forest).work
    assert 4 * (3 + 3) == of(ranker, both).work


@pytest.mark.parametrize(("missing", "aside"), [(1, False), (0, True)])
async def test_bodies_of_the_documented_size_are_read_aside(
    connect: Connect, ranker: Ranker, monkeypatch: pytest.MonkeyPatch, *, missing: int, aside: bool
) -> None:
    page = " ".join((ROOT / "docs" / "operate" / "operations.md").read_text().split())
    documented = re.search(r"Bodies of (\d+) MiB or more are read in a", page)
    assert documented is not None
    threads: list[threading.Thread] = []
    read = rerank_json.JsonQuery.read

    def seen(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return read(*given)

    monkeypatch.setattr(rerank_json.JsonQuery, "read", seen)
    content = json.dumps(body(3)).encode().ljust(int(documented[1]) * 2**20 - missing)
    async with connect(models=[LiveModel("tiny", 1, ranker)]) as client:
        answer = await client.post(
            "/v1/rerank", content=content, headers={"content-type": "application/json"}
        )

    assert 200 == answer.status_code
    assert [aside] == [thread is not threading.current_thread() for thread in threads]
