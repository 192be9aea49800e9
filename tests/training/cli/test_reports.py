"""``--report``: pages of commands, refused before the work if they cannot be written."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pytest

from localrank.__main__ import main
from localrank.errors import PublishFailed
from localrank_training.data.writing import check_writable
from tests.training.report.written import Written


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    path = tmp_path / "judged.txt"
    options = ["--queries", "24", "--documents", "8", "--features", "4", "--kinds", "1", "--seed", "3"]
    assert main(["data", "synthesize", *options, "--out", str(path)]) == 0
    return path


def train(judged: Path, *options: str) -> int:
    models = str(judged.parent / "models")
    learner = ["--learner", "linear", "--set", "learner.ridge=0.1"]
    return main(["train", str(judged), "--name", "web", "--models-dir", models, *learner, *options])


def test_a_report_is_written_and_kept_beside_the_version(
    judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = judged.parent / "my report.html"
    kept = judged.parent / "models" / "web" / "1.report.html"

    assert 0 == train(judged, "--report", str(report))

    said = capsys.readouterr().out
    assert said.index("published web version 1") < said.index(f"report: {report}")
    assert kept.read_bytes() == report.read_bytes()
    page = Written(report.read_text())
    assert f"localrank train {judged} --name web" in page.text
    assert f"--report '{report}'" in page.text
    models = ["--models-dir", str(judged.parent / "models")]
    assert 0 == main(["models", "show", "web", *models])
    assert str(kept) in capsys.readouterr().out
    assert 0 == main(["models", "verify", "web", *models])
    assert 0 == main(["models", "prune", "web", "--keep", "0", "--force", *models])
    assert not kept.exists()


def test_json_holds_what_the_page_says_and_where_it_is(
    judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert 0 == train(judged, "--json", "--report", str(judged.parent / "a.html"), "--learning-curve")

    found = json.loads(capsys.readouterr().out)
    assert str(judged.parent / "models" / "web" / "1.report.html") == found["report"]
    assert 24 == found["advice"]["queries"]
    assert 24 == found["learning_curve"]["examined"]
    page = Written((judged.parent / "a.html").read_text())
    assert [f"{point['ndcg@10']:.4f}" for point in found["learning_curve"]["points"]] == page.column(
        "The learning curve", "NDCG@10"
    )
    capsys.readouterr()
    assert 0 == main(["models", "show", "web", "--json", "--models-dir", str(judged.parent / "models")])
    assert found["report"] == json.loads(capsys.readouterr().out)["report"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("absent/report.html", "no such folder"),
        ("judged.txt/report.html", "is a file"),
        ("", "expected a path, found nothing"),
        (".", "it is a folder"),
    ],
)
@pytest.mark.parametrize("name", ["train", "assess", "evaluate"])
def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    name: str, path: str, why: str, judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    report = str(judged.parent / path) if path else ""
    words = {"train": [str(judged)], "assess": [str(judged)], "evaluate": ["web", str(judged)]}[name]

    assert main([name, *words, "--report", report]) in {1, 2}

    error = capsys.readouterr().err
    assert why in error
    assert 1 == error.count("\n") or not path
    assert not (judged.parent / "models").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(PublishFailed, match=r"report.html: cannot be written: .*Permission denied"):
        check_writable(tmp_path / "report.html")


def test_a_device_is_written_and_a_new_file_is_not_left_behind(tmp_path: Path) -> None:
    check_writable(Path("/dev/null"))
    check_writable(tmp_path / "new.html")

    assert [] == list(tmp_path.iterdir())


def test_a_disk_that_fills_up_loses_the_report_and_not_the_model(
    judged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise PublishFailed("report.html: cannot be written: No space left on device")

    module = importlib.import_module("localrank_training.cli.train")
    monkeypatch.setattr(module, "write_page", full)

    assert 1 == train(judged, "--report", str(judged.parent / "report.html"))

    answered = capsys.readouterr()
    assert "published web version 1" in answered.out
    assert "No space left on device" in answered.err
    assert (judged.parent / "models" / "web" / "1" / "manifest.json").exists()


def test_a_learning_curve_needs_a_page(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == train(judged, "--learning-curve")

    assert "expected --report FILE" in capsys.readouterr().err


def test_an_assessment_and_an_evaluation_are_pages_too(
    judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, models = judged.parent, str(judged.parent / "models")
    assert 0 == train(judged)
    assert 0 == main(["assess", str(judged), "--workers", "1", "--report", str(folder / "a.html"), "--json"])
    capsys.readouterr()
    asked = ["evaluate", "web", str(judged), "--models-dir", models, "--convention", "standard,standard-one"]
    assert 0 == main([*asked, "--report", str(folder / "e.html"), "--json"])

    found = json.loads(capsys.readouterr().out)["models"][0]["figures"]
    assessed, evaluated = (Written((folder / name).read_text()) for name in ("a.html", "e.html"))

    assert [] == assessed.open == evaluated.open
    assert "What should be done about the data" in assessed.headings
    assert "What this model gains over simpler ones" in assessed.plots
    assert [
        "Figures by the convention standard",
        "Figures by the convention standard-one",
    ] == evaluated.headings[1:3]
    ndcg = next(one for one in found if one["metric"] == "ndcg@10")
    assert f"{ndcg['mean']:.4f}" == evaluated.facts[evaluated.facts.index("NDCG@10") + 1]
    assert "localrank evaluate web" in evaluated.text


def test_two_models_stand_beside_each_other(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, models = judged.parent, str(judged.parent / "models")
    assert 0 == main(
        ["train", str(judged), "--models-dir", models, "--name", "web", "--learner", "best_feature"]
    )
    assert 0 == train(judged)
    capsys.readouterr()
    asked = ["evaluate", "web@1", "web@2", str(judged), "--models-dir", models]

    assert 0 == main([*asked, "--report", str(folder / "e.html"), "--json"])

    compared = json.loads(capsys.readouterr().out)["comparison"]["comparisons"]
    page = Written((folder / "e.html").read_text())
    assert "Evaluation of web@2 beside web@1" == page.headings[0]
    assert [f"{one['candidate']:.4f}" for one in compared] == page.column("web@2 beside web@1", "web@2")
    assert [str(one["wins"]) for one in compared] == page.column("web@2 beside web@1", "better")
    worst = min(compared, key=lambda one: one["p_holm"])
    if worst["p_holm"] <= 0.05:
        assert f"web@2 is {'better' if worst['difference'] > 0 else 'worse'} than web@1" in page.text


def test_tuning_leaves_a_page_in_its_folder(judged: Path) -> None:
    out = judged.parent / "tuned"
    learner = ["--learner", "linear", "--set", "learner.ridge=[0.01, 1.0, 100.0]"]

    assert 0 == main(["tune", str(judged), *learner, "--out", str(out), "--workers", "1"])

    page = Written((out / "report.html").read_text())
    trials = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
    assert [] == page.open
    assert 3 == len(page.tables["Settings, best first"]) - 1
    assert trials
    assert "NDCG@10 by learner.ridge" in page.plots
    assert (out / "effects.png").read_bytes().startswith(b"\x89PNG")
