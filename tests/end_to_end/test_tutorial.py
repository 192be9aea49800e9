"""docs/use/tutorial.md, from top to bottom as a reader runs it, in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.serving import serving

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"```(\w+)\n(.*?)```", (ROOT / "docs" / "use" / "tutorial.md").read_text(), flags=re.DOTALL
)
PRINTED = "http://127.0.0.1:8080"


def commands(text: str) -> list[str]:
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]


def test_a_log_becomes_a_page_in_a_better_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    names: dict[str, Any] = {}
    printed: dict[str, str] = {}
    after: list[str] = []

    for kind, text in BLOCKS:
        if kind == "python":
            after.append(text)
            if PRINTED not in text:
                exec(after.pop(), names)
            continue
        for command in commands(text):
            command = command.replace("path/to/localrank", shlex.quote(str(ROOT)))  # noqa: PLW2901
            if command.startswith("localrank serve"):
                continue
            done = subprocess.run(
                ["bash", "-ec", command],
                env=os.environ | {"PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert 0 == done.returncode, f"{command}\n{done.stderr}"
            printed[" ".join(command.split()[:2])] = done.stdout
    with serving(tmp_path / "models", log=tmp_path / "server.log") as client:
        for text in after:
            exec(text.replace(PRINTED, str(client.base_url).rstrip("/")), names)

    assert "verdict" in printed["localrank train"]
    assert "engine.run" in printed["localrank evaluate"]
    first = json.loads((tmp_path / "responses.jsonl").read_text().splitlines()[0])["response"]["hits"]["hits"]
    assert 10 == len(names["shown"])
    assert {hit["_id"] for hit in first} > set(names["shown"])
    assert [hit["_id"] for hit in first][:10] != names["shown"]
    scores = [hit["_score"] for hit in names["page"]["hits"]["hits"]]
    assert sorted(scores, reverse=True) == scores
