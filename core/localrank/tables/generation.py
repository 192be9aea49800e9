"""A generation of a table on disk: a manifest and four arrays, written, read and verified as versions of models are.

docs/understand/artifact-format.md defines the format. `load` reads one in such a way that later changes of its files change
nothing, `attach` reads what `load` has kept.
"""

from __future__ import annotations

import re
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from localrank.arrays import Anything, Within
from localrank.artifact.arrays import Maps, PrivateMaps, names_in
from localrank.artifact.manifest import (
    MANIFEST,
    FileEntry,
    Members,
    briefly,
    files_of,
    unsealed,
)
from localrank.artifact.reading import check_listing, check_number, expect, opened, read_sealed
from localrank.artifact.writing import written
from localrank.errors import ArtifactCorrupt, PublishFailed
from localrank.features.columns import CELLS, portions
from localrank.features.feature import Feature
from localrank.native.items import PackedTexts, Slots
from localrank.tables.ids import KEY, hashes, key_of, packed, places_for, repeated, slots_of
from localrank.tables.table import ItemTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from localrank.arrays import Array, Content, Matrix
    from localrank.artifact.signing import TrustedKeys
    from localrank.artifact.writing import Draft

#: Every member of the manifest of a generation, in the order of the file.
MEMBERS = Members(
    {
        "format_version": int,
        "sha256": str,
        "name": str,
        "version": int,
        "created": str,
        "source": dict,
        "items": int,
        "key": str,
        "columns": list,
        "files": dict,
    }
)
#: Values of a category, columns, and bytes of an id and of all ids.
MOST_VALUES, MOST_COLUMNS, LONGEST_ID, MOST_TEXT = 1_000_000, 10_000, 1024, 2**32 - 1
_KINDS = ("number", "category")
_KEY = re.compile(rf"[0-9a-f]{{{2 * KEY}}}")
_CONTENT, _ENDS, _SLOTS, _VALUES = "ids.npy", "ends.npy", "slots.npy", "values.npy"


