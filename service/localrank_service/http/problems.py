"""What the service says when something is wrong: one body, on every route, for every error.

RFC 9457 problem details, with two more members: ``error``, the same text, which clients of the Open Inference
Protocol read, and ``pointer``, a JSON pointer (RFC 6901) to where in the request. Core errors know nothing of HTTP;
`STATUSES` gives each its status, and a test proves the table complete.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

from localrank import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.types import Scope

#: The status of every error that core may raise, for exactly that class.
STATUSES: dict[type[errors.LocalRankError], int] = {
    errors.LocalRankError: 500,
    errors.InvalidDocuments: 422,
    errors.ContractMismatch: 409,
    errors.ScoringFailed: 500,
    errors.ArtifactError: 503,
    errors.ArtifactNotFound: 404,
    errors.ArtifactCorrupt: 503,
    errors.ArtifactIncompatible: 503,
    errors.ArtifactUntrusted: 503,
    errors.ProbeMismatch: 503,
    errors.StoreUnavailable: 503,
    errors.PublishFailed: 503,
    errors.ExportRefused: 422,
    errors.ExplanationRefused: 422,
    errors.InvalidConfiguration: 500,
    errors.InvalidData: 422,
    errors.WorkersLost: 500,
}

#: RFC 9110's words, because older Pythons have words from before it.
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
#: What a caller is told of a failure that is not its own.
FAILED = "the server failed; its log has the reason under the id of this request"

MEDIA_TYPE = "application/problem+json"

#: Statuses of answers after which the same request may succeed. Each of them has a reason.
LATER = frozenset({429, 503})
#: What is too much or not ready: the member ``reason`` of such an answer, and the label of ``localrank_refused_total``.
#: docs/operate/operations.md says for each what to do.
Reason: TypeAlias = Literal[
    "queue",
    "requests",
    "documents",
    "changes",
    "bytes",
    "connections",
    "loads",
    "evaluations",
    "loading",
    "stopping",
    "broken",
    "workers",
    "storage",
    "fixed",
    "package",
]


class Problem(Exception):
    """A request that is answered with an error.

    Attributes:
        status: of the answer.
        detail: one sentence that names the thing, the expectation and the finding.
        pointer: where in the request, as a JSON pointer; ``""`` is the whole body, ``None`` is not in the body.
        headers: further headers of the answer.
        members: further members of the answer, that clients of a protocol look for.
        reason: what is too much or not ready, if the status is one of `LATER`.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        pointer: str | None = None,
        headers: Mapping[str, str] | None = None,
        kind: str | None = None,
        members: Mapping[str, Any] | None = None,
        reason: Reason | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.pointer = pointer
        self.headers = dict(headers or {})
        self.kind = kind
        self.members = dict(members or {})
        self._reason = reason

    @property
    def reason(self) -> Reason | None:
        """What is too much or not ready."""
        return self._reason if self.status in LATER else None

    def body(self, request_id: str) -> bytes:
        """Return the JSON of the answer."""
        title = _TITLES.get(self.status) or HTTPStatus(self.status).phrase
        members: dict[str, Any] = {
            "type": f"urn:localrank:problem:{self.kind}" if self.kind else "about:blank",
            "title": title if self.kind is None else self.kind.replace("-", " ").capitalize(),
            "status": self.status,
            "detail": self.detail,
            "instance": "urn:localrank:request:"
            + (request_id if request_id.isalnum() else quote(request_id, safe="")),
            "error": self.detail,
            "pointer": self.pointer,
            **self.members,
        }
        if self.reason is not None:
            members["reason"] = self.reason
        return orjson.dumps(members)


def pointer(*steps: str | int) -> str:
    """Return the JSON pointer of these steps: member names and positions."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def problem_of(error: errors.LocalRankError, at: str | None = None) -> Problem:
    """Translate an error of core."""
    kind = "".join("-" + c.lower() if c.isupper() else c for c in type(error).__name__).lstrip("-")
    reason: Reason = "broken" if isinstance(error, errors.ArtifactError) else "storage"
    return Problem(STATUSES[type(error)], str(error), pointer=at, kind=kind, reason=reason)


def respond(scope: Scope, problem: Problem) -> Response:
    """Return the answer to the request that has the problem; its scope then has the reason, if there is one."""
    scope["reason"] = problem.reason
    return Response(
        problem.body(scope.get("request_id", "")),
        status_code=problem.status,
        headers=problem.headers,
        media_type=MEDIA_TYPE,
    )


def install(app: FastAPI) -> None:
    """Make the framework's own errors look like ours."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)  # noqa: S101 - for the type checker; the table below says so
        return respond(request.scope, error)

    async def cores(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.LocalRankError)  # noqa: S101
        return respond(request.scope, problem_of(error))

    async def frameworks(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        return respond(request.scope, _of_framework(request, error))

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101
        first = error.errors()[0]
        where, *steps = first["loc"]
        name = ".".join(map(str, steps)) or where
        problem = Problem(
            422, f"{where} {name}: {first['msg']}", pointer=pointer(*steps) if where == "body" else None
        )
        return respond(request.scope, problem)

    app.add_exception_handler(Problem, ours)
    app.add_exception_handler(errors.LocalRankError, cores)
    app.add_exception_handler(HTTPException, frameworks)
    app.add_exception_handler(RequestValidationError, validation)


def _of_framework(request: Request, error: HTTPException) -> Problem:
    path = request.scope["path"]
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"no route {path}; /docs lists them"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allow = _allowed(request)
        detail = f"{path} does not answer {request.method}; it answers {allow}"
        return Problem(error.status_code, detail, headers={**(error.headers or {}), "Allow": allow})
    else:
        detail = str(error.detail)
    return Problem(error.status_code, detail, headers=error.headers)


def _allowed(request: Request) -> str:
    """Return the methods that the path answers; the framework names those of the first route only."""
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    return ", ".join(sorted(methods))
