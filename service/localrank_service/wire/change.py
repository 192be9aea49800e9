"""Bodies of requests that change something: one small object, read whole."""

from __future__ import annotations

from typing import Any

from localrank_service.wire.query import Limits
from localrank_service.wire.text import SMALL, checked, refuse

#: The size of the body already limits what it can hold.
_LIMITS = Limits(0, refuse_extra_features=True, max_numbers=SMALL, max_members=SMALL)


def read(body: bytes) -> dict[str, Any]:
    """Return the members, or raise a `Problem`: 400, 413 or 422."""
    text = checked(body, _LIMITS)
    if text.kind != "{":
        refuse("the body", "an object", text, "")
    members: dict[str, Any] = text.value()
    return members
