from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank_training.advice.assessment import assess
from localrank_training.data.reading import read
from tests.training.kinds import two_kinds

SAMPLE = str(Path(__file__).parents[3] / "docs" / "examples" / "judged.csv")


def test_queries_of_different_kinds_are_told_from_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["assess", SAMPLE, "--json"])

    found = json.loads(capsys.readouterr().out)
    assert (80, 80, 960) == (found["queries"], found["of_queries"], found["documents"])
    linear, _, local = found["candidates"]
    assert local["ndcg@10"] > linear["ndcg@10"] + 0.05
    assert linear["against_first"] is None
    assert pytest.approx(local["ndcg@10"] - linear["ndcg@10"]) == local["against_first"]["difference"]
    kinds, better, best = found["sentences"]
    assert kinds.startswith("Clusters are stable: ")
    assert better.startswith("Local models are better than one linear model (ndcg@10 +")
    assert best.startswith(
        f"The best here is linear models of 4 clusters (localrank train {SAMPLE} --learner ranksvm "
    )


def test_labels_of_noise_favour_nothing() -> None:
    queries = read([SAMPLE])
    queries.labels[:] = np.random.default_rng(0).integers(0, 3, queries.n_docs)

    found = assess(queries)

    assert "Local models are not clearly better" in found.sentences[1]
    assert found.sentences[2].startswith("Nothing here is clearly better than one linear model")
    # As good as any order: what random scores reach.
    random = (
        Judgements(queries.labels, queries.offsets)
        .per_query(np.random.default_rng(1).random(960), "ndcg@10")
        .mean()
    )
    assert abs(found.candidates[0].mean - random) < 0.1


def test_too_few_queries_are_refused() -> None:
    with pytest.raises(
        InvalidData, match="expected at least 10 queries with documents of different labels, found 3 of 3"
    ):
        assess(two_kinds().select([0, 1, 2]))
