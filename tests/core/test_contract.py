from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from localrank.errors import InvalidDocuments
from localrank.features.contract import (
    NORMALISATIONS,
    QUANTILES,
    FeatureContract,
    Normalisation,
    merged_quantiles,
)

if TYPE_CHECKING:
    from localrank.features.feature import Missing

pytestmark = pytest.mark.usefixtures("arithmetic")

NAN = float("nan")

float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)


def learned(
    normalise: Normalisation = "none", missing: Missing = "reject", constant: float = 0.0
) -> FeatureContract:
    documents = np.array([[0, 10, 5], [1, 20, 5], [2, 60, 5], [3, 30, 5]], np.float32)
    return FeatureContract.learn(
        documents, [2, 2], names=["a", "b", "c"], missing=missing, constant=constant, normalise=normalise
    )


def test_it_learns_ranges_quantiles_and_list_lengths() -> None:
    contract = learned()

    assert ("a", "b", "c") == contract.names
    np.testing.assert_array_equal([0, 10, 5], contract.quantiles[0])
    np.testing.assert_array_equal([1.5, 25, 5], contract.quantiles[QUANTILES.index(0.5)])
    np.testing.assert_array_equal([3, 60, 5], contract.quantiles[-1])
    assert (2.0,) * len(QUANTILES) == contract.list_lengths


def test_features_without_names_are_numbered_from_one() -> None:
    assert ("f1", "f2") == FeatureContract.learn(np.zeros((3, 2), np.float32), [3]).names


@pytest.mark.parametrize(
    ("missing", "filled"), [("zero", 0.0), ("constant", -7.0), ("median", 25.0), ("nan", 25.0)]
)
def test_a_missing_value_becomes_what_the_policy_says(missing: Missing, filled: float) -> None:
    contract = learned(missing=missing, constant=-7.0)

    cloud = contract.cloud(np.array([[0, NAN, 5], [1, 20, 5]], np.float32))

    np.testing.assert_array_equal([[0, filled, 5], [1, 20, 5]], cloud.normalised)
    np.testing.assert_array_equal(
        [[0, NAN if missing == "nan" else filled, 5], [1, 20, 5]], cloud.block("raw")
    )
    assert {1: 1} == cloud.imputed


def test_the_policy_reject_names_document_and_feature() -> None:
    with pytest.raises(InvalidDocuments, match=r"feature 'b' of document 1 is missing") as caught:
        learned().cloud(np.array([[0, 1, 5], [1, NAN, 5]], np.float32))

    assert (1, 1) == (caught.value.document, caught.value.feature)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("missing", ["reject", "median"])
def test_an_infinite_value_is_refused_whatever_the_policy(value: float, missing: Missing) -> None:
    with pytest.raises(InvalidDocuments, match=r"feature 'c' of document 0 is infinite") as caught:
        learned(missing=missing).cloud(np.array([[0, 1, value], [1, NAN, 5]], np.float32))

    assert (0, 2) == (caught.value.document, caught.value.feature)


@pytest.mark.parametrize(("shape", "found"), [((2, 2), "2"), ((2, 4), "4"), ((3,), r"shape \(3,\)")])
def test_another_number_of_features_is_refused(shape: tuple[int, ...], found: str) -> None:
    with pytest.raises(InvalidDocuments, match=f"expected 3 features per document, found {found}"):
        learned().cloud(np.zeros(shape, np.float32))


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.bool_])
def test_other_numbers_are_taken_as_float32(normalise: Normalisation, dtype: type[np.generic]) -> None:
    documents = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype)

    cloud = learned(normalise).cloud(documents)

    expected = learned(normalise).cloud(documents.astype(np.float32))
    np.testing.assert_array_equal(expected.normalised, cloud.normalised)
    np.testing.assert_array_equal(expected.raw, cloud.raw)


def test_documents_of_another_width_have_no_range() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        learned().out_of_range(np.zeros((2, 5), np.float32))


def test_query_minmax_is_scikit_learns() -> None:
    documents = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    documents[:, 2] = 4.0

    cloud = learned("query_minmax").cloud(documents)

    np.testing.assert_allclose(MinMaxScaler().fit_transform(documents), cloud.normalised, atol=1e-6)
    assert documents is cloud.raw


