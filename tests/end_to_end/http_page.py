"""The examples of docs/use/http.md: a service that answers them, and the page with its answers.

``make http-page`` writes the JSON blocks of the page anew from a real service. What differs from run to run (ids, times,
processes) is written the same every time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank import artifact
from localrank.artifact import Provenance
from localrank.registry.versions import Registry
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "use" / "http.md"
PRINTED = "http://127.0.0.1:8080"
KEY = "a-key-for-the-examples"

_WIDTH = 118
_LONGEST_TEXT = 80
#: What differs between runs, and what is printed instead.
_STEADY: dict[str, Any] = {
    "request_id": "0b0f…",
    "instance": "urn:localrank:request:0b0f…",
    "contract": "sha256:…",
    "pid": 4711,
    "run": "5f1d0c9ab3e2",
    "generation": "0a3c…",
    # The champion of the service below is version 2, so that it can be promoted to 1; readers have version 1.
    "version": 1,
    "model_version": "1",
    "champion": 1,
}
#: How far an experiment has come depends on the moment: this is one that has just been started.
_MOMENT = {"state": "running", "reason": None, "versions": {"baseline": "demo@2", "candidate": "demo@1"}}
_MILLISECONDS = {
    "decode": 0.05,
    "sign": 0.09,
    "route": 0.21,
    "score": 0.01,
    "order": 0.01,
    "encode": 0.01,
    "total": 0.4,
}


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """Serve the demo model, whose champion has been version 1 and is version 2; yield the URL."""
    models = folder / "models"
    shutil.copytree(ROOT / "models", models)
    first = artifact.load(models / "demo" / "1")
    registry = Registry(models)
    registry.publish(
        "demo",
        first.ranker,
        Provenance("2026-01-02T00:00:00Z", source={}, probe=first.probe.documents, query_map=first.query_map),
    )
    registry.promote("demo", 2)
    log = ("--impression-log", "1", "--impression-log-dir", str(folder / "impressions"))
    file = ("--experiments-file", str(folder / "experiments.json"))
    with serving(models, "--admin-key", KEY, "--preload", "demo@1", *log, *file) as client:
        yield str(client.base_url).rstrip("/")


def answers(command: str, url: str) -> Iterator[tuple[str, str]]:
    """Run a ``sh`` block; yield each of its lines and what it printed."""
    for line in re.sub(r"\\\n|\n(?!curl )", " ", command).strip().split("\n"):
        done = subprocess.run(
            ["bash", "-ec", line.replace(PRINTED, url)],
            env=os.environ | {"LOCALRANK_ADMIN_KEY": KEY},
            capture_output=True,
            text=True,
            check=True,
        )
        yield line, done.stdout


def steady(value: Any, name: str = "") -> Any:
    """Return an answer with the same ids and times in every run, four digits and no long texts."""
    if name in _MOMENT:
        return _MOMENT[name]
    if name == "workers":
        # As many as the machine has cores.
        return [4711 if isinstance(value[0], int) else steady(value[0])]
    if name in _STEADY and type(value) is type(_STEADY[name]):
        return _STEADY[name]
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value):
        return _STEADY["request_id"]
    if isinstance(value, dict):
        if name.endswith("_ms"):
            return {stage: _MILLISECONDS.get(stage, 0.2) for stage in value}
        return {key: steady(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [steady(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return value[:30] + "…"
    return value


def laid_out(value: Any, indent: int = 0, before: int = 0) -> str:
    """Write JSON on as few lines as fit; ``before`` is how much of the first line is taken."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + before <= _WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + 1
    parts = []
    if isinstance(value, list):
        parts = [laid_out(one, inner, inner) for one in value]
        return "[" + _joined(parts, inner) + "]"
    for key, one in value.items():
        label = json.dumps(key, ensure_ascii=False) + ": "
        parts.append(label + laid_out(one, inner + len(label), inner + len(label)))
    return "{" + _joined(parts, inner) + "}"


def _joined(parts: list[str], indent: int) -> str:
    """Put short parts next to each other, others on lines of their own."""
    lines = [parts[0]]
    for part in parts[1:]:
        if "\n" not in lines[-1] + part and indent + len(lines[-1]) + len(part) + 3 <= _WIDTH:
            lines[-1] += ", " + part
        else:
            lines.append(part)
    return (",\n" + " " * indent).join(lines)


def rewritten(page: str, url: str) -> str:
    """Return the page with the service's answers below the commands that have one."""

    def answered(found: re.Match[str]) -> str:
        *_, (_, printed) = answers(found[1], url)
        return f"```sh\n{found[1]}```{found[2]}```json\n{laid_out(steady(json.loads(printed)))}\n```"

    return re.sub(r"```sh\n((?:(?!```).)*?)```(\s+)```json\n.*?\n```", answered, page, flags=re.DOTALL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as where:
        PAGE.write_text(rewritten(PAGE.read_text(), where))
