"""The mapped form: a folder of plain arrays that is opened without being read. Docs: docs/use/data.md, "Mapped form"."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from localrank.artifact.arrays import DTYPES
from localrank.errors import InvalidData
from localrank_training.data.queries import QuerySet, repeated
from localrank_training.data.sources import MAPPED_INDEX

if TYPE_CHECKING:
    from localrank.arrays import Array, Indices, Vector
    from localrank_training.data.columns import Columns

_FORMAT = 1

#: What numpy writes before a plain array. It is compared and never evaluated: some types end the process that makes them.
_HEADER = re.compile(
    rb"\{'descr': (?P<dtype>.+), 'fortran_order': (?P<fortran>True|False), 'shape': (?P<shape>\([\d, ]*\)), \} *\n",
    re.DOTALL,
)
_MAGIC = b"\x93NUMPY\x01\x00"
#: What the header calls a type, and what a person does.
_NAMES = {repr(kind.str): name for name, kind in DTYPES.items()}


class StoredComments(Sequence[str]):
    """Comments in one file of UTF-8; each is decoded when it is read."""

    def __init__(self, path: Path, text: Array, ends: Indices) -> None:
        self._path = path
        self._text = text
        self._ends = ends

    @classmethod
    def of(cls, parts: Sequence[Any], order: Indices) -> StoredComments | None:
        """Return Arrow's strings in another order. Null becomes an empty comment. Return None if all are null."""
        if all(part.null_count == len(part) for part in parts):
            return None
        joined = pa.chunked_array(parts, pa.string()).cast(pa.large_string()).combine_chunks()
        array = pc.fill_null(joined, "").take(pa.array(order))
        _, ends, text = array.buffers()
        text = np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
        return cls(Path("comments"), text, np.frombuffer(ends, np.int64)[1 : len(array) + 1])

    def save(self, folder: Path) -> None:
        """Write them into a mapped set."""
        np.save(folder / "comment_ends.npy", self._ends)
        np.save(folder / "comments.npy", self._text[: int(self._ends[-1])])

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[str, ...]: ...
    def __getitem__(self, position: int | slice) -> str | tuple[str, ...]:
        if isinstance(position, slice):
            return tuple(self[i] for i in range(*position.indices(len(self))))
        index = range(len(self))[position]
        start = int(self._ends[index - 1]) if index else 0
        try:
            return bytes(self._text[start : int(self._ends[index])]).decode()
        except UnicodeDecodeError as error:
            raise InvalidData(
                f"{self._path}: expected UTF-8, found {error.reason} in comment {index + 1}"
            ) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]


def open_mapped(folder: Path) -> QuerySet:
    """Open the mapped form; documents are read-only and stay on disk, unchecked, until they are used.

    Raises:
        InvalidData: a file is missing, or is not what the index says.
    """
    index = _read_index(folder)
    query_ids, feature_names = tuple(index["query_ids"]), tuple(index["feature_names"])
    n_docs = index["n_docs"]
    documents = _load(folder, "documents", np.float32, (n_docs, len(feature_names)), mapped=True)
    offsets = _load(folder, "offsets", np.int64, (len(query_ids) + 1,))
    lines = _load(folder, "lines", np.int64, (n_docs,))
    if offsets[0] != 0 or offsets[-1] != n_docs or bool((np.diff(offsets) < 1).any()):
        raise InvalidData(
            f"{folder / 'offsets.npy'}: expected offsets that rise from 0 to {n_docs}, found other numbers"
        )
    inside = bool(((lines >= 0) & (lines < n_docs)).all())
    if not inside or not bool((np.bincount(lines, minlength=n_docs) == 1).all()):
        raise InvalidData(
            f"{folder / 'lines.npy'}: expected each position from 0 to {n_docs - 1} once, found other numbers"
        )
    labels = _load(folder, "labels", np.float64, (n_docs,))
    if not bool((np.isfinite(labels) & (labels >= 0)).all()):
        raise InvalidData(
            f"{folder / 'labels.npy'}: expected finite labels of at least 0, found other numbers"
        )
    comments: Sequence[str] | None = None
    if index["comments"]:
        ends = _load(folder, "comment_ends", np.int64, (n_docs,))
        if ends[0] < 0 or bool((np.diff(ends) < 0).any()):
            raise InvalidData(
                f"{folder / 'comment_ends.npy'}: expected ends that never fall, found other numbers"
            )
        text = _load(folder, "comments", np.uint8, (int(ends[-1]),), mapped=True)
        comments = StoredComments(folder / "comments.npy", text, ends)
    weights = positions = None
    if index.get("weights", False):
        weights = _load(folder, "weights", np.float64, (len(query_ids),))
        if not bool((np.isfinite(weights) & (weights >= 0)).all()):
            raise InvalidData(
                f"{folder / 'weights.npy'}: expected finite weights of at least 0, found other numbers"
            )
    if index.get("positions", False):
        positions = _load(folder, "positions", np.int64, (n_docs,))
        if bool((positions < 0).any()):
            raise InvalidData(
                f"{folder / 'positions.npy'}: expected places of at least 0, found other numbers"
            )
    return QuerySet(
        documents=documents,
        labels=labels,
        offsets=offsets,
        query_ids=query_ids,
        feature_names=feature_names,
        lines=lines,
        comments=comments,
        weights=weights,
        positions=positions,
    )


