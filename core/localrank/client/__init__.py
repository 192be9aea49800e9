"""Asking a running service from Python; needs ``localrank[client]``.

`Client` and `AsyncClient` keep their connections, send arrays as bytes, and give arrays back. A request is tried again
if it cannot have reached the service, or if the service asked for it (429 and 503 with Retry-After). A retry comes
after a pause with jitter and within the deadline of the call. Retries stay a small share of the calls, so that they do
not make an overload worse. Everything else is raised, with the service's own words.

Nothing else in this package imports this module.
"""

from __future__ import annotations

try:
    import anyio  # noqa: F401
    import httpx  # noqa: F401
except ImportError as error:
    raise ImportError("localrank.client needs httpx; install localrank[client]") from error

from localrank.client.clients import AsyncClient, Client
from localrank.client.query import (
    Query,
    Reranked,
    Scored,
    Served,
    ServiceError,
    ServiceProblem,
    ServiceUnreachable,
    Unavailable,
    Warned,
)
from localrank.routing.route import Route

__all__ = [
    "AsyncClient",
    "Client",
    "Query",
    "Reranked",
    "Route",
    "Scored",
    "Served",
    "ServiceError",
    "ServiceProblem",
    "ServiceUnreachable",
    "Unavailable",
    "Warned",
]
