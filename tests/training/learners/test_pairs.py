from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from localrank_training.learners.pairs import LabelledPairs, levels_within

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector


@dataclass
class Judged:
    """Some queries with scores, and all of their pairs made."""

    labels: Vector
    offsets: Indices
    weights: Vector
    scores: Vector

    @property
    def queries(self) -> Indices:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def pairs(self) -> tuple[Indices, Indices]:
        """Every (better, worse)."""
        same = self.queries[:, None] == self.queries[None, :]
        better, worse = np.nonzero(same & (self.labels[:, None] > self.labels[None, :]))
        return better, worse

    def active(self) -> tuple[Indices, Indices]:
        better, worse = self.pairs()
        short = self.scores[better] - self.scores[worse] < 1.0
        return better[short], worse[short]


@st.composite
def judged(draw: st.DrawFn) -> Judged:
    """Up to four queries of up to nine documents; labels repeat or do not; scores on a grid that has exact margins."""
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    n_docs = sum(lengths)
    label = st.one_of(st.integers(0, 3).map(float), st.sampled_from([-2.5, 0.1, 0.25, 7.0]))
    labels = draw(st.lists(label, min_size=n_docs, max_size=n_docs))
    score = st.integers(-40, 40).map(lambda number: number / 8)
    scores = draw(st.lists(score, min_size=n_docs, max_size=n_docs))
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n_docs, max_size=n_docs))
    return Judged(
        np.array(labels), np.concatenate([[0], np.cumsum(lengths)]), np.array(weights), np.array(scores)
    )


@given(judged())
def test_levels_are_ranks_among_the_querys_labels(case: Judged) -> None:
    expected = [
        sorted(set(case.labels[case.queries == query])).index(label)
        for query, label in zip(case.queries, case.labels, strict=True)
    ]

    assert expected == levels_within(case.labels, case.offsets).tolist()


@given(judged())
def test_weight_by_query_is_the_sum_over_its_pairs(case: Judged) -> None:
    better, worse = case.pairs()
    expected = np.bincount(
        case.queries[better], case.weights[better] * case.weights[worse], minlength=len(case.offsets) - 1
    )

    found = LabelledPairs.of(case.labels, case.offsets, case.weights).weight_by_query(case.offsets)

    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(judged())
def test_sums_over_active_partners_are_those_of_the_pairs(case: Judged) -> None:
    better, worse = case.active()
    adjacency = np.zeros((len(case.labels), len(case.labels)))
    adjacency[better, worse] = adjacency[worse, better] = 1.0
    lead = np.zeros_like(adjacency)
    lead[better, worse], lead[worse, better] = 1.0, -1.0
    values = np.stack([case.scores**2, np.arange(len(case.labels)) - 3.0], axis=1)

    active = LabelledPairs.of(case.labels, case.offsets, case.weights).at(case.scores)

    np.testing.assert_allclose(active.degree, adjacency @ case.weights, atol=1e-12)
    np.testing.assert_allclose(active.lead, lead @ case.weights, atol=1e-12)
    np.testing.assert_allclose(
        active.partners(values), adjacency @ (case.weights[:, None] * values), atol=1e-9
    )
    products = np.outer(case.weights, case.weights) * adjacency
    laplacian = np.diag(products.sum(axis=1)) - products
    np.testing.assert_allclose(active.laplacian(values), laplacian @ values, atol=1e-9)


@given(judged())
def test_squared_hinge_is_the_sum_over_pairs(case: Judged) -> None:
    better, worse = case.pairs()
    short = np.maximum(0.0, 1.0 - (case.scores[better] - case.scores[worse]))
    products = case.weights[better] * case.weights[worse]
    slope = np.zeros(len(case.labels))
    np.subtract.at(slope, better, 2.0 * products * short)
    np.add.at(slope, worse, 2.0 * products * short)

    active = LabelledPairs.of(case.labels, case.offsets, case.weights).at(case.scores)

    np.testing.assert_allclose(active.squared_hinge(), products @ short**2, atol=1e-9)
    np.testing.assert_allclose(active.slope(), slope, atol=1e-9)


def test_queries_far_apart_in_score_do_not_disturb_each_other() -> None:
    """Every query has an interval of its own on one line; a wide one must not blur its neighbours."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60).astype(np.float64)
    scores = rng.standard_normal(60)
    offsets = np.array([0, 20, 40, 60])
    alone = LabelledPairs.of(labels[:20], offsets[:2], np.ones(20)).at(scores[:20])

    wide = scores.copy()
    wide[20:40] *= 1e6
    together = LabelledPairs.of(labels, offsets, np.ones(60)).at(wide)

    np.testing.assert_allclose(together.degree[:20], alone.degree)
    np.testing.assert_allclose(together.slope()[:20], alone.slope())


def test_the_number_of_passes_is_the_logarithm_of_the_number_of_levels() -> None:
    """No sum over pairs of levels: 1,000 different labels take ten passes over the documents."""
    labels, offsets, weights = np.arange(1000.0), np.array([0, 1000]), np.ones(1000)

    assert 10 == len(LabelledPairs.of(labels, offsets, weights).splits)
    assert 3 == len(LabelledPairs.of(labels // 200, offsets, weights).splits)
