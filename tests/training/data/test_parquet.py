"""Parquet, row group by row group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localrank.errors import InvalidData
from localrank_training.data import parquet
from localrank_training.data.columns import AS_NAMED
from localrank_training.data.parquet import ParquetReader, ParquetWriter
from localrank_training.data.reading import read
from localrank_training.data.scanning import Block
from localrank_training.data.writing import write
from tests.training.data.sets import query_set

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_read_is_not_kept(tmp_path: Path) -> None:
    n_rows, n_features = 320_000, 32
    values = np.random.default_rng(0).random((n_features, n_rows), np.float32)
    table = pa.table(
        {"label": np.zeros(n_rows), "qid": np.repeat(np.arange(n_rows // 100), 100).astype(str)}
        | {f"f{number}": column for number, column in enumerate(values)}
    )
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=n_rows // 16)
    del table
    reader = ParquetReader(tmp_path / "large.parquet", AS_NAMED)
    before, most, rows = pa.total_allocated_bytes(), 0, 0

    for batch, _ in reader.batches(reader.layout.names):
        rows += len(batch.labels)
        most = max(most, pa.total_allocated_bytes() - before)

    assert n_rows == rows
    assert most < values.nbytes / 2


def block(n_docs: int, n_features: int = 2) -> Block:
    values = np.arange(n_docs * n_features, dtype=np.float32).reshape(n_docs, n_features)
    return Block(np.arange(float(n_docs)), np.zeros(n_docs, np.int64), None, matrix=values)


@pytest.mark.parametrize(
    ("cells", "groups"),
    [(1, [3, 3, 3, 3]), (12, [6, 6]), (13, [9, 3]), (18, [9, 3]), (19, [12]), (1 << 24, [12])],
)
def test_row_groups_are_written_when_they_are_large_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: int, groups: list[int]
) -> None:
    monkeypatch.setattr(parquet, "_CELLS_WRITTEN", cells)
    writer = ParquetWriter(tmp_path / "a", ["x", "y"], comments=False, weights=False, positions=False)

    for _ in range(4):
        writer.write(block(3), ["q"] * 3)
    writer.close()

    metadata = pq.read_metadata(tmp_path / "a")
    assert groups == [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert [0, 2, 4] * 4 == pq.read_table(tmp_path / "a")["x"].to_pylist()


def test_sizes_of_what_is_read_and_written_at_a_time() -> None:
    assert (4096, 2**20, 2**24) == (parquet._MOST_COLUMNS, parquet._CELLS_READ, parquet._CELLS_WRITTEN)


@pytest.mark.parametrize(
    ("most", "columns"), [(2, ["label", "qid", "x", "y"]), (1, ["label", "qid", "features"])]
)
def test_wide_sets_are_written_as_one_column_of_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, columns: list[str]
) -> None:
    monkeypatch.setattr(parquet, "_MOST_COLUMNS", most)
    queries = query_set(np.array([[1, np.nan], [3, 4]], np.float32), [0, 1], [1.0, 0.0], names=["x", "y"])

    write(queries, tmp_path / "a.parquet")

    assert columns == pq.read_schema(tmp_path / "a.parquet").names
    found = read(tmp_path / "a.parquet")
    assert ("x", "y") == found.feature_names
    np.testing.assert_array_equal(queries.documents, found.documents)


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("label", True),
        ("qid", True),
        ("features", True),
        ("docno", True),
        ("weight", False),
        ("position", False),
    ],
)
def test_names_that_the_file_needs_itself_make_a_list(tmp_path: Path, name: str, *, listed: bool) -> None:
    plain = query_set(np.ones((1, 2), np.float32), [0], [1.0], names=["x", name])

    write(plain, tmp_path / "a.parquet")

    assert listed == ("features" in pq.read_schema(tmp_path / "a.parquet").names)
    assert ("x", name) == read(tmp_path / "a.parquet").feature_names


def grouped(path: Path, n_groups: int) -> bytearray:
    """Write groups of a hundred rows, each with values that do not compress."""
    rng = np.random.default_rng(0)
    n_rows = 100 * n_groups
    table = {"label": np.zeros(n_rows), "qid": ["q"] * n_rows, "x": rng.random(n_rows)}
    pq.write_table(pa.table(table), path, row_group_size=100, compression="zstd", use_dictionary=False)
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("group", [0, 1, 2])
def test_damage_is_placed_in_its_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    monkeypatch.setattr(parquet, "_CELLS_READ", 100)
    path = tmp_path / "a.parquet"
    content = grouped(path, 3)
    column = pq.read_metadata(path).row_group(group).column(2)
    content[column.data_page_offset : column.data_page_offset + 300] = b"\xff" * 300
    path.write_bytes(content)

    with pytest.raises(InvalidData) as caught:
        read(path)

    expected = f"expected a whole Parquet file, found damage after row {100 * group}, in row group {group + 1} of 3 ("
    assert str(caught.value).startswith(f"{path}: {expected}")


def test_what_arrow_says_of_damage_is_one_short_line() -> None:
    assert "first" == parquet._line(OSError("first\nsecond"))
    assert "x" * 160 == parquet._line(OSError("x" * 200))
    assert "OSError" == parquet._line(OSError())


def test_parts_without_comments_or_places_are_filled(tmp_path: Path) -> None:
    writer = ParquetWriter(tmp_path / "a", ["x"], comments=True, weights=True, positions=True)
    some = block(2, 1)
    comments = pa.array(["c", "d"])

    for comment, positions in ((None, None), (comments, np.array([0, 7]))):
        weights = np.array([0.5, 0.5])
        writer.write(
            Block(
                some.labels, some.queries, comment, matrix=some.matrix, weights=weights, positions=positions
            ),
            ["q", "q"],
        )
    writer.close()

    table = pq.read_table(tmp_path / "a")
    assert ["label", "qid", "comment", "weight", "position", "x"] == table.column_names
    assert ["", "", "c", "d"] == table["comment"].to_pylist()
    assert [None, None, None, 7] == table["position"].to_pylist()
    assert [0.5] * 4 == table["weight"].to_pylist()
    assert {b"localrank.weight": b"weight", b"localrank.position": b"position"} == {
        key: value for key, value in table.schema.metadata.items() if key.startswith(b"localrank")
    }
