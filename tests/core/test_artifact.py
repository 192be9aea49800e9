from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank import artifact
from localrank.artifact.parts import REPRESENTATIONS
from localrank.errors import PublishFailed
from localrank.points.signature import PcaRepresentation
from localrank.routing.router import ExactRouter
from localrank.routing.routers import ROUTERS
from localrank.scorers import SCORERS, LinearScorer
from tests.core.examples import (
    N_FEATURES,
    REPRESENTATION_EXAMPLES,
    ROUTER_EXAMPLES,
    SCORER_EXAMPLES,
    example_map,
    example_queries,
    example_ranker,
    provenance,
    representing_ranker,
)

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.ranker import Ranker

#: Every router with one kind of scorer and every kind of scorer with one router: they are stored apart from each other.
PAIRS = [*((strategy, "linear") for strategy in ROUTER_EXAMPLES)]
PAIRS += [("lsh", kind) for kind in SCORER_EXAMPLES if kind != "linear"]


def assert_same_rankings(expected: Ranker, actual: Ranker, seed: int = 99) -> None:
    queries = example_queries(30, seed=seed)
    for query in (*queries, queries[0][:1]):
        before, after = expected.rank(query), actual.rank(query)

        assert before.route == after.route
        np.testing.assert_array_equal(before.scores, after.scores)
        np.testing.assert_array_equal(before.order, after.order)


def test_every_kind_of_scorer_and_router_has_an_example() -> None:
    assert SCORERS.keys() == SCORER_EXAMPLES.keys()
    assert ROUTERS.keys() == ROUTER_EXAMPLES.keys()
    shown = {representation.method for representation, _ in REPRESENTATION_EXAMPLES.values()}
    assert REPRESENTATIONS.keys() == shown | {"none", "pca"}


@pytest.mark.parametrize("name", REPRESENTATION_EXAMPLES)
def test_every_representation_is_stored_with_the_points_that_it_makes(tmp_path: Path, name: str) -> None:
    ranker = representing_ranker(name)

    artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))

    assert_same_rankings(ranker, artifact.load(tmp_path / "web" / "1").ranker)


@pytest.mark.parametrize(("strategy", "kind"), PAIRS)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_loaded_ranks_as_what_was_saved(
    tmp_path_factory: pytest.TempPathFactory, strategy: str, kind: str, seed: int
) -> None:
    ranker = example_ranker(strategy, kind, seed)
    folder = tmp_path_factory.mktemp("models") / "web" / "1"

    artifact.save(folder, ranker, provenance(ranker, seed))

    assert_same_rankings(ranker, artifact.load(folder).ranker, seed)


@pytest.mark.parametrize("strategy", [name for name in ROUTER_EXAMPLES if name != "global"])
def test_a_map_is_stored_with_points_if_the_router_holds_none(tmp_path: Path, strategy: str) -> None:
    ranker = example_ranker(strategy)
    expected = example_map(ranker)
    assert expected is not None

    artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))

    found = artifact.load(tmp_path / "web" / "1").query_map
    assert found is not None
    for name in ("queries", "clusters", "coordinates", "means"):
        np.testing.assert_array_equal(getattr(expected, name), getattr(found, name))
    assert (expected.points is None) == (found.points is None)
    point = ranker.representation.of(ranker.contract.cloud(example_queries(seed=5)[0]))
    place = expected.place(point, ranker.router)
    assert place is not None
    np.testing.assert_array_equal(place, found.place(point, ranker.router))


def test_a_version_without_a_map_loads(tmp_path: Path) -> None:
    ranker = example_ranker()

    artifact.save(tmp_path / "web" / "1", ranker, replace(provenance(ranker), query_map=None))

    assert artifact.load(tmp_path / "web" / "1").query_map is None


@pytest.mark.parametrize(("strategy", "kind"), PAIRS)
def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path: Path, strategy: str, kind: str) -> None:
    ranker = example_ranker(strategy, kind)
    first, second = tmp_path / "a" / "web" / "1", tmp_path / "b" / "web" / "1"
    artifact.save(first, ranker, provenance(ranker))

    loaded = artifact.load(first).ranker
    artifact.save(second, loaded, provenance(loaded))

    files = sorted(path.name for path in first.iterdir())
    assert files == sorted(path.name for path in second.iterdir())
    for name in files:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_the_manifest_gives_back_what_the_publisher_said(tmp_path: Path) -> None:
    ranker = example_ranker()
    said = provenance(ranker)

    manifest = artifact.save(tmp_path / "web" / "3", ranker, said)

    loaded = artifact.load(tmp_path / "web" / "3").manifest
    assert manifest.raw == loaded.raw
    assert ("web", 3, said.created) == (loaded.name, loaded.version, loaded.created)
    assert (said.source, said.metrics, said.stability) == (loaded.source, loaded.metrics, loaded.stability)
    assert list(said.notes) == loaded.notes
    assert tuple(said.clusters) == loaded.clusters
    assert ranker.contract.digest == loaded.contract.digest


