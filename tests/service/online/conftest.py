from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx


async def until_counted(client: httpx.AsyncClient, series: str, count: int) -> None:
    """Wait until the series has counted so many."""
    for _ in range(3000):
        lines = (await client.get("/metrics")).text.splitlines()
        if any(line.startswith(series) and float(line.split()[-1]) >= count for line in lines):
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


@pytest.fixture
def until() -> Callable[[httpx.AsyncClient, str, int], Awaitable[None]]:
    return until_counted
