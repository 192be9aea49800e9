"""Every way in which scorers that refer to others may be described wrongly, one clear sentence each."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank import artifact
from localrank.errors import ArtifactCorrupt
from localrank.ladder import rungs_of
from localrank.scorers import SumScorer, TreesScorer, distinct
from localrank_service.models.live import LiveModel
from localrank_training.evaluation.latency import microseconds
from localrank_training.parallel.processes import packed, unpacked
from tests.core.examples import provenance, sharing_ranker
from tests.hostile.folders import edit, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank.scorers import Scorer


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


def doubled(found: dict[str, Any]) -> None:
    """Sums of the shared sum before them, twice: 28 forms, two to the power of 28 members."""
    for _ in range(28):
        last = {"shared": len(found["shared"]) - 1}
        found["forms"].append({"kind": "sum", "settings": {}, "arrays": {}, "members": [last, last]})
        found["shared"].append(len(found["forms"]) - 1)
    found["global"] = {"shared": len(found["shared"]) - 1}


def repeated(found: dict[str, Any]) -> None:
    """A sum of one shared scorer, again and again."""
    found["forms"].append({"kind": "sum", "settings": {}, "arrays": {}, "members": [{"shared": 0}] * 10_001})
    found["global"] = len(found["forms"]) - 1


def huge(found: dict[str, Any]) -> None:
    """Forms whose sizes have thousands of digits, each of them unused."""
    for _ in range(20_000):
        last = len(found["forms"]) - 1
        found["forms"].append({"kind": "sum", "settings": {}, "arrays": {}, "members": [last, last]})
    found["clusters"][0] = len(found["forms"]) - 1


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
    "sums of shared sums, each twice": (
        scorers(doubled),
        r"scorers: expected at most 10000 members of a scorer, shared ones counted wherever they stand, found \d{9}",
    ),
    "one shared scorer again and again": (
        scorers(repeated),
        r"scorers: expected at most 10000 members of a scorer, .*, found 10001",
    ),
    "forms of a size with thousands of digits": (
        scorers(huge),
        r"scorers: expected at most 2000000, nested at most 32 deep, found \d{1,13}, 2000\d deep",
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


def test_a_member_that_is_shared_is_looked_at_once_by_everything() -> None:
    """A sum of the sum before it, twice, forty times: two to the power of forty members."""
    ranker = sharing_ranker()
    trees = ranker.global_scorer.members()[0]
    assert isinstance(trees, TreesScorer)
    scorer: Scorer = trees
    for _ in range(40):
        scorer = SumScorer((scorer, scorer))
    ranker = replace(ranker, scorers=(scorer, scorer, scorer), global_scorer=scorer)
    documents = np.random.default_rng(3).random((20, 6), np.float32)
    cloud = ranker.contract.cloud(documents)
    ranking = ranker.rank(cloud)

    found = ranker.contributions(cloud, ranking)
    rungs = rungs_of(ranker)

    np.testing.assert_allclose(found.values / 2.0**40, trees.contributions(cloud, np.arange(20)), rtol=1e-9)
    assert 4 * trees.n_trees == LiveModel("web", 1, ranker).work
    assert ranking.order.tolist() == rungs[1].ranker.rank(documents).order.tolist()
    assert len(distinct([scorer])) == len(distinct([rungs[-1].ranker.global_scorer])) == 41
    assert microseconds(scorer) < 41 * microseconds(trees)
    assert trees is unpacked(packed(SumScorer((trees, scorer)), scorer), scorer).members()[0]
