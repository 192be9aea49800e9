"""The committed demo model is what `make demo` makes, and is worth showing."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

import httpx
import numpy as np
import pytest

from localrank import Ranker, load
from localrank.__main__ import main
from localrank.artifact import verify
from localrank.metrics import Judgements
from localrank_training.data.synthetic import demo_queries
from localrank_training.evaluation.evaluating import rank_all
from tests.end_to_end.serving import free_port, is_ready

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "models" / "demo"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def printed(models: Path) -> list[str]:
    """What the command says when it has made the model."""
    said = io.StringIO()
    with redirect_stdout(said):
        assert 0 == main(["demo", "--models-dir", str(models)])
    return said.getvalue().splitlines()


@pytest.fixture(scope="module")
def rebuilt(models: Path, printed: list[str]) -> Ranker:
    assert printed
    return load(models / "demo")


def test_the_command_says_what_it_made_and_what_to_do_next(models: Path, printed: list[str]) -> None:
    published, measured, after = printed

    assert f"published demo version 1 in {models / 'demo'}" == published
    last = json.loads((models / "demo" / "1" / "manifest.json").read_text())["metrics"]["figures"][-1]
    assert f"{last['metric']} on 100 validation queries: {last['model']:.4f}, its global model " in measured
    assert f"{last['global']:.4f} (" in measured
    assert "serve it: localrank serve" == after


def test_the_committed_model_is_small_and_proves_itself() -> None:
    verify(DEMO / "1")

    assert sum(path.stat().st_size for path in DEMO.rglob("*") if path.is_file()) < 1_000_000


def test_rebuilding_it_gives_the_same_rankings(rebuilt: Ranker) -> None:
    committed, test = load(DEMO), demo_queries()[2]

    for documents in test.clouds():
        expected, ranking = committed.rank(documents), rebuilt.rank(documents)
        assert expected.route.cluster == ranking.route.cluster
        np.testing.assert_allclose(expected.scores, ranking.scores, rtol=1e-6)
        np.testing.assert_array_equal(expected.order, ranking.order)


def test_it_ranks_unseen_queries_far_better_than_its_global_scorer() -> None:
    test = demo_queries()[2]

    ranked = rank_all(load(DEMO), test)

    judged = Judgements(test.labels, test.offsets)
    local, global_ = (
        judged.per_query(scores, "ndcg@10").mean() for scores in (ranked.scores, ranked.global_scores)
    )
    assert local - global_ > 0.1


def test_it_replaces_its_own_model_only(
    models: Path, rebuilt: Ranker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert len(rebuilt.scorers) > 1
    several, without_aliases, other = (tmp_path / name / "demo" for name in ("several", "none", "other"))
    shutil.copytree(models / "demo", several)
    shutil.copytree(several / "1", several / "2")
    shutil.copytree(models / "demo", without_aliases)
    (without_aliases / "aliases.json").unlink()
    train = ["train", str(ROOT / "docs/examples/judged.csv"), "--learner", "best_feature", "--name", "demo"]
    assert 0 == main([*train, "--promote", "--models-dir", str(other.parent)])
    capsys.readouterr()

    for model, found in (
        (several, "versions 1, 2"),
        (without_aliases, "another file or folder"),
        (other, "a version of another origin"),
    ):
        before = sorted(model.rglob("*"))
        assert 1 == main(["demo", "--models-dir", str(model.parent)])
        expected = f"{model}: expected nothing, or the model that 'localrank demo' has made, found {found}; choose another"
        assert expected in capsys.readouterr().err
        assert before == sorted(model.rglob("*"))


def test_what_is_served_has_no_other_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert 2 == main(["demo", "--serve", "--models-dir", str(tmp_path)])
    assert "--serve and --models-dir: expected one of them, found both" in capsys.readouterr().err


@pytest.mark.slow
def test_one_command_makes_and_serves_it(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "localrank", "demo", "--serve", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        serving = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            deadline = time.monotonic() + 120
            while not is_ready(client):
                assert serving.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert "demo" == client.post("/v1/rerank", json={"documents": []}).json()["model"]
    finally:
        serving.terminate()
    assert 0 == serving.wait(60)
    assert [] == [*tmp_path.glob("localrank-demo-*")]
