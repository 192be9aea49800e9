"""Learners on a table with categories: what they make of them, and that a stored model ranks by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from localrank.artifact import load
from localrank.scorers import TreesScorer
from localrank.scorers.trees import CATEGORICAL
from localrank_training import LocalRanker

if TYPE_CHECKING:
    from pathlib import Path

SMALL: dict[str, dict[str, Any]] = {
    "linear": {},
    "ranksvm": {"learner.C": [1.0]},
    "lambdamart": {"learner.num_iterations": 20, "learner.members": 1, "learner.num_threads": 1},
    "gbrt": {"learner.num_iterations": 20, "learner.members": 1, "learner.num_threads": 1},
    "extra_trees": {"learner.trees": 20, "learner.blocks": "[raw, zscore]", "learner.num_threads": 1},
    "random_forest": {"learner.trees": 10, "learner.num_threads": 1},
}


def table(seed: int, n_queries: int = 40, n_docs: int = 12) -> pd.DataFrame:
    """Return documents whose label is the worth of their brand, which is in no order of the names."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_docs
    brand = rng.integers(8, size=n)
    noise = rng.normal(size=n)
    frame = pd.DataFrame({"x": noise, "brand": [f"b{one}" for one in brand], "sale": brand % 2 == 0})
    frame["qid"] = np.repeat(np.arange(n_queries), n_docs)
    frame["y"] = np.array([0, 3, 1, 0, 2, 0, 3, 1])[brand]
    frame.loc[frame.index % 17 == 0, "brand"] = None
    frame.loc[frame.index % 19 == 0, "x"] = np.nan
    return frame


@pytest.mark.parametrize("learner", SMALL)
def test_a_learner_ranks_by_a_category_and_takes_gaps(learner: str, tmp_path: Path) -> None:
    known, new = table(0), table(1)
    settings = {"selection.folds": 2, **SMALL[learner]}

    ranker = LocalRanker(learner=learner, settings=settings).fit(known.drop(columns="y"), known["y"])

    asked = new.drop(columns="y")
    assert ranker.score(asked, new["y"]) > 0.85
    first = asked[asked["qid"] == 0].drop(columns="qid")
    found = load(ranker.publish("shop", tmp_path).path).ranker.rank(first)
    np.testing.assert_array_equal(ranker.predict(asked)[: len(first)], found.scores)
    scorer = found.route.cluster is None and ranker.trained_.built.ranker.global_scorer
    if learner in {"lambdamart", "gbrt"}:
        assert isinstance(scorer, TreesScorer)
        assert (scorer.decisions & CATEGORICAL).any()
