"""The document: what the framework knows of the routes, and what the groups say of their operations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from localrank import __version__
from localrank_service.describe.openapi.groups import OPERATIONS, SCHEMAS
from localrank_service.describe.openapi.problems import SUMMARIES
from localrank_service.describe.openapi.shapes import TEXT, ref

if TYPE_CHECKING:
    from fastapi import FastAPI

    from localrank_service.describe.openapi.operation import Operation

_DESCRIPTION = """\
Reranks the documents of a query with a model that is chosen for this query.

Every error, on every route, is an RFC 9457 problem with two more members: `error` repeats the text, and `pointer` says
where in the request the error is. Send `X-Request-Id` to find a request again; the answer has the same id.
"""

_KEYS: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
_NO_WORD = re.compile(r"\W")


def install(app: FastAPI) -> None:
    """Make the application answer this document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(
                get_openapi(
                    title="LocalRank",
                    version=__version__,
                    description=_DESCRIPTION,
                    routes=app.routes,
                    servers=[{"url": "/", "description": "Where this document comes from"}],
                )
            )
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _described(document: dict[str, Any]) -> dict[str, Any]:
    for path, known in document["paths"].items():
        for method, entry in known.items():
            operation = OPERATIONS[method, path]
            entry.update(_requests(operation))
            entry.setdefault("tags", ["ranking"])
            entry["operationId"] = operation.name or _name(entry["operationId"], path, method)
            for parameter in entry.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"] = TEXT  # a part of a path is never null
            if operation.parameters:
                entry["parameters"] = [*entry.get("parameters", []), *operation.parameters]
            entry["responses"] = _responses(operation)
            if 401 in operation.statuses:
                # The serving key is optional if none is configured; the admin key never is.
                entry["security"] = [*([] if operation.admin else [{}]), *({key: []} for key in _KEYS)]
    document["components"] = {"schemas": SCHEMAS, "securitySchemes": _KEYS}
    return document


def _requests(operation: Operation) -> dict[str, Any]:
    if operation.reads is None:
        return {}
    content = {"application/json": ref(operation.reads), **operation.other_bodies}
    return {"requestBody": {"required": True, "content": _content(content)}}


def _responses(operation: Operation) -> dict[str, Any]:
    answers = TEXT if operation.answers is None else ref(operation.answers)
    content = {operation.media: answers, **operation.other_answers}
    problem = _content({"application/problem+json": ref("Problem")})
    # Those that need a key refuse options that they do not know.
    statuses = {*operation.statuses, *({422} if 401 in operation.statuses else ())}
    return {
        "200": {"description": "OK", "content": _content(content)},
        **{
            str(status): {"description": SUMMARIES[status], "content": problem}
            for status in (*sorted(statuses), 500)
        },
    }


def _content(schemas: dict[str, Any]) -> dict[str, Any]:
    return {media: {"schema": schema} for media, schema in schemas.items()}


def _name(given: str, path: str, method: str) -> str:
    """Return the name of the function; the framework appends path and method."""
    name = given.removesuffix(f"{_NO_WORD.sub('_', path)}_{method}")
    return f"{name}_of_version" if "{version}" in path else name
