"""TREC's files: qrels, which judge documents, and runs, which rank them.

    qrels   QUERY ITERATION DOCUMENT LABEL            51 0 GX008-86-4444840 2
    run     QUERY Q0 DOCUMENT RANK SCORE TAG          51 Q0 GX008-86-4444840 1 12.38 bm25

As in trec_eval: fields are separated by blanks or tabs, a run is ordered by its scores and not by its ranks, a document
without a judgement is not relevant, and a label below zero means so too.

Documents are matched by query and document id. The id stands in a document's comment: all of it, or what follows
``docid =``, as in LETOR's own files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from localrank.errors import InvalidData
from localrank.ranker import best_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

#: ``{query: {document: label or score}}``.
Found: TypeAlias = "Mapping[str, Mapping[str, float]]"


def read_qrels(path: Path) -> Found:
    """Read judgements.

    Raises:
        InvalidData: names the line.
    """
    return _read(path, 4, 3, "QUERY ITERATION DOCUMENT LABEL")


def read_run(path: Path) -> Found:
    """Read the scores of a run.

    Raises:
        InvalidData: names the line.
    """
    return _read(path, 6, 4, "QUERY Q0 DOCUMENT RANK SCORE TAG")


def document_ids(queries: QuerySet) -> list[str]:
    """Return the id of each document, in the order of the set.

    Raises:
        InvalidData: there are none, or two documents of a query have the same.
    """
    if queries.comments is None:
        raise InvalidData(
            "expected document ids, because TREC files name documents by id; found none (in text they follow "
            "#; for a table, name their column with --id)"
        )
    ids = [_id(comment) for comment in queries.comments]
    for query in range(len(queries)):
        seen: set[str] = set()
        for document in range(*queries.span(query).indices(queries.n_docs)):
            if not ids[document] or ids[document] in seen:
                found = f"{ids[document]!r} twice" if ids[document] else "none"
                raise InvalidData(
                    f"{queries.where(document)}: expected a different id for each document, found {found}"
                )
            seen.add(ids[document])
    return ids


def judged_by(queries: QuerySet, qrels: Found) -> tuple[QuerySet, int]:
    """Return the queries with the labels of qrels, and how many relevant documents in them are not in the queries.

    Raises:
        InvalidData: no query is judged.
    """
    ids = document_ids(queries)
    if not set(queries.query_ids) & set(qrels):
        raise InvalidData(
            f"expected qrels of the queries {', '.join(queries.query_ids[:3])}, …; found {', '.join(list(qrels)[:3])}, …"
        )
    query_of = queries.query_of
    judged = [
        max(qrels.get(queries.query_ids[query], {}).get(document, 0.0), 0.0)
        for query, document in zip(query_of.tolist(), ids, strict=True)
    ]
    labels = np.array(judged, np.float64)
    relevant = sum(label > 0 for query in queries.query_ids for label in qrels.get(query, {}).values())
    return replace(queries, labels=labels), relevant - int((labels > 0).sum())


def scores_of(queries: QuerySet, run: Found) -> Vector:
    """Return ``[n_docs]`` a run's scores; a document that it does not rank comes after all that it does.

    Raises:
        InvalidData: it ranks none of the queries.
    """
    ids = document_ids(queries)
    if not set(queries.query_ids) & set(run):
        raise InvalidData(
            f"expected a run of the queries {', '.join(queries.query_ids[:3])}, …; found {', '.join(list(run)[:3])}, …"
        )
    scores = np.empty(queries.n_docs)
    for query, name in enumerate(queries.query_ids):
        ranked = run.get(name, {})
        last = min(ranked.values(), default=0.0) - 1.0
        for document in range(*queries.span(query).indices(queries.n_docs)):
            scores[document] = ranked.get(ids[document], last)
    return scores


def run_lines(queries: QuerySet, scores: Vector, tag: str) -> Iterator[str]:
    """Yield the lines of a run, each query's best document first; scores read back to the same double."""
    ids = document_ids(queries)
    for query, name in enumerate(queries.query_ids):
        span = queries.span(query)
        for rank, position in enumerate(best_first(scores[span]).tolist(), 1):
            yield f"{name} Q0 {ids[span.start + position]} {rank} {float(scores[span.start + position])!r} {tag}\n"


def qrels_lines(queries: QuerySet) -> Iterator[str]:
    """Yield the lines of qrels.

    Raises:
        InvalidData: a label is no whole number, which is all that qrels may hold.
    """
    ids = document_ids(queries)
    for query, name in enumerate(queries.query_ids):
        for document in range(*queries.span(query).indices(queries.n_docs)):
            label = float(queries.labels[document])
            if not label.is_integer():
                raise InvalidData(
                    f"{queries.where(document)}: expected a whole label for qrels, found {label:g}"
                )
            yield f"{name} 0 {ids[document]} {int(label)}\n"


def _id(comment: str) -> str:
    words = comment.split()
    if words[:2] == ["docid", "="]:
        return words[2] if len(words) > 2 else ""
    return words[0] if words else ""


def _read(path: Path, fields: int, number: int, form: str) -> Found:
    found: dict[str, dict[str, float]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for position, line in enumerate(file, 1):
                parts = line.split()
                if not parts:
                    continue
                if len(parts) != fields:
                    raise InvalidData(f"{path}:{position}: expected {form}, found {len(parts)} fields")
                try:
                    value = float(parts[number])
                except ValueError:
                    value = float("nan")
                if not np.isfinite(value):
                    raise InvalidData(f"{path}:{position}: expected a number, found {parts[number]!r}")
                documents = found.setdefault(parts[0], {})
                if parts[2] in documents:
                    raise InvalidData(
                        f"{path}:{position}: expected each document of a query once, found {parts[2]!r} of query "
                        f"{parts[0]!r} again"
                    )
                documents[parts[2]] = value
    except OSError as error:
        raise InvalidData(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidData(f"{path}: expected text in UTF-8, found bytes that are not text") from None
    if not found:
        raise InvalidData(f"{path}: expected {form} on each line, found nothing")
    return found
