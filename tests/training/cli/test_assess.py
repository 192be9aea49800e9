"""What ``localrank assess`` asks for and says."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from localrank.__main__ import main
from localrank_training.data.columns import Columns
from tests.training.cli.calls import COLUMNS, Calls

if TYPE_CHECKING:
    from pathlib import Path


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
