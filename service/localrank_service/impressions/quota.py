"""How much of the log one caller may fill."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Scope

#: Seconds in which a caller may fill its part of the log again, and callers that are remembered.
_PERIOD: Final = 3600.0
_MOST_CALLERS: Final = 1024


def caller_of(scope: Scope) -> str:
    """Return who asks: the label of the key, else the address."""
    if (label := scope.get("key")) is not None:
        return f"key {label}"
    client = scope.get("client")
    return "" if client is None else str(client[0])


class Quota:
    """What each caller may still put into the log: at once the whole quota, and then as much again each hour.

    The only caller displaces nothing of others, so it may always.

    Args:
        most: bytes of one caller.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: str, size: int) -> bool:
        """Take a record's bytes from the caller's quota; return whether there were enough."""
        now = monotonic()
        left, at = self._left.pop(caller, (self._most, now))
        left = min(self._most, left + (now - at) * self._most / _PERIOD)
        enough = size <= left or not self._left
        # The last one is the one that was used last.
        self._left[caller] = (max(0.0, left - size) if enough else left), now
        if len(self._left) > _MOST_CALLERS:
            del self._left[next(iter(self._left))]
        return enough
