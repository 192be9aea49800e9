"""Thresholds of a guard are chosen on held-out queries, if falling back is better there by enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from localrank.artifact import load
from localrank.metrics import Judgements
from localrank.registry.versions import Registry
from localrank.routing.guard import Guard, GuardedRanker, Thresholds
from localrank.routing.route import Route
from localrank_training.data.queries import QuerySet
from localrank_training.evaluation.evaluating import RankedQueries, rank_all
from localrank_training.publishing.publish import publish
from localrank_training.run.guarding import Evidence, choose_guard, evidence_of, pooled
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

N_QUERIES, N_DOCS = 200, 8
LEARN = TrainingConfig.from_tables({"clustering": {"clusters": 2}, "guard": {"learn": True, "errors": 3.0}})


def planted(measure: str, *, unfit: float, seed: int = 0) -> tuple[QuerySet, RankedQueries, Evidence]:
    """Queries whose cluster ranks backwards if the measure is in its worst part ``unfit``; the global scorer is right."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, N_QUERIES * N_DOCS).astype(np.float64)
    queries = QuerySet(
        documents=rng.normal(size=(len(labels), 2)).astype(np.float32),
        labels=labels,
        offsets=np.arange(N_QUERIES + 1, dtype=np.int64) * N_DOCS,
        query_ids=tuple(f"q{i}" for i in range(N_QUERIES)),
        feature_names=("a", "b"),
        lines=np.arange(len(labels)),
    )
    fit = rng.permutation(N_QUERIES) / N_QUERIES
    noise = rng.normal(size=len(labels)) * 0.3
    backwards = np.repeat(np.where(fit < unfit, -1.0, 1.0), N_DOCS)
    values = {name: rng.random(N_QUERIES) for name in ("similarity", "margin", "distance")}
    values[measure] = 1 - fit if measure == "distance" else fit
    routes = tuple(
        Route("exact", 0, float(s), float(m))
        for s, m in zip(values["similarity"], values["margin"], strict=True)
    )
    global_scores = labels + 2 * noise
    # Locally right queries gain from their cluster, so that falling back everywhere is no answer.
    ranked = RankedQueries(backwards * labels + noise, global_scores, routes)
    return queries, ranked, Evidence(values["distance"], None)


@pytest.mark.parametrize("measure", ["similarity", "margin", "distance"])
def test_the_threshold_is_found_where_the_cluster_becomes_worse(measure: str) -> None:
    queries, ranked, evidence = planted(measure, unfit=0.2)

    guard, answered, (said,) = choose_guard(queries, ranked, evidence, LEARN)

    assert guard is not None
    thresholds = getattr(guard, measure)
    found = 1 - thresholds.alone if measure == "distance" else thresholds.alone
    assert found == pytest.approx(0.2, abs=0.03)
    judged = Judgements(queries.labels, queries.offsets)
    before, after = (judged.per_query(one.scores, "ndcg@10") for one in (ranked, answered))
    assert after.mean() > before.mean() + 0.02
    assert f"gains {after.mean() - before.mean():+.4f}" in said
    sent = [route for route in answered.routes if route.fallback]
    assert f"{len(sent)} of {N_QUERIES}" in said
    assert {None} == {route.cluster for route in sent}


def test_nothing_is_guarded_where_no_measure_tells_who_is_worse() -> None:
    """Each of 40 sets of noise tries about 120 thresholds; three standard errors let few through."""
    opened = 0
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        queries, ranked, evidence = planted("margin", unfit=0.0, seed=seed)
        ranked = replace(
            ranked,
            scores=queries.labels + rng.normal(size=queries.n_docs),
            global_scores=queries.labels + rng.normal(size=queries.n_docs),
        )
        opened += choose_guard(queries, ranked, evidence, LEARN)[0] is not None

    assert opened <= 4


def test_a_blend_is_taken_where_it_is_better_than_both() -> None:
    queries, ranked, _ = planted("margin", unfit=0.3)
    ideal = queries.labels + np.random.default_rng(3).normal(size=queries.n_docs) * 0.01
    blended = RankedQueries(ideal, ranked.global_scores, ranked.routes)
    fit = np.array([route.margin for route in ranked.routes])
    # Elsewhere it is bad, so that a threshold is worth more than blending everything.
    blended = replace(blended, scores=np.where(np.repeat(fit < 0.3, N_DOCS), ideal, -ideal))

    guard, answered, _ = choose_guard(queries, ranked, Evidence(np.zeros(N_QUERIES), blended), LEARN)

    assert guard is not None
    assert guard.margin.blend == pytest.approx(0.3, abs=0.03)
    assert guard.margin.alone is None
    sent = np.repeat([route.fallback == "low_margin" for route in answered.routes], N_DOCS)
    np.testing.assert_array_equal(blended.scores[sent], answered.scores[sent])
    np.testing.assert_array_equal(ranked.scores[~sent], answered.scores[~sent])


