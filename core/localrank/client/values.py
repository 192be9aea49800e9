"""What the clients return and raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.answers import Route, Warned
    from localrank.arrays import Indices, Vector


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
        degraded: ``{"rung", "reason"}`` if a cheaper ranking answered.
        experiment: ``{"name", "arm"}`` if the request took part in one.
        teams: whose each document is, if two versions' rankings are interleaved.
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
    degraded: Mapping[str, str] | None = None
    experiment: Mapping[str, str] | None = None
    teams: tuple[str | None, ...] | None = None


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
    """The service asked for a pause (429, 503) that is longer than the call could wait."""


class ServiceUnreachable(Exception):
    """There was no answer: no connection, a timeout, or an answer that broke off."""
