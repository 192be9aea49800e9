"""The mapped form trusts no header of an array."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from localrank.errors import InvalidData
from localrank_training.data.columns import Columns
from localrank_training.data.mapped import StoredComments
from localrank_training.data.reading import read
from localrank_training.data.writing import convert, write
from tests.training.data.sets import query_set

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of one query with two documents of three features."""
    (tmp_path / "in.txt").write_text("1 qid:a 1:1 2:2 3:3 # x\n0 qid:a 1:4 2:5 3:6 # y\n")
    convert([tmp_path / "in.txt"], tmp_path / "mapped", to="mapped")
    return tmp_path / "mapped"


def refused(folder: Path, name: str = "documents") -> str:
    with pytest.raises(InvalidData) as caught:
        read(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{folder / name}.npy: expected ")
    return message.removeprefix(f"{folder / name}.npy: expected ")


def with_header(folder: Path, dtype: str, order: str = "False", shape: str = "(2, 3)") -> Path:
    """Replace the header of the documents, with as many bytes."""
    path = folder / "documents.npy"
    header = f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n" + path.read_bytes()[128:])
    return folder


def test_the_header_that_numpy_writes_is_read(folder: Path) -> None:
    assert [[1, 2, 3], [4, 5, 6]] == read(folder).documents.tolist()
    assert [[1, 2, 3], [4, 5, 6]] == read(with_header(folder, "'<f4'")).documents.tolist()


@pytest.mark.parametrize(
    ("dtype", "found"),
    [
        ("'<f8'", "float64"),
        ("'|a4'", "'|a4'"),  # deprecated
        ("'<M8[s/0]'", "'<M8[s/0]'"),  # ends the process in numpy 2.4
        ("'>f4'", "'>f4'"),
        ("'|O'", "'|O'"),
        ("'<f4\n'", "'<f4\\n'"),
        ("[('x', '<f4')]", "[('x', '<f4')]"),
    ],
)
def test_a_strange_type_is_refused_with_one_sentence(folder: Path, dtype: str, found: str) -> None:
    assert f"float32 (2, 3), found {found} (2, 3)" == refused(with_header(folder, dtype))


@pytest.mark.parametrize("shape", ["(3, 2)", "(2,)", "()", "(99999999999999999999,)"])
def test_another_shape_is_refused(folder: Path, shape: str) -> None:
    assert f"float32 (2, 3), found float32 {shape}" == refused(with_header(folder, "'<f4'", shape=shape))


def test_what_is_said_of_a_header_is_short(folder: Path) -> None:
    header = with_header(folder, "'" + "x" * 30 + "'") / "documents.npy"
    content = header.read_bytes()
    long = b"{'descr': '" + b"x" * 200 + b"', 'fortran_order': False, 'shape': (2, 3), }\n"
    header.write_bytes(content[:8] + len(long).to_bytes(2, "little") + long + content[128:])

    assert len(refused(folder)) < 120


def test_columns_first_is_refused(folder: Path) -> None:
    np.save(folder / "documents.npy", np.ones((2, 3), np.float32, order="F"))

    assert "an array in C order, found Fortran order" == refused(folder)


@pytest.mark.parametrize("shape", ["(-2, 3)", "(2, 3.0)", "[2, 3]", "None", "(2, 3"])
def test_a_header_that_is_none_is_refused(folder: Path, shape: str) -> None:
    message = refused(with_header(folder, "'<f4'", shape=shape))

    assert "an array as numpy.save writes it, found another file" == message


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:0],
        lambda content: content[:9],
        lambda content: content[:50],
        lambda content: b"\x94" + content[1:],
        lambda content: content[:6] + b"\x02" + content[7:],
        lambda content: content[:8] + b"\x75\x00" + content[10:],
    ],
)
def test_a_damaged_beginning_is_refused(folder: Path, change: object) -> None:
    assert callable(change)
    path = folder / "documents.npy"
    path.write_bytes(change(path.read_bytes()))

    assert "an array as numpy.save writes it, found another file" == refused(folder)


@pytest.mark.parametrize(("change", "size"), [(b"", 151), (b"\0\0", 153)])
def test_missing_and_further_bytes_are_counted(folder: Path, change: bytes, size: int) -> None:
    path = folder / "documents.npy"
    path.write_bytes(path.read_bytes()[:-1] + change)

    assert f"152 bytes, found {size}" == refused(folder)


