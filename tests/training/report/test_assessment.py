from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank_training.advice.helping import FEWEST
from localrank_training.data.queries import concatenated
from localrank_training.data.reading import read
from localrank_training.learners.blend import MEMBERS, Blend
from localrank_training.learners.budget import FitPlan, plan_fits
from localrank_training.report.assessment import affordable, assess
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

SAMPLE = str(Path(__file__).parents[3] / "docs" / "examples" / "judged.csv")


def test_queries_of_different_kinds_are_told_from_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["assess", SAMPLE, "--workers", "1", "--budget", "20", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert (80, 80, 960) == (found["queries"], found["of_queries"], found["documents"])
    tried = found["metrics"]["blend"]
    assert [f"{one['method']} on {one['blocks']}" for one in MEMBERS] == [
        one["name"] for one in tried["members"]
    ]
    gain = tried["locality"]["gain"]
    assert gain["mean"] > 0.05
    kinds, baseline, last = found["sentences"]
    assert kinds.startswith(
        f"The queries are of different kinds, parted by their shape: local models gain +{gain['mean']:.4f}"
    )
    assert baseline.startswith("Best single feature 'body_match'")
    assert f"Train it in earnest: localrank train {SAMPLE}" == last


def test_labels_of_noise_favour_nothing() -> None:
    queries = read([SAMPLE])
    queries.labels[:] = np.random.default_rng(0).integers(0, 3, queries.n_docs)

    found = assess(queries, budget=5)

    local, _, last = found.sentences
    assert local.startswith("Local models are not better by enough (")
    assert last.startswith("No figure of the quick model is clearly better, so look at the labels")
    # As good as any order: what random scores reach.
    random = (
        Judgements(queries.labels, queries.offsets)
        .per_query(np.random.default_rng(1).random(960), "ndcg@10")
        .mean()
    )
    assert abs(found.report.local[-1].mean - random) < 0.1


@pytest.mark.parametrize("budget", [2.0, 8.0, 1000.0])
def test_as_many_queries_are_taken_as_the_budget_affords(budget: float) -> None:
    queries = concatenated([read([SAMPLE])] * 40)
    config = TrainingConfig.read(overrides=[f"learner.budget={budget}"])

    chosen = affordable(queries, config, 0)

    def plan(n_docs: int) -> FitPlan:
        return plan_fits(Blend(budget=budget), n_docs, queries.n_features)

    # Every query has twelve documents.
    for documents, fits in ((chosen.n_docs, True), (chosen.n_docs + 12, False)):
        found = plan(documents)
        whole = found.seconds <= budget and len(found.members) == len(MEMBERS)
        assert whole is fits or len(chosen) in {FEWEST, len(queries)}
    assert 1000.0 > budget or len(chosen) == len(queries)


def test_too_few_queries_are_refused() -> None:
    with pytest.raises(
        InvalidData, match="expected at least 10 queries with documents of different labels, found 3 of 3"
    ):
        assess(two_kinds().select([0, 1, 2]))
