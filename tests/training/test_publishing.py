from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_training.data.reading import read
from localrank_training.data.writing import write
from localrank_training.publishing import fingerprint
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = two_kinds(4)


@pytest.mark.parametrize("file", ["data.txt", "data.txt.gz", "data.parquet"])
def test_the_same_data_have_the_same_fingerprint_in_any_format(file: str, tmp_path: Path) -> None:
    write(QUERIES, tmp_path / file)

    assert fingerprint(QUERIES) == fingerprint(read([tmp_path / file]))


@pytest.mark.parametrize(
    "change",
    [
        {"documents": np.where(np.arange(300).reshape(60, 5) == 7, 0, QUERIES.documents)},
        {"labels": np.roll(QUERIES.labels, 1)},
        {"offsets": QUERIES.offsets + np.array([0, 1, 0, 0, 0])},
        {"query_ids": ("q0", "q1", "q2", "q4")},
        {"feature_names": ("f1", "f2", "f3", "f4", "bm25")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_differs_changes_the_fingerprint(change: dict[str, Any]) -> None:
    assert fingerprint(QUERIES) != fingerprint(replace(QUERIES, **change))
