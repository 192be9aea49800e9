"""What the document says of one operation that the framework does not know."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

_NONE: Mapping[str, Any] = MappingProxyType({})


class Operation(NamedTuple):
    """The schemas of what it ``reads`` and ``answers`` with 200, by their names, and the statuses of its errors.

    ``name`` is what generated clients call it, if that is not the name of its function. ``other_bodies`` and
    ``other_answers`` are schemas of other media types than that of ``reads`` and ``answers``.
    """

    reads: str | None
    answers: str | None
    statuses: AbstractSet[int] = frozenset()
    media: str = "application/json"
    admin: bool = False
    name: str | None = None
    parameters: tuple[dict[str, Any], ...] = ()
    other_bodies: Mapping[str, Any] = _NONE
    other_answers: Mapping[str, Any] = _NONE
