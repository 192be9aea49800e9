"""Nothing of a file that is left out is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localrank.errors import InvalidData
from localrank_training.data import scanning
from localrank_training.data.columns import Columns
from localrank_training.data.queries import Gap, Skipped
from localrank_training.data.reading import read
from localrank_training.data.usable import refuse_missing

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet


def without_first(first: Path, second: Path, columns: Columns | None = None) -> QuerySet:
    """Read both files; the first has to be left out."""
    said: list[str] = []
    found = read([first, second], skip=True, columns=columns or Columns(), say=said.append)
    assert [str(first)] == [one.file for one in found.skipped]
    assert 1 == len([sentence for sentence in said if sentence.startswith("skipped: ")])
    alone = read([second], columns=columns or Columns())
    assert alone.feature_names == found.feature_names
    assert alone.query_ids == found.query_ids
    np.testing.assert_array_equal(alone.documents, found.documents)
    return found


def text(path: Path, content: str, names: str = "") -> Path:
    path.write_text(content)
    if names:
        path.with_name(path.name + ".names").write_text(names)
    return path


def test_names_width_and_queries_of_text_that_is_left_out_are_forgotten(tmp_path: Path) -> None:
    bad = text(tmp_path / "a.txt", "1 qid:1 1:1 2:2\n0 qid:2 1:x\n", "u\nv\n")
    good = text(tmp_path / "b.txt", "1 qid:2 1:1 2:2\n0 qid:1 1:3 2:4\n", "x\ny\n")
    wide = text(tmp_path / "c.txt", "1 qid:1 1:1 9:2\n0 qid:2 1:x\n")
    narrow = text(tmp_path / "d.txt", "1 qid:2 2:2\n0 qid:1 1:3\n")

    assert ("2", "1") == without_first(bad, good).query_ids
    assert (2, 2) == without_first(wide, narrow).documents.shape


def test_the_width_of_a_table_that_is_left_out_is_forgotten(tmp_path: Path) -> None:
    bad = text(tmp_path / "a.csv", "label,qid,f1,f2,f3\n1,a,1,2,3\n0,a,1,2,inf\n")
    good = text(tmp_path / "b.csv", "label,qid,f1,f2\n1,a,1,2\n0,a,3,4\n")

    without_first(bad, good)


def test_weights_of_a_table_that_is_left_out_are_forgotten(tmp_path: Path) -> None:
    bad, good, plain = (tmp_path / f"{name}.parquet" for name in "abc")
    told = {b"localrank.weight": b"w"}
    columns = {"label": [1.0, 0.0], "qid": ["q", "q"], "w": [3.0, 3.0]}
    pq.write_table(pa.table({**columns, "x": [1.0, np.inf]}).replace_schema_metadata(told), bad)
    pq.write_table(
        pa.table({**columns, "w": [5.0, 5.0], "x": [1.0, 2.0]}).replace_schema_metadata(told), good
    )
    pq.write_table(pa.table({"label": [1.0], "qid": ["q"], "x": [1.0]}), plain)

    weighted = without_first(bad, good).weights

    assert weighted is not None
    assert [5] == weighted.tolist()
    assert without_first(bad, plain).weights is None


def test_a_good_file_is_told_of_once(tmp_path: Path) -> None:
    table = text(tmp_path / "a.csv", "label,qid,f1,f2\n1,a,1,2\n0,a,3,4\n")
    sparse = text(tmp_path / "b.txt", "".join(f"1 qid:{i} 1:1 2:2\n" for i in range(5)) + "0 qid:9 2:1\n")
    said: list[str] = []

    found = read([table, sparse], skip=True, say=said.append)

    assert (Gap(str(sparse), 6, 1, 1, 6),) == found.gaps
    assert 2 == len(said)
    assert said[0].startswith(f"{table}: label 'label'")
    assert f"{found.gaps[0]}; add --sparse if this is right" == said[1]
    assert () == found.skipped


def test_the_same_columns_are_described_once_however_many_files_have_them(tmp_path: Path) -> None:
    for name in "ab":
        text(tmp_path / f"{name}.csv", f"label,qid,x\n1,{name},1\n")
    text(tmp_path / "c.csv", "label,qid,url,x\n1,c,u,1\n")
    said: list[str] = []

    read([tmp_path], say=said.append)

    assert [f"{tmp_path / 'a.csv'}: ", f"{tmp_path / 'c.csv'}: "] == [
        sentence[: sentence.index(": ") + 2] for sentence in said
    ]


def test_if_every_file_is_left_out_the_first_says_why(tmp_path: Path) -> None:
    for name in "ab":
        text(tmp_path / f"{name}.txt", f"1 qid:{name} 1:x\n")

    with pytest.raises(InvalidData) as caught:
        read([tmp_path], skip=True)

    assert str(caught.value).startswith(
        f"expected a file that can be read, found none; the first of 2: {tmp_path / 'a.txt'}:1:11: expected a number"
    )


def test_what_was_skipped_is_kept_in_the_order_of_the_input(tmp_path: Path) -> None:
    text(tmp_path / "a.zip", "PK\x03\x04")
    text(tmp_path / "b.txt", "1 qid:1 1:x\n")
    text(tmp_path / "c.txt", "1 qid:1 1:1\n")

    found = read([tmp_path], skip=True)

    assert [str(tmp_path / "a.zip"), str(tmp_path / "b.txt")] == [one.file for one in found.skipped]
    assert isinstance(found.skipped[0], Skipped)


def test_progress_does_not_count_twice_what_is_read_twice(tmp_path: Path) -> None:
    for name in "ab":
        text(tmp_path / f"{name}.txt", f"1 qid:{name} 1:1\n")
    told: list[tuple[str, int, int]] = []

    read([tmp_path], skip=True, progress=lambda *one: told.append(one))

    assert ("reading", 24, 24) == told[-1]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert {24} == {total for _, _, total in told}


@pytest.mark.parametrize(
    ("option", "columns"), [("--weight", Columns(weight="w")), ("--position", Columns(position="w"))]
)
def test_text_has_no_place_for_weights_and_places(tmp_path: Path, option: str, columns: Columns) -> None:
    path = text(tmp_path / "a.txt", "1 qid:1 1:1\n")

    with pytest.raises(InvalidData) as caught:
        read([path], columns=columns)

    expected = f"expected a table (CSV, Parquet) with the column 'w' of {option}, found LETOR text"
    assert str(caught.value).startswith(f"{path}: {expected}")


def test_a_million_numbers_of_a_stored_matrix_are_handled_at_a_time() -> None:
    assert 2**20 == scanning._CELLS


def test_the_features_asked_for_are_one_to_a_hundred_thousand(tmp_path: Path) -> None:
    path = text(tmp_path / "a.txt", "1 qid:1 2:1\n0 qid:1 1:1\n")

    assert (2, 100_000) == read([path], n_features=100_000).documents.shape
    for n in (0, 100_001):
        with pytest.raises(InvalidData, match=f"expected 1 to 100000 features, found {n} asked for"):
            read([path], n_features=n)


def test_weights_after_an_input_without_them_are_refused(tmp_path: Path) -> None:
    columns = {"label": [1.0], "x": [1.0]}
    pq.write_table(pa.table({**columns, "qid": ["a"]}), tmp_path / "a")
    told = {b"localrank.weight": b"w"}
    pq.write_table(
        pa.table({**columns, "qid": ["b"], "w": [2.0]}).replace_schema_metadata(told), tmp_path / "b"
    )

    with pytest.raises(InvalidData) as caught:
        read([tmp_path])

    expected = f"expected query weights in all inputs or in none, found some, unlike in {tmp_path / 'a'}"
    assert f"{tmp_path / 'b'}: {expected}" == str(caught.value)


@pytest.mark.parametrize(("missing", "words"), [(1, ""), (2, ", and 1 more document lacks values")])
def test_the_line_of_a_missing_value_is_told_with_how_many_others(
    tmp_path: Path, missing: int, words: str
) -> None:
    path = text(tmp_path / "a.txt", "1 qid:1 1:?\n" * missing + "1 qid:1 1:1\n")

    with pytest.raises(InvalidData) as caught:
        refuse_missing(read([path]), "reject", "advice")

    assert f"{path}:1, query '1': expected a value of 'f1', found none{words}; advice" == str(caught.value)
