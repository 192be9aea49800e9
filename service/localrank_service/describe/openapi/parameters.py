"""Parameters that the service reads itself, so the framework does not know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localrank_service.describe.openapi.shapes import TEXT

if TYPE_CHECKING:
    from collections.abc import Container

    from localrank_service.wire.members import Member

#: Members that may be numbers in JSON; in a query string everything is text.
_TEXTS = {"query_id", "session_id"}
#: Members that are lists, by what one value of them is.
_REPEATED = {"feature_names": "name", "metrics": "metric"}


def in_path(name: str) -> dict[str, Any]:
    """Return a part of the path."""
    return {"name": name, "in": "path", "required": True, "schema": TEXT}


def in_query(
    name: str, description: str, schema: dict[str, Any], *, required: bool = False
) -> dict[str, Any]:
    """Return a parameter that stands behind the question mark."""
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": schema,
    }


def option(member: Member) -> dict[str, Any]:
    """Return the parameter that means the same as a member of the JSON."""
    return in_query(member.name, member.meaning, TEXT if member.name in _TEXTS else dict(member.kind.schema))


def options_of(table: tuple[Member, ...], names: Container[str], media: str) -> tuple[dict[str, Any], ...]:
    """Return the parameters of a body that is not JSON and so has no room for these members."""
    return tuple(
        option(member._replace(meaning=f"With `{media}`. {member.meaning}{_how_often(member.name)}"))
        for member in table
        if member.name in names
    )


def _how_often(name: str) -> str:
    return f" Repeat it for each {_REPEATED[name]}." if name in _REPEATED else ""
