"""What answers should be, worked out value by value and without any code of the product."""

from __future__ import annotations

import math
import re
import struct
from typing import NamedTuple

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Said(NamedTuple):
    """What one line of LETOR text says."""

    line: int
    label: float
    query_id: str
    values: list[tuple[int, float]]
    comment: str


class _WrongError(Exception):
    pass


def float32(value: float) -> float:
    """Round to the nearest float32; infinite beyond its range."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def letor_lines(block: bytes, max_features: int) -> list[Said] | int:
    """Return what the lines say, or the number of the first one that is wrong."""
    found = []
    for number, line in enumerate(block.split(b"\n")[:-1], 1):
        try:
            said = _letor_line(line.rstrip(b"\r"), number, max_features)
        except (_WrongError, UnicodeDecodeError):
            return number
        if said is not None:
            found.append(said)
    return found


def _letor_line(line: bytes, number: int, max_features: int) -> Said | None:
    _require(len(line) <= 16_384 + 64 * max_features and b"\r" not in line)
    content, _, comment = line.decode().partition("#")
    _require(all(ord(character) >= 32 or character in "\t\v\f" for character in content))
    label, *others = [token for token in re.split("[ \t\v\f]", content) if token] or [""]
    if not label:
        return None
    _require(bool(others) and others[0].startswith("qid:") and len(others[0]) > 4)
    grade = _number(label)
    _require(0 <= grade < math.inf)
    values: list[tuple[int, float]] = []
    before = 0
    for pair in others[1:]:
        index, colon, text = pair.partition(":")
        _require(colon == ":" and index != "" and all(digit in "0123456789" for digit in index))
        # Longer than any index; int() has a limit of its own.
        position = int(index.lstrip("0")[:20] or "0")
        _require(before < position <= max_features)
        value = math.nan if text == "?" else float32(_number(text))
        _require(not math.isinf(value))
        values.append((position, value))
        before = position
    return Said(number, grade, others[0][4:], values, comment)


def figures(labels: list[float], order: list[int]) -> dict[str, float]:
    """Return what one ranking is worth in the convention ``standard``; ``order`` is best first."""
    ranked = [labels[position] for position in order]
    relevant = [label > 0 for label in ranked]
    hits = [place for place, good in enumerate(relevant, 1) if good]

    def gain(grades: list[float], cutoff: int) -> float:
        return math.fsum(
            (2.0**grade - 1) / math.log2(place + 1) for place, grade in enumerate(grades[:cutoff], 1)
        )

    best = gain(sorted(labels, reverse=True), 3)
    return {
        "ndcg@3": gain(ranked, 3) / best if best else 0.0,
        "mrr": 1 / hits[0] if hits else 0.0,
        "p@2": sum(relevant[:2]) / 2,
        "map": math.fsum(number / place for number, place in enumerate(hits, 1)) / len(hits) if hits else 0.0,
    }


def _number(text: str) -> float:
    _require(_NUMBER.fullmatch(text) is not None)
    return float(text)


def _require(right: object) -> None:
    if not right:
        raise _WrongError
