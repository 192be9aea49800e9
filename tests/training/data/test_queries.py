"""Judged queries, in memory or not: the same numbers, whatever is held."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from localrank.errors import InvalidData
from localrank.features.contract import FeatureContract
from localrank_training.data import queries as queries_module
from localrank_training.data import rows, sources
from localrank_training.data.clouds import Clouds
from localrank_training.data.queries import (
    Gap,
    Origin,
    QuerySet,
    Texts,
    concatenated,
    default_names,
    repeated,
)
from localrank_training.data.reading import read, read_table
from localrank_training.data.rows import Rows
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.data.writing import write
from tests.training.data.sets import put

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Matrix


@pytest.fixture
def beyond(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let nothing fit into memory, and return the folder for temporary files."""
    monkeypatch.setattr(rows, "HELD", 0)
    monkeypatch.setattr(rows, "HELD_OF_MAPPED", 0)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def six() -> QuerySet:
    """Six queries of 1, 4, 2, 3, 1 and 5 documents of two features, with everything that a set may have."""
    lengths = [1, 4, 2, 3, 1, 5]
    return QuerySet(
        documents=np.arange(32, dtype=np.float32).reshape(16, 2),
        labels=np.arange(16.0),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        query_ids=tuple("abcdef"),
        feature_names=("f1", "f2"),
        lines=np.arange(16)[::-1].copy(),
        comments=tuple(f"d{i}" for i in range(16)),
        weights=np.arange(6.0) + 1,
        positions=np.arange(16) * 10,
    )


# --------------------------------------------------------------------------------------------------------- queries


@pytest.mark.parametrize(
    ("names", "found"), [((), None), (("a",), None), (("a", "b", "c", "b", "a"), "b"), (("", ""), "")]
)
def test_the_first_name_that_was_there_before_is_found(names: tuple[str, ...], found: str | None) -> None:
    assert found == repeated(names)
    assert ("f1", "f2", "f3") == default_names(3)


def test_a_gap_says_what_was_found_and_what_was_made_of_it() -> None:
    expected = (
        "a.txt: 2 of 9 lines lack features that other lines have, first line 4 without feature 3; "
        "these are read as zeros"
    )

    assert expected == str(Gap("a.txt", 4, 3, 2, 9))


def test_an_origin_finds_the_file_of_each_document() -> None:
    origin = Origin(("a", "b", "c"), np.array([0, 2, 3]), np.array([1, 5, 2, 7, 8], np.int32))

    assert ["a:1", "a:5", "b:2", "c:7", "c:8"] == [origin.of(position) for position in range(5)]


def test_a_set_is_looked_at_query_by_query(six: QuerySet) -> None:
    assert (6, 16, 2) == (len(six), six.n_docs, six.n_features)
    assert [1, 4, 2, 3, 1, 5] == six.lengths.tolist() == [len(cloud) for cloud in six.clouds()]
    assert [0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 5, 5, 5, 5] == six.query_of.tolist()
    assert (slice(5, 7), [5, 6]) == (six.span(2), six.labels_of(2).tolist())
    assert [[10, 11], [12, 13]] == six.documents_of(2).tolist() == six.lists[2].tolist()
    assert [[[10, 11], [12, 13]], [[20, 21]]] == [documents.tolist() for documents in six.lists[2::2]]
    np.testing.assert_array_equal(six.documents_of(5), six.lists[-1])
    with pytest.raises(IndexError):
        six.lists[6]
    assert six is six.held()
    assert ["query 'a'", "query 'b'", "query 'b'", "query 'f'"] == [six.where(i) for i in (0, 1, 4, 15)]


@pytest.mark.parametrize(
    ("cells", "portions"),
    [
        (10, [(0, 2), (2, 4), (4, 5), (5, 6)]),  # five documents
        (12, [(0, 2), (2, 5), (5, 6)]),
        (8, [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6)]),
        (0, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]),
        (1 << 20, [(0, 6)]),
    ],
)
def test_portions_are_as_many_whole_queries_as_fit(
    six: QuerySet, cells: int, portions: list[tuple[int, int]]
) -> None:
    assert portions == list(six.portions(cells))


