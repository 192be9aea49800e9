"""What ``localrank train`` is told on the command line."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest

import localrank
from localrank.__main__ import main
from localrank.artifact import read_manifest
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    path = tmp_path / "judged.txt"
    options = ["--queries", "12", "--documents", "8", "--features", "4", "--kinds", "1", "--seed", "3"]
    assert main(["data", "synthesize", *options, "--out", str(path)]) == 0
    return path


def train(judged: Path, *options: str) -> int:
    return main(["train", str(judged), "--models-dir", str(judged.parent / "models"), *options])


def configuration(judged: Path) -> dict[str, dict[str, object]]:
    manifest = json.loads((judged.parent / "models" / "model" / "1" / "manifest.json").read_text())
    found: dict[str, dict[str, object]] = manifest["source"]["configuration"]
    return found


@pytest.mark.parametrize(
    ("method", "quick", "expected"),
    [
        ("adaptive_kmeans", ["num_iterations=5", "members=1"], ("top_documents", "kmeans", "fusion", 5)),
        ("adaptive_ward", ["num_iterations=5", "members=1"], ("top_documents", "ward", "fusion", 5)),
        ("pca_query", ["C=[1, 10]"], ("top_scores_pca", "bisecting_kmeans", "centroid", None)),
        ("knn", ["C=10"], ("top_documents", "knn", "exact", 12)),
    ],
)
def test_the_methods_of_the_papers_are_ready(
    judged: Path, method: str, quick: list[str], expected: tuple[str, str, str, int | None]
) -> None:
    settings = [option for one in quick for option in ("--set", f"learner.{one}")]

    assert 0 == train(judged, "--method", method, *settings, "--promote")

    representation, clustering, routing, clusters = expected
    found = localrank.load(judged.parent / "models" / "model")
    assert representation == configuration(judged)["representation"]["method"]
    if clusters is None and not found.scorers:
        # One global model was as good.
        assert "none" == configuration(judged)["clustering"]["method"]
        return
    assert clustering == configuration(judged)["clustering"]["method"]
    assert representation == found.representation.method
    # So few queries may leave every cluster to the global scorer. Then the version has none.
    assert (routing if found.scorers else "global") == found.router.strategy
    assert clusters in {None, len(found.scorers) or clusters}


def test_settings_are_printed_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["train", "--method", "localrank", "--set", "seed=5", "--print-config"])

    printed = tomllib.loads(capsys.readouterr().out)
    assert 5 == printed["seed"]
    assert {"method": "svmmap", "C": [0.1, 1.0, 10.0, 100.0]}.items() <= printed["learner"].items()


def test_without_any_choice_it_is_the_blend(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for chosen in ([], ["--method", "auto"], ["--set", "clustering.gate=3"]):
        assert 0 == main(["train", *chosen, "--print-config"])
        printed.append(tomllib.loads(capsys.readouterr().out))

    default, auto, stricter = printed
    assert default == auto
    assert ("blend", "prototypes") == (default["learner"]["method"], default["clustering"]["method"])
    assert 3 == stricter["clustering"].pop("gate")
    assert default["clustering"].pop("gate") == 2
    assert default == stricter


def test_what_is_printed_is_what_is_trained(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--learner", "rankboost", "--set", "learner.rounds=7", "--set", "learner.blocks=zscore"]
    assert 0 == main(["train", *chosen, "--print-config"])
    (judged.parent / "run.toml").write_text(capsys.readouterr().out)

    assert 0 == train(judged, *chosen)

    found = configuration(judged)
    assert ("none", "global") == (found["clustering"]["method"], found["routing"]["method"])
    assert {"method": "rankboost", "rounds": 7, "blocks": "zscore"}.items() <= found["learner"].items()
    read = TrainingConfig.read(judged.parent / "run.toml")
    assert found == read.to_json() | {"learner": found["learner"]}


def test_budgets_become_settings_of_the_learner(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["train", "--budget", "0.5", "--latency-budget", "1", "--print-config"])

    printed = tomllib.loads(capsys.readouterr().out)["learner"]
    assert (0.5, 1) == (printed["budget"], printed["latency"])


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_choice_at_the_edge_is_told_on_standard_error(
    judged: Path, as_json: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert 0 == train(judged, "--method", "global", "--set", "learner.C=[1e-9, 1e-8, 1e-7]", *as_json)

    answered = capsys.readouterr()
    assert "note: C = 1e-0" in answered.err
    assert "that was tried" in answered.err
    assert "note:" not in answered.out


def test_every_feature_may_have_its_own_policy_for_missing_values(judged: Path) -> None:
    policies = 'contract.missing={f2 = "median", "*" = "zero"}'

    assert 0 == train(judged, "--method", "global", "--set", policies, "--set", "learner.C=1")

    manifest = json.loads((judged.parent / "models" / "model" / "1" / "manifest.json").read_text())
    assert ["zero", "median", "zero", "zero"] == manifest["contract"]["missing"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--learner", "ranksvn"], "no learner 'ranksvn'; did you mean 'ranksvm'"),
        (["--set", "learner.c=1"], "unknown setting 'c'"),
        (["--set", 'contract.missing={f9="zero"}'], "missing: no feature 'f9' (expected names of features"),
        (["--budget", "0"], "--budget: expected more than 0, found 0 (see localrank train --help)"),
        (["--budget", "-2.5"], "--budget: expected more than 0, found -2.5"),
        (["--budget", "nan"], "--budget: expected more than 0, found nan"),
        (["--latency-budget", "0"], "--latency-budget: expected more than 0, found 0"),
        (
            ["--promote", "--promote-if-better"],
            "--promote and --promote-if-better: expected one of them, found both",
        ),
        (["--learning-curve"], "--learning-curve: expected --report FILE, which the curve is drawn in"),
        (["--dask", "local", "--workers", "1"], "--workers and --dask: expected one of them, found both"),
        (["--warm", "web", "--budget", "3"], "--warm: expected only the settings of that version"),
    ],
)
def test_what_does_not_fit_is_wrong_use(
    judged: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == train(judged, *options)

    assert said in " ".join(capsys.readouterr().err.split())
    assert not (judged.parent / "models").exists()


def test_warm_takes_the_settings_of_a_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged, models = str(tmp_path / "judged.txt"), ["--models-dir", str(tmp_path / "models")]
    synthetic = ["--queries", "40", "--documents", "12", "--features", "6", "--kinds", "2"]
    assert 0 == main(["data", "synthesize", *synthetic, "--out", judged])
    choices = ["--set", "learner.C=[1.0, 100.0]", "--set", "clustering.candidates=[2, 3]"]
    assert 0 == main(["train", judged, "--method", "localrank", *choices, "--name", "web", *models])
    capsys.readouterr()

    assert 0 == main(["train", judged, "--warm", "web@1", "--name", "web", "--json", *models])

    first, second = (read_manifest(tmp_path / "models" / "web" / version) for version in ("1", "2"))
    assert 4 == len(first.source["trials"])
    assert [] == second.source["trials"]
    assert first.source["configuration"] == second.source["configuration"]
    capsys.readouterr()
    assert 2 == main(["train", judged, "--warm", "web", "--method", "global", *models])
    assert "--warm: expected only the settings of that version" in capsys.readouterr().err.replace("'", "")
    assert 1 == main(["train", judged, "--warm", "nowhere", *models])


def test_warm_takes_the_members_of_a_blend(tmp_path: Path) -> None:
    judged, models = str(tmp_path / "judged.txt"), ["--models-dir", str(tmp_path / "models")]
    assert 0 == main(
        ["data", "synthesize", "--queries", "40", "--documents", "8", "--features", "4", "--out", judged]
    )
    assert 0 == main(["train", judged, "--budget", "2", "--name", "web", *models])

    assert 0 == main(["train", judged, "--warm", "web", "--name", "web", *models])

    first, second = (
        read_manifest(tmp_path / "models" / "web" / version).source["configuration"]["learner"]
        for version in ("1", "2")
    )
    assert [member["method"] for member in first["members"]] == [
        member["method"] for member in second["members"]
    ]
    assert {"ranksvm"} <= {member["method"] for member in second["members"]}
