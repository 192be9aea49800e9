from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from localrank.errors import InvalidConfiguration, InvalidData, ScoringFailed
from localrank.features.feature import Feature
from localrank.metrics import Judgements, measure
from localrank.ranker import best_first
from localrank.routing.route import Route
from localrank_training.evaluation.comparisons import compare, compare_family
from localrank_training.evaluation.evaluating import Routing, evaluate, per_query_table, rank_all, versus
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.ranker import Ranker
    from localrank_training.data.queries import QuerySet

TABLES = {
    "contract": {"normalise": "none"},
    "representation": {"components": 1},
    "clustering": {"clusters": 2},
}


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return build(two_kinds(), TrainingConfig.from_tables(TABLES), RankSvm()).ranker


@pytest.fixture(scope="module")
def global_ranker() -> Ranker:
    return build(two_kinds(), TrainingConfig.read(method="global"), RankSvm()).ranker


@pytest.fixture(scope="module")
def exam() -> QuerySet:
    """Twenty judged queries of both kinds; one has a single document and one nothing relevant."""
    queries = two_kinds(20, seed=1)
    labels = queries.labels.copy()
    labels[queries.span(3)] = 0
    whole = replace(queries, labels=labels)
    single = replace(
        whole.select([0]),
        documents=whole.documents[:1],
        labels=np.ones(1),
        offsets=np.array([0, 1]),
        lines=np.array([0]),
    )
    return replace(
        whole,
        documents=np.concatenate([single.documents, whole.documents]),
        labels=np.concatenate([single.labels, whole.labels]),
        offsets=np.concatenate([[0], whole.offsets + 1]),
        query_ids=("alone", *whole.query_ids),
        lines=np.arange(whole.n_docs + 1),
    )


def test_figures_are_of_the_orders_that_the_ranker_gives(ranker: Ranker, exam: QuerySet) -> None:
    expected = []
    for query, documents in enumerate(exam.clouds()):
        ranked = exam.labels_of(query)[ranker.rank(documents).order]
        expected.append(1 / (np.flatnonzero(ranked > 0)[0] + 1) if ranked.any() else 0.0)

    found = evaluate(ranker, exam, ["mrr"])

    np.testing.assert_array_equal(expected, found.local[0].per_query)
    assert (found.local[0].n_queries, found.local[0].n_empty) == (21, 1)


def test_the_global_scorer_is_measured_beside_it(ranker: Ranker, exam: QuerySet) -> None:
    scores = np.concatenate(
        [ranker.global_scorer.score(ranker.contract.cloud(documents)) for documents in exam.clouds()]
    )

    found = evaluate(ranker, exam, ["map", "ndcg@10"], ["standard", "letor3"])

    expected = [
        measured
        for convention in ("standard", "letor3")
        for measured in measure(exam.labels, scores, exam.offsets, ["map", "ndcg@10"], convention)
    ]
    assert [str(one) for one in expected] == [str(one) for one in found.global_]
    assert [("map", "standard"), ("ndcg@10", "standard"), ("map", "letor3"), ("ndcg@10", "letor3")] == [
        (one.name, one.convention.name) for one in found.local
    ]


def test_local_is_compared_with_global_within_each_convention(ranker: Ranker, exam: QuerySet) -> None:
    found = evaluate(ranker, exam, ["map", "ndcg@10"], ["standard", "letor3"], margin=0.01, seed=3)

    first, second = found.local[:2], found.local[2:]
    assert found.against_global == (
        *compare_family(first, found.global_[:2], margin=0.01, seed=3),
        *compare_family(second, found.global_[2:], margin=0.01, seed=3),
    )
    assert found.against_global[0].difference > 0.1
    assert found.against_global[0].p_holm < 0.05


def test_a_model_without_clusters_has_nothing_to_be_compared_with(
    global_ranker: Ranker, exam: QuerySet
) -> None:
    found = evaluate(global_ranker, exam, ["map"])

    assert () == found.against_global
    assert () == found.clusters
    np.testing.assert_array_equal(found.ranked.scores, found.ranked.global_scores)
    assert (found.routing.strategy, found.routing.to_global, found.routing.clusters) == ("global", 21, ())


