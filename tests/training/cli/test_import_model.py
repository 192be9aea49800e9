"""What ``localrank models import`` asks for and says; how models are read is tested in tests/training/origins."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank.registry import Reference
from localrank_training.data.columns import Columns
from localrank_training.origins.checking import Check
from localrank_training.origins.importing import Imported
from tests.training.cli.calls import COLUMNS, Calls

command = importlib.import_module("localrank_training.cli.import_model")
MODEL = SimpleNamespace(format="lightgbm", n_features=4)
CHECK = Check("LightGBM 4", 752, 0.0, 0.0)


def imported(*, check: Check | None = CHECK) -> Imported:
    return Imported(Reference("web", 7, Path("models/web/7")), check, ("a note",))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(monkeypatch)
    made.answer("localrank.registry.Registry.check_publishable", None)
    made.answer("localrank.registry.Registry.promote", None)
    made.answer("localrank_training.origins.read_model", MODEL)
    made.answer("localrank_training.data.reading.read", "queries")
    made.answer("localrank_training.origins.importing.publish", imported())
    return made


def test_a_model_is_read_checked_and_published(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["models", "import", "m.txt", "--name", "web", "--models-dir", "my models"])

    assert ["check_publishable", "read_model", "publish"] == calls.order
    assert ("web",) == calls.given["check_publishable"][0]
    assert (Path("m.txt"), None, None) == calls.given["read_model"][0]
    registry, *rest = calls.given["publish"][0]
    assert (Path("my models"), ["web", MODEL, Path("m.txt")]) == (registry.models_dir, rest)
    assert {"data": None, "expected": None, "unverified": False} == calls.options("publish")
    said, errors = capsys.readouterr()
    assert "note: a note\n" == errors
    assert said.splitlines() == [
        str(CHECK),
        "published web version 7 in models/web/7",
        "to serve it: localrank models promote web 7 --models-dir 'my models'",
    ]


def test_options_reach_the_work(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    more = [
        "--format",
        "lightgbm",
        "--features",
        "a,b",
        "--data",
        "d.csv",
        "--expected",
        "e.txt",
        "--unverified",
        "--promote",
    ]

    assert 0 == main(["models", "import", "m.txt", "--name", "web", *COLUMNS, *more])

    assert (Path("m.txt"), "lightgbm", ["a", "b"]) == calls.given["read_model"][0]
    assert (["d.csv"],) == calls.given["read"][0]
    assert calls.options("read") == {
        "n_features": 4,
        "columns": Columns("l", "q", "i", "w", "p", ("a", "b"), True),
    }
    assert {"data": "queries", "expected": Path("e.txt"), "unverified": True} == calls.options("publish")
    assert ("web", 7) == calls.given["promote"][0]
    assert "to serve it" not in capsys.readouterr().out


@pytest.mark.parametrize(("options", "promoted"), [([], False), (["--promote"], True)])
@pytest.mark.parametrize("check", [CHECK, None])
def test_json_says_what_was_published(
    calls: Calls,
    options: list[str],
    promoted: bool,
    check: Check | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls.answer("localrank_training.origins.importing.publish", imported(check=check))

    assert 0 == main(["models", "import", "m.txt", "--name", "web", "--json", *options])

    expected: dict[str, Any] = {
        "model": "web",
        "version": 7,
        "format": "lightgbm",
        "features": 4,
        "check": None if check is None else check.to_json(),
        "notes": ["a note"],
        "promoted": promoted,
    }
    assert expected == json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("calls")
def test_an_unknown_format_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["models", "import", "m.txt", "--name", "web", "--format", "lightgmb"])

    assert (
        "localrank: --format: expected one of lightgbm, xgboost, ranklib, catboost-json, found 'lightgmb'; did you "
        "mean 'lightgbm'?\n"
    ) == capsys.readouterr().err


def test_names_come_from_a_file_or_from_the_list_itself(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("a \n\n b c\n")
    many = [f"feature_number_{number}" for number in range(400)]

    assert ["a", "b c"] == command._names(str(tmp_path / "names.txt"))
    assert ["a", "b c", ""] == command._names(" a,b c,")
    # Longer than the name of a file may be.
    assert many == command._names(",".join(many))


def test_a_file_of_names_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InvalidData, match="names: expected names of features, found bytes that are not text"):
        command._names(str(tmp_path / "names"))
