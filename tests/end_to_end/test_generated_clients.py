"""Clients that others generate from docs/openapi.json, compiled and called against a real service."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank import load
from tests.end_to_end.serving import serving
from tests.environments import environment_with

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "openapi.json"
TYPESCRIPT = Path(__file__).parent / "typescript"
ROWS = [
    [18.0, 0.50, 0.50, 69.0, 0.50, 6.0, 0.50, 0.50, 91.0, 0.50],
    [10.1, 0.34, 0.72, 47.0, 0.31, 4.1, 0.69, 0.37, 62.0, 0.70],
    [25.3, 0.66, 0.31, 90.0, 0.70, 8.2, 0.33, 0.65, 121.0, 0.29],
]

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(ROOT / "models", log=tmp_path_factory.mktemp("clients") / "server.log") as client:
        yield str(client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def expected() -> list[list[object]]:
    """The two best of the three rows, by the ranker itself."""
    ranking = load(ROOT / "models" / "demo").rank(np.array(ROWS, np.float32))
    return [[f"d{index + 1}", float(ranking.scores[index])] for index in ranking.order[:2]]


PYTHON = """
import json, sys
from described import Client
from described.api.health import livez
from described.api.models import list_models, show_model
from described.api.ranking import rerank, rerank_batch
from described.models import BatchRequest, Problem, RerankRequest, RerankRequestDocumentsItem

client, rows = Client(base_url=sys.argv[1]), json.loads(sys.argv[2])
by_column = rerank.sync(
    client=client, body=RerankRequest(model="demo", ids=["d1", "d2", "d3"], features=rows, top_n=2)
)
documents = [RerankRequestDocumentsItem(id=f"d{i + 1}", features=row) for i, row in enumerate(rows)]
by_row = rerank.sync(client=client, body=RerankRequest(model="demo", documents=documents, top_n=2))
refused = rerank.sync(client=client, body=RerankRequest(model="demo", features=[[1.0, 2.0]]))
unknown = show_model.sync("nothing", client=client)
both = rerank_batch.sync(
    client=client, body=BatchRequest(queries=[RerankRequest(features=rows), RerankRequest(features=[[1.0]])])
)
assert isinstance(refused, Problem) and isinstance(unknown, Problem)
print(json.dumps({
    "by_column": [[one.id, one.score] for one in by_column.results],
    "by_row": [[one.id, one.score] for one in by_row.results],
    "cluster": by_column.route.cluster,
    "refused": [refused.status, refused.detail],
    "unknown": unknown.status,
    "batch": [one.status for one in both.answers],
    "models": [one.name for one in list_models.sync(client=client).models],
    "features": [one.name for one in show_model.sync("demo", client=client).features][:2],
    "live": livez.sync_detailed(client=client).status_code,
}))
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert 0 == done.returncode, f"{command[:4]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def check(printed: str, expected: list[list[object]]) -> None:
    found = json.loads(printed.splitlines()[-1])
    assert expected == found["by_column"] == found["by_row"]
    assert [422, "features[0] has 2 values; expected 10"] == found["refused"]
    assert (404, [200, 422]) == (found["unknown"], found["batch"])
    assert (["demo"], ["bm25", "title_match"]) == (found["models"], found["features"])
    assert found["cluster"] >= 0
    assert 200 == found["live"]


def test_openapi_python_client_makes_a_client_that_ranks(
    url: str, expected: list[list[object]], tmp_path: Path
) -> None:
    python = environment_with(tmp_path / "environment", "openapi-python-client")
    (tmp_path / "call.py").write_text(PYTHON)

    printed = run(
        python.with_name("openapi-python-client"),
        *("generate", "--path", DOCUMENT, "--output-path", "described", "--meta", "none"),
        cwd=tmp_path,
    )

    # An array's bytes are the one kind of body that it does not know.
    assert {"Unsupported content type application/x-npy"} >= {
        line for line in printed.splitlines() if line.startswith("Unsupported")
    }
    check(run(python, "call.py", url, json.dumps(ROWS), cwd=tmp_path), expected)


def node_modules() -> Path:
    """Install the packages of ``typescript/package-lock.json``, unless an earlier run has; return their folder."""
    given = [TYPESCRIPT / name for name in ("package.json", "package-lock.json")]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in given)).hexdigest()[:12]
    kept = ROOT / ".cache" / f"npm-{digest}" / "node_modules"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Installed beside it and renamed, so that a run that was interrupted leaves nothing that looks whole.
        with tempfile.TemporaryDirectory(dir=kept.parent) as partial:
            for file in given:
                shutil.copy(file, partial)
            run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=Path(partial))
            Path(partial, "node_modules").rename(kept)
    return kept


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm (make test-deps installs it)")
def test_openapi_typescript_makes_a_client_that_compiles_and_ranks(
    url: str, expected: list[list[object]], tmp_path: Path
) -> None:
    for file in ("package.json", "tsconfig.json", "call.ts"):
        shutil.copy(TYPESCRIPT / file, tmp_path)
    modules = tmp_path / "node_modules"
    modules.symlink_to(node_modules(), target_is_directory=True)

    run("node", modules / "openapi-typescript/bin/cli.js", DOCUMENT, "--output", "described.ts", cwd=tmp_path)
    run("node", modules / "typescript/bin/tsc", "--project", "tsconfig.json", cwd=tmp_path)

    check(run("node", "made/call.js", url, json.dumps(ROWS), cwd=tmp_path), expected)
