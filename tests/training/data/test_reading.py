"""What is read from files and tables: the same queries, whatever holds them."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from localrank import letor as core
from localrank.errors import InvalidData
from localrank.features.feature import Feature
from localrank_training.data import letor, sources, table_text
from localrank_training.data.queries import Gap, Skipped
from localrank_training.data.reading import read, read_table
from localrank_training.data.tables import Columns
from localrank_training.data.writing import write
from tests.training.data.sets import named, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank.letor import Lines
    from localrank_training.data.queries import QuerySet

    Compress = Callable[[bytes], bytes]

TINY = """\
2 qid:a 1:0.5 3:1 # d1
0 qid:b 2:7
1 qid:a 1:0.25 # d3
"""
#: The documents of "a" are not adjacent; the third one was not shown.
TABLE: dict[str, list[Any]] = {
    "label": [2, 0, 1, 1],
    "qid": ["a", "b", "a", "b"],
    "docno": ["d1", "d2", "d3", "d4"],
    "traffic": [2.5, 1.0, 2.5, 1.0],
    "place": [3, 1, None, 2],
    "bm25": [1.5, None, 3.25, -2.0],
    "url": ["u", "v", "w", "x"],
    "clicks": [3, 0, 1, 7],
    "fresh": [True, False, True, False],
}
CHOSEN = Columns(weight="traffic", position="place")
SAID = (
    "label 'label', query 'qid', document id 'docno', query weight 'traffic', position 'place', 3 features ('bm25', "
    "'clicks', 'fresh'), of which 1 is a category ('fresh'); left out: 'url' (text)"
)


def small_blocks(monkeypatch: pytest.MonkeyPatch, size: int = 30) -> None:
    monkeypatch.setattr(sources, "BLOCK", size)
    monkeypatch.setattr(sources, "_PIECE", size)


# ------------------------------------------------------------------------------------------------------------ text


def test_documents_of_a_query_come_together_in_their_order(tmp_path: Path) -> None:
    queries = read(put(tmp_path / "tiny.txt", TINY))

    assert ("a", "b") == queries.query_ids
    assert [0, 2, 3] == queries.offsets.tolist()
    assert [[0.5, 0, 1], [0.25, 0, 0], [0, 7, 0]] == queries.documents.tolist()
    assert [2, 1, 0] == queries.labels.tolist()
    assert [0, 2, 1] == queries.lines.tolist()
    assert (" d1", " d3", "") == tuple(queries.comments or ())
    assert ("f1", "f2", "f3") == queries.feature_names
    assert np.float32 == queries.documents.dtype
    assert queries.documents.flags.c_contiguous


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n \t\n# a remark\n"),
        lambda text: text.replace(" # ", "   # "),
        lambda text: "\ufeff" + text,
    ],
    ids=["nothing", "Windows", "end", "blank", "spaces", "mark"],
)
@pytest.mark.parametrize("size", [3, 17, 1 << 18])
def test_what_editors_and_packers_do_to_text_changes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[str], str],
    compress: Compress,
    size: int,
) -> None:
    expected = read(put(tmp_path / "tiny.txt", TINY))
    monkeypatch.setattr(sources, "BLOCK", size)
    monkeypatch.setattr(sources, "_PIECE", size)

    found = read(put(tmp_path / "changed", compress(change(TINY).encode())))

    np.testing.assert_array_equal(expected.documents, found.documents)
    np.testing.assert_array_equal(expected.lines, found.lines)
    assert expected.comments == found.comments


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_compressed_file_may_have_several_parts(tmp_path: Path, compress: Compress) -> None:
    content = compress(b"\xef\xbb\xbf") + compress(b"1 qid:a 1:1\n") + compress(b"0 qid:b 1:2\n")

    assert ("a", "b") == read(put(tmp_path / "data.gz", content)).query_ids


def test_a_folder_is_its_partitions_in_the_order_of_their_names(tmp_path: Path) -> None:
    put(tmp_path / "part-2", "0 qid:2 1:1\n")
    put(tmp_path / "part-1.gz", gzip.compress(b"1 qid:1 1:1\n"))
    put(tmp_path / "part-2.names", "x\n")
    put(tmp_path / "features.txt", "x\n")
    for name in ("_SUCCESS", ".part-1.crc", "folder/part-3"):
        put(tmp_path / name, "crc")

    queries = read([tmp_path])

    assert (("1", "2"), ("x",)) == (queries.query_ids, queries.feature_names)
    assert ([1, 0], [0, 1]) == (queries.labels.tolist(), queries.lines.tolist())


def test_names_come_from_the_sidecar_of_a_file_or_of_its_folder(tmp_path: Path) -> None:
    tiny = put(tmp_path / "tiny.txt", TINY)
    put(tmp_path / "features.txt", "bm25\npage rank\nlength\n")

    assert ("bm25", "page rank", "length") == read([tmp_path]).feature_names
    assert ("f1", "f2", "f3") == read([tiny]).feature_names

    put(tmp_path / "tiny.txt.names", b"\xef\xbb\xbfa\n b \r\nc\nd")
    found = read([tiny])

    assert (("a", "b", "c", "d"), (3, 4)) == (found.feature_names, found.documents.shape)


def test_names_may_come_after_a_file_without_them(tmp_path: Path) -> None:
    first = put(tmp_path / "a.txt", "1 qid:1 1:1 2:2\n")
    second = put(tmp_path / "b.txt", "1 qid:2 1:1 2:2\n")
    put(tmp_path / "b.txt.names", "x\ny\n")

    assert ("x", "y") == read([first, second]).feature_names


@pytest.mark.parametrize("n_features", [3, 5, 100_000])
def test_features_may_be_more_than_the_text_shows(tmp_path: Path, n_features: int) -> None:
    queries = read(put(tmp_path / "tiny.txt", TINY), n_features=n_features)

    assert (3, n_features) == queries.documents.shape
    assert f"f{n_features}" == queries.feature_names[-1]


def test_a_very_long_line_is_read(tmp_path: Path) -> None:
    line = "1 qid:1 " + " ".join(f"{i}:0.12345678901234567890" for i in range(1, 90_001)) + "\n"

    documents = read(put(tmp_path / "long.txt", line)).documents

    assert (1, 90_000) == documents.shape
    assert bool((documents == np.float32(0.12345678901234567890)).all())


@pytest.mark.parametrize("density", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_equal_to_scikit_learn(
    tmp_path: Path, density: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 400)), int(rng.integers(1, 60))
    values = rng.standard_normal((n, m)) * 10.0 ** rng.integers(-12, 12, (n, m))
    values[rng.random((n, m)) > density] = 0
    path = tmp_path / "data.txt"
    with path.open("wb") as file:
        dump_svmlight_file(
            values, rng.choice([0, 1, 2.5, 4], n), file, query_id=rng.integers(0, 20, n), zero_based=False
        )
    X, y, q = load_svmlight_file(str(path), query_id=True, dtype=np.float32, n_features=m, zero_based=False)
    small_blocks(monkeypatch, 10 ** (seed + 2))

    ours = read([path], n_features=m)

    np.testing.assert_array_equal(X.toarray()[ours.lines], ours.documents)
    np.testing.assert_array_equal(y[ours.lines], ours.labels)
    assert [str(i) for i in q[ours.lines]] == [ours.query_ids[i] for i in ours.query_of]


COUNTS = {
    "MQ2008": (15_211, 784, 46),
    "OHSUMED": (16_140, 106, 45),
    "OHSUMED-raw": (16_140, 106, 45),
    "MSLR-sample": (15_118, 135, 136),
    "imat2009-sample": (947, 103, 245),
    "lightgbm-example": (3_773, 251, 300),
}


@pytest.mark.realdata
@pytest.mark.parametrize("name", COUNTS)
def test_real_sets_have_their_known_sizes(name: str, real_data: Path) -> None:
    queries = read([real_data / name])

    assert COUNTS[name] == (queries.n_docs, len(queries), queries.n_features)
    X = np.vstack(
        [
            load_svmlight_file(str(file), query_id=True, dtype=np.float32, n_features=COUNTS[name][2])[
                0
            ].toarray()
            for file in sorted((real_data / name).iterdir())
        ]
    )
    np.testing.assert_array_equal(X[queries.lines], queries.documents)


#: What numbers are made of, and what Arrow or Python take besides.
PARTS = "0 1 9 . e E + - _ x nan inf infinity 1e999 1e-999 0x1p3".split()  # noqa: SIM905


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map("".join), st.booleans())
def test_arrow_and_python_take_the_same_numbers(number: str, label: bool) -> None:  # noqa: FBT001
    def said(lines: Lines) -> list[bytes]:
        parts = (lines.labels, lines.queries, lines.counts, lines.columns, lines.values, lines.line_numbers)  # noqa: PD011
        return [part.tobytes() for part in parts]

    line = f"{number} qid:1 1:1\n" if label else f"1 qid:1 1:{number} 2:0.25\n"
    try:
        expected = core.parse(line.encode(), max_features=2)
    except core.WrongLineError:
        with pytest.raises(InvalidData):
            letor.parse(line.encode(), name="x", max_features=2)
    else:
        assert said(expected) == said(letor.parse(line.encode(), name="x", max_features=2))


@pytest.mark.parametrize(
    ("rows", "gap"),
    [
        # Half of the lines are complete: nothing shows that the file is dense.
        (["1:1 2:2", "1:3 2:0", "2:0", "2:4"], None),
        (["1:1 2:2", "1:3 2:0", "1:5 2:6", "2:4"], (4, 1, 1, 4)),
        (["1:1 2:2", "1:0 2:0", "1:5 2:6", "2:4"], (4, 1, 1, 4)),  # one line writes zeros
        (["1:1 2:2", "1:3 2:-0", "1:0 2:6", "2:4"], (4, 1, 1, 4)),  # -0 would not be left out
        (["1:1 2:2", "1:3 2:1", "", "2:4", "1:1 2:1"], (3, 1, 2, 5)),
    ],
)
@pytest.mark.parametrize("size", [10, 1 << 18])
def test_sparse_text_that_lacks_a_few_features_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[str], gap: tuple[int, ...] | None, size: int
) -> None:
    small_blocks(monkeypatch, size)
    path = put(tmp_path / "a.txt", "".join(f"{i % 2} qid:{i // 4} {row}\n" for i, row in enumerate(rows)))
    said: list[str] = []

    queries = read([path], say=said.append)

    assert [Gap(str(path), *one) for one in ([] if gap is None else [gap])] == list(queries.gaps)
    assert [f"{one}; add --sparse if this is right" for one in queries.gaps] == said
    assert () == read([path], columns=Columns(sparse=True)).gaps


def test_with_sparse_absent_features_are_zeros_on_any_line(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt", "1 qid:1 1:0 2:0\n0 qid:1 1:0 2:3\n1 qid:2 1:4\n")

    found = read([path], n_features=3, columns=Columns(sparse=True))

    assert [[0, 0, 0], [0, 3, 0], [4, 0, 0]] == found.documents.tolist()


@pytest.mark.parametrize("size", [20, 1 << 18])
def test_a_file_that_leaves_its_zeros_out_is_sparse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Some blocks look dense."""
    small_blocks(monkeypatch, size)
    lines = ["1 qid:a 1:1 2:2 3:3", "0 qid:b 3:7", "2 qid:a 1:8", "1 qid:c", "1 qid:c 1:9 2:1 3:2", ""]

    found = read(put(tmp_path / "a.txt", "\n".join(lines)))

    assert [[1, 2, 3], [8, 0, 0], [0, 0, 7], [0, 0, 0], [9, 1, 2]] == found.documents.tolist()
    assert [1, 2, 0, 1, 1] == found.labels.tolist()


