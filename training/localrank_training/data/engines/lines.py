"""JSON lines of any length: each line is an object, and an error names its file and line."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from localrank.errors import InvalidData
from localrank_training.data.sources import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank_training.data.sources import Source

_PIECE = 1 << 20
#: Bytes of a line. A page of hits with whole documents can be long.
_LONGEST = 1 << 28
#: One half of a character, which is no character without the other.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def text_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line that is not blank.

    Raises:
        InvalidData: a line is too long, or the file is damaged.
    """
    rest = b""
    number = 0
    with opened(source) as (stream, _):
        while True:
            try:
                piece: bytes = stream.read(_PIECE)
            except OSError as error:
                raise InvalidData(f"{source.path}: cannot be read: {error}") from None
            if number == 0 and not rest:
                piece = piece.removeprefix(b"\xef\xbb\xbf")
            *whole, rest = (rest + piece).split(b"\n") if piece else [rest, b""]
            for line in whole:
                number += 1
                if line.strip():
                    yield number, line
            if not piece:
                return
            if len(rest) > _LONGEST:
                raise InvalidData(
                    f"{source.path}:{number + 1}: expected at most {_LONGEST} bytes on a line, found more"
                )


def object_in(text: bytes, where: str) -> dict[str, Any]:
    """Return the object that a text of JSON is.

    Raises:
        InvalidData: it is no JSON, no object, has a member twice, or a number or text that is none.
    """
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidData(f"{where}: expected JSON: {said}") from None
    if not isinstance(value, dict):
        raise InvalidData(f"{where}: expected a JSON object, found {json.dumps(value)[:40]}")
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidData(
                f"{where}: expected text, found half of a character, \\u{ord(error.object[error.start]):04x}"
            ) from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"member {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number; a missing value is null")
