"""Every block against its definition, and at the edges: ties, constants, one document, none, missing values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp
from scipy.stats import rankdata

from localrank.errors import InvalidConfiguration, InvalidDocuments
from localrank.features.blocks import BLOCKS, SPECTRUM
from localrank.features.contract import NORMALISATIONS, FeatureContract, Normalisation
from localrank.features.scaling import percentiles
from localrank.routing.route import Route
from localrank.scorers import BlendScorer, LinearScorer, SumScorer

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.features.blocks import Cloud

pytestmark = pytest.mark.usefixtures("arithmetic")

NAN = float("nan")
LARGEST = float(np.finfo(np.float32).max)
WITHOUT_ROUTE = [name for name in BLOCKS if name != "route"]


def contract(
    n_features: int = 3, normalise: Normalisation = "query_minmax", **settings: object
) -> FeatureContract:
    training = np.random.default_rng(9).standard_normal((60, n_features)).astype(np.float32) * 3 + 1
    return FeatureContract.learn(training, [20, 20, 20], normalise=normalise, **settings)  # type: ignore[arg-type]


def documents_of(n_docs: int, n_features: int, seed: int = 0) -> Matrix:
    """Documents with ties in every second feature."""
    random = np.random.default_rng(seed)
    documents = random.standard_normal((n_docs, n_features)) * 10
    documents[:, ::2] = np.round(documents[:, ::2] / 8)
    return documents.astype(np.float32)


@pytest.mark.parametrize("n_docs", [2, 3, 17, 100, 333])
def test_blocks_within_the_list_follow_their_formulas(n_docs: int) -> None:
    documents = documents_of(n_docs, 21)
    cloud = contract(21).cloud(documents)
    x = documents.astype(np.float64)
    low, high = x.min(axis=0), x.max(axis=0)
    spread, deviation = np.where(high > low, high - low, 1), x.std(axis=0)

    np.testing.assert_array_equal(cloud.block("raw"), documents)
    np.testing.assert_allclose(cloud.block("minmax"), (x - low) / spread, atol=1e-6)
    np.testing.assert_allclose(
        cloud.block("zscore"), (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1), atol=2e-5
    )
    np.testing.assert_allclose(
        cloud.block("to_best"), (high - x) / cloud.contract.scale, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("n_docs", [1, 2, 3, 16, 100, 517])
def test_the_rank_is_scipys_mean_of_ranks(n_docs: int) -> None:
    documents = documents_of(n_docs, 35)

    found = contract(35).cloud(documents).block("rank")

    np.testing.assert_allclose(found, (rankdata(documents, axis=0) - 0.5) / n_docs, atol=1e-7)


@pytest.mark.parametrize("normalise", ["none", "query_zscore"])
def test_quadratic_features_are_all_products(normalise: Normalisation) -> None:
    """LocalRank, section 4.3: with the features themselves there are C(d, 2) + 2 d."""
    made = contract(6, normalise)
    cloud = made.cloud(documents_of(9, 6))
    x = cloud.normalised.astype(np.float64)

    found = cloud.rows("[normalised, quadratic]")

    assert 6 * 5 // 2 + 2 * 6 == found.shape[1]
    names = made.columns("[normalised, quadratic]")
    assert len(names) == found.shape[1]
    for i in range(6):
        for j in range(i, 6):
            column = names.index(f"{made.names[i]} * {made.names[j]}")
            np.testing.assert_allclose(x[:, i] * x[:, j], found[:, column], rtol=1e-6)


def test_more_products_than_memory_may_hold_are_refused() -> None:
    cloud = contract(700, "none").cloud(np.zeros((300, 700), np.float32))

    with pytest.raises(InvalidDocuments, match=r"at most 273 documents.*found 300"):
        cloud.block("quadratic")


def test_products_that_float32_cannot_hold_are_cut() -> None:
    documents = np.array([[1e30, 1e30, -1e30], [1e-30, 1e-30, 1e-30]], np.float32)

    found = contract(3, "none").cloud(documents).block("quadratic")

    assert [LARGEST, LARGEST, -LARGEST, LARGEST, -LARGEST, LARGEST] == found[0].tolist()
    assert [0.0] * 6 == found[1].tolist()


floats = st.one_of(
    st.floats(-LARGEST, LARGEST, width=32),
    st.sampled_from([0.0, -0.0, 1.0, LARGEST, -LARGEST, 1e-45, -1e-45]),
)
tables = stnp.arrays(np.float32, stnp.array_shapes(min_dims=2, max_dims=2, max_side=40), elements=floats)


@settings(max_examples=100)
@given(tables)
def test_percentiles_keep_the_order_and_ties_of_every_feature(documents: Matrix) -> None:
    found = percentiles(documents)

    for column, ranks in zip(documents.T.astype(np.float64), found.T.astype(np.float64), strict=True):
        if len(set(ranks.tolist())) > 1:
            np.testing.assert_array_equal(np.sign(ranks[:, None] - ranks), np.sign(column[:, None] - column))
        assert abs(ranks.mean() - 0.5) < 1e-6
        assert 0 < ranks.min()
        assert ranks.max() < 1


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(documents=tables)
@settings(max_examples=30)
def test_every_block_of_any_finite_list_is_finite(normalise: Normalisation, documents: Matrix) -> None:
    cloud = contract(documents.shape[1], normalise).cloud(documents)
    before = documents.copy()

    for name in WITHOUT_ROUTE:
        block = cloud.block(name)

        assert np.isfinite(block).all(), name
        assert (np.float32, len(documents), cloud.contract.widths()[name]) == (
            block.dtype,
            *block.shape,
        )
    np.testing.assert_array_equal(before, documents)


@pytest.mark.parametrize("name", WITHOUT_ROUTE)
def test_identical_documents_have_identical_rows(name: str) -> None:
    documents = documents_of(37, 19)
    places = np.random.default_rng(1).integers(0, 37, 90)

    block = contract(19).cloud(documents[places]).block(name)

    for place in np.unique(places):
        assert 1 == len(np.unique(block[places == place], axis=0))


def test_a_constant_feature_says_nothing_even_if_it_is_rounded() -> None:
    documents = documents_of(30, 2)
    documents[:, 1] = 3e9
    documents[::2, 1] = np.nextafter(np.float32(3e9), np.float32(np.inf))
    cloud = contract(2).cloud(documents)

    for name, value in (("minmax", 0.0), ("zscore", 0.0), ("to_best", 0.0), ("rank", 0.5)):
        np.testing.assert_array_equal(cloud.block(name)[:, 1], value)


def test_one_document_says_nothing_but_its_values() -> None:
    cloud = contract().cloud(np.array([[4, -2, 0.5]], np.float32))

    for name, value in (("minmax", 0.0), ("zscore", 0.0), ("to_best", 0.0), ("rank", 0.5)):
        np.testing.assert_array_equal(cloud.block(name), np.full((1, 3), value))
    np.testing.assert_array_equal(cloud.block("raw"), [[4, -2, 0.5]])
    np.testing.assert_array_equal(cloud.block("list"), np.zeros((1, 4)))


def test_no_documents_have_every_block() -> None:
    cloud = contract().cloud(np.zeros((0, 3), np.float32))
    cloud.routed(Route("exact", None), 2)

    for name in BLOCKS:
        assert (0, cloud.contract.widths(2)[name]) == cloud.block(name).shape
    assert (0, 3 + 3 + 4) == cloud.rows("[raw, rank * 0.5, list]").shape


@pytest.mark.parametrize(("missing", "seen"), [("zero", 0.0), ("nan", NAN), ("median", None)])
def test_a_missing_value_is_imputed_before_any_block(missing: str, seen: float | None) -> None:
    made = contract(1, "query_minmax", missing=missing)
    cloud = made.cloud(np.array([[NAN], [-50.0], [50.0]], np.float32))
    filled = float(made.fill[0])

    np.testing.assert_array_equal(cloud.block("raw")[0], filled if seen is None else seen)
    np.testing.assert_allclose(cloud.block("minmax")[:, 0], [(filled + 50) / 100, 0, 1], rtol=1e-6)
    np.testing.assert_allclose(cloud.block("rank")[:, 0], [0.5, 1 / 6, 5 / 6], rtol=1e-6)
    np.testing.assert_allclose(
        cloud.block("to_best")[:, 0], np.array([50 - filled, 100, 0]) / made.scale[0], rtol=1e-6
    )
    assert {0: 1} == cloud.imputed


def test_the_list_block_holds_its_length_and_the_shares_of_its_directions() -> None:
    documents = documents_of(50, 12)
    cloud = contract(12).cloud(documents)

    block = cloud.block("list")

    covariance = np.cov(cloud.normalised.astype(np.float64), rowvar=False)
    values = np.sort(np.linalg.eigvalsh(covariance))[::-1]
    expected = [np.log(50), *(values[:SPECTRUM] / values.sum())]
    np.testing.assert_allclose(block, np.tile(expected, (50, 1)), rtol=1e-4)


def test_a_list_of_low_rank_has_shares_of_zero_beyond_it() -> None:
    documents = np.outer(np.arange(5.0), np.ones(12)).astype(np.float32)

    block = contract(12).cloud(documents).block("list")

    np.testing.assert_allclose(block[0], [np.log(5), 1.0, *[0.0] * 7], atol=1e-6)


def test_the_route_block_holds_similarity_and_shares() -> None:
    cloud = contract().cloud(documents_of(2, 3))

    cloud.routed(Route("fusion", 1, 0.75, shares=(0.25, 0.5, 0.25)), 3)

    np.testing.assert_array_equal(cloud.block("route"), [[0.75, 0.25, 0.5, 0.25]] * 2)


@pytest.mark.parametrize(("cluster", "expected"), [(2, [0.5, 0, 0, 1]), (None, [0.5, 0, 0, 0])])
def test_one_cluster_alone_has_the_whole_share(cluster: int | None, expected: list[float]) -> None:
    cloud = contract().cloud(documents_of(2, 3))

    cloud.routed(Route("exact", cluster, 0.5), 3)

    np.testing.assert_array_equal(cloud.block("route"), [expected] * 2)


def test_a_query_that_is_not_routed_has_no_route_block() -> None:
    with pytest.raises(InvalidConfiguration, match="'route': expected a query that was routed"):
        contract().cloud(documents_of(2, 3)).block("route")


@pytest.mark.parametrize("normalise", ["query_minmax", "query_zscore"])
def test_the_contracts_scale_is_not_computed_twice(normalise: Normalisation) -> None:
    cloud = contract(3, normalise).cloud(documents_of(9, 3))

    assert cloud.block(normalise.removeprefix("query_")) is cloud.normalised
    assert cloud.block("rank") is cloud.block("rank")


def test_a_wish_puts_blocks_next_to_each_other_and_scales_them() -> None:
    cloud = contract().cloud(documents_of(9, 3))

    rows = cloud.rows("[minmax, zscore * 0.25, rank * 2]")

    np.testing.assert_array_equal(rows[:, :3], cloud.block("minmax"))
    np.testing.assert_array_equal(rows[:, 3:6], cloud.block("zscore") * np.float32(0.25))
    np.testing.assert_array_equal(rows[:, 6:], cloud.block("rank") * 2)
    assert rows.flags.c_contiguous
    assert rows is cloud.rows("[minmax, zscore * 0.25, rank * 2]")
    assert cloud.rows("raw") is cloud.block("raw")


def test_a_scale_leaves_nothing_beyond_float32() -> None:
    cloud = contract(1, "none").cloud(np.array([[LARGEST], [-LARGEST], [1.0]], np.float32))

    np.testing.assert_array_equal(cloud.rows("raw * 1000")[:, 0], [LARGEST, -LARGEST, 1000])


@given(order=st.permutations(WITHOUT_ROUTE))
@settings(max_examples=20)
def test_a_block_does_not_depend_on_what_was_asked_for_before(order: list[str]) -> None:
    made, documents = contract(), documents_of(23, 3)
    cloud = made.cloud(documents)

    for name in order:
        np.testing.assert_array_equal(cloud.block(name), made.cloud(documents).block(name))


def test_columns_have_names_and_are_as_many_as_the_blocks_are_wide() -> None:
    made = contract()

    assert ("f1", "f2", "f3") == made.columns("zscore")
    assert ("f1", "f2", "f3", "rank(f1)", "rank(f2)", "rank(f3)") == made.columns("[raw, rank]")
    for name in BLOCKS:
        assert made.widths(4)[name] == len(made.columns(name, 4))


class Counting(LinearScorer):
    """A linear scorer that counts how often it scores."""

    calls: ClassVar[Counter[int]] = Counter()

    def score(self, cloud: Cloud, /) -> Vector:
        self.calls[id(self)] += 1
        return super().score(cloud)


def test_a_member_of_several_scorers_is_scored_once() -> None:
    shared, own = Counting(np.ones(3)), Counting(np.arange(3.0))
    cloud = contract().cloud(documents_of(9, 3))
    inner = BlendScorer((shared, own), np.array([0.5, 0.5]))

    cloud.scored(SumScorer((shared, inner, own)))
    cloud.scored(shared)

    assert (1, 1) == (Counting.calls[id(shared)], Counting.calls[id(own)])
