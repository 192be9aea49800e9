"""Suggests a name for a misspelled one; every message with a suggestion uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` if a known name is near, else nothing."""
    import difflib  # not before a name is wrong

    near = difflib.get_close_matches(str(name), known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def no_such(what: str, name: object, known: Iterable[str]) -> str:
    """Return the message for a name that does not exist: the nearest name, and all names."""
    known = list(known)
    return f"no {what} {name!r}{did_you_mean(name, known)} (expected: {', '.join(known) or 'none'})"
