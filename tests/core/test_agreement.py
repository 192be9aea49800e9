"""Agreement of rankings: scipy's tau-b, and rank-biased overlap by the sum in its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from localrank.rankings import kendall_tau, overlap, rank_biased_overlap, ranks_of

#: Few different scores, so that there are ties.
scores = st.integers(-3, 3).map(float)


@st.composite
def two_lists(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    count = draw(st.integers(2, 40))
    value = draw(st.sampled_from([scores, st.floats(-1e6, 1e6)]))
    return tuple(draw(st.lists(value, min_size=count, max_size=count)) for _ in range(2))  # type: ignore[return-value]


@given(two_lists())
def test_kendall_tau_is_that_of_scipy(lists: tuple[list[float], list[float]]) -> None:
    first, second = map(np.array, lists)

    expected = kendalltau(first, second, variant="b").statistic

    np.testing.assert_allclose(kendall_tau(first, second), expected, rtol=0, atol=1e-12, equal_nan=True)


def test_kendall_tau_of_a_long_list_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    first = rng.normal(size=5000).round(2)
    second = (first + rng.normal(size=5000)).round(1)

    expected = kendalltau(first, second, variant="b").statistic

    np.testing.assert_allclose(kendall_tau(first, second), expected, rtol=0, atol=1e-12)


def test_kendall_tau_of_the_same_and_of_the_opposite_order_is_exact() -> None:
    values = np.array([0.3, 0.1, 0.1, 7.0])

    assert (1.0, -1.0) == (kendall_tau(values, values), kendall_tau(values, -values))
    assert math.isnan(kendall_tau(values, np.ones(4)))


def direct_overlap(first: list[int], second: list[int], p: float) -> float:
    """Webber et al. (2010), equation 4, term by term on sets, until no further term can matter."""
    total, depth = 0.0, 1
    while p ** (depth - 1) > 1e-15:
        shared = len(set(first[:depth]) & set(second[:depth]))
        # Beyond the end both lists hold the same documents, and whatever may follow is the same too.
        agreement = shared / depth if depth <= len(first) else 1.0
        total += p ** (depth - 1) * agreement
        depth += 1
    return (1 - p) * total


@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
@given(data=st.data())
def test_rank_biased_overlap_is_the_sum_of_its_definition(p: float, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 30))
    first, second = (data.draw(st.permutations(range(count))) for _ in range(2))

    found = rank_biased_overlap(
        ranks_of(np.array(first, np.int64)), ranks_of(np.array(second, np.int64)), persistence=p
    )

    assert direct_overlap(list(first), list(second), p) == pytest.approx(found, abs=1e-12)


def test_a_reader_goes_on_with_a_probability_of_nine_tenths_unless_told_otherwise() -> None:
    first, second = np.array([0, 1, 2]), np.array([2, 1, 0])

    assert direct_overlap([0, 1, 2], [2, 1, 0], 0.9) == pytest.approx(
        rank_biased_overlap(first, second), abs=1e-12
    )


@given(st.data())
def test_the_overlap_is_that_of_sets(data: st.DataObject) -> None:
    count, k = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 25))
    first, second = (data.draw(st.permutations(range(count))) for _ in range(2))

    found = overlap(ranks_of(np.array(first)), ranks_of(np.array(second)), k)

    depth = min(k, count)
    assert len(set(first[:depth]) & set(second[:depth])) / depth == found


def test_rankings_of_no_documents_agree() -> None:
    none = np.zeros(0, np.int64)

    assert (1.0, 1.0, 1.0) == (
        rank_biased_overlap(none, none),
        overlap(none, none, 3),
        overlap(ranks_of(np.arange(2)), none, 0),
    )
    assert math.isnan(kendall_tau(np.zeros(0), np.zeros(0)))
    assert math.isnan(kendall_tau(np.zeros(1), np.zeros(1)))
