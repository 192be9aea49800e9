"""The ready configurations: what each of them sets, as docs/use/configuration.md and the papers say."""

from __future__ import annotations

from typing import Any

import pytest

from localrank.settings import plain
from localrank_training.config import TrainingConfig
from localrank_training.methods import DEFAULT_METHOD, METHODS

_TENS = [0.1, 1.0, 10.0, 100.0]
_TOP = {"method": "top_documents", "documents": 10, "by": "best"}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            "localrank",
            {
                "clustering": {"method": "complete_link", "candidates": [1, 2, 3, 5]},
                "learner": {"method": "svmmap", "C": _TENS},
                "routing": {"method": "lsh"},
                "selection": {"refit": False},
            },
        ),
        (
            "adaptive_kmeans",
            {
                "representation": _TOP,
                "similarity": {"method": "euclidean"},
                "clustering": {
                    "method": "kmeans",
                    "clusters": 5,
                    "representation": "relevant_mean",
                    "rounds": 2,
                },
                "learner": {"method": "lambdamart"},
                "routing": {"method": "fusion"},
                "selection": {"metric": "ndcg@5", "refit": False},
            },
        ),
        (
            "adaptive_ward",
            {
                "representation": _TOP,
                "clustering": {
                    "method": "ward",
                    "clusters": 5,
                    "representation": "relevant_mean",
                    "rounds": 2,
                },
                "selection": {"metric": "ndcg@5", "refit": False},
            },
        ),
        (
            "pca_query",
            {
                "contract": {"normalise": "global_zscore"},
                "representation": {"method": "top_scores_pca"},
                "similarity": {"method": "euclidean"},
                "clustering": {"method": "bisecting_kmeans"},
                "learner": {"method": "ranksvm"},
                "routing": {"method": "centroid"},
                "selection": {"refit": False},
            },
        ),
        (
            "knn",
            {
                "representation": _TOP,
                "similarity": {"method": "euclidean"},
                "clustering": {"method": "knn", "neighbours": [10, 25, 50]},
                "learner": {"method": "ranksvm", "C": [1.0, 10.0, 100.0]},
                "routing": {"method": "exact"},
                "selection": {"refit": False},
            },
        ),
        (
            "mhr",
            {
                "clustering": {"method": "none"},
                "learner": {"method": "mhr", "C": _TENS, "aggregate": ["borda", "weighted_borda"]},
                "selection": {"refit": False},
            },
        ),
        (
            "lgmml",
            {
                "clustering": {"method": "none"},
                "learner": {
                    "method": "lgmml",
                    "candidate_sets": "documents",
                    "t": [0.3, 0.5, 0.7, 0.9],
                    "weights": ["uniform", "mean", "similarity"],
                },
                "selection": {"refit": False},
            },
        ),
        ("global", {"clustering": {"method": "none"}, "selection": {"refit": True}}),
        (
            "auto",
            {
                "contract": {"normalise": "global_zscore", "missing": "learned"},
                "representation": {"method": "pca", "share": 0.95},
                "similarity": {"form": "covariance"},
                "clustering": {
                    "method": "prototypes",
                    "clusters": 16,
                    "share": [0.05, 0.1, 0.2, 0.4],
                    "shrink": [0.0, 0.1, 0.5, 2.0],
                    "gate": 2.0,
                },
                "learner": {"method": "blend"},
                "selection": {"refit": True},
            },
        ),
    ],
)
def test_a_method_has_the_settings_of_its_paper(method: str, expected: dict[str, Any]) -> None:
    found = plain(TrainingConfig.read(method=method))

    assert expected == {
        table: {name: found[table].get(name) for name in settings} for table, settings in expected.items()
    }


def test_auto_is_trained_if_nothing_is_chosen() -> None:
    assert "auto" == DEFAULT_METHOD
    assert plain(TrainingConfig.read(method="auto")) == plain(TrainingConfig.read())
    assert DEFAULT_METHOD in METHODS
