"""The official folds of the real data sets, found through ``LOCALRANK_DATA``."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from localrank.features.contract import FeatureContract
from localrank_training.data.clouds import Clouds
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank_training.data.queries import QuerySet

#: The convention of each set's official script, beside the one that is comparable between sets.
CONVENTIONS = {"OHSUMED": ("letor3", "standard"), "MQ2008": ("letor4", "standard")}


def data_dir() -> Path:
    """Return the folder of the real data sets, or stop and say what to set."""
    folder = os.environ.get("LOCALRANK_DATA")
    if not folder or not Path(folder).is_dir():
        sys.exit("LOCALRANK_DATA: expected the folder of the real data sets (OHSUMED/S1.txt.gz, …)")
    return Path(folder)


def folds(name: str) -> Iterator[tuple[QuerySet, QuerySet, QuerySet]]:
    """Yield train, validation and test of each of the five official folds: three, one and one of five partitions."""
    for first in range(5):
        parts = [data_dir() / name / f"S{(first + i) % 5 + 1}.txt.gz" for i in range(5)]
        yield read(parts[:3]), read(parts[3]), read(parts[4])


def shuffled(queries: QuerySet, seed: int = 0) -> QuerySet:
    """Return the same queries, the documents of each list in random order, so that equal scores gain nothing by theirs."""
    drawn = np.random.default_rng(seed).random(queries.n_docs)
    rows = np.lexsort((drawn, queries.query_of))
    return replace(
        queries,
        documents=np.ascontiguousarray(queries.documents[rows]),
        labels=queries.labels[rows],
        lines=queries.lines[rows],
        comments=None if queries.comments is None else tuple(queries.comments[row] for row in rows),
    )


def as_published(queries: QuerySet) -> Clouds:
    """Return queries of a set that is published normalised, as the clouds of a contract that changes nothing."""
    contract = FeatureContract.learn(queries.documents, queries.lengths.tolist(), normalise="none")
    return Clouds(queries, contract)
