"""A folder becomes a ranker, or a message that names the file, what was expected and what was found.

In this order: manifest, listing, description, then each file from its size to its last number, then the probe. Each
step trusts only what the steps before it have established.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.arrays import Anything, Finite, Within
from localrank.artifact.arrays import Maps, PrivateMaps, names_in, open_file, read_up_to
from localrank.artifact.manifest import LARGEST_MANIFEST, MANIFEST, Manifest
from localrank.artifact.parts import assemble, contents, sizes_of
from localrank.artifact.scorers import StoredScorers
from localrank.errors import ArtifactCorrupt, ArtifactError, ArtifactNotFound
from localrank.points.similarity import MEASURES
from localrank.probe import Probe
from localrank.ranker import Ranker
from localrank.routing.guard import Guard, GuardedRanker
from localrank.routing.route import Route

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from localrank.arrays import Array, Content, Sizes
    from localrank.artifact.manifest import FileEntry
    from localrank.artifact.signing import TrustedKeys
    from localrank.points.representation import Representation
    from localrank.points.similarity import QueryMap
    from localrank.routing.router import Router


@dataclass(frozen=True, slots=True, eq=False)
class Artifact:
    """A version that was read and found good.

    Attributes:
        folder: where it was.
        manifest: what it says of itself.
        ranker: what it computes.
        probe: its own proof.
        query_map: the training queries in two dimensions, if it holds them.
        deviation: how much its scores differ from those of the probe, relative to the largest score of a list.
        kept: whether every file was copied to where `load` was told to keep it.
    """

    folder: Path
    manifest: Manifest
    ranker: Ranker
    probe: Probe
    deviation: float
    kept: bool = False
    query_map: QueryMap | None = None


def load(folder: Path, *, keep: Path | None = None, trusted: TrustedKeys | None = None) -> Artifact:
    """Read a version; later changes of its files do not change what was read.

    Small arrays are copied into memory. Large ones are copied to unnamed temporary files and mapped from there. If a file
    does not fit on the disk, its array is copied into memory.

    Args:
        folder: of the version.
        keep: an empty folder that gets a copy of every file, from which large arrays are mapped and other processes can
            `attach` the version. If the copies do not fit, the version is still read, and
            `Artifact.kept` is false.
        trusted: public keys; one of them must have signed the version. ``None`` asks for no signature.

    Raises:
        ArtifactNotFound: there is no such folder.
        ArtifactUntrusted: no trusted key has signed it.
        ArtifactIncompatible: it is of a format that this code does not read.
        ArtifactCorrupt: it is not what its manifest says, or could not be used safely.
        ProbeMismatch: it does not rank here as it did where it was published.
    """
    return _read(Path(folder), PrivateMaps(keep), trusted)


def attach(folder: Path) -> Artifact:
    """Read a version that `load` has kept: large arrays are mapped where they are, without a check.

    The folder must be one that nobody changes: a file that is edited changes what the ranker does, and one that is cut
    short kills the process. It raises the same errors as `load`.
    """
    return _read(Path(folder), Maps(trusted=True))


def verify(folder: Path, *, trusted: TrustedKeys | None = None) -> Artifact:
    """Read all of a version where it is, to tell whether it is good; raise what `load` raises.

    What it returns is for looking at while nobody changes the files.
    """
    return _read(Path(folder), Maps(), trusted)


def read_manifest(folder: Path) -> Manifest:
    """Read what a version says of itself, without looking at any other file; for lists, never for ranking."""
    folder = Path(folder)
    with opened(folder) as handle:
        return _parsed(read_sealed(handle, folder), folder)


def _read(folder: Path, maps: Maps, trusted: TrustedKeys | None = None) -> Artifact:
    with opened(folder) as handle:
        content = read_sealed(handle, folder, trusted)
        manifest = _parsed(content, folder)
        ranker, probe, query_map = _read_files(handle, manifest, maps)
        deviation = probe.check(ranker, after_each=maps.release)
        if isinstance(maps, PrivateMaps):
            maps.keep(MANIFEST, content)
        kept = isinstance(maps, PrivateMaps) and maps.whole
        return Artifact(folder, manifest, ranker, probe, deviation, kept, query_map)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Open a version's folder. Every error that is raised meanwhile begins with its path."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ArtifactNotFound(f"{folder}: expected the folder of a version, found none") from None
    except OSError as error:
        raise ArtifactCorrupt(f"{folder}: cannot open the folder of a version: {error.strerror}") from None
    try:
        yield handle
    except ArtifactError as error:
        raise type(error)(f"{folder}: {error}") from error.__cause__
    except OSError as error:
        raise ArtifactCorrupt(f"{folder}: cannot be read: {error.strerror or error}") from error
    finally:
        os.close(handle)


def _read_files(folder: int, manifest: Manifest, maps: Maps) -> tuple[Ranker, Probe, QueryMap | None]:
    check_listing(manifest.files, names_in(folder) - {MANIFEST})

    stored = StoredScorers(manifest.raw["scorers"], manifest.contract)
    if stored.n_clusters != len(manifest.clusters):
        raise ArtifactCorrupt(
            f"{MANIFEST}: scorers: expected one for each of {len(manifest.clusters)} clusters, "
            f"found {stored.n_clusters}"
        )
    rules = _rules(manifest, stored)
    if unused := sorted(manifest.files.keys() - rules.keys()):
        raise ArtifactCorrupt(
            f"{MANIFEST}: files: expected only files that the model uses, found {unused[0]!r}"
        )

    arrays: dict[str, Array] = {
        name: maps.read(folder, name, manifest.files[name], rule) for name, rule in rules.items()
    }
    representation: Representation = assemble(manifest.raw["representation"], "representation", arrays)
    router: Router = assemble(manifest.raw["router"], "router", arrays)
    if router.compares is not None and not isinstance(router.compares, representation.points):
        raise ArtifactCorrupt(
            f"{MANIFEST}: router: expected points of the representation {representation.method!r} "
            f"({representation.points.__name__}), found {type(router.compares).__name__}"
        )
    if router.takes is not None and not issubclass(representation.points, router.takes):
        raise ArtifactCorrupt(
            f"{MANIFEST}: router: expected a representation that makes {router.takes.__name__}, as {router.strategy!r} "
            f"takes, found {representation.method!r} ({representation.points.__name__})"
        )
    scorers, global_scorer = stored.rebuild(arrays)
    parts = (manifest.contract, representation, router, scorers, global_scorer)
    guard = _guard(manifest)
    ranker = Ranker(*parts) if guard is None else GuardedRanker(*parts, guard)
    return ranker, _probe(manifest, arrays), _query_map(manifest, arrays, ranker)


def _query_map(manifest: Manifest, arrays: Mapping[str, Array], ranker: Ranker) -> QueryMap | None:
    """Return the map of a version that has one."""
    if "map" not in manifest.raw:
        return None
    found: QueryMap = assemble(manifest.raw["map"], "map", arrays)
    kind = ranker.representation.points
    if found.points is not None and not isinstance(found.points, kind):
        raise ArtifactCorrupt(
            f"{MANIFEST}: map: expected points of the representation {ranker.representation.method!r} "
            f"({kind.__name__}), found {type(found.points).__name__}"
        )
    if not issubclass(kind, takes := MEASURES[found.similarity].takes):
        raise ArtifactCorrupt(
            f"{MANIFEST}: map: similarity: {found.similarity!r} compares {takes.__name__}, found {kind.__name__}"
        )
    return found


def _guard(manifest: Manifest) -> Guard | None:
    """Return the guard of a version that has one."""
    if "guard" not in manifest.raw:
        return None
    try:
        return Guard.from_json(manifest.raw["guard"])
    except ValueError as error:
        raise ArtifactCorrupt(f"{MANIFEST}: guard: {error}") from None


def read_sealed(handle: int, folder: Path, trusted: TrustedKeys | None = None) -> bytes:
    """Return the bytes of the manifest in an open folder, which a trusted key has signed if there are such keys."""
    with open_file(handle, MANIFEST) as file:
        content = read_up_to(file, LARGEST_MANIFEST + 1)
    if trusted is not None:
        # This comes before anything in it is used.
        trusted.check(folder, content)
    return content


def _parsed(content: bytes, folder: Path) -> Manifest:
    manifest = Manifest.parse(content)
    check_number(folder, manifest.version)
    return manifest


def check_number(folder: Path, version: int) -> None:
    """Refuse a version in a folder whose name is another number."""
    number = folder.absolute().name
    if number.isdecimal() and number != str(version):
        raise ArtifactCorrupt(
            f"{MANIFEST}: version: expected {number}, as the folder is named, found {version}"
        )


def check_listing(expected: Mapping[str, FileEntry], found: set[str]) -> None:
    """Refuse a folder that has other files than these."""
    if missing := sorted(expected.keys() - found):
        raise ArtifactCorrupt(f"{missing[0]}: expected a file that the manifest lists, found none")
    if extra := sorted(found - expected.keys()):
        raise ArtifactCorrupt(f"{extra[0]}: expected only files that the manifest lists, found one more")


def _rules(manifest: Manifest, stored: StoredScorers) -> dict[str, Content]:
    """Return for every file of the model what must hold for its numbers; check dtypes and shapes on the way."""
    n_features, n_columns = manifest.contract.n_features, manifest.contract.n_columns
    sizes: Sizes = {
        "clusters": len(manifest.clusters),
        **sizes_of(manifest.raw["representation"], "representation", n_columns),
        "features": n_columns,
        "plane": 2,
    }
    rules: dict[str, Content] = {}
    for part in ("representation", "router", *(["map"] if "map" in manifest.raw else [])):
        rules |= contents(manifest.raw[part], part, manifest.files, sizes)
    for name, (dtype, length) in stored.files.items():
        expect(manifest.files, name, dtype, (length,))
        rules[name] = Anything()
    queries = len(manifest.raw["probe"])
    if not queries:
        raise ArtifactCorrupt(f"{MANIFEST}: probe: expected at least one query, found none")
    expect(manifest.files, "probe.lengths.npy", "int64", (queries,))
    scores = manifest.files.get("probe.scores.npy")
    total = scores.shape[0] if scores is not None and len(scores.shape) == 1 else 0
    expect(manifest.files, "probe.scores.npy", "float64", (total,))
    expect(manifest.files, "probe.documents.npy", "float32", (total, n_features))
    return {
        **rules,
        "probe.lengths.npy": Within(1, total),
        "probe.scores.npy": Finite(),
        "probe.documents.npy": Anything(),
    }


def expect(files: Mapping[str, FileEntry], name: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Refuse a file that is not there, or of another dtype or shape."""
    entry = files.get(name)
    if entry is None:
        raise ArtifactCorrupt(f"{MANIFEST}: files: expected {name!r}, found none")
    if entry.dtype != dtype:
        raise ArtifactCorrupt(f"{name}: expected {dtype}, found {entry.dtype}")
    if entry.shape != shape:
        raise ArtifactCorrupt(f"{name}: expected shape {shape}, found {entry.shape}")


