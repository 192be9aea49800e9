"""The choice of m and h on signatures around known centres."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.points.signature import Signatures
from localrank_training.run.tables import TablesTrial, tune_tables


def around_centres(count: int, spread: float = 0.4, seed: int = 0) -> tuple[Signatures, np.ndarray]:
    random = np.random.default_rng(seed)
    centres = np.linalg.qr(np.random.default_rng(9).standard_normal((6, 16, 2)))[0]
    clusters = random.integers(6, size=count)
    noisy = centres[clusters] + spread * random.standard_normal((count, 16, 2)) / 4
    directions = np.ascontiguousarray(np.linalg.qr(noisy)[0].transpose(0, 2, 1), np.float32)
    return Signatures(directions, np.ones((count, 2)), np.full(count, 2, np.int64)), clusters


def test_the_fastest_that_agrees_often_enough_is_chosen() -> None:
    signatures, clusters = around_centres(800)

    trials = tune_tables(signatures, clusters, wanted=0.9, tables=(2, 8), planes=(3, 5))

    chosen = [trial for trial in trials if trial.chosen]
    enough = [trial for trial in trials if trial.tables and trial.agreement >= 0.9]
    assert [min(enough, key=lambda trial: trial.milliseconds)] == chosen
    assert [(0, 0), (2, 3), (2, 5), (8, 3), (8, 5)] == [(trial.tables, trial.planes) for trial in trials]
    assert (1.0, 1.0, 720.0) == (trials[0].recall, trials[0].agreement, trials[0].candidates)


def test_where_none_agrees_often_enough_the_best_is_chosen() -> None:
    signatures, clusters = around_centres(400, spread=4.0)

    trials = tune_tables(signatures, clusters, wanted=1.01, tables=(1, 4), planes=(6,))

    best = max(trials[1:], key=lambda trial: trial.agreement)
    assert [best] == [trial for trial in trials if trial.chosen]


def test_more_tables_find_the_most_similar_query_more_often() -> None:
    signatures, clusters = around_centres(3000, spread=1.5)
    held, _ = around_centres(200, spread=1.5, seed=1)

    few, many = tune_tables(signatures, clusters, held, tables=(2, 32), planes=(9,))[1:]

    assert few.recall < many.recall


def test_queries_without_a_signature_are_left_out() -> None:
    signatures, clusters = around_centres(300)
    signatures.ranks[::3] = 0
    clusters[::3] = -1

    exact: TablesTrial = tune_tables(signatures, clusters, tables=(4,))[0]

    # 200 have one, a tenth of them is held out.
    assert 180 == exact.candidates


def test_too_few_queries_are_refused() -> None:
    signatures, clusters = around_centres(5)

    with pytest.raises(InvalidData, match="found 0 held-out ones and 5"):
        tune_tables(signatures, clusters)
