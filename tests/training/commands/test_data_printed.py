"""What the data commands ask for and print, beside made-up findings."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_training.data.columns import Columns
from localrank_training.data.inspection import Correlation, Feature, Inspection, Suspicion
from tests.training.commands.calls import Calls

command = importlib.import_module("localrank_training.commands.data")

COLUMNS = ["--label", "l", "--qid", "q", "--id", "i", "--weight", "w", "--position", "p", "--ignore", "a,b"]
FIRST = Feature("bm25", -1.5, 0.25, 1234567.0, 2.0, 0.125, 3, 0.25, False, False, None, -0.5)


def feature(name: str, correlation: float) -> Feature:
    return replace(FIRST, name=name, label_correlation=correlation)


FOUND = Inspection(
    n_queries=2,
    n_docs=8,
    n_features=7,
    lengths={"min": 3.0, "mean": 4.0, "max": 5.0},
    labels={"0": 6.0, "1": 2.0},
    label_levels=2,
    weights=None,
    positions=None,
    features=(FIRST, *(feature(f"f{number}", number / 10) for number in range(6))),
    correlations=(),
    suspicions=(),
)


def printed(found: Inspection, rows: int, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the lines as words."""
    command._print(found, rows)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_sizes_lengths_and_labels_are_tables(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(FOUND, 0, capsys)

    assert lines[:13] == [
        ["queries", "documents", "features", "label", "levels"],
        ["2", "8", "7", "2"],
        [],
        ["Documents", "per", "query"],
        ["min", "mean", "max"],
        ["3", "4", "5"],
        [],
        ["Labels"],
        ["label", "documents", "share"],
        ["0", "6", "0.7500"],
        ["1", "2", "0.2500"],
        [],
        ["Strongest", "with", "the", "label"],
    ]
    assert [["What", "looks", "wrong"], ["nothing"]] == lines[-2:]


def test_many_labels_are_summed_up_in_quantiles(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(replace(FOUND, labels={"min": 0.5, "max": 1234567.0}, label_levels=99), 0, capsys)

    assert [["min", "max"], ["0.5", "1.23457e+06"]] == lines[8:10]


@pytest.mark.parametrize(("name", "title"), [("weights", ["Query", "weights"]), ("positions", ["Positions"])])
def test_weights_and_positions_are_shown_if_there_are_any(
    name: str, title: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, Any] = {name: {"min": 1.0, "max": 2.5}}

    assert [[], title, ["min", "max"], ["1", "2.5"], []] == printed(replace(FOUND, **changes), 0, capsys)[
        11:16
    ]


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        (1, [["…", "and", "6", "more", "(--features", "7,", "or", "--json)"]]),
        (6, [["…", "and", "1", "more", "(--features", "7,", "or", "--json)"]]),
        (7, []),
        (8, []),
    ],
)
def test_features_are_shown_up_to_a_number(
    rows: int, more: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(FOUND, rows, capsys)

    start = lines.index(["Features", "(r:", "correlation", "with", "the", "label", "within", "queries)"])
    assert ["feature", "min", "median", "max", "mean", "deviation", "missing", "zeros", "r"] == lines[
        start + 1
    ]
    assert ["bm25", "-1.5", "0.25", "1.23457e+06", "2", "0.125", "3", "25.0%", "-0.5000"] == lines[start + 2]
    shown = min(rows, 7)
    assert [*more, []] == lines[start + 2 + shown : start + 3 + shown + len(more)]


def test_no_features_are_shown_if_none_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [line for line in printed(FOUND, 0, capsys) if line[:1] == ["Features"]]


def test_the_five_strongest_features_are_those_of_largest_size(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(FOUND, 0, capsys)

    start = lines.index(["Strongest", "with", "the", "label"])
    assert ["feature", "r"] == lines[start + 1]
    strongest = [["bm25", "-0.5000"], *([f"f{number}", f"0.{number}000"] for number in (5, 4, 3, 2))]
    assert sorted(strongest) == sorted(lines[start + 2 : start + 7])
    assert [] == lines[start + 7]
    assert {"bm25", "f5"} == {line[0] for line in lines[start + 2 : start + 4]}


def test_pairs_and_suspicions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(
        FOUND,
        correlations=(Correlation("bm25", "f1", -0.75),),
        suspicions=(Suspicion("constant features", 2, 7, ("f1", "f2")),),
    )

    assert printed(found, 0, capsys)[-6:] == [
        ["Strongest", "between", "features"],
        ["feature", "feature", "r"],
        ["bm25", "f1", "-0.7500"],
        [],
        ["What", "looks", "wrong"],
        ["2", "of", "7", "constant", "features:", "f1,", "f2"],
    ]


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