@pytest.mark.parametrize("together", [3, 500])
def test_the_oracle_takes_the_best_cluster_of_every_query(
    ranker: Ranker, exam: QuerySet, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """Cremers et al.: the cluster that performed best for each query, known by its labels."""
    monkeypatch.setattr("localrank_training.evaluation.evaluating._TOGETHER", together)
    metrics, conventions = ["map", "ndcg@10"], ["standard", "standard-skip"]

    found = evaluate(ranker, exam, metrics, conventions, oracle=True)

    per_cluster = [
        measure(
            exam.labels,
            np.concatenate([scorer.score(ranker.contract.cloud(one)) for one in exam.clouds()]),
            exam.offsets,
            metrics,
            convention,
        )
        for convention in conventions
        for scorer in ranker.scorers
    ]
    for number, oracle in enumerate(found.oracle):
        convention, metric = divmod(number, 2)
        ours = per_cluster[2 * convention][metric], per_cluster[2 * convention + 1][metric]
        expected = [max(a, b) for a, b in zip(*(one.per_query for one in ours), strict=True)]
        np.testing.assert_array_equal(expected, oracle.per_query)
        assert np.nanmean(expected) == pytest.approx(oracle.mean)
        assert (found.local[number].name, found.local[number].n_empty) == (oracle.name, oracle.n_empty)
    assert found.oracle[0].mean >= found.local[0].mean
    assert "oracle" in found.to_json()


def test_there_is_no_oracle_unless_asked_for(ranker: Ranker, global_ranker: Ranker, exam: QuerySet) -> None:
    assert () == evaluate(ranker, exam, ["map"]).oracle
    assert "oracle" not in evaluate(ranker, exam, ["map"]).to_json()
    assert () == evaluate(global_ranker, exam, ["map"], oracle=True).oracle


def test_queries_are_counted_where_they_went(ranker: Ranker, exam: QuerySet) -> None:
    routes = [ranker.rank(documents).route for documents in exam.clouds()]

    found = evaluate(ranker, exam, ["ndcg@10", "map"])

    assert [10, 10] == list(found.routing.clusters)
    assert 1 == found.routing.to_global
    assert {"no_signature": 1} == found.routing.fallbacks
    assert found.routing.strategy == "lsh"
    margins = [route.margin for route in routes if route.margin is not None]
    assert found.routing.margin == pytest.approx(float(np.median(margins)))
    for cluster in found.clusters:
        here = [query for query, route in enumerate(routes) if route.cluster == cluster.cluster]
        assert len(here) == cluster.queries
        assert cluster.local == pytest.approx(found.local[0].per_query[here].mean())
        assert cluster.global_ == pytest.approx(found.global_[0].per_query[here].mean())
    assert [None, 0, 1] == [cluster.cluster for cluster in found.clusters]


def test_routes_add_up() -> None:
    routes = [
        Route("lsh", 2, 0.5, 0.1),
        Route("lsh", 0, 0.9, 0.3, fallback="no_candidates"),
        Route("lsh", 2, 0.7),
        Route("lsh", None, fallback="no_signature"),
    ]

    found = Routing.of(routes, 4)

    assert (1, 0, 2, 0) == found.clusters
    assert {"no_candidates": 1, "no_signature": 1} == found.fallbacks
    assert (found.to_global, found.similarity) == (1, 0.7)
    assert found.margin == pytest.approx((0.1 + 0.3) / 2)
    assert [0.25, 0.0, 0.5, 0.0] == [cluster["share"] for cluster in found.to_json()["clusters"]]
    assert Routing.of([], 0).to_json()["global"] == {"queries": 0, "share": 0.0}


def test_clusters_whose_queries_are_all_left_out_have_no_figure(ranker: Ranker, exam: QuerySet) -> None:
    nothing = replace(exam, labels=np.where(exam.query_of % 2 == 1, 0.0, exam.labels))

    found = evaluate(ranker, nothing, ["map"], ["standard-skip"])

    empty = [cluster for cluster in found.clusters if np.isnan(cluster.local)]
    assert [10] == [cluster.queries for cluster in empty]


def test_a_convention_that_leaves_every_query_out_has_nothing_to_compare(
    ranker: Ranker, exam: QuerySet
) -> None:
    unjudged = replace(exam, labels=np.zeros(exam.n_docs))

    found = evaluate(ranker, unjudged, ["map"], ["standard-skip", "standard"])

    assert ["standard"] == [one.convention for one in found.against_global]
    assert np.isnan(found.local[0].mean)


def test_ties_bound_what_another_order_of_equal_scores_could_give(ranker: Ranker) -> None:
    queries = two_kinds(6, seed=2)
    doubled = queries.documents.copy()
    for query in range(6):
        doubled[queries.span(query)][1::2] = doubled[queries.span(query)][:-1:2]
    exam = queries.with_documents(doubled)

    found = evaluate(ranker, exam, ["map"])

    low, high = found.ties[0]
    assert low < found.local[0].mean < high
    judgements = Judgements(exam.labels, exam.offsets)
    assert low == judgements.measure(found.ranked.scores, ["map"], ties="pessimistic")[0].mean


def test_two_models_are_compared_on_the_same_queries(
    ranker: Ranker, global_ranker: Ranker, exam: QuerySet
) -> None:
    local, alone = (
        evaluate(one, exam, ["map"], name=name) for one, name in ((ranker, "a@1"), (global_ranker, "b@1"))
    )

    found = versus(local, alone, seed=2)

    assert (found.candidate, found.baseline) == ("a@1", "b@1")
    assert found.comparisons == (compare(local.local[0], alone.local[0], seed=2),)
    assert found.comparisons[0].difference == pytest.approx(local.local[0].mean - alone.local[0].mean)


def test_every_query_has_a_row_with_all_its_figures(ranker: Ranker, exam: QuerySet) -> None:
    found = evaluate(ranker, exam, ["map", "mrr"], ["standard-skip"], name="web@3")

    header, rows = per_query_table(exam, [found])

    table = [dict(zip(header, row, strict=True)) for row in rows]
    assert header == [
        "query_id",
        "documents",
        "web@3 cluster",
        "web@3 fallback",
        "web@3 map standard-skip",
        "web@3 mrr standard-skip",
        "web@3 global map standard-skip",
        "web@3 global mrr standard-skip",
    ]
    assert list(exam.query_ids) == [row["query_id"] for row in table]
    assert (table[0]["documents"], table[0]["web@3 cluster"]) == (1, None)
    assert table[0]["web@3 fallback"] == "no_signature"
    assert table[4]["web@3 map standard-skip"] is None
    for query, row in enumerate(table):
        if query != 4:
            assert found.local[1].per_query[query] == row["web@3 mrr standard-skip"]
            assert found.global_[0].per_query[query] == row["web@3 global map standard-skip"]


def test_a_model_without_clusters_has_no_columns_for_its_global_scorer(
    global_ranker: Ranker, exam: QuerySet
) -> None:
    header, _ = per_query_table(exam, [evaluate(global_ranker, exam, ["map"], name="g@1")])

    assert ["query_id", "documents", "g@1 cluster", "g@1 fallback", "g@1 map standard"] == header


def test_everything_becomes_json(ranker: Ranker, global_ranker: Ranker, exam: QuerySet) -> None:
    found = evaluate(ranker, exam, ["ndcg@10"], name="web@3", margin=0.01)
    members = json.loads(json.dumps(found.to_json()))

    assert members["model"] == "web@3"
    assert members["figures"][0]["mean"] == found.local[0].mean
    assert members["figures"][0]["empty_queries"] == 1
    assert members["figures"][0]["pessimistic"] <= members["figures"][0]["optimistic"]
    assert members["against_global"][0]["difference"] == found.against_global[0].difference
    assert members["clusters"]["convention"] == "standard"
    other = versus(found, evaluate(global_ranker, exam, ["ndcg@10"])).to_json()
    assert other["comparisons"][0]["metric"] == "ndcg@10"


def test_every_query_is_ranked_by_itself_on_one_thread_with_progress(ranker: Ranker, exam: QuerySet) -> None:
    told: list[tuple[str, int, int]] = []
    threads: set[int] = set()

    def progress(task: str, done: int, total: int) -> None:
        told.append((task, done, total))
        threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    found = rank_all(ranker, exam, progress=progress, task="ranking web")

    assert [("ranking web", done, 21) for done in range(1, 22)] == told
    assert {1} == threads
    for (start, stop), documents in zip(itertools.pairwise(exam.offsets), exam.clouds(), strict=True):
        own = ranker.rank(documents)
        np.testing.assert_array_equal(own.scores, found.scores[start:stop])
        np.testing.assert_array_equal(own.order, best_first(found.scores[start:stop]))


def test_columns_are_put_in_the_models_order(ranker: Ranker, exam: QuerySet) -> None:
    known = tuple("abcde")
    named = replace(ranker, contract=replace(ranker.contract, features=tuple(map(Feature, known))))
    shuffled = replace(
        exam,
        documents=np.ascontiguousarray(exam.documents[:, ::-1]),
        feature_names=known[::-1],
    )

    found = rank_all(named, shuffled)

    np.testing.assert_array_equal(rank_all(ranker, exam).scores, found.scores)


def test_what_cannot_be_ranked_names_its_query(ranker: Ranker, exam: QuerySet) -> None:
    broken = exam.documents.copy()
    broken[exam.span(7).start + 2, 1] = np.nan

    with pytest.raises(InvalidData, match="query 'q6': expected a value of 'f2', found none"):
        evaluate(ranker, exam.with_documents(broken), ["map"])

    class Broken:
        view = "raw"

        def score(self, documents: Matrix) -> Vector:
            return np.full(len(documents), np.inf)

    endless = replace(ranker, global_scorer=Broken(), scorers=(Broken(), Broken()))  # type: ignore[arg-type]
    with pytest.raises(ScoringFailed, match="query 'alone': document 0 scored inf"):
        evaluate(endless, exam, ["map"])


def test_wrong_questions_are_refused_before_the_ranking(ranker: Ranker, exam: QuerySet) -> None:
    def progress(*_: object) -> None:
        pytest.fail("ranked")

    with pytest.raises(InvalidConfiguration, match="metric 'dcg'"):
        evaluate(ranker, exam, ["dcg"], progress=progress)
    with pytest.raises(InvalidData, match="convention letor3 defines the grades 0 to 2, found 7"):
        evaluate(
            ranker, replace(exam, labels=np.full(exam.n_docs, 7.0)), ["map"], ["letor3"], progress=progress
        )
    with pytest.raises(InvalidData, match="ERR in convention standard has the top grade 4, found 7"):
        evaluate(ranker, replace(exam, labels=np.full(exam.n_docs, 7.0)), ["err"], progress=progress)
    for metrics, conventions in (([], ["standard"]), (["map"], [])):
        with pytest.raises(InvalidData, match="expected at least one query, one metric and one convention"):
            evaluate(ranker, exam, metrics, conventions, progress=progress)
