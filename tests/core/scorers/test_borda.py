"""Rank aggregation, against its definitions over pairs and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import zscore

from localrank.errors import ArtifactCorrupt, InvalidDocuments
from localrank.scorers import SCORERS, BordaScorer, LinearScorer
from localrank.scorers.combination import RULES, Rule, ranked_behind
from tests.core.clouds import as_cloud
from tests.core.scorers.stored import again

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector


def columns(count: int) -> tuple[LinearScorer, ...]:
    return tuple(LinearScorer(np.eye(count)[k]) for k in range(count))


def tables(seed: int, n_docs: int, n_members: int) -> tuple[Matrix, Vector]:
    """Columns with many ties, and whole weights so that a member can be written down several times."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n_docs, n_members)).astype(np.float32), rng.integers(1, 4, n_members).astype(
        float
    )


def lists(seed: int) -> tuple[Matrix, Vector]:
    rng = np.random.default_rng(seed)
    return tables(seed, int(rng.integers(1, 9)), int(rng.integers(1, 5)))


def behind(table: Matrix, k: int, x: int) -> float:
    """Qin et al. (2007), section 3.3: #{y | x ranked above y}, and one half for a tie."""
    ahead = sum(1.0 for y in range(len(table)) if table[x, k] > table[y, k])
    return ahead + sum(0.5 for y in range(len(table)) if y != x and table[x, k] == table[y, k])


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_borda_counts_the_documents_ranked_behind(seed: int) -> None:
    table, weights = lists(seed)

    scores = BordaScorer(columns(len(weights)), weights).score(as_cloud(table))

    expected = [
        sum(weights[k] * behind(table, k, x) for k in range(len(weights))) / weights.sum()
        for x in range(len(table))
    ]
    np.testing.assert_allclose(scores, expected, atol=1e-12)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_median_is_that_of_the_members_repeated_by_weight(seed: int) -> None:
    table, weights = lists(seed)

    scores = BordaScorer(columns(len(weights)), weights, "median").score(as_cloud(table))

    medians, borda = [], BordaScorer(columns(len(weights)), weights).score(as_cloud(table))
    for x in range(len(table)):
        ranks = [behind(table, k, x) for k in range(len(weights)) for _ in range(int(weights[k]))]
        medians.append(float(np.median(ranks)))
    expected = sorted(range(len(table)), key=lambda x: (-medians[x], -np.round(borda[x], 9), x))
    actual = sorted(range(len(table)), key=lambda x: (-np.round(scores[x], 9), x))
    assert expected == actual
    assert (np.abs(scores - medians) < 0.25).all()


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_walk_is_stationary(seed: int) -> None:
    """MC4 of Dwork et al. (2001) with restarts, as a transition matrix over documents."""
    table, weights = lists(seed)
    n = len(table)
    transition = np.full((n, n), 0.05 / n)
    for x in range(n):
        for y in range(n):
            for_y = sum(w for k, w in enumerate(weights) if table[y, k] > table[x, k])
            for_x = sum(w for k, w in enumerate(weights) if table[x, k] > table[y, k])
            transition[x, y if for_y > for_x else x] += 0.95 / n

    scores = BordaScorer(columns(len(weights)), weights, "markov").score(as_cloud(table))

    np.testing.assert_allclose(transition.sum(axis=1), 1.0)
    np.testing.assert_allclose(scores @ transition, scores, atol=1e-12)
    np.testing.assert_allclose(scores.sum(), 1.0)


