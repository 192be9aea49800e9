"""What is known of learners on the official folds of OHSUMED."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.metrics import Judgements
from localrank_training.data.reading import read
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.notes import collected
from localrank_training.learners.svmmap import SvmMap

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet

FOLDER = Path(os.environ.get("LOCALRANK_DATA", "/nowhere")) / "OHSUMED"

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="LOCALRANK_DATA names no folder with OHSUMED"),
]


def parts(first: int, count: int) -> QuerySet:
    """Read the partitions from a position on, the first following the fifth."""
    return read([FOLDER / f"S{(first + i) % 5 + 1}.txt.gz" for i in range(count)])


def test_regression_on_the_labels_gives_the_known_figures() -> None:
    """Mean over the folds of MAP 0.42199 and official NDCG@10 0.41105."""
    figures = []
    for first in range(5):
        scorer = LeastSquares(ridge=1e-9, centre="all").fit(Lesson(parts(first, 3)))
        test = parts(first + 4, 1)
        scores = np.concatenate([scorer.score_rows(documents) for documents in test.clouds()])
        measured = Judgements(test.labels, test.offsets, "letor3").measure(scores, ["map", "ndcg@10"])
        figures.append([one.mean for one in measured])

    np.testing.assert_allclose(np.mean(figures, axis=0), [0.42199, 0.41105], atol=1e-4)


def test_svmmap_learns_a_fold_in_seconds_and_proves_its_gap() -> None:
    train = parts(0, 3)
    started = time.process_time()

    with collected() as notes:
        scorer = SvmMap(C=10.0).fit(Lesson(train))

    assert time.process_time() - started < 5.0
    assert notes[0].figures["gap"] <= 1e-4 * notes[0].figures["objective"]
    scores = np.concatenate([scorer.score_rows(documents) for documents in train.clouds()])
    assert Judgements(train.labels, train.offsets).per_query(scores, "map").mean() > 0.45
