"""Asking a running service from Python; needs ``localrank[client]``.

`Client` and `AsyncClient` keep their connections, send arrays as bytes, and give arrays back. What cannot have reached
the service, and what it asked to be sent again (429 and 503 with Retry-After), is tried again: after a pause with jitter,
within the call's deadline, and only as long as retries stay a small share of the calls, so that a service in trouble is
not sent more. Everything else is raised, with the service's own words.

Nothing else in this package imports this module.
"""

from __future__ import annotations

import base64
import io
import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

try:
    import anyio
    import httpx
except ImportError as error:
    raise ImportError("localrank.client needs httpx; install localrank[client]") from error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import numpy.typing as npt

    from localrank.arrays import Indices, Vector

__all__ = [
    "AsyncClient",
    "Client",
    "Problem",
    "Query",
    "Reranked",
    "Route",
    "Served",
    "ServiceError",
    "ServiceUnreachable",
    "Unavailable",
    "Warned",
]

#: Seconds that an idle connection is kept; the service keeps it for 75.
_KEPT_IDLE = 30.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_TOLD_TO_WAIT = (429, 503)


@dataclass(frozen=True, slots=True)
class Route:
    """How the query found its scorer.

    Attributes:
        strategy: of the model's router.
        cluster: whose scorer it was; ``None`` is the global one.
        similarity: to the nearest training query.
        margin: what the best cluster was ahead of the second.
        candidates: how many training queries were compared.
        fallback: why it was not the strategy's choice.
        local: false if the global scorer answered, as the cluster has none of its own or there is no cluster.
        shares: the weight of each cluster's scorer; empty if one scorer answered.
    """

    strategy: str
    cluster: int | None
    similarity: float | None
    margin: float | None
    candidates: int
    fallback: str | None
    local: bool = True
    shares: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Warned:
    """What the caller should know although the request was answered.

    Attributes:
        code: ``feature_imputed``, ``feature_ignored``, or ``warnings_omitted`` with an empty feature.
        feature: which.
        count: in how many documents.
    """

    code: str
    feature: str
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Reranked:
    """One query's documents in order.

    Attributes:
        order: ``[k]``, positions of the best documents in the request, best first.
        scores: ``[k]`` float64, of the same documents.
        ids: ``[k]``, the caller's ids of the same documents, if it gave any.
        route: how the query found its scorer.
        model: that answered.
        version: of the model.
        request_id: under which the service's log knows the request.
        warnings: what to know.
        timings_ms: the service's stages.
        explanation: if it was asked for.
    """

    order: Indices
    scores: Vector
    ids: tuple[Any, ...] | None
    route: Route
    model: str
    version: int
    request_id: str
    warnings: tuple[Warned, ...]
    timings_ms: Mapping[str, float]
    explanation: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """A model that the service serves.

    Attributes:
        name: of the model.
        version: its champion.
        aliases: ``{alias: version}``.
        contract: hash of its feature contract.
        n_features: how many a document has.
        n_clusters: how many kinds of query it tells apart.
        routing: its router's strategy.
        default: whether it answers requests that name none.
    """

    name: str
    version: int
    aliases: Mapping[str, int]
    contract: str
    n_features: int
    n_clusters: int
    routing: str
    default: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """What the service says is wrong.

    Attributes:
        status: of HTTP.
        detail: one sentence.
        pointer: where in the request.
        kind: ``about:blank``, or which of the service's problems it is.
        request_id: under which its log knows the request.
    """

    status: int
    detail: str
    pointer: str | None = None
    kind: str = "about:blank"
    request_id: str | None = None


class ServiceError(Exception):
    """The service answered with a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.status}: {problem.detail}")
        self.problem = problem


class Unavailable(ServiceError):
    """The service asked to be left alone for a while (429, 503), for longer than the call could wait."""


class ServiceUnreachable(Exception):
    """There was no answer: no connection, none in time, or one that broke off."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One query of a batch.

    Attributes:
        features: ``[n, d]``; NaN is a missing value. Or one mapping of feature names to numbers per document.
        ids: of the documents, anything; they stay with the caller.
        model: ``name``, ``name@version`` or ``name@alias``.
        top_n: give only the best.
        explain: ``route`` asks why the query went where it went.
        contract: hash of the feature contract that the caller was written for.
        feature_names: of the columns, where they are not in the model's order.
    """

    features: npt.ArrayLike | Sequence[Mapping[str, Any]]
    ids: Sequence[Any] | None = None
    model: str | None = None
    top_n: int | None = None
    explain: str | None = None
    contract: str | None = None
    feature_names: Sequence[str] | None = None

    def options(self, model: str | None) -> dict[str, Any]:
        """Return everything but the documents."""
        options = {
            "model": self.model or model,
            "top_n": self.top_n,
            "explain": self.explain,
            "contract": self.contract,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
        }
        return {name: value for name, value in options.items() if value is not None}

    def named(self) -> list[dict[str, Any]] | None:
        """Return the documents by name, if they are."""
        if (
            isinstance(self.features, list | tuple)
            and self.features
            and isinstance(self.features[0], Mapping)
        ):
            documents: Any = self.features
            return [
                {"features": {name: _number(value) for name, value in document.items()}}
                for document in documents
            ]
        return None

    def array(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the documents as the service wants them: float32, or float16 as it is."""
        values = np.asarray(self.features)
        if values.dtype not in (np.float16, np.float32):
            with np.errstate(over="ignore"):  # what float32 cannot hold is refused by name over there
                values = values.astype(np.float32)
        if values.size == 0 and values.ndim == 1:
            values = values.reshape(0, 0)
        return np.ascontiguousarray(values)

    def check_ids(self) -> None:
        """Refuse ids that are not as many as documents."""
        documents: Any = self.features
        if self.ids is not None and len(self.ids) != len(documents):
            raise ValueError(f"{len(self.ids)} ids for {len(documents)} documents")


