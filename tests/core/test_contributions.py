"""Contributions against brute force: Shapley values over all subsets, explicit paths, and the sums that they must have."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import zscore

from localrank import contributions
from localrank.contributions import Contributions
from localrank.errors import ExplanationRefused
from localrank.features.contract import FeatureContract
from localrank.scorers import BlendScorer, LinearScorer, StumpScorer, SumScorer, TreesScorer
from localrank.scorers.walk import ForestLayout, NumpyWalk, walk_of
from tests.core.clouds import as_cloud
from tests.core.examples import (
    N_FEATURES,
    ROUTER_EXAMPLES,
    SCORER_EXAMPLES,
    example_queries,
    example_ranker,
    sharing_ranker,
)
from tests.core.scorers.test_trees import NAN, definition, documents_of_any_kind, forests

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix, Vector
    from localrank.ranker import Ranker
    from localrank.scorers import Scorer

pytestmark = pytest.mark.usefixtures("arithmetic")

#: Kinds of scorers that are no sums over features, whatever their settings.
NO_SUMS = {"anchored", "anchored_by_similarity"}


def table(seed: int = 0, n_docs: int = 9, width: int = N_FEATURES) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n_docs, width)).astype(np.float32)


def of(scorer: Scorer, documents: Matrix) -> Vector:
    """Return the contributions to all documents of a list that is taken as it is."""
    return scorer.contributions(as_cloud(documents), np.arange(len(documents)))


def shapley(score: Callable[[Matrix], Vector], documents: Matrix, document: int) -> Vector:
    """Sum over all subsets of features; what is not in a subset is drawn from the list."""
    width = documents.shape[1]

    def worth(known: tuple[int, ...]) -> float:
        mixed = documents.copy()
        mixed[:, list(known)] = documents[document, list(known)]
        return float(score(mixed).mean())

    found = np.zeros(width)
    for feature in range(width):
        others = [other for other in range(width) if other != feature]
        for size in range(width):
            weight = math.factorial(size) * math.factorial(width - 1 - size) / math.factorial(width)
            for subset in itertools.combinations(others, size):
                found[feature] += weight * (worth((*subset, feature)) - worth(subset))
    return found


@pytest.mark.parametrize(
    "scorer",
    [
        LinearScorer(np.array([1.0, -2.0, 0.5, 3.0]), "raw"),
        StumpScorer.of(
            np.array([0, 1, 1, 3, 3, 3]),
            np.array([0.0, -0.5, 0.5, -1.0, 0.0, 1.0]),
            np.array([1, 2, -1, 0.5, 3, 1.0]),
            "raw",
        ),
        StumpScorer.of(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), "raw"),
    ],
    ids=["linear", "stumps", "no-stumps"],
)
def test_contributions_of_one_feature_at_a_time_are_shapley_values(
    scorer: LinearScorer | StumpScorer,
) -> None:
    documents = table(width=4)

    found = of(scorer, documents)

    for document in range(len(documents)):
        np.testing.assert_allclose(
            found[document], shapley(scorer.score_rows, documents, document), atol=1e-12
        )


def along_paths(scorer: TreesScorer, documents: Matrix) -> Vector:
    """Follow each document from the root, one tree alone, and note what each split changes of the mean leaf value."""
    found = np.zeros(documents.shape)
    for tree in range(scorer.n_trees):
        splits, leaves = int(scorer.split_begins[tree]), int(scorer.split_begins[tree]) + tree
        # The leaf of each document, found by scoring with a forest whose leaves have their numbers for values.
        numbers = np.full(len(scorer.values), 0.0)
        numbers[leaves : leaves + scorer.splits[tree] + 1] = np.arange(scorer.splits[tree] + 1)
        numbered = TreesScorer(**{**scorer.arrays(), "values": numbers}, blocks="raw")
        leaf = np.array([definition(numbered, row.astype(np.float64)) for row in documents], np.int64)
        value = scorer.values[leaves + leaf]

        def below(node: int, first: int = splits) -> set[int]:
            """Return the leaves below a child."""
            if node < 0:
                return {-1 - node}
            return below(int(scorer.left[first + node])) | below(int(scorer.right[first + node]))

        for document in range(len(documents)):
            node = 0 if scorer.splits[tree] else -1
            while node >= 0:
                here = np.isin(leaf, list(below(node)))
                left, right = int(scorer.left[splits + node]), int(scorer.right[splits + node])
                following = left if int(leaf[document]) in below(left) else right
                there = np.isin(leaf, list(below(following)))
                feature = int(scorer.features[splits + node])
                found[document, feature] += value[there].mean() - value[here].mean()
                node = following
    return found


@settings(max_examples=60, deadline=None)
@given(forests(), documents_of_any_kind)
def test_contributions_of_trees_are_what_each_split_of_a_path_changes(
    scorer: TreesScorer, rows: list[list[float]]
) -> None:
    documents = np.array(rows, np.float32)

    found = []
    for walk in (NumpyWalk(ForestLayout.of(scorer)), walk_of(scorer)):
        gains = walk.gains(documents)
        found.append(walk.contributions(documents, gains))

    assert found[0].tobytes() == found[1].tobytes()
    np.testing.assert_allclose(along_paths(scorer, documents), found[1], atol=1e-9)
    scores = scorer.score_rows(documents)
    np.testing.assert_allclose(scores, scores.mean() + found[1].sum(axis=1), atol=1e-9)


def test_a_feature_that_is_the_same_in_all_documents_adds_exactly_nothing() -> None:
    random = np.random.default_rng(0)
    documents = table()
    documents[:, 2] = 0.1
    for kind in ("linear", "stumps", "trees", "sum", "blend"):
        for _ in range(20):
            found = of(SCORER_EXAMPLES[kind](random), documents)

            np.testing.assert_array_equal(found[:, 2], 0)


def test_columns_of_several_blocks_are_added_up_for_each_feature() -> None:
    documents = table()
    cloud = as_cloud(documents)
    weights = np.random.default_rng(1).standard_normal(2 * N_FEATURES + 1 + N_FEATURES)
    scorer = LinearScorer(weights, "[minmax, list, rank]")

    found = of(scorer, documents)

    minmax, rank = (
        cloud.block(name).astype(float) - cloud.block(name).mean(axis=0, dtype=float)
        for name in ("minmax", "rank")
    )
    expected = minmax * weights[:N_FEATURES] + rank * weights[-N_FEATURES:]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_products_give_half_to_each_of_their_features() -> None:
    documents = table(width=3)
    weights = np.arange(1.0, 7.0)

    found = of(LinearScorer(weights, "quadratic"), documents)

    expected = np.zeros((len(documents), 3))
    pairs = itertools.combinations_with_replacement(range(3), 2)
    for weight, (one, other) in zip(weights, pairs, strict=True):
        product = (documents[:, one] * documents[:, other]).astype(float)
        for feature in (one, other):
            expected[:, feature] += weight * (product - product.mean()) / 2
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_long_lists_are_explained_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = SCORER_EXAMPLES["blend"](np.random.default_rng(0))
    whole = of(scorer, table())

    monkeypatch.setattr(contributions, "_CELLS", 2 * N_FEATURES)

    np.testing.assert_array_equal(whole, of(scorer, table()))


def test_a_blend_shares_out_its_z_scores() -> None:
    documents = table()
    members = (LinearScorer(np.arange(6.0), "raw"), LinearScorer(np.ones(6), "raw"))

    found = of(BlendScorer(members, np.array([2.0, -1.0])), documents)

    for document in range(len(documents)):
        expected = shapley(
            # The list's mean and deviation are those of the list as it is.
            lambda rows: (
                2 * (members[0].score_rows(rows) / members[0].score_rows(documents).std())
                - members[1].score_rows(rows) / members[1].score_rows(documents).std()
            ),
            documents,
            document,
        )
        np.testing.assert_allclose(found[document], expected, atol=1e-9)
    scores = [member.score_rows(documents) for member in members]
    np.testing.assert_allclose(found.sum(axis=1), 2 * zscore(scores[0]) - zscore(scores[1]), atol=1e-9)


def explained(ranker: Ranker, documents: Matrix) -> tuple[Contributions, Vector]:
    cloud = ranker.contract.cloud(documents)
    ranking = ranker.rank(cloud)
    return ranker.contributions(cloud, ranking), ranking.scores


@settings(max_examples=120, deadline=None)
@given(
    strategy=st.sampled_from(sorted(ROUTER_EXAMPLES)),
    kind=st.sampled_from(sorted(SCORER_EXAMPLES)),
    seed=st.integers(0, 10_000),
    n_docs=st.integers(0, 9),
)
def test_with_every_router_every_scorer_adds_up_to_its_score_or_refuses(
    strategy: str, kind: str, seed: int, n_docs: int
) -> None:
    ranker = example_ranker(strategy, kind, seed % 100)
    documents = table(seed, n_docs)

    rules = {one.settings().get("rule", "scores") for one in (*ranker.scorers, ranker.global_scorer)}
    if n_docs and kind in NO_SUMS:
        with pytest.raises(ExplanationRefused, match=rf"a sum over features .*, found {kind}$"):
            explained(ranker, documents)
    if (n_docs and kind in NO_SUMS) or rules != {"scores"}:
        return
    found, scores = explained(ranker, documents)

    assert (n_docs, N_FEATURES) == found.values.shape
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), scores, atol=1e-9)
    assert found.base == pytest.approx(scores.mean() if n_docs else 0)


@pytest.mark.parametrize("rule", ["borda", "median", "markov", "scores"])
def test_borda_is_a_sum_over_features_by_scores_only(rule: str) -> None:
    random = np.random.default_rng(0)
    scorer = next(
        one for one in iter(lambda: SCORER_EXAMPLES["borda"](random), None) if rule == one.settings()["rule"]
    )

    if rule == "scores":
        np.testing.assert_allclose(
            scorer.score(as_cloud(table())), of(scorer, table()).sum(axis=1), atol=1e-9
        )
    else:
        with pytest.raises(ExplanationRefused, match=rf"found borda \({rule}\)"):
            of(scorer, table())


def test_shared_members_and_all_their_parents_add_up() -> None:
    ranker = sharing_ranker()

    for documents in example_queries():
        found, scores = explained(ranker, documents)
        np.testing.assert_allclose(found.base + found.values.sum(axis=1), scores, atol=1e-9)


def test_identical_documents_have_identical_contributions_and_order_does_not_matter() -> None:
    places = np.random.default_rng(0).integers(0, 5, 40)
    scorer = SCORER_EXAMPLES["blend"](np.random.default_rng(0))

    found = of(scorer, table(n_docs=5)[places])

    assert 5 == len({(int(place), *row) for place, row in zip(places, found.tolist(), strict=True)})


def test_only_the_documents_asked_for_are_explained() -> None:
    ranker = example_ranker("exact", "sum")
    cloud = ranker.contract.cloud(table())
    ranking = ranker.rank(cloud)

    some = ranker.contributions(cloud, ranking, np.array([7, 2]))

    np.testing.assert_array_equal(ranker.contributions(cloud, ranking).values[[7, 2]], some.values)


def test_values_that_are_missing_contribute_by_where_their_splits_send_them() -> None:
    scorer = SumScorer((SCORER_EXAMPLES["trees"](np.random.default_rng(2)),))
    contract = FeatureContract.learn(table(), [9], missing="nan", normalise="none")
    documents = table(1)
    documents[::2, :3] = NAN
    cloud = contract.cloud(documents)

    found = scorer.contributions(cloud, np.arange(9))

    scores = scorer.score(cloud)
    np.testing.assert_allclose(scores - scores.mean(), found.sum(axis=1), atol=1e-9)


def test_sums_that_miss_their_scores_are_refused() -> None:
    found = Contributions(0.0, np.arange(3), np.zeros((3, 2)))

    found.check(np.zeros(3))
    with pytest.raises(ExplanationRefused, match="miss the score of document 2 by 3; expected at most 3e-06"):
        found.check(np.array([1.0, 2.0, 3.0]))


def test_why_one_document_is_above_another_is_sorted_and_adds_up() -> None:
    found, scores = explained(example_ranker("exact", "linear"), table())

    reasons = found.between(4, 1)

    amounts = [reason.amount for reason in reasons]
    assert sorted(amounts, key=abs, reverse=True) == amounts
    assert math.isclose(scores[4] - scores[1], sum(amounts), rel_tol=1e-9)
    for reason in reasons:
        assert reason.amount == found.values[4, reason.feature] - found.values[1, reason.feature]
    assert [] == found.between(3, 3)
