"""Judged queries as LETOR text: ``2 qid:17 1:0.5 2:3 # a comment``, one line for each document.

`localrank.letor` has the rules, which are those of training; here are the limits of a request. Lines of a query need not
stand together. An index that a line leaves out is zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank.letor import WrongLineError, longest_line, parse
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.letor import Lines
    from localrank_service.wire.query import Limits

MEDIA_TYPE = "text/plain"
_MARK = b"\xef\xbb\xbf"
#: Bytes that are parsed at a time: 5 ms.
_BLOCK = 2**16


class JudgedLines(NamedTuple):
    """One judged query.

    Attributes:
        query_id: as it was sent.
        matrix: ``[n_docs, n_features]`` float32.
        labels: ``[n_docs]``.
    """

    query_id: str
    matrix: Matrix
    labels: Vector


def read(
    body: bytes, n_features: int, most_queries: int, limits: Limits, go_on: Callable[[], None]
) -> list[JudgedLines]:
    """Return the queries in the order of their first lines, or raise a `Problem`: 413 or 422.

    ``go_on`` is called before each block of lines.
    """
    known: dict[str, int] = {}
    queries: list[Indices] = []
    labels: list[Vector] = []
    rows: list[Matrix] = []
    documents, line = 0, 1
    for begin, end in _blocks(body):
        go_on()
        lines = _parsed(body, begin, end, line, n_features)
        line += lines.n_lines
        documents += len(lines.labels)
        if documents > limits.max_documents:
            raise _too_many("documents", limits.max_documents)
        if documents * n_features > limits.max_numbers:
            raise _too_many("numbers", limits.max_numbers)
        codes = np.array([known.setdefault(one, len(known)) for one in lines.query_ids], np.int64)
        if len(known) > most_queries:
            raise _too_many("queries", most_queries)
        queries.append(codes[lines.queries])
        labels.append(lines.labels)
        matrix = np.zeros((len(lines.labels), n_features), np.float32)
        matrix[np.repeat(np.arange(len(matrix)), lines.counts), lines.columns] = lines.values
        rows.append(matrix)
    if not known:
        return []
    query_of, label_of, matrix = np.concatenate(queries), np.concatenate(labels), np.concatenate(rows)
    rows.clear()
    if bool((np.diff(query_of) < 0).any()):
        order = np.argsort(query_of, kind="stable")
        label_of, matrix = label_of[order], matrix[order]
    ends = np.cumsum(np.bincount(query_of))[:-1]
    parts = np.split(matrix, ends), np.split(label_of, ends)
    return [JudgedLines(*one) for one in zip(known, *parts, strict=True)]


def _blocks(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield where whole lines begin and end: some that are a block together, or one that is longer."""
    begin = len(_MARK) if body.startswith(_MARK) else 0
    while begin < len(body):
        end = body.rfind(b"\n", begin, begin + _BLOCK) + 1 or body.find(b"\n", begin) + 1 or len(body)
        yield begin, end
        begin = end


def _parsed(body: bytes, begin: int, end: int, line: int, n_features: int) -> Lines:
    longest = longest_line(n_features)
    try:
        if end - begin <= max(_BLOCK, longest + 2):
            block = body[begin:end]
            block = block if block.endswith(b"\n") else block + b"\n"
            return parse(block, max_features=n_features, first_line=line)
        # One line; nothing looks at all of it.
        wrong = WrongLineError(line, longest + 1, f"at most {longest} bytes on a line", "more")
    except WrongLineError as error:
        wrong = error
    raise Problem(422, str(wrong), pointer="")


def _too_many(what: str, most: int) -> Problem:
    return Problem(413, f"the text has more than {most} {what}, the limit of this server", pointer="")
