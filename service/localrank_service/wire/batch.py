"""``POST /v1/rerank/batch``: many requests of ``POST /v1/rerank`` in one body.

The body is checked as a whole and cut into its queries; each is then read like a separate body, so that one unreadable
query does not affect the others. No query is parsed before all are counted, and none is written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.text import Elements, checked, refuse

if TYPE_CHECKING:
    from localrank_service.wire.query import Limits
    from localrank_service.wire.text import Text


def split(body: bytes, limits: Limits) -> list[Text]:
    """Return the JSON of each query."""
    text = checked(body, limits)
    if text.kind != "{":
        refuse("the body", "an object", text, "")
    members = text.members()
    if unknown := members.keys() - {"queries"}:
        name = min(unknown)
        raise Problem(422, f"unknown member {name!r}; expected queries", pointer=pointer(name))
    queries = members.get("queries")
    if queries is None or queries.kind != "[":
        refuse("queries", "a list of rerank requests", queries, "/queries")
    elements = Elements(queries)
    if elements.count > limits.max_documents:
        raise Problem(
            413,
            f"{elements.count} queries; this server takes {limits.max_documents} per request",
            pointer="/queries",
        )
    return elements.texts()
