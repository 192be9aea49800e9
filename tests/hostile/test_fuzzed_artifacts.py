"""Whatever a manifest or an array says: a version is refused by name, or it ranks. Nothing else may come out."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank import artifact
from localrank.errors import ArtifactError, LocalRankError
from localrank.features.contract import FeatureContract
from tests.core.examples import (
    REPRESENTATION_EXAMPLES,
    ROUTER_EXAMPLES,
    SCORER_EXAMPLES,
    example_queries,
    example_ranker,
    provenance,
    representing_ranker,
)
from tests.hostile.folders import put, write_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 2**31, 2**63, 2**70, -0.5, 0.5, 1e308),
    *("", "x", "lsh", "signatures", "tables", "pca", "raw", "../x", "float64", "router.clusters.npy"),
    *([], {}, [0], [[]], [-1], [10**12], {"a": 1}, {"shared": 0}, {"array": "router.clusters.npy"}),
    {"part": "global", "fields": {}},
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*path, key)
            yield from paths(value[key], (*path, key))


def reach(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def mutate(manifest: dict[str, Any], chance: random.Random) -> None:
    """Change one member, remove it, or put another in its place; the numbers of the contract are drawn less often."""
    every = [path for path in paths(manifest) if path != ("sha256",)]
    places = [path for path in every if path[0] != "contract" or len(path) == 2 or chance.random() < 0.1]
    path = chance.choice(places)
    parent, key = reach(manifest, path[:-1]), path[-1]
    action = chance.random()
    if action < 0.7:
        parent[key] = copy.deepcopy(chance.choice(VALUES))
    elif action < 0.85:
        del parent[key]
    else:
        parent[key] = copy.deepcopy(reach(manifest, chance.choice(places)))


def load_and_rank(version: Path) -> bool:
    """Tell whether a version was good enough to rank."""
    try:
        ranker = artifact.load(version).ranker
    except ArtifactError:
        return False
    for query in example_queries(3, seed=3):
        try:
            ranking = ranker.rank(query)
        except LocalRankError:
            continue
        assert sorted(ranking.order.tolist()) == list(range(len(query)))
    return True


def fuzz_manifest(version: Path, count: int, seed: int) -> None:
    chance = random.Random(seed)
    whole = json.loads((version / "manifest.json").read_bytes())
    outcomes = set()
    for _ in range(count):
        manifest = copy.deepcopy(whole)
        for _ in range(chance.choice((1, 1, 2))):
            mutate(manifest, chance)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            # As somebody who knows the format would: or the hash of the contract would catch everything.
            manifest["contract_hash"] = FeatureContract.from_json(manifest["contract"]).digest
        write_manifest(version, manifest)
        outcomes.add(load_and_rank(version))
    # Notes may say what they like, routers may not: both must have been tried.
    assert {True, False} == outcomes
    write_manifest(version, whole)


def fuzz_arrays(version: Path, count: int, seed: int) -> None:
    chance = random.Random(seed)
    names = sorted(path.name for path in version.glob("*.npy"))
    saved = {path.name: path.read_bytes() for path in version.iterdir()}
    for _ in range(count):
        name = chance.choice(names)

        def change(array: Any) -> Any:
            flat = array.reshape(-1)
            if not len(flat):
                return array
            bounds = (
                (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
                if array.dtype.kind in "iu"
                else (-1, 1)
            )
            for _ in range(chance.choice((1, 1, 3))):
                value = chance.choice((*bounds, 0, 1, 2, 3, 5, 7, 100, chance.choice(flat.tolist())))
                flat[chance.randrange(len(flat))] = value
            return array

        put(version, name, change)
        load_and_rank(version)
        for path in (version / name, version / "manifest.json"):
            path.write_bytes(saved[path.name])
    assert load_and_rank(version)


def example(tmp_path: Path, strategy: str, kind: str) -> Path:
    ranker = example_ranker(strategy, kind)
    artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))
    return tmp_path / "web" / "1"


@pytest.mark.parametrize("kind", SCORER_EXAMPLES)
@pytest.mark.parametrize("strategy", ROUTER_EXAMPLES)
def test_any_manifest_is_refused_by_name_or_ranks(tmp_path: Path, strategy: str, kind: str) -> None:
    fuzz_manifest(example(tmp_path, strategy, kind), 80, seed=0)


@pytest.mark.parametrize("kind", SCORER_EXAMPLES)
@pytest.mark.parametrize("strategy", ROUTER_EXAMPLES)
def test_any_numbers_are_refused_by_name_or_rank(tmp_path: Path, strategy: str, kind: str) -> None:
    fuzz_arrays(example(tmp_path, strategy, kind), 40, seed=0)


@pytest.mark.parametrize("name", REPRESENTATION_EXAMPLES)
def test_any_manifest_or_numbers_of_a_representation_are_refused_by_name_or_rank(
    tmp_path: Path, name: str
) -> None:
    ranker = representing_ranker(name)
    artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))

    fuzz_manifest(tmp_path / "web" / "1", 80, seed=0)
    fuzz_arrays(tmp_path / "web" / "1", 80, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("kind", SCORER_EXAMPLES)
@pytest.mark.parametrize("strategy", ROUTER_EXAMPLES)
def test_a_great_many_manifests_and_numbers(tmp_path: Path, strategy: str, kind: str) -> None:
    version = example(tmp_path, strategy, kind)
    fuzz_manifest(version, 1000, seed=1)
    fuzz_arrays(version, 500, seed=1)
