"""What an earlier LocalRank has published must load and rank as it did: for every format, forever."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from localrank import artifact
from localrank.artifact import FORMAT_VERSION

GOLDEN = Path(__file__).parents[1] / "data" / "artifacts"
VERSIONS = sorted(path.parent for path in GOLDEN.glob("format-*/*/1/manifest.json"))

#: SHA-256 of the manifests, which hold those of all other files. A line may be added, none may change.
MANIFESTS = {
    "format-1/centroid-linear": "1e8d5d9b7b253b53253c0f4350239a724fa27062911721a3370077a108caec6f",
    "format-1/exact-linear": "8118a3da27a08b6094b365410a1255af8bd4d674557e4df72d8c90a838bd4afa",
    "format-1/global-linear": "36b29adce376011939572e7699cc782f7de1c9f42c0ade728de0e7090396f316",
    "format-1/lsh-borda": "32df6162f446a5332c63db833fef477b2e58abded355031b403e624286f32218",
    "format-1/lsh-linear": "17e5dce4ebe25402b0fd57660204ac2e4055f9725468306491228309dd909184",
    "format-1/lsh-stumps": "4aa046921d5fe45515841c0da3f83431a3c75bede9682e3aa8562087bf8b02d3",
    "format-1/lsh-trees": "5629b6651dbd0ddb56506fcd5102c5a3a1236f585863956c8fa61c23ca0eb883",
}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_golden_artifact_still_ranks_its_probe(version: Path) -> None:
    found = artifact.verify(version)

    assert f"format-{found.manifest.format_version}" == version.parts[-3]
    assert 3 <= len(found.probe.documents)


def test_golden_artifacts_are_never_made_anew() -> None:
    found = {
        "/".join(version.parts[-3:-1]): hashlib.sha256((version / "manifest.json").read_bytes()).hexdigest()
        for version in VERSIONS
    }

    assert MANIFESTS == found


def test_there_is_a_golden_artifact_of_the_format_that_is_written() -> None:
    assert any(f"format-{FORMAT_VERSION}" == version.parts[-3] for version in VERSIONS)