class _Budget:
    """Lets retries be a tenth of the calls, and ten to begin with."""

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
class _Patience:
    """What is left of one call: time and tries."""

    deadline: float
    timeout: float
    retries: int
    budget: _Budget
    pause: float = _FIRST_PAUSE

    def left(self) -> float:
        """Return the seconds left, or raise."""
        if (left := self.deadline - time.monotonic()) <= 0:
            raise ServiceUnreachable(f"no answer within {self.timeout:g} s")
        return left

    def wait(self, asked: float | None) -> float | None:
        """Return how long to wait before the next try, ``None`` being that there is none.

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


@dataclass(frozen=True, slots=True)
class _Request:
    path: str
    content: bytes | None = None
    kind: str = "application/json"
    params: dict[str, Any] = field(default_factory=dict)
    method: str = "POST"


class _Settings:
    """What both clients are told."""

    def __init__(self, model: str | None, timeout: float, retries: int) -> None:
        self.model = model
        self._timeout = timeout
        self._retries = retries
        self._budget = _Budget()

    def _patience(self, timeout: float | None) -> _Patience:
        self._budget.earn()
        timeout = self._timeout if timeout is None else timeout
        return _Patience(time.monotonic() + timeout, timeout, self._retries, self._budget)

    def _one(self, query: Query) -> _Request:
        query.check_ids()
        options = query.options(self.model)
        if (documents := query.named()) is not None:
            return _Request("/v1/rerank", json.dumps(options | {"documents": documents}).encode())
        array = query.array()
        if not array.size and array.ndim == 2 and not array.shape[1]:
            # No documents: an array of none does not know how many features they would have had.
            return _Request("/v1/rerank", json.dumps(options | {"features": []}).encode())
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        return _Request("/v1/rerank", buffer.getvalue(), "application/x-npy", options)

    def _many(self, queries: Sequence[Query]) -> _Request:
        bodies = []
        for query in queries:
            query.check_ids()
            documents = query.named()
            bodies.append(
                query.options(self.model)
                | ({"documents": documents} if documents is not None else _packed(query.array()))
            )
        return _Request("/v1/rerank/batch", json.dumps({"queries": bodies}).encode())


class Client(_Settings):
    """Asks a service; to be closed, or used in a ``with``. One may serve many threads.

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
            headers=_headers(api_key),
            limits=httpx.Limits(keepalive_expiry=_KEPT_IDLE),
            transport=transport,
        )

    def rerank(
        self,
        features: npt.ArrayLike | Sequence[Mapping[str, Any]],
        ids: Sequence[Any] | None = None,
        *,
        model: str | None = None,
        top_n: int | None = None,
        explain: str | None = None,
        contract: str | None = None,
        feature_names: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Reranked:
        """Order one query's documents; the arguments are those of `Query`, and ``timeout`` in seconds."""
        query = Query(features, ids, model, top_n, explain, contract, feature_names)
        return _reranked(self._send(self._one(query), timeout), query)

    def rerank_batch(
        self, queries: Sequence[Query], *, timeout: float | None = None
    ) -> list[Reranked | ServiceError]:
        """Order the documents of many queries; one that fails has its error in its place."""
        return _all_reranked(self._send(self._many(queries), timeout), queries)

    def models(self, *, timeout: float | None = None) -> list[Served]:
        """Return what is served."""
        return _served(self._send(_Request("/v1/models", method="GET"), timeout))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, request: _Request, timeout: float | None) -> Any:
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
                pause = _after_failure(error, patience)
            else:
                if response.status_code == 200:
                    return response.json()
                pause = _after_problem(response, patience)
            time.sleep(pause)


