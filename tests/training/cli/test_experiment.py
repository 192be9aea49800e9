"""What ``localrank experiment`` and ``localrank assess`` ask for and say."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localrank.__main__ import main
from localrank_training.data.columns import Columns
from localrank_training.experiments.catalogue import EXPERIMENTS
from tests.training.cli.calls import COLUMNS, Calls

WITH_DATA = next(name for name, one in EXPERIMENTS.items() if one.needs_data)
WITHOUT = next((name for name, one in EXPERIMENTS.items() if not one.needs_data), None)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(monkeypatch)
    findings = SimpleNamespace(sentences=("It was so.", "And so."), to_json=lambda: {"so": 1})
    made.answer("localrank_training.experiments.folds.read_folds", "folds")
    made.answer("localrank_training.experiments.fits.Fits", "fits")
    made.answer("localrank_training.experiments.role.Study", "study")
    made.answer("localrank_training.experiments.running.run", findings)
    made.answer("localrank_training.parallel.available_cores", 3)
    return made


def test_experiments_are_listed_by_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["experiment", "--list"])

    said = capsys.readouterr().out
    assert {one.paper for one in EXPERIMENTS.values()} <= set(said.splitlines())
    assert all(f"{one.name} " in said for one in EXPERIMENTS.values())
    assert len({one.paper for one in EXPERIMENTS.values()}) == said.count("what it shows")
    assert 0 == main(["experiment", "--list", "--json"])
    assert json.loads(capsys.readouterr().out) == [
        {"name": one.name, "figure": one.figure, "title": one.title, "paper": one.paper}
        for one in EXPERIMENTS.values()
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [],
            "expected the name of an experiment, or --list, found neither (see localrank experiment --help)",
        ),
        (
            [WITH_DATA],
            "--out: expected a folder for the results, found none (see localrank experiment --help)",
        ),
        (
            [WITH_DATA, "--out", "x"],
            f"--data: expected the folder of the data that {WITH_DATA} needs, found none",
        ),
        (["lacolrank-fig6"], "no experiment 'lacolrank-fig6'; did you mean 'localrank-fig6'?"),
    ],
)
def test_what_is_missing_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["experiment", *words])

    assert capsys.readouterr().err.startswith(f"localrank: {said}")


def test_an_experiment_runs_on_the_folds(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["experiment", WITH_DATA, "--data", "d", "--out", "o"])

    assert ["available_cores", "read_folds", "Fits", "Study", "run"] == calls.order
    assert Path("d") == calls.given["read_folds"][0][0]
    assert (Path("o/fits"),) == calls.given["Fits"][0]
    assert {"workers": 3} == calls.options("Fits")
    assert ("folds", "fits", 20, 0) == calls.given["Study"][0]
    assert (EXPERIMENTS[WITH_DATA], "study", Path("o")) == calls.given["run"][0]
    assert {"say", "progress"} == set(calls.given["run"][1])
    assert "It was so.\nAnd so.\n" == capsys.readouterr().out
    calls.given["run"][1]["say"]("on its way")
    assert ("", "on its way\n") == capsys.readouterr()


def test_draws_seed_and_workers_reach_the_study(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--draws", "0", "--seed", "4", "--workers", "2", "--json"]

    assert 0 == main(["experiment", WITH_DATA, "--data", "d", "--out", "o", *limits])

    assert ("folds", "fits", 0, 4) == calls.given["Study"][0]
    assert {"workers": 2} == calls.options("Fits")
    assert {WITH_DATA: {"so": 1}} == json.loads(capsys.readouterr().out)


@pytest.mark.skipif(WITHOUT is None, reason="every experiment needs data")
def test_an_experiment_on_its_own_data_reads_none(calls: Calls) -> None:
    assert 0 == main(["experiment", str(WITHOUT), "--out", "o", "--data", "d"])

    assert "read_folds" not in calls.given
    known = calls.given["Study"][0][0]
    assert ("none", "standard", ()) == (known.name, known.convention, known.folds)


# ------------------------------------------------------------------------------------------------------- assess


@pytest.fixture
def assessed(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(monkeypatch)
    against = SimpleNamespace(difference=0.125, p_holm=0.03)
    advice = SimpleNamespace(
        table=lambda: ("What helps", ("what", "gain"), [("queries", 0.5)]), sentences=("More queries.",)
    )
    found = SimpleNamespace(
        queries=30,
        of=90,
        documents=300,
        candidates=(
            SimpleNamespace(name="linear", mean=0.25, against=None),
            SimpleNamespace(name="local", mean=0.375, against=against),
        ),
        sentences=("Local models help.",),
        advice=advice,
        to_json=lambda: {"queries": 30},
    )
    made.answer("localrank_training.data.reading.read", "queries")
    made.answer("localrank_training.assessment.assess", found)
    made.answer("localrank_training.data.inspection.inspect", "inspected")
    made.answer("localrank_training.reporting.assessment.page_of_assessment", "page")
    made.answer("localrank_training.cli.assess.write_page", None)
    made.answer("localrank_training.parallel.available_cores", 3)
    return made


def test_an_assessment_says_what_was_found(assessed: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["assess", "a", "b"])

    assert (["a", "b"],) == assessed.given["read"][0]
    assert {"columns": Columns()} == assessed.options("read")
    assert ("queries",) == assessed.given["assess"][0]
    assert {"workers": 3} == assessed.options("assess")
    assert "page_of_assessment" not in assessed.given
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert words == [
        ["30", "of", "90", "queries,", "300", "documents"],
        [],
        ["quick", "model", "ndcg@10", "difference", "p", "(Holm)"],
        ["linear", "0.2500", "-", "-"],
        ["local", "0.3750", "+0.1250", "0.0300"],
        [],
        ["Local", "models", "help."],
        [],
        ["What", "helps"],
        ["what", "gain"],
        ["queries", "0.5000"],
        [],
        ["More", "queries."],
    ]


def test_an_assessment_becomes_a_page_or_json(
    assessed: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = str(tmp_path / "a.html")

    assert 0 == main(["assess", "a", *COLUMNS, "--workers", "2", "--report", report])

    assert {"columns": Columns("l", "q", "i", "w", "p", ("a", "b"), True)} == assessed.options("read")
    assert {"workers": 2} == assessed.options("assess")
    _, inspected, made_by = assessed.given["page_of_assessment"][0]
    assert "inspected" == inspected
    assert made_by.startswith("localrank assess a --label l")
    assert ("page", tmp_path / "a.html") == assessed.given["write_page"][0]
    assert capsys.readouterr().out.endswith(f"\n\nreport: {report}\n")
    assert 0 == main(["assess", "a", "--json"])
    answer: Any = json.loads(capsys.readouterr().out)
    assert {"queries": 30} == answer
