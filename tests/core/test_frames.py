"""Frames of pandas, polars and Arrow, at the doors that need no service: by name, never by place."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from decimal import Decimal
from itertools import permutations
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from localrank.client import Client, Query
from localrank.errors import ContractMismatch, InvalidDocuments
from localrank.features.contract import FeatureContract
from localrank.points.vectors import MeanRepresentation
from localrank.ranker import Ranker
from localrank.routing.router import GlobalRouter
from localrank.scorers import LinearScorer

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("bm25", "clicks", "age")
ROWS = np.random.default_rng(3).standard_normal((6, 3)).astype(np.float32)
FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas with Arrow": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "Arrow table": pa.table,
    "Arrow batch": pa.RecordBatch.from_pydict,
}
every_frame = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    contract = FeatureContract.learn(ROWS, [6], names=NAMES, missing="nan", normalise="none")
    scorer = LinearScorer(np.array([4.0, -2.0, 1.0]))
    return Ranker(contract, MeanRepresentation(), GlobalRouter(), (), scorer)


def columns(names: Any = NAMES) -> dict[str, Any]:
    return {name: ROWS[:, NAMES.index(name)] for name in names}


@every_frame
def test_no_order_of_the_columns_changes_a_ranking(
    make: Callable[[dict[str, Any]], Any], ranker: Ranker
) -> None:
    expected = ranker.rank(ROWS).scores.tolist()

    for names in permutations(NAMES):
        frame = make(columns(names))
        assert expected == ranker.rank(frame).scores.tolist()


@every_frame
def test_more_columns_are_ignored_with_a_warning_whatever_they_hold(
    make: Callable[[dict[str, Any]], Any], ranker: Ranker
) -> None:
    frame = make({"url": list("abcdef"), **columns(), "price": [1.0] * 6})

    with pytest.warns(
        UserWarning, match="the model does not know the column 'url' and 1 more; ignored"
    ) as said:
        found = ranker.rank(frame)

    assert ranker.rank(ROWS).scores.tolist() == found.scores.tolist()
    assert __file__ == said[0].filename


@every_frame
def test_a_column_that_is_missing_or_called_otherwise_is_named(
    make: Callable[[dict[str, Any]], Any], ranker: Ranker
) -> None:
    with pytest.raises(
        ContractMismatch,
        match=r"^feature 'clicks' is not among the names; the model takes 3 features, and does not know 'Clicks'$",
    ):
        ranker.rank(make({"bm25": ROWS[:, 0], "Clicks": ROWS[:, 1], "age": ROWS[:, 2]}))
    with pytest.raises(
        ContractMismatch, match=r"feature 'age' is not among the names; the model takes 3 features$"
    ):
        ranker.rank(make(columns(["bm25", "clicks"])))


def test_columns_that_pandas_has_numbered_are_taken_by_place(ranker: Ranker) -> None:
    frame = pd.DataFrame(ROWS)

    assert ranker.rank(ROWS).scores.tolist() == ranker.rank(frame).scores.tolist()
    assert Query(frame).names() is None
    with pytest.raises(InvalidDocuments, match="expected 3 features per document, found 2"):
        ranker.rank(frame[[0, 1]])


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        ([1, 0, 2], "1"),
        ([0, 1, 3], "3"),
        ([1, 2, 3], "1"),
        (["bm25", "clicks", 2], "2"),
        ([0, 1, "age"], "0"),
        ([0.0, 1.0, 2.0], "0.0"),
        ([("bm25", "mean"), ("clicks", "mean"), ("age", "mean")], "('bm25', 'mean')"),
    ],
)
def test_other_numbers_as_names_are_refused(names: list[Any], wrong: str, ranker: Ranker) -> None:
    frame = pd.DataFrame(ROWS)
    frame.columns = pd.Index(names)
    said = re.escape(
        "expected the names of features as the names of all columns, or 0 to 2 in this order, found " + wrong
    )

    for take in (ranker.rank, lambda frame: Query(frame).names()):
        with pytest.raises(InvalidDocuments, match=said):
            take(frame)


def test_a_column_that_stands_twice_is_refused(ranker: Ranker) -> None:
    frame = pd.DataFrame(ROWS, columns=["bm25", "age", "bm25"])

    with pytest.raises(InvalidDocuments, match="expected every column once, found 'bm25' again"):
        ranker.rank(frame)
    with pytest.raises(InvalidDocuments, match="expected every column once, found 'bm25' again"):
        Query(frame).names()


NULLS: dict[str, Any] = {
    "pandas, NaN": pd.DataFrame({"bm25": [1.0, np.nan], "clicks": [2, 3], "age": [True, False]}),
    "pandas, NA": pd.DataFrame(
        {
            "bm25": pd.array([1, None], dtype="Int64"),
            "clicks": pd.array([2.0, 3.0], dtype="Float32"),
            "age": pd.array([True, False], dtype="boolean"),
        }
    ),
    "pandas, Arrow": pd.DataFrame(
        {"bm25": pd.Series([1, None], dtype="int64[pyarrow]"), "clicks": [2, 3], "age": [1, 0]}
    ),
    "pandas, objects": pd.DataFrame(
        {"bm25": [1, pd.NA], "clicks": [Decimal(2), np.int8(3)], "age": [np.True_, False]}, dtype=object
    ),
    "polars": pl.DataFrame({"bm25": [1, None], "clicks": [Decimal(2), Decimal(3)], "age": [True, False]}),
    "Arrow": pa.table({"bm25": [1, None], "clicks": [Decimal(2), Decimal(3)], "age": [True, False]}),
    "lists": [[1, 2, True], [None, 3, False]],
}


@pytest.mark.parametrize("documents", NULLS.values(), ids=NULLS)
def test_nothing_becomes_a_missing_value(documents: Any, ranker: Ranker) -> None:
    expected = np.array([[1, 2, 1], [np.nan, 3, 0]], np.float32)

    found = ranker.rank(documents)

    assert ranker.rank(expected).scores.tolist() == found.scores.tolist()
    assert {0: 1} == found.imputed
    np.testing.assert_array_equal(expected, Query(documents).array())


NO_NUMBERS: dict[str, tuple[Any, str]] = {
    "pandas text": (pd.Series(["1", "2"]), "text"),
    "pandas text as objects": (pd.Series([1, "2"], dtype=object), "text"),
    "pandas categories": (pd.Series(["a", "b"], dtype="category"), "categories"),
    "pandas numbers as categories": (pd.Series([1, 2], dtype="category"), "categories"),
    "pandas dates": (
        pd.to_datetime(pd.Series(["2026-01-01", "2026-01-02"])),
        "dates; give the days since 1970.*",
    ),
    "pandas durations": (pd.to_timedelta(pd.Series([1, 2])), "durations"),
    "pandas complex": (pd.Series([1j, 2j]), "complex numbers"),
    "polars text": (pl.Series(["1", "2"]), "text"),
    "polars categories": (pl.Series(["a", "b"], dtype=pl.Categorical), "text"),
    "polars lists": (pl.Series([[1], [2]]), "a ndarray"),
    "Arrow text": (pa.array(["1", "2"]), "text"),
    "Arrow numbers as categories": (pa.array([1, 2]).dictionary_encode(), "categories"),
}


@pytest.mark.parametrize(("column", "found"), NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_what_is_no_number_is_refused_in_one_sentence(column: Any, found: str, ranker: Ranker) -> None:
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[
        type(column).__module__.split(".")[0]
    ]
    frame = make({"bm25": [1, 2], "clicks": column, "age": [1, 2]})
    said = f"^expected numbers in the column 'clicks', found {found}"

    with pytest.raises(InvalidDocuments, match=f"{said}$"):
        ranker.rank(frame)
    # A client knows no features, so every column is one.
    with pytest.raises(InvalidDocuments, match=f"{said}; every column is sent as a feature"):
        Query(frame).array()


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([["1", "2", "3"]], "expected numbers in the documents, found text"),
        ([[1, 2, 3], [1, 2]], "expected rows of the same length in the documents, found different lengths"),
        (np.array([[1j, 2, 3]]), "expected numbers in the documents, found complex numbers"),
        (np.array([["2026-01-01"] * 3], "M8[D]"), "expected numbers in the documents, found dates"),
        (
            pl.LazyFrame(columns()),
            "expected documents in memory, found a LazyFrame; its collect",
        ),
        ({"bm25": [1]}, "expected numbers in the documents, found a dict"),
    ],
)
def test_what_is_no_frame_and_no_array_of_numbers_is_refused(
    documents: Any, said: str, ranker: Ranker
) -> None:
    with pytest.raises(InvalidDocuments, match=said):
        ranker.rank(documents)
    with pytest.raises(InvalidDocuments, match=said):
        Query(documents).array()


@pytest.mark.parametrize("documents", [pl.LazyFrame(columns()), iter(ROWS)])
def test_what_has_no_number_of_documents_is_refused_beside_ids_too(documents: Any) -> None:
    with pytest.raises(InvalidDocuments, match=f"found a {type(documents).__name__}"):
        Query(documents, ids=range(6))


@pytest.mark.parametrize(
    "rows_of",
    [
        lambda frame: [row for _, row in frame.iterrows()],
        lambda frame: tuple(frame.itertuples(index=False)),
        lambda frame: [ROWS[0].tolist(), *list(frame.itertuples(index=False))[1:]],
    ],
    ids=["series", "named tuples", "some"],
)
def test_rows_with_names_are_not_taken_by_place(rows_of: Callable[[Any], Any], ranker: Ranker) -> None:
    rows = rows_of(pd.DataFrame(columns(NAMES[::-1])))
    said = "^expected a frame or rows without names, found a row with the names 'age', 'clicks' and more$"

    for take in (ranker.rank, lambda rows: Query(rows).array()):
        with pytest.raises(InvalidDocuments, match=said):
            take(rows)


def test_rows_that_pandas_has_numbered_are_taken_by_place(ranker: Ranker) -> None:
    rows = [row for _, row in pd.DataFrame(ROWS).iterrows()]

    assert ranker.rank(ROWS).scores.tolist() == ranker.rank(rows).scores.tolist()


IDS: dict[str, Any] = {
    "list": [7, 3, 0],
    "tuple": (7, 3, 0),
    "range": range(7, -2, -3),
    "numpy": np.array([7, 3, 0]),
    "series": pd.Series([7, 3, 0]),
    "series with an index": pd.Series([7, 3, 0], index=[2, 0, 1]),
    "index": pd.Index([7, 3, 0]),
    "polars": pl.Series([7, 3, 0]),
    "Arrow": pa.array([7, 3, 0]),
    "Arrow in chunks": pa.chunked_array([[7], [3, 0]]),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_any_sequence_of_ids_is_read_by_place(ids: Any) -> None:
    found = Query(ROWS[:3], ids).ids

    expected = (7, 4, 1) if isinstance(ids, range) else (7, 3, 0)
    assert expected == found
    assert not isinstance(found[0], pa.Scalar)


@pytest.mark.parametrize(
    "ids", [{1, 2, 3}, {1: 2, 2: 3, 3: 4}, "abc", iter("abc"), pd.DataFrame(ROWS[:3]), pa.table(columns())]
)
def test_ids_without_an_order_are_refused(ids: Any) -> None:
    with pytest.raises(ValueError, match="expected a sequence of ids, found a"):
        Query(ROWS[:3], ids)


def test_names_beside_a_frame_are_those_of_the_frame() -> None:
    frame = pd.DataFrame(columns())

    assert list(NAMES) == Query(frame).names() == Query(frame, feature_names=NAMES).names()
    assert list(NAMES) == Query(pd.DataFrame(ROWS), feature_names=pd.Index(NAMES)).names()
    with pytest.raises(ValueError, match="expected feature_names to be the names of the frame's columns"):
        Query(frame, feature_names=["clicks", "bm25", "age"]).names()


def test_no_library_of_frames_is_imported() -> None:
    code = (
        "import sys, localrank.ranker, localrank.client; localrank.client.Query([[1]]).array(); "
        "sys.exit(any(name in sys.modules for name in ('pandas', 'polars', 'pyarrow')))"
    )

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode


@pytest.mark.parametrize(
    "labels", [pd.Series([2, 0, 1], index=[1, 2, 0]), pl.Series([2, 0, 1]), pa.array([2, 0, 1]), (2, 0, True)]
)
def test_labels_may_be_any_sequence_of_numbers(labels: Any) -> None:
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content)["queries"][0]["labels"])
        return httpx.Response(200, json={})

    with Client(transport=httpx.MockTransport(answer)) as client:
        client.evaluate([Query(ROWS[:3])], [labels])
        with pytest.raises(InvalidDocuments, match="expected numbers in the labels, found text"):
            client.evaluate([Query(ROWS[:3])], [["2", "0", "1"]])

    assert [[2.0, 0.0, 1.0]] == sent
