"""Where judged queries lie: files and folders, what each one is, its bytes in bounded pieces, and names beside it.

What a file is follows from its first bytes, never from its name. Nothing here knows what a line means.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from localrank.errors import InvalidData
from localrank.letor import longest_line
from localrank_training.data.queries import MAX_FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Kind: TypeAlias = Literal["text", "gzip", "zstd", "parquet", "arrow"]

#: Bytes of a line, whoever reads it.
LONGEST_LINE = longest_line(MAX_FEATURES)
#: Bytes of text parsed at a time: large enough for vectorised work, small enough for the caches.
BLOCK = 1 << 20
#: Names the features of all files of its folder, one per line.
NAMES_FILE = "features.txt"

_PIECE = 1 << 18
_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
)
_OTHER = (
    (b"PK\x03\x04", "a zip archive"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x93NUMPY", "a numpy array"),
    (b"\x80\x04\x95", "a pickle"),
    (b"\x80\x05\x95", "a pickle"),
    (b"\x89HDF", "HDF5"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_EXPECTED = "LETOR text, CSV or JSON lines (plain, gzip or zstd), Parquet or Arrow"


@dataclass(frozen=True, slots=True)
class Source:
    """One file, what it is, and the file that names its features, if there is one."""

    path: Path
    kind: Kind
    names: Path | None

    @property
    def size(self) -> int:
        """Bytes as stored."""
        return self.path.stat().st_size


def locate(
    paths: Sequence[str | Path], skip: Callable[[Path, InvalidData], None] | None = None
) -> list[Source]:
    """Find the files that the paths name: a file is itself, a folder is its partitions in the order of their names.

    In a folder, hidden files, names that begin with ``_`` (such as ``_SUCCESS``), ``*.names`` and ``features.txt``
    are not data, and folders in it are not entered.

    Args:
        paths: files and folders.
        skip: told of files in folders that hold something else, which are then left out; without it they are refused.
    """
    if not paths:
        raise InvalidData("no data: expected at least one file or folder")
    if "" in paths:
        raise InvalidData("expected the path of a file or folder, found nothing")
    return [source for path in paths for source in _locate(Path(path), skip)]


def _locate(path: Path, skip: Callable[[Path, InvalidData], None] | None) -> list[Source]:
    try:
        if path.is_dir():
            return _partitions(path, skip)
        if path.exists() and not path.is_file():
            raise InvalidData(f"{path}: expected a file or a folder, which can be read twice, found neither")
        return [Source(path, _kind(path), _names_beside(path))]
    except FileNotFoundError:
        raise InvalidData(f"{path}: no such file or folder") from None
    except OSError as error:
        raise InvalidData(f"{path}: cannot be read: {error.strerror or error}") from None


def _partitions(folder: Path, skip: Callable[[Path, InvalidData], None] | None) -> list[Source]:
    files = sorted(
        entry
        for entry in folder.iterdir()
        if entry.is_file()
        and not entry.name.startswith((".", "_"))
        and entry.suffix != ".names"
        and entry.name != NAMES_FILE
    )
    if not files:
        raise InvalidData(f"{folder}: expected a folder with {_EXPECTED}, found no data file in it")
    shared = folder / NAMES_FILE
    names = shared if shared.exists() else None
    sources = []
    for file in files:
        try:
            sources.append(Source(file, _kind(file), _names_beside(file) or names))
        except InvalidData as error:
            if skip is None:
                raise
            skip(file, error)
    return sources


def _names_beside(path: Path) -> Path | None:
    beside = path.with_name(path.name + ".names")
    return beside if beside.exists() else None


def _kind(path: Path) -> Kind:
    with path.open("rb") as file:
        head = file.read(4096)
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    for magic, what in _OTHER:
        if head.startswith(magic):
            raise InvalidData(f"{path}: expected {_EXPECTED}, found {what}")
    if head.lstrip().startswith(b"["):
        raise InvalidData(f"{path}: expected {_EXPECTED}, found a JSON array; write each object on a line")
    if b"\x00" in head:
        raise InvalidData(
            f"{path}: expected {_EXPECTED}, found a binary file (byte {head.index(0) + 1} is 0x00)"
        )
    return "text"


def blocks(source: Source, advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield a text file's lines in blocks of whole lines, the last one completed by a line feed.

    Args:
        source: plain, gzip or zstd.
        advance: told how many bytes of the file, as stored, have been read so far.
    """
    rest: list[bytes] = []
    waiting = lines = 0
    first = True
    with opened(source) as (stream, position):
        while True:
            piece = _read(stream, source)
            advance(position())
            if not piece:
                break
            if first:
                # A first piece that is only a byte order mark is not the end of the file.
                piece, first = piece.removeprefix(b"\xef\xbb\xbf"), False
            rest.append(piece)
            waiting += len(piece)
            if waiting < BLOCK or b"\n" not in piece:
                if waiting > BLOCK + LONGEST_LINE:
                    lines += b"".join(rest).count(b"\n")
                    raise InvalidData(
                        f"{source.path}:{lines + 1}: expected at most {LONGEST_LINE} bytes on a line, found more"
                    )
                continue
            text = b"".join(rest)
            end = text.rindex(b"\n") + 1
            lines += text.count(b"\n")
            yield text[:end]
            rest, waiting = [text[end:]], len(text) - end
    text = b"".join(rest)
    if text:
        yield text if text.endswith(b"\n") else text + b"\n"


def first_line(source: Source, *, comments: bool = False) -> bytes:
    """Return the first line that is neither blank nor (without ``comments``) a comment; nothing if the first block has none."""
    for block in blocks(source, lambda _: None):
        for line in block.splitlines():
            if line.strip() and (comments or not line.lstrip().startswith(b"#")):
                return line
        break
    return b""


@contextmanager
def opened(source: Source) -> Iterator[tuple[Any, Callable[[], int]]]:
    """Open a file of text; yield its bytes and how many of them, as stored, have been read."""
    try:
        with pa.OSFile(str(source.path), "rb") as file:
            if source.kind == "text":
                yield file, file.tell
                return
            with pa.CompressedInputStream(file, source.kind) as stream:
                yield stream, file.tell
    except OSError as error:
        raise InvalidData(f"{source.path}: cannot be read: {error}") from None


def _read(stream: Any, source: Source) -> bytes:
    try:
        piece: bytes = stream.read(_PIECE)
    except OSError as error:
        truncated = "truncated" in str(error).lower()
        found = "a truncated file" if truncated else f"damage ({error})"
        raise InvalidData(f"{source.path}: expected a whole {source.kind} file, found {found}") from None
    return piece


def read_names(path: Path) -> tuple[str, ...]:
    """Read feature names, one per line.

    Raises:
        InvalidData: a name is empty or there twice, or the file is not UTF-8 text.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        # Its positions count from behind a byte order mark.
        line = error.object[: error.start].count(b"\n") + 1
        found = f"the byte 0x{error.object[error.start]:02x} on line {line}"
        raise InvalidData(f"{path}: expected feature names in UTF-8, found {found}") from None
    except OSError as error:
        raise InvalidData(f"{path}: cannot be read: {error.strerror or error}") from None
    names = tuple(line.strip() for line in lines)
    if names == ("",):
        raise InvalidData(f"{path}: expected feature names, found an empty file")
    first: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not name:
            raise InvalidData(f"{path}:{number}: expected a feature name, found a blank line")
        if name in first:
            raise InvalidData(
                f"{path}:{number}: expected every name once, found {name!r} as on line {first[name]}"
            )
        first[name] = number
    return names
