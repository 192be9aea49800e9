from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank import artifact
from localrank.artifact import Provenance
from localrank.artifact.arrays import LARGE
from localrank.points.signature import Signatures
from localrank.registry.versions import Registry
from localrank.routing.router import ExactRouter
from localrank.routing.routers import LshRouter

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


@pytest.fixture
def large(tmp_path: Path, demo: Artifact) -> Path:
    """A folder with a model whose signatures are mapped, in two versions, the first its champion."""
    router = demo.ranker.router
    assert isinstance(router, LshRouter)
    many = Signatures(
        *(
            np.concatenate([array] * 100)
            for array in (
                router.points.directions,
                router.points.eigenvalues,
                router.points.ranks,
            )
        )
    )
    ranker = replace(demo.ranker, router=ExactRouter(many, np.concatenate([router.clusters] * 100)))
    registry = Registry(tmp_path / "models")
    for _ in range(2):
        registry.publish(
            "demo", ranker, Provenance("2026-01-01T00:00:00Z", source={}, probe=demo.probe.documents)
        )
    registry.promote("demo", 1)
    assert (tmp_path / "models" / "demo" / "1" / "router.points.directions.npy").stat().st_size > LARGE
    return tmp_path / "models"
