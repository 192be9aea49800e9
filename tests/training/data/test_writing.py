from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from localrank.errors import InvalidData
from localrank_training.data import parquet, scanning, sources, writing
from localrank_training.data.columns import Columns
from localrank_training.data.mapped import StoredComments
from localrank_training.data.reading import read
from localrank_training.data.splitting import split
from localrank_training.data.synthetic import Drawn, Recipe, synthesize
from tests.training.data.sets import query_set

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet

FORMATS = writing.FORMATS


def assert_same(expected: QuerySet, actual: QuerySet) -> None:
    missing = np.isnan(expected.documents)
    np.testing.assert_array_equal(missing, np.isnan(actual.documents))
    assert (
        np.where(missing, 0, expected.documents).astype(np.float32).tobytes()
        == np.where(missing, 0, actual.documents).astype(np.float32).tobytes()
    )
    assert np.float32 == actual.documents.dtype
    assert expected.labels.tobytes() == actual.labels.tobytes()
    np.testing.assert_array_equal(expected.offsets, actual.offsets)
    np.testing.assert_array_equal(expected.lines, actual.lines)
    assert expected.query_ids == actual.query_ids
    assert expected.feature_names == actual.feature_names
    assert texts_of(expected) == texts_of(actual)


def texts_of(queries: QuerySet) -> tuple[str, ...] | None:
    """Comments that are all empty are as good as none."""
    return None if queries.comments is None or not any(queries.comments) else tuple(queries.comments)


FINITE32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
COMMENT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\x00"), max_size=12)
QUERY_ID = st.text(
    st.characters(min_codepoint=33, exclude_categories=["Cs"], exclude_characters="#"), min_size=1
)
NAME = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda name: name == name.strip()
)


@st.composite
def query_sets(draw: st.DrawFn) -> QuerySet:
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    value = draw(st.sampled_from([FINITE32, st.sampled_from([0.0, 1.0]), FINITE32 | st.just(np.nan)]))
    documents = draw(hnp.arrays(np.float32, (n, m), elements=value))
    queries = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return query_set(
        documents,
        queries,
        draw(st.lists(st.floats(0, allow_infinity=False), min_size=n, max_size=n)),
        names=draw(st.none() | st.lists(NAME, min_size=m, max_size=m, unique=True)),
        comments=draw(st.none() | st.lists(COMMENT, min_size=n, max_size=n)),
        ids=draw(st.lists(QUERY_ID, min_size=4, max_size=4, unique=True)),
    )


@pytest.mark.parametrize("to", FORMATS)
@settings(max_examples=60)
@given(queries=query_sets(), sparse=st.sampled_from([None, True, False]))
def test_what_is_written_reads_back_as_the_same(
    to: writing.Format,
    sparse: bool | None,  # noqa: FBT001
    queries: QuerySet,
    tmp_path: Path,
) -> None:
    path = tmp_path / "set"

    writing.write(queries, path, to=to, sparse=sparse, overwrite=True)

    assert_same(queries, read([path], columns=Columns(sparse=sparse is True)))
    assert {"set", "set.names"} >= {entry.name for entry in tmp_path.iterdir()}


def test_a_tour_through_all_formats_is_the_identity(
    tmp_path: Path, mixed: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BLOCK", 2000)
    monkeypatch.setattr(sources, "_PIECE", 500)
    monkeypatch.setattr(scanning, "_CELLS", 300)
    monkeypatch.setattr(parquet, "_CELLS_READ", 500)
    monkeypatch.setattr(parquet, "_CELLS_WRITTEN", 1000)
    before = tmp_path / "mixed.txt"

    for step, to in enumerate(["parquet", "mapped", "gz", "mapped", "zst", "parquet", "text"]):
        after = tmp_path / f"step{step}"
        assert 500 == writing.convert([before], after, to=to)  # type: ignore[arg-type]
        assert_same(mixed, read([after]))
        before = after

    assert (tmp_path / "mixed.txt").read_bytes() == before.read_bytes()


def test_the_name_says_the_format() -> None:
    names = ["a.txt", "a", "a.gz", "a.txt.zst", "a.parquet", "a/"]

    assert ["text", "text", "gz", "zst", "parquet", "mapped"] == [writing.format_of(name) for name in names]


def test_the_mapped_form_is_opened_without_being_read(tmp_path: Path, mixed: QuerySet) -> None:
    writing.convert([tmp_path / "mixed.txt"], tmp_path / "mapped", to="mapped")

    opened = read([tmp_path / "mapped"])

    assert isinstance(opened.documents, np.memmap)
    assert not opened.documents.flags.writeable
    assert isinstance(opened.comments, StoredComments)
    assert mixed.comments is not None
    assert mixed.comments[3] == opened.comments[3]
    assert mixed.comments[-1] == opened.comments[-1]
    assert tuple(mixed.comments[2:5]) == opened.comments[2:5]
    with pytest.raises(IndexError):
        opened.comments[500]
    assert_same(mixed.select([3, 1]), opened.select([3, 1]))


def test_most_zeros_are_left_out_of_text(tmp_path: Path) -> None:
    documents = np.zeros((3, 4), np.float32)
    documents[1, 1] = 0.5

    writing.write(query_set(documents, [1, 1, 2], [0, 1, 2]), tmp_path / "sparse.txt")
    writing.write(query_set(documents, [1, 1, 2], [0, 1, 2]), tmp_path / "dense.txt", sparse=False)

    assert "0 qid:q1 4:0\n1 qid:q1 2:0.5\n2 qid:q2\n" == (tmp_path / "sparse.txt").read_text()
    assert "0 qid:q1 1:0 2:0 3:0 4:0\n" == (tmp_path / "dense.txt").read_text().splitlines(keepends=True)[0]


def test_compressed_text_is_the_same_every_time(tmp_path: Path, mixed: QuerySet) -> None:
    for name in ("a.gz", "b.gz"):
        writing.write(mixed, tmp_path / name)

    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert (tmp_path / "mixed.txt").read_bytes() == gzip.decompress((tmp_path / "a.gz").read_bytes())


def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path, mixed: QuerySet) -> None:
    path = tmp_path / "mixed.txt"
    before = path.read_bytes()

    with pytest.raises(InvalidData, match="expected a name that is not in use"):
        writing.write(mixed.select([0]), path)
    assert before == path.read_bytes()

    writing.write(mixed.select([0]), path, overwrite=True)
    assert 1 == len(read([path]))
    writing.write(mixed, tmp_path / "mapped", to="mapped")
    writing.write(mixed.select([0]), tmp_path / "mapped", to="mapped", overwrite=True)
    assert 1 == len(read([tmp_path / "mapped"]))


