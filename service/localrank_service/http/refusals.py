"""Answers to requests that are refused at their head. They are prepared, because under overload there are thousands a
second.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from localrank_service.http.admission import overloaded
from localrank_service.http.exchange import head_of
from localrank_service.http.problems import MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank_service.http.problems import Problem

#: As long as the ids that are made for requests.
_ID = "0" * 32


def answer_of(
    problem: Problem, request_id: str, headers: Sequence[tuple[bytes, bytes]], *, keeps: bool
) -> tuple[bytes, bytes]:
    """Return head and body of an answer that no application has made."""
    body = problem.body(request_id)
    sent = [
        *headers,
        *[(name.lower().encode(), value.encode()) for name, value in problem.headers.items()],
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
    ]
    return head_of(problem.status, sent if keeps else [*sent, (b"connection", b"close")]), body


class Refusals:
    """Answers with status 429. They differ only in the request's id."""

    def __init__(self) -> None:
        self._headers: Sequence[tuple[bytes, bytes]] = ()
        self._made: dict[tuple[int, bool], list[bytes]] = {}

    def answer(self, after: int, headers: Sequence[tuple[bytes, bytes]], *, keeps: bool) -> bytes:
        """Return an answer that asks the client to come back after ``seconds``; its headers change once a second."""
        if headers is not self._headers:
            self._headers = headers
            self._made.clear()
        parts = self._made.get((after, keeps))
        if parts is None:
            head, body = answer_of(overloaded(after), _ID, headers, keeps=keeps)
            parts = self._made[after, keeps] = (head + body).split(_ID.encode())
        return secrets.token_hex(16).encode().join(parts)