def with_strangers(n_queries: int, seed: int) -> QuerySet:
    """Two kinds of queries that are ranked by the third feature, forwards or backwards; every fourth is a stranger.

    Strangers spread along directions of their own and are ranked by the last feature, as all queries are a little.
    """
    rng = np.random.default_rng(seed)
    documents, labels = [], []
    for query in range(n_queries):
        cloud = rng.normal(size=(15, 12))
        if query % 4 == 0:
            direction = rng.normal(size=12) * np.array([0, 0, 0, *[1.0] * 8, 0])
            cloud += rng.normal(size=(15, 1)) * 8 * direction / np.linalg.norm(direction)
            value = cloud[:, 11]
        else:
            cloud[:, query % 2] *= 8
            value = cloud[:, 2] * (1 if query % 2 else -1) + 0.5 * cloud[:, 11]
        documents.append(cloud)
        labels.append(np.digitize(np.argsort(np.argsort(value)), [7, 12]))
    return QuerySet(
        documents=np.concatenate(documents).astype(np.float32),
        labels=np.concatenate(labels).astype(np.float64),
        offsets=np.arange(n_queries + 1, dtype=np.int64) * 15,
        query_ids=tuple(f"q{i}" for i in range(n_queries)),
        feature_names=tuple(f"f{i + 1}" for i in range(12)),
        lines=np.arange(n_queries * 15),
    )


def test_training_publishes_the_guard_that_it_has_chosen_and_measured(tmp_path: object) -> None:
    tables = {
        "contract": {"normalise": "none"},
        "representation": {"components": 1},
        "clustering": {"clusters": 2},
        "learner": {"method": "ranksvm", "C": 1.0},
        "guard": {"learn": True, "errors": 2.0},
    }
    queries = with_strangers(120, 0)

    trained = train(queries, TrainingConfig.from_tables(tables))

    ranker = trained.built.ranker
    assert isinstance(ranker, GuardedRanker)
    registry = Registry(tmp_path)  # type: ignore[arg-type]
    reference = publish(registry, "m", trained, queries)
    loaded = load(reference.path).ranker
    assert isinstance(loaded, GuardedRanker)
    assert ranker.guard == loaded.guard
    assert any("guard: " in warning and "gains +" in warning for warning in trained.warnings)
    fresh = with_strangers(60, 9)
    routes = rank_all(loaded, fresh).routes
    strangers = [route.fallback is not None for route in routes[::4]]
    others = [route.fallback is not None for position, route in enumerate(routes) if position % 4]
    assert np.mean(strangers) > np.mean(others)


def test_nothing_is_said_of_a_guard_unless_it_is_asked_for() -> None:
    queries, ranked, evidence = planted("margin", unfit=0.3)
    config = TrainingConfig.from_tables({"clustering": {"clusters": 2}})

    assert (None, ranked, []) == choose_guard(queries, ranked, evidence, config)


def test_the_evidence_of_a_blend_is_what_a_guard_makes_of_every_query() -> None:
    config = TrainingConfig.from_tables(
        {"contract": {"normalise": "none"}, "clustering": {"clusters": 2}, "learner": {"C": 1.0}}
    )
    ranker = train(two_kinds(20), config).built.ranker
    exam = two_kinds(6, seed=4)

    blended = evidence_of(ranker, exam).blended

    assert blended is not None
    always = GuardedRanker.around(ranker, Guard(margin=Thresholds(blend=9.0)))
    expected = np.concatenate([always.rank(documents).scores for documents in exam.clouds()])
    np.testing.assert_array_equal(expected, blended.scores)


