"""What an earlier LocalRank has published loads and ranks as it did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from localrank import artifact
from localrank.artifact import FORMAT_VERSION

pytestmark = pytest.mark.usefixtures("arithmetic")

GOLDEN = Path(__file__).parents[1] / "data" / "artifacts" / f"format-{FORMAT_VERSION}"
VERSIONS = sorted(path.parent for path in GOLDEN.glob("*/1/manifest.json"))


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_golden_artifact_still_ranks_its_probe(version: Path) -> None:
    assert 3 <= len(artifact.verify(version).probe.documents)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_golden_artifact_published_again_ranks_the_same(version: Path, tmp_path: Path) -> None:
    before = artifact.load(version)

    artifact.save(
        tmp_path / "web" / "1",
        before.ranker,
        artifact.Provenance("2026-01-31T12:00:00Z", {}, before.probe.documents),
    )

    after = artifact.load(tmp_path / "web" / "1")
    goals = [
        [(route.strategy, route.cluster, route.fallback) for route in found.probe.routes]
        for found in (before, after)
    ]
    assert goals[0] == goals[1]
    for expected, found in zip(before.probe.documents, after.probe.documents, strict=True):
        np.testing.assert_array_equal(before.ranker.rank(expected).scores, after.ranker.rank(found).scores)
