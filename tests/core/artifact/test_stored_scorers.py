"""Descriptions of scorers at their limits: how many, how deep, and in which files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from localrank.artifact import scorers as stored_scorers
from localrank.artifact.scorers import StoredScorers, dismantle
from localrank.errors import ArtifactCorrupt
from localrank.features.contract import FeatureContract
from localrank.scorers import LinearScorer, SumScorer

CONTRACT = FeatureContract.learn(np.zeros((2, 3), np.float32), [2])
LINEAR: dict[str, Any] = {
    "kind": "linear",
    "settings": {"blocks": "raw"},
    "arrays": {"weights": ["float64", [3]]},
    "members": [],
}


def sum_of(*members: int) -> dict[str, Any]:
    return {"kind": "sum", "settings": {}, "arrays": {}, "members": list(members)}


def doubled(times: int) -> dict[str, Any]:
    """A sum of two sums of two sums ...: each form stands for twice as many scorers as the one before, and itself."""
    forms = [LINEAR, *(sum_of(before, before) for before in range(times))]
    return {"clusters": [times], "global": 0, "forms": forms, "shared": []}


@pytest.mark.parametrize(("times", "total"), [(0, 1 + 1), (1, 3 + 1), (2, 7 + 1), (3, 15 + 1)])
def test_every_scorer_counts_however_often_its_form_is_used(
    times: int, total: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_scorers, "_MOST_SCORERS", total)
    stored = StoredScorers(doubled(times), CONTRACT)
    assert stored.files == {"scorers.weights.npy": ("float64", 3 * (2**times + 1))}

    monkeypatch.setattr(stored_scorers, "_MOST_SCORERS", total - 1)
    with pytest.raises(ArtifactCorrupt, match=f"found {total}, {times + 1} deep"):
        StoredScorers(doubled(times), CONTRACT)


def test_two_million_scorers_are_too_many_before_anything_unfolds() -> None:
    """A form for each of 21 levels stands for 2**21 - 1 scorers, and the global one is one more."""
    assert 1 == StoredScorers(doubled(12), CONTRACT).n_clusters
    with pytest.raises(ArtifactCorrupt, match=r"expected at most 2000000, .* found 2097152, 21 deep"):
        StoredScorers(doubled(20), CONTRACT)


@pytest.mark.parametrize(("depth", "good"), [(32, True), (33, False)])
def test_scorers_nest_32_deep(depth: int, good: bool) -> None:  # noqa: FBT001
    forms = [LINEAR, *(sum_of(before) for before in range(depth - 1))]
    description = {"clusters": [], "global": depth - 1, "forms": forms, "shared": []}

    if good:
        assert 0 == StoredScorers(description, CONTRACT).n_clusters
    else:
        with pytest.raises(ArtifactCorrupt, match=f"nested at most 32 deep, found {depth}, {depth} deep"):
            StoredScorers(description, CONTRACT)


def test_scorers_are_put_together_from_their_own_part_of_the_file() -> None:
    linear = [LinearScorer(np.arange(3.0) + 10 * number) for number in range(4)]
    both = SumScorer((linear[0], linear[1]))

    description, files = dismantle([both, linear[2], both], linear[3])
    scorers, global_scorer = StoredScorers(description, CONTRACT).rebuild(files)

    # What is used twice comes first, once; then the clusters' and the global one.
    assert [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32] == files["scorers.weights.npy"].tolist()
    assert [{"shared": 0}, 0, {"shared": 0}] == description["clusters"]
    assert scorers[0] is scorers[2]
    assert isinstance(scorers[0], SumScorer)
    found = [*scorers[0].rankers, scorers[1], global_scorer]
    for expected, scorer in zip(linear, found, strict=True):
        assert isinstance(scorer, LinearScorer)
        np.testing.assert_array_equal(expected.weights, scorer.weights)


@pytest.mark.parametrize(
    "spec",
    [
        ["float64"],
        ["float64", [3], 1],
        [1, [3]],
        ["float16", [3]],
        ["float64", 3],
        ["float64", [1] * 9],
        ["float64", [-1]],
        ["float64", [True]],
        ["float64", [2**48]],
    ],
)
def test_an_array_that_is_none_is_refused(spec: list[Any]) -> None:
    form = LINEAR | {"arrays": {"weights": spec}}

    with pytest.raises(ArtifactCorrupt, match="form 0: weights: expected a dtype and a shape"):
        StoredScorers({"clusters": [], "global": 0, "forms": [form]}, CONTRACT)


@pytest.mark.parametrize("role", ["Weights", "a-b", "9", "wéights", ""])
def test_a_role_that_could_not_name_a_file_is_refused(role: str) -> None:
    form = LINEAR | {"arrays": {role: ["float64", [3]]}}

    with pytest.raises(ArtifactCorrupt, match="expected a role in lower case"):
        StoredScorers({"clusters": [], "global": 0, "forms": [form]}, CONTRACT)
