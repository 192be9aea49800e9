"""Documents that are not held: the same numbers as the array that they stand for."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.features.contract import FeatureContract
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


# --------------------------------------------------------------------------------------------------------- limits


def test_what_fits_is_exactly_as_large_as_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Four bytes for each number; mapped documents have a limit of their own."""
    monkeypatch.setattr(rows, "HELD", 4 * 3 * 10)
    monkeypatch.setattr(rows, "HELD_OF_MAPPED", 4 * 3 * 5)
    held = np.zeros((2, 3), np.float32)
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", 0, (2, 3))

    assert [True, False] == [rows.fits(held, n) for n in (10, 11)]
    assert [True, False] == [rows.fits(mapped, n) for n in (5, 6)]
    assert [True, False] == [rows.fits(rows.Joined([held]).as_matrix, n) for n in (5, 6)]


def test_the_limits_are_one_gib_and_64_mib() -> None:
    assert (2**30, 2**26) == (rows.HELD, rows.HELD_OF_MAPPED)


def test_only_documents_that_are_no_array_are_unheld() -> None:
    held = np.zeros((2, 3), np.float32)
    joined = rows.Joined([held])

    assert rows.unheld(held) is None
    assert rows.unheld(joined) is joined
    assert id(joined) == id(joined.as_matrix)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 3)])
def test_scratch_is_a_matrix_of_zeros_that_leaves_no_file(shape: tuple[int, int], beyond: Path) -> None:
    found = rows.scratch(*shape)

    assert shape == found.shape
    assert np.float32 == found.dtype
    assert not found.any()
    found[:] = 2.5
    assert (found == 2.5).all()
    assert [] == list(beyond.iterdir())


@pytest.mark.parametrize(("free", "refused"), [(24, False), (23, True)])
def test_room_is_enough_if_it_is_exactly_what_is_needed(
    free: int,
    refused: bool,  # noqa: FBT001
    beyond: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = shutil.disk_usage(beyond)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))

    if refused:
        with pytest.raises(InvalidData, match=r"expected room for 0\.0 GiB .*, found 0\.0 GiB; set TMPDIR"):
            rows.scratch(2, 3)
    else:
        assert (2, 3) == rows.scratch(2, 3).shape


def test_sizes_are_told_in_gib(beyond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(beyond)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3 * 2**29))

    with pytest.raises(InvalidData, match=r"expected room for 2\.5 GiB of documents .*, found 1\.5 GiB"):
        rows.scratch(5 * 2**18, 2**9)


def test_a_system_that_reserves_nothing_says_why(beyond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, begin: int, size: int) -> None:
        raise OSError(28, f"No space left on device for {size} from {begin}")

    monkeypatch.setattr(os, "posix_fallocate", full)

    with pytest.raises(InvalidData, match=r"GiB \(No space left on device for 24 from 0\); set TMPDIR"):
        rows.scratch(2, 3)
    assert beyond.is_dir()


