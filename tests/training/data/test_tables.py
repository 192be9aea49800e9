"""CSV and Parquet: what each column is, and that nothing is taken or left in silence."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from localrank.errors import InvalidData
from localrank_training.data.columns import AS_NAMED, Columns
from localrank_training.data.reading import read, read_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADER = "label,qid,doc_id,url,bm25,clicks"
ROWS = ["2,q1,17,http://a,1.5,3", "0,q1,18,http://b,,0", "1,q 2,19,http://c,-2e-3,1"]


def written(path: Path, lines: list[str], separator: str = ",") -> Path:
    path.write_text("".join(line.replace(",", separator) + "\n" for line in lines))
    return path


def message(path: Path, columns: Columns = AS_NAMED) -> str:
    with pytest.raises(InvalidData) as error:
        read([path], columns=columns)
    return str(error.value)


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_a_table_of_text_is_read_by_the_names_of_its_columns(tmp_path: Path, separator: str) -> None:
    queries = read([written(tmp_path / "log", [HEADER, *ROWS], separator)])

    assert ("bm25", "clicks") == queries.feature_names
    assert ("q1", "q 2") == queries.query_ids
    assert [2, 0, 1] == queries.labels.tolist()
    assert ("17", "18", "19") == tuple(queries.comments or ())
    np.testing.assert_array_equal(
        np.array([[1.5, 3], [np.nan, 0], [-2e-3, 1]], np.float32), queries.documents
    )


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_compressed_table_is_the_same(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    plain = written(tmp_path / "a.csv", [HEADER, *ROWS])
    packed = tmp_path / "a.csv.packed"
    packed.write_bytes(compress(plain.read_bytes()))

    assert read([plain]).documents.tobytes() == read([packed]).documents.tobytes()


def test_the_same_table_reads_the_same_from_csv_and_from_parquet(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "label": rng.integers(0, 3, 5000),
        "qid": np.repeat(np.arange(500), 10),
        **{f"x{i}": rng.normal(size=5000).astype(np.float32) for i in range(4)},
    }
    columns["x0"] = np.where(rng.random(5000) < 0.1, np.nan, columns["x0"])
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))

    parquet, text = read([tmp_path / "a.parquet"]), read([tmp_path / "a.csv"])

    assert parquet.documents.tobytes() == text.documents.tobytes()
    assert parquet.query_ids == text.query_ids
    np.testing.assert_array_equal(parquet.labels, text.labels)


def test_whole_numbers_may_be_followed_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_training.data.delimited._BLOCK", 64)
    lines = ["label,qid,x", *("1,a,5" for _ in range(50)), "0,a,0.25"]

    assert 0.25 == read([written(tmp_path / "a.csv", lines)]).documents[-1, 0]


def test_query_ids_keep_their_zeros(tmp_path: Path) -> None:
    queries = read([written(tmp_path / "a.csv", ["label,qid,x", "1,007,1", "0,07,2"])])

    assert ("007", "07") == queries.query_ids


def test_options_choose_the_columns(tmp_path: Path) -> None:
    lines = ["grade,query,price,shop,x", "3,a,9,1,0.5", "0,a,8,1,0.25"]
    chosen = Columns(label="grade", qid="query", id="price", ignore=("shop",))

    queries = read([written(tmp_path / "a.csv", lines)], columns=chosen)

    assert ("x",) == queries.feature_names
    assert ("9", "8") == tuple(queries.comments or ())
    assert [3, 0] == queries.labels.tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_was_taken_and_what_was_left_is_said_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"log.{kind}"
    if kind == "csv":
        written(path, [HEADER, *ROWS])
    else:
        table = pa.table(
            {
                "label": [2, 0, 1],
                "qid": ["q1", "q1", "q 2"],
                "doc_id": [17, 18, 19],
                "url": ["a", "b", "c"],
                "bm25": [1.5, None, -2e-3],
                "clicks": [3, 0, 1],
            }
        )
        pq.write_table(table, path)
    said: list[str] = []

    queries = read([path], columns=Columns(ignore=("clicks",)), say=said.append)

    assert ("bm25",) == queries.feature_names
    expected = (
        f"{path}: label 'label', query 'qid', document id 'doc_id', 1 feature ('bm25'); "
        "left out: 'url' (text), 'clicks' (ignored)"
    )
    assert [expected] == said


WRONG = {
    "no header": (["1,2,3", "4,5,6"], "expected a header line with the names of the columns"),
    "only a header": (["label,qid,x"], "expected judged documents, found only a header"),
    "no label": (
        ["grade,qid,x", "1,a,2"],
        "expected a column 'label', found 'grade', 'qid', 'x'; is it 'grade'? --label grade",
    ),
    "column twice": (["label,qid,x,x", "1,a,2,3"], "expected every column once, found 'x' again"),
    "text as label": (["label,qid,x", "good,a,2"], "row 1, column 'label': expected a number, found 'good'"),
    "one word as label": (
        ["label,qid,x", "1,a,1", "bad,a,2", "0,a,3"],
        "row 2, column 'label': expected a number, found 'bad'",
    ),
    "labels with commas": (["label;qid;x", '"1,5";a;2'], "without commas, found '1,5'"),
    "second header": (["label,qid,x", "label,qid,x", "1,a,2", "0,a,1"], "row 1 repeats the header"),
    "header in between": (["label,qid,x", "1,a,2", "0,a,1", "label,qid,x"], "row 3 repeats the header"),
    "negative label": (
        ["label,qid,x", "1,a,1", "-1,a,2"],
        "row 2, column 'label': expected a finite label of",
    ),
    "no query": (["label,qid,x", "1,a,1", "1,,2"], "row 2, column 'qid': expected a value, found nothing"),
    "a word in a column of numbers": (
        ["label,qid,x,y", "1,a,1,1", "1,a,2,n.a.", "0,a,3,2"],
        "row 2, column 'y': expected a number, found 'n.a.'; --ignore y leaves the column out",
    ),
    "infinite": (["label,qid,x", "1,a,inf"], "row 1, column 'x': expected a finite value, found inf"),
    "beyond float32": (
        ["label,qid,x", "1,a,1e39"],
        "row 1, column 'x': expected a value within the range of float32",
    ),
    "short row": (["label,qid,x", "1,a,1", "0,a"], "row 2: expected 3 columns, found 2"),
    "no features": (["label,qid,x", "1,a,word"], "expected columns of numbers as features"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_table_of_text_is_named(tmp_path: Path, case: str) -> None:
    lines, expected = WRONG[case]
    path = written(tmp_path / "log.csv", lines)

    found = message(path)

    assert found.startswith(f"{path}: ")
    assert expected in found
    assert "--ignore label" not in found


def test_a_word_far_down_a_column_of_numbers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrank_training.data.delimited._BLOCK", 256)
    path = written(tmp_path / "log.csv", ["label,qid,x", *("1,a,2" for _ in range(99)), "0,a,oops"])

    expected = "row 100, column 'x': expected a number, found 'oops'; --ignore x leaves the column out"
    assert f"{path}: {expected}" == message(path)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (Columns(qid="label"), "expected a different column for each of --label, --qid"),
        (Columns(ignore=("qid",)), "expected to use or to ignore the column 'qid', found both"),
        (Columns(ignore=("size",)), "expected a column 'size' to ignore, found 'label', 'qid', 'x'"),
        (Columns(id="x"), "expected columns of numbers as features"),
    ],
)
def test_choices_that_contradict_are_refused(tmp_path: Path, columns: Columns, expected: str) -> None:
    assert expected in message(written(tmp_path / "a.csv", ["label,qid,x", "1,a,2"]), columns)


def test_a_damaged_compressed_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    packed = gzip.compress(("label,qid,x\n" + "1,a,2\n" * 5000).encode())
    path.write_bytes(packed[: len(packed) // 2])

    assert message(path).startswith(f"{path}: expected ")


def test_tabs_between_the_fields_of_letor_text_do_not_make_it_a_table(tmp_path: Path) -> None:
    path = tmp_path / "letor.txt"
    path.write_text("# a comment, with commas\n1\tqid:1\t1:0.5\t2:1 # a, b\n0\tqid:1\t1:0.2\t2:3\n")

    assert [[0.5, 1], [np.float32(0.2), 3]] == read([path]).documents.tolist()


FRAME = {
    "qid": ["a", "b", "a", "b"],
    "label": [2, 0, 1, 1],
    "docno": ["d1", "d2", "d3", "d4"],
    "bm25": [1.5, None, 3.25, -2.0],
    "url": ["u", "v", "w", "x"],
    "clicks": [3, 0, 1, 7],
}


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, dict], ids=lambda make: make.__module__
)
def test_a_table_in_memory_is_read_like_its_csv(make: Callable[[Any], object], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    pd.DataFrame(FRAME).to_csv(path, index=False)
    said: list[str] = []

    expected, actual = read([path]), read_table(make(FRAME), say=said.append)

    assert ("bm25", "clicks") == actual.feature_names
    assert expected.documents.tobytes() == actual.documents.tobytes()
    assert expected.labels.tolist() == actual.labels.tolist() == [2, 1, 0, 1]
    assert expected.query_ids == actual.query_ids == ("a", "b")
    assert expected.comments == actual.comments == ("d1", "d3", "d2", "d4")
    assert "table:4, query 'b'" == actual.where(3)
    assert ["table: label 'label', query 'qid', document id 'docno', 2 features ('bm25', 'clicks'); "] == [
        text.removesuffix("left out: 'url' (text)") for text in said
    ]


def test_what_is_wrong_with_a_table_in_memory_is_named() -> None:
    bad = {**FRAME, "label": [2, 0, None, 1]}

    with pytest.raises(InvalidData, match=r"^table: row 3, column 'label': expected a value, found nothing$"):
        read_table(pd.DataFrame(bad).astype({"label": "Int64"}))
    with pytest.raises(InvalidData, match="expected a table with named columns"):
        read_table(np.ones((3, 2)))
    with pytest.raises(InvalidData, match="found no rows"):
        read_table(pd.DataFrame(FRAME).head(0))


@pytest.mark.parametrize("name", ["valid", "paid", "grid", "Valid", "GRID"])
def test_a_word_that_ends_in_id_is_not_called_like_an_id(tmp_path: Path, name: str) -> None:
    said: list[str] = []

    read(
        [written(tmp_path / "a.csv", [f"label,qid,bm25,{name}", "1,q1,2.5,3", "0,q1,1.5,4"])], say=said.append
    )

    assert said[0].endswith(f"2 features ('bm25', {name!r})")


@pytest.mark.parametrize(
    "name", ["product_id", "PRODUCT_ID", "docId", "docID", "id", "ID", "Index", "Unnamed: 0"]
)
def test_a_feature_that_is_called_like_an_id_is_told(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "a.csv", [f"label,qid,bm25,{name}", "1,q1,2.5,3", "0,q1,1.5,4"])
    said: list[str] = []

    queries = read([path], say=said.append)

    assert ("bm25", name) == queries.feature_names
    taken = f"{path}: label 'label', query 'qid', 2 features ('bm25', {name!r})"
    assert [
        f"{taken}; used as features, though named like ids: {name!r} (--ignore {name} if they are)"
    ] == said


def test_a_column_without_a_name_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    pd.DataFrame({"label": [1, 0], "qid": ["q1", "q1"], "bm25": [2.5, 1.5]}).to_csv(path)
    said: list[str] = []

    queries = read([path], say=said.append)

    assert ("bm25",) == queries.feature_names
    assert said[0].endswith("1 feature ('bm25'); left out: '' (without a name)")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("grade,qid,bm25", "expected a column 'label', found 'grade', 'qid', 'bm25'; is it 'grade'? --label grade"),
        ("Label,qid,bm25", "expected a column 'label', found 'Label', 'qid', 'bm25'; is it 'Label'? --label Label"),
        ("label,query_id,bm25", "expected a column 'qid', found 'label', 'query_id', 'bm25'; is it 'query_id'? --qid query_id"),
        ("label,where,bm25", "expected a column 'qid', found 'label', 'where', 'bm25'; --qid chooses another one"),
        ("Label,QID,bm25", "expected columns 'label', 'qid', found 'Label', 'QID', 'bm25'; are they 'Label' and 'QID'? --label Label --qid QID"),
        ("where,QID,bm25", "expected columns 'label', 'qid', found 'where', 'QID', 'bm25'; is it 'QID'? --qid QID; --label chooses another one"),
        ("1,q7,2.5", "expected a header line with the names of the columns, found '1' in the first line"),
    ],
)  # fmt: skip
def test_a_header_that_is_not_as_expected_is_answered_with_what_may_be_meant(
    tmp_path: Path, header: str, expected: str
) -> None:
    path = written(tmp_path / "a.csv", [header, "1,q1,2.5", "0,q1,1.5"])

    assert f"{path}: {expected}" == message(path)


@pytest.mark.parametrize("cell", ["1,5", "-1,5", "1,000", "12,345.5"])
def test_numbers_with_commas_are_refused(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"label;qid;price;title\n1;q1;{cell};a, b\n0;q1;{cell};c, d\n")

    assert message(path) == (
        f"{path}: row 1, column 'price': expected a number with a decimal point and without commas, found {cell!r}; "
        "--ignore price leaves the column out"
    )
    path.write_text(f"label;qid;price;bm25\n1;q1;{cell};1\n0;q1;{cell};2\n")
    assert ("bm25",) == read([path], columns=Columns(ignore=("price",))).feature_names


@pytest.mark.parametrize(("header", "cell"), [("", ""), ("label,", "-1,"), ("label,", "unknown,")])
def test_labels_are_not_looked_at_if_they_are_not_wanted(tmp_path: Path, header: str, cell: str) -> None:
    path = written(tmp_path / "a.csv", [f"{header}qid,bm25", f"{cell}q1,2.5", f"{cell}q1,1.5"])

    queries = read([path], columns=Columns(judged=False))

    assert ("bm25",) == queries.feature_names
    assert [0, 0] == queries.labels.tolist()


def test_json_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", ['{"label": 1, "qid": "q1", "bm25": 2.5}'])

    assert message(path).endswith("found JSON")


def test_a_table_that_must_be_collected_first_says_so() -> None:
    with pytest.raises(InvalidData, match="found a LazyFrame; collect\\(\\) it first"):
        read_table(pl.DataFrame({"label": [1]}).lazy())


def test_columns_that_are_not_there_are_named_before_their_values_are_looked_at(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ["Label,QID,bm25", "1,7,2.5", "good,8,1.5", "2,8,n.a."])

    assert message(path).endswith("--label Label --qid QID")


@pytest.mark.parametrize(
    ("columns", "advice"),
    [
        (["grade", "qid", "x"], "is it 'grade'? columns=Columns(label='grade')"),
        (["Label", "QID", "x"], "are they 'Label' and 'QID'? columns=Columns(label='Label', qid='QID')"),
        (["value", "qid", "x"], "columns=Columns(label=…) chooses another one"),
    ],
)
def test_advice_for_a_table_in_memory_names_no_options(columns: list[str], advice: str) -> None:
    with pytest.raises(InvalidData) as error:
        read_table(pd.DataFrame([[1, 2, 3.0]], columns=columns))

    assert str(error.value).endswith(f"; {advice}")
    assert "--" not in str(error.value)


# ----------------------------------------------------------------------------------------------- lists and limits


def said_of(table: dict[str, Any], columns: Columns = AS_NAMED) -> str:
    said: list[str] = []
    read_table(pa.table(table), columns=columns, say=said.append)
    (sentence,) = said
    return sentence


def base(**more: Any) -> dict[str, Any]:
    return {"label": [1, 0], "qid": ["a", "a"], **more}


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, "1 feature ('x0')"),
        (2, "2 features ('x0', 'x1')"),
        (6, "6 features ('x0', 'x1', 'x2', 'x3', 'x4', 'x5')"),
        (7, "7 features ('x0', 'x1', 'x2', 'x3', 'x4', 'x5', …)"),
    ],
)
def test_up_to_six_features_are_listed(n: int, expected: str) -> None:
    assert said_of(base(**{f"x{i}": [1, 2] for i in range(n)})).endswith(expected)


@pytest.mark.parametrize(("n", "end"), [(6, "'t5' (text)"), (7, "'t5' (text), …")])
def test_up_to_six_columns_that_are_left_out_are_listed(n: int, end: str) -> None:
    assert said_of(base(x=[1, 2], **{f"t{i}": ["u", "v"] for i in range(n)})).endswith(end)


def test_up_to_six_features_that_are_called_like_ids_are_listed() -> None:
    sentence = said_of(base(**{f"k{i}_id": [1, 2] for i in range(7)}))

    six = [f"k{i}_id" for i in range(6)]
    assert f"named like ids: {', '.join(map(repr, six))} (--ignore {','.join(six)} if they are)" in sentence


def test_flags_and_words_are_not_called_like_ids() -> None:
    assert "like ids" not in said_of(base(is_id=[True, False], identity=[1, 2], idle=[1, 2]))


def test_each_column_has_one_reason_to_be_left_out() -> None:
    table = base(
        x=[1, 2], docno=["d", "e"], docid=[1, 2], t=["u", "v"], y=[1, 2], when=pa.array([1, 2], pa.date32())
    )

    sentence = said_of(table, Columns(ignore=("y",)))

    # Of the usual names of ids the first of the list counts, not the first of the table.
    assert sentence.startswith(
        "table: label 'label', query 'qid', document id 'docid', 1 feature ('x'); left out: "
    )
    assert sentence.endswith("'docno' (a document id), 't' (text), 'y' (ignored), 'when' (date32[day])")


def test_labels_that_are_not_wanted_are_left_out_by_name() -> None:
    sentence = said_of(base(x=[1, 2]), Columns(judged=False))

    assert "table: query 'qid', 1 feature ('x'); left out: 'label' (labels, which are not needed)" == sentence


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
def test_text_and_integers_of_any_kind_are_ids(kind: Any, tmp_path: Path) -> None:
    values = pa.array([1, 2, 1]).cast(pa.int8()) if pa.types.is_integer(kind) else pa.array(["1", "2", "1"])
    ids = values.cast(kind) if not pa.types.is_dictionary(kind) else values.dictionary_encode().cast(kind)
    table = pa.table({"label": [2, 0, 1], "qid": ids, "doc_id": ids, "x": [1.0, 2.0, 3.0]})

    queries = read_table(table)

    assert ("1", "2") == queries.query_ids
    assert ("1", "1", "2") == tuple(queries.comments or ())
    assert [[1], [3], [2]] == queries.documents.tolist()
    assert tmp_path.is_dir()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2], pa.uint8()),
        pa.array([1.0, 2.0], pa.float16()),
        pa.array([1, 2], pa.decimal128(5, 2)),
        pa.array([True, False]),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_of_any_kind_are_features_and_labels(values: Any) -> None:
    queries = read_table(pa.table({"label": values, "qid": ["a", "a"], "x": values}))

    expected = [1.0, 0.0] if pa.types.is_boolean(values.type) else [1.0, 2.0]
    assert expected == queries.labels.tolist()
    assert expected == queries.documents[:, 0].tolist()


@pytest.mark.parametrize(
    ("place", "found"),
    [(1, 1), (2**31 - 1, 2**31 - 1), (2**31, None), (0, None), (-1, None), (1.5, None), (np.inf, None)],
)
def test_a_place_is_a_whole_number_from_one_to_the_longest_list(place: float, found: int | None) -> None:
    table = base(x=[1, 2], place=pa.array([1.0, place]))

    if found is None:
        with pytest.raises(
            InvalidData,
            match=f"row 2, column 'place': expected a place .*, found {place:g}".replace("+", r"\+"),
        ):
            read_table(table, columns=Columns(position="place"))
    else:
        positions = read_table(table, columns=Columns(position="place")).positions
        assert positions is not None
        assert [1, found] == positions.tolist()


def test_comments_that_are_all_empty_are_none() -> None:
    assert read_table(base(x=[1, 2], docid=["", None])).comments is None
    assert ("", "d") == tuple(read_table(base(x=[1, 2], docid=["", "d"])).comments or ())


@pytest.mark.parametrize(
    ("row", "values"), [(1, [np.nan, 1]), (2, [1, np.inf]), (2, [0, -1e-300]), (1, [-1, 2])]
)
def test_the_first_label_that_is_none_is_named(row: int, values: list[float]) -> None:
    with pytest.raises(
        InvalidData, match=f"row {row}, column 'label': expected a finite label of at least 0"
    ):
        read_table({"label": values, "qid": ["a", "a"], "x": [1, 2]})


def test_the_cell_that_is_infinite_is_found_in_lists_whose_order_is_another(tmp_path: Path) -> None:
    for name, names, values in (
        ("a", '["x", "y", "z"]', [1.0, 2, 3]),
        ("b", '["z", "x", "y"]', [7.0, 8, np.inf]),
    ):
        table = pa.table({"label": [1], "qid": [name], "features": [values]})
        pq.write_table(
            table.replace_schema_metadata({b"localrank.feature_names": names.encode()}), tmp_path / name
        )

    with pytest.raises(InvalidData, match=r"b: row 1, column 'y': expected a finite value, found inf"):
        read([tmp_path])


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([[1.0, 2.0], [1.0]], "row 2, column 'features': expected 2 values, found 1"),
        ([[1.0, 2.0], [1.0, 2.0, 3.0]], "row 2, column 'features': expected 2 values, found 3"),
        ([[], []], "expected columns of numbers as features, found 'label', 'qid', 'features'"),
    ],
)
def test_lists_have_as_many_values_as_the_first(tmp_path: Path, features: Any, words: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(base(features=pa.array(features, pa.list_(pa.float64())))), path)

    assert words in message(path)


def test_columns_beside_a_list_of_features_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(base(x=[1, 2], features=[[1.0, 2.0], [3.0, 4.0]])), path)
    said: list[str] = []

    queries = read([path], say=said.append)

    assert ("f1", "f2") == queries.feature_names
    assert said[0].endswith("2 features ('f1', 'f2'); left out: 'x' (beside the list 'features')")
    assert ("x",) == read([path], columns=Columns(ignore=("features",))).feature_names
    # A column of this name that holds no lists is a feature as others are.
    pq.write_table(pa.table(base(x=[1, 2], features=[5.0, 6.0])), path)
    assert ("x", "features") == read([path]).feature_names


def test_more_features_than_any_format_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_training.data.tables.MAX_FEATURES", 2)

    assert 2 == read_table(base(x=[1, 2], y=[1, 2])).n_features
    with pytest.raises(InvalidData, match="expected at most 2 features, found 3"):
        read_table(base(x=[1, 2], y=[1, 2], z=[1, 2]))


def test_a_column_may_not_be_ignored_and_used_whatever_for() -> None:
    for columns in (Columns(weight="x", ignore=("x",)), Columns(id="t", ignore=("t",))):
        with pytest.raises(InvalidData, match="expected to use or to ignore the column"):
            read_table(base(x=[1, 1], t=["u", "v"], y=[1, 2]), columns=columns)
    # An id that is ignored is not taken, and the next of the usual names is.
    queries = read_table(
        base(x=[1, 2], docid=["d", "e"], docno=["f", "g"]), columns=Columns(ignore=("docid",))
    )
    assert ("f", "g") == tuple(queries.comments or ())


@pytest.mark.parametrize("share", [0.5, 0.49])
def test_a_column_is_one_of_numbers_if_half_of_its_values_are(tmp_path: Path, share: float) -> None:
    """The first word is named then; a column of more words is left out."""
    numbers = round(100 * share)
    lines = [f"{i % 2},q,{i},{'word' if i >= numbers else i}" for i in range(100)]
    path = written(tmp_path / "a.csv", ["label,qid,x,y", *lines])

    if share < 0.5:
        assert ("x",) == read([path]).feature_names
    else:
        assert "row 51, column 'y': expected a number, found 'word'; --ignore y" in message(path)


@pytest.mark.parametrize("share", [0.5, 0.49])
def test_half_of_the_values_with_commas_make_a_column_one_of_numbers(tmp_path: Path, share: float) -> None:
    commas = round(100 * share)
    lines = [f"{i % 2};q;{i};{'1,5' if i < commas else 'word'}" for i in range(100)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["label;qid;x;y", *lines, ""]))

    if share < 0.5:
        assert ("x",) == read([path]).feature_names
    else:
        assert "row 1, column 'y': expected a number with a decimal point and without commas" in message(path)


def test_progress_of_a_table_of_text_ends_with_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrank_training.data.delimited._BLOCK", 256)
    path = written(tmp_path / "a.csv", ["label,qid,x", *(f"{i % 2},q{i // 10},{i}" for i in range(400))])
    told: list[tuple[str, int, int]] = []

    queries = read([path], progress=lambda task, done, total: told.append((task, done, total)))

    size = path.stat().st_size
    assert list(range(400)) == queries.documents[:, 0].tolist()
    assert ("reading", size, size) == told[-1]
    done = [some for _, some, _ in told]
    assert sorted(done) == done
    assert queries.origin is not None
    assert list(range(1, 401)) == queries.origin.numbers.tolist()


def test_a_list_of_features_is_taken_from_a_table_in_memory() -> None:
    table = {"label": [1, 0], "qid": ["a", "b"], "features": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}

    queries = read_table(table)

    assert ("f1", "f2", "f3") == queries.feature_names
    assert [[1, 2, 3], [4, 5, 6]] == queries.documents.tolist()


def test_a_list_of_features_may_be_the_first_column() -> None:
    table = pa.table({"features": [[1.0, 2.0], [3.0, 4.0]], "label": [1, 0], "qid": ["a", "b"]})

    queries = read_table(table)

    assert [[1, 2], [3, 4]] == queries.documents.tolist()
    with pytest.raises(
        InvalidData, match="row 2, column 'features': expected a list of values, found nothing"
    ):
        read_table(table.set_column(0, "features", pa.array([[1.0], None], pa.list_(pa.float64()))))


def test_rows_of_a_table_in_memory_have_a_place() -> None:
    queries = read_table({"label": [1, 0, 2], "qid": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})

    assert ["table:1, query 'a'", "table:3, query 'a'", "table:2, query 'b'"] == [
        queries.where(document) for document in range(3)
    ]


def test_what_arrow_says_of_a_table_in_memory_is_one_short_line() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ValueError("x" * 300 + "\ny")

    with pytest.raises(InvalidData) as caught:
        read_table(Broken())

    assert str(caught.value).endswith("a Broken: " + "x" * 160)


@pytest.mark.parametrize("column", ["label", "x", "weight"])
def test_whole_numbers_that_a_double_cannot_tell_apart_are_rounded(column: str) -> None:
    large = 2**53 + 1
    table: dict[str, Any] = {"label": [1], "qid": ["a"], "x": [1], "weight": [1]} | {column: [large]}

    queries = read_table(table, columns=Columns(weight="weight"))

    weights = queries.weights
    assert weights is not None
    found = {"label": queries.labels[0], "x": queries.documents[0, 0], "weight": weights[0]}
    assert 2.0**53 == found[column]
