"""A folder of models with links, pipes, devices and sockets in every place: what is good is served, nothing hangs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from localrank.registry.versions import Registry
from localrank_service.app import create_app
from localrank_service.process.settings import Settings
from tests.hostile.folders import listening_socket, pipe

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
MANIFEST = "manifest.json"


def link(path: Path) -> None:
    path.symlink_to(ROOT / "pyproject.toml")


def dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def endless_link(path: Path) -> None:
    path.symlink_to(path.name)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def empty_folder(path: Path) -> None:
    path.mkdir()


def empty_file(path: Path) -> None:
    path.touch()


KINDS = (link, dangling_link, endless_link, pipe, listening_socket, device, empty_folder, empty_file)
#: Where it is put, below the folder of models.
PLACES = (
    "odd",
    "web/2",
    "web/aliases.json",
    "web/1/manifest.json",
    "web/1/scorers.weights.npy",
    "web/1/odd.npy",
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The models ``demo`` and ``web``, which are the same."""
    shutil.copytree(ROOT / "models" / "demo", tmp_path / "models" / "demo")
    shutil.copytree(ROOT / "models" / "demo", tmp_path / "models" / "web")
    return tmp_path / "models"


async def _served(models: Path) -> tuple[dict[str, Any], list[int]]:
    """What the service says of itself, and the statuses of what can be asked of ``demo`` and ``web``."""
    app = create_app(Settings(models_dir=models, preload="web@2"))
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        for _ in range(5000):
            if 200 == (await client.get("/startupz")).status_code:
                break
            await asyncio.sleep(0.002)
        listed: dict[str, Any] = (await client.get("/v1/models")).json()
        body = {"features": [[0.5] * 10]}
        statuses = [
            (await client.post("/v1/rerank", json=body | {"model": name})).status_code
            for name in ("demo", "web", "web@2", "odd")
        ]
        index = await client.post("/v2/repository/index")
    assert 200 == index.status_code
    return listed, statuses


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_thing_in_the_folder_costs_no_other_model(
    kind: Callable[[Path], None], place: str, models: Path
) -> None:
    path = models / place
    path.unlink(missing_ok=True)
    kind(path)

    listed, (demo, web, second, odd) = asyncio.run(asyncio.wait_for(_served(models), 30))

    assert 200 == demo
    assert "demo" in {one["name"] for one in listed["models"]}
    assert odd == 404
    # It is named in the settings, but was never published.
    assert second == 503
    broken = {"web"} if place.startswith("web/1/") or place == "web/aliases.json" else set()
    assert broken | {"web@2"} == set(listed["broken"])
    assert (503 if broken else 200) == web
    # The reason says nothing of the place or the content of what a link leads to.
    assert str(models) not in str(listed["broken"])
    assert "build-system" not in str(listed["broken"])


def test_a_version_that_is_a_link_is_no_version(models: Path, tmp_path: Path) -> None:
    (models / "demo" / "1").rename(tmp_path / "elsewhere")
    (models / "demo" / "1").symlink_to(tmp_path / "elsewhere")

    assert ["web"] == Registry(models).models()


def test_a_model_may_be_a_link_to_a_folder_of_the_operator(models: Path, tmp_path: Path) -> None:
    (models / "web").rename(tmp_path / "web")
    (models / "web").symlink_to(tmp_path / "web")

    listed, statuses = asyncio.run(_served(models))

    assert [200, 200] == statuses[:2]
    assert {"web@2"} == set(listed["broken"])
