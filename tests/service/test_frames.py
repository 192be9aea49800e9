"""Frames that the clients send: the service reads them by the names of their columns."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from localrank.client import AsyncClient, Client, Query, Reranked, ServiceError, Warned
from localrank_service.process.settings import Settings
from tests.service.conftest import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker
    from localrank_service.models.live import LiveModel
    from tests.service.conftest import Connect

pytestmark = pytest.mark.anyio

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "Arrow": pa.table,
}
every_frame = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)


class Bridge(httpx.BaseTransport):
    """Lets a client that waits, in a thread, ask an application of this loop."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = anyio.from_thread.run(self._send, request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        return await self._client.send(
            httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        )


class Doors:
    """Every method of both clients that takes documents."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        transport = client._transport
        self.asynchronous = AsyncClient("http://localhost", transport=transport)
        self.waiting = Client("http://localhost", transport=Bridge(client))

    async def rerank(self, features: Any, ids: Any = None) -> list[Reranked]:
        """Return what each door answers."""
        query, other, waiting = Query(features, ids), self.asynchronous, self.waiting
        [in_batch] = await other.rerank_batch([query])
        [in_batch_too] = await anyio.to_thread.run_sync(waiting.rerank_batch, [query])
        for answer in (in_batch, in_batch_too):
            if isinstance(answer, ServiceError):
                raise answer
        return [
            await other.rerank(features, ids),
            await anyio.to_thread.run_sync(lambda: waiting.rerank(features, ids)),
            in_batch,  # type: ignore[list-item]
            in_batch_too,  # type: ignore[list-item]
        ]

    async def evaluated(self, features: Any, labels: Any) -> list[Any]:
        query, other, waiting = Query(features), self.asynchronous, self.waiting
        answers = [
            await other.evaluate([query], [labels], metrics=["ndcg@10"]),
            await anyio.to_thread.run_sync(lambda: waiting.evaluate([query], [labels], metrics=["ndcg@10"])),
        ]
        return [answer["metrics"] for answer in answers]


def columns(documents: Matrix, names: Any = NAMES) -> dict[str, Any]:
    return {name: documents[:, NAMES.index(name)] for name in names}


@every_frame
async def test_no_order_of_the_columns_changes_an_answer(
    make: Callable[[dict[str, Any]], Any],
    client: httpx.AsyncClient,
    queries: list[Matrix],
    tiny_ranker: Ranker,
) -> None:
    doors, documents = Doors(client), queries[0]
    expected = tiny_ranker.rank(documents)
    labels = np.arange(20) % 3
    figures = await doors.evaluated(documents, labels)
    ids = pd.Series([f"d{i}" for i in range(20)], index=range(20)[::-1])

    for names in permutations(NAMES):
        frame = make(columns(documents, names))
        for answer in await doors.rerank(frame, ids):
            assert expected.order.tolist() == answer.order.tolist()
            assert expected.scores[expected.order].tolist() == answer.scores.tolist()
            assert tuple(f"d{i}" for i in expected.order) == answer.ids
            assert () == answer.warnings
        assert figures == await doors.evaluated(frame, labels)


@every_frame
async def test_more_columns_are_ignored_or_refused_as_the_service_is_set(
    make: Callable[[dict[str, Any]], Any],
    client: httpx.AsyncClient,
    connect: Connect,
    tiny_model: LiveModel,
    queries: list[Matrix],
) -> None:
    frame = make({"price": np.ones(20), **columns(queries[0])})

    for answer in await Doors(client).rerank(frame):
        assert tiny_model.ranker.rank(queries[0]).order.tolist() == answer.order.tolist()
        assert (Warned("feature_ignored", "price", 20),) == answer.warnings
    async with connect(Settings(extra_features="refuse"), models=[tiny_model]) as strict:
        with pytest.raises(ServiceError, match="409: the model does not know feature 'price'"):
            await Doors(strict).rerank(frame)


@every_frame
async def test_a_column_that_is_missing_or_called_otherwise_is_409(
    make: Callable[[dict[str, Any]], Any], client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    named = columns(queries[0])
    age = named.pop("age")

    with pytest.raises(ServiceError, match="409: feature 'age' is not among the names"):
        await Doors(client).rerank(make(named))
    with pytest.raises(ServiceError, match=r"409: feature 'age' is not among .* does not know 'Age'"):
        await Doors(client).rerank(make({**named, "Age": age}))


async def test_columns_that_pandas_has_numbered_are_taken_by_place(
    client: httpx.AsyncClient, queries: list[Matrix], tiny_ranker: Ranker
) -> None:
    for answer in await Doors(client).rerank(pd.DataFrame(queries[0])):
        assert tiny_ranker.rank(queries[0]).order.tolist() == answer.order.tolist()
    with pytest.raises(ServiceError, match=r"422: features\[0\] has 3 values; expected 4"):
        await Doors(client).rerank(pd.DataFrame(queries[0][:, :3]))


@every_frame
async def test_a_frame_without_documents_has_an_empty_answer(
    make: Callable[[dict[str, Any]], Any], client: httpx.AsyncClient, queries: list[Matrix]
) -> None:
    for answer in await Doors(client).rerank(make(columns(queries[0][:0])), []):
        assert (0, ()) == (len(answer.order), answer.ids)


async def test_documents_without_features_are_refused(client: httpx.AsyncClient) -> None:
    with pytest.raises(ServiceError, match="422: "):
        await Doors(client).asynchronous.rerank(np.zeros((3, 0)))
