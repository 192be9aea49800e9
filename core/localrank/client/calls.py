"""What both clients have in common: the requests that they send, and how long they try."""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from localrank.client.retrying import Budget, Patience
from localrank.frames import as_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from localrank.client.query import Query
    from localrank.client.values import Reranked

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
