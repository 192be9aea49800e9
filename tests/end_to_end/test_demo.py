"""The committed demo model is what `make demo` makes, and is worth showing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from localrank import Ranker, load
from localrank.artifact import verify
from localrank.metrics import Judgements
from localrank_training.commands.demo import demo
from localrank_training.data.demo import demo_queries
from localrank_training.evaluation import rank_all

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Ranker:
    folder = tmp_path_factory.mktemp("models")
    demo(str(folder))
    return load(folder / "demo")


def test_the_committed_model_is_small_and_proves_itself() -> None:
    verify(DEMO / "1")

    assert sum(path.stat().st_size for path in DEMO.rglob("*") if path.is_file()) < 1_000_000


def test_rebuilding_it_gives_the_same_rankings(rebuilt: Ranker) -> None:
    committed, test = load(DEMO), demo_queries()[2]

    for documents in test.clouds():
        expected, ranking = committed.rank(documents), rebuilt.rank(documents)
        assert expected.route.cluster == ranking.route.cluster
        np.testing.assert_allclose(expected.scores, ranking.scores, rtol=1e-6)
        np.testing.assert_array_equal(expected.order, ranking.order)


def test_it_ranks_unseen_queries_far_better_than_its_global_scorer() -> None:
    test = demo_queries()[2]

    ranked = rank_all(load(DEMO), test)

    judged = Judgements(test.labels, test.offsets)
    local, global_ = (
        judged.per_query(scores, "ndcg@10").mean() for scores in (ranked.scores, ranked.global_scores)
    )
    assert local - global_ > 0.1
