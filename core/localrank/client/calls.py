"""Both clients, for code that waits and for asynchronous code: the requests that they send, and how long they try.

A request is sent again if it cannot have reached the service, or if the service asked for it with Retry-After. Retries
stay a small share of the calls.
"""

from __future__ import annotations

import io
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, Unpack
from uuid import uuid4

import anyio
import httpx
import numpy as np

from localrank.client.query import (
    Query,
    ServiceError,
    ServiceUnreachable,
    Unavailable,
    all_reranked,
    problem_in,
    reranked,
    served,
)
from localrank.frames import as_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    import numpy.typing as npt

    from localrank.client.query import Options, Reranked, Served
    from localrank.frames import Indexed

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_TOLD_TO_WAIT = (429, 503)


class Budget:
    """Allows ten retries at first, and then one for every ten calls."""

    def __init__(self) -> None:
        self._tokens = 10.0
        self._lock = threading.Lock()

    def earn(self) -> None:
        with self._lock:
            self._tokens = min(10.0, self._tokens + 0.1)

    def spend(self) -> bool:
        with self._lock:
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True


@dataclass(slots=True)
class Patience:
    """What is left of one call: time and tries."""

    deadline: float
    timeout: float
    retries: int
    budget: Budget
    pause: float = _FIRST_PAUSE

    def left(self) -> float:
        """Return the seconds left, or raise."""
        if (left := self.deadline - time.monotonic()) <= 0:
            raise ServiceUnreachable(f"no answer within {self.timeout:g} s")
        return left

    def wait(self, asked: float | None) -> float | None:
        """Return how long to wait before the next try; ``None`` if there is no next try.

        The jitter keeps clients that failed together from coming back together.
        """
        if asked is None:
            pause, self.pause = random.uniform(0, self.pause), min(2 * self.pause, _LONGEST_PAUSE)
        else:
            pause = asked * random.uniform(1.0, 1.25)
        if not self.retries or time.monotonic() + pause >= self.deadline or not self.budget.spend():
            return None
        self.retries -= 1
        return pause


def pause_after_failure(error: httpx.TransportError, patience: Patience) -> float:
    """Return the pause before the next try, or raise. Only a request that was never sent is tried again."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        pause = patience.wait(None)
        if pause is not None:
            return pause
    if isinstance(error, httpx.TimeoutException):
        raise ServiceUnreachable(f"no answer within {patience.timeout:g} s") from error
    # Host and port only: a URL may hold a password.
    where = error.request.url.netloc.decode("ascii")
    raise ServiceUnreachable(f"{where}: {type(error).__name__}: {error}") from error


def pause_after_problem(response: httpx.Response, patience: Patience) -> float:
    """Return the pause before the next try, or raise."""
    problem = problem_in(response)
    if response.status_code not in _TOLD_TO_WAIT:
        raise ServiceError(problem)
    asked = response.headers.get("retry-after", "")
    # Without this header, the service does not promise that a retry will succeed.
    pause = patience.wait(float(asked)) if asked.isascii() and asked.isdecimal() else None
    if pause is None:
        raise Unavailable(problem)
    return pause


#: Seconds that an idle connection is kept; the service keeps it for 75.
KEPT_IDLE = 30.0
_BEYOND_FLOAT32 = 1e39


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent."""

    path: str
    content: bytes | None = None
    kind: str = "application/json"
    params: dict[str, Any] = field(default_factory=dict)
    method: str = "POST"


class Caller:
    """What both clients are told."""

    def __init__(self, model: str | None, timeout: float, retries: int) -> None:
        self.model = model
        self._timeout = timeout
        self._retries = retries
        self._budget = Budget()

    def _patience(self, timeout: float | None) -> Patience:
        self._budget.earn()
        timeout = self._timeout if timeout is None else timeout
        return Patience(time.monotonic() + timeout, timeout, self._retries, self._budget)

    def _one(self, query: Query) -> Request:
        options = query.options(self.model)
        array = None if query.named() is not None else query.array()
        # Names would make the URL long. Without documents, an empty array does not show the number of features.
        if array is None or "feature_names" in options or array.shape == (0, 0):
            return Request("/v1/rerank", json.dumps(options | _documents(query)).encode())
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        if query.compare is not None:
            options["compare"] = ",".join(map(str, query.compare))
        return Request("/v1/rerank", buffer.getvalue(), "application/x-npy", options)

    def _many(self, queries: Sequence[Query]) -> Request:
        bodies = [query.options(self.model) | _documents(query) for query in queries]
        return Request("/v1/rerank/batch", json.dumps({"queries": bodies}).encode())

    def _feedback(
        self, answer: Reranked | str, clicks: Iterable[int], grades: Mapping[int, float], query: int
    ) -> Request:
        about = {"request_id": answer if isinstance(answer, str) else answer.request_id, "query": query}
        said: list[dict[str, Any]] = [{"index": int(index), "click": True} for index in clicks]
        said += [{"index": int(index), "grade": float(grade)} for index, grade in grades.items()]
        # Each event gets a name, so that an event that is sent again counts once.
        events = [{**about, **one, "event_id": uuid4().hex} for one in said]
        return Request("/v1/feedback", json.dumps({"events": events}).encode())

    def _evaluate(
        self,
        queries: Sequence[Query],
        labels: Sequence[npt.ArrayLike],
        metrics: Sequence[str],
        convention: str,
        model: str | None,
        *,
        per_query: bool,
    ) -> Request:
        if len(queries) != len(labels):
            raise ValueError(f"{len(labels)} lists of labels for {len(queries)} queries")
        bodies = []
        for query, judged in zip(queries, labels, strict=True):
            about = query.options(None)
            body = {name: about[name] for name in ("query_id", "feature_names") if name in about}
            bodies.append(
                body
                | _documents(query)
                | {"labels": as_numbers(judged, "the labels").astype(np.float64).tolist()}
            )
        members = {
            "queries": bodies,
            "metrics": list(metrics),
            "convention": convention,
            "per_query": per_query,
            "model": model or self.model,
        }
        return Request("/v1/evaluate", json.dumps(members).encode())


def headers_of(api_key: str | None) -> dict[str, str]:
    """Return the headers of every request."""
    return {} if api_key is None else {"authorization": f"Bearer {api_key}"}


def _documents(query: Query) -> dict[str, Any]:
    """Return the documents as members of a body."""
    if (documents := query.named()) is not None:
        return {"documents": documents}
    # Written as text, a number has only the digits that float32 needs: half of those of a double.
    values = query.array().astype(np.float32).astype("S").astype(np.float64)
    # JSON has no infinity. The service refuses this number, too, and names its place.
    values[np.isinf(values)] = _BEYOND_FLOAT32
    missing = np.isnan(values)
    if missing.any():
        cells = values.astype(object)
        cells[missing] = None
        return {"features": cells.tolist()}
    return {"features": values.tolist()}


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
