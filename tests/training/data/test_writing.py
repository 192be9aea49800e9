"""What is written: files that read back as the same queries, or nothing."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from localrank.errors import InvalidConfiguration, InvalidData
from localrank_training.data import columnar, letor, sources, writing
from localrank_training.data.reading import read
from localrank_training.data.synthetic import Drawn, Recipe, synthesize
from localrank_training.data.tables import Columns
from localrank_training.data.writing import convert, split, write
from tests.training.data.sets import put, query_set

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet
    from localrank_training.data.writing import Format

FORMATS = writing.FORMATS
TEXTS = ["text", "gz", "zst"]


def assert_same(expected: QuerySet, actual: QuerySet) -> None:
    missing = np.isnan(expected.documents)
    np.testing.assert_array_equal(missing, np.isnan(actual.documents))
    there = [np.where(missing, 0, one.documents).astype(np.float32).tobytes() for one in (expected, actual)]
    assert there[0] == there[1]  # 0 and -0 differ
    assert np.float32 == actual.documents.dtype
    assert expected.labels.tobytes() == actual.labels.tobytes()
    np.testing.assert_array_equal(expected.offsets, actual.offsets)
    np.testing.assert_array_equal(expected.lines, actual.lines)
    assert expected.query_ids == actual.query_ids
    assert expected.feature_names == actual.feature_names
    assert texts_of(expected) == texts_of(actual)
    for name in ("weights", "positions"):
        np.testing.assert_array_equal(getattr(expected, name), getattr(actual, name))


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
    return query_set(
        documents,
        draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)),
        draw(st.lists(st.floats(0, allow_infinity=False), min_size=n, max_size=n)),
        names=draw(st.none() | st.lists(NAME, min_size=m, max_size=m, unique=True)),
        comments=draw(st.none() | st.lists(COMMENT, min_size=n, max_size=n)),
        ids=draw(st.lists(QUERY_ID, min_size=4, max_size=4, unique=True)),
    )


@pytest.mark.parametrize("to", FORMATS)
@settings(max_examples=60)
@given(queries=query_sets(), sparse=st.sampled_from([None, True, False]), weighted=st.booleans())
def test_what_is_written_reads_back_as_the_same(
    to: Format,
    sparse: bool | None,  # noqa: FBT001
    weighted: bool,  # noqa: FBT001
    queries: QuerySet,
    tmp_path: Path,
) -> None:
    if weighted and to not in TEXTS:
        positions = np.arange(queries.n_docs) % 3
        queries = replace(queries, weights=np.arange(float(len(queries))), positions=positions)

    write(queries, tmp_path / "set", to=to, sparse=sparse, overwrite=True)

    assert_same(queries, read([tmp_path / "set"], columns=Columns(sparse=sparse is True)))
    assert {"set", "set.names"} >= {entry.name for entry in tmp_path.iterdir()}


@pytest.mark.parametrize("held", [1 << 30, 0], ids=["held", "mapped"])
def test_a_tour_through_all_formats_is_the_identity(
    tmp_path: Path, mixed: QuerySet, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    for name, module, value in (
        ("BLOCK", sources, 2000),
        ("_PIECE", sources, 500),
        ("CELLS", writing, 300),
        ("_HELD", writing, held),
        ("_CELLS_READ", columnar, 500),
        ("_CELLS_WRITTEN", columnar, 1000),
    ):
        monkeypatch.setattr(module, name, value)
    before = tmp_path / "mixed.txt"

    for step, to in enumerate(["parquet", "arrow", "gz", "arrow", "zst", "parquet", "text"]):
        after = tmp_path / f"step{step}"
        assert 500 == convert([before], after, to=to)  # type: ignore[arg-type]
        assert_same(mixed, read([after]))
        before = after

    assert (tmp_path / "mixed.txt").read_bytes() == before.read_bytes()


def test_files_of_all_formats_may_be_mixed(tmp_path: Path) -> None:
    sets = [query_set(np.full((2, 3), i, np.float32), [i] * 2, [float(i), 0.0]) for i in range(len(FORMATS))]
    for queries, to in zip(sets, FORMATS, strict=True):
        write(queries, tmp_path / to, to=to)

    mixed = read([tmp_path / to for to in FORMATS])

    assert ("q0", "q1", "q2", "q3", "q4") == mixed.query_ids
    np.testing.assert_array_equal(np.vstack([queries.documents for queries in sets]), mixed.documents)
    assert list(range(10)) == mixed.lines.tolist()


def test_some_inputs_may_have_comments_and_positions_and_others_not(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "label,qid,x\n1,a,2\n")
    shown = query_set(
        np.ones((2, 1), np.float32), [0, 0], [0.0, 1.0], names=["x"], comments=["d", ""], ids=["b"]
    )
    write(replace(shown, positions=np.array([2, 0])), tmp_path / "b.parquet")
    put(tmp_path / "c.csv", "label,qid,x\n1,c,2\n")

    for to in ("parquet", "arrow"):
        convert([tmp_path / name for name in ("a.csv", "b.parquet", "c.csv")], tmp_path / to, to=to)
        found = read([tmp_path / to])

        assert found.positions is not None
        assert [0, 2, 0, 0] == found.positions.tolist()
        assert (("", "d", "", ""), None) == (texts_of(found), found.weights)


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("a.txt", "text"),
        ("a", "text"),
        ("a.csv.txt", "text"),
        ("csv.gz", "gz"),
        ("a.txt.zst", "zst"),
        ("a.parquet", "parquet"),
        ("a.arrow", "arrow"),
        ("a.csv", ".csv"),
        ("a.TSV", ".TSV"),
        ("b/a.tsv.zst", ".tsv"),
        ("a.jsonl.gz", ".jsonl"),
    ],
)
def test_the_name_says_the_format(name: str, to: str) -> None:
    if to.startswith("."):
        with pytest.raises(InvalidData, match=rf"found \{to}, which can be read but not written"):
            writing.format_of(name)
    else:
        assert to == writing.format_of(name)


@pytest.mark.parametrize(
    ("name", "found"),
    [("x.docx", ".docx"), ("x.docx.gz", ".docx.gz"), ("x.tar.zst", ".tar.zst"), ("x.7", ".7")],
)
def test_an_unknown_ending_is_refused(name: str, found: str) -> None:
    with pytest.raises(InvalidData) as caught:
        writing.format_of(name)

    assert f"{name}: expected a name in .txt, .txt.gz, .txt.zst, .parquet or .arrow, found {found}" == str(
        caught.value
    )


# ------------------------------------------------------------------------------------------------------------ text


@pytest.mark.parametrize(
    ("rows", "sparse", "lines"),
    [
        # Half of the values are zeros: all are written.
        ([[0, 1], [1, 0]], None, ["0 qid:q0 1:0 2:1", "0 qid:q0 1:1 2:0"]),
        # More than half, and a document leaves out a feature before one that it has.
        ([[0, 1], [0, 0]], None, ["0 qid:q0 2:1", "0 qid:q0"]),
        # Only last features would be left out, as if the file were damaged.
        ([[1, 0], [0, 0]], None, ["0 qid:q0 1:1 2:0", "0 qid:q0 1:0 2:0"]),
        # An absent feature is 0 and not -0. The first line shows how many features there are.
        ([[0, 0, 0], [0, -0.0, 1]], None, ["0 qid:q0 3:0", "0 qid:q0 2:-0 3:1"]),
        ([[1, 2], [3, 4], [0, 1]], True, ["0 qid:q0 1:1 2:2", "0 qid:q0 1:3 2:4", "0 qid:q0 2:1"]),
        ([[0, 0], [0, 0]], False, ["0 qid:q0 1:0 2:0", "0 qid:q0 1:0 2:0"]),
        # The shortest numbers.
        ([[0.1, np.nan], [3e38, 1e-3]], None, ["0 qid:q0 1:0.1 2:?", "0 qid:q0 1:3e+38 2:0.001"]),
    ],
)
@pytest.mark.parametrize("cells", [1, 1 << 20])
def test_text_leaves_zeros_out_if_they_are_most_values(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    rows: list[list[float]],
    sparse: bool | None,
    lines: list[str],
    cells: int,
) -> None:
    if cells > 1 or sparse is not None:  # the first block decides
        monkeypatch.setattr(writing, "CELLS", cells)
    documents = np.array(rows, np.float32)

    write(query_set(documents, [0] * len(rows), [0.0] * len(rows)), tmp_path / "a.txt", sparse=sparse)

    assert lines == (tmp_path / "a.txt").read_text().splitlines()


@given(hnp.arrays(np.float32, 20, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_a_written_number_goes_through_a_double_and_comes_back(values: Any) -> None:
    texts = letor._numerals(values).to_pylist()

    assert values.tobytes() == np.array([float(text) for text in texts]).astype(np.float32).tobytes()


def test_a_number_whose_shortest_text_does_not_come_back_is_written_longer(tmp_path: Path) -> None:
    """7.038531e-26 is the shortest text of a float32, but the double nearest to it rounds to that one's neighbour."""
    value = np.array([[0x15AE43FD]], np.uint32).view(np.float32)
    assert np.float32(float("7.038531e-26")) != value[0, 0]

    write(query_set(value, [0], [1.0]), tmp_path / "a.txt")

    assert value[0, 0] == read(tmp_path / "a.txt").documents[0, 0]


