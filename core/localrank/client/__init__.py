"""Asking a running service from Python; needs ``localrank[client]``.

`Client` and `AsyncClient` keep their connections, send arrays as bytes, and give arrays back. What cannot have reached
the service, and what it asked to be sent again (429 and 503 with Retry-After), is tried again: after a pause with jitter,
within the call's deadline, and only as long as retries stay a small share of the calls, so that a service in trouble is
not sent more. Everything else is raised, with the service's own words.

Nothing else in this package imports this module.
"""

from __future__ import annotations

try:
    import anyio  # noqa: F401
    import httpx  # noqa: F401
except ImportError as error:
    raise ImportError("localrank.client needs httpx; install localrank[client]") from error

from localrank.client.asynchronous import AsyncClient
from localrank.client.query import Query
from localrank.client.synchronous import Client
from localrank.client.values import (
    Problem,
    Reranked,
    Route,
    Served,
    ServiceError,
    ServiceUnreachable,
    Unavailable,
    Warned,
)

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
