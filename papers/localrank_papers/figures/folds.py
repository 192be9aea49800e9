"""The data of an experiment: folds of training, validation and test queries.

A folder holds either the partitions ``S1`` to ``S5`` (fold ``k`` learns from three, validates on the next and tests on
the last, as in LETOR), or the folders ``Fold1``, ``Fold2``, … with ``train``, ``vali`` and ``test``;
``localrank data split --folds 5`` makes such folders of any data, with ``validation`` for ``vali``. Files are LETOR
text, plain or packed (``.txt``, ``.txt.gz``, ``.txt.zst``). Known data sets are recognised by their size, whatever the
folder is called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank.errors import InvalidData
from localrank_training.data.queries import concatenated
from localrank_training.data.reading import read
from localrank_training.evaluation.twins import contested
from localrank_training.journal import fingerprint
from localrank_training.parallel.processes import silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank_training.data.queries import QuerySet
    from localrank_training.parallel.processes import Progress

PARTITIONS = 5
_ENDINGS = (".txt", ".txt.gz", ".txt.zst")
#: The files of a fold, and what else each may be called.
_PARTS = (("train",), ("vali", "validation"), ("test",))


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold: what is learned from, what choices are made by, and what is scored once.

    Attributes:
        number: from 1.
        train, validation, test: judged queries.
    """

    number: int
    train: QuerySet
    validation: QuerySet
    test: QuerySet

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all its queries."""
        return " ".join(fingerprint(part) for part in (self.train, self.validation, self.test))


class Known(NamedTuple):
    """A data set that papers report on.

    Attributes:
        name: as papers call it.
        convention: of its official script (`localrank.metrics`).
    """

    name: str
    convention: str


#: By queries, documents and features.
KNOWN = {
    (106, 16140, 45): Known("OHSUMED", "letor3"),
    (784, 15211, 46): Known("MQ2008", "letor4"),
    (1692, 69623, 46): Known("MQ2007", "letor4"),
    (10000, 1200192, 136): Known("MSLR-WEB10K", "mslr"),
}


@dataclass(frozen=True, eq=False)
class Data:
    """A data set in folds.

    Attributes:
        name: as papers call it, or that of the folder.
        convention: in which its metrics are measured: the official one of a known set, else ``standard``.
        folds: all of them; none for an experiment that makes its own data.
    """

    name: str
    convention: str
    folds: tuple[Fold, ...]

    @classmethod
    def of(cls, name: str, folds: Sequence[Fold]) -> Data:
        """Recognise folds by what they hold."""
        every = everything(folds)
        known = KNOWN.get((len(every), every.n_docs, every.n_features), Known(name, "standard"))
        return cls(known.name, known.convention, tuple(folds))


def everything(folds: Sequence[Fold]) -> QuerySet:
    """Return all queries of the folds, each once."""
    return concatenated([fold.test for fold in folds])


def read_folds(folder: Path, progress: Progress = silent) -> Data:
    """Read a data set.

    Raises:
        InvalidData: the folder does not hold folds; what was expected is named.
    """
    if not folder.is_dir():
        raise InvalidData(f"{folder}: expected {_EXPECTED}, found no folder")
    parts = [_file(folder, f"S{number}") for number in range(1, PARTITIONS + 1)]
    found = [part for part in parts if part is not None]
    if len(found) == PARTITIONS:
        return Data.of(folder.resolve().name, _rotated([read(part, progress=progress) for part in found]))
    if found:
        missing = [f"S{number}" for number, part in enumerate(parts, 1) if part is None]
        raise InvalidData(f"{folder}: expected {_EXPECTED}, found no {', '.join(missing)}")
    numbered = sorted(
        int(path.name.removeprefix("Fold"))
        for path in folder.glob("Fold*")
        if path.name.removeprefix("Fold").isdecimal()
    )
    if not numbered:
        raise InvalidData(f"{folder}: expected {_EXPECTED}, found neither")
    folds = []
    for number in numbered:
        three = []
        for name, *others in _PARTS:
            path = _file(folder / f"Fold{number}", name, *others)
            if path is None:
                raise InvalidData(
                    f"{folder / f'Fold{number}'}: expected train, vali and test, found no {name}"
                )
            three.append(read(path, progress=progress))
        folds.append(Fold(number, *three))
    return Data.of(folder.resolve().name, folds)


_EXPECTED = (
    "partitions S1.txt to S5.txt or folders Fold1, Fold2, … with train.txt, vali.txt and test.txt (.gz, .zst), as "
    "localrank data split --folds makes them"
)


def _file(folder: Path, *names: str) -> Path | None:
    paths = (folder / f"{name}{end}" for name in names for end in _ENDINGS)
    return next((path for path in paths if path.is_file()), None)


def _rotated(parts: Sequence[QuerySet]) -> list[Fold]:
    widest = max(part.n_features for part in parts)
    if any(part.n_features != widest for part in parts):
        raise InvalidData(
            f"partitions: expected the same features in all, found {[part.n_features for part in parts]}"
        )
    n = len(parts)
    return [
        Fold(
            first + 1,
            concatenated([parts[(first + i) % n] for i in range(n - 2)]),
            parts[(first + n - 2) % n],
            parts[(first + n - 1) % n],
        )
        for first in range(n)
    ]


# ------------------------------------------------------------------------------------------------
# LocalRank's cleaning of its data (section 4.1.1): no documents of contested relevance, no queries without a relevant document.
#
# It looks at the labels of test queries, too, so figures on cleaned data do not compare with official ones.


@lru_cache(2)
def cleaned(data: Data) -> Data:
    """Return the folds without contested documents and without queries that have no relevant document."""
    folds = [
        Fold(fold.number, *(cleaned_queries(part) for part in (fold.train, fold.validation, fold.test)))
        for fold in data.folds
    ]
    return Data(f"{data.name}, cleaned", data.convention, tuple(folds))


def cleaned_queries(queries: QuerySet) -> QuerySet:
    """Drop documents that have a twin with another label, then queries without a relevant document."""
    kept = ~contested(queries)
    counts = np.bincount(queries.query_of[kept], minlength=len(queries))
    fewer = replace(
        queries,
        documents=np.ascontiguousarray(queries.documents[kept]),
        labels=queries.labels[kept],
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        lines=queries.lines[kept],
        comments=None,
        positions=None if queries.positions is None else queries.positions[kept],
    )
    relevant = [query for query in range(len(fewer)) if (fewer.labels_of(query) > 0).any()]
    return fewer.select(relevant)
