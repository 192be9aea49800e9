"""What learners see of judged queries: blocks next to each other, query by query as in serving."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.features.contract import FeatureContract
from localrank.metrics import Judgements
from localrank.routing.router import ExactRouter
from localrank.scorers import LinearScorer
from localrank_training.data.clouds import Clouds
from localrank_training.learners.boosting import LambdaMart
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.role import Learner
from localrank_training.run.pipeline import build, prepared
from localrank_training.run.train import HeldOut, train
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet

WISH = "[minmax, zscore * 0.25, rank]"
PLAIN = {"contract": {"normalise": "none"}, "representation": {"components": 1}}


def config(**tables: object) -> TrainingConfig:
    return TrainingConfig.from_tables({**PLAIN, "clustering": {"clusters": 2}, **tables})


def clouds_of(queries: QuerySet) -> Clouds:
    return Clouds(queries, FeatureContract.learn(queries.documents, queries.lengths.tolist()))


@pytest.mark.parametrize("blocks", ["raw", "rank * 0.5", WISH, "[raw, list, to_best]"])
def test_a_learner_sees_what_its_scorer_will_see(blocks: str) -> None:
    queries = two_kinds(4)
    clouds = clouds_of(queries)

    seen = clouds.seen_as(blocks)

    assert clouds.contract.columns(blocks) == seen.feature_names
    for query, documents in enumerate(queries.clouds()):
        np.testing.assert_array_equal(clouds.contract.cloud(documents).rows(blocks), seen.documents_of(query))
    assert seen is clouds.seen_as(blocks)


@pytest.mark.parametrize("blocks", ["zscore", WISH, "[rank * 3, raw]"])
def test_a_learner_made_of_learners_gives_each_its_own_blocks(blocks: str) -> None:
    clouds = clouds_of(two_kinds(6))
    whole = "[raw, minmax, zscore, rank]"
    lesson = Lesson(
        clouds.seen_as(whole), np.arange(1.0, 7), clouds.seen_as(whole), blocks=whole, widths=clouds.widths
    ).select([3, 1])

    part = lesson.seen_as(blocks)

    expected = clouds.seen_as(blocks)
    np.testing.assert_array_equal(expected.select([3, 1]).documents, part.queries.documents)
    assert part.validation is not None
    np.testing.assert_array_equal(expected.documents, part.validation.documents)
    np.testing.assert_array_equal([4.0, 2.0], part.shares)
    assert (blocks, part) == (part.blocks, part.seen_as(blocks))
    assert len(part.queries.feature_names) == part.queries.n_features


def test_blocks_that_a_lesson_does_not_hold_are_refused() -> None:
    clouds = clouds_of(two_kinds(2))
    lesson = Lesson(clouds.seen_as("[raw, zscore * 0.5]"), blocks="[raw, zscore * 0.5]", widths=clouds.widths)

    for blocks in ("rank", "zscore", "[raw, rank]"):
        with pytest.raises(
            InvalidConfiguration, match=r"expected a lesson that holds .*, found one that holds"
        ):
            lesson.seen_as(blocks)


class Remembering(Learner):
    """Keeps the lessons that it is given."""

    method: ClassVar[str] = "remembering"
    blocks = "[raw, route]"

    def __init__(self) -> None:
        self.lessons: list[Lesson] = []

    def fit(self, lesson: Lesson) -> Scorer:
        self.lessons.append(lesson)
        return LinearScorer(np.zeros(lesson.queries.n_features), self.blocks)


@pytest.mark.parametrize("routing", ["exact", "medoid"])
def test_a_training_query_is_routed_by_what_is_known_without_it(routing: str) -> None:
    queries, validation = two_kinds(24), two_kinds(12, seed=4)
    learner = Remembering()

    ranker = build(queries, config(routing={"method": routing}), learner, validation=validation).ranker

    lesson = learner.lessons[0]
    assert (5 + 1 + 2) == lesson.queries.n_features
    routes = [lesson.queries.documents_of(query)[:, 5:] for query in range(24)]
    for query, route in enumerate(routes):
        assert 1 == len(np.unique(route, axis=0))
        # The kinds take turns, and clusters of equal size are numbered by their first query.
        assert [0.0, 1.0] == sorted(route[0, 1:])
        assert query % 2 == route[0, 1:].argmax()
    itself = [route[0, 0] > 1 - 1e-6 for route in routes]
    assert sum(itself) == (0 if routing == "exact" else 2)
    assert lesson.validation is not None
    for query, documents in enumerate(validation.clouds()):
        found = ranker.route(ranker.contract.cloud(documents))
        assert found.similarity == pytest.approx(lesson.validation.documents_of(query)[0, 5], rel=1e-6)


def test_without_routes_no_router_is_made_twice() -> None:
    _, _, plan = prepared(two_kinds(6), None, config(), "[raw, rank]")
    _, _, routed = prepared(two_kinds(6), None, config(), "route")

    assert plan is None
    assert routed is not None
    assert (6, 2) == (len(routed.points), len(routed.clustering))


def test_one_model_that_sees_routes_tells_the_kinds_apart() -> None:
    """Features of the route let one set of trees rank each kind by a rule of its own."""
    learner = {
        "method": "lambdamart",
        "blocks": "[raw, route]",
        "members": 1,
        "num_iterations": 60,
        "num_leaves": 8,
        "min_data_in_leaf": 2,
        "feature_fraction": 1.0,
        "bagging_fraction": 1.0,
        "early_stopping_rounds": 0,
    }
    tables = {"learner": learner, "clustering": {"candidates": [2]}, "routing": {"method": "exact"}}

    with_routes = train(two_kinds(48), config(**tables)).held_out
    without = train(two_kinds(48), config(**{**tables, "learner": {**learner, "blocks": "raw"}})).held_out

    def value(found: HeldOut) -> float:
        judgements = Judgements(found.queries.labels, found.queries.offsets)
        return float(judgements.per_query(found.ranked.global_scores, "ndcg@10").mean())

    assert value(with_routes) > value(without) + 0.05


def test_a_choice_of_blocks_is_a_choice_like_any_other() -> None:
    found = train(
        two_kinds(24),
        config(
            learner={"method": "ranksvm", "C": 1.0, "blocks": ["normalised", "[minmax,zscore*0.25,rank]"]}
        ),
    )

    assert {"blocks = normalised", f"blocks = {WISH}"} == {trial.setting for trial in found.trials}
    assert isinstance(found.learner, RankSvm)
    assert found.learner.blocks == found.built.ranker.global_scorer.settings()["blocks"]


@pytest.mark.parametrize("blocks", [WISH, "[raw, zscore, list]"])
def test_trees_and_lines_are_learned_on_several_blocks(blocks: str) -> None:
    queries = two_kinds(24)
    for learner in (
        RankSvm(C=1.0, blocks=blocks),
        LambdaMart(num_iterations=5, members=1, min_data_in_leaf=2, blocks=blocks),
    ):
        ranker = build(queries, config(), learner).ranker

        assert blocks == ranker.global_scorer.settings()["blocks"]
        for scorer in ranker.scorers:
            assert blocks == scorer.settings()["blocks"]
        assert np.isfinite(ranker.rank(queries.documents_of(0)).scores).all()


def test_vectors_route_and_cluster_as_well() -> None:
    queries = two_kinds(24)
    moved = queries.with_documents(queries.documents + 5 * (queries.query_of % 2)[:, None].astype(np.float32))

    built = build(
        moved,
        config(
            representation={"method": "mean"}, similarity={"method": "euclidean"}, routing={"method": "exact"}
        ),
        RankSvm(),
    )

    assert isinstance(built.ranker.router, ExactRouter)
    assert 1 == len(set(built.clusters[::2].tolist())) == len(set(built.clusters[1::2].tolist()))
    route = built.ranker.rank(moved.documents_of(1)).route
    assert (built.clusters[1], 1.0) == (route.cluster, route.similarity)


def test_queries_may_be_clustered_by_their_relevant_documents_and_routed_by_their_shape() -> None:
    """Both kinds have the same shape in their relevant documents' mean only if labels are looked at."""
    queries = two_kinds(24)

    built = build(queries, config(clustering={"clusters": 2, "representation": "relevant_mean"}), RankSvm())

    labels = built.clusters
    means = [queries.documents_of(query)[queries.labels_of(query) > 0].mean(axis=0)[2] for query in range(24)]
    first, second = (np.mean([means[query] for query in np.flatnonzero(labels == one)]) for one in (0, 1))
    assert abs(first - second) > 0.5
    assert "pca" == built.ranker.representation.method


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"representation": {"method": "mean"}}, r"set \[similarity\] method = 'euclidean'"),
        ({"similarity": {"method": "euclidean"}}, r"set \[similarity\] method = 'pca_cosine'"),
        (
            {"representation": {"method": "mean"}, "similarity": {"method": "euclidean"}},
            r"set \[routing\] method = 'exact' or 'medoid'",
        ),
        (
            {"learner": {"method": "ranksvm", "blocks": "zscores"}},
            "blocks: expected one of .*did you mean 'zscore'",
        ),
    ],
)
def test_steps_that_do_not_fit_together_are_refused(tables: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        TrainingConfig.from_tables(tables).learner.candidates()
