"""Every way in which scorers that refer to others may be described wrongly, one clear sentence each."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank import artifact
from localrank.errors import ArtifactCorrupt
from tests.core.examples import provenance, sharing_ranker
from tests.hostile.folders import edit, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    version = tmp_path_factory.mktemp("models") / "web" / "1"
    ranker = sharing_ranker()
    artifact.save(version, ranker, provenance(ranker))
    return version


@pytest.fixture
def version(whole: Path, tmp_path: Path) -> Path:
    """A version of three clusters with three shared scorers: trees, a linear one, and the global one made of both."""
    return shutil.copytree(whole, tmp_path / "web" / "1")


def scorers(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda version: edit(version, lambda manifest: change(manifest["scorers"]))


def form(kind: str, **members: Any) -> Callable[[Path], None]:
    """Change members of the first form of a kind."""
    return scorers(lambda found: next(one for one in found["forms"] if one["kind"] == kind).update(members))


def swapped(found: dict[str, Any]) -> None:
    found["shared"][0], found["shared"][2] = found["shared"][2], found["shared"][0]


def nested(found: dict[str, Any]) -> None:
    """Sums of shared sums of shared sums, forty deep."""
    plain = {"kind": "sum", "settings": {}, "arrays": {}}
    for _ in range(40):
        found["forms"].append({**plain, "members": [{"shared": len(found["shared"]) - 1}]})
        found["shared"].append(len(found["forms"]) - 1)
    found["global"] = {"shared": len(found["shared"]) - 1}


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "a scorer that is shared with itself": (
        form("blend", members=[{"shared": 2}, {"shared": 1}]),
        r"form \d: expected members among the forms and the shared scorers before it, found \[\{'shared': 2\}",
    ),
    "shared scorers that need later ones": (
        scorers(swapped),
        r"form \d: expected members among the forms and the shared scorers before it, found",
    ),
    "a shared scorer that is not there": (
        form("blend", members=[{"shared": 0}, {"shared": 9}]),
        r"form \d: expected members among .*, found \[\{'shared': 0\}, \{'shared': 9\}\]",
    ),
    "a negative shared scorer": (
        form("blend", members=[{"shared": 0}, {"shared": -1}]),
        r"form \d: expected members among .*'shared': -1",
    ),
    "a shared scorer by name": (
        form("blend", members=[{"shared": "trees"}, {"shared": 1}]),
        r"form \d: expected members among .*'shared': 'trees'",
    ),
    "a reference to something else": (
        form("blend", members=[{"scorer": 0}, {"shared": 1}]),
        r"form \d: expected members among .*'scorer': 0",
    ),
    "a reference with more in it": (
        form("blend", members=[{"shared": 0, "weight": 2}, {"shared": 1}]),
        r"form \d: expected members among .*'weight': 2",
    ),
    "a shared scorer that stands for another": (
        scorers(lambda found: found["shared"].append({"shared": 0})),
        r"scorers: shared scorer 3: expected only shared scorers before it as members, found \{'shared': 0\}",
    ),
    "a shared scorer without a form": (
        scorers(lambda found: found["shared"].append(99)),
        r"scorers: expected one of \d+ forms or 4 shared scorers, found 99",
    ),
    "shared scorers that are no list": (
        scorers(lambda found: found.update(shared={"trees": 0})),
        r"scorers: expected arrays of clusters, forms and shared scorers",
    ),
    "a cluster that is not there": (
        scorers(lambda found: found.update(clusters=[{"shared": 7}, 0, 0])),
        r"scorers: expected one of \d+ forms or 3 shared scorers, found \{'shared': 7\}",
    ),
    "shared scorers nested without end": (
        scorers(nested),
        r"scorers: expected at most 2000000, nested at most 32 deep, found \d+, 4\d deep",
    ),
    "an unknown part of the description": (
        scorers(lambda found: found.update(common=[])),
        r"scorers: expected clusters, global, forms and shared, found .*common",
    ),
    "a blend without members": (
        form("blend", members=[]),
        r"form \d: expected members of 'blend', found none",
    ),
    "a sum without members": (
        form("sum", members=[]),
        r"form \d: expected members of 'sum', found none",
    ),
    "fewer weights than members": (
        form("blend", members=[{"shared": 0}]),
        r"form \d: weights: expected shape \(1\), found \(2,\)",
    ),
    "an unknown block": (
        form("linear", settings={"blocks": "[minmax, zscore * 0.25, ranks]"}),
        r"form \d: blocks: expected one of raw, .*, found 'ranks'; did you mean 'rank'",
    ),
    "a block twice": (
        form("linear", settings={"blocks": "[minmax, minmax * 0.25, rank]"}),
        r"form \d: blocks: expected every block once, found 'minmax' twice",
    ),
    "a block of an absurd scale": (
        form("linear", settings={"blocks": "[minmax, zscore * 1e300, rank]"}),
        r"form \d: blocks: zscore: expected a scale above 0 and up to 1000, found 1e300",
    ),
    "blocks in another spelling": (
        form("linear", settings={"blocks": "[minmax,zscore*0.25,rank]"}),
        r"form \d: expected blocks as LocalRank writes them, found '\[minmax,zscore\*0\.25,rank\]'",
    ),
    "blocks that are not text": (
        form("linear", settings={"blocks": ["minmax"]}),
        r"form \d: expected blocks as LocalRank writes them, found \['minmax'\]",
    ),
    "blocks of another width": (
        form("linear", settings={"blocks": "[minmax, rank]"}),
        r"form \d: weights: expected shape \(12\), found \(18,\)",
    ),
    "routes of more clusters than there are": (
        form("linear", settings={"blocks": "route"}, arrays={"weights": ["float64", [18]]}),
        r"form \d: weights: expected shape \(4\), found \(18,\)",
    ),
    "trees that look beyond their blocks": (
        lambda version: put(version, "scorers.features.npy", lambda features: features + 6),
        r"scorers\.features\.npy: expected 0 to 5, found \d+ at position 0",
    ),
    "a number that no score survives": (
        lambda version: put(version, "scorers.weights.npy", lambda weights: weights * np.nan),
        r"scorers\.weights\.npy: expected finite numbers, found nan at position 0",
    ),
}


def test_the_version_is_good(version: Path) -> None:
    ranker = artifact.load(version).ranker

    assert ranker.scorers[2] is ranker.global_scorer
    assert ranker.scorers[1].members()[0] is ranker.global_scorer
    assert ranker.scorers[0].members()[:2] == ranker.global_scorer.members()


@pytest.mark.parametrize("way", WRONG)
def test_a_wrong_description_is_refused_with_a_sentence_of_its_own(version: Path, way: str) -> None:
    spoil, message = WRONG[way]
    spoil(version)

    with pytest.raises(ArtifactCorrupt) as refusal:
        artifact.load(version)

    assert re.search(message, str(refusal.value)), str(refusal.value)
    assert "\n" not in str(refusal.value)
