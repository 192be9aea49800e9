"""Writing a ranker to a folder. The folder gets its name only when it is complete, verified and on the disk.

The same ranker and provenance give the same bytes.

Where a version is written until it is complete: in a hidden folder beside its place. Renaming this folder is the
last step.

A process that is killed leaves a hidden folder, which readers ignore and the next publisher sweeps away. A lock on a
file beside it ends with the process, so it shows whether the folder is still being written or was left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.artifact.arrays import write_array
from localrank.artifact.manifest import MANIFEST, MEMBERS, Cluster, Manifest, compose
from localrank.artifact.parts import describe
from localrank.artifact.reading import verify
from localrank.artifact.scorers import dismantle
from localrank.disk import sync, write_synced
from localrank.errors import ArtifactError, PublishFailed
from localrank.probe import Probe
from localrank.routing.guard import GuardedRanker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank.arrays import Array, Matrix
    from localrank.artifact.manifest import Members
    from localrank.points.similarity import QueryMap
    from localrank.ranker import Ranker

_PREFIX = ".staging-"
_LOCK = ".lock"


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """Make an empty hidden folder in ``parent``; remove what is left of it afterwards."""
    while True:
        folder = parent / f"{_PREFIX}{secrets.token_hex(8)}"
        lock = folder.with_name(folder.name + _LOCK)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_still(lock, handle):
                continue  # Another publisher removed it between the two lines above.
            try:
                folder.mkdir()
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                lock.unlink(missing_ok=True)
        finally:
            os.close(handle)
        return


def sweep(parent: Path) -> list[str]:
    """Remove the hidden folders whose makers are gone; return their names."""
    swept = []
    for lock in parent.glob(f"{_PREFIX}*{_LOCK}"):
        folder = lock.with_name(lock.name.removesuffix(_LOCK))
        with contextlib.suppress(OSError):
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                lock.unlink(missing_ok=True)
                swept.append(folder.name)
            finally:
                os.close(handle)
    return swept


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a family: one process at a time numbers versions and moves aliases."""
    path = folder / _LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_still(path, handle):
                continue  # The family was removed and made anew meanwhile.
            yield
        finally:
            os.close(handle)
        return


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class Provenance:
    """What a version says about itself, besides the ranker.

    Attributes:
        created: when, such as ``2026-01-31T12:00:00Z``.
        source: fingerprint of the data, whole training configuration, library versions, every seed.
        probe: documents of the probe queries (see `localrank.probe.choose`); at least one.
        clusters: one per scorer; by default only their sizes, counted by the router.
        metrics: held-out figures against the global model with their significance.
        notes: what is worth saying, degenerate clusters above all.
        stability: how much the clusters move under resampling.
        query_map: the training queries in two dimensions.
    """

    created: str
    source: Mapping[str, Any]
    probe: Sequence[Matrix]
    clusters: Sequence[Cluster] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[Any] = ()
    stability: Mapping[str, Any] = field(default_factory=dict)
    query_map: QueryMap | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A version that is complete except for its name: a hidden folder with every array.

    Attributes:
        folder: the hidden one.
        members: of the manifest, except for name and version.
        kind: of the manifest.
        check: reads a version and raises what is wrong with it.
    """

    folder: Path
    members: Mapping[str, Any]
    kind: Members
    check: Callable[[Path], object]

    def place(self, target: Path, name: str, version: int) -> bytes:
        """Write the manifest and rename the folder to ``target``; return the manifest.

        Raises:
            OSError: there is a version already, or the disk does not take it.
        """
        content = self._write_manifest(name, version)
        self.folder.rename(target)
        try:
            sync(target.parent)
        except OSError:
            # If publishing fails, the version must not be there.
            target.rename(self.folder)
            raise
        return content

    def verify(self) -> None:
        """Read back what was written."""
        try:
            self._write_manifest("draft", 1)
            self.check(self.folder)
        except ArtifactError as error:
            raise PublishFailed(f"expected a version that verifies, found {error}") from error

    def _write_manifest(self, name: str, version: int) -> bytes:
        content = compose({"name": name, "version": version, **self.members}, self.kind)
        write_synced(self.folder / MANIFEST, content)
        sync(self.folder)
        return content


@contextmanager
def written(
    parent: Path,
    members: Mapping[str, Any],
    arrays: Mapping[str, Array],
    kind: Members,
    check: Callable[[Path], object],
) -> Iterator[Draft]:
    """Write arrays into a hidden folder in ``parent``, and verify what was written.

    Args:
        parent: where the version will be.
        members: of the manifest, except for files, name and version.
        arrays: by the names of their files.
        kind: of the manifest.
        check: reads a version and raises what is wrong with it.
    """
    with staging(parent) as folder:
        files = {name: write_array(folder / name, array).to_json() for name, array in sorted(arrays.items())}
        draft = Draft(folder, {**members, "files": files}, kind, check)
        draft.verify()
        yield draft


@contextmanager
def drafted(parent: Path, ranker: Ranker, provenance: Provenance) -> Iterator[Draft]:
    """Write every array of a version into a hidden folder in ``parent``, and verify what was written."""
    probe = Probe.record(ranker, provenance.probe)
    representation, representation_arrays = describe(ranker.representation, "representation")
    router, router_arrays = describe(ranker.router, "router")
    scorers, scorer_arrays = dismantle(ranker.scorers, ranker.global_scorer)
    probe_arrays: dict[str, Array] = {
        "probe.documents.npy": np.concatenate(probe.documents),
        "probe.lengths.npy": np.array([len(query) for query in probe.documents], np.int64),
        "probe.scores.npy": np.concatenate(probe.scores),
    }
    arrays = {**representation_arrays, **router_arrays, **scorer_arrays, **probe_arrays}
    mapped: dict[str, Any] = {}
    if provenance.query_map is not None:
        mapped["map"], map_arrays = describe(provenance.query_map, "map")
        arrays |= map_arrays
    members = {
        "created": provenance.created,
        "source": provenance.source,
        "contract": ranker.contract.to_json(),
        "contract_hash": ranker.contract.digest,
        "representation": representation,
        "router": router,
        **({"guard": ranker.guard.to_json()} if isinstance(ranker, GuardedRanker) else {}),
        **mapped,
        "scorers": scorers,
        "clusters": [cluster.to_json() for cluster in _clusters(ranker, provenance)],
        "metrics": provenance.metrics,
        "notes": list(provenance.notes),
        "stability": provenance.stability,
        "probe": [route._asdict() for route in probe.routes],
    }
    with written(parent, members, arrays, MEMBERS, verify) as draft:
        yield draft


def save(folder: Path, ranker: Ranker, provenance: Provenance) -> Manifest:
    """Write a version to ``folder``, which must not exist.

    Its name and version are the last two parts of the path, as in ``models/web/3``; a folder whose name is not a
    number is version 1 of that name.

    Raises:
        PublishFailed: it could not be written, or did not verify; nothing is left behind.
    """
    numbered = folder.name.isdecimal() and folder.name.isascii()
    name, version = (folder.resolve().parent.name, int(folder.name)) if numbered else (folder.name, 1)
    if folder.exists():
        raise PublishFailed(f"{folder}: expected no such folder, found one; a version is never modified")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with drafted(folder.parent, ranker, provenance) as draft:
            return Manifest.parse(draft.place(folder, name, version))
    except OSError as error:
        raise PublishFailed(f"{folder}: cannot write a version: {error.strerror or error}") from error


def _clusters(ranker: Ranker, provenance: Provenance) -> Sequence[Cluster]:
    if not provenance.clusters:
        return [Cluster(int(size)) for size in ranker.router.sizes(len(ranker.scorers))]
    if len(provenance.clusters) != len(ranker.scorers):
        raise PublishFailed(
            f"expected one entry for each of {len(ranker.scorers)} clusters, found {len(provenance.clusters)}"
        )
    return provenance.clusters
