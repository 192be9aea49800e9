"""Columns of a table that are categories, or features of the query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from localrank.errors import InvalidData
from localrank.features.contract import FeatureContract
from localrank.features.feature import MOST_VALUES, Feature
from localrank_training.data.inspection import inspect
from localrank_training.data.preparing import aligned
from localrank_training.data.reading import read, read_table
from localrank_training.data.tables import Columns
from localrank_training.data.writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet

TABLE: dict[str, list[Any]] = {
    "label": [1, 0, 2, 0],
    "qid": ["a", "a", "b", "b"],
    "x": [0.5, 1.0, 2.0, 3.0],
    "brand": ["nike", "kobo", None, "nike"],
    "sale": [True, False, True, True],
    "size": [42, 43, 42, 44],
    "segment": ["m", "m", "d", "d"],
}
CHOSEN = Columns(category=("size",), query_feature=("segment",))
FEATURES = (
    Feature("x"),
    Feature("brand", "category", ("nike", "kobo")),
    Feature("sale", "category", ("true", "false")),
    Feature("size", "category", ("42", "43", "44")),
    Feature("segment", "category", ("m", "d"), "query"),
)
DOCUMENTS = [[0.5, 0, 0, 0, 0], [1, 1, 1, 1, 0], [2, np.nan, 0, 0, 1], [3, 0, 0, 2, 1]]


def as_csv(path: Path) -> Path:
    pd.DataFrame(TABLE).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def as_json(path: Path) -> Path:
    pl.DataFrame(TABLE).write_ndjson(path.with_suffix(".json"))
    return path.with_suffix(".json")


def as_parquet(path: Path) -> Path:
    frame = pd.DataFrame(TABLE).astype({"brand": "category"})
    frame.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def ours(suffix: str) -> Any:
    def make(path: Path) -> Path:
        write(read_table(pa.table(TABLE), columns=CHOSEN), path.with_suffix(suffix))
        return path.with_suffix(suffix)

    return make


@pytest.mark.parametrize("make", [as_csv, as_json, as_parquet, ours(".parquet"), ours(".arrow")])
def test_every_format_gives_the_same_codes(tmp_path: Path, make: Any) -> None:
    queries = read(make(tmp_path / "log"), columns=CHOSEN)

    assert FEATURES == queries.features
    np.testing.assert_array_equal(DOCUMENTS, queries.documents)


@pytest.mark.parametrize("columns", [Columns(), Columns(category=("size", "sale"))])
def test_a_value_has_the_same_spelling_in_csv_as_in_json(tmp_path: Path, columns: Columns) -> None:
    """Pandas writes whole numbers with gaps as 17.0, and truth values among texts as True."""
    truths: list[Any] = [True, False, "maybe", False]
    sizes = [17, None, 2.5, 17]
    head = {"label": [1, 0, 2, 0], "qid": ["a", "a", "b", "b"], "x": [0.5, 1.0, 2.0, 3.0], "sale": truths}
    pd.DataFrame({**head, "size": sizes}).to_csv(tmp_path / "a.csv", index=False)
    contract = contract_of(
        Feature("sale", "category", ("false", "true")), Feature("size", "category", ("2.5", "17"))
    )

    queries = read(tmp_path / "a.csv", columns=Columns(category=("size", "sale")))
    assert (
        Feature("sale", "category", ("true", "false", "maybe")),
        Feature("size", "category", ("17", "2.5")),
    ) == queries.features[1:]
    found = aligned(read(tmp_path / "a.csv", columns=columns.of(contract.features)), contract)
    sale, size = contract.features
    online = np.transpose([sale.codes_of(truths), size.codes_of(sizes)])
    np.testing.assert_array_equal([[1, 1], [0, np.nan], [2, 0], [0, 1]], found.documents)
    np.testing.assert_array_equal(online, found.documents)


def test_words_for_a_missing_value_are_values_of_categories(tmp_path: Path) -> None:
    """NA is Namibia; in a column of numbers it is still a missing value, and no query id."""
    words = ["NA", "None", "nan", "null", "?", "NULL", "N/A", "NaN"]
    lines = [f"1,a,{word},{word}" for word in words]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["label,qid,x,land", "0,a,1,DE", "0,a,2,", *lines]) + "\n")

    for columns in (Columns(), Columns(category=("land",))):
        queries = read(path, columns=columns)
        assert ("DE", *words) == queries.special["land"].values  # noqa: PD011
        expected = [[1, 0], [2, np.nan], *([np.nan, code] for code in range(1, 9))]
        np.testing.assert_array_equal(expected, queries.documents)
    path.write_text("label,qid,x\n0,a,1\n0,NA,1\n")
    with pytest.raises(InvalidData, match="row 2, column 'qid': expected a value, found nothing"):
        read(path)


def contract_of(*features: Feature) -> FeatureContract:
    return FeatureContract.learn(
        np.zeros((2, len(features)), np.float32), [2], features=features, missing="nan"
    )


def test_data_for_a_model_get_the_codes_of_the_model(tmp_path: Path) -> None:
    brand = Feature("brand", "category", ("zara", "nike"))
    contract = contract_of(Feature("size", "category", ("44", "42")), brand)

    for path in (as_csv(tmp_path / "log"), as_json(tmp_path / "log")):
        queries = aligned(read(path, columns=Columns().of(contract.features)), contract)

        np.testing.assert_array_equal([[1, 1], [2, 2], [1, np.nan], [0, 1]], queries.documents)
        assert {"size", "brand"} == queries.special.keys()


def test_a_model_with_another_kind_of_feature_is_named() -> None:
    with pytest.raises(
        InvalidData, match=r"expected numbers as 'brand', .* found categories \('nike', 'kobo'\)"
    ):
        aligned(read_table(TABLE), contract_of(Feature("brand")))
    segment = Feature("brand", "category", ("nike",), "query")
    with pytest.raises(InvalidData, match=r":2, query 'a': expected one value of 'brand'"):
        aligned(read_table(TABLE), contract_of(segment))


def test_a_feature_of_the_query_that_differs_is_refused_where_it_does(tmp_path: Path) -> None:
    path = as_csv(tmp_path / "log")
    with pytest.raises(
        InvalidData,
        match=r"log.csv:2, query 'a': expected one value of 'sale' for all .*, found 'false' after 'true'",
    ):
        read(path, columns=Columns(query_feature=("sale",)))
    with pytest.raises(InvalidData, match=r"found 1 after 0.5"):
        read(path, columns=Columns(query_feature=("x",)))
    with pytest.raises(InvalidData, match=r"--query-feature: expected a feature, found 'segmnt'.*segment"):
        read(path, columns=Columns(query_feature=("segmnt",)))


def test_a_document_without_a_value_has_that_of_the_others_of_its_query() -> None:
    table = {**TABLE, "segment": [None, "m", "d", None], "hour": [9.5, None, None, None]}

    queries = read_table(pa.table(table), columns=Columns(query_feature=("segment", "hour")))

    at = [queries.feature_names.index(name) for name in ("segment", "hour")]
    np.testing.assert_array_equal([[0, 9.5], [0, 9.5], [1, np.nan], [1, np.nan]], queries.documents[:, at])


def test_an_inspection_counts_values_of_categories() -> None:
    table = {**TABLE, "brand": ["kobo", "nike", None, "nike"]}

    found = inspect(read_table(pa.table(table), columns=CHOSEN))

    figures = {one.name: one for one in found.features}
    assert (2, {"nike": 2, "kobo": 1}, 1) == (
        (brand := figures["brand"]).distinct, dict(brand.values), brand.missing
    )  # fmt: skip
    assert [0, 2, 2, 3, 2] == [one.distinct for one in found.features]
    assert np.isnan([brand.minimum, brand.median, brand.maximum, brand.mean, brand.deviation]).all()
    # Codes are no quantities, so they correlate with nothing.
    assert () == found.correlations
    assert ["segment"] == [one.name for one in found.features if one.per_query]


def test_features_of_letor_text_may_be_categories_and_of_the_query(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 qid:1 1:7 2:0.5\n0 qid:1 1:9 2:0.5\n0 qid:2 1:7 2:1\n")

    queries = read(path, columns=Columns(category=("f1",), query_feature=("f2",)))

    assert (Feature("f1", "category", ("7", "9")), Feature("f2", scope="query")) == queries.features
    assert [[0, 0.5], [1, 0.5], [0, 1]] == queries.documents.tolist()


def many(n_values: int, times: int) -> QuerySet:
    values = [f"v{number}" for number in range(n_values)] * times + ["v1", "v0"] * 3
    table = {"label": [0] * len(values), "qid": ["a"] * len(values), "x": [1.0] * len(values), "t": values}
    said: list[str] = []
    queries = read_table(table, say=said.append)
    assert said[1:] == ([] if n_values <= MOST_VALUES and times > 1 else said[1:2])
    return queries


def test_the_most_frequent_values_are_kept_and_the_others_are_one() -> None:
    queries = many(MOST_VALUES + 2, 2)

    (feature,) = queries.special.values()
    assert tuple(f"v{number}" for number in range(MOST_VALUES)) == feature.values  # noqa: PD011
    assert [MOST_VALUES] * 2 == queries.documents[MOST_VALUES : MOST_VALUES + 2, 1].tolist()


def test_a_column_of_texts_that_occur_once_is_left_out() -> None:
    assert ("x", "t") == many(101, 2).feature_names
    assert ("x",) == many(101, 1).feature_names


def test_dates_become_numbers_if_asked_for(tmp_path: Path) -> None:
    table = {**TABLE, "day": ["1970-01-03", "2024-02-29", None, "1969-12-31"]}
    pd.DataFrame(table).to_csv(tmp_path / "a.csv", index=False)
    said: list[str] = []

    queries = read(tmp_path / "a.csv", columns=Columns(date=("day",)), say=said.append)

    np.testing.assert_array_equal([2, 19_782, np.nan, -1], queries.documents[:, -1])
    assert "dates as days since 1970 ('day')" in said[0]
    assert "day" not in read(tmp_path / "a.csv").feature_names


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_a_date_that_is_no_column_or_no_date_is_refused(tmp_path: Path, suffix: str) -> None:
    path = (as_csv if suffix == ".csv" else as_json if suffix == ".json" else as_parquet)(tmp_path / "a")

    with pytest.raises(
        InvalidData, match=r"--date: expected a feature, found 'sgment'; did you mean 'segment'"
    ):
        read(path, columns=Columns(date=("sgment",)))
    for name, found in (("segment", "text"), ("x", "double"), ("sale", "bool")):
        with pytest.raises(
            InvalidData, match=rf"a\{suffix}: --date: expected dates as '{name}', found {found}"
        ):
            read(path, columns=Columns(date=(name,)))


def test_values_that_training_did_not_know_are_counted_in_one_note() -> None:
    contract = contract_of(
        Feature("brand", "category", ("kobo",)),
        Feature("size", "category", ("42", "43")),
        Feature("sale", "category", ("true", "false")),
    )
    said: list[str] = []

    aligned(read_table(TABLE, columns=Columns().of(contract.features)), contract, said.append)

    # The absent brand is no value.
    assert ["2 of 'brand', 1 of 'size'"] == [
        note.rpartition(": ")[2] for note in said if "did not know, " in note
    ]


def test_letor_text_cannot_hold_categories(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidData, match=r"a format that keeps categories .* or --ignore brand,sale,segment"
    ):
        write(read_table(TABLE), tmp_path / "a.txt")
