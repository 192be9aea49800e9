"""What one rerank request enters; `python -m tools.road request` prints it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from localrank import load
from tools.road import calls_of_a_request

ROOT = Path(__file__).parents[2]
#: Calls of our own functions, and changes of module between them, with room for two or three more.
MOST_CALLS, MOST_CHANGES = 167, 107


def test_a_rerank_request_enters_few_functions() -> None:
    calls = asyncio.run(calls_of_a_request(load(ROOT / "models" / "demo")))

    functions = [function for _, function in calls.entered]
    assert {"Edge.__call__", "rerank", "Ranker.rank", "encode", "Meters.ranked"} <= {*functions}
    assert 1 == functions.count("Stopwatch.start") == functions.count("Attempt.__exit__")
    assert 100 < len(functions) <= MOST_CALLS
    assert calls.changes <= MOST_CHANGES
