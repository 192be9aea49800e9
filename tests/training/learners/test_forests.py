"""Forests through the learners are those of scikit-learn, called by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from localrank.errors import InvalidData
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.learners.forests import ExtraTrees, Forest, RandomForest
from localrank_training.learners.lesson import Lesson
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged


@pytest.fixture
def queries(judged: Judged) -> QuerySet:
    random = np.random.default_rng(0)
    clouds = [random.standard_normal((int(random.integers(4, 25)), 5)) for _ in range(30)]
    return judged(clouds, [np.clip(np.round(cloud[:, 0] + 1), 0, 3) for cloud in clouds])


KINDS = pytest.mark.parametrize(
    ("kind", "by_hand"), [(ExtraTrees, ExtraTreesRegressor), (RandomForest, RandomForestRegressor)]
)


@KINDS
@pytest.mark.parametrize("bootstrap", [False, True])
def test_it_is_scikit_learns_regression_on_gains(
    kind: type[Forest], by_hand: Any, queries: QuerySet, *, bootstrap: bool
) -> None:
    scorer = kind(
        trees=20, min_samples_leaf=3, max_features=0.5, max_depth=6, seed=4, bootstrap=bootstrap
    ).fit(Lesson(queries))

    forest = by_hand(
        n_estimators=20,
        min_samples_leaf=3,
        max_features=0.5,
        max_depth=6,
        random_state=4,
        bootstrap=bootstrap,
    ).fit(queries.documents, 2**queries.labels - 1)
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), forest.predict(queries.documents), rtol=1e-12
    )


@KINDS
def test_labels_themselves_may_be_learned(kind: type[Forest], by_hand: Any, queries: QuerySet) -> None:
    learner = kind(trees=5, min_samples_leaf=1, max_features=1.0, bootstrap=False, gain="label")

    scorer = learner.fit(Lesson(queries))

    forest = by_hand(n_estimators=5, random_state=0, bootstrap=False).fit(queries.documents, queries.labels)
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), forest.predict(queries.documents), rtol=1e-12
    )


@KINDS
def test_a_tree_sees_no_more_documents_than_it_may(
    kind: type[Forest], by_hand: Any, queries: QuerySet
) -> None:
    learner = kind(trees=5, min_samples_leaf=1, max_features=1.0, max_samples=50)

    scorer = learner.fit(Lesson(queries))

    forest = by_hand(n_estimators=5, random_state=0, bootstrap=True, max_samples=50)
    forest.fit(queries.documents, 2**queries.labels - 1)
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), forest.predict(queries.documents), rtol=1e-12
    )
    assert scorer.splits.max() < 50


def test_a_forest_draws_and_extra_trees_see_everything() -> None:
    assert RandomForest().bootstrap
    assert not ExtraTrees().bootstrap


@pytest.mark.parametrize("kind", [ExtraTrees, RandomForest])
def test_the_trees_do_not_depend_on_the_threads(kind: type[Forest], queries: QuerySet) -> None:
    first, second = (kind(trees=10, num_threads=threads).fit(Lesson(queries)) for threads in (1, 2))

    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[name])


def test_queries_count_by_their_weight(queries: QuerySet) -> None:
    learner = ExtraTrees(trees=10)
    weights = np.linspace(0.5, 2, len(queries))
    weights[20:] = 0.0

    scorer = learner.fit(Lesson(queries, weights=weights))

    some = queries.select(range(20))
    forest = ExtraTreesRegressor(
        n_estimators=10,
        min_samples_leaf=learner.min_samples_leaf,
        max_features=learner.max_features,
        random_state=0,
    ).fit(some.documents, 2**some.labels - 1, sample_weight=weights[some.query_of])
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), forest.predict(queries.documents), rtol=1e-12
    )


def test_missing_values_are_learned_from(queries: QuerySet) -> None:
    documents = queries.documents.copy()
    documents[queries.labels >= 2, 0] = np.nan

    scores = (
        ExtraTrees(trees=30, max_features=1.0)
        .fit(Lesson(queries.with_documents(documents)))
        .score_rows(documents)
    )

    assert scores[queries.labels >= 2].mean() > scores[queries.labels < 2].max()


@pytest.mark.parametrize(
    ("label", "message"),
    [(-1.0, "expected labels of at least 0, found -1"), (np.nan, "expected a finite label")],
)
def test_a_label_that_has_no_gain_is_refused(label: float, message: str, queries: QuerySet) -> None:
    labels = queries.labels.copy()
    labels[0] = label

    with pytest.raises(InvalidData, match=f"extra_trees: query '0': {message}"):
        ExtraTrees().fit(Lesson(replace(queries, labels=labels)))


def test_queries_that_no_tree_can_split_are_refused(queries: QuerySet) -> None:
    differing = [q for q in range(len(queries)) if len(set(queries.labels_of(q))) > 1]
    shortest = min(differing, key=lambda q: len(queries.labels_of(q)))

    with pytest.raises(
        InvalidData, match=r"extra_trees: expected documents that a tree can split.*min_samples_leaf 9"
    ):
        ExtraTrees(min_samples_leaf=9, trees=3).fit(Lesson(queries.select([shortest])))


def test_constant_features_are_refused(queries: QuerySet) -> None:
    with pytest.raises(InvalidData, match="expected two documents of one query with different features"):
        ExtraTrees().fit(Lesson(queries.with_documents(np.ones_like(queries.documents))))


@KINDS
def test_documents_are_drawn_only_if_there_are_more_than_a_tree_may_see(
    kind: type[Forest], by_hand: Any, queries: QuerySet
) -> None:
    learner = kind(trees=5, min_samples_leaf=1, max_features=1.0, bootstrap=False)

    exactly = replace(learner, max_samples=queries.n_docs).fit(Lesson(queries))
    fewer = replace(learner, max_samples=queries.n_docs - 1).fit(Lesson(queries))

    gains = 2**queries.labels - 1
    whole = by_hand(n_estimators=5, random_state=0, bootstrap=False).fit(queries.documents, gains)
    drawn = by_hand(n_estimators=5, random_state=0, bootstrap=True, max_samples=queries.n_docs - 1)
    for scorer, forest in ((exactly, whole), (fewer, drawn.fit(queries.documents, gains))):
        np.testing.assert_allclose(
            scorer.score_rows(queries.documents), forest.predict(queries.documents), rtol=1e-12
        )


@pytest.mark.parametrize("method", ["extra_trees", "random_forest"])
def test_the_settings_are_those_that_the_page_lists(method: str) -> None:
    assert listed(method) == declared(method)
    assert LEARNERS[method].continues is False