def test_stale_names_go_when_the_data_are_replaced(tmp_path: Path, mixed: QuerySet) -> None:
    plain = query_set(mixed.documents, [0] * 500, mixed.labels.tolist())

    writing.write(plain, tmp_path / "mixed.txt", overwrite=True)

    assert plain.feature_names == read([tmp_path / "mixed.txt"]).feature_names


@pytest.mark.parametrize("to", FORMATS)
def test_bad_input_leaves_nothing_behind(tmp_path: Path, to: writing.Format) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.txt").write_text("1 qid:1 1:1\n" * 100 + "1 qid:1 1:oops\n")
    out = tmp_path / "out"
    out.mkdir()

    with pytest.raises(InvalidData, match=r"a\.txt:101:11: "):
        writing.convert([source], out / "x", to=to)
    with pytest.raises(InvalidData, match=r"a\.txt:101:11: "):
        split([source], out / "x", folds=3)

    assert [] == list(out.iterdir())


@pytest.mark.parametrize("to", FORMATS)
def test_a_failure_in_the_middle_of_writing_leaves_nothing_behind(
    tmp_path: Path, mixed: QuerySet, to: writing.Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(sources, "BLOCK", 2000)
    monkeypatch.setattr(sources, "_PIECE", 500)

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scanning.Block, "fill", full)
    monkeypatch.setattr(scanning.Block, "dense", full)

    with pytest.raises(InvalidData, match="x: cannot be written: No space left on device"):
        writing.convert([tmp_path / "mixed.txt"], out / "x", to=to)

    assert [] == list(out.iterdir())
    assert 500 == mixed.n_docs


def test_input_that_changes_while_it_is_converted_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("1 qid:1 1:1\n0 qid:2 1:1\n")

    def grow(task: str, _done: int, _total: int) -> None:
        if task == "converting":
            path.write_text("1 qid:1 1:1\n0 qid:2 1:1\n0 qid:3 1:1\n")

    path.write_text("1 qid:1 1:1\n0 qid:2 1:1\n")
    with pytest.raises(InvalidData, match="expected input that does not change while it is read twice"):
        writing.convert([path], tmp_path / "out.txt", progress=grow)

    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ids": ["a b"]}, "found 'a b'"),
        ({"ids": [""]}, "found ''"),
        ({"ids": ["a#"]}, "found 'a#'"),
        ({"comments": ["a\nb"]}, "with a line feed"),
        ({"comments": ["a\r"]}, "with a carriage return"),
        ({"comments": ["a\rb"]}, "with a carriage return"),
        ({"names": [" a", "b"]}, "feature names that fit on a line, found ' a'"),
        ({"names": ["a\nb", "b"]}, "feature names that fit on a line"),
    ],
)
def test_what_text_cannot_hold_is_refused(tmp_path: Path, change: dict[str, list[str]], words: str) -> None:
    queries = query_set(np.ones((1, 2), np.float32), [0], [1.0], **change)

    with pytest.raises(InvalidData) as caught:
        writing.write(queries, tmp_path / "x.txt")

    assert words in str(caught.value)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"names": ["a", "b", "a"]}, "expected every feature name once, found 'a' again"),
        ({"ids": ["x", "x"]}, "expected every query id once, found 'x' again"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, to: writing.Format, change: dict[str, list[str]], words: str
) -> None:
    queries = query_set(np.ones((2, 3), np.float32), [0, 1], [1.0, 0.0], **change)

    with pytest.raises(InvalidData) as caught:
        writing.write(queries, tmp_path / "out", to=to)

    assert f"{tmp_path / 'out'}: {words}" == str(caught.value)
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, mixed: QuerySet) -> None:
    with pytest.raises(InvalidData, match="found none at"):
        writing.write(mixed, tmp_path / "no" / "x.txt")


