"""KServe's SDK against a real server, in an environment of its own, because it fixes the versions of much that we use.

Installing it takes a minute, so this is a soak; ``KSERVE_PYTHON`` names a Python that has it already.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import localrank
from tests.end_to_end.serving import serving
from tests.environments import fresh, install

ROOT = Path(__file__).parents[2]
CALLS = Path(__file__).with_name("kserve_calls.py")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has ``kserve``."""
    if given := os.environ.get("KSERVE_PYTHON"):
        return given
    found = fresh(tmp_path_factory.mktemp("kserve") / "environment")
    install(found, "kserve")
    return str(found)


@pytest.mark.soak
def test_the_sdk_reads_health_inference_and_errors(python: str, tmp_path: Path) -> None:
    ranker = localrank.load(ROOT / "models" / "demo")
    documents = np.random.default_rng(4).random((7, ranker.contract.n_features)).astype(np.float32)
    expected = ranker.rank(documents)

    with serving(ROOT / "models", log=tmp_path / "server.log") as client:
        done = subprocess.run(
            [python, str(CALLS), str(client.base_url).rstrip("/")],
            input=json.dumps(documents.tolist()),
            capture_output=True,
            text=True,
            check=True,
        )

    answers = json.loads(done.stdout.splitlines()[-1])
    assert (True, True, True, False) == tuple(
        answers[name] for name in ("live", "ready", "model", "unknown model")
    )
    for wire in ("json", "binary"):
        assert {
            "model": "demo",
            "id": "the-id",
            "scores": expected.scores.tolist(),
            "ranking": expected.order.tolist(),
            "cluster": [-1 if expected.route.cluster is None else expected.route.cluster],
        } == answers[wire]
    for name in ("too few features", "too few features, binary"):
        assert 422 == answers[name]["status"]
        assert "3 features per document; expected 10" in answers[name]["error"]
    assert 404 == answers["no such model"]["status"]