@pytest.mark.parametrize("held", [1 << 30, 0])
def test_chosen_queries_keep_everything_of_their_documents(
    six: QuerySet, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(rows, "HELD", held)

    chosen = six.select([4, 3, 0]).select([1, 2])

    assert ("d", "a") == chosen.query_ids
    assert [0, 3, 4] == chosen.offsets.tolist()
    assert ([7, 8, 9, 0], [8, 7, 6, 15]) == (chosen.labels.tolist(), chosen.lines.tolist())
    assert [[14, 15], [16, 17], [18, 19], [0, 1]] == chosen.documents[:].tolist()
    assert ["d7", "d8", "d9", "d0"] == list(chosen.comments or ())
    np.testing.assert_array_equal([4, 1], chosen.weights)
    np.testing.assert_array_equal([70, 80, 90, 0], chosen.positions)


def test_texts_are_a_sequence_in_any_order() -> None:
    texts = Texts(pa.array(["a", None, "bc", "é"])).take(np.array([3, 2, 1, 0]))

    assert ["é", "bc", "", "a"] == list(texts)
    assert ("bc", "") == texts[1:3]
    assert ("a", "é", 4) == (texts[-1], texts[0], len(texts))
    assert ["bc", "é"] == texts.arrow(np.array([1, 0])).to_pylist()
    assert ("é", "a") == tuple(pickle.loads(pickle.dumps(texts.take(np.array([0, 3])))))
    assert texts == ("é", "bc", "", "a")
    for other in (["é", "bc", ""], ["é", "bc", "", "x"], {"a", "bc", "", "é"}, 2):
        assert texts != other
    with pytest.raises(IndexError):
        texts[4]


def test_joined_queries_keep_what_all_have(six: QuerySet, tmp_path: Path) -> None:
    """Queries without weights count one beside others, and documents without places were not shown."""
    plain = replace(six, weights=None, positions=None)
    both, neither = concatenated([six, plain]), concatenated([plain, plain])

    assert six is concatenated([six])
    assert both.weights is not None
    assert both.positions is not None
    assert [1, 2, 3, 4, 5, 6, *[1] * 6] == both.weights.tolist()
    assert [*range(0, 160, 10), *[0] * 16] == both.positions.tolist()
    assert (None, None, None) == (neither.weights, neither.positions, both.comments)
    assert [*six.offsets.tolist(), *(six.offsets[1:] + 16).tolist()] == both.offsets.tolist()
    assert [*range(16), *range(16)] == both.labels.tolist()
    assert tuple("abcdef") * 2 == both.query_ids
    a, b = (read(put(tmp_path / name, f"1 qid:{name} 1:1\n")) for name in "ab")
    assert concatenated([a, b]).origin is None
    assert a.origin is concatenated([a, a.select([0])]).origin


def test_pages_of_a_mapped_file_are_given_back_when_they_were_seen(
    six: QuerySet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(queries_module, "forget", lambda _, begin, end: seen.append((begin, end)))
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", 0, (16, 2))
    mapped[:] = six.documents
    stored = six.with_documents(mapped)

    documents = stored.documents_of(2)

    assert ([(5, 7)], [[10, 11], [12, 13]]) == (seen, documents.tolist())
    assert not isinstance(documents, np.memmap)
    assert np.shares_memory(six.documents, six.documents_of(2))
    seen.clear()
    assert [(0, 2), (2, 4), (4, 5), (5, 6)] == list(stored.portions(10))
    assert [(0, 5), (5, 10), (10, 11), (11, 16)] == seen


# ------------------------------------------------------------------------------------------------- beyond memory

CHOSEN = np.array([7, 2, 3, 4, 14])


def made(missing: float = 0.0) -> QuerySet:
    return synthesize(15, Recipe(documents=(1, 9), features=5, missing=missing))[0]


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
        patch.setattr(rows, "HELD_OF_MAPPED", 1 << 30)
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
    np.testing.assert_array_equal(held[held[:, 0] > 0], unheld[held[:, 0] > 0])


def test_what_asks_for_all_of_it_gets_one_array_outside_of_memory(pair: tuple[Matrix, Matrix]) -> None:
    unheld, held = pair

    once = np.asarray(unheld)

    assert not once.flags.owndata
    np.testing.assert_array_equal(held, once)
    np.testing.assert_array_equal(held.T @ held, unheld.T @ unheld)
    np.testing.assert_array_equal(held != held[0], unheld != held[0])
    sizes = [(one.shape, one.size, one.nbytes, one.ndim, one.dtype, len(one)) for one in pair]
    assert sizes[0] == sizes[1]
    assert np.shares_memory(once, np.asarray(unheld))
    assert not np.shares_memory(once, np.array(unheld, copy=True))
    np.testing.assert_array_equal(held.astype(np.float64), np.asarray(unheld, np.float64))
    # It is not sent to other processes.
    np.testing.assert_array_equal(held, pickle.loads(pickle.dumps(unheld))[:])
    assert len(pickle.dumps(unheld)) < 100_000
    with pytest.raises(AttributeError, match="_no_such_thing"):
        _ = unheld._no_such_thing  # type: ignore[attr-defined]


def test_each_query_comes_as_it_would_from_memory(beyond: Path) -> None:
    queries = made()
    order = np.arange(len(queries))[::-1]

    chosen = queries.select(order)

    for number, documents in enumerate(chosen.clouds()):
        np.testing.assert_array_equal(queries.documents_of(int(order[number])), documents)
        np.testing.assert_array_equal(documents, chosen.lists[number])
    assert beyond.is_dir()


@pytest.mark.parametrize("most", [4 * 64 - 1, 4 * 64])
def test_a_set_is_held_in_memory_if_it_is_not_too_large(
    six: QuerySet, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    apart = six.with_documents(rows.StackedRows([six.documents, six.documents]).as_matrix)
    monkeypatch.setattr(queries_module, "HELD", most)

    held = apart.held().documents

    np.testing.assert_array_equal(np.vstack([six.documents] * 2), held)
    assert (most == 4 * 64) == held.flags.owndata


def test_what_fits_is_exactly_as_large_as_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Four bytes for each number; mapped documents have a limit of their own."""
    assert (2**30, 2**26, 2**20) == (rows.HELD, rows.HELD_OF_MAPPED, rows.CELLS)
    monkeypatch.setattr(rows, "HELD", 4 * 3 * 10)
    monkeypatch.setattr(rows, "HELD_OF_MAPPED", 4 * 3 * 5)
    held = np.zeros((2, 3), np.float32)
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", 0, (2, 3))

    assert [True, False] == [rows.fits(held, n) for n in (10, 11)]
    assert [True, False] == [rows.fits(mapped, n) for n in (5, 6)]
    assert [True, False] == [rows.fits(rows.StackedRows([held]).as_matrix, n) for n in (5, 6)]
    assert [False, True] == [isinstance(rows.room(n, 3), np.memmap) for n in (10, 11)]


def test_rows_apart_are_gathered_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours come at once, whatever order they are asked for in; pages that were looked at are given back."""
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(rows, "forget", lambda part, begin, end: asked.append((len(part), begin, end)))
    parts = [np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(8, 20, dtype=np.float32).reshape(6, 2)]
    joined = rows.StackedRows(parts)

    assert [10, 0, 2, 8, 4, 18] == joined.some(np.array([5, 0, 1, 4, 2, 9]))[:, 0].tolist()
    assert [(4, 0, 3), (6, 0, 2), (6, 5, 6)] == asked

    asked.clear()
    chosen = rows.Selected(parts[1], np.array([4, 1]), np.array([0, 2, 4]))
    assert [16, 10, 12] == chosen.some(np.array([0, 2, 3]))[:, 0].tolist()
    assert [(6, 1, 5)] == asked
    assert (0, 2) == chosen.some(np.array([], np.int64)).shape == joined.some(np.array([], np.int64)).shape
    for begin in range(11):
        for end in range(begin, 11):
            np.testing.assert_array_equal(np.vstack(parts)[begin:end], joined.between(begin, end))


def test_whether_all_values_are_finite_is_known_of_what_they_come_from() -> None:
    known = rows.StackedRows([np.ones((4, 2), np.float32)])
    assert not rows.Selected(known.as_matrix, np.array([0]), np.array([0, 2])).finite
    known.finite = True

    assert rows.Selected(known.as_matrix, np.array([0]), np.array([0, 2])).finite


# ------------------------------------------------------------------------------------------------ temporary files


@pytest.mark.parametrize("name", ["a.parquet", "a.txt", "a.arrow"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_files_of_more_than_memory_are_mapped(
    beyond: Path, tmp_path: Path, name: str, missing: float
) -> None:
    queries = made(missing)
    write(queries, tmp_path / name)

    found = read([tmp_path / name])

    assert isinstance(found.documents, np.memmap)
    np.testing.assert_array_equal(queries.documents, found.documents)
    np.testing.assert_array_equal(queries.labels, found.labels)
    assert queries.query_ids == found.query_ids
    assert [] == list(beyond.iterdir())  # temporary files have no names


@pytest.mark.parametrize("held", [4 * 2 * 40, 4 * 2 * 40 - 1, 4 * 2 * 17, 0])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_documents_stay_in_memory_until_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, *, apart: bool, sparse: bool
) -> None:
    """The limit is met, then exceeded by one document; the blocks read before it go to the file with the others."""
    monkeypatch.setattr(sources, "BLOCK", 30)
    monkeypatch.setattr(sources, "_PIECE", 30)
    queries = [i % 7 if apart else i // 6 for i in range(40)]
    lines = [
        f"1 qid:{q} " + ("" if sparse and i % 3 else f"1:{i} ") + f"2:{i}.5 # é{i}"
        for i, q in enumerate(queries)
    ]
    path = put(tmp_path / "a.txt", "\n".join(lines))
    whole = read([path])
    monkeypatch.setattr(rows, "HELD", held)

    found = read([path])

    assert not isinstance(whole.documents, np.memmap)
    assert (held < 4 * 2 * 40) == isinstance(found.documents, np.memmap)
    np.testing.assert_array_equal(whole.documents, found.documents)
    np.testing.assert_array_equal(whole.lines, found.lines)
    assert whole.comments == found.comments


def test_what_is_read_of_more_than_memory_holds_a_few_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "HELD", 1 << 20)
    n = 200_000
    table = {"label": np.zeros(n), "qid": np.repeat(np.arange(n // 100), 100)}
    put(tmp_path / "a.parquet", table | {f"x{i}": np.arange(n, dtype=np.float32) for i in range(40)})

    found = read([tmp_path / "a.parquet"])

    assert isinstance(found.documents, np.memmap)
    assert (found.documents[::1000, 39] == np.arange(0, n, 1000)).all()


@pytest.mark.parametrize(("free", "refused"), [(24, False), (23, True)])
def test_a_full_disk_is_told_of_before_the_work(
    beyond: Path, monkeypatch: pytest.MonkeyPatch, free: int, *, refused: bool
) -> None:
    usage = shutil.disk_usage(beyond)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))

    if not refused:
        found = rows.scratch(2, 3)
        assert ((2, 3), False) == (found.shape, bool(found.any()))
        found[:] = 2.5
        return
    for work in (lambda: rows.scratch(2, 3), lambda: rows.ScratchFile().add(np.ones(6, np.float32))):
        with pytest.raises(InvalidData) as caught:
            work()
        assert str(caught.value) == (
            f"{beyond}: expected room for 0.0 GiB of documents that do not fit into memory, found 0.0 GiB; set TMPDIR to "
            "another folder"
        )


def test_sizes_and_reasons_of_the_system_are_told(beyond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(beyond)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3 * 2**29))
        with pytest.raises(InvalidData, match=r"expected room for 2\.5 GiB of documents .*, found 1\.5 GiB"):
            rows.scratch(5 * 2**18, 2**9)

    def full(_file: int, begin: int, size: int) -> None:
        raise OSError(28, f"No space left on device for {size} from {begin}")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InvalidData, match=r"GiB \(No space left on device for 24 from 0\); set TMPDIR"):
        rows.scratch(2, 3)


@pytest.mark.parametrize("reserving", [True, False])
def test_a_store_keeps_arrays_one_after_the_other(
    beyond: Path, monkeypatch: pytest.MonkeyPatch, *, reserving: bool
) -> None:
    """Systems without ``posix_fallocate`` make the file longer instead."""
    if not reserving:
        monkeypatch.delattr(os, "posix_fallocate")
    store = rows.ScratchFile()
    first, second = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(9, dtype=np.float32).reshape(3, 3)

    assert [0, 24] == [store.add(first), store.add(first)]
    store.cut(24)
    assert 24 == store.add(second)

    np.testing.assert_array_equal(second, store.read(24, np.float32, (3, 3)))
    whole = store.mapped(0, np.float32, (5, 3))
    del store
    np.testing.assert_array_equal(np.vstack([first, second]), whole)
    assert not whole.flags.writeable
    assert [] == list(beyond.iterdir())


def test_a_table_in_memory_may_be_too_large_to_be_copied(beyond: Path) -> None:
    found = read_table({"label": [1, 0, 2], "qid": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})

    assert isinstance(found.documents, np.memmap)
    assert ([[1], [3], [2]], [0, 2, 1]) == (found.documents.tolist(), found.lines.tolist())
    assert beyond.is_dir()
