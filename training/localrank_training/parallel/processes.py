"""Many independent pieces of work on several processes, with the same result for any number of them.

joblib starts the processes and hands the arrays over through shared memory; nothing of it is ever stored. Each piece
runs with one BLAS thread: several processes with several threads each would only get in each other's way. `elsewhere` sends
the pieces to something else, such as a cluster (`localrank_training.parallel.dask_workers`).

A cluster's scorer may refer to members of the global one. If it were pickled unchanged, every cluster would come back
with its own copies of these members, and they would be stored and scored once per cluster. So `packed` sends a scorer
that both sides know as its number.

Progress of long tasks: functions report it without knowing about terminals, and commands draw it.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from localrank.scorers import distinct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from threadpoolctl import ThreadpoolController

    from localrank.scorers import Scorer

#: ``progress(task, done, total)``.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(_task: str, _done: int, _total: int) -> None:
    """Report no progress."""


T = TypeVar("T")


class Elsewhere(Protocol):
    """Does pieces of work, but not in child processes of this process."""

    def each(self, work: Callable[..., T], pieces: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        """Yield ``work(*piece)`` for every piece, in their order."""
        ...


_elsewhere: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)


@contextmanager
def elsewhere(workers: Elsewhere) -> Iterator[None]:
    """Run the pieces with these instead of several processes."""
    token = _elsewhere.set(workers)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def elsewhere_now() -> Elsewhere | None:
    """Return the object that does the pieces of work now; nothing if processes of this machine do them."""
    return _elsewhere.get()


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_in_parallel(
    work: Callable[..., T], pieces: Sequence[tuple[Any, ...]], *, workers: int = 1
) -> Iterator[T]:
    """Yield ``work(*piece)`` for every piece, in their order, as soon as it and those before it are computed."""
    if workers > 1 and (others := _elsewhere.get()) is not None:
        yield from others.each(work, pieces)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=max(min(workers, len(pieces)), 1), return_as="generator")
    yield from parallel(delayed(alone)(work, piece) for piece in pieces)


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


def alone(work: Callable[..., T], piece: tuple[Any, ...]) -> T:
    """Do one piece with one BLAS thread."""
    with _controller(len(sys.modules)).limit(limits=1):
        return work(*piece)


def packed(scorer: Scorer, known: Scorer) -> bytes:
    """Return a scorer as bytes that refer to ``known`` and whatever it is made of."""
    numbers = {id(one): number for number, one in enumerate(distinct([known]))}

    class ScorerPacker(pickle.Pickler):
        def persistent_id(self, obj: Any) -> int | None:
            return numbers.get(id(obj))

    file = io.BytesIO()
    ScorerPacker(file, pickle.HIGHEST_PROTOCOL).dump(scorer)
    return file.getvalue()


def unpacked(content: bytes, known: Scorer) -> Scorer:
    """Undo `packed`; what was sent as a number is the scorer itself that ``known`` is made of here."""
    scorers = distinct([known])

    class ScorerUnpacker(pickle.Unpickler):
        def persistent_load(self, pid: int) -> Scorer:
            return scorers[pid]

    found: Scorer = ScorerUnpacker(io.BytesIO(content)).load()
    return found


@lru_cache(1)
def _controller(_modules: int) -> ThreadpoolController:
    """Find the libraries that have threads; again once more modules are loaded, since it takes 5 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
