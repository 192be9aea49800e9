"""What training comes to on one small data set: every learner, ready method, router, representation and way to cluster.

Each case is one run of ``localrank train``: what it printed, the manifest of what it published, and how the published model
ranks other queries.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import localrank
import localrank_training
from tests.golden.command import run
from tests.golden.frame import DATA
from tests.golden.http import TEST, queries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


TRAIN = str(DATA / "train.csv")
#: Fewer trees and steps than by default: the same code in less time.
_TREES = ("num_iterations=15", "members=2", "min_data_in_leaf=5")
QUICK: dict[str, tuple[str, ...]] = {
    "gbrt": _TREES, "lambdamart": _TREES, "extra_trees": ("trees=10", "min_samples_leaf=3"), "random_forest": ("trees=10", "min_samples_leaf=5"), "rankboost": ("rounds=10",),
    "mhr": ("C=[1.0,10.0]",), "svmmap": ("C=[1.0,10.0]", "tolerance=0.01"), "lgmml": ("metrics=4", "rounds=5"), "rmlr": ("C=[10.0,100.0]", "tolerance=0.05"),
}  # fmt: skip
LEARNERS = (
    "ranksvm",
    "svmmap",
    "linear",
    "rankboost",
    "mhr",
    "gbrt",
    "lambdamart",
    "extra_trees",
    "random_forest",
    "gmml",
    "lgmml",
    "rmlr",
    "best_feature",
    "blend",
)
METHODS: dict[str, tuple[str, ...]] = {
    "auto": (), "global": (), "localrank": ("learner.C=[1.0,10.0]", "learner.tolerance=0.01"), "adaptive_kmeans": ("clustering.clusters=3", *(f"learner.{one}" for one in _TREES)),
    "adaptive_ward": ("clustering.clusters=2", *(f"learner.{one}" for one in _TREES)), "pca_query": (), "knn": (), "mhr": ("learner.C=[1.0,10.0]",), "lgmml": ("learner.metrics=4", "learner.rounds=5", "learner.t=[0.3,0.7]"),
}  # fmt: skip
#: Representation, similarity, clustering, represented for clustering by, routing; each of them stands in one of these.
STEPS = (
    ("pca", "eq5", "complete_link", "routing", "lsh"), ("pca", "weighted", "ward", "relevant_mean", "exact"), ("pca", "subspace", "random", "routing", "medoid"),
    ("pca", "covariance", "knn", "routing", "overlap"), ("mean", "euclidean", "kmeans", "routing", "centroid"), ("variance", "euclidean", "ward", "routing", "classifier"),
    ("skew", "euclidean", "bisecting_kmeans", "routing", "fusion"), ("top_documents", "euclidean", "kmeans", "performance_profile", "exact"), ("top_scores_pca", "euclidean", "per_query", "routing", "exact"),
    ("gaussian", "kl", "complete_link", "routing", "medoid"), ("gaussian", "bhattacharyya", "complete_link", "routing", "exact"), ("pca", "eq5", "prototypes", "routing", "lsh"), ("mean", "euclidean", "none", "routing", "global"),
)  # fmt: skip
CLUSTERED = (
    "--learner",
    "linear",
    "--set",
    "clustering.method=complete_link",
    "--set",
    "clustering.clusters=3",
    "--set",
    "representation.components=2",
)
OTHER: dict[str, tuple[str, ...]] = {
    "clusters to choose from": ("--learner", "linear", "--set", "clustering.method=complete_link", "--set", "clustering.candidates=[1,2,3]"),
    "values for missing ones": (*CLUSTERED, "--set", 'contract.missing={"*"="median", age="zero", clicks="constant"}', "--set", "contract.constant=0.5"),
    "a scale of all queries": (*CLUSTERED, "--set", "contract.normalise=global_zscore"), "a scale of each query": (*CLUSTERED, "--set", "contract.normalise=query_zscore"), "no scale": (*CLUSTERED, "--set", "contract.normalise=none"),
    "validation queries": (*CLUSTERED, "--validation", str(DATA / "test.csv")), "no refit": (*CLUSTERED, "--validation", str(DATA / "test.csv"), "--set", "selection.refit=false"),
    "another metric and folds": (*CLUSTERED, "--set", "selection.metric=map", "--set", "selection.folds=3"), "towards the global scorer": (*CLUSTERED, "--set", "clustering.continuation=true", "--set", "learner.method=ranksvm", "--set", "learner.C=1.0"),
    "a guard": (*CLUSTERED, "--set", "guard.learn=true", "--set", "guard.least=4"), "no local models": (*CLUSTERED, "--set", "clustering.local=false"), "a gate": (*CLUSTERED, "--set", "clustering.gate=50.0"),
    "another seed": ("--learner", "extra_trees", "--set", "learner.trees=5", "--set", "learner.seed=3"), "blocks": ("--learner", "linear", "--set", 'learner.blocks="[minmax, zscore, rank]"'),
}  # fmt: skip


def trained(folder: Path, name: str, *arguments: str) -> dict[str, Any]:
    """Train, and return what was printed, published and learned."""
    done = run(folder, "train", TRAIN, "--name", name, "--workers", "1", "--json", *arguments)
    if done.code:
        return {"code": done.code, "said": done.err.splitlines()}
    printed = done.json
    figures = {one.pop("metric"): one for one in printed["metrics"].pop("figures")}
    return {"printed": printed, "figures": rounded(figures), **published(folder, name)}


def published(folder: Path, name: str) -> dict[str, Any]:
    """Return the manifest of a model without what was printed, and how it ranks other queries."""
    manifest = json.loads(next((folder / "models" / name).glob("*/manifest.json")).read_text())
    manifest["files"] = {file: f"{one['dtype']} {one['shape']}" for file, one in manifest["files"].items()}
    manifest["contract"] = {
        member: manifest["contract"][member] for member in ("names", "missing", "fill", "normalise")
    }
    manifest["source"]["trials"] = len(manifest["source"]["trials"])
    # Its configuration stands in the source once more, and the data have another path on each machine.
    if (asked := manifest["source"].get("asked")) is not None:
        asked.pop("configuration")
        for member in ("data", "validation"):
            asked[member] = asked[member] and [Path(one).name for one in asked[member]]
    for left in ("sha256", "metrics", "notes", "stability", "probe", "name"):
        manifest.pop(left, None)
    ranker = localrank.load(folder / "models" / name)
    rankings = {query: ranker.rank(np.array(rows, np.float32)) for query, (rows, _) in TEST.items()}
    routes = {query: [one.route.cluster, one.route.fallback] for query, one in rankings.items()}
    scores = {query: one.scores.tolist() for query, one in list(rankings.items())[:3]}
    return {"manifest": rounded(manifest), "routes": routes, "scores": scores}


def rounded(value: Any) -> Any:
    """Return figures with ten digits: scores alone are kept to the bit."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def _sets(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for name, value in values.items() for part in ("--set", f"{name}={value}"))


