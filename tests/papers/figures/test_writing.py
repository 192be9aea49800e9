"""The four files of an experiment, the log of runs, the run itself, and how experiments are named."""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from localrank._version import __version__
from localrank.errors import InvalidConfiguration, InvalidData, PublishFailed
from localrank_papers.figures.fits import Fit, Fits
from localrank_papers.figures.running import EXPERIMENTS, LOG, LoggedRun, RunLog, named, run, write
from localrank_papers.figures.study import Experiment, Findings, Protocol, Study, spread_of
from localrank_training.report import Axis, Line, Plot, Table
from tests.papers.figures.made_up import small_data
from tests.training.golden import agree_exactly

GOLDEN = Path(__file__).parent / "golden"
DATA = small_data((3, 2))


def found_in(_study: Study) -> Findings:
    rows = [("a", 0.25, None), ("b", float("nan"), 3), ("c", float("inf"), 4)]
    first = Plot("first", "Look here.", Axis("x"), Axis("y"), [Line("l", [1, 2], [0.5, float("nan")])])
    second = Plot("second", "And there.", Axis("x"), Axis("y"), [Line("m", [1, 2], [0.5, 1.5])])
    tables = [Table("One", ("name", "value", "count"), rows, "Caption."), Table("Two", ("n",), [(1,), (2,)])]
    return Findings(tables, [first, second], ["The lead.", "Another — sentence."])


def experiment(
    *, needs_data: bool = True, whose: Literal["the paper's", "ours"] = "ours", not_run: str = ""
) -> Experiment:
    return Experiment(
        "made-up", "Nobody (2020)", "Figure 0", "Nothing", Protocol(whose, "as it is."), not_run, ("made up", "other"),
        lambda _: [Fit(worked, fold) for fold in DATA.folds], found_in, needs_data, "drawn numbers",
    )  # fmt: skip


def worked(_fold: Any) -> dict[str, np.ndarray]:
    return {"found": np.ones(1)}


def logged(name: str, number: int, data: str = "made up") -> LoggedRun:
    return LoggedRun("2026-01-02T03:04:05+00:00", name, data, "0" * 64, 5, 20 + number, number, "0.0.1")


def one_in_a_line(markup: str) -> str:
    markup = markup.replace(f"version {__version__}", "version VERSION")
    return re.sub(r"<style>.*?</style>", "<style/>", markup, flags=re.DOTALL).replace("><", ">\n<")


def test_the_files_are_the_golden_ones(tmp_path: Path) -> None:
    one = experiment(not_run="something.")
    runs = [logged("made-up", 1), logged("another", 2)]

    paths = write(tmp_path, one, one.mark(DATA), found_in(Study(DATA, Fits(tmp_path), 0, 0)), runs)

    assert [tmp_path / f"made-up.{ending}" for ending in ("csv", "json", "svg", "html")] == paths
    *tables, drawn, page = paths
    for path in tables:
        agree_exactly(GOLDEN / f"written.{path.suffix[1:]}", one_in_a_line(path.read_text(encoding="utf-8")))
    assert "<title>first; second</title>" in drawn.read_text(encoding="utf-8")
    said = page.read_text(encoding="utf-8")
    assert all(
        text in said for text in ("The lead.", "Another — sentence.", "Look here.", "And there.", "Caption.")
    )


def test_what_is_no_number_is_null_in_json_and_itself_in_csv(tmp_path: Path) -> None:
    one = experiment()

    csv_path, json_path, *_ = write(
        tmp_path, one, one.mark(DATA), found_in(Study(DATA, Fits(tmp_path), 0, 0)), []
    )

    with csv_path.open(newline="") as file:
        expected = [["name", "value", "count"], ["a", "0.25", ""], ["b", "nan", "3"], ["c", "inf", "4"]]
        assert expected == list(csv.reader(file))
    described = json.loads(json_path.read_text())
    assert [["a", 0.25, None], ["b", None, 3], ["c", None, 4]] == described["tables"][0]["rows"]
    assert "Another — sentence." in json_path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("needs_data", "name", "expected"),
    [
        (True, "made up", "the paper's: made up"),
        (True, "mine", "another than the paper's (made up, other): mine"),
        (False, "made up", "synthetic: drawn numbers"),
    ],
)
def test_a_mark_says_whose_data_it_is(
    needs_data: bool,  # noqa: FBT001
    name: str,
    expected: str,
) -> None:
    mark = experiment(needs_data=needs_data, whose="the paper's").mark(small_data((1,), name))

    assert (expected, "the paper's: as it is.") == (mark.data, mark.protocol)