# ---------------------------------------------------------------------------------------------------------- split


# -------------------------------------------------------------------------------------------------------- parquet


def parquet_file(path: Path, columns: dict[str, object], metadata: dict[bytes, bytes] | None = None) -> Path:
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    return path


def refused(path: Path) -> str:
    with pytest.raises(InvalidData) as caught:
        read([path])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_columns_of_numbers_are_features_and_null_is_missing(tmp_path: Path) -> None:
    path = parquet_file(
        tmp_path / "x",
        {
            "qid": [7, 8, 7],
            "document_id": ["a", None, "c"],
            "bm25": pa.array([0.5, None, 2], pa.float64()),
            "url": ["u", "v", "w"],
            "clicks": pa.array([1, 2, None], pa.int64()),
            "fresh": [True, False, True],
            "label": pa.array([2, 0, 1], pa.int8()),
        },
    )

    queries = read([path])

    assert ("7", "8") == queries.query_ids
    assert ("bm25", "clicks", "fresh") == queries.feature_names
    np.testing.assert_array_equal([[0.5, 1, 1], [2, np.nan, 1], [np.nan, 2, 0]], queries.documents)
    assert [2, 1, 0] == queries.labels.tolist()
    assert queries.comments is not None
    assert ("a", "c", "") == tuple(queries.comments)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float64(), 2), pa.list_(pa.float32()), pa.large_list(pa.int32())]
)
def test_one_list_column_holds_the_features(tmp_path: Path, kind: object) -> None:
    features = pa.array([[1, 2], [3, None]], kind)

    queries = read([parquet_file(tmp_path / "x", {"label": [1, 0], "qid": ["a", "b"], "features": features})])

    assert ("f1", "f2") == queries.feature_names
    np.testing.assert_array_equal([[1, 2], [3, np.nan]], queries.documents)


def test_partitions_may_order_their_columns_differently(tmp_path: Path) -> None:
    parquet_file(tmp_path / "a.parquet", {"label": [1], "qid": ["a"], "x": [1.0], "y": [2.0]})
    parquet_file(tmp_path / "b.parquet", {"label": [1], "qid": ["b"], "y": [4.0], "x": [3.0]})

    assert [[1, 2], [3, 4]] == read([tmp_path]).documents.tolist()

    parquet_file(tmp_path / "a.parquet", {"label": [1], "qid": ["a"], "f1": [1.0], "f2": [2.0]})
    parquet_file(tmp_path / "b.parquet", {"label": [1], "qid": ["b"], "f2": [4.0], "f1": [3.0]})

    assert [[1, 2], [3, 4]] == read([tmp_path]).documents.tolist()


def test_named_lists_are_put_in_order_too(tmp_path: Path) -> None:
    for name, names, features in (("a", '["x", "y"]', [[1.0, 2.0]]), ("b", '["y", "x"]', [[4.0, 3.0]])):
        columns = {"label": [1], "qid": [name], "features": features}
        parquet_file(tmp_path / name, columns, {b"localrank.feature_names": names.encode()})

    queries = read([tmp_path])

    assert ("x", "y") == queries.feature_names
    assert [[1, 2], [3, 4]] == queries.documents.tolist()


@pytest.mark.parametrize("names", [b"{", b"[1]", b'["x", "x"]', b"\xff"])
def test_names_in_metadata_must_be_names(tmp_path: Path, names: bytes) -> None:
    columns = {"label": [1], "qid": ["a"], "features": [[1.0, 2.0]]}
    path = parquet_file(tmp_path / "x", columns, {b"localrank.feature_names": names})

    assert "expected a list of different names in its metadata, found b" in refused(path)


def test_rows_are_counted_through_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_CELLS_READ", 1)
    values = [1.0] * 300
    values[250] = float("inf")
    path = parquet_file(tmp_path / "x", {"label": [1] * 300, "qid": ["a"] * 300, "x": values})

    assert f"{path}: row 251, column 'x': expected a finite value, found inf" == refused(path)


GOOD = {"label": [1.0, 0.0], "qid": ["a", "b"], "x": [1.0, 2.0]}

