"""Which steps go together: one sentence names both and what to set instead."""

from __future__ import annotations

import re
from typing import Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.config import TrainingConfig

MEAN = {"representation": {"method": "mean"}, "similarity": {"method": "euclidean"}}


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            {"representation": {"method": "mean"}},
            (
                "[similarity] method 'pca_cosine' does not compare what [representation] method 'mean' makes; set "
                "[similarity] method = 'euclidean'"
            ),
        ),
        (
            {"representation": {"method": "gaussian"}},
            (
                "[similarity] method 'pca_cosine' does not compare what [representation] method 'gaussian' makes; set "
                "[similarity] method = 'kl' or 'bhattacharyya'"
            ),
        ),
        (
            {"similarity": {"method": "euclidean"}},
            (
                "[similarity] method 'euclidean' does not compare what [representation] method 'pca' makes; set "
                "[similarity] method = 'pca_cosine'"
            ),
        ),
        *(
            (
                {"clustering": {"method": method}},
                (
                    f"[clustering] method {method!r} clusters vectors, which [representation] method 'pca' does not make; "
                    "set [clustering] representation = 'relevant_mean', or method = 'complete_link'"
                ),
            )
            for method in ("kmeans", "ward", "bisecting_kmeans")
        ),
        *(
            (
                {"clustering": {"method": method, "clusters": clusters}},
                (
                    f"[clustering] clusters: expected none with method {method!r}, which has a model per query, found "
                    f"{clusters}"
                ),
            )
            for method, clusters in (("knn", 1), ("per_query", 4))
        ),
        (
            {"clustering": {"method": "random", "rounds": 1}},
            "[clustering] rounds: expected 0 for random clusters, because they do not depend on the scores of models",
        ),
        (
            {"clustering": {"rounds": 1}, "learner": {"method": "ranksvm", "blocks": "normalised,route"}},
            (
                "[clustering] rounds: learner 'ranksvm' uses the block 'route', which exists only after clustering; set "
                "rounds = 0, or use other blocks"
            ),
        ),
        (
            {"routing": {"method": "centroid"}},
            (
                "[routing] method 'centroid' takes VectorPoints, which [representation] method 'pca' does not make; set "
                "[routing] method = 'exact' or 'medoid'"
            ),
        ),
        *(
            (
                {**MEAN, "clustering": {"method": "knn"}, "routing": {"method": method}},
                (
                    f"[routing] method {method!r} needs several queries in each cluster, but [clustering] method 'knn' has a "
                    "model for each query; set [routing] method = 'exact'"
                ),
            )
            for method in ("classifier", "fusion")
        ),
        (
            {"routing": {"method": "overlap"}},
            (
                "[routing] method 'overlap' needs models of neighbours: expected [clustering] method 'knn', found "
                "'complete_link'; set [routing] method = 'exact'"
            ),
        ),
        *(
            (
                {"routing": {"method": "lsh", "member": member}},
                f"[routing] member {member!r} needs all members of a cluster; expected method 'exact', found 'lsh'",
            )
            for member in ("average", "farthest")
        ),
    ],
)
def test_steps_that_do_not_go_together_are_refused(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^configuration: {re.escape(sentence)}$"):
        TrainingConfig.from_tables(tables)


@pytest.mark.parametrize(
    "tables",
    [
        {**MEAN, "routing": {"method": "exact"}},
        {**MEAN, "clustering": {"method": "kmeans"}, "routing": {"method": "centroid"}},
        {"clustering": {"method": "kmeans", "representation": "relevant_mean"}},
        {"clustering": {"method": "ward", "representation": "performance_profile"}},
        {"clustering": {"method": "knn"}, "routing": {"method": "overlap"}},
        {"clustering": {"method": "per_query"}, "routing": {"method": "exact"}},
        {**MEAN, "clustering": {"method": "random"}, "routing": {"method": "fusion"}},
        {"clustering": {"rounds": 1}},
        {"clustering": {"rounds": 0}, "learner": {"method": "ranksvm", "blocks": "normalised,route"}},
        {"routing": {"method": "exact", "member": "average"}},
        {
            "representation": {"method": "gaussian"},
            "similarity": {"method": "kl"},
            "routing": {"method": "exact"},
        },
    ],
)
def test_steps_that_go_together_are_taken(tables: dict[str, Any]) -> None:
    config = TrainingConfig.from_tables(tables).to_json()

    assert tables == {
        table: {name: config[table][name] for name in settings} for table, settings in tables.items()
    }


def test_nothing_is_checked_without_clusters() -> None:
    config = TrainingConfig.from_tables(
        {"clustering": {"method": "none"}, "similarity": {"method": "euclidean"}}
    )

    assert ("none", "global") == (config.clustering.method, config.routing.method)
