from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

from localrank import artifact
from localrank.errors import InvalidData
from localrank.features.contract import QUANTILES, FeatureContract
from localrank.metrics import Judgements
from localrank.points.signature import SIMILARITIES
from localrank.routing.router import ExactRouter, GlobalRouter
from localrank.routing.routers import LshRouter, MedoidRouter
from localrank.scorers import LinearScorer, SumScorer
from localrank_training.data.clouds import Clouds
from localrank_training.learners.boosting import Gbrt
from localrank_training.learners.lesson import Lesson  # noqa: TC001 -- the settings of a learner are checked by its annotations
from localrank_training.learners.rankboost import RankBoost
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.role import Learner
from localrank_training.learners.svmmap import SvmMap
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.scorers import Scorer

PLAIN = {"contract": {"normalise": "none"}, "representation": {"components": 1}}


def config(**tables: object) -> TrainingConfig:
    return TrainingConfig.from_tables({**PLAIN, "clustering": {"clusters": 2}, **tables})


def test_every_kind_of_query_gets_its_own_scorer() -> None:
    queries = two_kinds()

    built = build(queries, config(), RankSvm())

    assert [12, 12] == np.bincount(built.clusters).tolist()
    assert 2 == len({built.clusters[query] for query in (0, 1)})
    first, second = (built.ranker.scorers[built.clusters[query]].arrays()["weights"][2] for query in (0, 1))
    assert first > 0 > second


def test_unseen_queries_are_ranked_better_than_by_the_global_scorer() -> None:
    exam = two_kinds(20, seed=1)
    ranker = build(two_kinds(), config(), RankSvm()).ranker

    local = np.concatenate([ranker.rank(documents).scores for documents in exam.clouds()])
    global_ = np.concatenate(
        [ranker.global_scorer.score(ranker.contract.cloud(documents)) for documents in exam.clouds()]
    )

    judged = Judgements(exam.labels, exam.offsets)
    assert judged.per_query(local, "ndcg@10").mean() > 0.95
    assert judged.per_query(global_, "ndcg@10").mean() < 0.8


@pytest.mark.parametrize(
    ("method", "router"), [("lsh", LshRouter), ("exact", ExactRouter), ("medoid", MedoidRouter)]
)
def test_the_router_is_the_one_asked_for(method: str, router: type) -> None:
    built = build(two_kinds(), config(routing={"method": method}), RankSvm())

    assert router is type(built.ranker.router)


def test_every_setting_of_routing_reaches_the_router() -> None:
    chosen = {"cap": 7, "probes": 2, "rerank": 9, "exact_below": 11, "planes": 3, "tables": 4}

    built = build(two_kinds(), config(routing=chosen, similarity={"form": "subspace"}), RankSvm())

    router = built.ranker.router
    assert isinstance(router, LshRouter)
    assert (7, 2, 9, 11, "subspace") == (
        router.cap,
        router.probes,
        router.rerank,
        router.exact_below,
        router.similarity,
    )
    assert (4, 3, 5) == router.tables.planes.shape


@pytest.mark.parametrize("form", SIMILARITIES)
@pytest.mark.parametrize("method", ["exact", "medoid", "lsh"])
def test_every_form_of_similarity_tells_the_kinds_apart(form: str, method: str) -> None:
    built = build(two_kinds(), config(similarity={"form": form}, routing={"method": method}), RankSvm())

    assert [12, 12] == np.bincount(built.clusters).tolist()
    for query, documents in enumerate(two_kinds().clouds()):
        assert built.clusters[query] == built.ranker.rank(documents).route.cluster


def test_tables_always_compare_the_exemplars() -> None:
    built = build(two_kinds(), config(routing={"method": "lsh"}), RankSvm())

    router = built.ranker.router
    assert isinstance(router, LshRouter)
    signed = np.flatnonzero(built.clusters >= 0)
    typical = signed[list(router.exemplars)]
    assert tuple(two_kinds().query_ids[query] for query in typical) == built.exemplars
    np.testing.assert_array_equal(np.arange(len(built.exemplars)), router.clusters[list(router.exemplars)])


