"""Studies whose results are made up, so that what a report makes of them can be calculated another way."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from localrank_papers.figures.folds import Data, Fold
from localrank_papers.figures.study import Study
from localrank_training.data.queries import QuerySet, default_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank_papers.figures.fits import Arrays, Fit, Fits
    from localrank_papers.figures.study import Findings
    from localrank_training.report import Plot, Table


class MadeUp:
    """Takes the place of `Fits`: what a fit results in is made up when it is asked for."""

    def __init__(self, make: Callable[[Fit], Arrays]) -> None:
        self._make = make
        self.more: list[Fit] = []

    def of(self, fit: Fit) -> Arrays:
        return self._make(fit)

    def run_more(self, fits: Sequence[Fit]) -> None:
        self.more += fits


def study(data: Data, make: Callable[[Fit], Any] = lambda _: {}, *, draws: int = 0, seed: int = 3) -> Study:
    return Study(data, cast("Fits", MadeUp(make)), draws, seed)


def numbers_for(fit: Fit) -> np.random.Generator:
    """Return a generator that is the same for the same work, fold and settings, and another one for any others."""
    described = json.dumps(
        [fit.work.__qualname__, None if fit.fold is None else fit.fold.number, fit.settings], sort_keys=True
    )
    return np.random.default_rng(list(hashlib.sha256(described.encode()).digest()))


def uneven(lengths: Sequence[int], *, seed: int = 0, n_features: int = 3, first: int = 0) -> QuerySet:
    """Return queries of these lengths. Each has documents with the labels 0, 1 and 2."""
    rng = np.random.default_rng([seed, first])
    n_docs = sum(lengths)
    labels = np.concatenate([np.arange(length) % 3 for length in lengths])
    return QuerySet(
        documents=rng.random((n_docs, n_features), np.float32),
        labels=labels.astype(np.float64),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        query_ids=tuple(f"q{first + query}" for query in range(len(lengths))),
        feature_names=default_names(n_features),
        lines=np.arange(n_docs),
    )


def small_data(tested: Sequence[int] = (5, 3), name: str = "made up") -> Data:
    """Return folds with so many test queries; their numbers differ, so that a mean of means is no mean."""
    folds, first = [], 0
    for number, count in enumerate(tested, 1):
        test = uneven([4 + query for query in range(count)], first=first)
        folds.append(
            Fold(number, uneven([5, 6, 7], first=100 * number), uneven([6, 4], first=200 * number), test)
        )
        first += count
    return Data(name, "standard", tuple(folds))


def table(found: Findings, title: str) -> Table:
    """Return the one table whose title begins so."""
    (one,) = [one for one in found.tables if one.title.startswith(title)]
    return one


def rows_of(one: Table, keys: int = 1) -> dict[Any, list[Any]]:
    """Return the rows by their first cells."""
    return {(row[0] if keys == 1 else tuple(row[:keys])): list(row[keys:]) for row in one.rows}


def plot(found: Findings, title: str) -> Plot:
    """Return the one plot whose title begins so."""
    (one,) = [one for one in found.plots if one.title.startswith(title)]
    return one


def mark(one: Plot, name: str) -> Any:
    """Return the one mark of this name."""
    (found,) = [mark for mark in one.marks if mark.name == name]
    return found
