"""Judged queries in memory.

The one shape that everything offline works on: a matrix of documents with those of a query adjacent, and where each
query begins. Files may come in any order; ``lines`` remembers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from localrank.arrays import one_line
from localrank.features.columns import forget, portions
from localrank.features.feature import Feature
from localrank_training.data.rows import CELLS, HELD, Selected, StackedRows, fits, unheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from localrank.arrays import Indices, Matrix, Vector

#: A wider matrix is refused: one stray index would otherwise ask for terabytes.
MAX_FEATURES = 100_000
#: Numbers of a column's documents that are read at a time.
_CELLS = 1 << 21
#: Texts that are decoded at a time.
_TEXTS = 1 << 12


def default_names(n_features: int) -> tuple[str, ...]:
    """Return the names of features if the data do not name them: ``f1``, ``f2``, …."""
    return tuple(f"f{index}" for index in range(1, n_features + 1))


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs for the second time; None if all differ."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where in which file each document of the input stands.

    Attributes:
        files: in the order of the input.
        starts: ``[n_files]`` position in the input of the first document of each.
        numbers: ``[n_docs]`` int32, the line (text) or row (tables) of each document in its file.
    """

    files: tuple[str, ...]
    starts: Indices
    numbers: NDArray[np.int32]

    __repr__ = one_line

    def of(self, position: int) -> str:
        """Return ``FILE:LINE`` of the document at this position of the input."""
        file = int(np.searchsorted(self.starts, position, side="right")) - 1
        return f"{self.files[file]}:{self.numbers[position]}"


class Gap(NamedTuple):
    """Values that only a few lines of a sparse file lack: they are zeros, or they were lost.

    Attributes:
        file: of text.
        line: the first that lacks a feature.
        feature: which one, from 1.
        lines: how many lack some.
        of: lines in all.
    """

    file: str
    line: int
    feature: int
    lines: int
    of: int

    def __str__(self) -> str:
        """Say what was found and what was made of it."""
        return (
            f"{self.file}: {self.lines} of {self.of} lines lack features that other lines have, first line "
            f"{self.line} without feature {self.feature}; these are read as zeros"
        )


class Skipped(NamedTuple):
    """A file of the input that could not be read and was left out, as the user chose.

    Attributes:
        file: its path.
        reason: what was wrong with it.
    """

    file: str
    reason: str


