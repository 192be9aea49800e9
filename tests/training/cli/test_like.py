"""``localrank train --like``: columns, baseline, data and settings of an earlier run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.artifact import read_manifest
from localrank.errors import InvalidConfiguration
from localrank.registry.versions import Registry
from localrank_training.data.tables import Columns

if TYPE_CHECKING:
    from pathlib import Path

NAMED = ["--label", "grade", "--qid", "query", "--ignore", "old,url"]


def write(path: Path, seed: int) -> str:
    rng = np.random.default_rng(seed)
    rows = ["grade,query,a,b,old,url"]
    for row in range(240):
        grade = int(rng.integers(3))
        a, b, old = (grade + rng.standard_normal(3)).round(3).tolist()
        rows.append(f"{grade},q{row // 8},{a},{b},{old},{row}")
    path.write_text("\n".join(rows))
    return str(path)


def test_a_new_file_needs_no_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, models = write(tmp_path / "old.csv", 0), write(tmp_path / "new.csv", 1), tmp_path / "models"
    common = ["--name", "web", "--models-dir", str(models), "--json"]
    settings = ["--learner", "linear", "--set", "learner.ridge=[0.1,1.0]", "--baseline", "old"]

    assert 0 == main(["train", old, *common, *NAMED, *settings])
    capsys.readouterr()
    assert 0 == main(["train", "--like", "web@1", new, *common])
    second = json.loads(capsys.readouterr().out)
    assert 0 == main(["train", "--like", "web@1", *common])

    assert second["metrics"]["baseline"]["name"] == "your present order (old, large values first)"
    manifests = [read_manifest(Registry(models).resolve(f"web@{version}").path) for version in (1, 2, 3)]
    asked = [one.source["asked"] for one in manifests]
    assert [[old], [new], [old]] == [one["data"] for one in asked]
    assert (
        {"label": "grade", "qid": "query", "ignore": ["old", "url"]}
        == asked[0]["columns"]
        == asked[1]["columns"]
    )
    assert asked[0]["configuration"] == asked[1]["configuration"]
    assert [0.1, 1.0] == asked[2]["configuration"]["learner"]["ridge"]
    assert ("a", "b") == manifests[1].contract.names
    first, third = (one.source["data"]["training"]["fingerprint"] for one in (manifests[0], manifests[2]))
    assert first == third


def test_a_file_of_settings_says_what_the_columns_hold(tmp_path: Path) -> None:
    data, models = write(tmp_path / "judged.csv", 0), tmp_path / "models"
    toml = tmp_path / "run.toml"
    toml.write_text(
        "[data]\nlabel = 'grade'\nqid = 'query'\nignore = ['url']\n[learner]\nmethod = 'linear'\n[clustering]\nmethod = 'none'\n"
    )
    train = ["train", data, "--config", str(toml), "--models-dir", str(models)]

    assert 0 == main(train)
    assert 0 == main([*train, "--ignore", "url,old"])

    names = [
        read_manifest(Registry(models).resolve(f"model@{version}").path).contract.names for version in (1, 2)
    ]
    assert [("a", "b", "old"), ("a", "b")] == names


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["train", "--like", "web", "--learner", "linear", "--models-dir", str(tmp_path)])
    assert "--like: expected only the settings of that version" in capsys.readouterr().err
    with pytest.raises(InvalidConfiguration, match="lable"):
        Columns().over({"lable": "x"}, "run.toml: [data]")


def test_options_read_back_to_the_same() -> None:
    columns = Columns(label="my grade", ignore=("a", "b"), sparse=True)

    assert " --label 'my grade' --ignore a,b --sparse" == columns.options()
    assert columns == Columns().over(columns.to_json(), "test")
    assert {} == Columns().to_json()
