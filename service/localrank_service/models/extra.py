"""Versions that were loaded because a request with an admin key named them.

Nothing else keeps them loaded: no alias, no experiment and no setting. So their number, their bytes and the pace of loading
are limited, and the one that was loaded first makes room for another.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from localrank_service.models.live import LiveModel

#: Loads that may begin within these seconds, and requests that may wait for one.
_LOADS, _SECONDS = 4, 4.0


class ExtraVersions:
    """The extra versions of one worker.

    Args:
        most: versions.
        most_bytes: of their files.

    Attributes:
        most: versions; 0 if no request has a version loaded.
        loaded: by address, the oldest first.
        loading: held while one is loaded, so that it is one at a time.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most = most
        self.loaded: OrderedDict[str, LiveModel] = OrderedDict()
        self.loading = asyncio.Lock()
        self._most_bytes = most_bytes
        self._begun: deque[float] = deque(maxlen=_LOADS)
        self._asking = 0

    def check(self, address: str, *, admin: bool) -> None:
        """Refuse a version that is published but not loaded, unless the request may have it loaded."""
        if admin and self.most:
            return
        now = (
            f"send an admin key to have it loaded now, or start the service with --preload {address}"
            if self.most
            else f"give it an alias, or start the service with --preload {address}"
        )
        raise _not_loaded(f"version {address} is published, but not loaded; {now}")

    def asking(self) -> ExitStack:
        """Return a place among the requests that have versions loaded; refuse one that is too many or too soon."""
        now = monotonic()
        soonest = self._begun[0] + _SECONDS if len(self._begun) == _LOADS else now
        if self._asking >= _LOADS or now < soonest:
            raise Problem(
                429,
                f"this worker loads at most {_LOADS} versions in {_SECONDS:g} s that requests name; ask again later",
                headers={"Retry-After": str(max(1, math.ceil(soonest - now)))},
                reason="loads",
            )
        self._asking += 1
        self._begun.append(now)
        place = ExitStack()
        place.callback(self._leave)
        return place

    def _leave(self) -> None:
        self._asking -= 1

    def make_room(self, address: str, size: int) -> None:
        """Forget the oldest versions until one of this many bytes fits."""
        if size > self._most_bytes:
            raise _not_loaded(
                f"version {address} has {size:,} bytes, and all versions that requests have loaded may have "
                f"{self._most_bytes:,}; give it an alias, or start the service with --preload {address}"
            )
        while self.loaded and (len(self.loaded) >= self.most or self._bytes() + size > self._most_bytes):
            self.loaded.popitem(last=False)

    def forget(self, names: frozenset[str]) -> None:
        """Forget the versions of these models."""
        for address in [one for one in self.loaded if one.partition("@")[0] in names]:
            del self.loaded[address]

    def _bytes(self) -> int:
        return sum(model.manifest.size for model in self.loaded.values() if model.manifest is not None)


def _not_loaded(detail: str) -> Problem:
    """Return the problem of a version that a request cannot have loaded."""
    return Problem(
        409,
        detail,
        kind="version-not-loaded",
    )
