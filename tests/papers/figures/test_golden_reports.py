"""Golden files of every experiment: how it is done, what it plans, and the report on made-up results (`tests.training.golden`).

The results are drawn by a hash of each fit's work, fold and settings, so another setting comes to other numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from localrank_papers.figures.geometry import Dendrogram, Geometry
from localrank_papers.figures.hyperplanes import graded, turned
from localrank_papers.figures.lgmml_variants import VARIANTS
from localrank_papers.figures.pca_clusters import METRICS as ANSWERED
from localrank_papers.figures.running import EXPERIMENTS
from localrank_papers.figures.songs import WAYS
from localrank_training.evaluation.stability import CHANGES
from tests.papers.figures.made_up import numbers_for, small_data, study
from tests.training.golden import agree

if TYPE_CHECKING:
    from localrank_papers.figures.fits import Arrays, Fit
    from localrank_papers.figures.folds import Fold

GOLDEN = Path(__file__).parent / "golden"
DATA = small_data((7, 5))
#: Training queries that a dendrogram has, by fold.
LEAVES = {1: 6, 2: 5}


# ------------------------------------------------------------------------------------------------ made-up results


def nearness(fit: Fit) -> Arrays:
    assert fit.fold is not None
    rng, n = numbers_for(fit), LEAVES[fit.fold.number]
    found = {
        "queries": rng.permutation(n),
        "merges": linkage(rng.random((n, 2)), "complete"),
        "train": rng.random((n, n)),
    }
    for name, part in (("validation", fit.fold.validation), ("test", fit.fold.test)):
        found[name] = rng.random((len(part), n))
        found[f"{name} known"] = np.arange(len(part)) != 2
    return found


def tree_of(fold: Fold, geometry: dict[str, Any]) -> Dendrogram:
    near = nearness(Geometry(**geometry).fit(fold))
    return Dendrogram(near["merges"], near["queries"])


def transfer(fit: Fit) -> Arrays:
    assert fit.fold is not None
    rng, asked = numbers_for(fit), fit.settings
    tree = tree_of(fit.fold, asked["geometry"])
    within = [one for one in asked["cuts"] if one <= len(tree)]
    nodes = np.union1d(tree.nodes_of(within), [tree.root]) if within else np.arange(tree.root + 1)
    shape = (len(asked["settings"]), len(nodes))
    parts = {"validation": fit.fold.validation, "test": fit.fold.test}
    figures = {name: rng.random((*shape, len(part), 4)) for name, part in parts.items()}
    return {"nodes": nodes, "global_": np.zeros(len(nodes), bool), **figures}


def local_rank(fit: Fit) -> Arrays:
    rng, asked, work = numbers_for(fit), fit.settings, fit.work.__name__
    if work == "triples":
        return {"map": rng.random((8, 2)), "distances": rng.random((8, 4, 2))}
    if work == "against_kinds":
        names = ("one model", "clusters", "kinds", "random clusters")
        several = {"rand": rng.random(1), "routed": rng.random(1), "rand, random": rng.random(asked["draws"])}
        return {**several, **{name: rng.random(6) for name in names}}
    assert fit.fold is not None
    n = len(fit.fold.test)
    if work == "grown":
        ways = ("LocalRank", "KNN", "one model")
        stages = ("sign", "route", "score", "total", "request", "learning")
        found = {f"{way}, {stage}": 1 + 9 * rng.random(3) for way in ways for stage in stages}
        return {"sizes": np.array([10.0, 20.0, 40.0]), "D&K, request": 100 + rng.random(3), **found}
    if work == "selection":
        found = {name: np.sort(rng.random(3)) for name in ("exact", "lsh", "agreement")}
        return {"sizes": np.array([100, 300, 900]), **found}
    if work == "flips":
        return {name: np.array(rng.random()) for name in CHANGES}
    if work == "dealt":
        shape = (asked["draws"], asked["clusters"], n, 4)
        return {"figures": rng.random(shape), "everything": rng.random((n, 4))}
    if work == "transduced":
        kernels = {kernel: rng.random((3, 4)) for kernel in asked["kernels"]}
        return {"queries": np.sort(rng.permutation(n)[:3]), **kernels}
    if work == "quadratic":
        parts = {"validation": fit.fold.validation, "test": fit.fold.test}
        return {name: rng.random((len(asked["settings"]), len(part), 4)) for name, part in parts.items()}
    if work == "by_mean_directions":
        return {"similarities": rng.random((n, asked["clusters"]))}
    assert work in {"boosted", "neighbours"}
    return {"test": rng.random((n, 4))}


def adaptive(fit: Fit) -> Arrays:
    assert fit.fold is not None
    rng, n, held = numbers_for(fit), len(fit.fold.test), len(fit.fold.validation)
    if fit.work.__name__ == "single":
        names = ("feature", "published", "published again", "ranksvm", "repaired")
        figures = {name: np.round(rng.random((9, n)), 1) for name in names}
        return {**figures, "repaired, validation": rng.random((9, held)), "bins": rng.integers(0, 5, n)}
    if fit.work.__name__ == "clustered":
        answers = {name: rng.random((9, n)) for name in ("selective", "fusion")}
        validation = {f"{name}, validation": rng.random((9, held)) for name in answers}
        return {
            **answers,
            **validation,
            "models": rng.random((fit.settings["count"], 9, n)),
            "flips": rng.random(1),
        }
    return {name: rng.random((fit.settings["draws"], 9, n)) for name in ("selective", "fusion", "oracle")}


def pca_query(fit: Fit) -> Arrays:
    assert fit.fold is not None
    rng, asked, n = numbers_for(fit), fit.settings, len(fit.fold.test)
    if fit.work.__name__ == "crossed":
        shape = [len(asked[name]) for name in ("scores", "components", "clusters", "strengths")]
        return {"map": rng.random((*shape, 7))}
    shape = [asked["clusters"], len(ANSWERED), n]
    return {"routed": rng.random(shape[1:]), "models": rng.random(shape), "flips": rng.random(len(CHANGES))}


def lgmml(fit: Fit) -> Arrays:
    rng, asked, work = numbers_for(fit), fit.settings, fit.work.__name__
    n = 0 if fit.fold is None else len(fit.fold.test)
    if work == "sweep":
        assert fit.fold is not None
        sizes = len(asked["sizes"])
        figures = rng.random((len(VARIANTS), sizes, 4, n))
        return {
            "figures": figures,
            "training": rng.random((2, len(fit.fold.train))),
            "seconds": rng.random(sizes),
        }
    if work in {"alone", "noisy"}:
        return {"figures": rng.random((4, n)), "seconds": rng.random(1)}
    if work == "scoring_seconds":
        return {"lgmml": 1e-6 * np.array(asked["sizes"]) ** 1.5, "others": 1e-6 * np.array([1.0, 2.0, 4.0])}
    if work == "local_metrics":
        alone = {name: rng.random(9) for name in ("single", "truth", "euclidean")}
        return {"local": rng.random((len(WAYS), len(asked["sizes"]), 9)), **alone}
    names = ("Euclidean", "GMML", "L-GMML", *(("MLR", "R-MLR") if asked["structural"] else ()))
    seconds = {f"seconds of {name}": np.array(1.0 + rng.random()) for name in names[1:]}
    return {**{name: rng.random(9) for name in names}, **seconds}


def mhr(fit: Fit) -> Arrays:
    assert fit.fold is not None
    rng, n = numbers_for(fit), len(fit.fold.test)
    if fit.work.__name__ == "more_grades":
        count = fit.settings["grades"] * (fit.settings["grades"] - 1) // 2
        # The first of the ones before stay as they are; the last two are learned anew.
        normals = np.arange(count)[:, None] + np.zeros((1, 4))
        normals[-2:] += 1000 * fit.settings["grades"]
        return {"RSVM": rng.random(n), "MHR-BC": rng.random(n), "normals": normals}
    return {
        "test": rng.random((7, 11, n)),
        "errors": rng.random((7, 3, 2)),
        "normals": rng.standard_normal((4, 4)),
        "halves": rng.standard_normal((2, 4, 4)),
        "weights": rng.random(3),
        "chosen": rng.random(4),
        "seconds": rng.random(4),
        "grades": np.array([0.0, 1.0, 2.0]),
    }


def made(fit: Fit) -> Arrays:
    module = fit.work.__module__.rsplit(".", 1)[1]
    own = {
        "geometry": nearness,
        "transfer": transfer,
        "adaptive": adaptive,
        "pca_clusters": pca_query,
        "lgmml_variants": lgmml,
        "songs": lgmml,
        "mhr": mhr,
    }
    return own.get(module, local_rank)(fit)


def planned(fits: Any) -> list[str]:
    """Return each different piece of work with its settings, and the folds on which it is done."""
    folds: dict[str, list[str]] = {}
    for fit in fits:
        settings = json.dumps(dict(fit.settings), sort_keys=True, ensure_ascii=False)
        work = f"{fit.work.__name__} {settings}"
        folds.setdefault(work, []).append("–" if fit.fold is None else str(fit.fold.number))
    return [f"{work} on {' '.join(numbers)}" for work, numbers in folds.items()]


# ------------------------------------------------------------------------------------------------ the files


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_the_report_on_made_up_results_is_the_golden_one(name: str) -> None:
    experiment = EXPERIMENTS[name]
    over = study(DATA, made, draws=3)

    found = {
        "title": f"{experiment.figure} of {experiment.paper}: {experiment.title}",
        "mark": experiment.mark(DATA),
        "plan": planned(experiment.plan(over)),
        "findings": experiment.find(over),
    }

    agree(GOLDEN / f"{name}.json", found)


def test_every_golden_report_is_of_an_experiment() -> None:
    assert {f"{name}.json" for name in EXPERIMENTS} == {path.name for path in GOLDEN.glob("*-*.json")}


@pytest.mark.parametrize("draws", [0, 2])
def test_the_plane_of_one_query_is_the_golden_one(draws: int) -> None:
    """Figure 1 of multiple hyperplanes learns from real documents, so these must have grades that can be told apart."""
    rng = np.random.default_rng(4)
    queries = graded(6, 9, 2.0 * turned(2, 1.0, rng, 4), (0.5, 0.3, 0.2), rng)
    data = small_data(())
    fold = type(small_data((1,)).folds[0])(1, queries, queries, queries)
    over = study(type(data)("graded", "standard", (fold,)), made, draws=draws)

    found = EXPERIMENTS["mhr-fig1"].find(over)

    agree(GOLDEN / "plane.json", found, rel=1e-3)