@dataclass(frozen=True, slots=True, eq=False)
class TableManifest:
    """A manifest of a generation that has been checked.

    Attributes:
        sha256: of the manifest, which holds those of all other files.
        name, version: of the table, and the number of the generation.
        created: when, as the publisher wrote it.
        source: where it comes from, as the publisher wrote it.
        columns: name, kind and values of each.
        items: how many there are.
        key: of the hash of ids.
        files: every other file.
        raw: all members.
    """

    sha256: str
    name: str
    version: int
    created: str
    source: Mapping[str, Any]
    columns: tuple[Feature, ...]
    items: int
    key: str
    files: Mapping[str, FileEntry]
    raw: Mapping[str, Any]

    @property
    def size(self) -> int:
        """The bytes of all other files."""
        return sum(entry.size for entry in self.files.values())

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Read and check the bytes of ``manifest.json``.

        Raises:
            ArtifactIncompatible: it is of a format that this code does not read.
            ArtifactCorrupt: anything else is wrong with it.
        """
        raw = unsealed(content, MEMBERS)
        if not _KEY.fullmatch(raw["key"]):
            raise ArtifactCorrupt(
                f"{MANIFEST}: key: expected {2 * KEY} hexadecimal digits, found {briefly(raw['key'])}"
            )
        if not 0 <= raw["items"] < 2**32 - 1:
            raise ArtifactCorrupt(f"{MANIFEST}: items: expected 0 or more, found {raw['items']}")
        columns = tuple(_column(position, one) for position, one in enumerate(raw["columns"]))
        if not columns or len(columns) > MOST_COLUMNS:
            raise ArtifactCorrupt(f"{MANIFEST}: columns: expected 1 to {MOST_COLUMNS}, found {len(columns)}")
        if len({one.name for one in columns}) < len(columns):
            raise ArtifactCorrupt(f"{MANIFEST}: columns: expected every name once, found one twice")
        return cls(
            raw["sha256"],
            raw["name"],
            raw["version"],
            raw["created"],
            raw["source"],
            columns,
            raw["items"],
            raw["key"],
            files_of(raw),
            raw,
        )


def _column(position: int, members: Any) -> Feature:
    try:
        name, kind, values = members["name"], members["kind"], members.get("values", [])
        if (
            set(members) == {"name", "kind"} | ({"values"} if kind == "category" else set())
            and isinstance(name, str)
            and kind in _KINDS
            and isinstance(values, list)
            and len(values) <= MOST_VALUES
            and all(isinstance(one, str) for one in values)
            and len(set(values)) == len(values)
        ):
            return Feature(name, kind, tuple(values))
    except (AttributeError, KeyError, TypeError):
        pass
    raise ArtifactCorrupt(
        f"{MANIFEST}: columns: {position}: expected a name, a kind and different values of a category, found "
        f"{briefly(members)}"
    )


@contextmanager
def drafted(
    parent: Path,
    columns: Sequence[Feature],
    ids: Sequence[Any],
    values: Matrix,
    *,
    created: str,
    source: Mapping[str, Any],
) -> Iterator[Draft]:
    """Write a generation into a hidden folder in ``parent``, and verify what was written.

    Args:
        parent: folder of the table.
        columns: name, kind and values of each.
        ids: ``[n_items]`` texts or whole numbers.
        values: ``[n_items, n_columns]``, codes for categories; NaN for no value.
        created: when, as text.
        source: where it comes from.

    Raises:
        PublishFailed: an id is empty, too long or there twice; there are too many; a value is infinite.
    """
    key = secrets.token_hex(KEY)
    texts = packed(ids)
    hashed = hashes(key_of(key), texts)
    _check_ids(texts, repeated(hashed, texts))
    values = np.ascontiguousarray(values, np.float32)
    arrays: dict[str, Array] = {
        _CONTENT: texts.content,
        _ENDS: texts.ends.astype(np.uint32),
        _SLOTS: slots_of(hashed),
        _VALUES: values,
    }
    members = {
        "created": created,
        "source": source,
        "items": len(values),
        "key": key,
        "columns": [
            {"name": one.name, "kind": one.kind}
            | ({"values": list(one.values)} if one.kind == "category" else {})
            for one in columns
        ],
    }
    with written(parent, members, arrays, MEMBERS, verify) as draft:
        yield draft


def _check_ids(texts: PackedTexts, twice: tuple[int, int] | None) -> None:
    sizes = np.diff(texts.ends)
    if len(wrong := np.flatnonzero((sizes == 0) | (sizes > LONGEST_ID))):
        row = int(wrong[0])
        found = "nothing" if not sizes[row] else f"{sizes[row]} bytes"
        raise PublishFailed(f"row {row + 1}: expected an id of 1 to {LONGEST_ID} bytes, found {found}")
    if twice is not None:
        row, first = twice
        text = texts.content[texts.ends[row] : texts.ends[row + 1]].tobytes().decode(errors="replace")
        raise PublishFailed(
            f"row {row + 1}: expected every id once, found {text[:60]!r} again, after row {first + 1}"
        )
    if texts.ends[-1] > MOST_TEXT:
        raise PublishFailed(f"expected at most {MOST_TEXT} bytes of ids, found {texts.ends[-1]}")


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A generation that was read and found good.

    Attributes:
        folder: where it was.
        manifest: what it says of itself.
        table: what it holds.
        kept: whether every file was copied to where `load` was told to keep it.
    """

    folder: Path
    manifest: TableManifest
    table: ItemTable
    kept: bool = False


def load(folder: Path, *, keep: Path | None = None, trusted: TrustedKeys | None = None) -> Generation:
    """Read a generation as `localrank.artifact.load` reads a version, with the same arguments and errors."""
    return _read(folder, PrivateMaps(keep), trusted)


def attach(folder: Path) -> Generation:
    """Read a generation that `load` has kept, without a check of its large arrays; nobody may change the folder."""
    return _read(folder, Maps(trusted=True))


