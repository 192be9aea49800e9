"""What ``localrank papers`` asks for and says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from localrank.__main__ import main
from localrank_papers.figures.running import EXPERIMENTS
from tests.training.cli.calls import Calls

WITH_DATA = next(name for name, one in EXPERIMENTS.items() if one.needs_data)
WITHOUT = next((name for name, one in EXPERIMENTS.items() if not one.needs_data), None)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(monkeypatch)
    findings = SimpleNamespace(sentences=("It was so.", "And so."), to_json=lambda: {"so": 1})
    made.answer("localrank_papers.figures.folds.read_folds", "folds")
    made.answer("localrank_papers.figures.fits.Fits", "fits")
    made.answer("localrank_papers.figures.study.Study", "study")
    made.answer("localrank_papers.figures.running.run", findings)
    made.answer("localrank_training.parallel.processes.available_cores", 3)
    return made


def test_experiments_are_listed_by_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["papers", "list"])

    said = capsys.readouterr().out
    assert {one.paper for one in EXPERIMENTS.values()} <= set(said.splitlines())
    assert all(f"{one.name} " in said for one in EXPERIMENTS.values())
    assert len({one.paper for one in EXPERIMENTS.values()}) == said.count("what it shows")
    assert 0 == main(["papers", "list", "--json"])
    assert json.loads(capsys.readouterr().out) == [
        {"name": one.name, "figure": one.figure, "title": one.title, "paper": one.paper}
        for one in EXPERIMENTS.values()
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "x"], "expected argument NAME, found none (see localrank papers run --help)"),
        ([WITH_DATA], "expected option --out, found none (see localrank papers run --help)"),
        (
            [WITH_DATA, "--out", "x"],
            f"--data: expected the folder of the data that {WITH_DATA} needs, found none",
        ),
        (["lacolrank-fig6", "--out", "x"], "no experiment 'lacolrank-fig6'; did you mean 'localrank-fig6'?"),
    ],
)
def test_what_is_missing_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["papers", "run", *words])

    assert capsys.readouterr().err.startswith(f"localrank: {said}")


def test_an_experiment_runs_on_the_folds(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["papers", "run", WITH_DATA, "--data", "d", "--out", "o"])

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

    assert 0 == main(["papers", "run", WITH_DATA, "--data", "d", "--out", "o", *limits])

    assert ("folds", "fits", 0, 4) == calls.given["Study"][0]
    assert {"workers": 2} == calls.options("Fits")
    assert {WITH_DATA: {"so": 1}} == json.loads(capsys.readouterr().out)


@pytest.mark.skipif(WITHOUT is None, reason="every experiment needs data")
def test_an_experiment_on_its_own_data_reads_none(calls: Calls) -> None:
    assert 0 == main(["papers", "run", str(WITHOUT), "--out", "o", "--data", "d"])

    assert "read_folds" not in calls.given
    known = calls.given["Study"][0][0]
    assert ("none", "standard", ()) == (known.name, known.convention, known.folds)
