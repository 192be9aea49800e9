"""Strict JSON, for files from somebody else: anything that two readers could read differently is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import numpy as np

from localrank.errors import ArtifactCorrupt

#: How deep members may nest.
_DEEPEST = 64
#: A text, also one that does not end: no search begins again within it.
_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_ONLY_BRACKETS = {code: None for code in range(128) if chr(code) not in "[]{}"}


def parse_object(content: bytes, name: str, largest: int) -> dict[str, Any]:
    """Read the bytes of a JSON object: no member twice, no number that is not finite, nothing absurd.

    Args:
        content: of the file.
        name: of the file, for messages.
        largest: how many bytes there may be.

    Raises:
        ArtifactCorrupt: it is anything else.
    """
    if len(content) > largest:
        raise ArtifactCorrupt(f"{name}: expected at most {largest} bytes, found more")
    if not content.strip():
        raise ArtifactCorrupt(f"{name}: expected a JSON object, found an empty file")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactCorrupt(
            f"{name}: expected UTF-8, found the byte 0x{content[error.start]:02x} at {error.start}"
        ) from None

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique = dict(pairs)
        if len(unique) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)
            raise ArtifactCorrupt(f"{name}: expected every member once, found {briefly(twice)} twice")
        return unique

    def number(literal: str) -> float:
        value = float(literal)
        if not np.isfinite(value):
            raise ArtifactCorrupt(f"{name}: expected finite numbers, found {literal[:40]}")
        return value

    if _depth(text) > _DEEPEST:
        raise ArtifactCorrupt(f"{name}: expected members nested at most {_DEEPEST} deep, found more")
    try:
        parsed = json.loads(text, object_pairs_hook=members, parse_constant=number, parse_float=number)
        if _HALF_CHARACTER.search(text):
            # Half of a surrogate pair is no text that could be sent on.
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        raise ArtifactCorrupt(f"{name}: expected JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ArtifactCorrupt(f"{name}: expected a JSON object, found {briefly(parsed)}")
    return parsed


def briefly(value: Any) -> str:
    """Return a value for a message: on one line, not too long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _depth(text: str) -> int:
    """Return how deep brackets nest, those within texts aside."""
    brackets = np.frombuffer(
        _TEXT.sub("", text).translate(_ONLY_BRACKETS).encode("ascii", "ignore"), np.uint8
    )
    opening = np.isin(brackets, (ord("["), ord("{")))
    return int(np.where(opening, np.int8(1), np.int8(-1)).cumsum(dtype=np.int32).max(initial=0))
