"""What an earlier LocalRank has published must load and rank as it did: for every format, forever."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from localrank import artifact
from localrank.artifact import FORMAT_VERSION

pytestmark = pytest.mark.usefixtures("arithmetic")

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
    "format-2/centroid-linear": "9a9fc57421085dbdb3cb9894f43c9e2c02f11d3d9652e896e83c3d55fd1dec4e",
    "format-2/classifier-linear": "b81166ae347871b550ab9390fde711c86afbf16caa35ec24471338847a617960",
    "format-2/exact-linear": "5eb70cacd2ecb5bda2e4191f4bb73e5422e6847e3201e20c4ab4f10727baec52",
    "format-2/exact-gaussian": "290afc586748d75a79d71c6b68d2e5788cead9b8b725192305fbac6e6f1c646e",
    "format-2/exact-gaussian_kernel": "f8ccbaf423ebd4ffd71df60cfffcbd9fc87ed083c6ef52b78b6241adc5d2361b",
    "format-2/exact-skew": "e3de10d5bae7d12880ea1c5d743807854e77fb25ef4b34010cee2175370a9724",
    "format-2/exact-top_documents": "41b21ec32b6c00c396ec6b0e383ea887ce5d24dfcdf926950cf778c7d0fb6f56",
    "format-2/exact-top_scores_pca": "f9e55cecc8b630aa35bd70c0c80a00e48ea5651ab46b910202fca1d7b0588479",
    "format-2/exact-variance": "7797490ff818f6c98031535a741a9f4c1c74502293ed6b89dd273bc3ede38e76",
    "format-2/exact-vectors": "b3dd0fa53ba0f27e80ea451a20d71f4f4e5e171f5c48dae2ff792ecb4076fc48",
    "format-2/fusion-linear": "29e5ab285c367084c267fa4d0eceb909f0b4d18d8383f9529b0b1b358f14fbd0",
    "format-2/global-linear": "df2e4d224cc7f0a16d7b83f26d5b10a53339b06a0c24cce29d10145cb002ae9a",
    "format-2/lsh-anchored": "8120aaa62900d6bc90e8f1df92aba19d9b934012d2c97426db815412950bd452",
    "format-2/lsh-anchored_by_similarity": "4a286da768fb90939ef127ad03f2db82bd03dfa2c0f8fda4a9830b7b111e6dd7",
    "format-2/lsh-blend": "35e85695e24c7055578a1d9b3dea47781caa388fcf8da8dfa15e99341ec74960",
    "format-2/lsh-borda": "8d495f07e681f430e6a7d3a75e3c86871015a31a6ce457f2329f05100e07062e",
    "format-2/lsh-linear": "c9feebfc0f364ad75f7900c9881643d56046b79630052ffaad39daaef5d7e38f",
    "format-2/lsh-map": "7c65cfe1dfc260365cb6fe481afddbb5e6eb3c0ae1d92b91aebaf7d3f75f5ff6",
    "format-2/lsh-shared": "995b858ca452aeb3bdf6fd9c2fd617e09c0fef6fc23a2ff5e95dd72036311a1f",
    "format-2/lsh-stumps": "11273011cc2489176956a61bee29d96ae9b77a501566ab8bc648884c690a85f2",
    "format-2/lsh-sum": "0f753d8d779f4a06c49d5bd2f9460a2a28a16f737bb4b7069ee72a4ad09e72b5",
    "format-2/lsh-trees": "253a6db290c1a48e11f20e5d157c7cafc6a4da9ce14cfd71613c92bc00ea3997",
    "format-2/medoid-map": "db3b25c5f56581fb70c9b81d09091e5e3b3ec0a1f2cc12fede616d5f7280327e",
    "format-2/medoid-linear": "bb35039f7d9473fb7823a0e73be9a55bf828667401e7532bfc8bd24e6d109a01",
    "format-2/overlap-linear": "e412baf2b538aa5bfb07c7a1a70a91d01f25609b62d67e82105af6324be0b9f5",
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


def test_format_1_is_read_under_the_names_of_format_2() -> None:
    found = artifact.verify(GOLDEN / "format-1" / "centroid-linear" / "1")

    assert ("medoid", "pca") == (found.ranker.router.strategy, found.ranker.representation.method)
    assert {"medoid"} == {route.strategy for route in found.probe.routes}
    assert {"raw", "normalised"} >= {scorer.settings()["blocks"] for scorer in found.ranker.scorers}
    assert "signer" not in found.manifest.raw


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_golden_artifact_published_again_ranks_the_same(version: Path, tmp_path: Path) -> None:
    before = artifact.load(version)

    artifact.save(
        tmp_path / "web" / "1",
        before.ranker,
        artifact.Provenance("2026-01-31T12:00:00Z", {}, before.probe.documents),
    )

    after = artifact.load(tmp_path / "web" / "1")
    assert FORMAT_VERSION == after.manifest.format_version
    goals = [
        [(route.strategy, route.cluster, route.fallback) for route in found.probe.routes]
        for found in (before, after)
    ]
    assert goals[0] == goals[1]
    for expected, found in zip(before.probe.documents, after.probe.documents, strict=True):
        np.testing.assert_array_equal(before.ranker.rank(expected).scores, after.ranker.rank(found).scores)