def test_lines_without_a_comment_have_no_sign_of_one(tmp_path: Path) -> None:
    queries = query_set(np.ones((3, 1), np.float32), [0] * 3, [1.0] * 3, comments=["", "a#b", " c"])

    write(queries, tmp_path / "x.txt")

    assert "1 qid:q0 1:1\n1 qid:q0 1:1 #a#b\n1 qid:q0 1:1 # c\n" == (tmp_path / "x.txt").read_text()


def test_compressed_text_has_the_levels_and_the_checksum_of_the_tools(
    tmp_path: Path, mixed: QuerySet
) -> None:
    """And no time, which a gzip file has in the bytes 4 to 7."""
    plain = (tmp_path / "mixed.txt").read_bytes()
    for to in ("gz", "zst"):
        write(mixed, tmp_path / f"a.{to}")

    deflated = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    assert deflated.compress(plain) + deflated.flush() == (tmp_path / "a.gz").read_bytes()[10:-8]
    assert bytes(4) == (tmp_path / "a.gz").read_bytes()[4:8]
    assert plain == gzip.decompress((tmp_path / "a.gz").read_bytes())
    packed = (tmp_path / "a.zst").read_bytes()
    assert zstandard.get_frame_parameters(packed).has_checksum
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
    assert compressor.compress(plain) + compressor.flush() == packed


