"""Both images, built and run without a container engine; `bare_root.py` says what stands in for what."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml

from tests.deploy.bare_root import PYTHON, ROOT, Image, bare, build, context, instructions, started
from tests.deploy.test_kubernetes import CONTAINER, JOB, variables
from tests.end_to_end.serving import free_port, is_ready

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

USER = 10001
KEYS = {"LOCALRANK_API_KEY": "the-serving-key", "LOCALRANK_ADMIN_KEY": "the-admin-key"}
QUERY = {"documents": [{"features": [0.5] * 10}, {"features": [0.25] * 10}]}


def test_instructions_are_read_with_their_continuations() -> None:
    text = '# syntax\nFROM a AS b\nRUN one \\\n    && two\n# not this\nCMD ["x"]\n'

    assert [("FROM", "a AS b"), ("RUN", "one && two"), ("CMD", '["x"]')] == instructions(text)


def test_the_build_sees_the_sources_and_nothing_that_is_ignored() -> None:
    seen = set(context())

    assert {"pyproject.toml", "core/localrank/native/json.c", "models/demo/1/manifest.json"} <= seen
    assert not any(name.startswith(("tests/", "docs/", ".ci/")) or name == "Makefile" for name in seen)


def test_the_base_image_has_the_python_that_is_tried_here() -> None:
    assert f"ARG PYTHON={PYTHON}\n" in (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Image]]:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("needs root and debootstrap: make test-deps")
    place = tmp_path_factory.mktemp("images")
    base = bare(place / "debian")
    yield build(base, place)
    shutil.rmtree(place)


@pytest.fixture
def volume(images: dict[str, Image], tmp_path: Path) -> Path:
    """A volume as an engine makes it: with what the image has in that place."""
    place = tmp_path / "models"
    shutil.copytree(images["serve"].root / "models", place)
    for path in (place, *place.rglob("*")):
        os.chown(path, USER, USER)
    return place


@contextmanager
def service(
    image: Image, command: tuple[str, ...], env: dict[str, str], mounts: dict[str, Path], *read_only: str
) -> Iterator[tuple[httpx.Client, subprocess.Popen[str], dict[str, str]]]:
    """Start the service sealed; yield a client once it is ready, its process and its environment."""
    env = {**env, "LOCALRANK_PORT": str(free_port())}
    with (
        started(image, command, env=env, mounts=mounts, read_only=read_only, sealed=True) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{env['LOCALRANK_PORT']}", timeout=30) as client,
    ):
        deadline = time.monotonic() + 60
        while not is_ready(client):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield client, process, env


def first_process(process: subprocess.Popen[str]) -> int:
    """The number that the container's first process has out here."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0])


@pytest.mark.soak
def test_the_service_starts_as_its_image_would_start_it(images: dict[str, Image], volume: Path) -> None:
    image = images["serve"]
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["localrank"]
    assert (True, ["/tmp"], ["ALL"]) == (compose["read_only"], compose["tmpfs"], compose["cap_drop"])

    with service(image, (*image.entrypoint, *image.command), KEYS, {"/models": volume}) as (
        client,
        process,
        env,
    ):
        serving, admin = ({"x-api-key": key} for key in KEYS.values())
        ranked = client.post("/v1/rerank", json=QUERY, headers=serving)
        refused = client.post("/v1/rerank", json=QUERY)
        info = client.get("/info", headers=serving).json()
        promoted = client.post("/v1/models/demo/promote", json={"version": 1}, headers=admin)
        status = Path(f"/proc/{first_process(process)}/status").read_text()
        with started(image, image.healthcheck, env=env) as check:
            said, _ = check.communicate()
        os.kill(first_process(process), signal.SIGTERM)
        output, _ = process.communicate(timeout=30)

    assert (200, 401, 200) == (ranked.status_code, refused.status_code, promoted.status_code), promoted.text
    assert [1, 2] == [result["rank"] for result in ranked.json()["results"]]
    assert info["compiled"]
    assert info["python"].startswith(f"{PYTHON}.")
    assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}" in status
    assert "CapBnd:\t0000000000000000" in status
    assert 0 == check.returncode, said
    assert 0 == process.returncode, output
    assert "the-serving-key" not in output
    assert "the-admin-key" not in output


