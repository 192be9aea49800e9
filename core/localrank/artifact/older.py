"""Format 1, read as format 2: members with other names are renamed, and missing ones get their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Members of a manifest.
_MEMBERS = {"signer": "representation"}
#: Parts, by the name they were published under.
_PARTS = {"signer": "pca", "centroid": "medoid"}
#: Fields of parts.
_FIELDS = {"signatures": "points"}
#: Settings of scorers.
_SETTINGS = {"view": "blocks"}


def renamed(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a manifest of format 1 as format 2 calls them; what is malformed stays as it is."""
    found = _under(members, _MEMBERS)
    for name in ("representation", "router"):
        if name in found:
            found[name] = _part(found[name])
    if isinstance(found.get("probe"), list):
        found["probe"] = [_route(route) for route in found["probe"]]
    scorers = found.get("scorers")
    if isinstance(scorers, dict) and isinstance(scorers.get("forms"), list):
        found["scorers"] = {**scorers, "forms": [_form(form) for form in scorers["forms"]]}
    return found


def _part(described: Any) -> Any:
    if not isinstance(described, dict) or not isinstance(described.get("fields"), dict):
        return described
    name = described.get("part")
    fields = {field: _part(value) for field, value in _under(described["fields"], _FIELDS).items()}
    return {**described, "part": _PARTS.get(name, name) if isinstance(name, str) else name, "fields": fields}


def _route(route: Any) -> Any:
    if not isinstance(route, dict) or not isinstance(route.get("strategy"), str):
        return route
    return {**route, "strategy": _PARTS.get(route["strategy"], route["strategy"])}


def _form(form: Any) -> Any:
    if not isinstance(form, dict) or not isinstance(form.get("settings"), dict):
        return form
    return {**form, "settings": _under(form["settings"], _SETTINGS)}


def _under(members: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Rename members; one whose present name is there too stays, so that it is refused as unknown."""
    return {
        name if names.get(name, name) in members else names[name]: value for name, value in members.items()
    }
