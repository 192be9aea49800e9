"""What ``localrank tune`` asks for and says; how settings are tried is tested in tests/training/test_tuning.py."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_training.config import TrainingConfig
from localrank_training.data.columns import Columns
from localrank_training.run.tables import TablesTrial
from localrank_training.run.tune import SPACE, Setting, Tuned
from tests.training.cli.calls import COLUMNS, Calls

command = importlib.import_module("localrank_training.cli.tune")
CONFIG = TrainingConfig.read(method="global")
RNG = np.random.default_rng(0)


def setting(mean: float, **choices: float) -> Setting:
    local = mean + RNG.normal(0, 0.05, 30)
    named = {f"learner.{name}": value for name, value in choices.items()}
    return Setting(named, CONFIG, local + mean - local.mean(), np.full(30, 0.25))


TUNED = Tuned((setting(0.5, C=1.0), setting(0.4, C=10.0)), "ndcg@10", 5)
TRIALS = (
    TablesTrial(0, 0, 1.5, 1.0, 1.0, 90),
    TablesTrial(8, 6, 0.25, 0.75, 0.96, 12, chosen=True),
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(monkeypatch)
    made.answer("localrank_training.data.reading.read", "queries")
    made.answer("localrank_training.run.tune.tune", TUNED)
    made.answer("localrank_training.run.tune.tune_routing", (CONFIG, TRIALS))
    made.answer("localrank_training.run.tune.edges_of", ("C is at the edge",))
    made.answer("localrank_training.report.pages.write_best", None)
    made.answer("localrank_training.report.pages.effect_plots", [])
    made.answer("localrank_training.report.pages.page_of_tuning", "page")
    made.answer("localrank_training.cli.tune.write_page", None)
    made.answer("localrank_training.parallel.available_cores", 3)
    monkeypatch.chdir("/")
    return made


def test_without_options_it_tries_its_own_choices(calls: Calls) -> None:
    assert 0 == main(["tune", "a.txt", "b.txt"])

    assert [
        "read",
        "tune",
        "tune_routing",
        "write_best",
        "effect_plots",
        "page_of_tuning",
        "write_page",
        "edges_of",
    ] == [one for one in calls.order if one != "available_cores"]
    assert ["a.txt", "b.txt"] == calls.given["read"][0][0]
    assert {"columns": Columns()} == calls.options("read")
    out = Path("reports/tune")
    assert ("queries", SPACE, out) == calls.given["tune"][0]
    assert {"most": 100, "workers": 3, "where": "configuration"} == calls.options("tune")
    assert ("queries", CONFIG, 0.95) == calls.given["tune_routing"][0]
    assert (TUNED, out / "best.toml", CONFIG) == calls.given["write_best"][0]
    assert (TUNED, CONFIG, "localrank tune a.txt b.txt") == calls.given["page_of_tuning"][0]
    assert ("page", out / "report.html") == calls.given["write_page"][0]


@pytest.mark.parametrize(
    "options",
    [
        ["--method", "global", "--set", "learner.C=[1, 2]"],
        ["--learner", "ranksvm", "--set", "learner.C=[1, 2]"],
        ["--set", "learner.C=[1, 2]"],
    ],
)
def test_what_is_chosen_takes_the_place_of_its_own_choices(calls: Calls, options: list[str]) -> None:
    assert 0 == main(["tune", "a.txt", *options])

    assert [1, 2] == calls.given["tune"][0][1]["learner"]["C"]


def test_options_reach_the_work(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text("[learner]\nmethod = 'ranksvm'\nC = [1, 3]\n")
    config = str(tmp_path / "space.toml")
    limits = ["--most", "7", "--agreement", "0.5", "--workers", "2"]

    assert 0 == main(["tune", "a.txt", "--config", config, "--out", str(tmp_path), *COLUMNS, *limits])

    assert {"columns": Columns("l", "q", "i", "w", "p", ("a", "b"), True)} == calls.options("read")
    assert [1, 3] == calls.given["tune"][0][1]["learner"]["C"]
    assert tmp_path == calls.given["tune"][0][2]
    assert {"most": 7, "workers": 2, "where": config} == calls.options("tune")
    assert 0.5 == calls.given["tune_routing"][0][2]


@pytest.mark.usefixtures("calls")
def test_json_has_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["tune", "a.txt", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert ("ndcg@10", 5) == (answer["metric"], answer["folds"])
    first, second = answer["settings"]
    assert ({"learner.C": 1.0}, 0.25) == (first["choices"], first["global"])
    assert second["mean"] == pytest.approx(0.4)
    assert second["less_than_best"]["difference"] == pytest.approx(-0.1)
    [effect] = answer["effects"]
    assert ("learner.C", [1.0, 10.0]) == (effect["setting"], effect["values"])
    assert effect["means"] == effect["best"] == pytest.approx([0.5, 0.4])
    assert CONFIG.to_json() == answer["best"]
    assert [0, 8] == [trial["tables"] for trial in answer["tables"]]


def test_workers_are_processes_or_a_cluster(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from contextlib import contextmanager

    from localrank_training.cli.arguments import working

    @contextmanager
    def cluster(address: str) -> Any:
        assert "tcp://x:1" == address
        yield SimpleNamespace(threads=9, notes=["two workers went away"])

    monkeypatch.setattr("localrank_training.parallel.available_cores", lambda: 5)
    monkeypatch.setattr(importlib.import_module("localrank_training.dask_workers"), "dask_workers", cluster)

    with working(0, None) as here, working(2, None) as two, working(0, "tcp://x:1") as there:
        assert (5, 2, 9) == (here, two, there)
        assert "" == capsys.readouterr().err
    assert "note: two workers went away\n" == capsys.readouterr().err
