"""Models for kinds of queries that a feature of the query names: by request, and by the gate of the default method."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from localrank.artifact import load
from localrank.errors import InvalidConfiguration, InvalidData
from localrank.features.feature import Feature
from localrank.registry.versions import Registry
from localrank_training.data.queries import QuerySet
from localrank_training.publishing.publish import publish
from localrank_training.report.background import background_of
from localrank_training.report.figures import report_of
from localrank_training.report.terminal import of_run
from localrank_training.run.train import Trained, train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.scorers import BlendScorer
    from localrank_training.run.blended import CrossFitted

LINEAR = {"method": "linear", "blocks": "zscore", "ridge": [0.03, 0.3]}
TREES = {"method": "extra_trees", "blocks": "raw", "trees": 10}


def table(n_queries: int = 90, *, alike: bool = False, seed: int = 0) -> QuerySet:
    """Queries of three kinds in the column ``kind``, with opposite weights unless they are alike; one query is of a fourth kind."""
    rng = np.random.default_rng(seed)
    weights = np.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0]])
    kind = np.array([*(np.arange(n_queries - 1) % 3), 3])
    rows = rng.standard_normal((n_queries, 15, 3))
    used = weights[np.zeros_like(kind) if alike else kind]
    utility = np.einsum("qdf,qf->qd", rows, used) + 0.3 * rng.standard_normal((n_queries, 15))
    told = np.repeat(np.column_stack([kind, rng.random(n_queries)])[:, None], 15, axis=1)
    names = ("kind", "hour")
    return QuerySet(
        documents=np.concatenate([rows, told], axis=2).reshape(-1, 5).astype(np.float32),
        labels=(np.argsort(np.argsort(utility, axis=1), axis=1) // 4).ravel().astype(np.float64),
        offsets=np.arange(n_queries + 1) * 15,
        query_ids=tuple(f"q{query}" for query in range(n_queries)),
        feature_names=("a", "b", "c", *names),
        lines=np.arange(n_queries * 15),
        special={name: Feature(name, scope="query") for name in names},
    )


def config(**clustering: Any) -> TrainingConfig:
    return TrainingConfig.from_tables(
        {
            "contract": {"normalise": "global_zscore", "missing": "learned"},
            "similarity": {"form": "covariance"},
            "clustering": clustering,
            "learner": {"method": "blend", "members": [LINEAR, TREES], "local": 1},
        }
    )


AUTO = {
    "method": "prototypes",
    "clusters": 4,
    "share": [0.2],
    "shrink": [0.0, 1.0],
    "gate": 2.0,
    "kinds": True,
}


def found_of(trained: Trained) -> CrossFitted:
    assert trained.cross_fitted is not None
    return trained.cross_fitted


@pytest.fixture(scope="module")
def chosen() -> Trained:
    return train(table(), config(**AUTO))


def test_the_column_that_names_the_kind_is_found_and_told(chosen: Trained) -> None:
    localised = found_of(chosen).localised

    assert localised is not None
    assert localised.by == "kind"
    assert localised.locality is not None
    assert ["shape", "kind", "nearness in kind, hour"] == [by for by, _ in localised.ways]
    assert localised.gain.interval is not None
    assert localised.gain.interval.low > 0.05
    assert ("kind", "kind", "kind") == (
        chosen.config.clustering.method,
        chosen.config.clustering.column,
        chosen.config.routing.method,
    )
    titles = [one.title for one in of_run(report_of(chosen))]
    assert f"Locality (used: by kind, {localised.locality})" in titles


def test_kinds_that_a_column_names_have_no_map(chosen: Trained) -> None:
    assert background_of(chosen, config(**AUTO)).map is None


def test_a_query_goes_to_the_cluster_of_its_value_and_an_unknown_one_to_the_global_scorer(
    chosen: Trained, tmp_path: Path
) -> None:
    queries, registry = chosen.queries, Registry(tmp_path)
    publish(registry, "shop", chosen, queries)
    ranker = load(registry.models_dir / "shop" / "1").ranker

    routes = [ranker.rank(queries.documents_of(query)).route for query in range(len(queries))]

    assert {0, 1, 2} == {route.cluster for route in routes[:-1]}
    for kind in range(3):
        assert 1 == len({route.cluster for route in routes[kind:-1:3]})
    assert {(True, None)} == {(route.local, route.fallback) for route in routes[:-1]}
    last = routes[-1]
    assert (None, False, "unknown_kind", "kind") == (last.cluster, last.local, last.fallback, last.strategy)
    documents = queries.documents_of(89)
    np.testing.assert_array_equal(
        ranker.rank(documents).scores, ranker.global_scorer.score(ranker.contract.cloud(documents))
    )


def test_only_the_local_member_and_the_weights_are_those_of_the_kind(chosen: Trained) -> None:
    ranker = chosen.built.ranker
    whole = cast("BlendScorer", ranker.global_scorer)
    for scorer in ranker.scorers:
        own = cast("BlendScorer", scorer)
        assert [False, True] == [one is other for one, other in zip(own.rankers, whole.rankers, strict=True)]
        assert own.weights[0] / own.weights.sum() > whole.weights[0] / whole.weights.sum()


def test_held_out_figures_of_kinds_are_those_of_new_queries(chosen: Trained) -> None:
    """Learned without one part, ranked on that part: by hand, with the kinds' own least squares."""
    found = found_of(chosen)
    scored = found.out_of_fold
    assert scored is not None
    fresh = table(seed=1)
    from localrank_training.evaluation.evaluating import rank_all

    ranked = rank_all(chosen.built.ranker, fresh)
    again = replace(scored, labels=fresh.labels)

    said = np.nanmean(scored.figure(found.scores))
    assert said == pytest.approx(np.nanmean(again.figure(ranked.scores)), abs=0.02)


