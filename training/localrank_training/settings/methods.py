"""Ready configurations: the tables that ``--method`` stands for. A file and ``--set`` override single settings of them."""

from __future__ import annotations

from typing import Any, TypeAlias

from localrank_training.plugins import Components

#: The tables of one configuration.
Tables: TypeAlias = dict[str, dict[str, Any]]
#: As their papers publish them, the methods learn from the training queries only.
_AS_PUBLISHED = {"refit": False}
#: Adaptive training [cremers2020], but for the clusters.
_ADAPTIVE: dict[str, dict[str, Any]] = {
    "representation": {"method": "top_documents", "documents": 10, "by": "best"},
    "similarity": {"method": "euclidean"},
    "learner": {"method": "lambdamart"},
    "routing": {"method": "fusion"},
    "selection": {"metric": "ndcg@5", **_AS_PUBLISHED},
}

_ADAPTIVE_CLUSTERS = {"clusters": 5, "representation": "relevant_mean", "rounds": 2}

_OURS: dict[str, Tables] = {
    "localrank": {
        "clustering": {"method": "complete_link"},
        "learner": {"method": "svmmap", "C": [0.1, 1.0, 10.0, 100.0]},
        "routing": {"method": "lsh"},
        "selection": _AS_PUBLISHED,
    },
    "adaptive_kmeans": {**_ADAPTIVE, "clustering": {"method": "kmeans", **_ADAPTIVE_CLUSTERS}},
    "adaptive_ward": {**_ADAPTIVE, "clustering": {"method": "ward", **_ADAPTIVE_CLUSTERS}},
    "pca_query": {
        "contract": {"normalise": "global_zscore"},
        "representation": {"method": "top_scores_pca"},
        "similarity": {"method": "euclidean"},
        "clustering": {"method": "bisecting_kmeans"},
        "learner": {"method": "ranksvm"},
        "routing": {"method": "centroid"},
        "selection": _AS_PUBLISHED,
    },
    "knn": {
        "representation": {"method": "top_documents", "documents": 10, "by": "best"},
        "similarity": {"method": "euclidean"},
        "clustering": {"method": "knn", "neighbours": [10, 25, 50]},
        "learner": {"method": "ranksvm", "C": [1.0, 10.0, 100.0]},
        "routing": {"method": "exact"},
        "selection": _AS_PUBLISHED,
    },
    "global": {"clustering": {"method": "none"}},
    "auto": {
        "contract": {"normalise": "global_zscore", "missing": "learned"},
        "representation": {"share": 0.95},
        "similarity": {"form": "covariance"},
        "clustering": {
            "method": "prototypes",
            "clusters": 16,
            "share": [0.05, 0.1, 0.2, 0.4],
            "shrink": [0.0, 0.1, 0.5, 2.0],
            "kinds": True,
            "gate": 2.0,
        },
        "learner": {"method": "blend"},
    },
}


def _is_tables(_: str, found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(table, dict) for table in found.values())


#: Ready configurations, by the name that ``--method`` takes; plug-ins included.
METHODS: Components[Tables] = Components(
    "method", "localrank.methods", _OURS, "a dict of tables, each a dict of settings", _is_tables
)
#: What is trained without ``--method``, ``--config`` and ``--learner``.
DEFAULT_METHOD = "auto"
