"""What the data commands ask for, beside made-up findings."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_training.data.columns import Columns
from localrank_training.data.inspection import Feature, Inspection
from tests.training.cli.calls import Calls

command = importlib.import_module("localrank_training.cli.data")

COLUMNS = ["--label", "l", "--qid", "q", "--id", "i", "--weight", "w", "--position", "p", "--ignore", "a,b"]
FIRST = Feature("bm25", -1.5, 0.25, 1234567.0, 2.0, 0.125, 3, 0.25, False, False, None, -0.5)


FOUND = Inspection(
    n_queries=2,
    n_docs=8,
    n_features=7,
    lengths={"min": 3.0, "mean": 4.0, "max": 5.0},
    labels={"0": 6.0, "1": 2.0},
    label_levels=2,
    weights=None,
    positions=None,
    features=(FIRST,) * 7,
    correlations=(),
    suspicions=(),
)


@pytest.mark.parametrize(("text", "expected"), [("30", (30, 30)), ("20-40", (20, 40))])
def test_a_number_of_documents_may_be_a_range(text: str, expected: tuple[int, int]) -> None:
    assert expected == command._range(text, "--documents")


@pytest.mark.parametrize("text", ["", "-3", "3-", "3-4-5", "3.5", " 3", "a"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(
        command.typer.BadParameter, match="expected a number or a range such as 20-40"
    ) as found:
        command._range(text, "--documents")
    assert "--documents" == found.value.param_hint


def test_numbers_stand_between_commas() -> None:
    assert [0.5, 1.0, 20.0] == command._numbers("0.5, 1,2e1", "--shares")
    with pytest.raises(command.typer.BadParameter, match="expected numbers with commas between") as found:
        command._numbers("1,", "--shares")
    assert "--shares" == found.value.param_hint


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(monkeypatch)
    made.answer("localrank_training.data.reading.read", "queries")
    made.answer("localrank_training.data.inspection.inspect", FOUND)
    made.answer("localrank_training.data.writing.convert", 12)
    made.answer("localrank_training.data.splitting.split", {"train.txt": (3, 30), "test.txt": (1, 9)})
    made.answer("localrank_training.data.writing.write_drawn", None)
    made.answer("localrank_training.data.synthetic.Drawn", SimpleNamespace(offsets=np.array([0, 30, 70])))
    return made


def test_inspect_reads_as_it_is_told(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["data", "inspect", "a", "b", *COLUMNS, "--sparse", "--json"])

    assert (["a", "b"],) == calls.given["read"][0]
    assert {"columns": Columns("l", "q", "i", "w", "p", ("a", "b"), True)} == calls.options("read")
    assert calls.given["read"][1]["say"] is command.say
    assert ("queries",) == calls.given["inspect"][0]
    assert {"read", "inspect"} == {name for name in calls.given if "progress" in calls.given[name][1]}
    assert json.loads(json.dumps(asdict(FOUND))) == json.loads(capsys.readouterr().out)
    assert 0 == main(["data", "inspect", "a"])
    assert {"columns": Columns()} == calls.options("read")
    # Sixty features at most unless told otherwise; there are seven.
    assert "more (--features" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "expected", "sparse"),
    [
        ([], {"to": None, "sparse": None, "overwrite": False, "skip": False}, False),
        (["--to", "zst", "--sparse"], {"to": "zst", "sparse": True, "overwrite": False, "skip": False}, True),
        (["--dense", "--overwrite"], {"to": None, "sparse": False, "overwrite": True, "skip": False}, False),
        (["--skip-bad-files"], {"to": None, "sparse": None, "overwrite": False, "skip": True}, False),
    ],
)
def test_convert_writes_as_it_is_told(
    calls: Calls,
    options: list[str],
    expected: dict[str, Any],
    sparse: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 0 == main(["data", "convert", "a", "b", "--out", "c.txt", *COLUMNS, *options])

    assert (["a", "b"], "c.txt") == calls.given["convert"][0]
    columns = Columns("l", "q", "i", "w", "p", ("a", "b"), sparse)
    assert expected | {"columns": columns} == calls.options("convert")
    assert calls.given["convert"][1]["say"] is command.say
    assert "progress" in calls.given["convert"][1]
    assert "c.txt: 12 documents\n" == capsys.readouterr().out


def test_split_deals_as_it_is_told(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    fractions = ["--fractions", "0.5,0.5", "--seed", "4", "--to", "parquet"]

    assert 0 == main(["data", "split", "a", "--out", "parts", *fractions, *COLUMNS, "--sparse"])

    assert (["a"], "parts") == calls.given["split"][0]
    assert calls.options("split") == {
        "fractions": [0.5, 0.5],
        "folds": None,
        "seed": 4,
        "to": "parquet",
        "columns": Columns("l", "q", "i", "w", "p", ("a", "b"), True),
    }
    assert calls.given["split"][1]["say"] is command.say
    assert capsys.readouterr().out.splitlines() == [
        "file       queries  documents",
        "train.txt        3         30",
        "test.txt         1          9",
    ]
    assert 0 == main(["data", "split", "a", "--out", "parts", "--folds", "3", "--json"])
    assert calls.options("split") == {
        "fractions": None,
        "folds": 3,
        "seed": 0,
        "to": "text",
        "columns": Columns(),
    }
    assert {
        "train.txt": {"queries": 3, "documents": 30},
        "test.txt": {"queries": 1, "documents": 9},
    } == json.loads(capsys.readouterr().out)


def test_synthesize_draws_as_it_is_told(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [
        "--queries",
        "2",
        "--documents",
        "30-40",
        "--features",
        "6",
        "--kinds",
        "3",
        "--separation",
        "0.25",
        "--shapes",
        "0.75",
    ]
    labels = [
        "--noise",
        "0.5",
        "--noise-features",
        "2",
        "--levels",
        "3",
        "--shares",
        "60,30,10",
        "--missing",
        "0.125",
    ]
    seeds = ["--seed", "8", "--sample", "9", "--out", "o.txt"]

    assert 0 == main(["data", "synthesize", *sizes, *labels, *seeds])

    (count, recipe), given = calls.given["Drawn"]
    assert (2, {"seed": 8, "sample": 9}) == (count, given)
    assert asdict(recipe) == {
        "documents": (30, 40),
        "features": 6,
        "kinds": 3,
        "separation": 0.25,
        "shapes": 0.75,
        "noise": 0.5,
        "noise_features": 2,
        "levels": 3,
        "label_shares": (60.0, 30.0, 10.0),
        "missing": 0.125,
    }
    drawn, out = calls.given["write_drawn"][0]
    assert ([0, 30, 70], "o.txt") == (drawn.offsets.tolist(), out)
    assert {"overwrite": False} == calls.options("write_drawn")
    assert "o.txt: 2 queries, 70 documents, 6 features\n" == capsys.readouterr().out
    least = [
        "--queries",
        "1",
        "--documents",
        "3",
        "--features",
        "2",
        "--out",
        "o.txt",
        "--overwrite",
        "--alike",
    ]
    assert 0 == main(["data", "synthesize", *least])
    (count, recipe), given = calls.given["Drawn"]
    assert (1, {"seed": 0, "sample": 0}, (3, 3)) == (count, given, recipe.documents)
    assert (4, 1.0, 0.0, 0.3) == (recipe.kinds, recipe.separation, recipe.shapes, recipe.noise)
    assert (0, 5, None, 0.0) == (recipe.noise_features, recipe.levels, recipe.label_shares, recipe.missing)
    assert {"overwrite": True} == calls.options("write_drawn")