def test_shorter_lists_are_learned_from_as_well() -> None:
    queries = two_kinds(n_docs=15)

    built = build(queries, config(lists={"lengths": [6]}), RankSvm())

    assert 48 == len(built.clusters)
    np.testing.assert_array_equal(built.clusters[:24] >= 0, built.clusters[24:] >= 0)
    lengths = dict(zip(QUANTILES, built.ranker.contract.list_lengths, strict=True))
    assert (6, 15) == (lengths[0.0], lengths[1.0])
    assert set(built.exemplars) <= set(queries.query_ids)


def test_quadratic_features_are_learned_from_and_served(tmp_path: Path) -> None:
    """LocalRank, section 4.3: the features and all their products."""
    built = build(two_kinds(), config(), RankSvm(blocks="[normalised, quadratic]"))

    probe = list(two_kinds(6, seed=3).clouds())
    artifact.save(tmp_path / "web" / "1", built.ranker, artifact.Provenance("", {}, probe))

    loaded = artifact.load(tmp_path / "web" / "1").ranker
    assert {5 + 15} == {len(scorer.arrays()["weights"]) for scorer in loaded.scorers}
    for documents in two_kinds(4, seed=4).clouds():
        np.testing.assert_array_equal(built.ranker.rank(documents).scores, loaded.rank(documents).scores)


def test_one_global_model_has_no_clusters() -> None:
    built = build(two_kinds(), TrainingConfig.read(method="global"), RankSvm())

    assert isinstance(built.ranker.router, GlobalRouter)
    assert () == built.ranker.scorers
    assert {-1} == set(built.clusters)


def test_a_cluster_that_teaches_nothing_uses_the_global_scorer_and_says_so() -> None:
    queries = two_kinds()
    labels = queries.labels.copy()
    labels[queries.query_of % 2 == 1] = 1.0

    built = build(replace(queries, labels=labels), config(), RankSvm())

    mute = built.clusters[1]
    assert built.ranker.global_scorer is built.ranker.scorers[mute]
    assert built.notes[0].startswith(f"cluster {mute} (12 queries) uses the global scorer: ")


def test_what_a_learner_says_of_each_fit_is_noted() -> None:
    built = build(two_kinds(), config(), SvmMap())

    places = ["global scorer", *(f"cluster {number} (12 queries)" for number in range(2))]
    for place, note in zip(places, built.notes, strict=True):
        assert note.startswith(f"{place}: svmmap: ")
        assert "of the optimum" in note


def test_training_sees_the_documents_that_serving_sees() -> None:
    queries = two_kinds(4)
    contract = FeatureContract.learn(queries.documents, queries.lengths.tolist(), normalise="query_minmax")

    seen = Clouds(queries, contract).seen_as("normalised")

    for query in range(4):
        np.testing.assert_array_equal(
            contract.cloud(queries.documents_of(query)).normalised, seen.documents_of(query)
        )


def test_queries_without_any_shape_cannot_be_clustered() -> None:
    queries = two_kinds(4)
    alike = queries.with_documents(np.ones_like(queries.documents))
    known = LinearScorer(np.ones(queries.n_features))

    with pytest.raises(InvalidData, match="different features, found none"):
        build(alike, config(), RankSvm())
    with pytest.raises(InvalidData, match="nothing to cluster"):
        build(alike, config(), RankSvm(), global_scorer=known)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_result_does_not_depend_on_the_number_of_workers(workers: int) -> None:
    reference = build(two_kinds(), config(), RankSvm()).ranker

    ranker = build(two_kinds(), config(), RankSvm(), workers=workers).ranker

    for expected, scorer in zip(reference.scorers, ranker.scorers, strict=True):
        np.testing.assert_array_equal(expected.arrays()["weights"], scorer.arrays()["weights"])