ONE_LINE, HELD = (
    "expected comments of one line of text, found one with ",
    "expected query ids that text can hold",
)


@pytest.mark.parametrize("to", TEXTS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        *[({"ids": [query_id]}, HELD) for query_id in ("", "a b", "a\tb", "a#", "a\n", "a\x01")],
        ({"comments": ["a\nb"]}, f"{ONE_LINE}a line feed"),
        ({"comments": ["a\r"]}, f"{ONE_LINE}a carriage return"),
        ({"comments": ["a\0b"]}, f"{ONE_LINE}a zero byte"),
        ({"names": [" a", "b"]}, "expected feature names that fit on a line, found ' a'"),
        ({"names": ["a", "b "]}, "expected feature names that fit on a line, found 'b '"),
        ({"names": [" ", "b"]}, "expected feature names that fit on a line, found ' '"),
        ({"names": ["a\nb", "b"]}, "expected feature names that fit on a line, found 'a\\nb'"),
    ],
)
def test_what_text_cannot_hold_is_refused(
    tmp_path: Path, to: Format, change: dict[str, list[str]], words: str
) -> None:
    queries = query_set(np.ones((1, 2), np.float32), [0], [1.0], **change)

    with pytest.raises(InvalidData) as caught:
        write(queries, tmp_path / "x", to=to)

    assert str(caught.value).startswith(words)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("to", TEXTS)
@pytest.mark.parametrize(("name", "found"), [("weights", "query weights"), ("positions", "positions")])
def test_text_does_not_lose_weights_and_places_in_silence(
    tmp_path: Path, to: Format, name: str, found: str
) -> None:
    queries = query_set(np.ones((1, 2), np.float32), [0], [1.0])

    with pytest.raises(InvalidData) as caught:
        write(replace(queries, **{name: np.array([1])}), tmp_path / "x", to=to)  # type: ignore[arg-type]

    expected = f"expected a format that keeps {found} (--to parquet or arrow), found LETOR text"
    assert f"{tmp_path / 'x'}: {expected}" == str(caught.value)


# --------------------------------------------------------------------------------------------------------- Parquet


