"""Pieces of work on the workers of a Dask cluster, on one machine or on many.

`dask_workers` connects; inside it everything that `localrank_training.parallel` would do with processes runs on the cluster, and
the results are the same. Large arrays travel apart from the pieces that need them: an array is sent once, however many
pieces refer to it, and workers fetch it from each other. What is mapped from a file that all workers see is not sent: they
read it. A piece of work then names file, place and shape. It is the same file if it has the same path and size and the same
bytes at places spread over it; copies of it on the machines are as good as one shared volume. Scheduling is Dask's.

A worker that dies costs time: its pieces run elsewhere, and arrays that only it held are sent again. What cannot go on (a piece that
ends every worker, a scheduler that is gone) ends the run with one sentence. Nothing is published before a run is over.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import platform
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from localrank import __version__
from localrank.arrays import Array  # noqa: TC001
from localrank.errors import InvalidConfiguration, WorkersLost
from localrank.extras import installing
from localrank_training.parallel.processes import alone, available_cores, elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from distributed import Client, Future

T = TypeVar("T")
#: With this address, workers are started on this machine for the run.
LOCAL = "local"
#: Seconds to reach the scheduler, and to wait for a first worker.
_PATIENCE = 20.0
#: Arrays of fewer bytes travel with the piece.
_LARGE = 1 << 18
#: Pieces that are waiting at the cluster, per thread of it.
_AHEAD = 2
#: Places of a file that are compared, and bytes at each.
_PLACES, _BYTES = 64, 4096
#: How often a piece is sent again because what it needs was lost.
_AGAIN = 5


@contextmanager
def dask_workers(address: str, *, memory: str | None = None) -> Iterator[DaskWorkers]:
    """Run what follows on the workers of a cluster.

    Args:
        address: of the scheduler, such as ``tcp://10.0.0.5:8786``; ``local`` starts workers on this machine.
        memory: of each local worker, such as ``2GiB``; by default a fair share.

    Raises:
        InvalidConfiguration: there is no such scheduler, it has no workers, or they run other versions.
    """
    try:
        import distributed
    except ModuleNotFoundError as error:
        if error.name not in {"distributed", "dask"}:
            raise
        raise InvalidConfiguration(f"--dask needs distributed: {installing('dask')}") from None
    with ExitStack() as stack:
        where = address
        if address == LOCAL:
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=available_cores(),
                    threads_per_worker=1,
                    processes=True,
                    # A port that is free; without a name for it Dask would want 8787.
                    dashboard_address="127.0.0.1:0",
                    memory_limit=memory or "auto",
                    silence_logs=50,
                )
            )
            where = cluster.scheduler_address
        else:
            _check_address(address)
        try:
            client = stack.enter_context(distributed.Client(where, timeout=_PATIENCE, set_as_default=False))
        except (TimeoutError, OSError, ValueError) as error:
            raise InvalidConfiguration(
                f"--dask {address}: expected a Dask scheduler, found none: {_first_line(error)}"
            ) from None
        workers = DaskWorkers(client, address)
        workers.check()
        with elsewhere(workers):
            yield workers


def _check_address(address: str) -> None:
    """Refuse a text that is not an address. Otherwise the client would wait, and log errors again when it is deleted.

    Raises:
        InvalidConfiguration: it has an unknown scheme, or no host or port.
    """
    from distributed.comm.addressing import parse_address, parse_host_port
    from distributed.comm.registry import get_backend

    expected = (
        f"--dask {address}: expected the address of a Dask scheduler, such as tcp://10.0.0.5:8786, or local"
    )
    try:
        scheme, place = parse_address(address)
        get_backend(scheme)
        host, port = (place, 1) if scheme == "inproc" else parse_host_port(place)
    except ValueError as error:
        raise InvalidConfiguration(f"{expected}, found: {_first_line(error)}") from None
    if not host or not 0 < port < 1 << 16:
        raise InvalidConfiguration(f"{expected}, found the host {host!r} and the port {port}")


class DaskWorkers:
    """The workers of a cluster, for `localrank_training.parallel`.

    Args:
        client: connected to the scheduler.
        address: as the user wrote it, for messages.
    """

    def __init__(self, client: Client, address: str) -> None:
        self._client, self._address = client, address
        self._sent: dict[str, Future] = {}
        self._stamps: dict[str, str] = {}
        #: What the user should know of the run.
        self.notes: list[str] = []

    @property
    def scheduler(self) -> str:
        """The address of the scheduler."""
        return str(self._client.scheduler.address)

    @property
    def threads(self) -> int:
        """How many pieces the cluster works on at a time, at least two."""
        return max(2, sum(int(count) for count in self._client.nthreads().values()))

    def check(self) -> None:
        """Wait for a first worker, and compare the versions of all.

        Raises:
            InvalidConfiguration: there is none, or one differs.
        """
        try:
            self._client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise InvalidConfiguration(
                f"--dask {self._address}: expected a worker within {_PATIENCE:.0f} s, found none; start some with "
                f"'dask worker {self._address}'"
            ) from None
        ours = _versions()
        for worker, theirs in self._client.run(_versions_there, on_error="return").items():
            if not isinstance(theirs, dict):
                raise InvalidConfiguration(
                    f"--dask {self._address}: worker {worker}: expected localrank {ours['localrank']} to be installed, "
                    f"found: {_first_line(theirs)}"
                )
            for name, version in ours.items():
                if theirs[name] != version:
                    raise InvalidConfiguration(
                        f"--dask {self._address}: worker {worker}: expected {name} {version} as here, found {theirs[name]}"
                    )

    def each(self, work: Callable[..., T], pieces: Sequence[tuple[Any, ...]]) -> Generator[T, None, None]:
        """Yield ``work(*piece)`` for every piece, in their order.

        Raises:
            WorkersLost: the cluster cannot finish.
        """
        ahead = _AHEAD * self.threads
        running: dict[int, Future] = {}
        needed: set[str] = set()
        try:
            for number, piece in enumerate(pieces):
                for coming in range(number, min(number + ahead, len(pieces))):
                    if coming not in running:
                        running[coming] = self._send(work, pieces[coming], needed)
                yield self._result(running, number, work, piece, needed)
                del running[number]
        finally:
            # A caller who stops halfway may have left the cluster before this runs.
            if self._connected():
                self._client.cancel(list(running.values()))
            # The next call will probably need the same arrays as the last one, such as the judged queries.
            for digest in set(self._sent) - needed:
                del self._sent[digest]

    def _result(
        self,
        running: dict[int, Future],
        number: int,
        work: Callable[..., T],
        piece: tuple[Any, ...],
        needed: set[str],
    ) -> T:
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        for _ in range(_AGAIN):
            try:
                result: T = running[number].result()
            except KilledWorker as error:
                raise WorkersLost(
                    f"--dask {self._address}: a piece of work ended every worker that ran it, "
                    f"{error.last_worker.address} last; the workers may have too little memory. Nothing was "
                    "published"
                ) from None
            except (CancelledError, CommClosedError):
                # Data that only a lost worker held are gone.
                if not self._connected():
                    raise WorkersLost(
                        f"--dask {self._address}: the scheduler is gone. Nothing was published; run the "
                        "command again when the scheduler is back"
                    ) from None
                self._forget_lost()
                running[number] = self._send(work, piece, needed)
            except FileGone as error:
                # A worker that joined later, or a volume that is gone.
                self._unseen(str(error), "a worker")
                running[number] = self._send(work, piece, needed)
            else:
                return result
        raise WorkersLost(
            f"--dask {self._address}: the data of a piece of work were lost {_AGAIN} times, because the "
            "workers that held them ended. Nothing was published"
        )

    def _send(self, work: Callable[..., T], piece: tuple[Any, ...], needed: set[str]) -> Future:
        content, arrays = _apart((work, piece), self._seen)
        needed.update(arrays)
        for digest, array in arrays.items():
            if digest not in self._sent:
                self._sent[digest] = self._place(array)
        return self._client.submit(
            _run, content, {digest: self._sent[digest] for digest in arrays}, pure=False
        )

    def _seen(self, array: Array) -> FilePart | None:
        """Return where workers can read an array, if all of them can."""
        found = part_of(array)
        if found is None:
            return None
        path, offset = found
        if path not in self._stamps:
            self._stamps[path] = stamp = stamp_of(path)
            theirs = self._client.run(stamp_of, path, on_error="return")
            others = sorted(worker for worker, one in theirs.items() if one != stamp)
            if others:
                self._unseen(path, f"worker {others[0]}")
        stamp = self._stamps[path]
        return FilePart(path, offset, array.dtype.str, array.shape, stamp) if stamp else None

    def _unseen(self, path: str, worker: str) -> None:
        if self._stamps.get(path):
            self.notes.append(
                f"--dask {self._address}: {worker} does not have the same file at {path}; its content is sent "
                "instead"
            )
        self._stamps[path] = ""

    def _place(self, array: Array) -> Future:
        try:
            # Under a new name: contents are compared here, and lost arrays must not count as sent.
            return self._client.scatter(array, hash=False, broadcast=False)
        except (OSError, TimeoutError) as error:
            raise WorkersLost(
                f"--dask {self._address}: no worker accepted the data that it was sent: {_first_line(error)}. "
                "Nothing was published"
            ) from None

    def _connected(self) -> bool:
        return str(self._client.status) == "running"

    def _forget_lost(self) -> None:
        for digest, future in list(self._sent.items()):
            if future.status in {"lost", "cancelled", "error"}:
                del self._sent[digest]


def _run(content: bytes, arrays: dict[str, Array]) -> Any:
    """Do a piece of work; this runs on a worker."""
    work, piece = _together(content, arrays)
    return alone(work, piece)


def _apart(
    value: Any, seen: Callable[[Array], FilePart | None] = lambda _: None
) -> tuple[bytes, dict[str, Array]]:
    """Return a value as bytes that refer to its large arrays by digest, and these.

    Those that workers have ``seen`` are referred to by file and place, and are not among them.
    """
    arrays: dict[str, Array] = {}

    class ArrayPacker(pickle.Pickler):
        def persistent_id(self, obj: Any) -> str | FilePart | None:
            if not isinstance(obj, np.ndarray) or obj.nbytes < _LARGE or obj.dtype.hasobject:
                return None
            if (part := seen(obj)) is not None:
                return part
            plain = np.ascontiguousarray(obj)
            label = (
                f"{plain.dtype.str} {plain.shape} {hashlib.blake2b(plain.data, digest_size=20).hexdigest()}"
            )
            arrays[label] = plain
            return label

    file = io.BytesIO()
    ArrayPacker(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue(), arrays


def _together(content: bytes, arrays: dict[str, Array]) -> Any:
    """Undo `_apart`."""

    class ArrayUnpacker(pickle.Unpickler):
        def persistent_load(self, pid: str | FilePart) -> Array:
            return arrays[pid] if isinstance(pid, str) else read_part(pid)

    return ArrayUnpacker(io.BytesIO(content)).load()


def _versions() -> dict[str, str]:
    """Return the versions that results may depend on. They must be equal on all machines."""
    return {
        "localrank": __version__,
        "Python": ".".join(map(str, sys.version_info[:2])),
        "numpy": np.__version__,
        "processor": platform.machine(),
    }


def _versions_there() -> dict[str, str]:
    """Return the same of a worker; it is sent by name, so the worker needs this package."""
    return _versions()


def _first_line(error: object) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


class FileGone(Exception):
    """A worker does not see the file that it was to read, or another one."""


class FilePart(NamedTuple):
    """Where an array lies.

    Attributes:
        path: of the file, absolute.
        offset: in bytes.
        dtype, shape: of the array, whose last axis is contiguous.
        stamp: of the file, see `stamp_of`.
    """

    path: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    stamp: str


def part_of(array: Array) -> tuple[str, int] | None:
    """Return the file and the place in it of an array that is mapped read-only, contiguous as it lies; else ``None``."""
    if not array.flags.c_contiguous or array.flags.writeable:
        return None
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not isinstance(root, np.memmap) or root.mode != "r" or root.filename is None:
        return None
    begin, first = (int(one.__array_interface__["data"][0]) for one in (array, root))
    return str(Path(str(root.filename)).resolve()), int(root.offset) + begin - first


def read_part(part: FilePart) -> Array:
    """Map it.

    Raises:
        FileGone: there is no such file here, or another one.
    """
    if stamp_of(part.path) != part.stamp:
        raise FileGone(part.path)
    return np.memmap(part.path, np.dtype(part.dtype), "r", part.offset, part.shape)


def stamp_of(path: str) -> str:
    """Return what tells a file from others; empty if it cannot be read."""
    digest = hashlib.blake2b(digest_size=20)
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            for place in np.linspace(0, max(size - _BYTES, 0), _PLACES).astype(np.int64).tolist():
                file.seek(place)
                digest.update(file.read(_BYTES))
    except OSError:
        return ""
    return f"{size} {digest.hexdigest()}"
