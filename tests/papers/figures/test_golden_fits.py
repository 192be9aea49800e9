"""Golden files of every piece of work: what experiments learn and measure on a few small queries (`tests.training.golden`).

Large arrays are kept as their first numbers and two sums. Clocks are replaced by one that counts how often it was asked, so
times are numbers like others.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_papers.figures import (
    adaptive,
    adaptive_clusters,
    algorithms,
    compact,
    contenders,
    controls,
    hyperplanes,
    lgmml,
    lgmml_variants,
    mhr,
    pca_clusters,
    songs,
    synthetic,
    times,
    transfer,
)
from localrank_papers.figures.adaptive_clusters import PUBLISHED, REPAIRED
from localrank_papers.figures.folds import Fold, cleaned_queries
from localrank_papers.figures.geometry import Geometry, nearness
from localrank_papers.figures.hyperplanes import definition_search, graded, turned
from localrank_training.data.queries import QuerySet, default_names
from tests.training.golden import agree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from localrank_papers.figures.fits import Arrays

GOLDEN = Path(__file__).parent / "golden" / "fits"
FEW = {"num_threads": 1, "num_iterations": 8, "min_data_in_leaf": 3}


# ------------------------------------------------------------------------------------------------ small data


def of_two_kinds(lengths: Sequence[int], seed: int) -> QuerySet:
    """Return queries whose clouds spread along one of two features, and which are ranked by a third, forwards or backwards.

    Every fifth has nothing relevant; documents lie within [0, 1].
    """
    rng = np.random.default_rng(seed)
    documents, labels = [], []
    for query, n in enumerate(lengths):
        kind = query % 2
        cloud = rng.normal(size=(n, 4)) * np.where(np.arange(4) == kind, 6.0, 1.0)
        order = np.argsort(np.argsort(cloud[:, 2] * (1 - 2 * kind) + 0.4 * rng.normal(size=n)))
        documents.append(cloud / 60 + 0.5)
        labels.append(np.digitize(order, [n // 2, n - 2]) * (query % 5 != 4))
    return QuerySet(
        documents=np.concatenate(documents).astype(np.float32),
        labels=np.concatenate(labels).astype(np.float64),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        query_ids=tuple(f"{seed}-{query}" for query in range(len(lengths))),
        feature_names=default_names(4),
        lines=np.arange(sum(lengths)),
    )


TRAIN = of_two_kinds([9, 11, 8, 10, 9, 12, 7, 9, 10, 8, 1, 9], 1)
FOLD = Fold(2, TRAIN, of_two_kinds([8, 9, 7, 10, 8, 6], 2), of_two_kinds([9, 8, 1, 7, 9, 10, 8], 3))
SCALED = Fold(
    1,
    *(
        part.with_documents(part.documents * np.float32(7))
        for part in (FOLD.train, FOLD.validation, FOLD.test)
    ),
)


def in_grades(n_queries: int) -> QuerySet:
    rng = np.random.default_rng(5)
    return graded(n_queries, 9, 1.5 * turned(2, 0.8, rng, 4), (0.5, 0.3, 0.2), rng)


# ------------------------------------------------------------------------------------------------ pieces of work

GEOMETRIES = {
    "as by default": Geometry(),
    "few directions": Geometry(share=0.5, most=2, link="average"),
    "own directions": Geometry(share=0.9, own_components=True, link="single"),
    "normal, KL": Geometry("gaussian", similarity="kl", shrink=0.3),
    "normal, Bhattacharyya": Geometry("gaussian", similarity="bhattacharyya"),
    "mean": Geometry("mean", similarity="euclidean"),
    "best documents": Geometry("top_documents", similarity="euclidean"),
    "relevant directions": Geometry(clustered_by="relevant_direction"),
    "relevant PCA": Geometry(clustered_by="relevant_pca"),
    "relevant mean": Geometry(clustered_by="relevant_mean"),
}
STRENGTHS = [{"C": 10.0}, {"C": 0.1}]
LOCAL: dict[str, Any] = {
    "geometry": asdict(Geometry()), "learner": "svmmap", "settings": STRENGTHS, "convention": "letor4",
}  # fmt: skip
SHUFFLED: dict[str, Any] = {
    "geometry": asdict(Geometry()), "learner": "svmmap", "values": STRENGTHS[0], "convention": "standard",
}  # fmt: skip
SONGS: dict[str, Any] = {"classes": 3, "per_class": 10, "n_features": 4, "split": 1, "seed": 2}
CROSSED: dict[str, Any] = {
    "scores": [3, 5], "components": [2], "clusters": [1, 2], "strengths": [1.0, 10.0], "parts": 2, "seed": 1,
}  # fmt: skip
ANSWERED: dict[str, Any] = {
    "scores": 3, "components": 2, "clusters": 3, "strength": 10.0, "convention": "standard", "seed": 1,
}  # fmt: skip
KINDS: dict[str, Any] = {
    "shapes": 0.5, "separation": 1.0, "seed": 3, "queries": [14, 6, 6], "documents": 8, "strengths": [10.0, 1.0],
}  # fmt: skip
GROWN: dict[str, Any] = {"shares": [0.5, 1.0], "queries": 3, "rounds": 2, "transduced": 2, "seed": 1}

WORKS: dict[str, Callable[[], Arrays]] = {
    **{f"nearness, {name}": partial(nearness, FOLD, **asdict(one)) for name, one in GEOMETRIES.items()},
    "nearness, scaled": lambda: nearness(SCALED, **asdict(Geometry())),
    "flips": lambda: controls.flips(FOLD, geometry=asdict(Geometry()), clusters=3, seed=1),
    "mean directions": lambda: compact.by_mean_directions(FOLD, geometry=asdict(Geometry()), clusters=3),
    "transfer, all nodes": lambda: transfer.transfer(FOLD, **LOCAL, cuts=(), draw=None, seed=0),
    "transfer, some shuffled": lambda: transfer.transfer(FOLD, **LOCAL, cuts=(2, 3, 99), draw=1, seed=3),
    "dealt": lambda: contenders.dealt(FOLD, **SHUFFLED, clusters=3, draws=2, seed=4),
    "RankBoost": lambda: algorithms.boosted(FOLD, convention="standard"),
    "KNN": lambda: algorithms.neighbours(FOLD, counts=[2, 4, 99], settings=STRENGTHS, convention="standard"),
    "KNN, queries that are known": lambda: algorithms.neighbours(
        Fold(1, TRAIN, TRAIN.select([0, 5]), TRAIN.select([3, 0, 10])), counts=[2], settings=STRENGTHS, convention="standard"
    ),
    "KNN, too many": lambda: algorithms.neighbours(FOLD, counts=[50], settings=STRENGTHS[:1], convention="letor3"),
    "D&K": lambda: algorithms.transduced(
        FOLD, kernels=["linear", "poly", "rbf"], components=2, settings=STRENGTHS, most=4, seed=2, convention="standard"
    ),
    "quadratic": lambda: algorithms.quadratic(FOLD, settings=STRENGTHS, convention="letor4"),
    "triples, relevance": lambda: synthetic.triples(None, "relevance", 1),
    "triples, something else": lambda: synthetic.triples(None, "something else", 1),
    "kinds": lambda: synthetic.against_kinds(None, **KINDS, draws=2),
    "kinds, no draws": lambda: synthetic.against_kinds(None, **KINDS, draws=0),
    "sweep": lambda: lgmml_variants.sweep(FOLD, sizes=[1, 2, 4], rounds=6, convention="letor3", seed=3),
    "alone, GBRT": lambda: lgmml_variants.alone(FOLD, learner="gbrt", settings=[FEW], convention="standard"),
    "alone, L-GMML": lambda: lgmml_variants.alone(
        FOLD, learner="lgmml", settings=[{"t": 0.5, "metrics": 3}, {"t": 0.9, "metrics": 3}], convention="letor4"
    ),
    "noise": lambda: lgmml_variants.noisy(
        FOLD, learner="ranksvm", settings=[{"C": 0.1}, {"C": 10.0}], columns=3, convention="standard", seed=5
    ),
    "seconds of scoring": lambda: lgmml_variants.scoring_seconds(
        FOLD, sizes=[1, 3], learners={"gbrt": FEW, "ranksvm": {"C": 1.0}}, repeats=2, seed=1
    ),
    "songs, metrics": lambda: songs.local_metrics(None, **SONGS, sizes=[1, 3, 40]),
    "songs, rankers": lambda: songs.metric_rankers(
        None, **SONGS, metrics=3, structural={"C": 100.0, "tolerance": 0.2, "max_cuts": 10}
    ),
    "songs, quick rankers": lambda: songs.metric_rankers(None, **SONGS, metrics=2, structural=None),
    "hyperplanes": lambda: mhr.trial(mhr._four(in_grades(16), 1)[1]),
    "hyperplanes, two grades": lambda: mhr.trial(two_grades()),
    "more grades": lambda: mhr.more_grades(mhr._four(in_grades(16), 1)[0], 3),
    "two grades": lambda: mhr.more_grades(mhr._four(in_grades(16), 1)[0], 2),
    "adaptive, alone": lambda: adaptive.single(FOLD),
    "adaptive, published": lambda: adaptive.clustered(FOLD, "published", "kmeans", 2),
    "adaptive, published by Ward": lambda: adaptive.clustered(FOLD, "published", "ward", 3),
    "adaptive, repaired": lambda: adaptive.clustered(FOLD, "repaired", "ward", 2),
    "adaptive, repaired by k-means": lambda: adaptive.clustered(FOLD, "repaired", "kmeans", 3),
    "adaptive, random": lambda: adaptive.random_clusters(FOLD, "published", "ward", 2, draws=2, seed=1),
    "adaptive, random and repaired": lambda: adaptive.random_clusters(FOLD, "repaired", "kmeans", 2, draws=1, seed=1),
    "PCA query, crossed": lambda: pca_clusters.crossed(FOLD, **CROSSED),
    "PCA query, crossed at random": lambda: pca_clusters.crossed(FOLD, **CROSSED, draw=1),
    "PCA query, answered": lambda: pca_clusters.answered(FOLD, **ANSWERED),
    "PCA query, one model": lambda: pca_clusters.answered(FOLD, **ANSWERED | {"clusters": 1}),
    "PCA query, answered at random": lambda: pca_clusters.answered(FOLD, **ANSWERED, draw=1),
    "PCA query, literally": lambda: {
        "points": pca_clusters.literal_points(list(FOLD.test.clouds()), 4, 3),
        "pooled": np.abs(pca_clusters.pooled_points(FOLD.train, 4, 2)),
    },
    "times": lambda: times.grown(FOLD, **GROWN),
    "times of selecting": lambda: times.selection(FOLD, sizes=[8, 20], queries=4, rounds=3, seed=2),
    "definitions": lambda: measured(definition_search(3)),
    "cleaned": lambda: measured(cleaned_queries(with_twins())),
}  # fmt: skip


FEW_TREES = replace(REPAIRED, num_iterations=8, min_data_in_leaf=3, learning_rate=0.3)


def of_released_code() -> Arrays:
    train = lgmml_variants.by_column_norm(TRAIN)
    released = lgmml_variants.learn_released(train, 4, np.random.default_rng(1))
    distances = released.distances(train.documents)
    weights = lgmml_variants.released_weights(distances, train, 8, np.random.default_rng(2))
    return {
        "metrics": released.metrics,
        "anchors": released.anchors,
        "distances": distances,
        "weights": weights,
        "scores": released.combined(distances, weights[train.query_of]),
        "by two": released.first(2).scores(train.documents),
    }


def of_songs() -> Arrays:
    drawn = songs.drawn(3, 10, 5, split=1, seed=2)
    train, held, test = (songs.shown_to(drawn, part) for part in range(3))
    classes = drawn.classes[drawn.parts[0]]
    transforms = songs._of_groups(train, classes)
    anchors = drawn.points[drawn.parts[0]][:3]
    return {
        "points": drawn.points,
        **{f"part {number}": part for number, part in enumerate(drawn.parts)},
        **{f"{name} of the test songs": array for name, array in measured(test).items()},
        "transforms": np.abs(np.matmul(transforms.transpose(0, 2, 1), transforms)),
        "near": songs._near(held, transforms[0]),
        "at the query": songs._at_the_query(test, transforms),
        "mixed": songs._mixed(drawn.points[drawn.parts[2]], test, transforms, anchors, 4.0),
        "chosen": songs._by_equations(drawn, held, test, transforms, anchors),
    }


def of_weights() -> Arrays:
    train = lgmml_variants.by_column_norm(TRAIN)
    found: Arrays = {}
    for name, learner in (
        ("documents", lgmml_variants.PAPER_LEARNER),
        ("queries", lgmml_variants._OF_ONE_QUERY),
    ):
        sampled = lgmml_variants._sampled(learner, train, 3, 4)
        learned = lgmml_variants._weights(sampled, train, learner, 8, 4)
        some = lgmml_variants._first(sampled, 2)
        found |= {
            f"origins of {name}": sampled.origins,
            f"queries of {name}": learned.queries,
            f"weights of {name}": learned.weights,
            f"by two of {name}": some.score_rows(train.documents),
            f"leaked of {name}": lgmml_variants._leaked(sampled, train, learner, 8, 4),
        }
    return found


def of_answers(adapted: Any) -> Arrays:
    answers = adapted.ask(FOLD.test)
    dealt = adaptive_clusters.dealt_at_random(FOLD, adapted, FEW_TREES, 3)
    return {
        "labels": adapted.labels,
        "feature": np.array([adapted.feature]),
        "scores": answers.scores,
        "shares": answers.shares,
        "selective": answers.selective(),
        "fusion": answers.fusion(),
        "flips": np.array([adaptive_clusters.flips(adapted, FOLD.test, 2, repeats=3)]),
        "dealt": dealt.labels,
        "dealt, fusion": dealt.ask(FOLD.test).fusion(),
    }


def of_profiles() -> Arrays:
    labels = np.arange(len(TRAIN)) % 3 - (np.arange(len(TRAIN)) == 6)
    scores = np.asarray(np.round(TRAIN.documents[:, 0], 1), np.float64)
    return {
        "published points": adaptive_clusters.published_points(TRAIN),
        "relevant means": adaptive_clusters.relevant_means(TRAIN),
        "published profile": adaptive_clusters.published_profile(TRAIN, scores),
        "reciprocal ranks": adaptive_clusters.published_reciprocal_rank(TRAIN, scores, 4),
        "repaired profiles": adaptive_clusters.repaired_profiles(FOLD, labels, 3, FEW_TREES, 1),
        "top documents": adaptive_clusters.top_documents(TRAIN, 1).values,
    }


def of_hyperplanes() -> Arrays:
    queries = in_grades(5)
    scores = np.asarray(np.round(queries.documents[:, 0], 0), np.float64)
    plane = hyperplanes.principal_plane(queries.documents.astype(np.float64))
    pairs = ((0.0, 1.0), (0.0, 2.0), (1.0, 2.0))
    return {
        "errors": np.array([hyperplanes.order_errors(queries, scores, low, high) for low, high in pairs]),
        "cosines": hyperplanes.cosines(queries.documents[:4].astype(np.float64)),
        "coordinates": plane.coordinates,
        "axes": plane.axes,
        "share": np.array([plane.share]),
        "turned": hyperplanes.turned(3, 0.3, np.random.default_rng(3), 5),
    }


def two_grades() -> Fold:
    fold = mhr._four(in_grades(16), 1)[2]
    train, test = (replace(part, labels=np.minimum(part.labels, 1.0)) for part in (fold.train, fold.test))
    return replace(fold, train=train, test=test)


def with_twins() -> QuerySet:
    documents = FOLD.train.documents.copy()
    documents[2::7] = documents[1::7][: len(documents[2::7])]
    return FOLD.train.with_documents(documents)


def measured(queries: QuerySet) -> Arrays:
    """Return what queries are made of."""
    return {
        "documents": queries.documents,
        "labels": queries.labels,
        "offsets": queries.offsets,
        "lines": queries.lines,
    }


#: What the works are made of, where these measure only rankings.
RAW: dict[str, Callable[[], Arrays]] = {
    "released code": of_released_code,
    "songs": of_songs,
    "weights of metrics": of_weights,
    "columns of noise": lambda: measured(lgmml_variants._with_noise(TRAIN, 2, np.random.default_rng(1))),
    "divided columns": lambda: measured(lgmml_variants.by_column_norm(FOLD.test, TRAIN)),
    "answers, published": lambda: of_answers(adaptive_clusters.as_published(FOLD, "kmeans", 2, FEW_TREES)),
    "answers, repaired": lambda: of_answers(adaptive_clusters.repaired(FOLD, "ward", 2, FEW_TREES, 1)),
    "profiles": of_profiles,
    "measures of hyperplanes": of_hyperplanes,
}


# ------------------------------------------------------------------------------------------------ the files


class Clock:
    """Stands for every clock; the times between two calls are all different."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return 0.5 * self.asked**2


