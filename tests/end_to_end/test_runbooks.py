"""Every command of the runbooks in docs/operate/operations.md, run in order against a real service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localrank import artifact
from localrank.artifact import Provenance
from localrank.registry.versions import Registry
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operate" / "operations.md").read_text()
RUNBOOKS = PAGE[PAGE.index("\n## Runbooks\n") :]
TITLES = re.findall(r"^### (.+)$", RUNBOOKS, re.MULTILINE)


def commands(title: str) -> list[str]:
    """The shell blocks of one runbook."""
    section = RUNBOOKS.split(f"\n### {title}\n")[1].split("\n### ")[0]
    return [
        re.sub(r"^ {3}", "", block, flags=re.MULTILINE)
        for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    ]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[httpx.Client, dict[str, str]]]:
    """A service with keys in files, and five versions of the demo model; 1 was the champion and 3 is."""
    models = tmp_path / "models"
    registry = Registry(models)
    demo = artifact.load(ROOT / "models" / "demo" / "1")
    for _ in range(5):
        provenance = Provenance("2026-01-01T00:00:00Z", source={"seed": 0}, probe=demo.probe.documents)
        registry.publish("demo", demo.ranker, provenance)
    for version in (1, 3):
        registry.promote("demo", version)
    serving_keys, admin_keys = tmp_path / "serving.keys", tmp_path / "admin.keys"
    serving_keys.write_text("search-1:the-serving-key\n")
    admin_keys.write_text("operators:the-admin-key\n")
    flags = ("--workers", "2", "--api-key-file", str(serving_keys), "--admin-key-file", str(admin_keys))
    with serving(models, *flags, log=tmp_path / "server.log") as client:
        variables = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LOCALRANK_MODELS_DIR": str(models),
            "SERVICE": str(client.base_url),
            "KEYS": str(serving_keys),
            "KEY": "X-API-Key: the-serving-key",
            "ADMIN": "X-API-Key: the-admin-key",
        }
        yield client, variables


def run(block: str, variables: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], env=variables, check=False, capture_output=True, text=True
    )
    assert 0 == done.returncode, f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout


def champion(client: httpx.Client, key: str = "the-serving-key") -> int:
    answer = client.post("/v1/rerank", json={"documents": []}, headers={"x-api-key": key})
    version: int = answer.json()["version"]
    return version


def test_there_is_a_runbook_for_each_of_these() -> None:
    assert ["Promote", "Roll back", "Overload", "Rotate a key", "Full disk"] == TITLES
    assert all(commands(title) for title in TITLES)


def test_every_command_of_every_runbook_does_what_it_says(scene: tuple[httpx.Client, dict[str, str]]) -> None:
    client, variables = scene

    said = {title: [run(block, variables) for block in commands(title)] for title in TITLES[:2]}
    assert "champion" in said["Promote"][0]
    assert '"version":2' in said["Promote"][1]
    # From 3 to 2, back to 3 over HTTP, and back to 1 on the folder.
    assert "} 1.0" in said["Roll back"][-1]
    assert 1 == champion(client)
    overload = [run(block, variables) for block in commands("Overload")]
    assert "localrank_inflight_documents 0" in overload[0]
    assert '"per_second"' in overload[1]
    rotated = [run(block, variables) for block in commands("Rotate a key")]
    assert 'localrank_key_checks_total{key="search-2",outcome="accepted"} 1' in rotated[1]
    (new,) = re.findall(r"^search-2:(\w+)$", Path(variables["KEYS"]).read_text(), re.MULTILINE)
    assert 1 == champion(client, new)
    full = [run(block, variables) for block in commands("Full disk")]
    # An alias stands for version 2: candidate.
    assert {"1", "2", "4", "5"} == {
        path.name
        for path in (Path(variables["LOCALRANK_MODELS_DIR"]) / "demo").iterdir()
        if path.name.isdigit()
    }
    assert "" == full[2]