BAD_PARQUET = {
    "no label": ({"qid": ["a"], "x": [1.0]}, "expected a column 'label', found 'qid', 'x'"),
    "no qid": ({"label": [1], "x": [1.0]}, "expected a column 'qid', found 'label', 'x'"),
    "no features": ({"label": [1], "qid": ["a"], "t": ["u"]}, "expected columns of numbers as features"),
    "no rows": (
        {"label": pa.array([], pa.int8()), "qid": pa.array([], pa.string()), "x": pa.array([], pa.int8())},
        "no rows",
    ),
    "label of text": (GOOD | {"label": ["1", "0"]}, "expected numbers as 'label', found text"),
    "qid of reals": (GOOD | {"qid": [1.5, 2.0]}, "expected text or integers as 'qid', found double"),
    "null label": (GOOD | {"label": [1.0, None]}, "row 2, column 'label': expected a value, found nothing"),
    "null qid": (GOOD | {"qid": ["a", None]}, "row 2, column 'qid': expected a value, found nothing"),
    "nan label": (
        GOOD | {"label": [1.0, float("nan")]},
        "row 2, column 'label': expected a finite label of at least 0, found nan",
    ),
    "inf": (GOOD | {"x": [1.0, float("-inf")]}, "row 2, column 'x': expected a finite value, found -inf"),
    "beyond float32": (
        GOOD | {"x": [1.0, 1e39]},
        "row 2, column 'x': expected a value within the range of float32",
    ),
    "beyond float32 in a list": (
        {"label": [1.0], "qid": ["a"], "features": pa.array([[1.0, 1e39]])},
        "row 1, column 'f2': expected a value within the range of float32 (at most 3.4028235e38), found 1e+39",
    ),
    "ragged list": (
        {"label": [1.0, 1.0], "qid": ["a", "b"], "features": pa.array([[1.0], [1.0, 2.0]])},
        "row 2, column 'features': expected 1 values, found 2",
    ),
    "null list": (
        {"label": [1.0, 1.0], "qid": ["a", "b"], "features": pa.array([[1.0], None])},
        "row 2, column 'features': expected a list of values, found nothing",
    ),
}


@pytest.mark.parametrize("case", BAD_PARQUET)
def test_what_is_wrong_with_parquet_is_said_with_row_and_column(tmp_path: Path, case: str) -> None:
    columns, words = BAD_PARQUET[case]
    path = parquet_file(tmp_path / "x.parquet", dict(columns))

    message = refused(path)

    assert message.startswith(f"{path}: ")
    assert words in message


def test_a_truncated_parquet_file_is_refused(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "x.parquet", GOOD)
    path.write_bytes(path.read_bytes()[:-20])

    assert f"{path}: expected a whole Parquet file, found damage" in refused(path)


def test_damage_inside_a_parquet_file_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = parquet_file(
        tmp_path / "x.parquet", {"label": [1.0] * 999, "qid": ["a"] * 999, "x": rng.random(999)}
    )
    content = bytearray(path.read_bytes())
    content[100:2000] = b"\xff" * 1900
    path.write_bytes(content)

    assert f"{path}: " in refused(path)


def test_partitions_with_other_columns_are_refused(tmp_path: Path) -> None:
    a = parquet_file(tmp_path / "a.parquet", {"label": [1], "qid": ["a"], "x": [1.0], "y": [2.0]})
    b = parquet_file(tmp_path / "b.parquet", {"label": [1], "qid": ["b"], "x": [4.0]})

    assert f"{b}: expected the features of {a}, found nothing instead of 'y' as feature 2" == refused(
        tmp_path
    )


def test_features_named_like_reserved_columns_survive(tmp_path: Path) -> None:
    queries = query_set(np.ones((1, 2), np.float32), [0], [1.0], names=["label", "features"])

    writing.write(queries, tmp_path / "x.parquet")

    assert_same(queries, read([tmp_path / "x.parquet"]))


@pytest.mark.parametrize("to", ["text", "parquet", "mapped"])
def test_unnamed_features_must_be_as_many_as_asked_for(tmp_path: Path, to: writing.Format) -> None:
    plain = query_set(np.eye(12, 3, dtype=np.float32), [0] * 12, [1.0] * 12)
    writing.write(plain, tmp_path / "set", to=to, sparse=False)

    with pytest.raises(InvalidData, match="expected 4 features"):
        read([tmp_path / "set"], n_features=4)
    if to != "text":
        more = query_set(np.ones((1, 4), np.float32), [9], [1.0])
        writing.write(more, tmp_path / "more", to=to)
        with pytest.raises(InvalidData, match=r"expected (3 features|the features of)"):
            read([tmp_path / "set", tmp_path / "more"])


def test_sources_of_all_kinds_may_be_mixed(tmp_path: Path) -> None:
    sets = [query_set(np.full((2, 3), i, np.float32), [i] * 2, [float(i), 0.0]) for i in range(len(FORMATS))]
    for queries, to in zip(sets, FORMATS, strict=True):
        writing.write(queries, tmp_path / to, to=to)

    mixed = read([tmp_path / to for to in FORMATS])

    assert ("q0", "q1", "q2", "q3", "q4") == mixed.query_ids
    np.testing.assert_array_equal(np.vstack([queries.documents for queries in sets]), mixed.documents)
    assert list(range(10)) == mixed.lines.tolist()


