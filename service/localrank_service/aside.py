"""Threads for large work, so that the event loop answers other requests meanwhile.

One thread reads large bodies and one ranks large lists. More threads would only take the interpreter and the processor
from each other and from small requests, which do not wait for these threads. There are two because a body that is to be
read should not wait for a list that is being ranked.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["rank_aside", "read_aside"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_READER = ThreadPoolExecutor(1, "large-bodies")
_RANKER = ThreadPoolExecutor(1, "large-requests")


async def read_aside(function: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """Call the function in the thread that reads large bodies."""
    return await _in(_READER, function, *arguments, **named)


async def rank_aside(function: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """Call the function in the thread that ranks large lists."""
    return await _in(_RANKER, function, *arguments, **named)


async def _in(
    thread: ThreadPoolExecutor, function: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs
) -> _T:
    return await asyncio.get_running_loop().run_in_executor(thread, lambda: function(*arguments, **named))
