"""Judged queries as LETOR text: ``2 qid:17 1:0.5 2:3 # a comment``, one line for each document.

An index that a line leaves out is zero, ``nan`` is missing, as `localrank data` reads them. Lines of a query need not
stand together.
"""

from __future__ import annotations

import math
import re
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank_service.http.problems import Problem
from localrank_service.wire.query import to_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix, Vector
    from localrank_service.wire.query import Limits

__all__ = ["MEDIA_TYPE", "Judged", "read"]

MEDIA_TYPE = "text/plain"
#: Pairs as they should be; Python's own numbers may have underscores.
_PAIRS = re.compile(r"(?:[0-9]{1,9}:[^\s:_]+\s*)*", re.ASCII)
#: Bytes that a line may have besides its features, and for each of them.
_SHORT_LINE, _CELL = 2**14, 64


class Judged(NamedTuple):
    """One judged query.

    Attributes:
        query_id: as it was sent.
        matrix: ``[n_docs, n_features]`` float32.
        labels: ``[n_docs]``.
        lines: ``[n_docs]`` from 1.
    """

    query_id: str
    matrix: Matrix
    labels: Vector
    lines: list[int]


def read(
    body: bytes, n_features: int, most_queries: int, limits: Limits, go_on: Callable[[], None]
) -> list[Judged]:
    """Return the queries in the order of their first lines, or raise a `Problem`: 400, 413 or 422.

    ``go_on`` is called at each line.
    """
    found: dict[str, tuple[list[float], list[Matrix], list[int]]] = {}
    documents = 0
    longest = _SHORT_LINE + _CELL * n_features
    for number, raw in enumerate(BytesIO(body), 1):
        go_on()
        if len(raw) > longest:
            raise Problem(
                422, f"line {number}: expected at most {longest} bytes, found {len(raw)}", pointer=""
            )
        try:
            line = raw.decode().strip()
        except UnicodeDecodeError as error:
            raise Problem(400, f"line {number}: no UTF-8 at byte {error.start}", pointer="") from None
        content = line.partition("#")[0].split(maxsplit=2)
        if not content:
            continue
        documents += 1
        if documents > limits.max_documents:
            raise _too_many("documents", limits.max_documents)
        if documents * n_features > limits.max_numbers:
            raise _too_many("numbers", limits.max_numbers)
        if len(content) < 2 or not content[1].startswith("qid:") or len(content[1]) == 4:
            raise _wrong(number, "a label, qid:QUERY and INDEX:VALUE pairs", line)
        label = _number(content[0], number)
        if not (math.isfinite(label) and label >= 0):
            raise _wrong(number, "a finite label of at least 0", content[0])
        query_id = content[1][4:]
        if query_id not in found and len(found) >= most_queries:
            raise _too_many("queries", most_queries)
        labels, rows, lines = found.setdefault(query_id, ([], [], []))
        labels.append(label)
        rows.append(to_float32(_row(content[2] if len(content) > 2 else "", n_features, number)))
        lines.append(number)
    return [
        Judged(query_id, np.stack(rows), np.array(labels), lines)
        for query_id, (labels, rows, lines) in found.items()
    ]


def _row(pairs: str, n_features: int, number: int) -> Vector:
    """Return the features of one line."""
    row = np.zeros(n_features)
    if _PAIRS.fullmatch(pairs):
        cells = pairs.replace(":", " ").split()
        indices = np.array(list(map(int, cells[::2])), np.int64)
        rising = not len(indices) or (
            indices[0] > 0 and indices[-1] <= n_features and bool((np.diff(indices) > 0).all())
        )
        if rising:
            try:
                row[indices - 1] = list(map(float, cells[1::2]))
            except ValueError:
                pass
            else:
                return row
    # Something is wrong: find out what.
    before = 0
    for pair in pairs.split():
        index, colon, value = pair.partition(":")
        if not colon or not index.isascii() or not index.isdecimal() or len(index) > 9:
            raise _wrong(number, "INDEX:VALUE", pair)
        if not before < int(index) <= n_features:
            raise _wrong(number, f"rising indices from 1 to {n_features}, the model's features", pair)
        before = int(index)
        row[before - 1] = _number(value, number)
    return row


def _number(text: str, number: int) -> float:
    try:
        # Python's own numbers may have underscores.
        return float(text.replace("_", "x"))
    except ValueError:
        raise _wrong(number, "a number", text) from None


def _wrong(number: int, expected: str, found: str) -> Problem:
    return Problem(422, f"line {number}: expected {expected}, found {found[:80]!r}", pointer="")


def _too_many(what: str, most: int) -> Problem:
    return Problem(413, f"the text has more than {most} {what}, the limit of this server", pointer="")