def test_sizes_of_clusters_are_counted_when_the_publisher_says_nothing(tmp_path: Path) -> None:
    ranker = example_ranker("exact")
    said = artifact.Provenance(created="", source={}, probe=provenance(ranker).probe)

    manifest = artifact.save(tmp_path / "web" / "1", ranker, said)

    assert [8, 8, 8] == [cluster.size for cluster in manifest.clusters]


def test_a_version_is_never_modified(tmp_path: Path) -> None:
    ranker = example_ranker()
    artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))

    with pytest.raises(PublishFailed, match="a version is never modified"):
        artifact.save(tmp_path / "web" / "1", ranker, provenance(ranker))


def test_a_probe_query_between_two_clusters_is_refused(tmp_path: Path) -> None:
    axes = [np.eye(N_FEATURES, dtype=np.float32)[[i, i]] * [[1], [-1]] for i in (0, 1)]
    representation = PcaRepresentation(1)
    router = ExactRouter(
        representation.sign_all([axis.astype(np.float32) for axis in axes]), np.array([0, 1])
    )
    ranker = replace(example_ranker("exact"), representation=representation, router=router)
    between = np.zeros((2, N_FEATURES), np.float32)
    between[0, :2] = 1.0
    said = artifact.Provenance(created="", source={}, probe=[between])

    with pytest.raises(PublishFailed, match=r"routing margin above 0\.001 for query 0"):
        artifact.save(tmp_path / "web" / "1", ranker, said)


def test_a_metric_that_is_not_a_number_is_refused_before_anything_is_published(tmp_path: Path) -> None:
    ranker = example_ranker()
    said = artifact.Provenance(
        created="", source={}, probe=provenance(ranker).probe, metrics={"ndcg": float("nan")}
    )

    with pytest.raises(PublishFailed, match=r"manifest\.json: expected values that JSON can hold"):
        artifact.save(tmp_path / "web" / "1", ranker, said)

    assert [] == list((tmp_path / "web").iterdir())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({1: "a", "1": "b"}, "expected every member once, found '1' twice"),
        (json.loads('{"a":' * 70 + "0" + "}" * 70), "nested at most 64 deep"),
        ({"a": "\ud800"}, "expected values that JSON can hold"),
        ({"a": object()}, "expected values that JSON can hold: object"),
    ],
    ids=["twice", "deep", "half a character", "no JSON"],
)
def test_what_could_not_be_read_back_is_not_published(tmp_path: Path, source: Any, message: str) -> None:
    ranker = example_ranker()

    with pytest.raises(PublishFailed, match=message):
        artifact.save(tmp_path / "web" / "1", ranker, replace(provenance(ranker), source=source))

    assert [] == list((tmp_path / "web").iterdir())


def test_texts_full_of_brackets_are_only_texts(tmp_path: Path) -> None:
    ranker = example_ranker()
    source = {"]" * 100: '["' * 100 + "\\", "}": "\\\\" + "{" * 100}

    artifact.save(tmp_path / "web" / "1", ranker, replace(provenance(ranker), source=source))

    assert source == artifact.load(tmp_path / "web" / "1").manifest.source


def test_one_model_with_many_scorers_is_a_few_files(tmp_path: Path) -> None:
    ranker = example_ranker("exact")
    scorers = tuple(LinearScorer(np.full(N_FEATURES, number, np.float64)) for number in range(1200))
    many = replace(ranker, scorers=(*ranker.scorers, *scorers[3:]))

    manifest = artifact.save(
        tmp_path / "web" / "1", many, artifact.Provenance("", {}, provenance(ranker).probe)
    )

    assert ["scorers.weights.npy"] == [name for name in manifest.files if name.startswith("scorers.")]
    assert (1201 * N_FEATURES,) == manifest.files["scorers.weights.npy"].shape
    assert_same_rankings(many, artifact.load(tmp_path / "web" / "1").ranker)
