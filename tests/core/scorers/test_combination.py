"""Blends and sums against their formulas, and how members that they share are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import zscore

from localrank.artifact.scorers import StoredScorers, dismantle
from localrank.errors import ArtifactCorrupt, PublishFailed
from localrank.features.contract import FeatureContract
from localrank.scorers import SCORERS, BlendScorer, LinearScorer, Scorer, SumScorer
from tests.core.clouds import as_cloud
from tests.core.scorers.stored import again

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector

D = 4
CONTRACT = FeatureContract.learn(np.random.default_rng(3).random((9, D)).astype(np.float32), [9])


def linear(*weights: float, blocks: str = "raw") -> LinearScorer:
    return LinearScorer(np.array(weights, np.float64), blocks)


def table(seed: int = 0, n_docs: int = 11) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n_docs, D)).astype(np.float32)


def test_a_blend_is_a_weighted_sum_of_z_scores_each_on_blocks_of_its_own() -> None:
    cloud = as_cloud(table())
    members = (
        linear(1, 2, 3, 4),
        linear(1, 0, 0, -1, blocks="rank"),
        linear(*range(8), blocks="[zscore, minmax]"),
    )

    found = BlendScorer(members, np.array([0.5, 2.0, -1.0])).score(cloud)

    scores = [
        cloud.block("raw").astype(float) @ [1, 2, 3, 4],
        cloud.block("rank").astype(float) @ [1, 0, 0, -1],
        np.hstack([cloud.block("zscore"), cloud.block("minmax")]).astype(float) @ np.arange(8),
    ]
    np.testing.assert_allclose(found, 0.5 * zscore(scores[0]) + 2 * zscore(scores[1]) - zscore(scores[2]))


def test_a_member_that_says_nothing_adds_nothing() -> None:
    cloud = as_cloud(table())
    constant, member = linear(0, 0, 0, 0), linear(1, 2, 3, 4)

    found = BlendScorer((constant, member), np.array([5.0, 1.0])).score(cloud)

    np.testing.assert_allclose(found, zscore(member.score(cloud)))


@pytest.mark.parametrize("n_docs", [0, 1])
def test_a_list_of_none_or_one_has_scores_of_zero(n_docs: int) -> None:
    found = BlendScorer((linear(1, 2, 3, 4),), np.ones(1)).score(as_cloud(table(n_docs=n_docs)))

    np.testing.assert_array_equal(found, np.zeros(n_docs))


def test_a_member_of_weight_zero_is_not_scored() -> None:
    class Broken(LinearScorer):
        def score_rows(self, rows: Matrix, /) -> Vector:
            raise AssertionError(f"scored {len(rows)} documents")

    BlendScorer((Broken(np.ones(D)), linear(1, 2, 3, 4)), np.array([0.0, 1.0])).score(as_cloud(table()))


def test_identical_documents_are_blended_alike() -> None:
    random = np.random.default_rng(0)
    places = random.integers(0, 5, 40)
    scorer = BlendScorer((linear(1, 2, 3, 4), linear(0.1, 0.2, 0.3, 0.4, blocks="zscore")), random.random(2))

    found = scorer.score(as_cloud(table(n_docs=5)[places]))

    assert 5 == len({(int(place), float(score)) for place, score in zip(places, found, strict=True)})


def test_a_sum_adds_the_scores_as_they_are() -> None:
    cloud = as_cloud(table())
    base, correction = linear(1, 2, 3, 4), linear(0, 1, 0, 0, blocks="rank")

    found = SumScorer((base, correction)).score(cloud)

    np.testing.assert_array_equal(found, base.score(cloud) + correction.score(cloud))


@pytest.mark.parametrize(
    ("scorer", "change", "message"),
    [
        ("blend", {"arrays": {"weights": np.zeros(2)}}, "weights: expected one that is not zero, found none"),
        ("blend", {"arrays": {"weights": np.ones(3)}}, r"weights: expected shape \(2\), found \(3,\)"),
        ("blend", {"arrays": {"weights": np.array([1, np.inf])}}, "expected finite numbers, found inf"),
        ("blend", {"arrays": {"weights": np.array([1, 1e101])}}, r"expected -1e\+100 to 1e\+100"),
        ("blend", {"settings": {"rule": "sum"}}, r"expected the settings of 'blend' \(none\), found rule"),
        ("sum", {"members": ()}, "expected members of 'sum', found none"),
        ("sum", {"arrays": {"weights": np.ones(2)}}, r"expected the arrays of 'sum' \(none\), found weights"),
    ],
)
def test_what_does_not_fit_is_refused(scorer: str, change: dict[str, Any], message: str) -> None:
    members = (linear(1, 2, 3, 4), linear(4, 3, 2, 1))
    made: Scorer = BlendScorer(members, np.ones(2)) if scorer == "blend" else SumScorer(members)
    assert SCORERS[scorer] is type(again(made, D))

    with pytest.raises(ArtifactCorrupt, match=message):
        again(made, D, **change)


def stored(
    scorers: tuple[Scorer, ...], global_scorer: Scorer
) -> tuple[dict[str, Any], tuple[Scorer, ...], Scorer]:
    """Return what the manifest says of scorers, and the scorers that come of it."""
    description, files = dismantle(scorers, global_scorer)
    return description, *StoredScorers(description, CONTRACT).rebuild(files)


def test_a_shared_member_is_stored_and_loaded_once() -> None:
    base, shared = linear(1, 2, 3, 4), linear(4, 3, 2, 1, blocks="rank")
    whole = SumScorer((base, shared))
    clusters = tuple(BlendScorer((whole, shared, linear(i, 0, 0, 0)), np.ones(3)) for i in range(5))

    description, files = dismantle(clusters, whole)
    scorers, global_scorer = StoredScorers(description, CONTRACT).rebuild(files)

    assert (2 * D + 5 * D + 5 * 3,) == files["scorers.weights.npy"].shape
    assert [{"shared": 1}] * 5 == [description["forms"][one]["members"][0] for one in description["clusters"]]
    assert {"shared": 1} == description["global"]
    first, *others = scorers
    assert global_scorer is first.members()[0]
    for other in others:
        assert (other.members()[0], other.members()[1]) == (global_scorer, global_scorer.members()[1])
    cloud = as_cloud(table())
    for before, after in zip((*clusters, whole), (*scorers, global_scorer), strict=True):
        np.testing.assert_array_equal(before.score(cloud), after.score(cloud))


def test_a_cluster_without_a_scorer_of_its_own_refers_to_the_global_one() -> None:
    alone, whole = linear(0, 0, 1, 0), linear(1, 2, 3, 4)

    description, scorers, global_scorer = stored((whole, alone, whole), whole)

    assert [{"shared": 0}, 0, {"shared": 0}] == description["clusters"]
    assert [True, False, True] == [scorer is global_scorer for scorer in scorers]


def test_scorers_that_share_nothing_are_stored_as_ever() -> None:
    description, _, _ = stored((linear(1, 2, 3, 4), linear(4, 3, 2, 1)), linear(0, 0, 0, 1))

    assert {"shared": [], "clusters": [0, 0], "global": 0} == {
        name: description[name] for name in ("shared", "clusters", "global")
    }
    assert 1 == len(description["forms"])


def test_clusters_by_the_thousand_with_shared_members_have_a_short_description() -> None:
    shared = tuple(linear(1, 2, 3, seed) for seed in range(3))
    clusters = tuple(BlendScorer((*shared, linear(i, 1, 2, 3)), np.ones(4)) for i in range(784))

    description, files = dismantle(clusters, BlendScorer(shared, np.ones(3)))

    assert len(description["forms"]) <= 6
    assert sum(array.nbytes for array in files.values()) < 100_000


def test_a_scorer_of_another_class_is_not_published() -> None:
    class Other(LinearScorer):
        pass

    with pytest.raises(PublishFailed, match="expected a scorer of a kind in SCORERS, found Other"):
        dismantle((), SumScorer((Other(np.ones(D)),)))


def test_an_array_of_another_dtype_is_not_published() -> None:
    with pytest.raises(PublishFailed, match="scorer 'linear': weights: expected float64, found float32"):
        dismantle((), LinearScorer(np.ones(D, np.float32)))
