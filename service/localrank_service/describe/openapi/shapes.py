"""Shapes that schemas are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localrank_service.wire.members import Member

NUMBER: dict[str, Any] = {"type": "number"}
TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
#: Not `const`: openapi-python-client makes wrong code of it if the member is optional.
ALWAYS_FALSE: dict[str, Any] = {"type": "boolean", "not": {"const": True}}
FREE: dict[str, Any] = {"type": "object", "additionalProperties": True}


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def closed(properties: dict[str, Any], *, optional: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return the schema of an object of exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
        **more,
    }


def list_of(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the schema of a list; ``more`` says how long it is."""
    return {"type": "array", "items": items, **more}


def map_of(values: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose members have any names."""
    return {"type": "object", "additionalProperties": values}


def ref(name: str) -> dict[str, Any]:
    """Return a reference to one of the document's schemas."""
    return {"$ref": f"#/components/schemas/{name}"}


def described_by(table: tuple[Member, ...]) -> dict[str, Any]:
    """Return the properties of a request whose members stand in the table."""
    return {
        name: (maybe(dict(kind.schema)) if nullable and kind.schema else dict(kind.schema))
        | {"description": meaning}
        for name, kind, meaning, nullable in table
    }