class Served:
    """Stands for the running service: times by the names of models and the documents that were asked."""

    def fastest(
        self, models: Sequence[str], queries: Sequence[Any], rounds: int
    ) -> Mapping[str, Mapping[str, Any]]:
        def some(model: str, stage: str) -> Any:
            asked = b"".join([np.ascontiguousarray(one).tobytes() for one in queries])
            drawn = hashlib.sha256(asked + f"{model} {stage} {rounds}".encode()).digest()
            return np.random.default_rng(list(drawn)).random(len(queries))

        return {
            model: {stage: some(model, stage) for stage in ("sign", "route", "total")} for model in models
        }


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    assert any(folder.iterdir())
    yield Served()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer trees, triples and strengths; no service; other clocks."""
    published = replace(PUBLISHED, num_iterations=6)
    repaired = replace(REPAIRED, num_iterations=10, min_data_in_leaf=3, learning_rate=0.2)
    for module in (adaptive, adaptive_clusters):
        monkeypatch.setattr(module, "PUBLISHED", published)
        monkeypatch.setattr(module, "REPAIRED", repaired)
    monkeypatch.setattr(adaptive_clusters.as_published, "__defaults__", (2, published))
    monkeypatch.setattr(adaptive_clusters.repaired, "__defaults__", (repaired, 0))
    monkeypatch.setattr(synthetic, "TRIPLES", 3)
    monkeypatch.setattr(synthetic, "DOCUMENTS", 20)
    monkeypatch.setattr(mhr, "STRENGTHS", (1.0, 100.0))
    monkeypatch.setattr(times, "CLUSTERS", 2)
    monkeypatch.setattr(times, "NEIGHBOURS", 3)
    monkeypatch.setattr(times, "serving", serving)
    for name in ("process_time", "perf_counter"):
        monkeypatch.setattr(f"time.{name}", Clock())


def summary(array: Any) -> Any:
    """Return a small array as it is; of a large one its shape, its first numbers and two sums."""
    if array.size <= 40:
        return array
    flat = np.nan_to_num(array.astype(np.float64).ravel(), nan=-1.0)
    sums = [float(flat.sum()), float(flat @ np.cos(np.arange(len(flat))))]
    return {"shape": list(array.shape), "first": flat[:12], "sums": sums}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", [*WORKS, *RAW])
def test_what_is_learned_of_small_data_is_the_golden_one(name: str) -> None:
    found = (WORKS | RAW)[name]()

    kept = {key: summary(np.asarray(array)) for key, array in found.items()}
    agree(GOLDEN / f"{name.replace(',', '').replace(' ', '-').lower()}.json", kept)


@pytest.mark.parametrize("learners", [lgmml.LEARNERS, lgmml.NOISED])
def test_the_learners_of_lgmml_are_in_the_catalogue(learners: Mapping[str, Any]) -> None:
    from localrank_training.learners.catalogue import make

    for name, settings in learners.items():
        for one in settings:
            assert make(name, one) is not None