@pytest.mark.parametrize(
    ("cells", "groups"),
    [(1, [3, 3, 3, 3]), (12, [6, 6]), (13, [9, 3]), (18, [9, 3]), (19, [12]), (1 << 24, [12])],
)
def test_row_groups_are_written_when_they_are_large_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: int, groups: list[int]
) -> None:
    monkeypatch.setattr(columnar, "_CELLS_WRITTEN", cells)
    monkeypatch.setattr(writing, "CELLS", 6)

    write(query_set(np.ones((12, 2), np.float32), [0] * 12, [0.0] * 12), tmp_path / "a.parquet")

    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert groups == [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["x", "y"], False),
        (["x", "weight"], False),
        (["x", "label"], True),
        (["qid", "x"], True),
        (["x", "features"], True),
        (["x", "docno"], True),
        (["x", "y", "z"], True),
    ],
)
def test_wide_sets_and_reserved_names_are_written_as_one_column_of_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], *, listed: bool
) -> None:
    monkeypatch.setattr(columnar, "_MOST_COLUMNS", 2)
    values = np.arange(2.0 * len(names), dtype=np.float32).reshape(2, -1)
    queries = query_set(values, [0, 1], [1.0, 0.0], names=names)

    write(queries, tmp_path / "a.parquet")

    assert listed == ("features" in pq.read_schema(tmp_path / "a.parquet").names)
    assert_same(queries, read(tmp_path / "a.parquet"))


@pytest.mark.parametrize("to", ["parquet", "arrow"])
def test_a_feature_may_have_the_name_that_weights_are_written_with(tmp_path: Path, to: Format) -> None:
    queries = query_set(np.eye(2, dtype=np.float32), [0, 1], [1.0, 0.0], names=["position", "weight"])
    queries = replace(queries, weights=np.array([2.0, 3.0]), positions=np.array([5, 6]))

    write(queries, tmp_path / "a", to=to)

    assert_same(queries, read(tmp_path / "a"))


# -------------------------------------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize("to", FORMATS)
def test_bad_input_leaves_nothing_behind(tmp_path: Path, to: Format) -> None:
    path = put(tmp_path / "in" / "a.txt", "1 qid:1 1:1\n" * 100 + "1 qid:1 1:oops\n")
    (tmp_path / "out").mkdir()

    with pytest.raises(InvalidData, match=r"a\.txt:101:11: "):
        convert([path], tmp_path / "out" / "x", to=to)
    with pytest.raises(InvalidData, match=r"a\.txt:101:11: "):
        split([path], tmp_path / "out" / "x", folds=3)

    assert [] == list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"names": ["a", "b", "a"]}, "expected every feature name once, found 'a' again"),
        ({"ids": ["x", "x"]}, "expected every query id once, found 'x' again"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, to: Format, change: dict[str, list[str]], words: str
) -> None:
    queries = query_set(np.ones((2, 3), np.float32), [0, 1], [1.0, 0.0], **change)

    with pytest.raises(InvalidData) as caught:
        write(queries, tmp_path / "out", to=to)

    assert f"{tmp_path / 'out'}: {words}" == str(caught.value)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("to", FORMATS)
def test_a_failure_in_the_middle_of_writing_leaves_nothing_behind(
    tmp_path: Path, to: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "in.txt", "1 qid:1 1:1\n")
    sync = os.fsync

    def full(file: int) -> None:
        sync(file)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(InvalidData, match="x: cannot be written: No space left on device"):
        convert([path], tmp_path / "x", to=to)

    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("to", FORMATS)