def test_who_beats_everyone_by_majority_wins_the_walk() -> None:
    """The Condorcet winner, document 0, has neither the best Borda count nor the best median."""
    rankings = [[0, 1, 2, 3]] * 3 + [[1, 2, 3, 0]] * 2
    table = np.array([[4.0 - ranking.index(x) for ranking in rankings] for x in range(4)], np.float32)

    assert int(BordaScorer(columns(5), np.ones(5), "markov").score(as_cloud(table)).argmax()) == 0
    assert int(BordaScorer(columns(5), np.ones(5), "borda").score(as_cloud(table)).argmax()) == 1


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_scores_are_averaged_on_one_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = (rng.standard_normal((7, 3)) * [1e-6, 1.0, 1e9] + [0, 5, 0]).astype(np.float32)
    weights = rng.random(3) + 0.1

    scores = BordaScorer(columns(3), weights, "scores").score(as_cloud(table))

    expected = zscore(table.astype(float), axis=0) @ (weights / weights.sum())
    np.testing.assert_allclose(scores, expected, atol=1e-7)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_identical_documents_tie_and_the_order_of_documents_does_not_matter(rule: Rule, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((6, 5)).astype(np.float32)
    doubled = np.concatenate([table, table[[1, 4, 1]]])
    order = rng.permutation(9)
    scorer = BordaScorer(
        tuple(LinearScorer(rng.standard_normal(5)) for _ in range(3)), rng.random(3) + 0.1, rule
    )

    scores = scorer.score(as_cloud(doubled))

    assert scores[1] == scores[6] == scores[8]
    assert scores[4] == scores[7]
    np.testing.assert_allclose(scorer.score(as_cloud(doubled[order])), scores[order], rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_lists_of_no_one_or_only_equal_documents_are_scored(rule: Rule) -> None:
    scorer = BordaScorer(columns(2), np.array([1.0, 3.0]), rule)

    assert scorer.score(as_cloud(np.zeros((0, 2), np.float32))).shape == (0,)
    assert np.isfinite(scorer.score(as_cloud(np.ones((1, 2), np.float32)))).all()
    assert len(set(scorer.score(as_cloud(np.ones((40, 2), np.float32))).tolist())) == 1


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_scores_stay_finite(scale: float) -> None:
    members = (LinearScorer(np.array([scale])), LinearScorer(np.array([-scale / 3])))
    documents = np.array([[1.0], [2.0], [4.0]], np.float32)

    for rule in RULES:
        assert np.isfinite(BordaScorer(members, np.array([2.0, 1.0]), rule).score(as_cloud(documents))).all()
    scores = BordaScorer(members, np.array([2.0, 1.0]), "scores").score(as_cloud(documents))
    assert (np.diff(scores) > 0).all()


def test_a_member_of_weight_zero_has_no_say() -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((8, 3)).astype(np.float32)
    for rule in RULES:
        without = BordaScorer(columns(3)[:2], np.array([1.0, 2.0]), rule).score(as_cloud(table))
        with_it = BordaScorer(columns(3), np.array([1.0, 2.0, 0.0]), rule).score(as_cloud(table))
        np.testing.assert_allclose(with_it, without, atol=1e-12)


def test_a_stored_scorer_comes_back() -> None:
    scorer = BordaScorer(columns(3), np.array([1.0, 2.0, 0.5]), "median")

    read = again(scorer, 3)

    assert SCORERS["borda"] is BordaScorer
    assert isinstance(read, BordaScorer)
    assert read.rule == "median"
    np.testing.assert_array_equal(read.weights, scorer.weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"rule": "mean"}}, "rule: expected one of borda, median, markov, scores, found 'mean'"),
        ({"settings": {"rate": 1}}, r"expected the settings of 'borda' \(rule\), found rule, rate"),
        ({"members": ()}, "expected members of 'borda', found none"),
        ({"arrays": {"x": np.ones(1)}}, r"expected the arrays of 'borda' \(weights\), found weights, x"),
        ({"arrays": {"weights": np.ones(3)}}, r"weights: expected shape \(2\), found \(3,\)"),
        ({"arrays": {"weights": np.ones(2, np.float32)}}, "weights: expected float64, found float32"),
        ({"arrays": {"weights": np.array([1.0, -1.0])}}, r"expected 0 to 1e\+100, found -1\.0 at position 1"),
        ({"arrays": {"weights": np.zeros(2)}}, "weights: expected one positive, found none"),
        (
            {"arrays": {"weights": np.array([1.0, np.nan])}},
            "expected finite numbers, found nan at position 1",
        ),
        ({"arrays": {"weights": np.array([1.0, 1e300])}}, r"expected 0 to 1e\+100, found 1e\+300"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArtifactCorrupt, match=message):
        again(BordaScorer(columns(2), np.ones(2)), 2, **change)


def test_members_take_blocks_of_their_own() -> None:
    documents = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    cloud = as_cloud(documents)
    members = (LinearScorer(np.ones(2), "raw"), LinearScorer(np.array([1.0, -1.0]), "rank"))

    scores = BordaScorer(members, np.ones(2)).score(cloud)

    expected = [ranked_behind(member.score_rows(cloud.block(member.blocks))) for member in members]
    np.testing.assert_allclose(scores, (expected[0] + expected[1]) / 2)


def test_a_walk_takes_a_thousand_documents_that_differ() -> None:
    """A hundred thousand would need 80 GB and hours, and fit into a version of a few kilobytes."""
    table = np.arange(1001, dtype=np.float32)[:, None]
    scorer = BordaScorer(columns(1), np.ones(1), "markov")

    assert 1000 == len(scorer.score(as_cloud(np.repeat(table[:500], 2, axis=0))))
    with pytest.raises(InvalidDocuments, match=r"expected at most 1000 documents, .*, found 1001"):
        scorer.score(as_cloud(table))