def test_a_file_that_is_not_there_is_said_to_be_so(folder: Path) -> None:
    (folder / "labels.npy").unlink()

    with pytest.raises(InvalidData) as caught:
        read(folder)

    assert f"{folder / 'labels.npy'}: cannot be read: No such file or directory" == str(caught.value)


def test_only_documents_and_comments_stay_on_disk(folder: Path) -> None:
    queries = read(folder)

    assert isinstance(queries.documents, np.memmap)
    assert not queries.documents.flags.writeable
    assert not isinstance(queries.labels, np.memmap)
    assert (" x", " y") == tuple(queries.comments or ())


def test_the_index_can_be_read_by_people(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("1 qid:é 1:1\n")
    (tmp_path / "in.txt.names").write_text("größe\n")
    convert([tmp_path / "in.txt"], tmp_path / "mapped", to="mapped")

    index = (tmp_path / "mapped" / "queryset.json").read_text("utf-8")

    assert '"feature_names": ["größe"]' in index
    assert '"query_ids": ["é"]' in index
    assert '"format": 1' in index
    assert index.endswith("}\n")


def test_comments_that_are_all_empty_are_stored(tmp_path: Path) -> None:
    comments = StoredComments.of([pa.array(["", None]), pa.array([""])], np.array([2, 0, 1]))

    assert comments is not None
    assert ["", "", ""] == list(comments)
    comments.save(tmp_path)
    assert [0, 0, 0] == np.load(tmp_path / "comment_ends.npy").tolist()
    assert (0,) == np.load(tmp_path / "comments.npy").shape


def test_stored_comments_are_equal_only_to_sequences_of_the_same_texts() -> None:
    comments = StoredComments.of([pa.array(["a", "bc"])], np.array([0, 1]))

    assert comments == ["a", "bc"]
    assert comments != ["a"]
    assert comments != ["a", "bc", "d"]
    assert comments != ["a", "b"]
    assert comments != 2
    assert comments != {"a", "bc"}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (Columns(weight="w"), "expected a mapped set that was written with --weight w, found one without"),
        (
            Columns(position="p"),
            "expected a mapped set that was written with --position p, found one without",
        ),
    ],
)
def test_a_column_that_was_not_written_is_named(folder: Path, columns: Columns, words: str) -> None:
    with pytest.raises(InvalidData) as caught:
        read(folder, columns=columns)

    assert f"{folder}: {words}" == str(caught.value)


def test_an_index_without_weights_and_places_has_none(folder: Path) -> None:
    path = folder / "queryset.json"
    index = json.loads(path.read_text())
    del index["weights"], index["positions"]
    path.write_text(json.dumps(index))

    queries = read(folder)

    assert queries.weights is None
    assert queries.positions is None


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_weights_places_and_labels_may_be_zero(tmp_path: Path, zero: float) -> None:
    queries = replace(
        query_set(np.ones((3, 2), np.float32), [0, 1, 1], [zero, 1.0, 0.0]),
        weights=np.array([zero, 2.0]),
        positions=np.array([0, 1, 0]),
    )
    write(queries, tmp_path / "m", to="mapped")

    found = read(tmp_path / "m")

    assert found.weights is not None
    assert found.positions is not None
    assert ([0, 1, 0], [0, 2], [0, 1, 0]) == (
        found.labels.tolist(),
        found.weights.tolist(),
        found.positions.tolist(),
    )


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("weights", [1.0, np.inf], "finite weights of at least 0, found other numbers"),
        ("weights", [1.0, -0.5], "finite weights of at least 0, found other numbers"),
        ("weights", [np.nan, 1.0], "finite weights of at least 0, found other numbers"),
        ("positions", [0, 1, -1], "places of at least 0, found other numbers"),
    ],
)
def test_wrong_weights_and_places_are_refused(
    tmp_path: Path, name: str, values: list[float], words: str
) -> None:
    queries = replace(
        query_set(np.ones((3, 2), np.float32), [0, 1, 1], [0.0, 1.0, 0.0]),
        weights=np.array([1.0, 2.0]),
        positions=np.array([0, 1, 2]),
    )
    write(queries, tmp_path / "m", to="mapped")
    stored = np.load(tmp_path / "m" / f"{name}.npy")
    np.save(tmp_path / "m" / f"{name}.npy", np.array(values, stored.dtype))

    assert words == refused(tmp_path / "m", name)
