"""Files that are refused, each with its sentence: what, where, expected, found."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zstandard

from localrank.errors import InvalidData
from localrank_training.data import rows, sources
from localrank_training.data.reading import read, read_table
from localrank_training.data.tables import Columns
from tests.training.data.sets import named, put

if TYPE_CHECKING:
    from collections.abc import Callable

    Content = str | bytes | dict[str, Any]

BASE = {"label": [1.0, 0.0], "qid": ["a", "b"]}
GOOD = {**BASE, "x": [1.0, 2.0]}
KINDS = "LETOR text, CSV or JSON lines (plain, gzip or zstd), Parquet or Arrow"
SPARSE = "; if an absent feature is a zero here, add --sparse"
FLOAT32 = "a value within the range of float32 (at most 3.4028235e38)"
HEADER = "expected a header line with the names of the columns"
PLACE = "expected a place counted from 1, or nothing"


def dense(width: int, query: str, lines: int = 3) -> str:
    values = " ".join(f"{j}:{j % 2}" for j in range(1, width + 1))
    return f"0 qid:{query} {values}\n" * lines


def lost(row: int, feature: int, *zeros: int) -> str:
    """Forty lines of six values, none of them zero except in some rows; one value is not there."""
    rows = [
        " ".join(f"{j}:{0 if i in zeros and j == 3 else j}" for j in range(1, 7) if (i, j) != (row, feature))
        for i in range(40)
    ]
    return "".join(f"{i % 3} qid:{i // 4} {values}\n" for i, values in enumerate(rows))


def numbered(lines: list[str]) -> str:
    return "".join(f"{i % 2} qid:{i // 4} {line}\n" for i, line in enumerate(lines))


FULL = "1:0 2:2 3:0"

#: By what is wrong: files in their order, the sentence ("@" is the folder, "…" the rest), and how they are read.
CASES: dict[str, tuple[dict[str, Content], str, dict[str, Any]]] = {
    # Files.
    "zip": ({"a": b"PK\x03\x04"}, f"@a: expected {KINDS}, found a zip archive", {}),
    "bzip2": ({"a": b"BZh91AY"}, f"@a: expected {KINDS}, found bzip2", {}),
    "xz": ({"a": b"\xfd7zXZ\x00"}, f"@a: expected {KINDS}, found xz", {}),
    "npy": ({"a": b"\x93NUMPY\x01\x00"}, f"@a: expected {KINDS}, found a numpy array", {}),
    "pickle": ({"a": b"\x80\x05\x95"}, f"@a: expected {KINDS}, found a pickle", {}),
    "old pickle": ({"a": b"\x80\x04\x95"}, f"@a: expected {KINDS}, found a pickle", {}),
    "hdf5": ({"a": b"\x89HDF"}, f"@a: expected {KINDS}, found HDF5", {}),
    "utf-16": ({"a": b"\xff\xfe1\x00"}, f"@a: expected {KINDS}, found UTF-16 text", {}),
    "utf-16 be": ({"a": b"\xfe\xff\x00a"}, f"@a: expected {KINDS}, found UTF-16 text", {}),
    "array": ({"a": " \n[1]"}, f"@a: expected {KINDS}, found a JSON array; write each object on a line", {}),
    "binary": (
        {"a": b"\x7fELF\x02\x01\x00"},
        f"@a: expected {KINDS}, found a binary file (byte 7 is 0x00)",
        {},
    ),
    "zero byte": (
        {"a": b"1 qid:1 1:1\n" * 341 + b"1 q\x00"},
        f"@a: expected {KINDS}, found a binary file (byte 4096 is 0x00)",
        {},
    ),
    "empty": ({"a": ""}, "@a: expected judged documents, found an empty file", {}),
    "empty gzip": ({"a": gzip.compress(b"")}, "@a: expected judged documents, found only blank…", {}),
    "remarks": ({"a": "\n# x\n"}, "@a: expected judged documents, found only blank lines and comments", {}),
    "cut gzip": (
        {"a": gzip.compress(b"0 qid:1 1:1\n" * 9)[:-12]},
        "@a: expected a whole gzip file, found a truncated file",
        {},
    ),
    "cut zstd": (
        {"a": zstandard.compress(dense(9, "1").encode())[:-5]},
        "@a: expected a whole zstd file, found a truncated file",
        {},
    ),
    "query twice": (
        {"a.txt": "0 qid:1 1:1\n0 qid:2 1:1\n", "b.txt": "# head\n0 qid:3 1:1\n\n0 qid:2 1:1\n"},
        "@b.txt:4: expected every query in one file, found query '2', which is also in @a.txt",
        {},
    ),
    "query twice in tables": (
        {"a.csv": "label,qid,x\n1,a,1\n", "b.parquet": GOOD},
        "@b.parquet: expected every query in one file, found query 'a', which is also in @a.csv",
        {},
    ),
    # Text.
    "column": ({"a": "0 qid:1 1:0\n\n1 qid:1 1:NaN\n"}, "@a:3:11: expected a finite number, or '?'…", {}),
    "no feature": ({"a": "1 qid:1\n0 qid:1\n"}, "@a: expected at least one feature, found none", {}),
    "wide": (
        {"a": "0 qid:1 1:1\n0 qid:1 1000000:1\n"},
        "@a:2:9: expected at most 100000 features, found index 1000000",
        {},
    ),
    "asked": ({"a": "2 qid:a 1:1 3:1\n"}, "@a:1:13: expected at most 2 features…", {"n_features": 2}),
    "none asked": ({"a": dense(2, "1")}, "expected 1 to 100000 features, found 0 asked for", {"n_features": 0}),
    "too many asked": (
        {"a": dense(2, "1")},
        "expected 1 to 100000 features, found 100001 asked for",
        {"n_features": 100_001},
    ),
    "named": (
        {"a": "2 qid:a 1:1 3:1\n", "a.names": "x\ny\n"},
        "@a:1:13: expected at most 2 features, found index 3",
        {},
    ),
    "weights": (
        {"a": "1 qid:1 1:1\n"},
        "@a: expected a table (CSV, JSON lines, Parquet, Arrow) with the column 'w' of --weight, found LETOR text, which has no place for it",
        {"columns": Columns(weight="w")},
    ),
    "places": (
        {"a": "1 qid:1 1:1\n"},
        "@a: expected a table (CSV, JSON lines, Parquet, Arrow) with the column 'p' of --position, found LETOR…",
        {"columns": Columns(position="p")},
    ),
    # Dense and sparse text.
    "ragged": (
        {"a": dense(5, "1") + dense(4, "2", 1) + dense(5, "3")},
        f"@a:4: expected 5 features as on most lines of this file, found 4{SPARSE}",
        {},
    ),
    "longer": ({"a": dense(5, "1") + dense(6, "2", 1)}, "@a:4: expected 5 features as on…", {}),
    "as many": (
        {"a": numbered(["1:1 2:2", "1:1 2:2 3:3", "1:1 2:2 3:3", "1:1 2:2"])},
        "@a:1: expected 3 features as on most lines of this file, found 2; …",
        {},
    ),
    "last lost": ({"a": lost(7, 6)}, "@a:8: expected 6 features as on most lines of this file, found 5; …", {}),
    "lost": (
        {"a": lost(11, 4, 3, 9)},
        ("@a:12: expected a value for each of 6 features, because most lines of this file write every feature, zeros too; "
        f"found none for feature 4{SPARSE}"),
        {},
    ),
    "two zeros": (
        {"a": numbered(["1:1 2:2", "1:3 2:0", "1:0 2:6", "2:4"])},
        "@a:4: expected a value for each of 2 features, because…",
        {},
    ),
    "lost end": (
        {"a": numbered([FULL] * 4 + ["1:1 2:2", "1:1 3:3"])},
        ("@a:5: expected a value for each of 3 features, because most lines of this file write every feature, zeros too; "
        "found only the first 2; …"),
        {},
    ),
    "lost hole": (
        {"a": numbered([FULL] * 4 + ["1:1 3:3", "1:1 2:2"])},
        ("@a:5: expected a value for each of 3 features, because most lines of this file write every feature, zeros too; "
        "found none for feature 2; …"),
        {},
    ),
    "narrow": (
        {"a.txt": dense(5, "1"), "b.txt": dense(4, "2")},
        "@b.txt: expected 5 features on every line, as in @a.txt, found 4",
        {},
    ),
    "narrower": (
        {"a": dense(5, "1", 1)},
        "@a: expected 6 features, found 5 on every line; if absent features are zeros here, add --sparse",
        {"n_features": 6},
    ),
    # Names.
    "blank name": (
        {"a": dense(2, "1"), "a.names": "a\n\nb\n"},
        "@a.names:2: expected a feature name, found a blank line",
        {},
    ),
    "name twice": (
        {"a": dense(2, "1"), "a.names": "a\nb\na\n"},
        "@a.names:3: expected every name once, found 'a' as on line 1",
        {},
    ),
    "no names": ({"a": dense(2, "1"), "a.names": ""}, "@a.names: expected feature names, found an empty file", {}),
    "bytes as name": (
        {"a": dense(2, "1"), "a.names": b"\xef\xbb\xbfa\n\xff"},
        "@a.names: expected feature names in UTF-8, found the byte 0xff on line 2",
        {},
    ),
    "other names": (
        {"a": dense(2, "1"), "b": dense(2, "2"), "a.names": "x\ny\n", "b.names": "x\nz\n"},
        "@b.names: expected the features of @a.names, found 'z' instead of 'y' as feature 2",
        {},
    ),
    "fewer names": (
        {"a": dense(2, "1"), "b": dense(1, "2"), "a.names": "x\ny\n", "b.names": "x\n"},
        "@b.names: expected the features of @a.names, found nothing instead of 'y' as feature 2",
        {},
    ),
    "more names": (
        {"a": dense(1, "1"), "b": dense(2, "2"), "a.names": "x\n", "b.names": "x\ny\n"},
        "@b.names: expected the features of @a.names, found 'y' instead of nothing as feature 2",
        {},
    ),
    "names after": (
        {"a": "0 qid:1 3:1\n", "b": "0 qid:2 1:1\n", "b.names": "x\n"},
        "@b.names: expected the 3 features of the files before it, found 1",
        {},
    ),
    # Columns of tables.
    "no label": (
        {"a.csv": "grade,qid,x\n1,a,2\n"},
        "@a.csv: expected a column 'label', found 'grade', 'qid', 'x'; is it 'grade'? --label grade",
        {},
    ),
    "case": (
        {"a.csv": "Label,QID,x\ngood,a,2\n"},
        ("@a.csv: expected columns 'label', 'qid', found 'Label', 'QID', 'x'; are they 'Label' and 'QID'? --label Label --qid "
        "QID"),
        {},
    ),
    "one usual": (
        {"a.csv": "where,QID,x\n1,a,2\n"},
        ("@a.csv: expected columns 'label', 'qid', found 'where', 'QID', 'x'; is it 'QID'? --qid QID; --label chooses another "
        "one"),
        {},
    ),
    "no query": (
        {"a.parquet": {"label": [1], "where": ["a"], "x": [1.0]}},
        "@a.parquet: expected a column 'qid', found 'label', 'where', 'x'; --qid chooses another one",
        {},
    ),
    "no weight": (
        {"a.csv": "label,qid,x\n1,a,2\n"},
        "@a.csv: expected a column 'w', found 'label', 'qid', 'x'; --weight chooses another one",
        {"columns": Columns(weight="w")},
    ),
    "stored without": (
        {"a.arrow": GOOD},
        "@a.arrow: expected a column 'w', found 'label', 'qid', 'features'; --weight chooses another one",
        {"columns": Columns(weight="w")},
    ),
    "column twice": ({"a.csv": "label,qid,x,x\n1,a,2,3\n"}, "@a.csv: expected every column once, found 'x' again", {}),
    "one column for two": (
        {"a.csv": "label,qid,x\n1,a,2\n"},
        "expected a different column for each of --label, --qid…",
        {"columns": Columns(qid="label")},
    ),
    "used and ignored": (
        {"a.csv": "label,qid,x\n1,a,2\n"},
        "expected to use or to ignore the column 'qid', found both",
        {"columns": Columns(ignore=("qid",))},
    ),
    "nothing to ignore": (
        {"a.csv": "label,qid,x\n1,a,2\n"},
        "@a.csv: expected a column 'size' to ignore, found 'label', 'qid', 'x'",
        {"columns": Columns(ignore=("size",))},
    ),
    "only words": (
        {"a.csv": "label,qid,url\n1,a,word\n"},
        "@a.csv: expected columns of numbers or categories as features, found 'label', 'qid', 'url'",
        {},
    ),
    "words as labels": (
        {"a.parquet": GOOD | {"label": ["1", "0"]}},
        "@a.parquet: expected numbers as 'label', found text",
        {},
    ),
    "words as weights": (
        {"a.parquet": GOOD | {"w": ["1", "0"]}},
        "@a.parquet: expected numbers as 'w', found text",
        {"columns": Columns(weight="w")},
    ),
    "reals as queries": (
        {"a.parquet": GOOD | {"qid": [1.5, 2.0]}},
        "@a.parquet: expected text or integers as 'qid', found double",
        {},
    ),
    "other columns": (
        {"a.parquet": GOOD | {"y": [1, 2]}, "b.parquet": GOOD | {"qid": ["c", "d"]}},
        "@b.parquet: expected the features of @a.parquet, found nothing instead of 'y' as feature 2",
        {},
    ),
    "other width": (
        {"a.parquet": BASE | {"f1": [1, 2]}, "b.parquet": {"label": [1], "qid": ["c"], "f1": [1], "f2": [2]}},
        "@b.parquet: expected 1 features on every line, as in @a.parquet, found 2",
        {},
    ),
    "another width asked": (
        {"a.arrow": BASE | {"f1": [1, 2]}},
        "@a.arrow: expected 2 features, found 1",
        {"n_features": 2},
    ),
    "weights in some": (
        {"a.parquet": GOOD | {"w": [1, 2]}, "b.csv": "label,qid,x\n1,c,2\n"},
        "@b.csv: expected a column 'w', found…",
        {"columns": Columns(weight="w")},
    ),
    # Cells of tables.
    "no rows": (
        {"a.parquet": {"label": pa.array([], pa.int8()), "qid": pa.array([], pa.string()), "x": pa.array([], pa.int8())}},
        "@a.parquet: expected judged documents, found no rows",
        {},
    ),
    "null label": ({"a.parquet": GOOD | {"label": [1, None]}}, "@a.parquet: row 2, column 'label': expected a value, found nothing", {}),
    "null query": ({"a.csv": "label,qid,x\n1,a,1\n1,,2\n"}, "@a.csv: row 2, column 'qid': expected a value, found nothing", {}),
    "null weight": (
        {"a.parquet": GOOD | {"w": [None, 1.0]}},
        "@a.parquet: row 1, column 'w': expected a value, found nothing",
        {"columns": Columns(weight="w")},
    ),
    "nan label": (
        {"a.parquet": GOOD | {"label": [1.0, np.nan]}},
        "@a.parquet: row 2, column 'label': expected a finite label of at least 0, found nan",
        {},
    ),
    "label below zero": (
        {"a.csv": "label,qid,x\n0,a,1\n-1,a,2\n"},
        "@a.csv: row 2, column 'label': expected a finite label of at least 0, found -1",
        {},
    ),
    "infinite label": (
        {"a.arrow": GOOD | {"label": [1.0, np.inf]}},
        "@a.arrow: row 2, column 'label': expected a finite label of at least 0, found inf",
        {},
    ),
    "weight below zero": (
        {"a.parquet": GOOD | {"w": [2.5, -1]}},
        "@a.parquet: row 2, column 'w': expected a finite weight of at least 0, found -1",
        {"columns": Columns(weight="w")},
    ),
    "two weights": (
        {"a.csv": "label,qid,w,x\n1,a,2.5,1\n1,b,1,1\n1,a,2,1\n"},
        "@a.csv: row 3: expected one weight for all documents of query 'a', found 2 after 2.5",
        {"columns": Columns(weight="w")},
    ),
    "place 0": (
        {"a.csv": "label,qid,p,x\n1,a,0,1\n"},
        f"@a.csv: row 1, column 'p': {PLACE}, found 0",
        {"columns": Columns(position="p")},
    ),
    "place 1.5": (
        {"a.parquet": GOOD | {"p": [1, 1.5]}},
        f"@a.parquet: row 2, column 'p': {PLACE}, found 1.5",
        {"columns": Columns(position="p")},
    ),
    "last place": (
        {"a.parquet": GOOD | {"p": [2**31 - 1, 2**31]}},
        f"@a.parquet: row 2, column 'p': {PLACE}, found 2.14748e+09",
        {"columns": Columns(position="p")},
    ),
    "infinite": ({"a.parquet": GOOD | {"x": [1.0, -np.inf]}}, "@a.parquet: row 2, column 'x': expected a finite value, found -inf", {}),
    "beyond float32": ({"a.csv": "label,qid,x\n1,a,1e39\n"}, f"@a.csv: row 1, column 'x': expected {FLOAT32}, found 1e+39", {}),
    "beyond float32 in a list": (
        {"a.parquet": BASE | {"features": [[0.0, 1.0], [1.0, 1e39]]}},
        f"@a.parquet: row 2, column 'f2': expected {FLOAT32}, found 1e+39",
        {},
    ),
    "infinite in a list of another order": (
        {
            "a.parquet": named(["x", "y", "z"], label=[1], qid=["a"], features=[[1.0, 2.0, 3.0]]),
            "b.parquet": named(["z", "x", "y"], label=[1], qid=["b"], features=[[7.0, 8.0, np.inf]]),
        },
        "@b.parquet: row 1, column 'y': expected a finite value, found inf",
        {},
    ),
    "short list": (
        {"a.parquet": BASE | {"features": [[1.0, 2.0], [1.0]]}},
        "@a.parquet: row 2, column 'features': expected 2 values, found 1",
        {},
    ),
    "no list": (
        {"a.parquet": BASE | {"features": [[1.0], None]}},
        "@a.parquet: row 2, column 'features': expected a list of values, found nothing",
        {},
    ),
    "empty lists": (
        {"a.parquet": BASE | {"features": pa.array([[], []], pa.list_(pa.float64()))}},
        "@a.parquet: expected columns of numbers or categories as features, found 'label', 'qid', 'features'",
        {},
    ),
    "names that are none": (
        {"a.parquet": named(b"{", label=[1], qid=["a"], features=[[1.0]])},
        "@a.parquet: expected a list of different names in its metadata, found b'{'",
        {},
    ),
    "names twice": (
        {"a.parquet": named(["x", "x"], label=[1], qid=["a"], features=[[1.0, 2.0]])},
        "@a.parquet: expected a list of different names in its metadata, found b'[\"x\", \"x\"]'",
        {},
    ),
    # CSV.
    "no header": ({"a.csv": "1,2,3\n4,5,6\n"}, f"@a.csv: {HEADER}, found only numbers in the first line", {}),
    "a document as header": ({"a.csv": "1,q7,2.5\n1,q1,2.5\n"}, f"@a.csv: {HEADER}, found '1' in the first line", {}),
    "only a header": ({"a.csv": "label,qid,x\n"}, "@a.csv: expected judged documents, found only a header", {}),
    "header twice": ({"a.csv": "label,qid,x\nlabel,qid,x\n1,a,2\n"}, "@a.csv: row 1 repeats the header", {}),
    "header between": ({"a.csv": "label,qid,x\n1,a,2\n0,a,1\nlabel,qid,x\n"}, "@a.csv: row 3 repeats the header", {}),
    "header of bytes": (
        {"a.csv": b"label,\xe9tat,x\n1,a,2\n"},
        "@a.csv: expected names of columns in UTF-8, found the byte 0xe9 in the first line",
        {},
    ),
    "word as label": (
        {"a.csv": "label,qid,x\n1,a,1\nbad,a,2\n0,a,3\n"},
        "@a.csv: row 2, column 'label': expected a number, found 'bad'",
        {},
    ),
    "word as weight": (
        {"a.csv": "label,qid,w,x\n1,a,much,1\n"},
        "@a.csv: row 1, column 'w': expected a number, found 'much'",
        {"columns": Columns(weight="w")},
    ),
    "word as value": (
        {"a.csv": "label,qid,x,y z\n1,a,1,1\n1,a,2,n.a.\n0,a,3,2\n"},
        "@a.csv: row 2, column 'y z': expected a number, found 'n.a.'; --ignore 'y z' leaves the column out",
        {},
    ),
    "commas": (
        {"a.csv": "label;qid;price;title\n1;q1;1,5;a, b\n0;q1;12,345.5;c, d\n"},
        ("@a.csv: row 1, column 'price': expected a number with a decimal point and without commas, found '1,5'; --ignore "
        "price leaves the column out"),
        {},
    ),
    "commas in labels": (
        {"a.csv": 'label;qid;x\n"1,5";a;2\n'},
        "@a.csv: row 1, column 'label': expected a number with a decimal point and without commas, found '1,5'",
        {},
    ),
    "short row": ({"a.csv": "label,qid,x\n\n1,a,1\n0,a\n"}, "@a.csv: row 2: expected 3 columns, found 2", {}),
    "bytes as id": (
        {"a.csv": b"label,qid,docid,x\n1,a,u,2\n1,a,\xff,2\n"},
        "@a.csv: row 2, column 'docid': expected UTF-8 text, found other bytes",
        {},
    ),
    "bytes in a column that the first line does not name": (
        {"a.csv": b'label,qid,"a\nb",docid\n1,a,2,u\n1,a,2,\xff\n'},
        "@a.csv: row 2, column '4': expected UTF-8 text, found other bytes",
        {},
    ),
    "cut CSV": (
        {"a.csv": gzip.compress(b"label,qid,x\n" + b"1,a,2\n" * 5000)[:-20]},
        "@a.csv: expected …",
        {},
    ),
    # JSON lines.
    "JSON without label": (
        {"a.jsonl": '{"grade": 1, "qid": "a", "x": 1}\n'},
        "@a.jsonl: expected a column 'label', found 'qid', 'grade', 'x'; is it 'grade'? --label grade",
        {},
    ),
    "JSON with a hole": (
        {"a.jsonl": '{"label": 1, "qid": "a", "x": 1}\n\n{"qid": "a", "x": 1}\n'},
        "@a.jsonl: row 2, column 'label': expected a value, found nothing",
        {},
    ),
    "JSON that ends": (
        {"a.jsonl": '{"label": 1, "qid": "a", "x": 1}\n{"label": 1,\n'},
        "@a.jsonl: row 2: expected an object on each line, found: …",
        {},
    ),
    "no object": (
        {"a.jsonl": '{"label": 1, "qid": "a", "x": 1}\n[1]\n'},
        "@a.jsonl: row 2: expected an object on each line, found array",
        {},
    ),
    "text as number": (
        {"a.jsonl": '{"label": 1, "qid": "a", "x": 1}\n{"label": 1, "qid": "a", "x": "much"}\n'},
        "@a.jsonl: row 2, column 'x': expected number, as before, found text",
        {},
    ),
    "number as query": (
        {"a.jsonl": '{"label": 1, "qid": "a", "x": 1}\n{"label": 1, "qid": 2, "x": 1}\n'},
        "@a.jsonl: row 2, column 'qid': expected text, as before, found number",
        {},
    ),
    "name twice in JSON": (
        {"a.jsonl": '{"label": 1, "label": 2, "qid": "a", "x": 1}\n'},
        "@a.jsonl: row 1: expected an object on each line, found: Column(/label) was specified twice",
        {},
    ),
    "JSON of bytes": (
        {"a.jsonl": b'{"label": 1, "qid": "a\xff", "x": 1}\n'},
        "@a.jsonl: row 1: expected UTF-8 text, found the byte 0xff",
        {},
    ),
    "short list in JSON": (
        {"a.jsonl": '{"label": 1, "qid": "a", "features": [1, 2]}\n{"label": 1, "qid": "a", "features": [1]}\n'},
        "@a.jsonl: row 2, column 'features': expected 2 values, found 1",
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path, case: str) -> None:
    files, expected, how = CASES[case]
    for name, content in files.items():
        put(tmp_path / name, content)

    with pytest.raises(InvalidData) as caught:
        read([tmp_path / name for name in files if not name.endswith(".names")], **how)

    expected = expected.replace("@", f"{tmp_path}/")
    found = str(caught.value)
    assert "\n" not in found
    assert found == expected if not expected.endswith("…") else found.startswith(expected[:-1])


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], "no data: expected at least one file or folder"),
        ("", "expected the path of a file or folder, found nothing"),
        (["@no.txt"], "@no.txt: no such file or folder"),
        (["@pipe"], "@pipe: expected a file or a folder, which can be read twice, found neither"),
        (["@empty"], f"@empty: expected a folder with {KINDS}, found no data file in it"),
    ],
)
def test_paths_that_hold_no_data_are_named(tmp_path: Path, paths: Any, expected: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    put(tmp_path / "empty" / "_SUCCESS", "")

    with pytest.raises(InvalidData) as caught:
        read([path.replace("@", f"{tmp_path}/") for path in paths] if isinstance(paths, list) else paths)

    assert expected.replace("@", f"{tmp_path}/") == str(caught.value)


def test_what_the_system_says_of_a_folder_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(_self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", deny)

    with pytest.raises(InvalidData) as caught:
        read(tmp_path)
    assert f"{tmp_path}: cannot be read: Permission denied" == str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "txt", "parquet", "arrow"])
def test_rows_are_counted_from_block_to_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(sources, "BLOCK", 100)
    monkeypatch.setattr(sources, "_PIECE", 100)
    monkeypatch.setattr("localrank_training.data.table_text._BLOCK", 256)
    monkeypatch.setattr("localrank_training.data.columnar._CELLS_READ", 1)
    lines = {
        "txt": ("", "1 qid:a 1:2\n", "1 qid:a 1:oops\n"),
        "csv": ("label,qid,x\n", "1,a,2\n", "1,a,oops\n"),
        "jsonl": ("", '{"label": 1, "qid": "a", "x": 2}\n', '{"label": 1, "qid": "a", "x": "oops"}\n'),
    }
    path = tmp_path / f"a.{kind}"
    if kind in lines:
        head, good, bad = lines[kind]
        path.write_text(head + good * 249 + bad)
    else:
        columns = {"label": [1] * 250, "qid": ["a"] * 250, "x": [2.0] * 249 + [np.inf]}
        put(path, columns, plain=True)
    where = f"{path}:250:11: " if kind == "txt" else f"{path}: row 250, column 'x': "

    with pytest.raises(InvalidData) as caught:
        read(path)

    assert str(caught.value).startswith(where)


def test_a_number_under_a_new_name_in_json_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be a feature, if the first rows had it."""
    monkeypatch.setattr(sources, "BLOCK", 100)
    monkeypatch.setattr(sources, "_PIECE", 100)
    line = '{"label": 1, "qid": "a", "x": 2}\n'
    more = '{"label": 1, "qid": "a", "x": 2, "note": "u", "y": 3}\n'
    path = put(tmp_path / "a.jsonl", line * 20 + more)

    with pytest.raises(InvalidData) as caught:
        read(path)

    expected = "row 21, column 'y': expected the columns of the first rows, found another one"
    assert f"{path}: {expected}" == str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"# long\n0 qid:1 1:1\n0 qid:1 1:", ":3: expected at most 6416384 bytes on a line, found more"),
        (b"0 qid:1 1:1\n#\n#", ":3: expected at most 6416384 bytes on a line, found more"),
        (
            b"label,qid,f1\n" + b"1,a,0\n" * 2**18 + b"1,a,",
            ": expected at most 4194304 bytes in a row, found more",
        ),
    ],
    ids=["value", "comment", "CSV"],
)
def test_a_line_that_never_ends_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    """A small compressed file may hold a line larger than the memory; nobody reads on to the end of it."""
    packed = gzip.compress(content + b"1" * 2**25, 1, mtime=0)
    path = put(tmp_path / "a.gz", packed if content.startswith(b"label") else packed[:-9])

    with pytest.raises(InvalidData) as caught:
        read(path)

    assert f"{path}{expected}" == str(caught.value)


