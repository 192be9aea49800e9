"""The committed demo model is what `make demo` makes, and is worth showing."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from localrank import Ranker, load
from localrank.artifact import verify
from localrank.metrics import Judgements
from localrank_training.cli.demo import demo
from localrank_training.data.synthetic import demo_queries
from localrank_training.evaluation.evaluating import rank_all

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def printed(models: Path) -> list[str]:
    """What the command says when it has made the model."""
    said = io.StringIO()
    with redirect_stdout(said):
        demo(str(models))
    return said.getvalue().splitlines()


@pytest.fixture(scope="module")
def rebuilt(models: Path, printed: list[str]) -> Ranker:
    assert printed
    return load(models / "demo")


def test_the_command_says_what_it_made_and_what_to_do_next(models: Path, printed: list[str]) -> None:
    published, measured, after = printed

    assert f"published demo version 1 in {models / 'demo'}" == published
    last = json.loads((models / "demo" / "1" / "manifest.json").read_text())["metrics"]["figures"][-1]
    assert f"{last['metric']} on 100 validation queries: {last['model']:.4f}, its global model " in measured
    assert f"{last['global']:.4f} (" in measured
    assert "serve it: localrank serve" == after


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
