"""schemathesis against a running service: whatever OpenAPI allows or forbids, the answers are as it describes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

#: Not that what the schema allows is taken: which features a model takes only ``/v1/models/{name}/schema`` can say. Not that
#: what it forbids is refused: each query of a batch has its own status, and the protocol ignores what it does not know.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    log = tmp_path_factory.mktemp("described") / "log"
    with serving(ROOT / "models", "--workers", "1", log=log) as one:
        yield one
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("count", [4, pytest.param(500, marks=pytest.mark.soak)])
def test_every_answer_is_described(client: httpx.Client, tmp_path: Path, count: int) -> None:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{client.base_url}/openapi.json"]
    options = [
        "--no-color",
        "--warnings=off",
        "--continue-on-failure",
        "--phases=examples,fuzzing",
        "--seed=1",
    ]
    limits = [f"--max-examples={count}", "--request-timeout=10", f"--checks={','.join(CHECKS)}"]

    done = subprocess.run(
        [*command, *options, *limits], check=False, capture_output=True, text=True, cwd=tmp_path
    )

    assert 0 == done.returncode, done.stdout[-8000:] + done.stderr
    assert "Tested: 0" not in done.stdout
    assert 200 == client.get("/readyz").status_code
