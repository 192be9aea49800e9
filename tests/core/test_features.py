"""Features that are categories: spelling, codes, and what the contract makes of them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from localrank.errors import InvalidDocuments
from localrank.features.contract import Encoding, FeatureContract
from localrank.features.feature import Feature, spelled

BRAND = Feature("brand", "category", ("nike", "kobo", "7"))
SEGMENT = Feature("segment", "category", ("mobile", "desk"), "query")
PRICE = Feature("price")
#: Codes of the brand, the segment, and prices.
DOCUMENTS = np.array([[0, 1, 5.0], [2, 1, 7.0], [3, 1, 1.0], [np.nan, 1, 2.0]], np.float32)
OF_BRAND, OF_BOTH = np.array([0.5, -0.25, 0.125, 0.0, 2.0]), np.arange(20.0).reshape(5, 4)


@pytest.fixture
def contract() -> FeatureContract:
    return FeatureContract.learn(
        DOCUMENTS,
        [4],
        features=(BRAND, SEGMENT, PRICE),
        normalise="none",
        encodings=(Encoding(0, None, OF_BRAND), Encoding(0, 1, OF_BOTH)),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("nike", "nike"),
        ("", None),
        (None, None),
        (float("nan"), None),
        (pd.NaT, None),
        (True, "true"),
        (np.False_, "false"),
        (42, "42"),
        (np.int8(-3), "-3"),
        (42.0, "42"),
        (0.1, "0.1"),
        (np.float32(0.1), "0.1"),
        (Decimal("2.50"), "2.5"),
        (1e300, "1e+300"),
        ("17.0", "17"),
        ("-3", "-3"),
        ("-0.0", "0"),
        ("2.50", "2.5"),
        ("1.7e+01", "17"),
        ("1e-7", "1e-07"),
        ("9007199254740993.0", "9007199254740993.0"),
        ("1e999", "1e999"),
        *(
            (text, text)
            for text in ("007", "+1", ".5", "1.", "1_0", " 1", "1,5", "-", "nan", "inf", "\u0661", "1\n")
        ),
        ("True", "true"),
        ("TRUE", "true"),
        ("False", "false"),
        ("FALSE", "false"),
        ("tRUE", "tRUE"),
        ("cafe\u0301", "caf\u00e9"),
        ("caf\u00e9", "caf\u00e9"),
        ("\u1112\u1161\u11ab", "\ud55c"),
        ("\u2460", "\u2460"),
    ],
)
def test_a_value_has_one_spelling(value: Any, text: str | None) -> None:
    assert text == spelled(value)


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a text, a number or a truth value, found a list"):
        spelled([1])


def test_a_letter_in_two_parts_has_the_code_of_the_whole_one() -> None:
    brand = Feature("brand", "category", ("caf\u00e9", "nike"))

    assert [0.0, 0.0, 1.0, 2.0] == brand.codes_of(["cafe\u0301", "caf\u00e9", "nike", "cafe"])


@pytest.mark.parametrize("n_docs", [4, 300_000])
def test_figures_of_encodings_are_those_of_a_table_that_holds_them(n_docs: int) -> None:
    """The second table is too large to be sorted at once."""
    rng = np.random.default_rng(0)
    prices = rng.normal(size=(n_docs, 12)).astype(np.float32)
    brand, segment = (
        rng.integers(0, 5, n_docs).astype(np.float32),
        rng.integers(0, 4, n_docs).astype(np.float32),
    )
    held = np.where(brand == 4, np.nan, brand)  # 4 stands for no value
    documents = np.column_stack([held, segment, prices])
    names = [f"p{number}" for number in range(12)]

    found = FeatureContract.learn(
        documents,
        [n_docs],
        features=(BRAND, SEGMENT, *map(Feature, names)),
        encodings=(Encoding(0, None, OF_BRAND), Encoding(0, 1, OF_BOTH)),
    )

    codes = brand.astype(int), segment.astype(int)
    table = np.column_stack([OF_BRAND[codes[0]], np.zeros(n_docs), prices, OF_BOTH[codes]]).astype(np.float32)
    expected = FeatureContract.learn(table, [n_docs])
    for one, other in (
        (found.shift, expected.shift),
        (found.scale, expected.scale),
        (found.quantiles, expected.quantiles),
    ):
        np.testing.assert_array_equal(other, one)


def test_codes_are_positions_and_two_more() -> None:
    assert [0, 1, 2, 3] == [BRAND.code_of(value) for value in ("nike", "kobo", 7, "other")]
    assert [2, 2, 2, 3, 0] == BRAND.codes_of(["7", "7.0", 7.0, "007", "nike"])
    assert np.isnan(BRAND.code_of(None))
    assert ["nike", "7", None, None] == [BRAND.value_of(code) for code in (0.0, 2.0, 4.0, np.nan)]
    assert "did not know" in str(BRAND.value_of(3.0))


def test_raw_has_codes_and_other_blocks_encodings(contract: FeatureContract) -> None:
    cloud = contract.cloud(DOCUMENTS)

    np.testing.assert_array_equal([[0, 1, 5], [2, 1, 7], [3, 1, 1], [4, 1, 2]], cloud.raw)
    # The feature of the query is the same for all, so that it is nothing here.
    np.testing.assert_array_equal(
        [[0.5, 0, 5, 1], [0.125, 0, 7, 9], [0, 0, 1, 13], [2, 0, 2, 17]], cloud.normalised
    )
    assert {0: 1} == cloud.imputed
    assert ("brand", "segment", "price", "brand by segment") == contract.columns("normalised")
    assert 3 + 4 == len(contract.columns("[raw, zscore]")) == cloud.rows("[raw, zscore]").shape[1]
    assert [4 / 6, 1, 0, 1 / 6] == pytest.approx(cloud.block("minmax")[:, 2].tolist())
    assert (0, 4, contract.n_columns) == (len(contract.cloud(DOCUMENTS[:0])), 4, 4)


def test_it_reads_back_from_json_and_says_only_what_is_special(contract: FeatureContract) -> None:
    members = json.loads(json.dumps(contract.to_json()))

    again = FeatureContract.from_json(members)

    assert members == again.to_json()
    assert contract.features == again.features
    np.testing.assert_array_equal(contract.cloud(DOCUMENTS).normalised, again.cloud(DOCUMENTS).normalised)
    plain = FeatureContract.learn(DOCUMENTS, [4], missing="zero").to_json()
    assert not {"categories", "of_query", "monotone", "encodings"} & plain.keys()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"categories": {"brand": ["a", "a", "b"], "segment": ["c", "d"]}}, "two values of a category"),
        ({"categories": {"brand": ["a", 1, "b"], "segment": ["c", "d"]}}, "a value of a category"),
        ({"categories": ["brand"]}, "cannot be read"),
        ({"encodings": []}, "encodings are not one per category"),
        ({"encodings": [{"feature": "price", "numbers": [1.0]}]}, "encodings are not one per category"),
        ({"encodings": [{"feature": "colour", "numbers": [1.0]}]}, "cannot be read"),
        ({"monotone": {"price": 2}}, "monotone is not -1 or 1"),
        ({"missing": ["zero", "constant", "reject"]}, "an absent value of a category"),
        ({"fill": [9.0, 3.0, 0.0]}, "an absent value of a category"),
    ],
)
def test_a_contract_whose_categories_are_broken_is_refused(
    contract: FeatureContract, change: dict[str, Any], what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        FeatureContract.from_json(contract.to_json() | change)


@pytest.mark.parametrize("code", [-1.0, 0.5, 4.0, 99.0])
def test_a_number_that_is_no_code_is_refused_by_the_name_of_its_feature(
    contract: FeatureContract, code: float
) -> None:
    documents = DOCUMENTS.copy()
    documents[1, 0] = code
    with pytest.raises(
        InvalidDocuments, match=f"'brand' of document 1: expected the code .* 0 to 3, found {code:g}"
    ):
        contract.cloud(documents)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_and_lists_hold_values(contract: FeatureContract, make: Any) -> None:
    frame = make(
        {"price": [5.0, 7.0, 1.0, 2.0], "segment": ["desk"] * 4, "brand": ["nike", "7", "new", None]}
    )

    np.testing.assert_array_equal(contract.cloud(DOCUMENTS).raw, contract.cloud(frame).raw)

    rows = [["nike", "desk", 5], [7, "desk", 7.0], ["new", "desk", 1], [None, "desk", 2]]
    for listed in (rows, np.array(rows, object)):
        np.testing.assert_array_equal(contract.cloud(DOCUMENTS).raw, contract.cloud(listed).raw)
    with pytest.raises(InvalidDocuments, match=r"the column 2: found text|expected numbers in the column 2"):
        contract.cloud([["nike", "desk", "cheap"]])
    with pytest.raises(InvalidDocuments, match="found different lengths"):
        contract.cloud([["nike", "desk", 1], ["nike", "desk"]])
    with pytest.raises(InvalidDocuments, match=r"the column 0: expected a text, .* found a list"):
        contract.cloud([[[], "desk", 1]])


def test_a_value_that_training_did_not_know_is_out_of_range(contract: FeatureContract) -> None:
    assert 1 == contract.out_of_range(DOCUMENTS)
    assert contract.grown(DOCUMENTS, [4], 4, 1).quantiles.shape == contract.quantiles.shape


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, None])
def test_documents_may_leave_the_features_of_the_query_out(contract: FeatureContract, make: Any) -> None:
    columns: dict[str, list[Any]] = {"price": [5.0, 7.0, 1.0, 2.0], "brand": ["nike", "7", "new", None]}
    rows = list(map(list, zip(columns["brand"], columns["price"], strict=True)))
    expected = contract.cloud(DOCUMENTS).raw

    short = contract.cloud(rows if make is None else make(columns), {"segment": "desk"})
    codes = contract.cloud(np.delete(DOCUMENTS, 1, 1), {"segment": "desk"})
    blank = DOCUMENTS.copy()
    blank[1:, 1] = np.nan

    for found in (short, codes, contract.cloud(blank), contract.cloud(blank, {"segment": "desk"})):
        np.testing.assert_array_equal(expected, found.raw)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"segment": "mobile"}, "'segment' of document 0 is 'desk'; expected 'mobile'"),
        ({"segment": [1]}, "'segment' of the query: expected a text"),
        (
            {"price": 1},
            "'price' is a feature of documents of the model; its features of the query are: 'segment'",
        ),
        ({"hour": 1}, "'hour' is no feature of the model"),
    ],
)
def test_what_is_no_value_of_the_query_is_refused(
    contract: FeatureContract, query: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidDocuments, match=said):
        contract.cloud(DOCUMENTS, query)