def learners(folder: Path) -> Iterator[tuple[str, str, Any]]:
    for learner in LEARNERS:
        quick = tuple(part for one in QUICK.get(learner, ()) for part in ("--set", f"learner.{one}"))
        yield "training-learners", learner, trained(folder, learner, "--learner", learner, *quick)


def methods(folder: Path) -> Iterator[tuple[str, str, Any]]:
    for method, quick in METHODS.items():
        yield (
            "training-methods",
            method,
            trained(folder, method, "--method", method, *(part for one in quick for part in ("--set", one))),
        )


def steps(folder: Path) -> Iterator[tuple[str, str, Any]]:
    for number, (representation, similarity, clustering, by, routing) in enumerate(STEPS):
        form = (
            {"similarity.form": similarity} if representation == "pca" else {"similarity.method": similarity}
        )
        some = {} if clustering in {"knn", "per_query", "none"} else {"clustering.clusters": "3"}
        tables = {
            "representation.method": representation,
            **form,
            "clustering.method": clustering,
            "clustering.representation": by,
            "routing.method": routing,
            **some,
        }
        case = f"{representation}, {similarity}, {clustering}, {by}, {routing}"
        yield (
            "training-steps",
            case,
            trained(
                folder, f"s{number}", "--learner", "best_feature" if number % 3 else "linear", *_sets(tables)
            ),
        )
    for number, (case, arguments) in enumerate(OTHER.items()):
        yield "training-settings", case, trained(folder, f"o{number}", *arguments)


def in_python(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """The same run by the functions of the package and by the estimator: the same scores as the command."""
    keep = partial(published, folder)
    judged = localrank_training.read(TRAIN)
    config = localrank_training.TrainingConfig.read(learner="ranksvm")
    result = localrank_training.train(judged, config)
    localrank_training.publish(localrank.Registry(folder / "models"), "functions", result, judged)
    yield "training-python", "read, train, publish", keep("functions")
    rows, labels, ids = (
        np.concatenate(part)
        for part in zip(*((x, y, [q] * len(y)) for q, (x, y) in queries("train.csv").items()), strict=True)
    )
    estimator = localrank_training.LocalRanker(learner="ranksvm").fit(
        rows.astype(np.float32), labels, qid=ids
    )
    estimator.publish("estimator", folder / "models")
    one = np.array(TEST["t1"][0], np.float32)
    found = {
        "predict": estimator.predict(one).tolist(),
        "rank": estimator.rank(one).tolist(),
        "score": estimator.score(one, TEST["t1"][1], qid=["t1"] * len(one)),
    }
    yield "training-python", "LocalRanker", {**keep("estimator"), **found, "shown": repr(estimator)}
