"""The client for code that waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self, Unpack

import httpx

from localrank.client.answers import all_reranked, reranked, served
from localrank.client.calls import KEPT_IDLE, Caller, Request, headers_of
from localrank.client.query import Query
from localrank.client.retrying import pause_after_failure, pause_after_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    import numpy.typing as npt

    from localrank.client.query import Options
    from localrank.client.values import Reranked, Served, ServiceError
    from localrank.frames import Indexed


class Client(Caller):
    """Asks a service. Close it, or use it in a ``with``. Several threads may share it.

    Args:
        base_url: of the service.
        api_key: if it wants one.
        model: for calls that name none; without it, the service's own.
        timeout: seconds that a call may take with all its retries.
        retries: of one call, at most.
        transport: instead of the network, for tests.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeout: float = 10.0,
        retries: int = 2,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(model, timeout, retries)
        self._http = httpx.Client(
            base_url=base_url,
            headers=headers_of(api_key),
            limits=httpx.Limits(keepalive_expiry=KEPT_IDLE),
            transport=transport,
        )

    def rerank(
        self,
        features: npt.ArrayLike | Indexed,
        ids: Indexed | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> Reranked:
        """Order one query's documents; the arguments are those of `Query`, and ``timeout`` in seconds."""
        query = Query(features, ids, **options)
        return reranked(self._send(self._one(query), timeout), query)

    def rerank_batch(
        self, queries: Sequence[Query], *, timeout: float | None = None
    ) -> list[Reranked | ServiceError]:
        """Order the documents of many queries; one that fails has its error in its place."""
        return all_reranked(self._send(self._many(queries), timeout), queries)

    def feedback(
        self,
        answer: Reranked | str,
        *,
        clicks: Iterable[int] = (),
        grades: Mapping[int, float] | None = None,
        query: int = 0,
        timeout: float | None = None,
    ) -> Mapping[str, Any]:
        """Say which documents of an answer users clicked, or how relevant they are.

        Args:
            answer: that they were shown from, or its request id.
            clicks: positions of the documents in the request, as ``order`` has them.
            grades: by position in the request.
            query: position of the query in a batch.
            timeout: in seconds.

        Returns:
            How many events were ``accepted`` and ``dropped``.
        """
        found: Mapping[str, Any] = self._send(self._feedback(answer, clicks, grades or {}, query), timeout)
        return found

    def evaluate(
        self,
        queries: Sequence[Query],
        labels: Sequence[npt.ArrayLike],
        *,
        metrics: Sequence[str] = ("ndcg@10", "map"),
        convention: str = "standard",
        per_query: bool = False,
        model: str | None = None,
        timeout: float | None = None,
    ) -> Mapping[str, Any]:
        """Return how well and how fast a model ranks judged queries: the answer of ``POST /v1/evaluate``."""
        request = self._evaluate(queries, labels, metrics, convention, model, per_query=per_query)
        found: Mapping[str, Any] = self._send(request, timeout)
        return found

    def models(self, *, timeout: float | None = None) -> list[Served]:
        """Return what is served."""
        return served(self._send(Request("/v1/models", method="GET"), timeout))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, request: Request, timeout: float | None) -> Any:
        patience = self._patience(timeout)
        while True:
            try:
                response = self._http.request(
                    request.method,
                    request.path,
                    params=request.params,
                    content=request.content,
                    headers={"content-type": request.kind},
                    timeout=patience.left(),
                )
            except httpx.TransportError as error:
                pause = pause_after_failure(error, patience)
            else:
                if response.status_code == 200:
                    return response.json()
                pause = pause_after_problem(response, patience)
            time.sleep(pause)