@pytest.mark.soak
def test_without_a_key_the_image_does_not_listen_to_everybody(images: dict[str, Image], volume: Path) -> None:
    image = images["serve"]

    with started(
        image, (*image.entrypoint, *image.command), mounts={"/models": volume}, sealed=True
    ) as process:
        output, _ = process.communicate(timeout=60)

    assert 2 == process.returncode
    assert re.search(r"LOCALRANK_API_KEY|api.key", output)


@pytest.mark.soak
def test_what_the_training_image_publishes_is_served_without_a_restart(
    images: dict[str, Image], volume: Path
) -> None:
    """Both mount the same folder; the name is new to the service."""
    image = images["serve"]
    with service(image, (*image.entrypoint, *image.command), KEYS, {"/models": volume}) as (client, _, _):
        headers = {"x-api-key": KEYS["LOCALRANK_API_KEY"]}
        before = client.post("/v1/rerank", json={**QUERY, "model": "web"}, headers=headers)
        trained(images["train"], volume, volume.parent / "judged", "web", "--promote")
        assert until(
            lambda: (
                client.post("/v1/rerank", json={**QUERY, "model": "web"}, headers=headers).status_code == 200
            )
        )
        after = client.post("/v1/rerank", json={**QUERY, "model": "web"}, headers=headers)

    assert 404 == before.status_code
    assert ("web", 1) == (after.json()["model"], after.json()["version"])


def owned(folder: Path, files: dict[str, str]) -> Path:
    """Make a folder of files for the image's user."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    for path in (folder, *folder.iterdir()):
        os.chown(path, USER, USER)
    return folder


@pytest.mark.soak
def test_the_deployment_and_the_job_of_kubernetes_run_as_their_manifests_say(
    images: dict[str, Image], volume: Path, tmp_path: Path
) -> None:
    """The pod reads models and keys and writes nothing but /tmp; the job promotes; the pod follows."""
    image, keys = (
        images["serve"],
        owned(tmp_path / "keys", {"serving": "shop:old-serving-key\n", "admin": "the-admin-key\n"}),
    )
    (job,) = JOB["spec"]["containers"]
    mounts = {"/models": volume, "/keys": keys}
    served = (*image.entrypoint, *CONTAINER["args"])

    with service(image, served, variables(CONTAINER), mounts, "/models", "/keys") as (client, process, _):
        old, new = ({"x-api-key": f"{age}-serving-key"} for age in ("old", "new"))
        before = client.post("/v1/rerank", json=QUERY, headers=old).json()["version"]
        learned = trained(images["train"], volume, tmp_path / "judged", "demo")
        command = (*image.entrypoint, *job["args"])
        with started(
            image, command, env=variables(job), mounts={"/models": volume}, sealed=True
        ) as promoting:
            said, _ = promoting.communicate(timeout=120)
        assert 0 == promoting.returncode, said
        after = until(lambda: client.post("/v1/rerank", json=QUERY, headers=old).json()["version"] == 2)
        (keys / "next").write_text("shop:old-serving-key\nshop:new-serving-key\n")
        (keys / "next").rename(keys / "serving")
        rotated = until(lambda: client.post("/v1/rerank", json=QUERY, headers=new).status_code == 200)
        os.kill(first_process(process), signal.SIGTERM)
        draining = (
            client.get("/readyz").status_code,
            client.post("/v1/rerank", json=QUERY, headers=old).status_code,
        )
        output, _ = process.communicate(timeout=60)

    assert (1, 2) == (before, learned)
    assert after
    assert rotated
    assert (503, 200) == draining
    assert 0 == process.returncode, output


def trained(image: Image, volume: Path, work: Path, name: str, *flags: str) -> int:
    """Train and publish a version in the training image; return its number."""
    owned(work, {})
    data = (
        "data",
        "synthesize",
        "--queries",
        "60",
        "--documents",
        "20",
        "--features",
        "10",
        "--out",
        "/scratch/judged.txt",
    )
    learn = (
        "train",
        "/scratch/judged.txt",
        "--method",
        "global",
        "--name",
        name,
        "--models-dir",
        "/models",
        *flags,
    )
    for command in (data, learn):
        mounts = {"/models": volume, "/scratch": work}
        with started(image, (*image.entrypoint, *command), mounts=mounts, sealed=True) as process:
            output, _ = process.communicate(timeout=300)
        assert 0 == process.returncode, output
    return max(int(path.name) for path in (volume / name).iterdir() if path.name.isdigit())


def until(true: Callable[[], bool]) -> bool:
    """Wait for it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.1)
    return False