def test_query_zscore_is_scikit_learns() -> None:
    documents = np.random.default_rng(0).normal(3, 2, size=(20, 3)).astype(np.float32)
    documents[:, 2] = 0.1

    cloud = learned("query_zscore").cloud(documents)

    np.testing.assert_allclose(
        StandardScaler().fit_transform(documents.astype(np.float64)), cloud.normalised, atol=1e-5
    )
    np.testing.assert_array_equal(np.zeros(20), cloud.normalised[:, 2])


def test_global_zscore_uses_what_training_saw() -> None:
    training = np.random.default_rng(0).normal(3, 2, size=(50, 3)).astype(np.float32)
    contract = FeatureContract.learn(training, [50], normalise="global_zscore")
    documents = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)

    cloud = contract.cloud(documents)

    expected = StandardScaler().fit(training.astype(np.float64)).transform(documents.astype(np.float64))
    np.testing.assert_allclose(expected, cloud.normalised, rtol=1e-4, atol=1e-6)


def test_column_norm_gives_every_training_column_the_same_length() -> None:
    training = np.random.default_rng(0).normal(3, [0.1, 2, 700], size=(50, 3)).astype(np.float32)
    contract = FeatureContract.learn(training, [50], normalise="column_norm")

    cloud = contract.cloud(training)

    expected = Normalizer().fit_transform(training.T.astype(np.float64)).T * np.sqrt(50)
    np.testing.assert_allclose(expected, cloud.normalised, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(cloud.normalised, axis=0), np.sqrt(50), rtol=1e-6)


def test_column_norm_of_a_column_of_zeros_is_zero() -> None:
    contract = FeatureContract.learn(np.zeros((4, 2), np.float32), [4], normalise="column_norm")

    np.testing.assert_array_equal(np.zeros((4, 2)), contract.cloud(np.zeros((4, 2), np.float32)).normalised)


@given(
    documents=arrays(np.float32, st.tuples(st.integers(0, 6), st.just(3)), elements=float32s),
    normalise=st.sampled_from(NORMALISATIONS),
)
def test_the_normalised_view_is_finite_for_every_finite_input(
    documents: np.ndarray[tuple[int, int], np.dtype[np.float32]], normalise: Normalisation
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cloud = learned(normalise).cloud(documents)

    assert np.float32 == cloud.normalised.dtype
    assert documents.shape == cloud.normalised.shape
    assert np.isfinite(cloud.normalised).all()


@given(
    documents=arrays(np.float32, (5, 3), elements=st.floats(-1e3, 1e3, width=32)),
    order=st.permutations(range(5)),
    normalise=st.sampled_from(NORMALISATIONS),
)
def test_a_document_is_normalised_the_same_wherever_it_stands(
    documents: np.ndarray[tuple[int, int], np.dtype[np.float32]], order: list[int], normalise: Normalisation
) -> None:
    contract = learned(normalise)

    np.testing.assert_allclose(
        contract.cloud(documents).normalised[order],
        contract.cloud(documents[order]).normalised,
        rtol=1e-5,
        atol=1e-5,
    )


def test_values_outside_the_training_range_are_counted() -> None:
    assert 2 == learned().out_of_range(np.array([[-1, 10, 5], [3, 61, 5]], np.float32))


def test_a_feature_never_seen_has_zero_as_median() -> None:
    documents = np.array([[1, NAN], [2, NAN]], np.float32)

    contract = FeatureContract.learn(documents, [2], missing="median", normalise="query_minmax")

    np.testing.assert_array_equal([1.5, 0.0], contract.fill)


def test_writing_and_reading_it_back_is_the_identity() -> None:
    documents = np.random.default_rng(0).lognormal(0, 9, size=(50, 3)).astype(np.float32)
    contract = FeatureContract.learn(documents, [10, 40], missing="median", normalise="global_zscore")

    again = FeatureContract.from_json(json.loads(json.dumps(contract.to_json())))

    assert contract.digest == again.digest
    for name in ("fill", "shift", "scale", "quantiles"):
        np.testing.assert_array_equal(getattr(contract, name), getattr(again, name))


def test_the_digest_changes_with_every_part() -> None:
    members = learned("global_zscore", "constant").to_json()
    changes = {
        "names": ["a", "b", "d"],
        "missing": ["constant", "constant", "zero"],
        "fill": [0.0, 0.0, 1.0],
        "normalise": "none",
        "shift": [0.0, 0.0, 1.0],
        "scale": [1.0, 1.0, 2.0],
        "quantiles": {str(q): [q, q, q] for q in QUANTILES},
        "list_lengths": dict.fromkeys(map(str, QUANTILES), 3.0),
    }

    digests = {FeatureContract.from_json({**members, name: value}).digest for name, value in changes.items()}

    assert len(changes) == len(digests - {FeatureContract.from_json(members).digest})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dtype": "float64"}, "dtype is not float32"),
        ({"names": ["a", "a", "b"]}, "two features have the same name"),
        ({"names": ["a", 1, "b"]}, "the name or the policy of a feature is not a text"),
        ({"missing": ["zero", "zero"]}, "missing does not have one policy per feature"),
        ({"missing": ["zero", "zero", "mean"]}, "missing does not have one policy per feature"),
        ({"normalise": "l2"}, "normalise is not one of"),
        ({"fill": [0.0]}, "fill, shift or scale has another length"),
        ({"shift": [0.0, NAN, 0.0]}, "a number is not finite"),
        ({"scale": [1.0, 0.0, 1.0]}, "a scale is not positive"),
        ({"scale": [1.0, 1.0]}, "fill, shift or scale has another length"),
        ({"shift": [1.0] * 4}, "fill, shift or scale has another length"),
        ({"names": [], "missing": []}, "there are none"),
        ({"missing": ["zero", "zero", 1]}, "the name or the policy of a feature is not a text"),
        ({"normalise": 1}, "the name or the policy of a feature is not a text"),
        ({"quantiles": {str(q): [0.0, 0.0] for q in QUANTILES}}, "quantiles have another shape"),
        ({"quantiles": {str(q): [0.0, 0.0, 1e39] for q in QUANTILES}}, "a number is not finite"),
        ({"quantiles": {}}, "cannot be read"),
        ({"names": 3}, "cannot be read"),
    ],
)
def test_a_contract_that_is_none_is_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FeatureContract.from_json({**learned().to_json(), **change})


