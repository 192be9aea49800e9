"""What ``/openapi.json`` says: each route says what it reads and answers by `operation`, above its function.

Answers are described by their types in `localrank.answers`, requests by the tables that their readers check them with
(`localrank_service.wire.members`). Tests compare real requests and answers with both.
"""

from __future__ import annotations

import re
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from localrank import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from fastapi import FastAPI
    from pydantic_core import core_schema

    from localrank_service.wire.members import Member

    _Function = TypeVar("_Function", bound=Callable[..., Any])

#: Documents of the demo model, so that the examples can be tried.
ROWS = [
    [18.0, 0.5, 0.5, 69, 0.5, 6.0, 0.5, 0.5, 91, 0.5],
    [10.1, 0.34, 0.72, 47, 0.31, 4.1, 0.69, 0.37, 62, 0.7],
]
NAMED = {
    "bm25": 25.3,
    "title_match": 0.66,
    "body_match": 0.31,
    "url_length": 90,
    "pagerank": 0.7,
    "inlinks": 8.2,
    "freshness": 0.33,
    "clicks": 0.65,
    "dwell_time": 121,
    "spam": 0.29,
}

#: Statuses of routes that need a key, that read a body, and that use a model.
KEY = frozenset({401, 403})
BODY = frozenset({400, 413, 415, 422})
MODEL = frozenset({404, 409, 503})
SUMMARIES = {
    400: "Malformed: not JSON, truncated, a member twice, or impossible to decompress",
    401: "No key",
    403: "The key is not one for this route, or the host or origin is not allowed",
    404: "No such model or version",
    409: "Another contract, the version is not loaded or does not verify, or the feature is off",
    413: "Too many bytes or documents",
    415: "Another content type or encoding",
    422: "Breaks the feature contract",
    429: "Too busy; try again",
    500: "The server failed",
    503: "Not ready, or the model is broken",
    504: "The timeout of the request has passed",
}

TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
FREE: dict[str, Any] = {"type": "object", "additionalProperties": True}

_DESCRIPTION = """\
Reranks the documents of a query with a model that is chosen for this query.

Every error, on every route, is an RFC 9457 problem with two more members: `error` repeats the text, and `pointer` says
where in the request the error is. Send `X-Request-Id` to find a request again; the answer has the same id.
"""
_KEYS: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
_PLACE = "#/components/schemas/{model}"
_NO_WORD = re.compile(r"\W")
_NONE: Mapping[str, Any] = MappingProxyType({})
#: Members that may be numbers in JSON; in a query string everything is text.
_TEXTS = {"query_id", "session_id"}
#: Members that are lists, by what one value of them is.
_REPEATED = {"feature_names": "name", "metrics": "metric"}


class Schema(NamedTuple):
    """A schema that no type says, under its name in the document; it ``uses`` those types."""

    name: str
    members: Mapping[str, Any]
    uses: tuple[str, ...] = ()


class Operation(NamedTuple):
    """What the document says of one operation that the framework does not know.

    Attributes:
        answers: with status 200; the name of a type of `localrank.answers` without the suffix ``Schema``, or a schema.
        statuses: of its errors.
        reads: the JSON of the request.
        media: of the answer.
        admin: whether it needs an admin key.
        name: what generated clients call it, if that is not the name of its function.
        parameters: that the framework does not know.
        other_bodies: schemas by other media types than JSON.
        other_answers: schemas by other media types than ``media``.
    """

    answers: str | Schema | Mapping[str, Any]
    statuses: AbstractSet[int] = frozenset()
    reads: Schema | None = None
    media: str = "application/json"
    admin: bool = False
    name: str | None = None
    parameters: tuple[dict[str, Any], ...] = ()
    other_bodies: Mapping[str, Any] = _NONE
    other_answers: Mapping[str, Any] = _NONE


_OPERATIONS: dict[Callable[..., Any], Operation] = {}


def operation(
    answers: str | Schema | Mapping[str, Any], statuses: AbstractSet[int] = frozenset(), **more: Any
) -> Callable[[_Function], _Function]:
    """Describe the route of a function; the arguments are those of `Operation`."""

    def described(function: _Function) -> _Function:
        _OPERATIONS[function] = Operation(answers, statuses, **more)
        return function

    return described