# ----------------------------------------------------------------------------------------------------- mapped form


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: (d / "documents.npy").unlink(), "documents.npy: cannot be read: No such file"),
        (lambda d: os.truncate(d / "documents.npy", 4000), "documents.npy: expected 14128 bytes, found 4000"),
        (
            lambda d: np.save(d / "labels.npy", np.zeros(3)),
            "labels.npy: expected float64 (500,), found float64 (3,)",
        ),
        (lambda d: np.save(d / "labels.npy", np.zeros(500, np.float32)), "labels.npy: expected float64"),
        (lambda d: np.save(d / "lines.npy", np.zeros(500, np.int64)), "lines.npy: expected each position"),
        (lambda d: np.save(d / "lines.npy", np.arange(-1, 499)), "lines.npy: expected each position"),
        (
            lambda d: np.save(d / "lines.npy", np.r_[np.arange(499), 500]),
            "lines.npy: expected each position",
        ),
        (
            lambda d: np.save(d / "offsets.npy", np.zeros(41, np.int64)),
            "offsets.npy: expected offsets that rise",
        ),
        (lambda d: np.save(d / "labels.npy", np.full(500, np.inf)), "labels.npy: expected finite labels"),
        (lambda d: (d / "labels.npy").write_bytes(b"PK\x03\x04"), "labels.npy: expected an array"),
        (
            lambda d: np.save(d / "comment_ends.npy", np.arange(500)[::-1]),
            "comment_ends.npy: expected ends that",
        ),
        (lambda d: np.save(d / "comment_ends.npy", np.arange(500)), "comments.npy: expected uint8 (499,)"),
        (lambda d: np.save(d / "offsets.npy", np.arange(41)), "offsets.npy: expected offsets that rise"),
        (
            lambda d: np.save(d / "offsets.npy", np.arange(460, 501)),
            "offsets.npy: expected offsets that rise",
        ),
        (lambda d: (d / "queryset.json").write_text("{"), "queryset.json: expected the index"),
        (lambda d: (d / "queryset.json").write_text("[]"), "queryset.json: expected format 1, found 'list'"),
        (
            lambda d: (d / "queryset.json").write_text('{"format": 2}'),
            "queryset.json: expected format 1, found 2",
        ),
        (
            lambda d: (d / "queryset.json").write_text('{"format": 1}'),
            "expected a list of names as 'query_ids'",
        ),
    ],
)
def test_a_damaged_mapped_set_is_refused(tmp_path: Path, mixed: QuerySet, damage: object, words: str) -> None:
    folder = tmp_path / "mapped"
    writing.write(mixed, folder, to="mapped")
    assert callable(damage)
    damage(folder)

    assert words in refused(folder)


def test_comments_that_are_no_text_are_refused_when_they_are_read(tmp_path: Path, mixed: QuerySet) -> None:
    folder = tmp_path / "mapped"
    writing.write(mixed, folder, to="mapped")
    text = np.load(folder / "comments.npy")
    np.save(folder / "comments.npy", np.full_like(text, 0xFF))

    comments = read(folder).comments

    assert comments is not None
    with pytest.raises(
        InvalidData, match=r"comments\.npy: expected UTF-8, found invalid start byte in comment "
    ):
        list(comments)


def test_pickled_arrays_are_never_opened(tmp_path: Path, mixed: QuerySet) -> None:
    folder = tmp_path / "mapped"
    writing.write(mixed, folder, to="mapped")
    np.save(folder / "labels.npy", np.array([{}] * 500, object), allow_pickle=True)

    assert "labels.npy: expected float64 (500,), found '|O' (500,)" in refused(folder)


def test_the_index_is_plain_json(tmp_path: Path, mixed: QuerySet) -> None:
    writing.write(mixed, tmp_path / "mapped", to="mapped")

    index = json.loads((tmp_path / "mapped" / "queryset.json").read_text())

    assert list(mixed.query_ids) == index["query_ids"]
    assert 500 == index["n_docs"]


# -------------------------------------------------------------------------------------------------- what is written


@pytest.mark.parametrize("name", ["a.csv", "a.TSV", "a.csv.gz", "b/a.tsv.zst"])
def test_tables_of_text_are_not_written(name: str) -> None:
    with pytest.raises(InvalidData, match=r"found \.(csv|TSV|tsv), which can be read but not written"):
        writing.format_of(name)


def test_names_that_only_look_like_a_table_are_text() -> None:
    assert ["text", "gz"] == [writing.format_of(name) for name in ("a.csv.txt", "csv.gz")]


def test_compressed_files_hold_no_time_and_a_checksum(tmp_path: Path, mixed: QuerySet) -> None:
    """A gzip file has the time in the bytes 4 to 7; the checksum of zstd is up to whoever writes it."""
    writing.write(mixed, tmp_path / "a.gz")
    writing.write(mixed, tmp_path / "a.zst")

    assert b"\0\0\0\0" == (tmp_path / "a.gz").read_bytes()[4:8]
    assert zstandard.get_frame_parameters((tmp_path / "a.zst").read_bytes()[:64]).has_checksum


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        # Half of the values are zeros: all are written.
        ([[0, 1], [1, 0]], "0 qid:q0 1:0 2:1\n0 qid:q0 1:1 2:0\n"),
        # More than half, and a document leaves out a feature before one that it has.
        ([[0, 1], [0, 0]], "0 qid:q0 2:1\n0 qid:q0\n"),
        # Only last features would be left out, as if the file were damaged.
        ([[1, 0], [0, 0]], "0 qid:q0 1:1 2:0\n0 qid:q0 1:0 2:0\n"),
        # An absent feature is 0 and not -0.
        ([[0, 0, 0], [0, -0.0, 1]], "0 qid:q0 3:0\n0 qid:q0 2:-0 3:1\n"),
    ],
)
def test_text_leaves_zeros_out_if_they_are_most_values(
    tmp_path: Path, rows: list[list[float]], text: str
) -> None:
    documents = np.array(rows, np.float32)

    writing.write(query_set(documents, [0] * len(rows), [0.0] * len(rows)), tmp_path / "a.txt")

    assert text == (tmp_path / "a.txt").read_text()