@pytest.mark.parametrize("reserving", [True, False])
def test_a_spill_keeps_blocks_one_after_the_other(
    reserving: bool,  # noqa: FBT001
    beyond: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Systems without ``posix_fallocate`` make the file longer instead."""
    if not reserving:
        monkeypatch.delattr(os, "posix_fallocate")
    blocks = [np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(9, dtype=np.float32).reshape(3, 3) + 10]
    spill = rows.Spill()

    first, second = (spill.add(block) for block in blocks)

    np.testing.assert_array_equal(blocks[0], first[:])
    np.testing.assert_array_equal(blocks[1], second[:])
    np.testing.assert_array_equal(blocks[1][1:], second[1:])
    np.testing.assert_array_equal(blocks[1][2], second[2])
    (file,) = beyond.iterdir()
    assert 4 * (6 + 9) == file.stat().st_size
    whole = spill.whole(5, 3)
    np.testing.assert_array_equal(np.vstack(blocks), whole)
    assert not whole.flags.writeable
    del first, second, spill
    assert [file] == list(beyond.iterdir())  # as long as the matrix is there
    del whole
    assert [] == list(beyond.iterdir())


def test_room_for_each_block_of_a_spill_is_made_behind_the_others(
    beyond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved: list[tuple[int, int]] = []
    monkeypatch.setattr(rows, "_reserve", lambda _, begin, size: reserved.append((begin, size)))
    spill = rows.Spill()

    spill.add(np.ones((2, 3), np.float32))
    spill.add(np.ones((4, 3), np.float32))

    assert [(0, 24), (24, 48)] == reserved
    assert beyond.is_dir()


def test_a_spill_that_is_filled_later_begins_with_zeros(beyond: Path) -> None:
    spill = rows.Spill()
    empty = spill.empty(3, 2)

    assert not empty.any()
    empty[1] = 7
    np.testing.assert_array_equal([[0, 0], [7, 7], [0, 0]], spill.whole(3, 2))
    del empty, spill
    assert [] == list(beyond.iterdir())


def test_all_of_it_is_made_once_and_copied_only_when_asked(pair: tuple[Matrix, Matrix]) -> None:
    unheld, held = pair

    once = np.asarray(unheld)

    assert np.shares_memory(once, np.asarray(unheld))
    assert np.shares_memory(once, np.asarray(unheld, np.float32)) == (np.asarray(unheld, np.float32) is once)
    assert not np.shares_memory(once, np.array(unheld, copy=True))
    assert np.float64 == np.asarray(unheld, np.float64).dtype
    np.testing.assert_array_equal(held.astype(np.float64), np.asarray(unheld, np.float64))
    np.testing.assert_array_equal(held, np.array(unheld, copy=True))
    assert np.dtype(np.float32) == unheld.dtype
    assert 2 == unheld.ndim
    with pytest.raises(AttributeError, match="_no_such_thing"):
        _ = unheld._no_such_thing  # type: ignore[attr-defined]


def test_whether_all_values_are_finite_is_known_of_what_they_come_from(beyond: Path) -> None:
    known = rows.Joined([np.ones((4, 2), np.float32)])
    assert not known.finite
    assert not rows.Selected(known.as_matrix, np.array([0]), np.array([0, 2])).finite
    known.finite = True

    assert rows.Selected(known.as_matrix, np.array([0]), np.array([0, 2])).finite
    assert beyond.is_dir()


def test_rows_apart_are_gathered_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours come at once, whatever order they are asked for in."""
    asked: list[tuple[int, int]] = []
    joined = rows.Joined([np.arange(20, dtype=np.float32).reshape(10, 2)])
    between = rows.Joined.between

    def record(self: rows.Joined, begin: int, end: int) -> Matrix:
        asked.append((begin, end))
        return between(self, begin, end)

    monkeypatch.setattr(rows.Joined, "between", record)

    found = joined.some(np.array([5, 0, 1, 4, 2, 9]))

    assert [10, 0, 2, 8, 4, 18] == found[:, 0].tolist()
    assert [(0, 3), (4, 6), (9, 10)] == asked
    assert (0, 2) == joined.some(np.array([], np.int64)).shape


def test_documents_stay_in_memory_until_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is met, then exceeded by one document; the blocks read before it go to the file with the others."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr("localrank_training.data.sources.BLOCK", 30)
    monkeypatch.setattr("localrank_training.data.sources._PIECE", 30)
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{i % 2} qid:{i // 4} 1:{i} 2:{i + 0.5} # d{i}\n" for i in range(40)))
    whole = read([path])
    assert isinstance(whole.documents, np.ndarray)
    assert not isinstance(whole.documents, np.memmap)

    for held, mapped in ((4 * 2 * 40, False), (4 * 2 * 40 - 1, True), (4 * 2 * 17, True)):
        monkeypatch.setattr(rows, "HELD", held)

        found = read([path])

        assert mapped == isinstance(found.documents, np.memmap)
        np.testing.assert_array_equal(whole.documents, found.documents)
        np.testing.assert_array_equal(whole.labels, found.labels)
        assert list(whole.comments or ()) == list(found.comments or ())
        assert [] == [one for one in folder.iterdir() if not mapped]
        del found
        assert [] == list(folder.iterdir())


def test_sparse_blocks_between_dense_ones_come_together(
    beyond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrank_training.data.sources.BLOCK", 20)
    monkeypatch.setattr("localrank_training.data.sources._PIECE", 20)
    lines = [
        "1 qid:a 1:1 2:2 3:3\n",
        "0 qid:a 1:4 2:5 3:6\n",
        "0 qid:b 3:7\n",
        "2 qid:b 1:8\n",
        "1 qid:c 1:9 2:1 3:2\n",
    ]
    (tmp_path / "a.txt").write_text("".join(lines))

    found = read([tmp_path / "a.txt"])

    assert [[1, 2, 3], [4, 5, 6], [0, 0, 7], [8, 0, 0], [9, 1, 2]] == found.documents.tolist()
    assert [1, 0, 0, 2, 1] == found.labels.tolist()
    assert isinstance(found.documents, np.memmap)
    assert beyond.is_dir()


def test_pages_that_were_looked_at_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what lies below: the first to the last row that was needed, of each part."""
    seen: list[tuple[int, int, int]] = []
    monkeypatch.setattr(rows, "forget", lambda part, begin, end: seen.append((len(part), begin, end)))
    first, second = np.zeros((4, 2), np.float32), np.ones((6, 2), np.float32)
    joined = rows.Joined([first, second])

    joined.between(2, 7)
    assert [(4, 2, 4), (6, 0, 3)] == seen

    seen.clear()
    rows.Selected(second, np.array([4, 1]), np.array([0, 2, 4])).some(np.array([0, 2, 3]))
    assert [(6, 1, 5)] == seen

    seen.clear()
    rows.Selected(second, np.array([4, 1]), np.array([0, 2, 4])).some(np.array([], np.int64))
    assert [] == seen


def test_a_million_numbers_are_looked_at_at_a_time() -> None:
    assert 2**20 == rows.CELLS


def test_a_part_that_ends_where_another_begins_gives_nothing() -> None:
    parts = [np.full((n, 1), n, np.float32) for n in (2, 3, 1)]
    joined = rows.Joined(parts)

    assert (6, 1) == joined.shape
    for begin in range(7):
        for end in range(begin, 7):
            assert np.concatenate(parts)[begin:end].tolist() == joined.between(begin, end).tolist()