class AsyncClient(_Settings):
    """The same for asynchronous code; the arguments are those of `Client`."""

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
            headers=_headers(api_key),
            limits=httpx.Limits(keepalive_expiry=_KEPT_IDLE),
            transport=transport,
        )

    async def rerank(
        self,
        features: npt.ArrayLike | Sequence[Mapping[str, Any]],
        ids: Sequence[Any] | None = None,
        *,
        model: str | None = None,
        top_n: int | None = None,
        explain: str | None = None,
        contract: str | None = None,
        feature_names: Sequence[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Reranked:
        """Order one query's documents; the arguments are those of `Query`, and ``timeout`` in seconds."""
        query = Query(features, ids, model, top_n, explain, contract, feature_names)
        return _reranked(await self._send(self._one(query), timeout), query)

    async def rerank_batch(
        self,
        queries: Sequence[Query],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[Reranked | ServiceError]:
        """Order the documents of many queries; one that fails has its error in its place."""
        return _all_reranked(await self._send(self._many(queries), timeout), queries)

    async def models(self, *, timeout: float | None = None) -> list[Served]:  # noqa: ASYNC109
        """Return what is served."""
        return _served(await self._send(_Request("/v1/models", method="GET"), timeout))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _send(self, request: _Request, timeout: float | None) -> Any:  # noqa: ASYNC109
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
                pause = _after_failure(error, patience)
            else:
                if response.status_code == 200:
                    return response.json()
                pause = _after_problem(response, patience)
            await anyio.sleep(pause)


def _number(value: float | None) -> float | None:
    """Return what JSON has for a number; NaN is missing."""
    return None if value is None or value != value else float(value)  # noqa: PLR0124


def _headers(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"authorization": f"Bearer {api_key}"}


def _packed(array: np.ndarray[Any, np.dtype[Any]]) -> dict[str, Any]:
    if array.ndim != 2 or not array.size:
        return {"features": array.tolist()}
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "features_b64": base64.b64encode(little.tobytes()).decode(),
        "dtype": array.dtype.name,
        "shape": list(array.shape),
    }


def _after_failure(error: httpx.TransportError, patience: _Patience) -> float:
    """Return the pause before the next try, or raise; only what was never sent is sent again."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        pause = patience.wait(None)
        if pause is not None:
            return pause
    if isinstance(error, httpx.TimeoutException):
        raise ServiceUnreachable(f"no answer within {patience.timeout:g} s") from error
    raise ServiceUnreachable(f"{type(error).__name__}: {error}") from error


def _after_problem(response: httpx.Response, patience: _Patience) -> float:
    """Return the pause before the next try, or raise."""
    problem = _problem(response)
    if response.status_code not in _TOLD_TO_WAIT:
        raise ServiceError(problem)
    asked = response.headers.get("retry-after", "")
    # Without it the service does not say that it will be better then.
    pause = patience.wait(float(asked)) if asked.isascii() and asked.isdecimal() else None
    if pause is None:
        raise Unavailable(problem)
    return pause


def _problem(response: httpx.Response) -> Problem:
    try:
        members = response.json()
        return _problem_of(members, response.headers.get("x-request-id"))
    except (ValueError, KeyError, TypeError):
        # Something between here and the service answered.
        return Problem(response.status_code, response.reason_phrase or "no reason given")


def _problem_of(members: Mapping[str, Any], request_id: str | None) -> Problem:
    return Problem(members["status"], members["detail"], members["pointer"], members["type"], request_id)


def _reranked(answer: Mapping[str, Any], query: Query) -> Reranked:
    results = answer["results"]
    order = np.array([result["index"] for result in results], np.intp)
    return Reranked(
        order=order,
        scores=np.array([result["score"] for result in results], np.float64),
        ids=None if query.ids is None else tuple(query.ids[index] for index in order.tolist()),
        route=_route(answer["route"]),
        model=answer["model"],
        version=answer["version"],
        request_id=answer["request_id"],
        warnings=tuple(Warned(one["code"], one["feature"], one["count"]) for one in answer["warnings"]),
        timings_ms=answer["timings_ms"],
        explanation=answer.get("explanation"),
    )


def _route(members: Mapping[str, Any]) -> Route:
    return Route(
        members["strategy"],
        members["cluster"],
        members["similarity"],
        members["margin"],
        members["candidates"],
        members["fallback"],
        members.get("local", members["cluster"] is not None),
        tuple(members.get("shares", ())),
    )


def _served(answer: Mapping[str, Any]) -> list[Served]:
    return [Served(**{name: one[name] for name in Served.__slots__}) for one in answer["models"]]


def _all_reranked(answer: Mapping[str, Any], queries: Sequence[Query]) -> list[Reranked | ServiceError]:
    found: list[Reranked | ServiceError] = []
    for one, query in zip(answer["answers"], queries, strict=True):
        if one["status"] == 200:
            found.append(_reranked(one["answer"], query))
        else:
            found.append(ServiceError(_problem_of(one["problem"], answer["request_id"])))
    return found