def test_a_constant_is_zero_unless_it_is_given() -> None:
    learned_from = np.array([[1.0], [2.0]], np.float32)

    assert [0.0] == FeatureContract.learn(learned_from, [2], missing="constant").fill.tolist()


def test_every_feature_may_have_a_policy_of_its_own() -> None:
    contract = FeatureContract.learn(
        np.array([[1, 1, 1], [5, 5, 5]], np.float32), [2], missing=["zero", "median", "reject"]
    )

    cloud = contract.cloud(np.array([[NAN, NAN, 1], [NAN, 1, 1]], np.float32))

    np.testing.assert_array_equal([[0, 3, 1], [0, 1, 1]], cloud.raw)
    assert {0: 2, 1: 1} == cloud.imputed


def test_the_columns_of_every_block_have_their_names() -> None:
    assert ("log(documents)", "spectrum(1)", "spectrum(2)", "spectrum(3)") == learned().columns("list")
    assert ("similarity", "share(0)", "share(1)") == learned().columns("route", 2)
    assert ("a * a", "a * b", "a * c", "b * b", "b * c", "c * c") == learned().columns("quadratic")
    wide = FeatureContract.learn(np.zeros((2, 12), np.float32), [2])
    assert (9, 78, 12) == tuple(wide.widths()[name] for name in ("list", "quadratic", "rank"))


def test_no_new_values_leave_quantiles_as_they_are() -> None:
    before = np.arange(len(QUANTILES), dtype=np.float64)

    np.testing.assert_array_equal(before, merged_quantiles(before, 10, np.zeros(0)))


@pytest.mark.parametrize("normalise", ["query_minmax", "query_zscore"])
@pytest.mark.parametrize("value", [0.1, -7.0, 3e9, 1e-30])
def test_a_column_that_is_constant_but_for_rounding_becomes_zeros(
    normalise: Normalisation, value: float
) -> None:
    random = np.random.default_rng(0)
    documents = random.random((30, 2)).astype(np.float32)
    documents[:, 1] = value
    documents[::2, 1] = np.nextafter(np.float32(value), np.float32(np.inf))
    contract = FeatureContract.learn(documents, [30], normalise=normalise)

    normalised = contract.cloud(documents).normalised

    np.testing.assert_array_equal(normalised[:, 1], 0)
    assert np.ptp(normalised[:, 0]) >= 1