def test_only_the_first_line_of_sparse_text_shows_how_many_features_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_CELLS", 4)  # a block for each document
    documents = np.zeros((3, 4), np.float32)
    documents[:, 1] = [0, 2, 3]

    writing.write(query_set(documents, [0, 0, 0], [0, 1, 2.5]), tmp_path / "a.txt", sparse=True)

    assert "0 qid:q0 4:0\n1 qid:q0 2:2\n2.5 qid:q0 2:3\n" == (tmp_path / "a.txt").read_text()


@pytest.mark.parametrize(
    ("to", "names", "beside"),
    [
        ("text", ["x", "y"], True),
        ("gz", ["x", "y"], True),
        ("zst", ["x", "y"], True),
        ("parquet", ["x", "y"], False),
        ("mapped", ["x", "y"], False),
        ("text", ["f1", "f2"], False),
        ("text", ["f2", "f1"], True),
    ],
)
def test_only_text_has_its_names_in_a_file_beside_it(
    tmp_path: Path,
    to: writing.Format,
    names: list[str],
    beside: bool,  # noqa: FBT001
) -> None:
    queries = query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0], names=names)

    writing.write(queries, tmp_path / "set", to=to)

    assert {"set", "set.names"} == {entry.name for entry in tmp_path.iterdir()} | {"set.names"}
    assert beside == (tmp_path / "set.names").exists()
    assert tuple(names) == read([tmp_path / "set"]).feature_names


@pytest.mark.parametrize("to", ["text", "gz", "zst", "parquet"])
def test_stale_names_go_whatever_the_format(tmp_path: Path, to: writing.Format) -> None:
    named = query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0], names=["x", "y"])
    writing.write(named, tmp_path / "set", to="text")
    plain = query_set(np.eye(2, 3, dtype=np.float32), [0, 0], [0.0, 1.0])

    writing.write(plain, tmp_path / "set", to=to, overwrite=True)

    assert ["set"] == [entry.name for entry in tmp_path.iterdir()]


def test_names_that_are_there_are_replaced_only_when_asked(tmp_path: Path) -> None:
    named = query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0], names=["x", "y"])
    (tmp_path / "set.txt.names").write_text("a\nb\n")

    with pytest.raises(InvalidData, match=r"set\.txt\.names: expected a name that is not in use"):
        writing.write(named, tmp_path / "set.txt")
    assert ["set.txt.names"] == [entry.name for entry in tmp_path.iterdir()]
    writing.write(named, tmp_path / "set.txt", overwrite=True)

    assert ("x", "y") == read([tmp_path / "set.txt"]).feature_names


def test_a_folder_may_be_replaced_by_a_file_only_if_nothing_else_is_there(tmp_path: Path) -> None:
    queries = query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0])
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InvalidData, match="pipe: expected a file or a folder to replace, found neither"):
        writing.write(queries, tmp_path / "pipe", overwrite=True)

    assert ["pipe"] == [entry.name for entry in tmp_path.iterdir()]


@pytest.mark.parametrize("to", FORMATS)
def test_all_files_are_on_the_disk_before_they_get_their_names(
    tmp_path: Path, to: writing.Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    synced: dict[int, bool] = {}
    sync = os.fsync

    def record(file: int) -> None:
        sync(file)
        synced[os.fstat(file).st_ino] = (out / "set").exists()

    monkeypatch.setattr(os, "fsync", record)

    writing.write(
        query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0], names=["x", "y"]), out / "set", to=to
    )

    files = [entry for entry in out.rglob("*") if entry.is_file()]
    assert files
    assert {file.stat().st_ino for file in files} <= set(synced)
    # The names beside text get theirs after the data are whole and before the data have theirs.
    assert not any(synced[file.stat().st_ino] for file in files if file.name != "set.names")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"comments": ["a\0b"]}, "found one with a zero byte"),
        ({"names": [" ", "b"]}, "feature names that fit on a line, found ' '"),
        ({"names": ["a", "b "]}, "feature names that fit on a line, found 'b '"),
        ({"ids": ["a\x01"]}, r"found 'a\x01'"),
        ({"ids": ["a\x20"]}, "found 'a '"),
    ],
)
def test_neither_can_text_hold_these(tmp_path: Path, change: dict[str, list[str]], words: str) -> None:
    queries = query_set(np.ones((1, 2), np.float32), [0], [1.0], **change)

    with pytest.raises(InvalidData) as caught:
        writing.write(queries, tmp_path / "x.txt")

    assert words in str(caught.value)
    assert [] == list(tmp_path.iterdir())


