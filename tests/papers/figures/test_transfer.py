from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

from localrank.metrics import Judgements
from localrank_papers.figures.fits import Fits
from localrank_papers.figures.folds import Fold, read_folds
from localrank_papers.figures.geometry import Geometry, contract_of, nearness
from localrank_papers.figures.study import Study
from localrank_papers.figures.transfer import METRICS, Assignment, Models, Transfer, choose, compared, said
from localrank_training.data.clouds import Clouds
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.grouping.clustering import cluster
from localrank_training.learners.svmmap import SvmMap
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import ClusteringSettings

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Matrix

MODELS = Models(Geometry(), "svmmap", ({"C": 10.0}, {"C": 1.0, "tolerance": 1e-9}))


@pytest.fixture(scope="module")
def study(folds_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    data = read_folds(folds_folder)
    return Study(replace(data, folds=data.folds[:2]), Fits(tmp_path_factory.mktemp("fits")), 2, 0)


@pytest.mark.parametrize("clusters", [1, 2, 5])
def test_a_cut_ranks_as_the_ranker_that_the_product_builds(study: Study, clusters: int) -> None:
    """The same clusters, models and routes by `pipeline.build` and `Ranker.rank`, query by query."""
    fold = study.data.folds[0]
    found = Transfer.of(study, MODELS, fold)
    config = TrainingConfig.from_tables(
        {
            "contract": {"normalise": "none"},
            "representation": {"share": 0.8},
            "clustering": {"clusters": clusters},
            "routing": {"method": "exact"},
        }
    )
    ranker = build(fold.train, config, SvmMap(C=1.0, tolerance=1e-9)).ranker
    judged = Judgements(fold.test.labels, fold.test.offsets)

    figures = found.of_nodes("test", 1, found.routed("test", clusters))

    expected = [judged.per_query(rank_all(ranker, fold.test).scores, metric) for metric in METRICS]
    np.testing.assert_allclose(figures.T, expected, rtol=1e-6)


def test_the_clairvoyant_takes_the_best_cluster_of_every_query(study: Study) -> None:
    found = Transfer.of(study, MODELS, study.data.folds[0])
    nodes = np.unique(found.tree.cut(3))

    best = found.clairvoyant("test", 0, 3)

    of_each = [found.of_nodes("test", 0, np.full(12, node)) for node in nodes]
    np.testing.assert_array_equal(np.max(of_each, axis=0), best)


def test_a_query_goes_to_the_cluster_of_its_nearest_average_or_farthest_member(study: Study) -> None:
    found = Transfer.of(study, MODELS, study.data.folds[1])
    similarities, cut = found.near.similarities["test"], found.tree.cut(4)

    of: dict[str, Any] = {"nearest": np.max, "average": np.mean, "farthest": np.min}
    for by in get_args(Assignment):
        routed = found.routed("test", 4, by)
        for query, row in enumerate(similarities):
            likeness = {node: float(of[by](row[cut == node])) for node in np.unique(cut).tolist()}
            assert max(likeness, key=likeness.__getitem__) == routed[query]


def test_shuffled_queries_are_routed_to_where_the_nearest_one_is_now(study: Study) -> None:
    models = replace(MODELS, cuts=(1, 3), draw=1, seed=5)
    found = Transfer.of(study, models, study.data.folds[0])
    nearest = found.near.tree.queries[found.near.similarities["test"].argmax(axis=1)]

    routed = found.routed("test", 3)

    assert all(query in found.tree.members(node) for query, node in zip(nearest, routed, strict=True))
    assert len(found.nodes) == 1 + 3


def test_queries_that_cannot_be_compared_go_to_the_model_of_all(study: Study) -> None:
    fold = study.data.folds[0]
    flat = fold.test.documents.copy()
    flat[fold.test.span(2)] = 1.0
    other = Fold(1, fold.train, fold.validation, replace(fold.test, documents=flat))
    found = Transfer.of(study, replace(MODELS, cuts=(1, 2)), other)

    assert found.tree.root == found.routed("test", 2)[2]
    assert found.tree.root not in found.routed("test", 2)[[0, 1]]


def test_one_cluster_is_chosen_if_no_other_is_better(study: Study) -> None:
    transfers = [Transfer.of(study, MODELS, fold) for fold in study.data.folds]
    for one in transfers:
        one.figures["validation"][:] = 0.5

    chosen = choose(transfers, [5, 1, 2])

    assert [(1, 0), (1, 0)] == [(c.clusters, c.setting) for c in chosen.choices]
    assert 2 == chosen.one_cluster


def test_settings_and_clusters_are_chosen_together_on_validation_queries_alone(study: Study) -> None:
    transfers = [Transfer.of(study, MODELS, fold) for fold in study.data.folds]
    for one in transfers:
        one.figures["test"][:] = 0.0
        one.figures["validation"][:] = 0.0
        wanted = np.searchsorted(one.nodes, np.unique(one.tree.cut(3)))
        one.figures["validation"][1][wanted] = 1.0
        one.figures["test"][1][wanted] = 0.25

    chosen = choose(transfers, [1, 2, 3])

    assert [(3, 1), (3, 1)] == [(c.clusters, c.setting) for c in chosen.choices]
    assert (chosen.figures == 0.25).all()


def test_own_components_stop_at_the_share_of_each_query(study: Study) -> None:
    """Equation 5 over as many directions as the query with fewer of them has."""
    fold = study.data.folds[0]
    geometry = Geometry(own_components=True, share=0.95)
    contract = contract_of(fold)

    def axes(documents: Matrix) -> Matrix:
        values, vectors = np.linalg.eigh(np.cov(contract.cloud(documents).normalised.T))
        values, vectors = values[::-1], vectors[:, ::-1]
        count = int(np.argmax(np.cumsum(values) >= 0.95 * values.sum())) + 1
        return vectors[:, :count]

    found = nearness(fold, **{name: getattr(geometry, name) for name in geometry.__slots__})

    mine = [axes(fold.test.documents_of(query)) for query in range(3)]
    theirs = [axes(fold.train.documents_of(query)) for query in range(5)]
    assert len({one.shape[1] for one in mine + theirs}) > 1
    for row, one in enumerate(mine):
        for column, other in enumerate(theirs):
            both = min(one.shape[1], other.shape[1])
            expected = np.abs(np.sum(one[:, :both] * other[:, :both], axis=0)).mean()
            assert pytest.approx(expected, abs=1e-3) == found["test"][row, column]


def test_the_tree_is_that_of_the_products_clusters(study: Study) -> None:
    fold = study.data.folds[0]
    found = Transfer.of(study, MODELS, fold)
    train, _, _ = Geometry().points(fold)
    settings = ClusteringSettings(clusters=4)

    expected = cluster(train, settings).labels

    assert len(Clouds(fold.train, contract_of(fold))) == len(expected)
    assert 4 == len(set(zip(found.tree.cut(4).tolist(), expected.tolist(), strict=True)))


def test_what_is_said_is_what_the_interval_shows() -> None:
    rng = np.random.default_rng(0)
    base = rng.random((80, 4))
    noise = rng.normal(scale=0.1, size=(80, 1))

    same = said(compared(base, base, "standard")[0], "A", "B")
    apart = said(compared(base + 0.05 + 0.01 * noise, base, "standard")[0], "A", "B")
    unclear = said(compared(base + noise - noise.mean(), base, "standard")[0], "A", "B")

    assert "0 of 80 queries differ: too few for an interval" in same
    assert apart.startswith("A: better than B: MAP")
    assert unclear.startswith("A and B cannot be told apart")