@dataclass(frozen=True)
class Remembering(Learner):
    """A learner that keeps the lessons that it is given."""

    method: ClassVar[str] = "remembering"
    blocks: str = "normalised"
    lessons: ClassVar[list[Lesson]]  # of the instance that was made last; a field would be a setting

    def __post_init__(self) -> None:
        super().__post_init__()
        type(self).lessons = []

    def fit(self, lesson: Lesson) -> Scorer:
        self.lessons.append(lesson)
        return LinearScorer(np.zeros(lesson.queries.n_features))


@pytest.mark.parametrize("continuation", [False, True])
def test_clusters_are_learned_towards_the_global_scorer_only_if_told(*, continuation: bool) -> None:
    learner = Remembering()

    built = build(two_kinds(), config(clustering={"clusters": 2, "continuation": continuation}), learner)

    first, *clusters = learner.lessons
    assert (None, None) == (first.start, first.towards)
    assert len(clusters) == 2
    for lesson in clusters:
        assert lesson.start is built.ranker.global_scorer
        assert lesson.towards is (built.ranker.global_scorer if continuation else None)


@pytest.mark.parametrize("mute", [[0], [5], [0, 1, 7], [22, 23]])
def test_exemplars_are_counted_among_the_queries_that_have_a_signature(mute: list[int]) -> None:
    """Queries whose documents are all alike are in no table, so those behind them move up."""
    queries = two_kinds()
    documents = queries.documents.copy()
    documents[np.isin(queries.query_of, mute)] = 1.0

    built = build(queries.with_documents(documents), config(routing={"method": "lsh"}), RankSvm())

    router = built.ranker.router
    assert isinstance(router, LshRouter)
    signed = np.delete(np.arange(24), mute)
    np.testing.assert_array_equal(np.full(len(mute), -1), built.clusters[mute])
    np.testing.assert_array_equal(built.clusters[signed], router.clusters)
    assert built.exemplars == tuple(queries.query_ids[signed[one]] for one in router.exemplars)
    np.testing.assert_array_equal(np.arange(2), router.clusters[list(router.exemplars)])


@pytest.mark.parametrize("of_the_kind", [9, 10])
def test_a_cluster_stops_by_its_own_validation_queries_if_it_gets_ten(of_the_kind: int) -> None:
    """Fewer say too little, so that all of them are taken."""
    learner = Remembering()
    held = two_kinds(24, seed=1)
    # The even ones are of the first kind, the odd ones of the second.
    held = held.select([*range(0, 2 * of_the_kind, 2), *range(1, 24, 2)])

    built = build(two_kinds(), config(), learner, validation=held)

    exams = [lesson.validation for lesson in learner.lessons[1:]]
    first = built.clusters[0]
    sizes = {number: 0 if exam is None else len(exam) for number, exam in enumerate(exams)}
    assert {first: 10 if of_the_kind == 10 else 21, 1 - first: 12} == sizes


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "learner", [Gbrt(num_iterations=5, members=1, min_data_in_leaf=5), RankBoost(rounds=5)]
)
def test_clusters_that_continue_trees_refer_to_the_global_ones(learner: Learner, workers: int) -> None:
    tables = {"clusters": 2, "continuation": True}

    built = build(two_kinds(), config(clustering=tables), learner, workers=workers)

    for scorer in built.ranker.scorers:
        assert isinstance(scorer, SumScorer)
        assert scorer.rankers[0] is built.ranker.global_scorer
    for documents in two_kinds().clouds():
        ranking = built.ranker.rank(documents)
        cloud = built.ranker.contract.cloud(documents)
        scorer = built.ranker.scorers[ranking.route.cluster or 0]
        assert isinstance(scorer, SumScorer)
        parts = [ranker.score(cloud) for ranker in scorer.rankers]
        np.testing.assert_allclose(ranking.scores, parts[0] + parts[1])