def closed(properties: dict[str, Any], *, optional: Container[str] = (), **more: Any) -> dict[str, Any]:
    """Return the schema of an object of exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
        **more,
    }


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def described_by(table: tuple[Member, ...]) -> dict[str, Any]:
    """Return the properties of a request whose members stand in the table."""
    return {
        name: (maybe(dict(kind.schema)) if nullable and kind.schema else dict(kind.schema))
        | {"description": meaning}
        for name, kind, meaning, nullable in table
    }


def request_of(name: str, table: tuple[Member, ...], required: Container[str], **more: Any) -> Schema:
    """Return the schema of a request whose members stand in the table."""
    optional = {member.name for member in table if member.name not in required}
    return Schema(name, closed(described_by(table), optional=optional, **more))


def in_query(
    name: str, description: str, schema: Mapping[str, Any], *, required: bool = False
) -> dict[str, Any]:
    """Return a parameter that stands behind the question mark."""
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": dict(schema),
    }


def option(member: Member) -> dict[str, Any]:
    """Return the parameter that means the same as a member of the JSON."""
    return in_query(member.name, member.meaning, TEXT if member.name in _TEXTS else member.kind.schema)


def options_of(table: tuple[Member, ...], names: Container[str], media: str) -> tuple[dict[str, Any], ...]:
    """Return the parameters of a body that is not JSON and so has no room for these members."""

    def meaning(member: Member) -> str:
        each = f" Repeat it for each {_REPEATED[member.name]}." if member.name in _REPEATED else ""
        return f"With `{media}`. {member.meaning}{each}"

    return tuple(option(member._replace(meaning=meaning(member))) for member in table if member.name in names)


def install(app: FastAPI) -> None:
    """Make the application answer this document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title="LocalRank",
                version=__version__,
                description=_DESCRIPTION,
                routes=app.routes,
                servers=[{"url": "/", "description": "Where this document comes from"}],
            )
            app.openapi_schema = _described(document, operations(app))
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def operations(app: FastAPI) -> dict[tuple[str, str], Operation]:
    """Return the operations of the application by method and path."""
    return {
        (method.lower(), route.path): _OPERATIONS[route.endpoint]
        for route in app.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
    }


def _described(document: dict[str, Any], known: Mapping[tuple[str, str], Operation]) -> dict[str, Any]:
    schemas = _schemas(["Problem", *(name for one in known.values() for name in _types_of(one.answers))])
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            one = known[method, path]
            for named in (one.reads, one.answers):
                if isinstance(named, Schema):
                    schemas[named.name] = dict(named.members)
            entry.setdefault("tags", ["ranking"])
            entry["operationId"] = one.name or _name(entry["operationId"], path, method)
            # A part of a path is never null; the framework does not know those of routes that read the scope.
            parts = [
                {"name": name, "in": "path", "required": True, "schema": TEXT}
                for name in re.findall(r"{(\w+)}", path)
            ]
            if parameters := [*parts, *one.parameters]:
                entry["parameters"] = parameters
            if one.reads is not None:
                content = {"application/json": _ref(one.reads.name), **one.other_bodies}
                entry["requestBody"] = {"required": True, "content": _content(content)}
            entry["responses"] = _responses(one)
            if 401 in one.statuses:
                # The serving key is optional if none is configured; the admin key never is.
                entry["security"] = [*([] if one.admin else [{}]), *({key: []} for key in _KEYS)]
    document["components"] = {"schemas": schemas, "securitySchemes": _KEYS}
    return document


def _types_of(answers: str | Schema | Mapping[str, Any]) -> tuple[str, ...]:
    if isinstance(answers, Schema):
        return answers.uses
    return (answers,) if isinstance(answers, str) else ()


def _responses(one: Operation) -> dict[str, Any]:
    match one.answers:
        case str(name) | Schema(name=name):
            answers = _ref(name)
        case found:
            answers = dict(found)
    problem = _content({"application/problem+json": _ref("Problem")})
    # Those that need a key refuse options that they do not know.
    statuses = {*one.statuses, *({422} if 401 in one.statuses else ())}
    return {
        "200": {"description": "OK", "content": _content({one.media: answers, **one.other_answers})},
        **{
            str(status): {"description": SUMMARIES[status], "content": problem}
            for status in (*sorted(statuses), 500)
        },
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _PLACE.format(model=name)}


def _content(schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {media: {"schema": schema} for media, schema in schemas.items()}


def _name(given: str, path: str, method: str) -> str:
    """Return the name of the function; the framework appends path and method."""
    name = given.removesuffix(f"{_NO_WORD.sub('_', path)}_{method}")
    return f"{name}_of_version" if "{version}" in path else name


class _OfTypes(GenerateJsonSchema):
    """Makes the schemas of answers: no titles and no defaults, and no member that the type does not name."""

    def normalize_name(self, name: str) -> str:
        # The suffix only keeps the shape of an answer apart from the class that it shows.
        return super().normalize_name(name.removesuffix("Schema"))

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, Any]:
        made = super().dataclass_schema(schema)
        about = made.get("description", "").partition("\n")[0]
        properties = {name.removesuffix("_"): one for name, one in made.get("properties", {}).items()}
        required = [name.removesuffix("_") for name in made.get("required", ())]
        return {
            "type": "object",
            "description": about,
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def _schemas(names: Iterable[str]) -> dict[str, Any]:
    """Return the schemas of these types of `localrank.answers`, and of those that they refer to."""
    # Not before somebody asks: to make so many classes takes a while.
    answers = import_module("localrank.answers")
    types = {name: getattr(answers, f"{name}Schema", None) or getattr(answers, name) for name in names}
    found, shared = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(one)) for name, one in types.items()],
        ref_template=_PLACE,
        schema_generator=_OfTypes,
    )
    schemas: dict[str, Any] = shared["$defs"]
    # A list has no name of its own.
    return schemas | {name: schema for (name, _), schema in found.items() if name not in schemas}