def test_lines_without_a_comment_have_no_sign_of_one(tmp_path: Path) -> None:
    queries = query_set(np.ones((3, 1), np.float32), [0] * 3, [1.0] * 3, comments=["", "a#b", " c"])

    writing.write(queries, tmp_path / "x.txt")

    assert "1 qid:q0 1:1\n1 qid:q0 1:1 #a#b\n1 qid:q0 1:1 # c\n" == (tmp_path / "x.txt").read_text()


@pytest.mark.parametrize("cells", [1, 40, 1 << 20])
@pytest.mark.parametrize("name", ["made.txt", "made.parquet", "made/"])
def test_what_is_drawn_is_written_as_what_is_synthesized(
    tmp_path: Path, name: str, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "CELLS", cells)
    recipe = Recipe(documents=(1, 5), features=4, missing=0.2)
    expected, kinds = synthesize(12, recipe, seed=3)
    blocks = [len(block) for block in writing._blocks_of_drawn(Drawn(12, recipe, seed=3))]

    writing.write_drawn(Drawn(12, recipe, seed=3), f"{tmp_path}/{name}")

    comments = tuple(f"kind={kinds[query]}" for query in expected.query_of)
    assert_same(replace(expected, comments=comments), read([tmp_path / name]))
    with pytest.raises(InvalidData, match="expected a name that is not in use"):
        writing.write_drawn(Drawn(12, recipe, seed=3), f"{tmp_path}/{name}")
    # A block ends with the first query that makes it large enough: 10 documents of 4 features are 40 numbers.
    lengths = expected.lengths.tolist()
    if cells == 40:
        wanted, some = [], 0
        for length in lengths:
            some += length
            if some >= 10:
                wanted.append(some)
                some = 0
        lengths = [*wanted, some] if some else wanted
    assert (lengths if cells < 1 << 20 else [sum(lengths)]) == blocks


def test_conversion_tells_how_far_it_is_and_what_it_took(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("grade,qid,x,y\n1,a,2,3\n0,a,4,5\n")
    told: list[tuple[str, int, int]] = []
    said: list[str] = []

    count = writing.convert(
        [path],
        tmp_path / "out.txt",
        progress=lambda task, done, total: told.append((task, done, total)),
        columns=Columns(label="grade", ignore=("y",)),
        say=said.append,
    )

    size = path.stat().st_size
    assert 2 == count
    assert ("checking", size, size) in told
    assert ("converting", size, size) == told[-1]
    assert {"checking", "converting"} == {task for task, _, _ in told}
    assert 1 == len(said)
    assert "1 qid:a 1:2\n0 qid:a 1:4\n" == (tmp_path / "out.txt").read_text()


@pytest.mark.parametrize("to", FORMATS)
def test_conversion_replaces_what_is_there_only_when_asked(tmp_path: Path, to: writing.Format) -> None:
    (tmp_path / "in.txt").write_text("1 qid:1 1:1\n")
    (tmp_path / "out").write_text("old")

    with pytest.raises(InvalidData, match="expected a name that is not in use"):
        writing.convert([tmp_path / "in.txt"], tmp_path / "out", to=to)
    assert "old" == (tmp_path / "out").read_text()
    if to != "mapped":
        writing.convert([tmp_path / "in.txt"], tmp_path / "out", to=to, overwrite=True)
        assert [[1]] == read([tmp_path / "out"]).documents.tolist()


@pytest.mark.parametrize(
    "other",
    [
        "0 qid:2 1:1\n1 qid:1 1:1\n1 qid:1 2:1\n",  # another order
        "1 qid:1 1:1\n0 qid:2 2:1\n",  # a document less
        "1 qid:1 1:1\n1 qid:1 1:1\n0 qid:2 1:1\n",  # a feature less
        "1 qid:1 1:1\n1 qid:1 3:1\n0 qid:2 1:1\n",  # a feature more
    ],
)
def test_any_change_of_the_input_while_it_is_converted_is_refused(tmp_path: Path, other: str) -> None:
    path = tmp_path / "in.txt"
    path.write_text("1 qid:1 1:1\n1 qid:1 2:1\n0 qid:2 1:1\n")

    def change(task: str, done: int, total: int) -> None:
        if task == "checking" and done == total:
            path.write_text(other)

    with pytest.raises(
        InvalidData,
        match=r"in\.txt: expected input that does not change while it is read twice, found a change",
    ):
        writing.convert([path], tmp_path / "out.txt", progress=change)

    assert ["in.txt"] == [entry.name for entry in tmp_path.iterdir()]


def test_some_inputs_may_have_comments_and_positions_and_others_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,qid,x\n1,a,2\n")
    shown = query_set(
        np.ones((2, 1), np.float32), [0, 0], [0.0, 1.0], names=["x"], comments=["d", ""], ids=["b"]
    )
    writing.write(replace(shown, positions=np.array([2, 0])), tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_text("label,qid,x\n1,c,2\n")
    inputs = [tmp_path / name for name in ("a.csv", "b.parquet", "c.csv")]

    for to in ("parquet", "mapped"):
        writing.convert(inputs, tmp_path / to, to=to)

        found = read([tmp_path / to])
        assert found.positions is not None
        assert [0, 2, 0, 0] == found.positions.tolist()
        assert ("", "d", "", "") == texts_of(found)
        assert found.weights is None


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ({"query_ids": []}, "expected a list of names as 'query_ids'"),
        ({"feature_names": [1]}, "expected a list of names as 'feature_names'"),
        ({"feature_names": "xy"}, "expected a list of names as 'feature_names'"),
        ({"n_docs": 0}, "expected 'n_docs', a whole number above 0, and 'comments', true or false"),
        ({"n_docs": True}, "expected 'n_docs', a whole number above 0, and 'comments', true or false"),
        ({"comments": 1}, "expected 'n_docs', a whole number above 0, and 'comments', true or false"),
        ({"format": 1.5}, "expected format 1, found 1.5"),
        ({"feature_names": ["x", "x"]}, "expected every name in 'feature_names' once, found 'x' again"),
        ({"query_ids": ["a", "b", "a"]}, "expected every name in 'query_ids' once, found 'a' again"),
    ],
)
def test_an_index_that_contradicts_itself_is_refused(
    tmp_path: Path, index: dict[str, object], words: str
) -> None:
    folder = tmp_path / "mapped"
    writing.write(query_set(np.ones((1, 2), np.float32), [0], [1.0], names=["x", "y"]), folder, to="mapped")
    stored = json.loads((folder / "queryset.json").read_text())
    (folder / "queryset.json").write_text(json.dumps(stored | index))

    assert words in refused(folder)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("labels", [0.0, -1.0, 0.0]),
        ("labels", [0.0, np.nan, 0.0]),
        ("offsets", [0, 1, 1, 3]),
        ("offsets", [0, 2, 1, 3]),
        ("offsets", [1, 2, 3, 3]),
        ("offsets", [0, 1, 2, 4]),
        ("lines", [0, 1, 1]),
        ("comment_ends", [-1, 1, 2]),
        ("comment_ends", [2, 1, 3]),
    ],
)
def test_one_wrong_number_in_a_mapped_set_is_noticed(tmp_path: Path, name: str, values: list[float]) -> None:
    folder = tmp_path / "mapped"
    queries = query_set(np.ones((3, 2), np.float32), [0, 1, 2], [1.0] * 3, comments=["a", "b", "c"])
    writing.write(queries, folder, to="mapped")
    stored = np.load(folder / f"{name}.npy")
    np.save(folder / f"{name}.npy", np.array(values, stored.dtype))

    assert f"{name}.npy: expected" in refused(folder)


