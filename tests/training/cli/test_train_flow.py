"""What ``localrank train`` hands on, in which order, and what it says; the work itself is replaced."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localrank.__main__ import main
from localrank.registry import Reference
from localrank_training.config import TrainingConfig
from localrank_training.data.columns import Columns
from localrank_training.report import Table
from localrank_training.report.verdict import Verdict
from tests.training.cli.calls import COLUMNS, Calls

GLOBAL = TrainingConfig.read(method="global")
TRAINED = SimpleNamespace(name="trained")
QUERIES = SimpleNamespace(n_features=6)
JOURNAL = SimpleNamespace(known=0, remove=lambda: None)


@pytest.fixture
def version(tmp_path: Path) -> Reference:
    """A version of 2.5 MB."""
    folder = tmp_path / "models" / "web" / "7"
    folder.mkdir(parents=True)
    (folder / "a.npy").write_bytes(bytes(1_500_000))
    (folder / "b.npy").write_bytes(bytes(1_000_000))
    return Reference("web", 7, folder)


@pytest.fixture
def report() -> Any:
    return SimpleNamespace(
        notes=("a note",),
        verdict=Verdict("better", "verdict: better"),
        to_json=lambda: {"notes": ["a note"]},
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, version: Reference, report: Any) -> Calls:
    made = Calls(monkeypatch)
    table = Table("Held out", ("metric", "model"), [("map", 0.5)])
    monkeypatch.setattr("localrank_training.report.terminal.of_run", lambda _: [table])
    made.answer("localrank.registry.Registry.check_publishable", None)
    made.answer("localrank.registry.Registry.promote", None)
    made.answer("localrank_training.data.reading.read", QUERIES)
    made.answer("localrank_training.run.train.plan_for", None)
    made.answer("localrank_training.run.train.journal_in", JOURNAL)
    made.answer("localrank_training.run.train.train", TRAINED)
    made.answer("localrank_training.report.figures.report_of", report)
    made.answer("localrank_training.publishing.publish", version)
    made.answer("localrank_training.promotion.better_than_served", (True, "promoted: better"))
    made.answer("localrank_training.parallel.available_cores", 3)
    # At last: modules that are imported for their answers keep the function itself.
    made.answer("localrank.artifact.load", None)
    return made


def train(*options: str) -> int:
    return main(
        ["train", "a", "b", "--name", "web", "--method", "global", "--models-dir", "my models", *options]
    )


def test_the_steps_come_one_after_the_other(
    calls: Calls, version: Reference, report: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == train()

    assert [
        "check_publishable",
        "available_cores",
        "read",
        "plan_for",
        "journal_in",
        "train",
        "report_of",
        "publish",
        "load",
    ] == calls.order
    assert ("web",) == calls.given["check_publishable"][0]
    assert (["a", "b"],) == calls.given["read"][0]
    assert {"columns": Columns(), "skip": False} == calls.options("read")
    assert (GLOBAL.to_json(), QUERIES, None) == (
        calls.given["plan_for"][0][0].to_json(),
        *calls.given["plan_for"][0][1:],
    )
    queries, config = calls.given["train"][0]
    assert (QUERIES, GLOBAL.to_json()) == (queries, config.to_json())
    assert {"validation": None, "journal": JOURNAL, "workers": 3} == calls.options("train")
    assert (TRAINED,) == calls.given["report_of"][0]
    registry, *rest = calls.given["publish"][0]
    assert (Path("my models"), ["web", TRAINED, QUERIES]) == (registry.models_dir, rest)
    assert {"validation": None, "report": report} == calls.options("publish")
    assert (version.path,) == calls.given["load"][0]
    said, errors = capsys.readouterr()
    assert "note: a note\n" == errors
    lines = said.splitlines()
    assert ["", "Held out", "metric   model", "map     0.5000", ""] == lines[:5]
    assert f"published web version 7 in {version.path}" == lines[5]
    assert lines[6].startswith("it takes 2.5 MB and loads in 0.")
    assert lines[6].endswith(" s")
    assert "verdict: better" == lines[7]
    assert ["to serve it: localrank models promote web 7 --models-dir 'my models'"] == lines[8:]


def test_options_reach_the_work(calls: Calls) -> None:
    more = ["--skip-bad-files", "--workers", "2", "--validation", "c", "d"]

    assert 0 == train(*COLUMNS, *more)

    # The last reading is that of the validation queries.
    expected = Columns("l", "q", "i", "w", "p", ("a", "b"), True)
    assert (["c", "d"],) == calls.given["read"][0]
    assert {"columns": expected, "n_features": 6} == calls.options("read")
    assert 2 == calls.order.count("read")
    assert QUERIES is calls.given["plan_for"][0][2]
    assert {"validation": QUERIES, "journal": JOURNAL, "workers": 2} == calls.options("train")
    assert QUERIES is calls.options("publish")["validation"]


@pytest.mark.parametrize("skip", [[], ["--skip-bad-files"]])
def test_bad_files_are_left_out_if_asked(calls: Calls, skip: list[str]) -> None:
    assert 0 == train(*skip)

    assert {"columns": Columns(), "skip": bool(skip)} == calls.options("read")


def test_a_promotion_is_said(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == train("--promote")

    assert ("web", 7) == calls.given["promote"][0]
    assert "better_than_served" not in calls.given
    after = capsys.readouterr().out.splitlines()[-1]
    assert "it is the champion now; serve it: localrank serve --models-dir 'my models'" == after


@pytest.mark.usefixtures("calls")
def test_figures_too_good_to_be_true_are_looked_at_whether_promoted_or_not(
    report: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    report.verdict = Verdict("suspect", "verdict: too good to be true")

    said = "look at that before you serve it"
    for options, after in ((), said), (("--promote",), f"{said}; it is the champion now"):
        assert 0 == train(*options)
        assert after == capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("better", [True, False])
def test_a_promotion_may_depend_on_the_champion(
    calls: Calls, report: Any, capsys: pytest.CaptureFixture[str], *, better: bool
) -> None:
    calls.answer("localrank_training.promotion.better_than_served", (better, "because"))

    assert 0 == train("--promote-if-better")

    _, *rest = calls.given["better_than_served"][0]
    assert ["web", TRAINED, report] == rest
    assert better == ("promote" in calls.given)
    lines = capsys.readouterr().out.splitlines()
    assert "because" == lines[8]
    assert lines[9].startswith("it is the champion now; serve it: " if better else "to serve it: ")


@pytest.mark.parametrize(
    ("options", "promoted", "decision"),
    [([], False, None), (["--promote"], True, None), (["--promote-if-better"], True, "promoted: better")],
)
def test_json_says_what_was_made(
    calls: Calls,
    options: list[str],
    promoted: bool,
    decision: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = SimpleNamespace(table=lambda: ("The plan", ("what",), [("this",)]))
    calls.answer("localrank_training.run.train.plan_for", plan)

    assert 0 == train("--json", *options)

    assert json.loads(capsys.readouterr().out) == {
        "model": "web",
        "version": 7,
        "promoted": promoted,
        "decision": decision,
        "notes": ["a note"],
    }


def test_a_plan_is_shown_before_the_work(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    plan = SimpleNamespace(table=lambda: ("The plan", ("what",), [("this",)]))
    calls.answer("localrank_training.run.train.plan_for", plan)

    assert 0 == train()

    assert ["The plan", "what", "this", ""] == capsys.readouterr().out.splitlines()[:4]


@pytest.mark.parametrize(
    ("seconds", "said"), [(12.4, ["Learning curve: about 12 processor seconds more"]), (None, [])]
)
def test_a_learning_curve_is_announced_and_drawn(
    calls: Calls, tmp_path: Path, seconds: float | None, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    background = SimpleNamespace(sentences=("More would help.",), to_json=lambda: {"advice": 1})
    kept = tmp_path / "kept.html"
    calls.answer("localrank_training.learning_curve.seconds_of_curve", seconds)
    calls.answer("localrank_training.report.background.background_of", background)
    calls.answer("localrank.artifact.read_manifest", "manifest")
    calls.answer("localrank.registry.Registry.report_path", kept)
    calls.answer("localrank_training.report.training_run.page_of_run", "page")
    calls.answer("localrank_training.cli.train.write_page", None)
    report = tmp_path / "report.html"

    assert 0 == train("--report", str(report), "--learning-curve")

    lines = capsys.readouterr().out.splitlines()
    assert said == lines[: len(said)]
    assert lines[-2:] == ["More would help.", f"report: {report}; a copy is kept with the version: {kept}"]
    assert {"curve": True, "workers": 3} == calls.options("background_of")
    assert TRAINED is calls.given["background_of"][0][0]
    assert ("page", report, kept) == calls.given["write_page"][0]
    origin = calls.given["page_of_run"][0][3]
    assert ("manifest", 2.5) == (origin.manifest, origin.megabytes)
    assert origin.command.startswith("localrank train a b --name web")
    assert 0 == train("--report", str(report), "--json")
    assert {"curve": False, "workers": 3} == calls.options("background_of")
    answer = json.loads(capsys.readouterr().out)
    assert (str(kept), 1) == (answer["report"], answer["advice"])
