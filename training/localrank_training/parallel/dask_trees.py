"""Boosted trees grown on all workers of a Dask cluster at once, by LightGBM's own Dask training [ke2017].

Every worker gets whole queries, bins them, and shares histograms with the others; scheduling and sockets are LightGBM's and Dask's.
The trees differ a little from those of one machine: each worker finds the bins of some features, by its own documents.
If every feature has fewer values than ``max_bin``, and every worker has all of them, the bins and the trees are the
same.

A worker that is lost ends the fit with a sentence: LightGBM cannot go on without it.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData, WorkersLost
from localrank_training.parallel.processes import elsewhere_now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client

    from localrank.arrays import Indices, Matrix, Vector

#: Seconds between looks at whether all workers are still there.
_LOOK = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class TreeSample:
    """What trees are grown from.

    Attributes:
        documents: ``[n_docs, n_features]``.
        targets: ``[n_docs]``, LightGBM's labels.
        lengths: ``[n_queries]`` documents per query, none of them zero.
        weights: ``[n_docs]``; or all alike.
        base: ``[n_docs]`` scores that the trees are added to.
        categorical: columns that are categories.
    """

    documents: Matrix
    targets: Vector
    lengths: Indices
    weights: Vector | None = None
    base: Vector | None = None
    categorical: tuple[int, ...] = ()


def scheduler_here() -> str | None:
    """Return the address of the scheduler that this process works with, as the one who asks or as a worker."""
    from localrank_training.parallel.dask_workers import DaskWorkers

    workers = elsewhere_now()
    if isinstance(workers, DaskWorkers):
        return workers.scheduler
    try:
        from distributed import get_worker

        return str(get_worker().scheduler.address)
    except (ImportError, ValueError):
        return None


def grown_on_workers(scheduler: str, settings: dict[str, Any], rounds: int, judged: TreeSample) -> str:
    """Return the trees as LightGBM's text.

    Raises:
        WorkersLost: a worker is gone.
        InvalidData: LightGBM cannot learn from this.
    """
    from distributed import Client, Lock

    with ExitStack() as stack:
        stack.enter_context(_seceded())
        # Its own connection: closing it cancels all requests, whatever LightGBM is waiting for.
        client = Client(scheduler, set_as_default=False)
        stack.callback(client.close)
        # Two fits at once would each wait for a worker that is waiting for the other.
        lock = Lock("localrank-trees", scheduler_rpc=client.scheduler, loop=client.loop)
        lock.acquire()
        try:
            return _watched(client, settings, rounds, judged)
        finally:
            # Without its scheduler there is no lock.
            with suppress(OSError):
                lock.release()


@contextmanager
def _seceded() -> Iterator[None]:
    """If this runs on a worker, release its thread for other work while waiting."""
    from distributed import rejoin, secede

    if not _on_a_worker():
        yield
        return
    secede()
    try:
        yield
    finally:
        rejoin()


def _on_a_worker() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _watched(client: Client, settings: dict[str, Any], rounds: int, judged: TreeSample) -> str:
    workers = set(client.nthreads())
    found: list[str] = []
    failed: list[BaseException] = []

    def fit() -> None:
        try:
            # LightGBM waits with whatever client is the current one.
            with client.as_current(), warnings.catch_warnings():
                # It warns of its own defaults.
                warnings.filterwarnings("ignore", "Parameter n_jobs will be ignored", UserWarning)
                found.append(_fit(client, sorted(workers), settings, rounds, judged))
        except BaseException as error:  # noqa: BLE001  handed to the thread that waits
            failed.append(error)

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK)
        try:
            lost = workers - set(client.nthreads())
        except OSError:
            raise WorkersLost(
                "trees on all workers: the scheduler is gone. Nothing was published; run the command again "
                "when the scheduler is back"
            ) from None
        if lost and not found:
            raise _lost(f"worker {min(lost)} is gone")
    if found:
        return found[0]
    import lightgbm

    said = str(failed[0])
    if isinstance(failed[0], lightgbm.basic.LightGBMError):
        if "socket" in said.lower():
            raise _lost(f"a worker is gone ({said})")
        raise InvalidData(f"LightGBM cannot learn from these queries: {said}") from None
    raise failed[0]


def _lost(what: str) -> WorkersLost:
    return WorkersLost(
        f"trees on all workers: {what}, and LightGBM cannot continue without it. Nothing was published; run "
        "the command again"
    )


def _fit(
    client: Client, workers: list[str], settings: dict[str, Any], rounds: int, judged: TreeSample
) -> str:
    import dask.array
    from dask import delayed
    from lightgbm.dask import DaskLGBMRanker

    queries = _shares(judged.lengths, len(workers))
    ends = np.concatenate([[0], np.cumsum(judged.lengths)])
    documents = [slice(int(ends[part.start]), int(ends[part.stop])) for part in queries]

    def spread(array: Any, parts: list[slice]) -> Any:
        """Put a part of the array on every worker, and return the whole as Dask's."""
        placed = [
            client.scatter(np.ascontiguousarray(array[part]), workers=[worker], hash=False)
            for part, worker in zip(parts, workers, strict=False)
        ]
        return dask.array.concatenate(
            [
                dask.array.from_delayed(
                    delayed(future), (part.stop - part.start, *array.shape[1:]), dtype=array.dtype
                )
                for future, part in zip(placed, parts, strict=True)
            ]
        )

    chosen = {name: value for name, value in settings.items() if name != "num_threads"}
    ranker = DaskLGBMRanker(client=client, n_estimators=rounds, **chosen)
    ranker.fit(
        spread(judged.documents, documents),
        spread(judged.targets, documents),
        group=spread(judged.lengths, queries),
        sample_weight=None if judged.weights is None else spread(judged.weights, documents),
        init_score=None if judged.base is None else spread(judged.base, documents),
        categorical_feature=list(judged.categorical),
    )
    return str(ranker.booster_.model_to_string())


def _shares(lengths: Indices, workers: int) -> list[slice]:
    """Return the queries of every worker: whole ones, about as many documents each; none if there are too few."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    wanted = ends[-1] * np.arange(1, workers) / workers
    cuts = np.abs(ends[:, None] - wanted).argmin(axis=0)
    bounds = np.unique([0, *cuts.tolist(), len(lengths)]).tolist()
    return [slice(*pair) for pair in pairwise(bounds)]