def _probe(manifest: Manifest, arrays: Mapping[str, Array]) -> Probe:
    lengths = [int(length) for length in arrays["probe.lengths.npy"]]
    documents = np.asarray(arrays["probe.documents.npy"], np.float32)
    scores = np.asarray(arrays["probe.scores.npy"], np.float64)
    if sum(lengths) != len(documents):
        raise ArtifactCorrupt(
            f"probe.lengths.npy: expected lengths that add up to {len(documents)}, found {sum(lengths)}"
        )
    stops = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    ranges = [slice(stop - length, stop) for length, stop in zip(lengths, stops, strict=True)]
    return Probe(
        documents=tuple(documents[one] for one in ranges),
        routes=tuple(_route(i, members) for i, members in enumerate(manifest.raw["probe"])),
        scores=tuple(scores[one] for one in ranges),
    )


def _route(position: int, members: Any) -> Route:
    known = set(Route._fields)
    if (
        not isinstance(members, dict)
        or not known - Route._field_defaults.keys() <= set(members) <= known
        or not isinstance(members.get("shares", []), list)
    ):
        raise ArtifactCorrupt(
            f"{MANIFEST}: probe: expected the route of query {position}, found {members!r:.60}"
        )
    return Route(**{**members, "shares": tuple(members.get("shares", ()))})
