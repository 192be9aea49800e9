"""The client for asynchronous code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack

import anyio
import httpx

from localrank.client.answers import all_reranked, reranked, served
from localrank.client.calls import KEPT_IDLE, Caller, Request, headers_of
from localrank.client.query import Query
from localrank.client.retrying import pause_after_failure, pause_after_problem
from localrank.client.values import ServiceUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    import numpy.typing as npt

    from localrank.client.query import Options
    from localrank.client.values import Reranked, Served, ServiceError
    from localrank.frames import Indexed


class AsyncClient(Caller):
    """`Client` for asynchronous code, with the same arguments."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeout: float = 10.0,
        retries: int = 2,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(model, timeout, retries)
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers=headers_of(api_key),
            limits=httpx.Limits(keepalive_expiry=KEPT_IDLE),
            transport=transport,
        )

    async def rerank(
        self,
        features: npt.ArrayLike | Indexed,
        ids: Indexed | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[Options],
    ) -> Reranked:
        """Order one query's documents; the arguments are those of `Query`, and ``timeout`` in seconds."""
        query = Query(features, ids, **options)
        return reranked(await self._send(self._one(query), timeout), query)

    async def rerank_batch(
        self,
        queries: Sequence[Query],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[Reranked | ServiceError]:
        """Order the documents of many queries; one that fails has its error in its place."""
        return all_reranked(await self._send(self._many(queries), timeout), queries)

    async def feedback(
        self,
        answer: Reranked | str,
        *,
        clicks: Iterable[int] = (),
        grades: Mapping[int, float] | None = None,
        query: int = 0,
        timeout: float | None = None,  # noqa: ASYNC109 - of the call with its retries
    ) -> Mapping[str, Any]:
        """Say which documents of an answer users clicked, or how relevant they are, as `Client.feedback` does."""
        found: Mapping[str, Any] = await self._send(
            self._feedback(answer, clicks, grades or {}, query), timeout
        )
        return found

    async def evaluate(
        self,
        queries: Sequence[Query],
        labels: Sequence[npt.ArrayLike],
        *,
        metrics: Sequence[str] = ("ndcg@10", "map"),
        convention: str = "standard",
        per_query: bool = False,
        model: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of the call with its retries
    ) -> Mapping[str, Any]:
        """Return how well and how fast a model ranks judged queries: the answer of ``POST /v1/evaluate``."""
        request = self._evaluate(queries, labels, metrics, convention, model, per_query=per_query)
        found: Mapping[str, Any] = await self._send(request, timeout)
        return found

    async def models(self, *, timeout: float | None = None) -> list[Served]:  # noqa: ASYNC109
        """Return what is served."""
        return served(await self._send(Request("/v1/models", method="GET"), timeout))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _send(self, request: Request, timeout: float | None) -> Any:  # noqa: ASYNC109
        patience = self._patience(timeout)
        while True:
            left = patience.left()
            try:
                with anyio.fail_after(left):
                    response = await self._http.request(
                        request.method,
                        request.path,
                        params=request.params,
                        content=request.content,
                        headers={"content-type": request.kind},
                        timeout=left,
                    )
            except TimeoutError:
                raise ServiceUnreachable(f"no answer within {patience.timeout:g} s") from None
            except httpx.TransportError as error:
                pause = pause_after_failure(error, patience)
            else:
                if response.status_code == 200:
                    return response.json()
                pause = pause_after_problem(response, patience)
            await anyio.sleep(pause)
