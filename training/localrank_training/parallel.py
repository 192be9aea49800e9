"""Many independent pieces of work on several processes, with the same result for any number of them.

joblib starts the processes and hands the arrays over through shared memory; nothing of it is ever stored. Each piece
runs with one BLAS thread: several processes with several threads each would only get in each other's way.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from threadpoolctl import ThreadpoolController

__all__ = ["available_cores", "each_in_parallel", "in_parallel"]

T = TypeVar("T")


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_in_parallel(
    work: Callable[..., T], pieces: Sequence[tuple[Any, ...]], *, workers: int = 1
) -> Iterator[T]:
    """Yield ``work(*piece)`` for every piece, in their order, as soon as it and those before it are computed."""
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=max(min(workers, len(pieces)), 1), return_as="generator")
    yield from parallel(delayed(_alone)(work, piece) for piece in pieces)


def in_parallel(
    work: Callable[..., T],
    pieces: Sequence[tuple[Any, ...]],
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[T]:
    """Return ``[work(*piece) for piece in pieces]``, computed by several processes."""
    results = []
    for result in each_in_parallel(work, pieces, workers=workers):
        results.append(result)
        if progress is not None:
            progress(len(results), len(pieces))
    return results


def _alone(work: Callable[..., T], piece: tuple[Any, ...]) -> T:
    with _controller(len(sys.modules)).limit(limits=1):
        return work(*piece)


@lru_cache(1)
def _controller(_modules: int) -> ThreadpoolController:
    """Find the libraries that have threads; again once more modules are loaded, since it takes 5 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
