"""A text file is dense or sparse as a whole, and a dense one must lack nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank_training.data.columns import Columns
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Matrix


def text(documents: Matrix, *, without: tuple[int, int] | None = None) -> str:
    """Write every value, except that of the document and the feature ``without`` (both from 0)."""
    return "".join(
        f"{row % 3} qid:{row // 4} "
        + " ".join(f"{j + 1}:{value:g}" for j, value in enumerate(values) if (row, j) != without)
        + "\n"
        for row, values in enumerate(documents)
    )


@pytest.fixture
def documents() -> Matrix:
    """Forty documents without a single zero."""
    return np.random.default_rng(0).integers(1, 9, (40, 6)).astype(np.float32)


def message(path: Path, n_features: int | None = None) -> str:
    with pytest.raises(InvalidData) as error:
        read([path], n_features=n_features)
    return str(error.value)


@pytest.mark.parametrize("row", [0, 7, 39])
def test_a_lost_last_feature_is_named_though_no_zero_is_written(
    tmp_path: Path, documents: Matrix, row: int
) -> None:
    path = tmp_path / "train.txt"
    path.write_text(text(documents, without=(row, 5)))

    assert message(path) == (
        f"{path}:{row + 1}: expected 6 features as on most lines of this file, found 5; "
        "if an absent feature is a zero here, add --sparse"
    )


@pytest.mark.parametrize("feature", [0, 3])
def test_a_lost_feature_in_the_middle_is_named_if_zeros_are_written(
    tmp_path: Path, documents: Matrix, feature: int
) -> None:
    documents[[3, 9], 2] = 0
    path = tmp_path / "train.txt"
    path.write_text(text(documents, without=(11, feature)))

    assert message(path) == (
        f"{path}:12: expected a value for each of 6 features, because most lines of this file write every feature, zeros too; "
        f"found none for feature {feature + 1}; if an absent feature is a zero here, add --sparse"
    )


@pytest.mark.parametrize("lines", [1, 2, 40])
@pytest.mark.parametrize("n_features", [5, 7, 46])
def test_a_dense_file_of_another_width_than_the_model_is_refused_however_short(
    tmp_path: Path, documents: Matrix, lines: int, n_features: int
) -> None:
    path = tmp_path / "test.txt"
    path.write_text(text(documents[:lines]))

    found = message(path, n_features)

    if n_features > 6:
        assert found.startswith(f"{path}: expected {n_features} features, found 6 on every line; ")
    else:
        assert found == f"{path}:1:29: expected at most {n_features} features, found index 6"


def test_with_sparse_absent_features_are_zeros_on_any_line(tmp_path: Path, documents: Matrix) -> None:
    path = tmp_path / "train.txt"
    path.write_text(text(documents, without=(7, 5)))
    expected = documents.copy()
    expected[7, 5] = 0

    found = read([path], n_features=8, columns=Columns(sparse=True)).documents

    np.testing.assert_array_equal(expected, found[:, :6])
    assert not found[:, 6:].any()


def test_a_file_that_leaves_its_zeros_out_is_sparse(tmp_path: Path) -> None:
    documents = np.random.default_rng(1).integers(0, 3, (50, 12)).astype(np.float32)
    path = tmp_path / "sparse.txt"
    path.write_text(
        "".join(
            f"{row % 2} qid:{row // 5} "
            + " ".join(f"{j + 1}:{v:g}" for j, v in enumerate(values) if v)
            + "\n"
            for row, values in enumerate(documents)
        )
    )

    np.testing.assert_array_equal(documents, read([path], n_features=12).documents)


def test_the_decision_does_not_depend_on_where_blocks_end(
    tmp_path: Path, documents: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.txt"
    path.write_text(text(documents, without=(31, 5)))
    expected = message(path)

    monkeypatch.setattr("localrank_training.data.sources.BLOCK", 10)
    monkeypatch.setattr("localrank_training.data.sources._PIECE", 64)

    assert expected == message(path)


@pytest.mark.parametrize("feature", [0, 3])
def test_a_lost_feature_is_told_if_it_may_be_a_zero(tmp_path: Path, documents: Matrix, feature: int) -> None:
    """Nothing shows whether the file leaves zeros out: it is read, and what was made of it is said."""
    path = tmp_path / "train.txt"
    path.write_text(text(documents, without=(7, feature)))
    said: list[str] = []

    queries = read([path], say=said.append)

    expected = (
        f"{path}: 1 of 40 lines lack features that other lines have, first line 8 without feature "
        f"{feature + 1}; these are read as zeros"
    )
    assert [f"{expected}; add --sparse if this is right"] == said
    assert [expected] == [str(gap) for gap in queries.gaps]
    assert () == read([path], columns=Columns(sparse=True)).gaps


def test_a_file_that_often_leaves_features_out_is_not_mentioned(tmp_path: Path, documents: Matrix) -> None:
    path = tmp_path / "train.txt"
    path.write_text(
        "".join(
            f"{i % 3} qid:{i // 4} " + " ".join(f"{j + 1}:{v:g}" for j, v in enumerate(row) if v > 3) + "\n"
            for i, row in enumerate(documents)
        )
    )
    said: list[str] = []

    assert () == read([path], say=said.append).gaps
    assert [] == said


def sparse_text(rows: list[str]) -> str:
    return "".join(f"{i % 2} qid:{i // 4} {row}\n" for i, row in enumerate(rows))


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        # Half of the lines are complete, or one line writes a zero: nothing shows that the file is dense.
        (["1:1 2:2", "1:3 2:0", "2:0", "2:4"], None),
        (["1:1 2:2", "1:3 2:0", "1:5 2:6", "2:4"], "gap"),
        # More than half, and two lines write a zero.
        (["1:1 2:2", "1:3 2:0", "1:0 2:6", "2:4"], "none for feature 1"),
        (["1:1 2:2", "1:0 2:0", "1:5 2:6", "2:4"], "gap"),
        # -0 is no zero that a file would leave out.
        (["1:1 2:2", "1:3 2:-0", "1:0 2:6", "2:4"], "gap"),
    ],
)
def test_a_file_is_dense_if_most_lines_are_complete_and_several_write_a_zero(
    tmp_path: Path, rows: list[str], found: str | None
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(sparse_text(rows))

    if found in {None, "gap"}:
        queries = read([path])
        assert [(str(path), 4, 1, 1, 4)] * (found == "gap") == [tuple(gap) for gap in queries.gaps]
        assert [0, 4] == queries.documents[3].tolist()
    else:
        assert f"{path}:4: expected a value for each of 2 features" in message(path)
        assert f"found {found}; " in message(path)


def test_the_first_line_that_lacks_something_is_named(tmp_path: Path) -> None:
    """A line that ends early before one with a hole, and the other way round."""
    full = "1:0 2:2 3:0"
    path = tmp_path / "a.txt"
    for rows, place, found in (
        ([full, full, full, full, "1:1 2:2", "1:1 3:3"], 5, "only the first 2"),
        ([full, full, full, full, "1:1 3:3", "1:1 2:2"], 5, "none for feature 2"),
        ([full, full, full, full, "1:1", "2:1", "1:1"], 5, "only the first 1"),
    ):
        path.write_text(sparse_text(rows))
        assert f"{path}:{place}: expected a value for each of 3 features" in message(path)
        assert f"found {found}; " in message(path)


def test_of_two_widths_that_are_as_frequent_the_larger_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(sparse_text(["1:1 2:2", "1:1 2:2 3:3", "1:1 2:2 3:3", "1:1 2:2"]))

    assert f"{path}:1: expected 3 features as on most lines of this file, found 2; " in message(path)


def test_lines_without_values_leave_their_first_feature_out(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(sparse_text(["1:1 2:2", "1:3 2:1", "", "2:4", "1:1 2:1"]))

    (gap,) = read([path]).gaps

    assert (str(path), 3, 1, 2, 5) == tuple(gap)
    assert "2 of 5 lines lack features" in str(gap)
