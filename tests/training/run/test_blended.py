"""A blend's training run: nothing is measured on what taught it, and local models stay out unless they are better."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from localrank.artifact import load
from localrank.registry.versions import Registry
from localrank.scorers import BlendScorer, LinearScorer
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.publishing.publish import publish
from localrank_training.report.figures import report_of
from localrank_training.report.terminal import of_run
from localrank_training.run.pipeline import served
from localrank_training.run.train import Trained, train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.out_of_fold import OutOfFold
    from localrank_training.run.blended import CrossFitted

LINEAR = {"method": "linear", "blocks": "zscore", "ridge": [0.03, 0.3]}
TREES = {"method": "extra_trees", "blocks": "[raw, zscore]", "trees": 15}


def config(*members: dict[str, Any], local: int = 1, **tables: Any) -> TrainingConfig:
    clustering = {
        "method": "prototypes",
        "clusters": 4,
        "share": [0.2, 0.4],
        "shrink": [0.0, 1.0],
        "gate": 2.0,
    }
    return TrainingConfig.from_tables(
        {
            "contract": {"normalise": "global_zscore", "missing": "learned"},
            "similarity": {"form": "covariance"},
            "clustering": clustering | tables.pop("clustering", {}),
            "learner": {"method": "blend", "members": list(members or (LINEAR, TREES)), "local": local},
            **tables,
        }
    )


def found_of(trained: Trained) -> CrossFitted:
    assert trained.cross_fitted is not None
    return trained.cross_fitted


def kinds(n_queries: int = 60, **recipe: Any) -> QuerySet:
    return synthesize(n_queries, Recipe(**{"features": 8, "kinds": 2, "documents": (12, 20), **recipe}))[0]


@pytest.fixture(scope="module")
def of_kinds() -> Trained:
    return train(kinds(), config())


@pytest.fixture(scope="module")
def alike() -> Trained:
    return train(kinds(kinds=1, noise=1.0), config())


def test_queries_of_different_kinds_get_models_of_their_own(of_kinds: Trained) -> None:
    found = found_of(of_kinds)

    assert found.localised is not None
    assert found.localised.locality is not None
    assert found.localised.gain.interval is not None
    assert found.localised.gain.interval.low > 0.05
    ranker = found.built.ranker
    blends = [cast("BlendScorer", scorer) for scorer in ranker.scorers]
    whole = cast("BlendScorer", ranker.global_scorer)
    for blend in blends:
        assert blend is not whole
        assert [one is other for one, other in zip(blend.rankers, whole.rankers, strict=True)] == [
            False,
            True,
        ]
        np.testing.assert_array_equal(blend.weights, blends[0].weights)
    # The local member is worth more than the global one in its place.
    assert blends[0].weights[0] / blends[0].weights.sum() > whole.weights[0] / whole.weights.sum()
    first, second = (cast("LinearScorer", blend.rankers[0]).weights for blend in blends[:2])
    assert not np.allclose(first, second)
    assert {ranker.rank(documents).route.local for documents in of_kinds.queries.clouds()} == {True}
    scored, held = cast("OutOfFold", found.out_of_fold), of_kinds.held_out.ranked
    gained = scored.figure(held.scores) - scored.figure(held.global_scores)
    assert np.nanmean(gained) > 0.05


def test_queries_of_one_kind_get_one_model_without_clusters(alike: Trained, tmp_path: Path) -> None:
    """Nothing is stored that cannot change an answer; the map still shows the kinds that were tried."""
    found = found_of(alike)
    tried, ranker = found.built.ranker, alike.built.ranker

    manifest = load(publish(Registry(tmp_path), "web", alike, alike.queries).path).manifest

    assert found.localised is not None
    assert found.localised.locality is None
    assert not alike.config.clustering.local
    assert ((), {"part": "global", "fields": {}}) == (manifest.clusters, manifest.raw["router"])
    assert 4 == len(tried.scorers)
    for documents in list(alike.queries.clouds())[:10]:
        route, before = ranker.rank(documents), tried.rank(documents)
        assert (None, False) == (route.route.cluster, route.route.local)
        assert before.route.cluster is not None
        np.testing.assert_array_equal(route.scores, before.scores)
    np.testing.assert_array_equal(alike.held_out.ranked.scores, alike.held_out.ranked.global_scores)
    assert any("the version has no clusters" in note for note in manifest.notes)


def test_a_map_tells_the_kind_of_a_query_although_there_are_no_clusters(
    alike: Trained, tmp_path: Path
) -> None:
    artifact = load(publish(Registry(tmp_path), "web", alike, alike.queries).path)

    drawn, ranker = artifact.query_map, artifact.ranker
    assert drawn is not None
    points = [ranker.representation.of(ranker.contract.cloud(one)) for one in alike.queries.clouds()]
    kinds = [drawn.nearest(points[query], ranker.router) for query in drawn.queries]
    assert alike.built.clusters[drawn.queries].tolist() == kinds == drawn.clusters.tolist()


def test_a_member_that_weighs_nothing_is_not_stored(of_kinds: Trained) -> None:
    built = found_of(of_kinds).built
    ranker = built.ranker
    first, second = (cast("BlendScorer", scorer) for scorer in ranker.scorers[:2])
    one, both = BlendScorer(first.rankers, np.array([2.0, 0.0])), BlendScorer(second.rankers, np.ones(2))
    whole = BlendScorer(first.rankers, np.array([0.0, 3.0]))
    idle = replace(ranker, scorers=(one, both, whole, whole), global_scorer=whole)

    kept = served(replace(built, ranker=idle)).ranker

    assert [first.rankers[:1], second.rankers, first.rankers[1:], first.rankers[1:]] == [
        cast("BlendScorer", scorer).rankers for scorer in kept.scorers
    ]
    assert kept.scorers[2] is kept.scorers[3] is kept.global_scorer
    for documents in list(of_kinds.queries.clouds())[:10]:
        expected, found = idle.rank(documents), kept.rank(documents)
        np.testing.assert_array_equal(expected.scores, found.scores)
        assert expected.route == found.route


def test_a_scorer_that_looks_at_the_route_keeps_the_clusters(alike: Trained) -> None:
    built = found_of(alike).built
    widths = built.ranker.contract.widths(4)
    looking = LinearScorer(np.ones(widths["route"]), "route")
    kept = served(
        replace(built, ranker=replace(built.ranker, scorers=(looking,) * 4, global_scorer=looking))
    ).ranker

    assert (4, built.ranker.router) == (len(kept.scorers), kept.router)


def test_the_gain_is_that_of_the_whole_blend_on_queries_that_did_not_choose(of_kinds: Trained) -> None:
    """Every part of these queries opens the gate for the others, so the held-out figures show the same gain."""
    found = found_of(of_kinds)
    scored = cast("OutOfFold", found.out_of_fold)
    gains = scored.figure(found.scores) - scored.figure(found.global_scores)

    assert found.localised is not None
    assert found.localised.gain.mean == pytest.approx(np.nanmean(gains))
    assert str(found.localised.gain).startswith(f"{np.nanmean(gains):+.4f} [")
    assert found.localised.by == "shape"
    assert (("shape", found.localised.gain),) == found.localised.ways


def test_held_out_figures_are_of_every_query_and_not_flattered(of_kinds: Trained) -> None:
    """What the report says of held-out queries is near what new queries of the same kinds show."""
    fresh = synthesize(200, Recipe(features=8, kinds=2, documents=(12, 20)), sample=1)[0]
    from localrank.metrics import measure
    from localrank_training.evaluation.evaluating import rank_all

    held = of_kinds.held_out
    said = measure(held.queries.labels, held.ranked.scores, held.queries.offsets, ["ndcg@10"])[0].mean
    scores = rank_all(of_kinds.built.ranker, fresh).scores
    new = measure(fresh.labels, scores, fresh.offsets, ["ndcg@10"])[0].mean

    assert said <= new + 0.02
    assert len(held.ranked.routes) == len(held.queries) == 60


def is_baseline(title: str) -> bool:
    """The table of the baseline, which stands beside that of the members."""
    return title.startswith("Against") and not title.startswith("Against each of its members")


def test_the_report_leads_with_members_locality_and_what_fewer_cost(
    of_kinds: Trained, alike: Trained
) -> None:
    report = report_of(of_kinds)

    tables = [one for one in of_run(report) if not is_baseline(one.title)]
    titles = [table.title for table in tables]
    assert [title.split(" ")[0] for title in titles[:4]] == ["Against", "Locality", "Fewer", "Held"]
    mine, linear, trees = tables[0].rows
    locality, found = tables[1].title, tables[1].rows
    assert (mine[0], linear[0], trees[0]) == (
        "this model",
        "linear on zscore",
        "extra_trees on [raw, zscore]",
    )
    assert mine[3] == pytest.approx(report.local[-1].mean)
    assert float(str(linear[5]).split()[0]) == pytest.approx(mine[3] - linear[3], abs=1e-4)  # type: ignore[operator]
    assert locality.startswith("Locality (used: share = ")
    assert [row[0] for row in found] == [
        "gain of local models",
        "gain with random prototypes",
        "nearest query has the same prototype",
    ]
    kept = report.metrics_json()["blend"]
    assert kept["locality"]["gain"]["mean"] > 0.05 > kept["locality"]["random"]["mean"]
    assert 0.8 < kept["locality"]["agreement"] <= 1.0
    shut = report_of(alike)
    shut_tables = [one for one in of_run(shut) if not is_baseline(one.title)]
    assert shut_tables[1].title == "Locality (not used: their gain is below the gate)"
    assert shut.metrics_json()["blend"]["locality"]["locality"] is None
    assert shut_tables[3].header == ("metric", "model")


def test_random_labels_are_reported_as_chance() -> None:
    queries = kinds(80, kinds=1)
    labels = np.random.default_rng(3).permutation(queries.labels)

    trained = train(replace(queries, labels=labels), config())

    report = report_of(trained)
    scored = cast("OutOfFold", found_of(trained).out_of_fold)
    chance = np.nanmean(scored.figure(np.random.default_rng(0).normal(size=len(labels))))
    said = np.nanmean(scored.figure(trained.held_out.ranked.scores))
    assert said == pytest.approx(chance, abs=0.05)
    assert report.local[0].mean < 0.7


def test_validation_queries_teach_unless_told_not_to() -> None:
    queries, held = kinds(30), synthesize(12, Recipe(features=8, kinds=2, documents=(12, 20)), sample=1)[0]

    both = train(queries, config(), validation=held)
    apart = train(queries, config(selection={"refit": False}), validation=held)

    assert len(both.queries) == 42
    assert "validation queries are used for training" in both.warnings[0]
    assert len(apart.queries) == 30
    assert apart.held_out.how == "12 validation queries"
    assert apart.held_out.queries.query_ids == held.query_ids


def test_the_result_does_not_depend_on_the_number_of_processes() -> None:
    queries = kinds(30)

    one, two = (train(queries, config(), workers=workers) for workers in (1, 2))

    np.testing.assert_array_equal(one.held_out.ranked.scores, two.held_out.ranked.scores)
    documents = queries.documents_of(3)
    np.testing.assert_array_equal(
        one.built.ranker.rank(documents).scores, two.built.ranker.rank(documents).scores
    )


def test_a_published_blend_scores_the_same_bits(of_kinds: Trained, tmp_path: Path) -> None:
    registry = Registry(tmp_path)

    # With the member that weighs nothing, so that there is one that the clusters share.
    whole = replace(of_kinds, built=found_of(of_kinds).built)
    reference = publish(registry, "web", whole, of_kinds.queries)

    loaded = load(reference.path).ranker
    for documents in list(of_kinds.queries.clouds())[:5]:
        ours, theirs = of_kinds.built.ranker.rank(documents), loaded.rank(documents)
        np.testing.assert_array_equal(ours.scores, theirs.scores)
        assert ours.route == theirs.route
    blends = [cast("BlendScorer", scorer) for scorer in loaded.scorers]
    assert len({id(blend.rankers[1]) for blend in blends}) == 1


@pytest.mark.parametrize("n_queries", [1, 2, 5, 9, 20])
def test_any_number_of_queries_is_enough(n_queries: int) -> None:
    queries = kinds(n_queries)

    trained = train(queries, config())

    ranking = trained.built.ranker.rank(queries.documents_of(0))
    assert np.isfinite(ranking.scores).all()
    assert report_of(trained).local[0].n_queries == n_queries


@pytest.mark.parametrize("case", ["binary", "real", "constant", "missing", "one document", "wide", "alike"])
def test_any_kind_of_data_will_do(case: str) -> None:
    queries = kinds(20, features=8 if case != "wide" else 120)
    rng = np.random.default_rng(0)
    documents, labels = queries.documents.copy(), queries.labels.copy()
    if case == "binary":
        labels = (labels > 1).astype(np.float64)
    elif case == "real":
        labels = labels + rng.random(len(labels))
    elif case == "constant":
        documents[:, 3] = 7.0
    elif case == "missing":
        documents[rng.random(documents.shape) < 0.1] = np.nan
    elif case == "alike":
        documents[queries.span(4)] = documents[queries.span(4)][0]
    changed = replace(queries, documents=documents, labels=labels)
    if case == "one document":
        ones = np.concatenate([np.arange(queries.offsets[-1]), [0, 1]])
        changed = replace(
            queries,
            documents=documents[ones],
            labels=labels[ones],
            offsets=np.concatenate([queries.offsets, queries.offsets[-1] + np.array([1, 2])]),
            query_ids=(*queries.query_ids, "alone", "too"),
            lines=ones,
        )
    members = (
        LINEAR,
        TREES,
        {"method": "lambdamart", "blocks": "raw", "num_iterations": 10, "members": 1, "levels": 8},
    )

    trained = train(changed, config(*members))

    blend = cast("BlendScorer", found_of(trained).built.ranker.global_scorer)
    assert len(blend.rankers) == 3
    for query in (0, len(changed) - 1):
        assert np.isfinite(trained.built.ranker.rank(changed.documents_of(query)).scores).all()
    if case == "missing":
        assert set(trained.built.ranker.contract.missing) == {"nan"}
        assert np.isfinite(trained.built.ranker.rank(np.full((3, 8), np.nan, np.float32)).scores).all()
    else:
        assert set(trained.built.ranker.contract.missing) == {"reject"}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["one query", "twelve queries with real labels and missing values"])
def test_the_default_itself_copes_with_little_and_with_bad_data(case: str) -> None:
    queries = kinds(1 if case == "one query" else 12)
    if case != "one query":
        rng = np.random.default_rng(0)
        documents = queries.documents.copy()
        documents[rng.random(documents.shape) < 0.2] = np.nan
        documents[:, 2], documents[:, 5] = 7.0, np.nan
        labels = queries.labels + np.where(queries.labels > 0, rng.random(len(queries.labels)), 0.0)
        queries = replace(queries, documents=documents, labels=labels)

    trained = train(queries, TrainingConfig.read())

    scorer = cast("BlendScorer", found_of(trained).built.ranker.global_scorer)
    assert (3 if len(queries) == 1 else 7) == len(scorer.rankers)
    for query in range(len(queries)):
        assert np.isfinite(trained.built.ranker.rank(queries.documents_of(query)).scores).all()


def test_documents_that_are_all_alike_leave_one_global_model() -> None:
    """No query has a shape. One member sees another block, in which the documents do differ."""
    queries = kinds(12)
    documents = np.ones_like(queries.documents)
    with pytest.raises(Exception, match="different features"):
        train(replace(queries, documents=documents), config())


def test_shorter_lists_of_a_query_stay_in_its_part() -> None:
    queries = kinds(20)

    trained = train(queries, config(lists={"lengths": [5]}))

    found = found_of(trained)
    scored = cast("OutOfFold", found.out_of_fold)
    assert len(scored.part_of) == 40
    np.testing.assert_array_equal(scored.part_of[:20], scored.part_of[20:])
    assert len(trained.held_out.ranked.scores) == queries.n_docs


def test_without_a_linear_local_member_locality_is_not_tried() -> None:
    notes = train(kinds(20), config(LINEAR, TREES, local=2)).built.notes

    assert "local models were not tried: the local member is not 'linear' with a given ridge" in notes


def test_every_choice_is_a_trial(of_kinds: Trained, alike: Trained) -> None:
    """By the mean of MAP and NDCG@10 on held-out queries; local models beside the ridge that they are made with."""
    for trained in (of_kinds, alike):
        found = found_of(trained)
        scored = cast("OutOfFold", found.tried)
        ridges, local = trained.trials[:2], trained.trials[2:]
        assert ["linear on zscore: ridge = 0.03", "linear on zscore: ridge = 0.3"] == [
            one.setting for one in ridges
        ]
        assert [scored.worth(scores) for scores in scored.tried[0].scores] == pytest.approx(
            [one.value for one in ridges]
        )
        assert [one.value == max(ridges, key=lambda one: one.value).value for one in ridges] == [
            one.chosen for one in ridges
        ]
        assert 4 == len(local)
        settled = None if found.localised is None else found.localised.locality
        assert [str(settled)] * (settled is not None) == [
            one.setting.removeprefix("linear on zscore: local, ") for one in local if one.chosen
        ]
        assert report_of(trained).chosen_by == "mean of map and ndcg@10"
        assert any(table.title.startswith("Choices") for table in of_run(report_of(trained)))