def verify(folder: Path, *, trusted: TrustedKeys | None = None) -> Generation:
    """Read all of a generation where it is, to tell whether it is good; raise what `load` raises."""
    return _read(folder, Maps(), trusted)


def read_manifest(folder: Path) -> TableManifest:
    """Read what a generation says of itself, without looking at any other file."""
    with opened(folder) as handle:
        return TableManifest.parse(read_sealed(handle, folder))


def _read(folder: Path, maps: Maps, trusted: TrustedKeys | None = None) -> Generation:
    with opened(folder) as handle:
        content = read_sealed(handle, folder, trusted)
        manifest = TableManifest.parse(content)
        check_number(folder, manifest.version)
        check_listing(manifest.files, names_in(handle) - {MANIFEST})
        arrays: dict[str, Any] = {
            name: maps.read(handle, name, manifest.files[name], rule)
            for name, rule in _rules(manifest).items()
        }
        key = key_of(manifest.key)
        slots = Slots(arrays[_SLOTS], places_for(manifest.items), arrays[_CONTENT], arrays[_ENDS])
        if not maps.trusted:
            _check(manifest, key, slots, arrays[_VALUES])
            maps.release()
        table = ItemTable(
            manifest.name, manifest.version, manifest.created, manifest.columns, key, slots, arrays[_VALUES]
        )
        if isinstance(maps, PrivateMaps):
            maps.keep(MANIFEST, content)
        return Generation(folder, manifest, table, isinstance(maps, PrivateMaps) and maps.whole)


def _rules(manifest: TableManifest) -> dict[str, Content]:
    """Return for every file what must hold for its numbers; check dtypes and shapes on the way."""
    n_items, files = manifest.items, manifest.files
    content, slots = (
        files[name].shape[0] if name in files and files[name].shape else 0 for name in (_CONTENT, _SLOTS)
    )
    expect(files, _CONTENT, "uint8", (content,))
    expect(files, _ENDS, "uint32", (n_items + 1,))
    expect(files, _SLOTS, "uint32", (slots, 2))
    expect(files, _VALUES, "float32", (n_items, len(manifest.columns)))
    if further := sorted(files.keys() - {_CONTENT, _ENDS, _SLOTS, _VALUES}):
        raise ArtifactCorrupt(f"{MANIFEST}: files: expected only files of a table, found {further[0]!r}")
    return {_CONTENT: Anything(), _ENDS: Within(0, content), _SLOTS: Anything(), _VALUES: Anything()}


def _check(manifest: TableManifest, key: NDArray[np.uint64], slots: Slots, values: Matrix) -> None:
    """Refuse a table whose ids cannot be found, or whose values are none: a digest does not prove that it was made well."""
    ends = slots.ends.astype(np.int64)
    sizes = np.diff(ends)
    if ends[0] != 0 or ends[-1] != len(slots.content) or bool(((sizes < 1) | (sizes > LONGEST_ID)).any()):
        raise ArtifactCorrupt(f"{_ENDS}: expected the ends of ids of 1 to {LONGEST_ID} bytes, found others")
    hashed = hashes(key, PackedTexts(slots.content, ends))
    if not np.array_equal(slots.pairs, slots_of(hashed)):
        raise ArtifactCorrupt(f"{_SLOTS}: expected the slots of the ids, found others")
    if repeated(hashed, PackedTexts(slots.content, ends)) is not None:
        raise ArtifactCorrupt(f"{_CONTENT}: expected every id once, found one twice")
    for rows in portions(values, CELLS):
        some = values[rows]
        if bool(np.isinf(some).any()):
            raise ArtifactCorrupt(f"{_VALUES}: expected finite numbers or NaN, found an infinite one")
        for at, column in enumerate(manifest.columns):
            if column.kind == "category":
                codes = some[:, at]
                held = codes[~np.isnan(codes)]
                if bool(((held < 0) | (held >= len(column.values)) | (held != np.floor(held))).any()):
                    raise ArtifactCorrupt(
                        f"{_VALUES}: column {column.name!r}: expected codes from 0 to {len(column.values) - 1}, "
                        "found others"
                    )
