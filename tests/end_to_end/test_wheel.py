"""What users install is what is tested: the wheel alone, with one extra, in an environment of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

from localrank import Registry, load
from localrank.artifact import Provenance
from tests.end_to_end.serving import serving

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    answer = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert 0 == answer.returncode, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("localrank-*.whl")
    return wheel


def installed(wheel: Path, extra: str, folder: Path) -> Path:
    """Return the Python of a fresh environment with the wheel and one extra."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[{extra}]", cwd=folder)
    return python


def missing(python: Path, *modules: str) -> set[str]:
    probe = "import importlib.util, sys; print(*(m for m in sys.argv[1:] if not importlib.util.find_spec(m)))"
    return set(run(python, "-c", probe, *modules, cwd=python.parent).split())


def test_with_serve_alone_it_starts_and_answers(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, "serve", tmp_path / "environment")

    with serving(ROOT / "models", python=str(python), log=tmp_path / "server.log") as client:
        answer = client.post("/v1/rerank", json={"documents": []})
        pages = [client.get(path) for path in ("/", "/page/main.js", "/page/style.css")]

    assert (200, []) == (answer.status_code, answer.json()["results"])
    assert [200] * 3 == [page.status_code for page in pages]
    offline = {"sklearn", "joblib", "lightgbm", "pandas", "pyarrow", "matplotlib"}
    assert offline == missing(python, *offline)
    if shutil.which("cc"):
        probe = "from localrank.native.library import library; print(library() is not None)"
        assert "True" == run(python, "-c", probe, cwd=tmp_path).strip()
    assert "demo" in run(
        python, "-m", "localrank", "models", "list", "--models-dir", ROOT / "models", cwd=tmp_path
    )


def test_with_train_alone_it_learns_and_publishes(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, "train", tmp_path / "environment")

    run(python, "-m", "localrank", "demo", "--models-dir", tmp_path / "models", cwd=tmp_path)

    assert (tmp_path / "models" / "demo" / "1" / "manifest.json").is_file()
    assert {"fastapi", "uvicorn"} == missing(python, "fastapi", "uvicorn")


def test_with_the_core_alone_models_are_managed_and_other_commands_name_their_extra(
    wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "environment", with_pip=True)
    python = tmp_path / "environment" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    shutil.copytree(ROOT / "models" / "demo", tmp_path / "models" / "demo")
    registry = Registry(tmp_path / "models")
    ranker = load(registry.resolve("demo").path)
    documents = np.random.default_rng(0).random((20, ranker.contract.n_features)).astype(np.float32)
    registry.publish("demo", ranker, Provenance("2026-01-31T12:00:00Z", {}, probe=[documents]))

    assert {"typer", "pydantic", "rich"} == missing(python, "typer", "pydantic", "rich")
    for arguments, expected in (
        (["list"], "champion"),
        (["show", "demo"], "demo@1"),
        (["verify", "demo@2"], "demo@2 is good"),
        (["diff", "demo@1", "demo@2"], "contract: the same"),
        (["promote", "demo", "2"], "demo@champion is version 2"),
        (["rollback", "demo"], "demo@champion is version 1"),
        (["prune", "demo", "--keep", "1", "--force"], "removed: "),
    ):
        assert expected in run(python, "-m", "localrank", "models", *arguments, cwd=tmp_path)
    for command, extra in (("serve", "serve"), ("train", "train")):
        answer = subprocess.run(
            [python, "-m", "localrank", command], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert 1 == answer.returncode
        assert f"pip install 'localrank[{extra}]'" in answer.stderr
