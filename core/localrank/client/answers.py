"""The service's answers as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.answers import Route, Warned
from localrank.client.values import Problem, Reranked, Served, ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from localrank.client.query import Query


def reranked(answer: Mapping[str, Any], query: Query) -> Reranked:
    """Read the answer to one query."""
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
        degraded=answer["degraded"],
        experiment=answer.get("experiment"),
        teams=tuple(one["team"] for one in results) if results and "team" in results[0] else None,
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


def served(answer: Mapping[str, Any]) -> list[Served]:
    """Read the list of models."""
    return [Served(**{name: one[name] for name in Served.__slots__}) for one in answer["models"]]


def all_reranked(answer: Mapping[str, Any], queries: Sequence[Query]) -> list[Reranked | ServiceError]:
    """Read the answer to a batch."""
    found: list[Reranked | ServiceError] = []
    for one, query in zip(answer["answers"], queries, strict=True):
        if one["status"] == 200:
            found.append(reranked(one["answer"], query))
        else:
            found.append(ServiceError(problem_of(one["problem"], answer["request_id"])))
    return found


def problem_in(response: httpx.Response) -> Problem:
    """Read a problem, or name the status if something else than the service answered."""
    try:
        members = response.json()
        return problem_of(members, response.headers.get("x-request-id"))
    except (ValueError, KeyError, TypeError):
        # Something between here and the service answered.
        return Problem(response.status_code, response.reason_phrase or "no reason given")


def problem_of(members: Mapping[str, Any], request_id: str | None) -> Problem:
    """Return the problem that these members tell of."""
    return Problem(members["status"], members["detail"], members["pointer"], members["type"], request_id)