class Texts(Sequence[str]):
    """Texts in an Arrow array, in any order; a file that is mapped may hold them.

    Args:
        array: of strings; null is an empty text.
        rows: which of them; None for all.
    """

    def __init__(self, array: Any, rows: Indices | None = None) -> None:
        self.array, self._rows = array, rows

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Return texts as these."""
        return texts if isinstance(texts, cls) else cls(pa.array(texts, pa.large_string()))

    def take(self, rows: Indices) -> Texts:
        """Return some of them, in that order; nothing is copied."""
        return Texts(self.array, rows if self._rows is None else self._rows[rows])

    def arrow(self, rows: Indices) -> Any:
        """Return some of them as an Arrow array without nulls."""
        found = self.array.take(pa.array(rows if self._rows is None else self._rows[rows]))
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        return pc.fill_null(found, "")

    def __len__(self) -> int:
        return len(self.array) if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[str, ...]: ...
    def __getitem__(self, position: int | slice) -> str | tuple[str, ...]:
        if isinstance(position, slice):
            return tuple(self.arrow(np.arange(*position.indices(len(self)))).to_pylist())
        row = range(len(self))[position]
        return self.array[row if self._rows is None else int(self._rows[row])].as_py() or ""

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), _TEXTS):
            yield from self[begin : begin + _TEXTS]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]


class Present(NamedTuple):
    """An order that a model is compared with, such as the one that users see today.

    Attributes:
        name: for people.
        scores: ``[n_docs]``, the greatest first.
    """

    name: str
    scores: Vector


@dataclass(frozen=True, slots=True, eq=False)
class QuerySet:
    """Judged queries.

    Attributes:
        documents: ``[n_docs, n_features]`` float32, C-contiguous; NaN is a missing value. Of a large set they may be a mapped
            file, or rows that are made when they are looked at (`localrank_training.data.rows`).
        labels: ``[n_docs]`` relevance; higher is better.
        offsets: ``[n_queries + 1]``; query ``q`` has the documents ``offsets[q]:offsets[q + 1]``.
        query_ids: one per query, as written in the data.
        feature_names: one per column.
        special: by name what is known of features that are not plain numbers of documents, such as the values of a category.
            The columns of categories hold codes; NaN is no value.
        lines: ``[n_docs]`` position of each document in the input, so that answers can go back in its order.
        comments: one per document, what followed ``#``; or none kept.
        origin: the file and line of each document of the input; None if the queries do not come from text or tables.
        weights: ``[n_queries]`` how much each query counts where models are learned; None if all count the same.
        positions: ``[n_docs]`` the place at which each document was shown, from 1; 0 if it was not, or nobody knows.
            None if the data do not say. No learner uses them.
        gaps: files of text in which a few lines lack features that most have.
        skipped: files that were left out because something is wrong with them.
        present: the order that a model of these queries must beat; None if nobody named one.
    """

    documents: Matrix
    labels: Vector
    offsets: Indices
    query_ids: tuple[str, ...]
    feature_names: tuple[str, ...]
    lines: Indices
    comments: Sequence[str] | None = None
    origin: Origin | None = None
    weights: Vector | None = None
    positions: Indices | None = None
    gaps: tuple[Gap, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    present: Present | None = None
    special: Mapping[str, Feature] = field(default_factory=dict)

    __repr__ = one_line

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.offsets) - 1

    @property
    def n_docs(self) -> int:
        return len(self.documents)

    @property
    def n_features(self) -> int:
        return int(self.documents.shape[1])

    @property
    def features(self) -> tuple[Feature, ...]:
        """One per column."""
        return tuple(self.special.get(name) or Feature(name) for name in self.feature_names)

    @property
    def lengths(self) -> Indices:
        """``[n_queries]`` documents per query."""
        return np.diff(self.offsets)

    @property
    def query_of(self) -> Indices:
        """``[n_docs]`` the query of each document."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def span(self, query: int) -> slice:
        """Return where a query's documents are."""
        return slice(int(self.offsets[query]), int(self.offsets[query + 1]))

    def column(self, at: int) -> Matrix:
        """Return ``[n_docs]`` one feature of all documents, read in portions if they are in a mapped file."""
        found = np.empty(self.n_docs, np.float32)
        for rows in portions(self.documents, _CELLS):
            found[rows] = self.documents[rows][:, at]
        return found

    def documents_of(self, query: int) -> Matrix:
        """Return one query's documents ``[n_docs, n_features]``, a view unless they are in a mapped file."""
        span = self.span(query)
        if not isinstance(self.documents, np.memmap):
            return self.documents[span]
        documents = np.array(self.documents[span])
        forget(self.documents, span.start, span.stop)
        return documents

    def labels_of(self, query: int) -> Vector:
        """Return one query's labels."""
        return self.labels[self.span(query)]

    def clouds(self) -> Iterator[Matrix]:
        """Yield each query's documents, of a set that is not in memory some queries at a time."""
        for first, last in self.portions():
            begin, end = int(self.offsets[first]), int(self.offsets[last])
            some = np.asarray(self.documents[begin:end])
            for query in range(first, last):
                yield some[self.offsets[query] - begin : self.offsets[query + 1] - begin]

    def portions(self, cells: int = CELLS) -> Iterator[tuple[int, int]]:
        """Yield the queries in portions of about ``cells`` numbers, as first and last plus one; see `columns.portions`."""
        most, first = max(1, cells // max(1, self.n_features)), 0
        while first < len(self):
            last = int(np.searchsorted(self.offsets, self.offsets[first] + most, side="right")) - 1
            last = min(max(last, first + 1), len(self))
            yield first, last
            forget(self.documents, int(self.offsets[first]), int(self.offsets[last]))
            first = last

    @property
    def lists(self) -> Sequence[Matrix]:
        """Each query's documents, read when they are asked for."""
        return _Lists(self)

    def with_documents(self, documents: Matrix) -> QuerySet:
        """Return the same queries with other feature values, such as a normalised view."""
        return replace(self, documents=documents)

    def held(self) -> QuerySet:
        """Return the same queries with an array of documents, in memory if that is not too large for it."""
        documents = unheld(self.documents)
        if documents is None:
            return self
        few = documents.nbytes <= HELD
        return self.with_documents(documents.between(0, len(documents)) if few else np.asarray(documents))

    def where(self, document: int) -> str:
        """Say where a document comes from, for messages: its file and line if known, and its query."""
        query = self.query_ids[int(np.searchsorted(self.offsets, document, side="right")) - 1]
        at = "" if self.origin is None else f"{self.origin.of(int(self.lines[document]))}, "
        return f"{at}query {query!r}"

    def select(self, queries: Sequence[int] | Indices) -> QuerySet:
        """Return those queries, in that order."""
        chosen = np.asarray(queries, np.int64)
        lengths = self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        few = fits(self.documents, len(rows))
        documents = Selected(self.documents, self.offsets[chosen], offsets)
        return QuerySet(
            documents=documents.between(0, len(rows)) if few else documents.as_matrix,
            labels=self.labels[rows],
            offsets=offsets,
            query_ids=tuple(self.query_ids[q] for q in chosen),
            feature_names=self.feature_names,
            lines=self.lines[rows],
            comments=None if self.comments is None else Texts.of(self.comments).take(rows),
            origin=self.origin,
            weights=None if self.weights is None else self.weights[chosen],
            positions=None if self.positions is None else self.positions[rows],
            present=None if self.present is None else self.present._replace(scores=self.present.scores[rows]),
            special=self.special,
        )


def concatenated(parts: Sequence[QuerySet]) -> QuerySet:
    """Return the queries of all parts, one part after the other; they have the same features.

    Queries without a weight count 1 beside others that have one.
    """
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([part.lengths for part in parts])
    return replace(
        parts[0],
        documents=_below_each_other([part.documents for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        query_ids=tuple(query_id for part in parts for query_id in part.query_ids),
        lines=np.concatenate([part.lines for part in parts]),
        comments=None,
        origin=parts[0].origin if all(part.origin is parts[0].origin for part in parts) else None,
        weights=_joined(parts, "weights", lambda part: np.ones(len(part))),
        positions=_joined(parts, "positions", lambda part: np.zeros(part.n_docs, np.int64)),
        present=_presented([part.present for part in parts]),
    )


def _presented(parts: Sequence[Present | None]) -> Present | None:
    known = [one for one in parts if one is not None]
    if len(known) < len(parts):
        return None
    return Present(known[0].name, np.concatenate([one.scores for one in known]))


def _below_each_other(parts: Sequence[Matrix]) -> Matrix:
    n_docs = sum(len(part) for part in parts)
    if all(fits(part, n_docs) for part in parts):
        return np.concatenate(parts)
    return StackedRows(parts).as_matrix


class _Lists(Sequence["Matrix"]):
    """See `QuerySet.lists`."""

    def __init__(self, queries: QuerySet) -> None:
        self._queries = queries

    def __len__(self) -> int:
        return len(self._queries)

    @overload
    def __getitem__(self, position: int) -> Matrix: ...
    @overload
    def __getitem__(self, position: slice) -> list[Matrix]: ...
    def __getitem__(self, position: int | slice) -> Matrix | list[Matrix]:
        if isinstance(position, slice):
            return [self[query] for query in range(*position.indices(len(self)))]
        return self._queries.documents_of(range(len(self))[position])


def _joined(parts: Sequence[QuerySet], name: str, default: Callable[[QuerySet], Any]) -> Any:
    found = [getattr(part, name) for part in parts]
    if all(values is None for values in found):
        return None
    return np.concatenate(
        [default(part) if values is None else values for part, values in zip(parts, found, strict=True)]
    )