# ---------------------------------------------------------------------------------------------------------- tables


def as_csv(path: Path, separator: str = ",", **changed: list[Any]) -> Path:
    pd.DataFrame(TABLE | changed).to_csv(path, index=False, sep=separator)
    return path


def as_json(path: Path, **changed: list[Any]) -> Path:
    table = TABLE | changed
    rows = [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
    return put(path, "".join(json.dumps(row) + "\n" for row in rows))


def as_parquet(path: Path, **changed: list[Any]) -> Path:
    return put(path, TABLE | changed)


def as_feather(path: Path, **changed: list[Any]) -> Path:
    return put(path.with_suffix(".arrow"), TABLE | changed, plain=True)


def assert_table(queries: QuerySet) -> None:
    expected = [[1.5, 3, 0], [3.25, 1, 0], [np.nan, 0, 1], [-2, 7, 1]]
    np.testing.assert_array_equal(np.array(expected, np.float32), queries.documents)
    assert ("bm25", "clicks", "fresh") == queries.feature_names
    assert {"fresh": Feature("fresh", "category", ("true", "false"))} == queries.special
    assert [2, 1, 0, 1] == queries.labels.tolist()
    assert ("a", "b") == queries.query_ids
    assert ("d1", "d3", "d2", "d4") == tuple(queries.comments or ())
    assert queries.weights is not None
    assert queries.positions is not None
    assert ([2.5, 1], [3, 0, 1, 2]) == (queries.weights.tolist(), queries.positions.tolist())


FILES = [as_csv, as_json, as_parquet, as_feather]


@pytest.mark.parametrize("make", FILES)
def test_a_file_of_a_table_is_read_by_the_names_of_its_columns(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path / "log")
    said: list[str] = []

    queries = read([path], columns=CHOSEN, say=said.append)

    assert_table(queries)
    assert [f"{path}: {SAID}"] == said
    assert [f"{path}:{row}, query '{query}'" for row, query in ((1, "a"), (3, "a"), (2, "b"), (4, "b"))] == [
        queries.where(document) for document in range(4)
    ]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_a_table_in_memory_is_read_like_its_file(make: Callable[[Any], object]) -> None:
    said: list[str] = []

    queries = read_table(make(TABLE), columns=CHOSEN, say=said.append)

    assert_table(queries)
    assert [f"table: {SAID}"] == said
    assert "table:3, query 'a'" == queries.where(1)


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_csv_may_be_separated_and_compressed_in_any_way(
    tmp_path: Path, separator: str, compress: Compress
) -> None:
    path = as_csv(tmp_path / "log", separator)
    path.write_bytes(compress(b"\xef\xbb\xbf" + path.read_bytes()))

    assert_table(read(path, columns=CHOSEN))


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_json_lines_may_be_compressed(tmp_path: Path, compress: Compress) -> None:
    path = as_json(tmp_path / "log")
    path.write_bytes(compress(b"\xef\xbb\xbf\n" + path.read_bytes()))

    assert_table(read(path, columns=CHOSEN))


@pytest.mark.parametrize("make", FILES)
def test_options_choose_the_columns(tmp_path: Path, make: Callable[..., Path]) -> None:
    path = make(tmp_path / "log", grade=[3, 0, 1, 2], shop=[7, 7, 8, 8], label=["u", "v", "w", "x"])
    chosen = Columns(
        label="grade", qid="shop", id="qid", ignore=("docno", "place", "traffic", "fresh", "label")
    )

    queries = read([path], columns=chosen)

    assert ("bm25", "clicks") == queries.feature_names
    assert (("7", "8"), [3, 0, 1, 2]) == (queries.query_ids, queries.labels.tolist())
    assert ("a", "b", "a", "b") == tuple(queries.comments or ())
    assert (None, None) == (queries.weights, queries.positions)


@pytest.mark.parametrize("make", FILES)
def test_labels_are_not_looked_at_if_they_are_not_wanted(tmp_path: Path, make: Callable[..., Path]) -> None:
    path = make(tmp_path / "log", label=[-1, None, 5, 1])
    said: list[str] = []

    queries = read(path, columns=Columns(judged=False), say=said.append)

    assert [0, 0, 0, 0] == queries.labels.tolist()
    assert "'label' (labels, which are not needed)" in said[0]
    assert "label" not in queries.feature_names


def test_types_of_json_are_those_of_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers may be followed by others, nothing by numbers, and dates by other texts."""
    small_blocks(monkeypatch, 100)
    first = {"qid": "2026-01-01", "label": 1, "x": 1, "y": None, "day": "2026-01-01", "more": {"a": 1}}
    last = {"qid": "b", "label": 0.5, "x": 2.5, "y": 0.25, "day": "soon", "more": {"a": "b"}}
    path = put(tmp_path / "a.json", (json.dumps(first) + "\n") * 5 + json.dumps(last))
    said: list[str] = []

    queries = read([path], say=said.append)

    assert ("2026-01-01", "b") == queries.query_ids
    assert [0.5, 2.5, 0.25] == [queries.labels[-1], *queries.documents[-1].tolist()]
    assert said[0].endswith(
        "2 features ('x', 'y'); left out: 'day' (dates, of which --date day makes numbers), 'more' (struct<a: int64>)"
    )


def test_csv_is_read_as_its_first_values_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_text, "_BLOCK", 128)
    rows = [
        "label,qid,flag,whole,empty,day,2020",
        *["1,007,true,5,,2024-01-02,1"] * 9,
        "0,07,false,0.25,3,soon,2",
    ]
    said: list[str] = []

    queries = read(put(tmp_path / "a.csv", "\n".join(rows)), say=said.append)

    assert ("007", "07") == queries.query_ids
    assert ("flag", "whole", "empty", "2020") == queries.feature_names
    assert [1, 0.25, 3, 2] == queries.documents[-1].tolist()
    assert {"flag": Feature("flag", "category", ("true", "false"))} == queries.special
    assert said[0].endswith("left out: 'day' (dates, of which --date day makes numbers)")


@pytest.mark.parametrize(("words", "read_as"), [(51, "text"), (50, "numbers")])
@pytest.mark.parametrize("number", ["1", "1,5"])
def test_a_column_is_one_of_numbers_if_half_of_its_values_are(
    tmp_path: Path, words: int, read_as: str, number: str
) -> None:
    """The first word or comma is named then; a column of more words is a category."""
    cells = [number] * (100 - words) + ["word"] * words
    path = put(
        tmp_path / "a.csv", "".join(["label;qid;x;y\n", *(f"1;q;{i};{c}\n" for i, c in enumerate(cells))])
    )

    if read_as == "text":
        assert {"y"} == read(path).special.keys()
    else:
        with pytest.raises(
            InvalidData, match=f"row {51 if number == '1' else 1}, column 'y': expected a number"
        ):
            read(path)


@pytest.mark.parametrize(
    ("line", "delimiter"),
    [
        (b"1 qid:1 1:1", None),
        (b"1\tqid:1\t1:1,2", None),
        (b"1", None),
        (b"a b c", None),
        (b"label\tqid", "\t"),
        (b"a qid,b", ","),
        (b"qid:1,b", ","),
        (b"a;b;c,d", ";"),
        # As many of each: tabs come first, then commas, then semicolons.
        (b"a,b\tc", "\t"),
        (b"a;b,c", ","),
        (b"a|b;c", ";"),
        (b"1,a,2\r\n", ","),
    ],
)
def test_what_separates_the_columns_is_what_occurs_most(line: bytes, delimiter: str | None) -> None:
    assert delimiter == table_text.delimiter_of(line, "x")


def test_names_in_a_header_may_be_anything(tmp_path: Path) -> None:
    content = b'\n#label,qid,"doc,id",2021,\n1,a,7,5,0\n'

    found = read(put(tmp_path / "a.csv", content), columns=Columns(label="#label"))

    assert ("doc,id", "2021") == found.feature_names


# --------------------------------------------------------------------------------------------- what a column is


def said_of(**more: Any) -> str:
    said: list[str] = []
    read_table(pa.table({"label": [1, 0], "qid": ["a", "a"], **more}), say=said.append)
    return said[0]


def numbers(n: int, name: str) -> dict[str, list[int]]:
    return {name.format(i): [1, 2] for i in range(n)}


@pytest.mark.parametrize(
    ("table", "end"),
    [
        (numbers(1, "x{}"), "1 feature ('x0')"),
        (numbers(6, "x{}"), "6 features ('x0', 'x1', 'x2', 'x3', 'x4', 'x5')"),
        (numbers(7, "x{}"), "7 features ('x0', 'x1', 'x2', 'x3', 'x4', 'x5', …)"),
        ({"x": [1, 2], **{f"t{i}_url": ["u", "v"] for i in range(6)}}, "'t5_url' (text)"),
        ({"x": [1, 2], **{f"t{i}_url": ["u", "v"] for i in range(7)}}, "'t5_url' (text), 't6_url' (text)"),
        ({"x": [1, 2], "": [1, 2]}, "left out: '' (without a name)"),
        (
            {"x": [1, 2], "when": pa.array([1, 2], pa.date32())},
            "left out: 'when' (dates, of which --date when makes numbers)",
        ),
        # Of the usual names of ids the first of the list counts, not the first of the table.
        (
            {"x": [1, 2], "docno": ["d", "e"], "docid": [1, 2]},
            "document id 'docid', 1 feature ('x'); left out: 'docno' (a document id)",
        ),
        (
            {"x": [1, 2], "features": [[1.0, 2.0], [3.0, 4.0]]},
            "2 features ('f1', 'f2'); left out: 'x' (beside the list 'features')",
        ),
        ({"x": [1, 2], "features": [5.0, 6.0]}, "2 features ('x', 'features')"),
    ],
)
def test_what_was_taken_and_what_was_left_is_said(table: dict[str, Any], end: str) -> None:
    assert said_of(**table).endswith(end)


@pytest.mark.parametrize(
    "name", ["product_id", "PRODUCT_ID", "docId", "docID", "id", "ID", "Index", "Unnamed: 0"]
)
def test_a_feature_that_is_called_like_an_id_is_told(name: str) -> None:
    expected = f"used as features, though named like ids: {name!r} (--ignore {name} if they are)"

    assert said_of(x=[1, 2], **{name: [1, 2]}).endswith(f"2 features ('x', {name!r}); {expected}")


@pytest.mark.parametrize("name", ["valid", "paid", "grid", "GRID", "identity", "idle"])
def test_a_word_that_ends_in_id_is_not_called_like_an_id(name: str) -> None:
    assert said_of(x=[1, 2], **{name: [1, 2]}).endswith(f"2 features ('x', {name!r})")
    assert "like ids" not in said_of(x=[1, 2], is_id=[True, False])


def test_up_to_six_features_that_are_called_like_ids_are_listed() -> None:
    six = [f"k{i}_id" for i in range(6)]

    assert f"{', '.join(map(repr, six))} (--ignore {','.join(six)} if they are)" in said_of(
        **numbers(7, "k{}_id")
    )


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.int8(),
        pa.uint64(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("order", [["1", "2", "1"], ["2", "1", "2"]])
def test_text_and_integers_of_any_kind_are_ids(kind: Any, order: list[str]) -> None:
    values = pa.array(list(map(int, order)), pa.int8()) if pa.types.is_integer(kind) else pa.array(order)
    ids = values.cast(kind) if not pa.types.is_dictionary(kind) else values.dictionary_encode().cast(kind)

    queries = read_table(pa.table({"label": [2, 0, 1], "qid": ids, "doc_id": ids, "x": [1.0, 2.0, 3.0]}))

    assert (order[0], order[1]) == queries.query_ids
    assert (order[0], order[0], order[1]) == tuple(queries.comments or ())
    assert [[1], [3], [2]] == queries.documents.tolist()


def test_a_dictionary_may_hold_what_no_row_has_and_the_same_text_twice() -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array([3, 0, 1]), pa.array(["b", "a", "none", "b"]))

    assert ("b", "a") == read_table(pa.table({"label": [2, 0, 1], "qid": ids, "x": [1, 2, 3]})).query_ids


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2], pa.uint8()),
        pa.array([1.0, 2.0], pa.float16()),
        pa.array([1, 2], pa.decimal128(5, 2)),
        pa.array([2**53 + 1, 2**53]),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_of_any_kind_are_features_labels_and_weights(values: Any) -> None:
    table = {"label": values, "qid": ["a", "b"], "x": values, "w": values}

    queries = read_table(pa.table(table), columns=Columns(weight="w"))

    expected = [float(value) for value in values.to_pylist()]
    assert queries.weights is not None
    assert expected == queries.labels.tolist() == queries.documents[:, 0].tolist() == queries.weights.tolist()


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float64(), 2), pa.list_(pa.float32()), pa.large_list(pa.int32())]
)
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_one_list_column_holds_the_features(tmp_path: Path, kind: Any, suffix: str) -> None:
    table = {"features": pa.array([[1, 2], [3, None]], kind), "label": [1, 0], "qid": ["a", "b"]}

    for queries in (read(put(tmp_path / f"a.{suffix}", table, plain=True)), read_table(table)):
        assert ("f1", "f2") == queries.feature_names
        np.testing.assert_array_equal([[1, 2], [3, np.nan]], queries.documents)


def test_a_list_in_json_holds_the_features(tmp_path: Path) -> None:
    path = put(
        tmp_path / "a",
        '{"qid": 7, "label": 1, "features": [1, 2.5]}\n{"qid": 8, "label": 0, "features": [3, null]}',
    )

    queries = read(path)

    assert (("f1", "f2"), ("7", "8")) == (queries.feature_names, queries.query_ids)
    np.testing.assert_array_equal([[1, 2.5], [3, np.nan]], queries.documents)


def test_files_may_order_their_features_differently(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", {"label": [1], "qid": ["a"], "x": [1.0], "y": [2.0]})
    put(tmp_path / "b.csv", "y,qid,label,x\n4,b,1,3\n")
    put(tmp_path / "c.jsonl", '{"y": 6, "x": 5, "label": 1, "qid": "c"}\n')
    put(tmp_path / "d.parquet", named(["y", "x"], label=[1], qid=["d"], features=[[8.0, 7.0]]))
    put(tmp_path / "e.txt", "1 qid:e 1:9 2:10\n")

    queries = read([tmp_path])

    assert ("x", "y") == queries.feature_names
    assert [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]] == queries.documents.tolist()
    assert tuple("abcde") == queries.query_ids


def test_comments_that_are_all_empty_are_none() -> None:
    table = {"label": [1, 0], "qid": ["a", "a"], "x": [1, 2]}

    assert read_table({**table, "docid": ["", None]}).comments is None
    assert ("", "d") == tuple(read_table({**table, "docid": ["", "d"]}).comments or ())


def test_more_features_than_any_format_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_training.data.tables.MAX_FEATURES", 2)

    assert "2 features" in said_of(**numbers(2, "x{}"))
    with pytest.raises(InvalidData, match="table: expected at most 2 features, found 3"):
        said_of(**numbers(3, "x{}"))


# ----------------------------------------------------------------------------------------------- Parquet and Arrow


def test_what_was_read_of_parquet_is_not_kept(tmp_path: Path) -> None:
    n_rows, n_features = 320_000, 32
    values = np.random.default_rng(0).random((n_features, n_rows), np.float32)
    table = {"label": np.zeros(n_rows), "qid": np.repeat(np.arange(n_rows // 100), 100).astype(str)}
    pq.write_table(
        pa.table(table | {f"f{number}": column for number, column in enumerate(values)}),
        tmp_path / "large.parquet",
        row_group_size=n_rows // 16,
    )
    before, most = pa.total_allocated_bytes(), [0]

    def look(*_: object) -> None:
        most[0] = max(most[0], pa.total_allocated_bytes() - before)

    assert n_rows == read(tmp_path / "large.parquet", progress=look).n_docs
    assert 0 < most[0] < values.nbytes / 2


@pytest.mark.parametrize("group", [0, 1, 2])
def test_damage_of_parquet_is_placed_in_its_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    monkeypatch.setattr("localrank_training.data.columnar._CELLS_READ", 100)
    path = tmp_path / "a.parquet"
    table = {"label": np.zeros(300), "qid": ["q"] * 300, "x": np.random.default_rng(0).random(300)}
    pq.write_table(pa.table(table), path, row_group_size=100, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(group).column(2)
    content[column.data_page_offset : column.data_page_offset + 300] = b"\xff" * 300
    path.write_bytes(content)

    with pytest.raises(InvalidData) as caught:
        read(path)

    expected = f"expected a whole Parquet file, found damage after row {100 * group}, in row group {group + 1} of 3 ("
    assert str(caught.value).startswith(f"{path}: {expected}")


@pytest.mark.parametrize("keep", [10, 200, -20, -1])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_cut_file_is_refused(tmp_path: Path, suffix: str, keep: int) -> None:
    path = put(tmp_path / f"a.{suffix}", {"label": [1], "qid": ["a"], "x": [1.0]}, plain=True)
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(InvalidData) as caught:
        read(path)

    assert str(caught.value).startswith(
        f"{path}: expected a whole {suffix.capitalize()} file, found damage ("
    )


def test_an_arrow_file_of_our_own_is_mapped(tmp_path: Path) -> None:
    queries = read_table(pa.table(TABLE), columns=CHOSEN)
    write(queries, tmp_path / "a.arrow")
    said: list[str] = []

    found = read(tmp_path / "a.arrow", say=said.append)

    assert_table(found)
    assert [0, 2, 1, 3] == found.lines.tolist()
    assert isinstance(found.documents, np.memmap)
    assert found.documents.mode == "r"
    taken = "label 'label', query 'qid', document id 'comment', query weight 'weight', position 'position', 3 features"
    assert [
        f"{tmp_path / 'a.arrow'}: {taken} ('bm25', 'clicks', 'fresh'), of which 1 is a category ('fresh')"
    ] == said
    # Beside another file it is read.
    write(read_table(pa.table(TABLE | {"qid": list("cdcd")}), columns=CHOSEN), tmp_path / "b.arrow")
    both = read([tmp_path / "a.arrow", tmp_path / "b.arrow"])
    assert (8, tuple("abcd")) == (both.n_docs, both.query_ids)
    np.testing.assert_array_equal(found.documents, both.documents[4:])
    assert f"{tmp_path / 'b.arrow'}:1, query 'c'" == both.where(4)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.set_column(1, "qid", pa.array(["a", "b", "a", "b"])),
        lambda table: table.set_column(
            2, "features", table["features"].combine_chunks().cast(pa.list_(pa.float64(), 3))
        ),
        lambda table: table.set_column(
            2, "features", pa.array([[1, 2, None]] * 4, pa.list_(pa.float32(), 3))
        ),
        lambda table: table.replace_schema_metadata(None),
        lambda table: pa.concat_tables([table.slice(0, 1), table.slice(1)]),
    ],
    ids=["apart", "doubles", "nulls", "unnamed", "batches"],
)
def test_other_arrow_files_are_read_and_not_mapped(tmp_path: Path, change: Callable[[Any], Any]) -> None:
    features = pa.array([[1.0, 2.0, 3.0]] * 4, pa.list_(pa.float32(), 3))
    table = change(
        named(list("xyz"), label=[1.0, 0.0, 1.0, 0.0], qid=["a", "a", "b", "b"], features=features)
    )
    with pa.OSFile(str(tmp_path / "a"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)

    found = read(tmp_path / "a")

    assert not isinstance(found.documents, np.memmap)
    assert [1, 2] == found.documents[0, :2].tolist()
    assert (2, 4) == (len(found), found.n_docs)


def test_a_compressed_arrow_file_is_read(tmp_path: Path) -> None:
    pl.DataFrame(TABLE).write_ipc(tmp_path / "a.arrow", compression="zstd")

    assert_table(read(tmp_path / "a.arrow", columns=CHOSEN))


@pytest.mark.parametrize("lines", [[0, 0], [-1, 0], [1, 2], [0.0, 1.0], [None, 0]])
def test_places_in_an_earlier_input_are_whole(tmp_path: Path, lines: list[Any]) -> None:
    table = named(
        ["x"], label=[1.0, 0.0], qid=["a", "b"], features=pa.array([[1], [2]], pa.list_(pa.float32(), 1))
    )
    table = table.append_column("at", pa.array(lines))
    put(
        tmp_path / "a.arrow",
        table.replace_schema_metadata({**table.schema.metadata, b"localrank.line": b"at"}),
        plain=True,
    )

    with pytest.raises(InvalidData) as caught:
        read(tmp_path / "a.arrow")

    expected = "column 'at': expected each position from 0 to 1 once, found other values"
    assert f"{tmp_path / 'a.arrow'}: {expected}" == str(caught.value)


# ---------------------------------------------------------------------------------------------------- many files


def test_progress_goes_on_from_file_to_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_text, "_BLOCK", 64)
    small_blocks(monkeypatch)
    head = "label,qid,f1\n"
    for name, content in (
        ("a.txt", "1 qid:1 1:1\n" * 3),
        ("b.csv", head + "1,2,1\n" * 99),
        ("c.parquet", None),
    ):
        put(tmp_path / name, content or {"label": [1], "qid": ["3"], "f1": [1]})
    sizes = np.cumsum([(tmp_path / name).stat().st_size for name in ("a.txt", "b.csv", "c.parquet")]).tolist()

    for skip in (False, True):
        told: list[tuple[str, int, int]] = []
        read([tmp_path], skip=skip, progress=lambda *one, told=told: told.append(one))

        assert {("reading", sizes[-1])} == {(task, total) for task, _, total in told}
        done = [done for _, done, _ in told]
        assert sorted(done) == done
        assert set(sizes) <= set(done)


def test_the_same_columns_are_described_once_however_many_files_have_them(tmp_path: Path) -> None:
    for name in "ab":
        put(tmp_path / f"{name}.csv", f"label,qid,x\n1,{name},1\n")
    put(tmp_path / "c.csv", "label,qid,url,x\n1,c,u,1\n")
    said: list[str] = []

    read([tmp_path], say=said.append)

    assert [f"{tmp_path / 'a.csv'}", f"{tmp_path / 'c.csv'}"] == [
        sentence.partition(": ")[0] for sentence in said
    ]


def weighed(path: Path, query: str, weight: float | None, value: float = 1.0) -> Path:
    columns: dict[str, Any] = {"label": [1.0, 0.0], "qid": [query] * 2, "x": [1.0, value]}
    table = pa.table(columns | ({} if weight is None else {"w": [weight] * 2}))
    return put(
        path, table.replace_schema_metadata({b"localrank.weight": b"w"} if weight is not None else None)
    )


@pytest.mark.parametrize("weights", [(None, 2.0), (2.0, None)])
def test_all_inputs_have_weights_or_none(tmp_path: Path, weights: tuple[float | None, float | None]) -> None:
    for name, weight in zip("ab", weights, strict=True):
        weighed(tmp_path / f"{name}.parquet", name, weight)

    with pytest.raises(InvalidData) as caught:
        read([tmp_path])

    found = "none" if weights[1] is None else "some"
    expected = (
        f"expected query weights in all inputs or in none, found {found}, unlike in {tmp_path / 'a.parquet'}"
    )
    assert f"{tmp_path / 'b.parquet'}: {expected}" == str(caught.value)


#: A file that is wrong, and one that would be wrong after it if anything of it were kept: names, width, queries, weights.
PAIRS: dict[str, tuple[Any, Any]] = {
    "queries": ("1 qid:2 1:1\n0 qid:1 1:x\n", "1 qid:1 1:1\n0 qid:2 1:4\n"),
    "width of text": ("1 qid:1 1:1 9:2\n0 qid:2 1:x\n", "1 qid:2 2:2\n0 qid:1 1:3\n"),
    "width of a table": (
        "label,qid,f1,f2,f3\n1,a,1,2,3\n0,a,1,2,inf\n",
        "label,qid,f1,f2\n1,a,1,2\n0,a,3,4\n",
    ),
    "names": ("label,qid,x\n1,a,1\n0,a,inf\n", "label,qid,y\n1,a,1\n0,a,3\n"),
    "zeros": ("1 qid:1 1:1 2:0\n" * 3 + "1 qid:1 1:x\n", "1 qid:1 1:1 2:3\n1 qid:1 1:1\n1 qid:2 2:7\n"),
}


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize("held", [None, 0])
def test_nothing_of_a_file_that_is_left_out_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, held: int | None
) -> None:
    small_blocks(monkeypatch, 12)
    monkeypatch.setattr(table_text, "_BLOCK", 32)
    bad, good = (put(tmp_path / name, content) for name, content in zip("ab", PAIRS[case], strict=True))
    said: list[str] = []

    found = read([bad, good], skip=True, say=said.append, held=held)

    alone_said: list[str] = []
    alone = read([good], say=alone_said.append)
    assert [str(bad)] == [one.file for one in found.skipped]
    assert [f"skipped: {found.skipped[0].reason}", *alone_said] == said
    assert (alone.feature_names, alone.query_ids) == (found.feature_names, found.query_ids)
    np.testing.assert_array_equal(alone.documents, found.documents)
    assert alone.gaps == found.gaps


def test_weights_of_a_file_that_is_left_out_are_forgotten(tmp_path: Path) -> None:
    weighed(tmp_path / "a.parquet", "q", 3.0, np.inf)
    weighed(tmp_path / "b.parquet", "q", None)

    found = read([tmp_path], skip=True)

    assert (None, 1) == (found.weights, len(found.skipped))


def test_files_that_are_left_out_are_kept_in_the_order_of_the_input(tmp_path: Path) -> None:
    put(tmp_path / "a.zip", b"PK\x03\x04")
    put(tmp_path / "b.txt", "1 qid:1 1:x\n")
    put(tmp_path / "c.txt", "1 qid:1 1:1\n")

    found = read([tmp_path], skip=True)

    assert [str(tmp_path / "a.zip"), str(tmp_path / "b.txt")] == [one.file for one in found.skipped]
    assert isinstance(found.skipped[0], Skipped)
    with pytest.raises(InvalidData, match="found a zip archive"):  # a file that is named is never left out
        read([tmp_path / "a.zip", tmp_path / "c.txt"], skip=True)
    (tmp_path / "c.txt").unlink()
    with pytest.raises(InvalidData) as caught:
        read([tmp_path], skip=True)
    first = f"{tmp_path / 'a.zip'}: expected LETOR text"
    assert str(caught.value).startswith(
        f"expected a file that can be read, found none; the first of 2: {first}"
    )


# ---------------------------------------------------------------------------------------------------------- damage

CHARACTERS = np.frombuffer(b'0123456789:.-+eE#?qid \n\t\rnaf{}[]",', np.uint8)


def hurt(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut or put in a few bytes."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(changed))), int(rng.integers(4))
        if kind == 0:
            changed[at] = int(rng.integers(256))
        elif kind == 1:
            changed[at] = int(rng.choice(CHARACTERS))
        elif kind == 2 and at > 0:
            del changed[at : at + int(rng.integers(1, 30))]
        else:
            changed[at:at] = rng.bytes(int(rng.integers(1, 5)))
    return bytes(changed)


@pytest.mark.parametrize("times", [150, pytest.param(20_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["text", "gz", "zst", "parquet", "arrow", "csv", "json", "feather"])
def test_damage_is_read_or_refused(tmp_path: Path, kind: str, times: int) -> None:
    rng = np.random.default_rng(0)
    makers: dict[str, Any] = {"csv": as_csv, "json": as_json, "feather": as_feather}
    if kind in makers:
        source = makers[kind](tmp_path / "whole")
    else:
        lines = [
            f"{i % 3} qid:{i // 5} 1:{rng.random():.4f} 2:{rng.random():.3f} # doc é{i}\n" for i in range(60)
        ]
        source = tmp_path / "whole"
        write(read(put(tmp_path / "source.txt", "".join(lines))), source, to=kind)  # type: ignore[arg-type]
    whole, damaged, messages = source.read_bytes(), tmp_path / "damaged", []

    for _ in range(times):
        damaged.write_bytes(hurt(whole, rng))
        try:
            found = read(damaged)
            list(found.comments or ())
            np.isnan(found.documents).any()
        except InvalidData as error:
            messages.append(str(error))

    assert messages
    assert not [message for message in messages if "\n" in message or not message.startswith(str(damaged))]


def test_a_comment_cut_within_a_letter_is_refused(tmp_path: Path) -> None:
    table = pa.table({"label": [1.0], "qid": ["q"], "f1": [0.5], "comment": ["caf\u00e9"]})
    offsets = pa.py_buffer(np.array([0, 4], np.int32))
    broken = table.set_column(3, "comment", pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"caf\xc3")))

    for name in ("a.parquet", "a.arrow"):
        with pytest.raises(InvalidData, match=rf"{name}: expected a whole \w+ file, found damage"):
            read(put(tmp_path / name, broken, plain=True))