def check_chosen(folder: Path, queries: QuerySet, columns: Columns) -> None:
    """Refuse to look for a column in a mapped set that has not been written with it.

    Raises:
        InvalidData: it has none.
    """
    for option, column, found in (
        ("--weight", columns.weight, queries.weights),
        ("--position", columns.position, queries.positions),
    ):
        if column is not None and found is None:
            raise InvalidData(
                f"{folder}: expected a mapped set that was written with {option} {column}, found one without"
            )


def write_mapped(
    folder: Path,
    *,
    labels: Vector,
    offsets: Indices,
    lines: Indices,
    query_ids: Sequence[str],
    feature_names: Sequence[str],
    comments: StoredComments | None,
    weights: Vector | None = None,
    positions: Indices | None = None,
) -> Any:
    """Write everything but the documents into an empty folder; return their matrix, zeros on disk, to be filled."""
    np.save(folder / "labels.npy", np.asarray(labels, np.float64))
    np.save(folder / "offsets.npy", np.asarray(offsets, np.int64))
    np.save(folder / "lines.npy", np.asarray(lines, np.int64))
    if comments is not None:
        comments.save(folder)
    if weights is not None:
        np.save(folder / "weights.npy", np.asarray(weights, np.float64))
    if positions is not None:
        np.save(folder / "positions.npy", np.asarray(positions, np.int64))
    index = {
        "format": _FORMAT,
        "n_docs": len(labels),
        "feature_names": list(feature_names),
        "comments": comments is not None,
        "weights": weights is not None,
        "positions": positions is not None,
        "query_ids": list(query_ids),
    }
    (folder / MAPPED_INDEX).write_text(json.dumps(index, ensure_ascii=False) + "\n", "utf-8")
    return np.lib.format.open_memmap(
        folder / "documents.npy", "w+", np.float32, (len(labels), len(feature_names))
    )


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / MAPPED_INDEX
    try:
        index = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidData(f"{path}: expected the index of a mapped set, found {error}") from None
    if not isinstance(index, dict) or index.get("format") != _FORMAT:
        found = index.get("format") if isinstance(index, dict) else type(index).__name__
        raise InvalidData(f"{path}: expected format {_FORMAT}, found {found!r}")
    for member in ("query_ids", "feature_names"):
        names = index.get(member)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
            raise InvalidData(f"{path}: expected a list of names as {member!r}, found something else")
        if (twice := repeated(names)) is not None:
            raise InvalidData(f"{path}: expected every name in {member!r} once, found {twice!r} again")
    if type(index.get("n_docs")) is not int or index["n_docs"] < 1 or type(index.get("comments")) is not bool:
        raise InvalidData(
            f"{path}: expected 'n_docs', a whole number above 0, and 'comments', true or false; found others"
        )
    return index


def _load(folder: Path, name: str, dtype: type, shape: tuple[int, ...], *, mapped: bool = False) -> Any:
    path = folder / f"{name}.npy"
    kind = np.dtype(dtype).newbyteorder("<")
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC) + 2)
            offset = len(head) + int.from_bytes(head[len(_MAGIC) :], "little")
            header = _HEADER.fullmatch(file.read(offset - len(head)))
        if not head.startswith(_MAGIC) or header is None:
            raise InvalidData(f"{path}: expected an array as numpy.save writes it, found another file")
        if header["fortran"] == b"True":
            raise InvalidData(f"{path}: expected an array in C order, found Fortran order")
        stored, found_shape = header["dtype"].decode("latin-1"), header["shape"].decode()
        if (_NAMES.get(stored), found_shape) != (kind.name, str(shape)):
            found = f"{_NAMES.get(stored) or stored.encode('unicode_escape').decode():.60} {found_shape:.60}"
            raise InvalidData(f"{path}: expected {kind.name} {shape}, found {found}")
        size = offset + math.prod(shape) * kind.itemsize
        if path.stat().st_size != size:
            raise InvalidData(f"{path}: expected {size} bytes, found {path.stat().st_size}")
        array: Any = np.memmap(path, kind, "r", offset, shape)
    except OSError as error:
        raise InvalidData(f"{path}: cannot be read: {error.strerror or error}") from None
    return array if mapped else np.array(array)