@pytest.mark.parametrize(
    ("unfit", "least", "errors", "threshold"),
    [
        # Values are 0, 0.005, … of 200 queries, and a threshold lies between two of them. It concerns a half at most,
        (0.8, 10, 3.0, 0.4975),
        # one in forty at least,
        (0.025, 1, 1.5, 0.0225),
        # and never fewer than `least`.
        (0.1, 30, 3.0, 0.1475),
        (0.1, 20, 3.0, 0.0975),
    ],
)
def test_a_threshold_concerns_from_one_in_forty_to_a_half_of_the_queries(
    unfit: float, least: int, errors: float, threshold: float
) -> None:
    queries, ranked, evidence = planted("margin", unfit=unfit)
    tables = {"clustering": {"clusters": 2}, "guard": {"learn": True, "errors": errors, "least": least}}

    guard, *_ = choose_guard(queries, ranked, evidence, TrainingConfig.from_tables(tables))

    assert guard is not None
    assert threshold == pytest.approx(guard.margin.alone)


def test_a_threshold_never_parts_queries_of_equal_values() -> None:
    queries, ranked, evidence = planted("margin", unfit=0.3)
    coarse = tuple(
        route._replace(margin=0.25 if (route.margin or 0) < 0.3 else 0.75) for route in ranked.routes
    )

    guard, answered, _ = choose_guard(queries, replace(ranked, routes=coarse), evidence, LEARN)

    assert guard is not None
    assert 0.5 == guard.margin.alone
    assert [route.margin == 0.25 for route in coarse] == [bool(route.fallback) for route in answered.routes]


def test_queries_without_a_value_and_those_of_the_global_scorer_are_left_alone() -> None:
    queries, ranked, evidence = planted("margin", unfit=0.3)
    values = [route.margin or 0.0 for route in ranked.routes]
    routes = tuple(
        route._replace(margin=None) if value < 0.05 else route._replace(local=False) if value < 0.1 else route
        for route, value in zip(ranked.routes, values, strict=True)
    )

    guard, answered, _ = choose_guard(queries, replace(ranked, routes=routes), evidence, LEARN)

    assert guard is not None
    sent = [bool(route.fallback) for route in answered.routes]
    assert [0.1 <= value < (guard.margin.alone or 0) for value in values] == sent
    assert guard.margin.alone == pytest.approx(0.3, abs=0.03)
    for query, gone in enumerate(sent):
        span, mine = queries.span(query), ranked.global_scores if gone else ranked.scores
        np.testing.assert_array_equal(mine[span], answered.scores[span])
    assert {(None, (), False, "low_margin")} == {
        (route.cluster, route.shares, route.local, route.fallback)
        for route, gone in zip(answered.routes, sent, strict=True)
        if gone
    }


def test_without_local_models_or_a_gain_there_is_no_guard_and_it_is_said() -> None:
    queries, ranked, evidence = planted("margin", unfit=0.3)
    alone = replace(ranked, routes=tuple(route._replace(local=False) for route in ranked.routes))
    perfect = replace(ranked, scores=queries.labels)

    for found, known, said in (
        (alone, evidence, "guard: the global scorer answers every query, so there is nothing to guard"),
        (ranked, None, "guard: the global scorer answers every query, so there is nothing to guard"),
        (
            perfect,
            evidence,
            "guard: no threshold gains enough on the held-out queries, so the model has no guard",
        ),
    ):
        assert (None, found, [said]) == choose_guard(queries, found, known, LEARN)


def test_the_sentence_names_each_threshold_and_what_it_gains() -> None:
    queries, ranked, evidence = planted("distance", unfit=0.2)

    guard, answered, (said,) = choose_guard(queries, ranked, evidence, LEARN)

    assert guard is not None
    assert said.startswith(f"guard: distance above {guard.distance.alone:.4g} to global; it concerns ")
    far = evidence.distances > (guard.distance.alone or 0)
    assert far.tolist() == [bool(route.fallback) for route in answered.routes]


def test_evidence_of_splits_is_put_together_in_their_order() -> None:
    _, first, of_first = planted("margin", unfit=0.2)
    _, second, of_second = planted("margin", unfit=0.2, seed=1)

    found = pooled([replace(of_first, blended=first), None, replace(of_second, blended=second)])

    assert found is not None
    assert found.blended is not None
    np.testing.assert_array_equal([*of_first.distances, *of_second.distances], found.distances)
    np.testing.assert_array_equal([*first.scores, *second.scores], found.blended.scores)
    np.testing.assert_array_equal([*first.global_scores, *second.global_scores], found.blended.global_scores)
    assert (*first.routes, *second.routes) == found.blended.routes
    assert pooled([None, None]) is None