# ------------------------------------------------------------------------------------------------ the log


def test_a_logged_run_says_when_what_and_on_which_queries(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "deep" / "runs.jsonl")
    assert [] == log.runs()

    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    log.add("made-up", DATA, 20, 7)
    log.add("another", DATA, 0, 0)

    first, second = log.runs()
    prints = " ".join(fold.fingerprint for fold in DATA.folds)
    expected = ("made-up", "made up", hashlib.sha256(prints.encode()).hexdigest(), 5, 20, 7, __version__)
    assert expected == (
        *(first.experiment, first.data, first.fingerprint, first.queries, first.draws, first.seed),
        first.version,
    )
    assert "another" == second.experiment
    when = dt.datetime.fromisoformat(first.time)
    assert before <= when <= dt.datetime.now(dt.UTC)
    assert (0, 0) == (when.microsecond, when.utcoffset().total_seconds())  # type: ignore[union-attr]


@pytest.mark.parametrize("line", ["no JSON", '{"time": "now"}', "[1]"])
def test_a_damaged_log_names_the_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    RunLog(path).add("made-up", DATA, 0, 0)
    with path.open("a") as file:
        file.write(line + "x" * 80 + "\n")

    with pytest.raises(InvalidData) as error:
        RunLog(path).runs()

    assert f"{path}:2: expected one logged run, found {(line + 'x' * 80)[:60]!r}" == str(error.value)


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").mkdir()

    with pytest.raises(PublishFailed, match=r"runs\.jsonl: cannot be written: Is a directory"):
        RunLog(tmp_path / "runs.jsonl").add("made-up", DATA, 0, 0)


# ------------------------------------------------------------------------------------------------ a run


@pytest.mark.parametrize("needs_data", [True, False])
def test_a_run_says_its_plan_and_its_files_and_logs_what_reads_test_folds(
    needs_data: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    said: list[str] = []
    steps: list[Any] = []
    study = Study(DATA, Fits(tmp_path / "fits"), 4, 9)
    RunLog(tmp_path / LOG).add("elsewhere", small_data((1,), "other"), 0, 0)

    found = run(
        experiment(needs_data=needs_data),
        study,
        tmp_path,
        say=said.append,
        progress=lambda *step: steps.append(step),
    )

    assert ["The lead.", "Another — sentence."] == list(found.sentences)
    files = ", ".join(str(tmp_path / f"made-up.{ending}") for ending in ("csv", "json", "svg", "html"))
    assert ["made-up: 2 fits: 0 on disk, 2 to do", f"made-up: wrote {files}"] == said
    assert [("fits", 0, 2), ("fits", 1, 2), ("fits", 2, 2)] == steps
    runs = RunLog(tmp_path / LOG).runs()
    assert ["elsewhere", *(["made-up"] if needs_data else [])] == [one.experiment for one in runs]
    kept = json.loads((tmp_path / "made-up.json").read_text())["test_runs"]
    # Runs on other data are not this experiment's.
    assert [("made-up", 4, 9)] * needs_data == [
        (one["experiment"], one["draws"], one["seed"]) for one in kept
    ]


# ------------------------------------------------------------------------------------------------ names and numbers


def test_patterns_name_each_experiment_once_in_the_order_asked() -> None:
    found = [one.name for one in named(["mhr-fig*", "localrank-fig1", "mhr-fig2", "localrank-fig1*"])]

    assert ["mhr-fig1", "mhr-fig2", "mhr-fig3", "localrank-fig1"] == found[:4]
    assert (
        len(set(found))
        == len(found)
        == 3 + len([name for name in EXPERIMENTS if name.startswith("localrank-fig1")])
    )
    assert list(EXPERIMENTS.values()) == named(["*"])
    with pytest.raises(InvalidConfiguration, match=r"no experiment 'MHR-fig1'"):
        named(["mhr-fig1", "MHR-fig1"])


def test_the_middle_nine_tenths_of_draws() -> None:
    values = list(range(101))

    assert pytest.approx((5.0, 95.0)) == spread_of(values)
    assert pytest.approx((25.0, 75.0)) == spread_of(values, 0.5)


@pytest.mark.parametrize(("tables", "plots", "sentences"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_findings_have_a_table_a_plot_and_a_sentence(tables: int, plots: int, sentences: int) -> None:
    whole = found_in(SimpleNamespace())  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="expected a table, a plot and a sentence at least"):
        Findings(whole.tables[:tables], whole.plots[:plots], whole.sentences[:sentences])
