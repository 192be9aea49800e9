"""What the clients send and how long they try, without any waiting or sending: each call is a generator.

The generator yields a request and is sent its outcome, or yields the seconds of a pause. `localrank.client.clients` runs the
generators, for code that waits and for asynchronous code. So every call is written once.

A request is sent again if it cannot have reached the service, or if the service asked for it with Retry-After. Retries
stay a small share of the calls.
"""

from __future__ import annotations

import io
import json
import random
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack
from uuid import uuid4

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
    scored,
    served,
)
from localrank.frames import as_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from localrank.client.query import QueryOptions, Reranked, Scored, Served
    from localrank.frames import Indexed

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_TOLD_TO_WAIT = (429, 503)
_BEYOND_FLOAT32 = 1e39

_T = TypeVar("_T")
#: What became of a request; ``None`` after a pause.
Outcome: TypeAlias = httpx.Response | httpx.TransportError | None
#: Yields requests, and pauses in seconds; is sent the outcome of each; returns what the call returns.
Flow: TypeAlias = Generator[httpx.Request | float, Outcome, _T]


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


class Caller:
    """What both clients are told.

    Args:
        http: that makes the requests and sends them.
        model: for calls that name none; without it, the service's own.
        timeout: seconds that a call may take with all its retries.
        retries: of one call, at most.
    """

    def __init__(
        self, http: httpx.Client | httpx.AsyncClient, model: str | None, timeout: float, retries: int
    ) -> None:
        self.model = model
        self._requests = http
        self._timeout = timeout
        self._retries = retries
        self._budget = Budget()

    def asked(self, method: str, path: str, timeout: float | None, **more: Any) -> Flow[Any]:
        """Send a request until there is an answer, and return its JSON; ``more`` is for `httpx.Client.build_request`."""
        self._budget.earn()
        timeout = self._timeout if timeout is None else timeout
        patience = Patience(time.monotonic() + timeout, timeout, self._retries, self._budget)
        while True:
            outcome = yield self._requests.build_request(method, path, timeout=patience.left(), **more)
            if isinstance(outcome, httpx.Response):
                if outcome.status_code == 200:
                    return outcome.json()
                yield pause_after_problem(outcome, patience)
            elif outcome is not None:
                yield pause_after_failure(outcome, patience)

    def posted(self, path: str, members: Mapping[str, Any], timeout: float | None) -> Flow[Any]:
        """Send JSON, and return that of the answer."""
        content, kind = json.dumps(members).encode(), {"content-type": "application/json"}
        return self.asked("POST", path, timeout, content=content, headers=kind)


def rerank(
    caller: Caller,
    features: npt.ArrayLike | Indexed,
    ids: Indexed | None = None,
    *,
    timeout: float | None = None,
    **options: Unpack[QueryOptions],
) -> Flow[Reranked]:
    """Order one query's documents; the arguments are those of `Query`, and ``timeout`` in seconds."""
    query = Query(features, ids, **options)
    return reranked((yield from _ranked(caller, query, query.options(caller.model), timeout)), query)


def scores(
    caller: Caller,
    features: npt.ArrayLike | Indexed,
    ids: Indexed | None = None,
    *,
    timeout: float | None = None,
    **options: Unpack[QueryOptions],
) -> Flow[Scored]:
    """Return the score of each of one query's documents, in their order; the arguments are those of `rerank`.

    ``boost`` is in the scores; ``pin``, ``offset`` and ``top_n`` are refused.
    """
    query = Query(features, ids, **options)
    members = query.options(caller.model) | {"answer": "scores"}
    return scored((yield from _ranked(caller, query, members, timeout)))


def _ranked(caller: Caller, query: Query, members: dict[str, Any], timeout: float | None) -> Flow[Any]:
    """Send one query, as an array if it is one, and return the answer."""
    listed = (query.named, query.columns, query.rows)
    array = query.array() if all(form() is None for form in listed) else None
    # Names would make the URL long. Without documents, an empty array does not show the number of features.
    if array is None or query.look_up or "feature_names" in members or array.shape == (0, 0):
        return (yield from caller.posted("/v1/rerank", members | _documents(query), timeout))
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    if query.compare is not None:
        members["compare"] = ",".join(map(str, query.compare))
    members |= {name: json.dumps(members[name]) for name in ("boost", "query_features") if name in members}
    return (
        yield from caller.asked(
            "POST",
            "/v1/rerank",
            timeout,
            content=buffer.getvalue(),
            headers={"content-type": "application/x-npy"},
            params=members,
        )
    )