def test_merged_quantiles_are_those_of_old_and_new_values_together() -> None:
    """The old values are laid out along the line between their quantiles, and all of them are counted."""
    random = np.random.default_rng(0)
    for draw in range(20):
        before = np.sort(np.round(random.normal(size=len(QUANTILES)), draw % 4))
        new = np.round(random.normal(loc=1.0, size=random.integers(1, 400)), draw % 4)
        old = np.interp((np.arange(40_000) + 0.5) / 40_000, QUANTILES, before)

        found = merged_quantiles(before, 700, new)

        weights = np.concatenate([np.full(len(old), 700 / len(old)), np.ones(len(new))])
        values = np.concatenate([old, new])
        order = np.argsort(values, kind="stable")
        reached = np.cumsum(weights[order]) / weights.sum()
        expected = values[order][np.minimum(np.searchsorted(reached, QUANTILES), len(values) - 1)]
        expected[0], expected[-1] = min(before[0], new.min()), max(before[-1], new.max())
        np.testing.assert_allclose(found, expected, atol=2e-3)
        assert (np.diff(found) >= 0).all()


def test_more_documents_widen_the_ranges_and_change_no_block() -> None:
    random = np.random.default_rng(1)
    old, new = random.normal(size=(60, 3)).astype(np.float32), random.normal(size=(40, 3)).astype(np.float32)
    new[:, 1] += 9
    new[3, 2] = np.nan
    contract = FeatureContract.learn(old, [30, 30], missing="median", normalise="global_zscore")

    grown = contract.grown(new, [40], 60, 2)

    both = np.concatenate([old, new])
    np.testing.assert_array_equal(np.nanmin(both, axis=0), grown.quantiles[0])
    np.testing.assert_array_equal(np.nanmax(both, axis=0), grown.quantiles[-1])
    assert (30.0, 40.0) == (grown.list_lengths[0], grown.list_lengths[-1])
    assert contract.out_of_range(old) == grown.out_of_range(np.nan_to_num(new)) == 0
    for block in ("raw", "normalised", "to_best"):
        np.testing.assert_array_equal(contract.cloud(new).rows(block), grown.cloud(new).rows(block))


@pytest.mark.parametrize(
    ("blocks", "columns"),
    [
        ("rank", ("a", "b", "c")),
        ("raw", ("a", "b", "c")),
        ("[raw, rank]", ("a", "b", "c", "rank(a)", "rank(b)", "rank(c)")),
        ("[rank, zscore * 2]", ("rank(a)", "rank(b)", "rank(c)", "zscore(a)", "zscore(b)", "zscore(c)")),
        ("[route, raw]", ("similarity", "a", "b", "c")),
    ],
)
def test_columns_are_called_after_their_block_if_there_are_several(
    blocks: str, columns: tuple[str, ...]
) -> None:
    assert columns == learned().columns(blocks)


def test_how_far_documents_lie_outside_is_in_units_of_the_bulk() -> None:
    """The bulk of 0 to 100 is 1 to 99; a feature that never varies has its deviation, 1, as its unit."""
    training = np.stack([np.arange(101), np.full(101, 7)], axis=1).astype(np.float32)
    contract = FeatureContract.learn(training, [101])

    for documents, expected in (
        ([[1, 7], [99, 7]], 0.0),
        ([[99 + 49, 7]], 0.5 / 2),
        ([[1 - 24.5, 7]], 0.25 / 2),
        ([[50, 7.25], [50, 6.5]], (0.25 + 0.5) / 4),
        # Each value counts 1 at most.
        ([[1e6, 1e6], [50, 7]], 2 / 4),
    ):
        assert expected == pytest.approx(contract.outside(np.array(documents, np.float32)))
    assert 0.0 == contract.outside(np.zeros((0, 2), np.float32))


def test_the_blocks_are_as_wide_as_their_definitions_say() -> None:
    three = {"raw": 3, "normalised": 3, "minmax": 3, "zscore": 3, "rank": 3, "to_best": 3}

    assert learned().widths() == {"list": 4, "route": 1, "quadratic": 6, **three}
    assert learned().widths(5)["route"] == 6