def test_stored_comments_are_a_sequence_of_texts() -> None:
    parts = [pa.array(["é", None, ""]), pa.nulls(1, pa.string()), pa.array(["last"])]

    comments = StoredComments.of(parts, np.array([4, 1, 0, 2, 3]))

    assert comments is not None
    assert 5 == len(comments)
    assert ["last", "", "é", "", ""] == list(comments)
    assert ("last", "é") == (comments[0], comments[-3])
    assert ("é", "", "last") == comments[2::-1]
    assert comments == ("last", "", "é", "", "")
    assert comments != ("last", "", "é", "")
    assert comments != ("last", "", "e", "", "")
    for position in (5, -6):
        with pytest.raises(IndexError):
            comments[position]
    assert StoredComments.of([pa.nulls(2, pa.string())], np.arange(2)) is None


def test_the_mapped_matrix_is_given_back_block_by_block_and_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_CELLS", 4)  # two documents at a time
    seen: list[tuple[int, int]] = []
    flushed: list[tuple[int, ...]] = []
    flush = np.memmap.flush
    monkeypatch.setattr(writing, "forget", lambda _, begin, end: seen.append((begin, end)))

    def record(self: np.memmap[tuple[int, ...], np.dtype[np.float32]]) -> None:
        flushed.append(self.shape)
        flush(self)

    monkeypatch.setattr(np.memmap, "flush", record)
    queries = query_set(np.arange(10, dtype=np.float32).reshape(5, 2), [0, 0, 1, 1, 2], [1.0] * 5)

    writing.write(queries, tmp_path / "m", to="mapped")

    assert [(0, 2), (2, 4), (4, 5)] == seen
    assert (5, 2) in flushed
    assert queries.documents.tolist() == read(tmp_path / "m").documents.tolist()


@pytest.mark.parametrize("to", ["csv", "", "TEXT"])
def test_a_format_that_is_not_known_is_refused(tmp_path: Path, to: str) -> None:
    queries = query_set(np.ones((1, 1), np.float32), [0], [1.0])

    with pytest.raises(InvalidData) as caught:
        writing.write(queries, tmp_path / "a", to=to)  # type: ignore[arg-type]

    assert f"expected one of text, gz, zst, parquet, mapped as format, found {to!r}" == str(caught.value)
