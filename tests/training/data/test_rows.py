"""Documents that are not held: the same numbers as the array that they stand for."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from localrank.contract import FeatureContract
from localrank.errors import InvalidData
from localrank_training.clouds import Clouds
from localrank_training.data import rows
from localrank_training.data.queries import concatenated
from localrank_training.data.reading import read
from localrank_training.data.rows import Rows
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.data.writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Matrix
    from localrank_training.data.queries import QuerySet


@pytest.fixture
def beyond(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let nothing fit into memory, and return the folder for temporary files."""
    monkeypatch.setattr(rows, "HELD", 0)
    monkeypatch.setattr(rows, "HELD_OF_MAPPED", 0)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def made(missing: float = 0.0) -> QuerySet:
    return synthesize(15, Recipe(documents=(1, 9), features=5, missing=missing))[0]


CHOSEN = np.array([7, 2, 3, 4, 14])


@pytest.fixture(params=["selected", "joined", "seen", "selected of seen"])
def pair(
    request: pytest.FixtureRequest, beyond: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Matrix, Matrix]:
    """Documents that are not held, and the array that they stand for."""

    def documents(kind: str) -> Matrix:
        queries = made()
        contract = FeatureContract.learn(queries.documents, queries.lengths.tolist())
        if kind == "selected":
            return queries.select(CHOSEN).documents
        if kind == "joined":
            return concatenated([queries, queries.select([3]), queries]).documents
        seen = Clouds(queries, contract).seen_as("[minmax, rank * 0.5]")
        return (seen.select(CHOSEN) if kind == "selected of seen" else seen).documents

    unheld = documents(request.param)
    with monkeypatch.context() as patch:
        patch.setattr(rows, "HELD", 1 << 30)
        held = documents(request.param)
    assert isinstance(unheld, Rows)
    assert isinstance(held, np.ndarray)
    assert beyond.is_dir()
    return unheld, held


@pytest.mark.parametrize(
    "key",
    [
        slice(None),
        slice(3, 11),
        slice(-4, None),
        slice(None, None, 3),
        slice(5, 2),
        2,
        -1,
        [4, 0, 9, 9, -2],
        (slice(2, 9), 1),
        (slice(None), [3, 0]),
        (4, 2),
        (slice(None, None, 2), slice(1, 3)),
    ],
    ids=str,
)
def test_rows_are_those_of_the_array(pair: tuple[Matrix, Matrix], key: Any) -> None:
    unheld, held = pair

    np.testing.assert_array_equal(held[key], unheld[key])


def test_a_mask_takes_the_rows_where_it_is_true(pair: tuple[Matrix, Matrix]) -> None:
    unheld, held = pair
    mask = held[:, 0] > 0

    np.testing.assert_array_equal(held[mask], unheld[mask])


def test_what_asks_for_all_of_it_gets_an_array_outside_of_memory(pair: tuple[Matrix, Matrix]) -> None:
    unheld, held = pair

    np.testing.assert_array_equal(held, np.asarray(unheld))
    np.testing.assert_array_equal(held.T @ held, unheld.T @ unheld)
    np.testing.assert_array_equal(held != held[0], unheld != held[0])
    assert (held.shape, held.size, held.nbytes, len(held)) == (
        unheld.shape,
        unheld.size,
        unheld.nbytes,
        len(unheld),
    )


def test_they_go_to_another_process_without_the_array(pair: tuple[Matrix, Matrix]) -> None:
    unheld, held = pair
    np.asarray(unheld)

    np.testing.assert_array_equal(held, pickle.loads(pickle.dumps(unheld))[:])


def test_each_query_comes_as_it_would_from_memory(beyond: Path) -> None:
    queries = made()
    order = np.arange(len(queries))[::-1]

    chosen = queries.select(order)

    for number, documents in enumerate(chosen.clouds()):
        np.testing.assert_array_equal(queries.documents_of(int(order[number])), documents)
        np.testing.assert_array_equal(documents, chosen.lists[number])
    assert beyond.is_dir()


class Written(NamedTuple):
    name: str
    to: str | None = None


@pytest.mark.parametrize(
    "form", [Written("a.parquet"), Written("a.txt"), Written("mapped", "mapped")], ids=str
)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_files_of_more_than_memory_are_read_into_a_temporary_file(
    form: Written, missing: float, beyond: Path, tmp_path: Path
) -> None:
    queries, path = made(missing), tmp_path / form.name
    write(queries, path, to=form.to)  # type: ignore[arg-type]

    found = read([path])

    assert isinstance(found.documents, np.memmap)
    np.testing.assert_array_equal(queries.documents, found.documents)
    np.testing.assert_array_equal(queries.labels, found.labels)
    assert queries.query_ids == found.query_ids
    in_use = len(list(beyond.iterdir()))
    del found
    assert [] == list(beyond.iterdir())
    assert int(form.to is None) == in_use


def test_documents_that_are_apart_come_together_in_a_temporary_file(beyond: Path, tmp_path: Path) -> None:
    path = tmp_path / "apart.txt"
    path.write_text("2 qid:a 1:0.5 3:1 # d1\n0 qid:b 2:7\n1 qid:a 1:0.25 # d3\n")

    found = read([path])

    assert [[0.5, 0, 1], [0.25, 0, 0], [0, 7, 0]] == found.documents.tolist()
    assert [" d1", " d3", ""] == list(found.comments or ())
    assert isinstance(found.documents, np.memmap)
    assert beyond.is_dir()


def test_comments_of_many_documents_are_kept(beyond: Path, tmp_path: Path) -> None:
    path = tmp_path / "made.txt"
    path.write_text("1 qid:b 1:1 # é\n0 qid:a 1:2\n2 qid:b 1:3 # last\n")

    found = read([path]).select([1, 0])

    assert ["", " é", " last"] == list(found.comments or ())
    assert beyond.is_dir()


def test_a_full_disk_is_told_of_before_the_work(
    beyond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(made(), tmp_path / "a.parquet")
    usage = shutil.disk_usage(beyond)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))

    with pytest.raises(InvalidData) as refused:
        read([tmp_path / "a.parquet"])

    assert f"{beyond}: expected room for " in str(refused.value)
    assert "set TMPDIR to another folder" in str(refused.value)
