from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localrank import artifact
from localrank.artifact import Provenance
from localrank.registry import Registry

if TYPE_CHECKING:
    from localrank.artifact import Artifact

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def demo() -> Artifact:
    return artifact.load(ROOT / "models" / "demo" / "1")


@pytest.fixture
def models_dir(tmp_path: Path, demo: Artifact) -> Path:
    """A folder with the demo model in two equal versions, the first its champion."""
    shutil.copytree(ROOT / "models", tmp_path / "models")
    Registry(tmp_path / "models").publish(
        "demo", demo.ranker, Provenance("2026-01-02T00:00:00Z", source={}, probe=demo.probe.documents)
    )
    return tmp_path / "models"


@pytest.fixture(scope="session")
def body(demo: Artifact) -> bytes:
    """A request that the demo model can rank."""
    return json.dumps({"features": demo.probe.documents[1].tolist()}).encode()