def test_a_column_that_says_nothing_opens_no_gate() -> None:
    trained = train(table(alike=True), config(**AUTO))

    localised = found_of(trained).localised
    assert localised is not None
    assert localised.locality is None
    assert all(scorer is trained.built.ranker.global_scorer for scorer in trained.built.ranker.scorers)


def test_a_gain_that_does_not_reach_the_gate_opens_nothing(chosen: Trained) -> None:
    trained = train(table(), config(**{**AUTO, "gate": 1000.0}))

    before, localised = found_of(chosen).localised, found_of(trained).localised
    assert before is not None
    assert localised is not None
    assert localised.locality is None
    assert (before.by, before.gain) == (localised.by, localised.gain)
    np.testing.assert_array_equal(found_of(trained).scores, found_of(trained).global_scores)


def test_a_named_kind_needs_no_gate() -> None:
    trained = train(table(alike=True), config(method="kind", column="kind", shrink=[0.0, 1.0]))

    localised = found_of(trained).localised
    assert localised is not None
    assert localised.locality is not None
    assert 3 == len(trained.built.ranker.scorers)
    assert ("clusters by 'kind': 0 '0', 1 '1', 2 '2'",) == trained.built.notes
    assert [30, 30, 29] == np.bincount(trained.built.clusters[:-1]).tolist()


@pytest.mark.parametrize("learner", ["linear", "lambdamart"])
def test_any_learner_may_learn_a_model_for_each_kind(learner: str) -> None:
    settings = {"min_data_in_leaf": 5, "members": 1} if learner == "lambdamart" else {}
    trained = train(
        table(),
        TrainingConfig.from_tables(
            {
                "clustering": {"method": "kind", "column": "kind"},
                "learner": {"method": learner, **settings},
            }
        ),
    )

    ranked = trained.held_out.ranked
    assert 3 == len(set(trained.built.ranker.scorers))
    assert {"kind"} == {route.strategy for route in ranked.routes}
    judged = trained.held_out.queries
    gains = [
        np.corrcoef(scores[judged.span(query)], judged.labels_of(query))[0, 1]
        for scores in (ranked.scores, ranked.global_scores)
        for query in range(80)
    ]
    assert np.mean(gains[:80]) > np.mean(gains[80:]) + 0.01


def test_a_model_of_a_kind_is_ridge_regression_on_its_queries() -> None:
    """Against the closed form, by hand, on centred documents."""
    queries = table()
    trained = train(
        queries,
        TrainingConfig.from_tables(
            {
                "contract": {"normalise": "none"},
                "clustering": {"method": "kind", "column": "kind"},
                "learner": {"method": "linear", "ridge": 0.2, "blocks": "raw"},
            }
        ),
    )
    scorer = trained.built.ranker.scorers[int(trained.built.clusters[1])]
    members = [query for query in range(89) if query % 3 == 1]
    rows = np.concatenate(
        [queries.documents_of(q) - queries.documents_of(q).mean(axis=0) for q in members]
    ).astype(np.float64)
    gains = np.concatenate([queries.labels_of(q) - queries.labels_of(q).mean() for q in members])
    gram = rows.T @ rows
    expected = np.linalg.solve(gram + 0.2 * np.trace(gram) / 5 * np.eye(5), rows.T @ gains)

    np.testing.assert_allclose(cast("Any", scorer).weights, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("tables", "error"),
    [
        ({"method": "kind"}, InvalidConfiguration),
        ({"method": "kmeans", "column": "kind"}, InvalidConfiguration),
        ({"method": "kind", "column": "kind", "clusters": 3}, InvalidConfiguration),
        ({"method": "kind", "column": "kin"}, InvalidConfiguration),
        ({"method": "kind", "column": "a"}, InvalidData),
        ({"method": "kind", "column": "kind", "least": 31}, InvalidData),
    ],
)
def test_a_kind_that_cannot_be_is_refused(tables: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="clustering"):
        train(table(), config(**tables))


@pytest.mark.parametrize("representation", ["query", "pca+query"])
@pytest.mark.parametrize(
    ("clustering", "routing"), [("kmeans", "classifier"), ("ward", "centroid"), ("prototypes", "exact")]
)
def test_features_of_the_query_part_queries_by_every_clustering_of_vectors(
    representation: str, clustering: str, routing: str
) -> None:
    trained = train(
        table(60),
        TrainingConfig.from_tables(
            {
                "representation": {"method": representation, "features": ["kind"]},
                "similarity": {"method": "euclidean"},
                "clustering": {"method": clustering, "clusters": 3, "shrink": 0.0},
                "learner": {"method": "linear", "ridge": 0.1},
                "routing": {"method": routing},
            }
        ),
    )

    kinds = np.arange(59) % 3
    pairs = np.column_stack([kinds, trained.built.clusters[:59]])
    purity = sum(np.bincount(pairs[kinds == kind, 1]).max() for kind in range(3)) / 59
    assert purity > 0.9