def test_a_matrix_that_no_disk_holds_is_refused_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "wide.txt", "0 qid:1 99999:1\n" * 50)
    monkeypatch.setattr(rows, "HELD", 1 << 20)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))

    with pytest.raises(InvalidData, match=r"expected room for 0\.0 GiB of documents that do not fit"):
        read(path)


class Broken:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise ValueError("x" * 300 + "\ny")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: np.ones((3, 2)), "expected a table with named columns…"),
        (lambda: pl.DataFrame({"label": [1]}).lazy(), ("expected a table with named columns (pandas, polars, Arrow, a "
         "dictionary), found a LazyFrame; collect() it first: …")),
        (Broken, "expected a table with named columns (pandas, polars, Arrow, a dictionary), found a Broken: " + "x" * 160),
        (lambda: pd.DataFrame(GOOD).head(0), "table: expected judged documents, found no rows"),
        (
            lambda: pd.DataFrame(GOOD | {"label": [2, None]}).astype({"label": "Int64"}),
            "table: row 2, column 'label': expected a value, found nothing",
        ),
        (
            lambda: {"Label": [1], "QID": ["a"], "x": [1]},
            ("table: expected columns 'label', 'qid', found 'Label', 'QID', 'x'; are they 'Label' and 'QID'? "
            "columns=Columns(label='Label', qid='QID')"),
        ),
        (
            lambda: {"value": [1], "qid": ["a"], "x": [1]},
            "table: expected a column 'label', found 'value', 'qid', 'x'; columns=Columns(label=…) chooses another one",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_in_memory_is_said(make: Callable[[], object], expected: str) -> None:
    with pytest.raises(InvalidData) as caught:
        read_table(make())

    found = str(caught.value)
    assert found == expected if not expected.endswith("…") else found.startswith(expected[:-1])