def rerank_batch(
    caller: Caller, queries: Sequence[Query], *, timeout: float | None = None
) -> Flow[list[Reranked | ServiceError]]:
    """Order the documents of many queries; one that fails has its error in its place."""
    bodies = [query.options(caller.model) | _documents(query) for query in queries]
    return all_reranked((yield from caller.posted("/v1/rerank/batch", {"queries": bodies}, timeout)), queries)


def feedback(
    caller: Caller,
    answer: Reranked | str,
    *,
    clicks: Iterable[int] = (),
    grades: Mapping[int, float] | None = None,
    query: int = 0,
    timeout: float | None = None,
) -> Flow[Mapping[str, Any]]:
    """Say which documents of an answer users clicked, or how relevant they are.

    Args:
        caller: the client.
        answer: that they were shown from, or its request id.
        clicks: positions of the documents in the request, as ``order`` has them.
        grades: by position in the request.
        query: position of the query in a batch.
        timeout: in seconds.

    Returns:
        How many events were ``accepted`` and ``dropped``.
    """
    about = {"request_id": answer if isinstance(answer, str) else answer.request_id, "query": query}
    said: list[dict[str, Any]] = [{"index": int(index), "click": True} for index in clicks]
    said += [{"index": int(index), "grade": float(grade)} for index, grade in (grades or {}).items()]
    # Each event gets a name, so that an event that is sent again counts once.
    events = [{**about, **one, "event_id": uuid4().hex} for one in said]
    found: Mapping[str, Any] = yield from caller.posted("/v1/feedback", {"events": events}, timeout)
    return found


def evaluate(
    caller: Caller,
    queries: Sequence[Query],
    labels: Sequence[npt.ArrayLike],
    *,
    metrics: Sequence[str] = ("ndcg@10", "map"),
    convention: str = "standard",
    per_query: bool = False,
    model: str | None = None,
    timeout: float | None = None,
) -> Flow[Mapping[str, Any]]:
    """Return how well and how fast a model ranks judged queries: the answer of ``POST /v1/evaluate``."""
    if len(queries) != len(labels):
        raise ValueError(f"{len(labels)} lists of labels for {len(queries)} queries")
    bodies = []
    for query, judged in zip(queries, labels, strict=True):
        about = query.options(None)
        body = {
            name: about[name] for name in ("query_id", "feature_names", "query_features") if name in about
        }
        numbers = as_numbers(judged, "the labels").astype(np.float64).tolist()
        bodies.append(body | _documents(query) | {"labels": numbers})
    members = {
        "queries": bodies,
        "metrics": list(metrics),
        "convention": convention,
        "per_query": per_query,
        "model": model or caller.model,
    }
    found: Mapping[str, Any] = yield from caller.posted("/v1/evaluate", members, timeout)
    return found


def models(caller: Caller, *, timeout: float | None = None) -> Flow[list[Served]]:
    """Return what is served."""
    return served((yield from caller.asked("GET", "/v1/models", timeout)))


def _documents(query: Query) -> dict[str, Any]:
    """Return the documents as members of a body, with their ids if the service needs them."""
    ids = query.sent_ids()
    found = _values(query)
    if ids is None:
        return found
    if "documents" in found:
        rows = zip(ids, found["documents"], strict=True)
        return {"documents": [{"id": one, **document} for one, document in rows]}
    return {"ids": ids, **found}


def _values(query: Query) -> dict[str, Any]:
    if (documents := query.named()) is not None:
        return {"documents": documents}
    if (columns := query.columns()) is not None:
        return {"columns": columns}
    if (rows := query.rows()) is not None:
        return {"features": rows}
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