def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path, to: Format) -> None:
    path = put(tmp_path / "in.txt", "1 qid:1 1:1\n")
    for out in (put(tmp_path / "old", "old"), put(tmp_path / "folder" / "old", "old").parent):
        before = sorted(tmp_path.rglob("*"))

        with pytest.raises(InvalidData) as caught:
            convert([path], out, to=to)

        expected = "expected a name that is not in use, found a file or folder (--overwrite replaces it)"
        assert f"{out}: {expected}" == str(caught.value)
        assert before == sorted(tmp_path.rglob("*"))
    convert([path], tmp_path / "old", to=to, overwrite=True)
    assert [[1]] == read([tmp_path / "old"]).documents.tolist()


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("names", [["x", "y"], ["f1", "f2"], ["f2", "f1"]])
def test_only_text_has_its_names_in_a_file_beside_it(tmp_path: Path, to: Format, names: list[str]) -> None:
    """Names that stood there and are not needed go."""
    beside = to in TEXTS and names != ["f1", "f2"]
    old = query_set(np.eye(2, 3, dtype=np.float32), [0, 0], [0.0, 1.0], names=["a", "b", "c"])
    write(old, tmp_path / "set", to="text")
    queries = query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0], names=names)

    write(queries, tmp_path / "set", to=to, overwrite=True)

    assert {"set", *(["set.names"] if beside else [])} == {entry.name for entry in tmp_path.iterdir()}
    if to != "parquet":  # whose columns are put in order if all have names of numbers
        assert_same(queries, read([tmp_path / "set"]))


def test_names_that_are_there_are_replaced_only_when_asked(tmp_path: Path) -> None:
    queries = query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0], names=["x", "y"])
    put(tmp_path / "set.txt.names", "a\nb\n")

    with pytest.raises(InvalidData, match=r"set\.txt\.names: expected a name that is not in use"):
        write(queries, tmp_path / "set.txt")

    assert ["set.txt.names"] == [entry.name for entry in tmp_path.iterdir()]


@pytest.mark.parametrize("to", FORMATS)
def test_all_files_are_on_the_disk_before_they_get_their_names(
    tmp_path: Path, to: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[int, bool] = {}
    sync = os.fsync

    def record(file: int) -> None:
        sync(file)
        synced[os.fstat(file).st_ino] = (tmp_path / "set").exists()

    monkeypatch.setattr(os, "fsync", record)

    write(
        query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0], names=["x", "y"]), tmp_path / "set", to=to
    )

    files = list(tmp_path.iterdir())
    assert {file.stat().st_ino for file in files} <= set(synced)
    # The names beside text get theirs after the data are whole and before the data have theirs.
    assert not any(synced[file.stat().st_ino] for file in files if file.name != "set.names")


def test_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    queries = query_set(np.eye(2, dtype=np.float32), [0, 0], [0.0, 1.0])
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(
        InvalidData, match=rf"x.txt: expected an existing folder to write into, found none at {tmp_path}/no"
    ):
        write(queries, tmp_path / "no" / "x.txt")
    with pytest.raises(InvalidData, match="pipe: expected a file or a folder to replace, found neither"):
        write(queries, tmp_path / "pipe", overwrite=True)
    for to in ("csv", "", "TEXT", "mapped"):
        with pytest.raises(
            InvalidData, match=f"expected one of text, gz, zst, parquet, arrow as format, found '{to}'"
        ):
            write(queries, tmp_path / "x", to=to)  # type: ignore[arg-type]
    assert ["pipe"] == [entry.name for entry in tmp_path.iterdir()]


# ------------------------------------------------------------------------------------------- synthetic, converted


@pytest.mark.parametrize("cells", [1, 40, 1 << 20])
@pytest.mark.parametrize("name", ["made.txt", "made.zst", "made.parquet", "made.arrow"])
def test_what_is_drawn_is_written_as_what_is_synthesized(
    tmp_path: Path, name: str, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "CELLS", cells)
    recipe = Recipe(documents=(1, 5), features=4, missing=0.2)
    expected, kinds = synthesize(12, recipe, seed=3)

    writing.write_drawn(Drawn(12, recipe, seed=3), f"{tmp_path}/{name}")

    comments = tuple(f"kind={kinds[query]}" for query in expected.query_of)
    assert_same(replace(expected, comments=comments), read([tmp_path / name]))
    with pytest.raises(InvalidData, match="expected a name that is not in use"):
        writing.write_drawn(Drawn(12, recipe, seed=3), f"{tmp_path}/{name}")


