"""``localrank train --like``: columns, baseline, data and settings of an earlier run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.artifact import read_manifest
from localrank.errors import InvalidConfiguration
from localrank.registry.versions import Registry
from localrank_training.data.tables import Columns

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


def test_directions_of_features_are_kept_shown_and_remembered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, models = write(tmp_path / "judged.csv", 0), str(tmp_path / "models")
    common = ["--name", "web", "--models-dir", models]
    rules = ["--monotone", "a=-1", "--monotone", "b=+1", "--learner", "linear"]

    assert 0 == main(["train", data, *common, *NAMED, *rules])
    assert 0 == main(["train", "--like", "web@1", *common])
    capsys.readouterr()
    assert 0 == main(["models", "show", "web@2", "--models-dir", models])

    assert "monotone        a -1, b +1" in capsys.readouterr().out
    manifest = read_manifest(Registry(Path(models)).resolve("web@2").path)
    assert {"a": -1, "b": 1} == manifest.raw["contract"]["monotone"]
    assert [-1, 1] == [one.monotone for one in manifest.contract.features]


@pytest.mark.parametrize(
    ("told", "named"),
    [
        (["a=2"], "expected FEATURE=+1 or FEATURE=-1, found 'a=2'"),
        (["a"], "expected FEATURE=+1"),
        (["a=+1", "a=-1"], "expected one direction of 'a'"),
    ],
)
def test_a_direction_that_is_none_is_refused(
    told: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main(["train", "none.csv", *(word for one in told for word in ("--monotone", one))])

    assert named in capsys.readouterr().err


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


def test_options_count_before_what_is_remembered(tmp_path: Path) -> None:
    old, held, models = write(tmp_path / "old.csv", 0), write(tmp_path / "held.csv", 2), tmp_path / "models"
    like = ["train", "--like", "model@1", "--models-dir", str(models)]
    first = ["train", old, "--models-dir", str(models), *NAMED, "--learner", "linear"]
    assert 0 == main([*first, "--set", "learner.ridge=0.5", "--validation", held])

    # One setting, another learner, other data.
    assert 0 == main([*like, "--set", "learner.centre=all"])
    assert 0 == main([*like, "--learner", "best_feature"])
    assert 0 == main([*like, held])

    manifests = [read_manifest(Registry(models).resolve(f"model@{version}").path) for version in (1, 2, 3, 4)]
    asked = [one.source["asked"] for one in manifests]
    learners = [one["configuration"]["learner"] for one in asked]
    assert ["linear", "linear", "best_feature", "linear"] == [one["method"] for one in learners]
    assert [(0.5, "query"), (0.5, "all"), (0.5, "query")] == [
        (learners[place]["ridge"], learners[place].get("centre", "query")) for place in (0, 1, 3)
    ]
    assert [[held], [held], [held], []] == [one["validation"] or [] for one in asked]
    assert [[old], [old], [old], [held]] == [one["data"] for one in asked]


def test_directions_and_typed_columns_are_added_to_what_is_remembered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, other, models = write(tmp_path / "old.csv", 0), tmp_path / "other.csv", tmp_path / "models"
    usual = (tmp_path / "old.csv").read_text().replace("grade,query", "label,qid")
    other.write_text(usual)
    named = ["--label", "grade", "--qid", "query", "--ignore", "old", "--id", "url"]
    first = ["train", old, "--models-dir", str(models), *named, "--learner", "ranksvm"]
    like = ["--like", "model@1", "--models-dir", str(models), "--print-config"]
    assert 0 == main([*first, "--set", "learner.C=1", "--monotone", "a=+1", "--monotone", "b=-1"])
    capsys.readouterr()

    for options, expected in (
        ([], "monotone = {a = 1, b = -1}"),
        (["--set", "learner.C=10"], "monotone = {a = 1, b = -1}"),
        (["--monotone", "b=+1"], "monotone = {a = 1, b = 1}"),
        (["--monotone", "a=0"], "monotone = {b = -1}"),
        (["--learner", "lambdamart"], "monotone = {a = 1, b = -1}"),
        (["--method", "auto"], "monotone = {a = 1, b = -1}"),
    ):
        assert 0 == main(["train", *like, *options])
        assert expected in capsys.readouterr().out
    # What is typed counts, even if it is the usual name; the column of ids may be absent.
    typed = ["train", str(other), *like[:-1], "--label", "label", "--qid", "qid"]
    assert 0 == main(typed)
    capsys.readouterr()
    other.write_text("\n".join(line.rpartition(",")[0] for line in usual.splitlines()))
    assert 1 == main(typed)
    assert "expected a column 'url'" in (said := capsys.readouterr().err)
    assert "--id chooses another one, --id '' none" in said
    assert 0 == main([*typed, "--id", "", "--ignore", "old"])


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, models = write(tmp_path / "judged.csv", 0), str(tmp_path)
    assert 0 == main(["train", data, *NAMED, "--learner", "linear", "--models-dir", models])
    capsys.readouterr()

    assert 2 == main(["train", "--like", "model", "--warm", "model", "--models-dir", models])

    assert "--warm: expected only the settings of that version" in capsys.readouterr().err
    with pytest.raises(InvalidConfiguration, match="lable"):
        Columns().over({"lable": "x"}, "run.toml: [data]")


def test_options_read_back_to_the_same() -> None:
    columns = Columns(label="my grade", ignore=("a", "b"), sparse=True)

    assert " --label 'my grade' --ignore a,b --sparse" == columns.options()
    assert columns == Columns().over(columns.to_json(), "test")
    assert {} == Columns().to_json()
