"""The weight of each query and the place of each document, from the column to the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localrank.errors import InvalidData
from localrank_training import LocalRanker
from localrank_training.config import TrainingConfig
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.inspection import inspect
from localrank_training.data.queries import concatenated
from localrank_training.data.reading import read, read_table
from localrank_training.data.splitting import split
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.data.truncation import with_shorter_lists
from localrank_training.data.writing import convert, write
from localrank_training.journal import fingerprint
from localrank_training.run.train import train

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet

CHOSEN = Columns(weight="traffic", position="place")
#: The documents of "a" are not adjacent; the third one was not shown.
ROWS: dict[str, list[Any]] = {
    "label": [1, 0, 2, 0],
    "qid": ["a", "b", "a", "b"],
    "traffic": [2.5, 1, 2.5, 1],
    "place": [3, 1, None, 2],
    "x": [0.1, 0.2, 0.3, 0.4],
}


def csv(path: Path, **changed: list[Any]) -> Path:
    rows = zip(*(ROWS | changed).values(), strict=True)
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    path.write_text("\n".join([",".join(ROWS), *lines, ""]))
    return path


def parquet(path: Path, **changed: list[Any]) -> Path:
    pq.write_table(pa.table(ROWS | changed), path)
    return path


def assert_weighted(queries: QuerySet) -> None:
    assert queries.weights is not None
    assert queries.positions is not None
    assert ("a", "b") == queries.query_ids
    assert [2.5, 1] == queries.weights.tolist()
    assert [3, 0, 1, 2] == queries.positions.tolist()
    assert ("x",) == queries.feature_names


@pytest.mark.parametrize("make", [csv, parquet])
def test_columns_of_a_file_are_kept_with_the_queries(tmp_path: Path, make: Any) -> None:
    said: list[str] = []

    queries = read([make(tmp_path / "log")], columns=CHOSEN, say=said.append)

    assert_weighted(queries)
    assert "query weight 'traffic', position 'place', 1 feature ('x')" in said[0]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_columns_of_a_table_in_memory_are_kept_with_the_queries(frame: Any) -> None:
    assert_weighted(read_table(frame(ROWS), columns=CHOSEN))


def test_without_options_they_are_features(tmp_path: Path) -> None:
    queries = read([csv(tmp_path / "log.csv")])

    assert ("traffic", "place", "x") == queries.feature_names
    assert (None, None) == (queries.weights, queries.positions)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        (
            "traffic",
            [2.5, 1, 2, 1],
            "row 3: expected one weight for all documents of query 'a', found 2 after 2.5",
        ),
        (
            "traffic",
            [2.5, -1, 2.5, -1],
            "row 2, column 'traffic': expected a finite weight of at least 0, found -1",
        ),
        ("traffic", [2.5, 1, None, 1], "row 3, column 'traffic': expected a value, found nothing"),
        (
            "place",
            [0, 1, 2, 3],
            "row 1, column 'place': expected a place counted from 1, or nothing, found 0",
        ),
        (
            "place",
            [1, 1.5, 2, 3],
            "row 2, column 'place': expected a place counted from 1, or nothing, found 1.5",
        ),
        (
            "place",
            [1, 1, 2, 3e10],
            "row 4, column 'place': expected a place counted from 1, or nothing, found 3e+10",
        ),
    ],
)
@pytest.mark.parametrize("make", [csv, parquet])
def test_wrong_values_are_named_with_file_and_row(
    tmp_path: Path, make: Any, column: str, values: list[Any], said: str
) -> None:
    path = make(tmp_path / "log", **{column: values})

    with pytest.raises(InvalidData) as error:
        read([path], columns=CHOSEN)

    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (csv, "row 1, column 'traffic': expected a number, found 'much'"),
        (parquet, "expected numbers as 'traffic', found text"),
    ],
)
def test_words_as_weights_are_refused(tmp_path: Path, make: Any, said: str) -> None:
    path = make(tmp_path / "log", traffic=["much", "no", "much", "no"])

    with pytest.raises(InvalidData) as error:
        read([path], columns=CHOSEN)

    assert f"{path}: {said}" == str(error.value)


def test_a_query_s_weight_is_the_same_in_every_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_training.data.parquet._CELLS_READ", 1)
    n = 200
    weights = [1.0] * (n - 1) + [4.0]
    table = pa.table({"label": [0] * n, "qid": ["a"] * n, "w": weights, "x": list(range(n))})
    pq.write_table(table, tmp_path / "a.parquet")

    with pytest.raises(InvalidData, match=r"row 200: expected one weight .* found 4 after 1"):
        read([tmp_path / "a.parquet"], columns=Columns(weight="w"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            Columns(weight="w"),
            "expected a table (CSV, Parquet) with the column 'w' of --weight, found LETOR text",
        ),
        (
            Columns(position="p"),
            "expected a table (CSV, Parquet) with the column 'p' of --position, found LETOR",
        ),
    ],
)
def test_text_has_no_place_for_them(tmp_path: Path, columns: Columns, said: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 qid:1 1:2\n0 qid:1 1:3\n")

    with pytest.raises(InvalidData) as error:
        read([path], columns=columns)

    assert said in str(error.value)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidData, match=r"expected a column 'w', found 'label', .*; --weight chooses another one"
    ):
        read([csv(tmp_path / "log.csv")], columns=Columns(weight="w"))


def test_one_column_serves_one_purpose(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="expected a different column for each of"):
        read([csv(tmp_path / "log.csv")], columns=Columns(weight="traffic", position="traffic"))


@pytest.mark.parametrize("to", ["parquet", "mapped"])
def test_they_are_written_and_read_again_without_options(tmp_path: Path, to: Any) -> None:
    first = csv(tmp_path / "log.csv")

    convert([first], tmp_path / "out", to=to, columns=CHOSEN)
    write(read([tmp_path / "out"]), tmp_path / "again", to=to)
    report = split([tmp_path / "again"], tmp_path / "parts", fractions=(0.5, 0.5), to="parquet")

    assert_weighted(read([tmp_path / "out"]))
    assert_weighted(read([tmp_path / "again"]))
    parts = [read([tmp_path / "parts" / name]) for name in report]
    assert {"a": [2.5], "b": [1.0]} == {
        part.query_ids[0]: part.weights.tolist() for part in parts if part.weights is not None
    }
    assert {"a": [3, 0], "b": [1, 2]} == {
        part.query_ids[0]: part.positions.tolist() for part in parts if part.positions is not None
    }


def test_a_feature_may_have_the_name_that_weights_are_written_with(tmp_path: Path) -> None:
    rows = {**ROWS, "weight": [7, 8, 9, 10]}
    queries = read_table(pa.table(rows), columns=CHOSEN)

    write(queries, tmp_path / "out.parquet")

    found = read([tmp_path / "out.parquet"])
    assert ("x", "weight") == found.feature_names
    assert queries.documents.tolist() == found.documents.tolist()
    assert [2.5, 1.0] == (None if found.weights is None else found.weights.tolist())


def test_text_does_not_lose_them_in_silence(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidData, match=r"expected a format that keeps query weights \(--to parquet or mapped\)"
    ):
        convert([csv(tmp_path / "log.csv")], tmp_path / "out.txt", columns=CHOSEN)
    assert not (tmp_path / "out.txt").exists()


def test_all_inputs_have_weights_or_none(tmp_path: Path) -> None:
    convert([csv(tmp_path / "log.csv")], tmp_path / "a.parquet", columns=CHOSEN)
    parquet(tmp_path / "b.parquet", qid=["c", "c", "d", "d"])
    without = read([tmp_path / "b.parquet"], columns=Columns(ignore=("traffic", "place")))
    write(without, tmp_path / "plain.parquet")

    with pytest.raises(
        InvalidData,
        match=r"plain\.parquet: expected query weights in all inputs or in none, found none, unlike in .*a\.parquet",
    ):
        read([tmp_path / "a.parquet", tmp_path / "plain.parquet"])


@pytest.mark.parametrize(
    "columns", [Columns(weight="traffic"), Columns(position="place")], ids=["weight", "position"]
)
def test_a_mapped_set_without_them_is_refused(tmp_path: Path, columns: Columns) -> None:
    convert([csv(tmp_path / "log.csv")], tmp_path / "m", to="mapped", columns=AS_NAMED)

    for paths in ([tmp_path / "m"], [tmp_path / "m", csv(tmp_path / "log.csv", qid=["c", "c", "c", "c"])]):
        with pytest.raises(InvalidData, match="expected a mapped set that was written with --"):
            read(paths, columns=columns)


@pytest.mark.parametrize(("name", "value"), [("weights", -1.0), ("weights", np.nan), ("positions", -1)])
def test_a_damaged_mapped_set_is_refused(tmp_path: Path, name: str, value: float) -> None:
    convert([csv(tmp_path / "log.csv")], tmp_path / "m", to="mapped", columns=CHOSEN)
    stored = np.load(tmp_path / "m" / f"{name}.npy")
    stored[0] = value
    np.save(tmp_path / "m" / f"{name}.npy", stored)

    with pytest.raises(InvalidData, match=f"{name}.npy: expected"):
        read([tmp_path / "m"])


def test_selected_and_joined_queries_keep_them() -> None:
    queries = read_table(pa.table(ROWS), columns=CHOSEN)
    plain = read_table(
        pa.table({**ROWS, "qid": ["c", "c", "d", "d"]}), columns=Columns(ignore=("traffic", "place"))
    )

    turned = queries.select([1, 0])
    joined = concatenated([turned, plain])

    assert [1, 2.5] == (None if turned.weights is None else turned.weights.tolist())
    assert [1, 2, 3, 0] == (None if turned.positions is None else turned.positions.tolist())
    assert [1, 2.5, 1, 1] == (None if joined.weights is None else joined.weights.tolist())
    assert [1, 2, 3, 0, 0, 0, 0, 0] == (None if joined.positions is None else joined.positions.tolist())


def test_shorter_lists_share_the_weight_of_their_query() -> None:
    queries, _ = synthesize(4, Recipe(documents=(12, 12), features=3), seed=0)
    weights = np.array([1.0, 2.0, 3.0, 4.0])

    lists, shares = with_shorter_lists(replace(queries, weights=weights), [5, 8])

    for query, weight in zip(queries.query_ids, weights, strict=True):
        of_query = [share for share, name in zip(shares, lists.query_ids, strict=True) if name == query]
        np.testing.assert_allclose(of_query, [weight / 3] * 3)


def test_inspection_describes_them() -> None:
    found = inspect(read_table(pa.table(ROWS), columns=CHOSEN))

    assert found.weights is not None
    assert found.positions is not None
    assert (1.0, 2.5, 1.75) == (found.weights["min"], found.weights["max"], found.weights["mean"])
    assert (1.0, 3.0, 1.0) == (found.positions["min"], found.positions["max"], found.positions["not shown"])


@pytest.fixture(scope="module")
def two_kinds() -> QuerySet:
    """Half of the queries want a high first feature, the other half a low one."""
    rng = np.random.default_rng(0)
    n, k = 60, 10
    documents = rng.normal(size=(n * k, 2)).astype(np.float32)
    sign = np.repeat(np.where(np.arange(n) % 2, 1, -1), k)
    labels = (sign * documents[:, 0] + 0.1 * rng.normal(size=n * k) > 0.5).astype(np.float64)
    return read_table(
        {
            "label": labels,
            "qid": np.repeat([f"q{i:02d}" for i in range(n)], k),
            "x": documents[:, 0],
            "y": documents[:, 1],
        }
    )


def direction(queries: QuerySet, **tables: Any) -> float:
    """The sign that a model gives to the first feature."""
    config = TrainingConfig.from_tables(
        {"clustering": {"method": "none"}, "learner": {"method": "ranksvm", "C": 1.0}, **tables}, "test"
    )
    ranker = train(queries, config).built.ranker
    documents = np.array([[1, 0], [-1, 0]], np.float32)
    first, second = ranker.rank(documents).scores
    return float(np.sign(first - second))


@pytest.mark.parametrize("tables", [{}, {"lists": {"lengths": [5]}}], ids=["full lists", "shorter lists"])
def test_what_is_learned_follows_the_weights(two_kinds: QuerySet, tables: dict[str, Any]) -> None:
    odd = np.arange(len(two_kinds)) % 2

    assert 1 == direction(replace(two_kinds, weights=np.where(odd, 10.0, 1.0)), **tables)
    assert -1 == direction(replace(two_kinds, weights=np.where(odd, 1.0, 10.0)), **tables)


def test_what_is_chosen_follows_the_weights(two_kinds: QuerySet) -> None:
    """The metric of a choice is the weighted mean: by hand, over the held-out queries."""
    weights = np.where(np.arange(len(two_kinds)) % 2, 10.0, 1.0)
    config = TrainingConfig.from_tables(
        {"clustering": {"method": "none"}, "learner": {"method": "ranksvm", "C": [0.01, 1.0]}}, "test"
    )

    trained = train(replace(two_kinds, weights=weights), config)

    held = trained.held_out
    assert held.queries.weights is not None
    from localrank.metrics import Judgements

    figures = Judgements(held.queries.labels, held.queries.offsets).per_query(held.ranked.scores, "ndcg@10")
    by_hand = float(
        weights @ figures[np.argsort([int(q[1:]) for q in held.queries.query_ids])] / weights.sum()
    )
    (chosen,) = [trial.value for trial in trained.trials if trial.chosen]
    assert by_hand == pytest.approx(chosen)
    assert any("queries count by their weights, 1 to 10" in warning for warning in trained.warnings)


def test_auto_s_blend_takes_the_weights(two_kinds: QuerySet) -> None:
    members = [{"method": "linear", "ridge": 0.01}, {"method": "linear", "ridge": 1.0, "blocks": "[minmax]"}]
    tables = {"learner": {"method": "blend", "members": members}}
    odd = np.arange(len(two_kinds)) % 2

    assert 1 == direction(replace(two_kinds, weights=np.where(odd, 10.0, 1.0)), **tables)
    assert -1 == direction(replace(two_kinds, weights=np.where(odd, 1.0, 10.0)), **tables)


def test_the_fingerprint_of_the_data_knows_the_weights(two_kinds: QuerySet) -> None:
    one, two = (replace(two_kinds, weights=np.full(len(two_kinds), weight)) for weight in (1.0, 2.0))

    assert 3 == len({fingerprint(two_kinds), fingerprint(one), fingerprint(two)})


def test_the_estimator_takes_weights(two_kinds: QuerySet) -> None:
    qid = two_kinds.query_of
    weights = np.where(qid % 2, 10.0, 1.0)
    settings = {"clustering.method": "none", "learner.method": "ranksvm", "learner.C": 1.0}

    def learned(query_weight: Any) -> float:
        ranker = LocalRanker(settings=settings).fit(
            two_kinds.documents, two_kinds.labels, qid=qid, query_weight=query_weight
        )
        first, second = ranker.predict(np.array([[1, 0], [-1, 0]], np.float32))
        return float(np.sign(first - second))

    assert 1 == learned(weights)
    assert -1 == learned(11 - weights)
    with pytest.raises(
        ValueError, match="query_weight: row 1: expected one weight for all documents of query '0'"
    ):
        learned(np.arange(len(qid)) + 1.0)
    with pytest.raises(ValueError, match="query_weight: expected one for each of 600 rows, found 3"):
        learned([1, 2, 3])
    with pytest.raises(
        ValueError, match="query_weight: expected finite numbers of at least 0, found -1 in row 0"
    ):
        learned(-np.ones(len(qid)))