def test_what_is_drawn_is_written_query_by_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "CELLS", 40)
    monkeypatch.setattr(columnar, "_CELLS_WRITTEN", 1)
    drawn = Drawn(12, Recipe(documents=(3, 3), features=4))

    writing.write_drawn(drawn, tmp_path / "a.parquet")

    metadata = pq.read_metadata(tmp_path / "a.parquet")  # 4 queries of 12 numbers are the first above 40
    assert [12, 12, 12] == [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def test_conversion_tells_how_far_it_is_and_what_it_took(tmp_path: Path) -> None:
    path = put(tmp_path / "in.csv", "grade,qid,x,y\n1,a,2,3\n0,a,4,5\n")
    told: list[tuple[str, int, int]] = []
    said: list[str] = []

    count = convert(
        [path],
        tmp_path / "out.txt",
        progress=lambda *one: told.append(one),
        columns=Columns(label="grade", ignore=("y",)),
        say=said.append,
    )

    assert (2, 1) == (count, len(said))
    size = path.stat().st_size
    assert ("reading", size, size) == told[-1]
    assert "1 qid:a 1:2\n0 qid:a 1:4\n" == (tmp_path / "out.txt").read_text()


# ----------------------------------------------------------------------------------------------------------- split


def ids_of(path: Path) -> list[str]:
    return sorted(read([path]).query_ids)


def numbered(path: Path, n_queries: int, documents: int = 1) -> Path:
    return put(path, "".join(f"1 qid:{i // documents} 1:{i}\n" for i in range(n_queries * documents)))


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("cells", [20, 1 << 20])
def test_fractions_deal_whole_queries(
    tmp_path: Path, mixed: QuerySet, monkeypatch: pytest.MonkeyPatch, to: Format, cells: int
) -> None:
    monkeypatch.setattr(writing, "_HELD", cells)

    report = split([tmp_path / "mixed.txt"], tmp_path / "out", fractions=[0.6, 0.2, 0.2], seed=1, to=to)

    suffix = writing.SUFFIXES[to]
    assert {f"train{suffix}": 24, f"validation{suffix}": 8, f"test{suffix}": 8} == {
        name: n_queries for name, (n_queries, _) in report.items()
    }
    parts = {name: read([tmp_path / "out" / name]) for name in report}
    assert sorted(mixed.query_ids) == sorted(q for part in parts.values() for q in part.query_ids)
    for name, part in parts.items():
        assert report[name] == (len(part), part.n_docs)
        chosen = mixed.select([mixed.query_ids.index(q) for q in part.query_ids])
        assert_same(replace(chosen, lines=np.argsort(np.argsort(chosen.lines))), part)
        # Queries keep the order of the input.
        assert sorted(part.query_ids, key=mixed.query_ids.index) == list(part.query_ids)


def test_weights_and_places_are_split_with_their_queries(tmp_path: Path, mixed: QuerySet) -> None:
    queries = replace(mixed, weights=np.arange(40.0), positions=np.arange(500))
    write(queries, tmp_path / "a.parquet")

    report = split([tmp_path / "a.parquet"], tmp_path / "out", fractions=[0.5, 0.5], to="arrow")

    for name in report:
        part = read([tmp_path / "out" / name])
        chosen = queries.select([mixed.query_ids.index(q) for q in part.query_ids])
        np.testing.assert_array_equal(chosen.weights, part.weights)
        np.testing.assert_array_equal(chosen.positions, part.positions)


@pytest.mark.parametrize(
    ("n_queries", "fractions", "sizes"),
    [
        (40, [0.21, 0.22, 0.57], [8, 9, 23]),
        (40, [0.33, 0.33, 0.34], [13, 13, 14]),
        (40, [0.5125, 0.4875], [21, 19]),
        # Queries left over go to the largest remainders, first ones first.
        (7, [0.5, 0.5], [4, 3]),
        (7, [0.3, 0.3, 0.4], [2, 2, 3]),
        (7, [0.9, 0.1], [6, 1]),
        # Shares that are whole but for rounding are met.
        (100, [0.29, 0.71], [29, 71]),
        (100, [0.57, 0.43], [57, 43]),
        (100, [0.28, 0.14, 0.58], [28, 14, 58]),
        (4, [0.5 + 5e-10, 0.5], [2, 2]),
    ],
)
def test_parts_are_within_one_query_of_their_share(
    tmp_path: Path, n_queries: int, fractions: list[float], sizes: list[int]
) -> None:
    report = split([numbered(tmp_path / "in.txt", n_queries)], tmp_path / "out", fractions=fractions)

    assert sizes == [queries for queries, _ in report.values()]


def test_the_seed_deals_at_random_and_is_zero_by_default(tmp_path: Path) -> None:
    path, parts = numbered(tmp_path / "in.txt", 30), {}
    for name, options in (("a", {}), ("b", {"seed": 0}), ("c", {"seed": 1})):
        split([path], tmp_path / name, fractions=[0.5, 0.5], **options)  # type: ignore[arg-type]
        parts[name] = ids_of(tmp_path / name / "train.txt")

    assert parts["a"] == parts["b"] != parts["c"]
    assert {"0", "1", "2", "3"} - set(parts["a"])  # not the first half


def test_folds_rotate_as_letor_does(tmp_path: Path, mixed: QuerySet) -> None:
    report = split([tmp_path / "mixed.txt"], tmp_path / "out", folds=5)

    assert 15 == len(report)
    folder = tmp_path / "out"
    tests = [ids_of(folder / f"Fold{k}" / "test.txt") for k in range(1, 6)]
    validations = [ids_of(folder / f"Fold{k}" / "validation.txt") for k in range(1, 6)]
    assert sorted(mixed.query_ids) == sorted(q for part in tests for q in part)
    for k in range(5):
        # Fold 1 trains on S1 S2 S3, validates on S4, tests on S5; fold 2 validates on S5, tests on S1.
        assert tests[k] == validations[(k + 1) % 5]
        rest = set(mixed.query_ids) - set(tests[k]) - set(validations[k])
        assert sorted(rest) == ids_of(folder / f"Fold{k + 1}" / "train.txt")


def test_folds_of_uneven_sizes_are_whole(tmp_path: Path) -> None:
    """Five queries in three parts are 2, 2 and 1."""
    report = split([numbered(tmp_path / "in.txt", 5, 2)], tmp_path / "three", folds=3)

    sizes = [[report[f"Fold{k}/{name}.txt"] for name in ("train", "validation", "test")] for k in (1, 2, 3)]
    assert [[(2, 4), (2, 4), (1, 2)], [(2, 4), (1, 2), (2, 4)], [(1, 2), (2, 4), (2, 4)]] == sizes


FRACTIONS = "expected two or three fractions above 0 that add up to 1, found "
EITHER = "expected either fractions or folds to split by, found "


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, f"{EITHER}neither"),
        ({"folds": 3, "fractions": [0.5, 0.5]}, f"{EITHER}both"),
        ({"folds": 2}, "expected 3 to 4 folds of 4 queries, found 2"),
        ({"folds": 5}, "expected 3 to 4 folds of 4 queries, found 5"),
        ({"fractions": [0.5, 0.6]}, f"{FRACTIONS}0.5, 0.6"),
        ({"fractions": [0.5, 0.5 + 5e-9]}, f"{FRACTIONS}0.5, 0.500000005"),
        ({"fractions": [1.0]}, f"{FRACTIONS}1.0"),
        ({"fractions": [1.5, -0.5]}, f"{FRACTIONS}1.5, -0.5"),
        ({"fractions": [float("nan"), 1.0]}, f"{FRACTIONS}nan, 1.0"),
        ({"fractions": [1.0, float("nan")]}, f"{FRACTIONS}1.0, nan"),
        ({"fractions": [float("inf"), 1.0]}, f"{FRACTIONS}inf, 1.0"),
        ({"fractions": [0.999, 0.001]}, "expected at least one query in each of 2 parts, found 4 queries"),
    ],
)
def test_impossible_splits_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    path = numbered(tmp_path / "in.txt", 4)

    with pytest.raises((InvalidConfiguration, InvalidData)) as caught:
        split([path], tmp_path / "out", **options)

    assert words == str(caught.value)
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{}, {"fractions": [0.5, 0.6]}, {"fractions": [0.5, 0.5]}])
def test_what_can_be_refused_at_once_is_refused_before_the_data_are_read(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    put(tmp_path / "out", "")

    with pytest.raises((InvalidConfiguration, InvalidData)) as caught:
        split([tmp_path / "absent.txt"], tmp_path / "out", **options)

    assert "absent" not in str(caught.value)


def test_only_a_new_folder_is_split_into(tmp_path: Path) -> None:
    path = numbered(tmp_path / "in.txt", 4)

    for out, found in ((path, "a file"), (tmp_path, "one")):
        with pytest.raises(InvalidData) as caught:
            split([path], out, folds=3)
        assert f"{out}: expected a folder that does not exist yet, found {found}" == str(caught.value)
