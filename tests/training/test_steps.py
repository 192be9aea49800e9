"""The settings of each step: defaults, limits, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.settings import checked, values_of
from localrank_training.compatibility import MODEL_PER_QUERY
from localrank_training.prototypes import Locality
from localrank_training.steps import (
    ClusteringSettings,
    ContractSettings,
    GuardSettings,
    ListSettings,
    RepresentationSettings,
    RoutingSettings,
    SelectionSettings,
    SimilaritySettings,
)

#: What users read in docs/use/configuration.md: a default that changes changes what they train.
DEFAULTS: dict[type, dict[str, Any]] = {
    ContractSettings: {"normalise": "query_minmax", "missing": "reject", "constant": 0.0},
    RepresentationSettings: {
        "method": "pca",
        "components": None,
        "share": 0.8,
        "most": 8,
        "documents": 10,
        "by": "best",
        "scores": 10,
        "shrink": 0.5,
    },
    SimilaritySettings: {"method": "pca_cosine", "form": "eq5"},
    ClusteringSettings: {
        "method": "complete_link",
        "clusters": None,
        "candidates": (1, 2, 3, 5),
        "continuation": False,
        "sample": 5000,
        "beyond": "join",
        "representation": "routing",
        "split": "scattered",
        "neighbours": 10,
        "rounds": 0,
        "share": 0.2,
        "shrink": 0.5,
        "gate": 0.0,
        "local": True,
    },
    RoutingSettings: {
        "method": "lsh",
        "tables": 16,
        "planes": "auto",
        "cap": 64,
        "probes": 0,
        "rerank": 256,
        "exact_below": "auto",
        "member": "nearest",
        "C": 1.0,
        "scores": "standard",
    },
    ListSettings: {"lengths": None, "by": "random"},
    SelectionSettings: {"metric": "ndcg@10", "folds": 5, "refit": True},
    GuardSettings: {"learn": False, "errors": 1.0, "least": 10},
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_what_is_left_out_has_its_documented_default(kind: type) -> None:
    found = values_of(checked(kind, {}, "x"))

    assert DEFAULTS[kind] == found
    assert [type(value) for value in DEFAULTS[kind].values()] == [type(value) for value in found.values()]


@pytest.mark.parametrize(
    ("kind", "name", "fits", "beyond", "limit"),
    [
        (RepresentationSettings, "components", 1, 0, "at least 1"),
        (RepresentationSettings, "share", 1.0, 1.01, "at most 1"),
        (RepresentationSettings, "share", 1e-9, 0.0, "more than 0"),
        (RepresentationSettings, "most", 1, 0, "at least 1"),
        (RepresentationSettings, "documents", 1, 0, "at least 1"),
        (RepresentationSettings, "scores", 1, 0, "at least 1"),
        (RepresentationSettings, "shrink", 1.0, 1.01, "at most 1"),
        (RepresentationSettings, "shrink", 1e-9, 0.0, "more than 0"),
        (ClusteringSettings, "clusters", 1, 0, "at least 1"),
        (ClusteringSettings, "candidates", [1], [2, 0], "at least 1"),
        (ClusteringSettings, "sample", 2, 1, "at least 2"),
        (ClusteringSettings, "neighbours", 1, 0, "at least 1"),
        (ClusteringSettings, "neighbours", [1, 2], [1, 0], "at least 1"),
        (ClusteringSettings, "rounds", 0, -1, "at least 0"),
        (ClusteringSettings, "rounds", 10, 11, "at most 10"),
        (ClusteringSettings, "share", 1.0, 1.01, "at most 1"),
        (ClusteringSettings, "share", 1e-9, 0.0, "more than 0"),
        (ClusteringSettings, "shrink", 0.0, -0.01, "at least 0"),
        (ClusteringSettings, "gate", 0.0, -0.01, "at least 0"),
        (RoutingSettings, "tables", 1, 0, "at least 1"),
        (RoutingSettings, "tables", 256, 257, "at most 256"),
        (RoutingSettings, "planes", 1, 0, "at least 1"),
        (RoutingSettings, "planes", 24, 25, "at most 24"),
        (RoutingSettings, "cap", 0, -1, "at least 0"),
        (RoutingSettings, "probes", 0, -1, "at least 0"),
        (RoutingSettings, "rerank", 1, 0, "at least 1"),
        (RoutingSettings, "exact_below", 0, -1, "at least 0"),
        (RoutingSettings, "C", 1e-9, 0.0, "more than 0"),
        (ListSettings, "lengths", [1], [0], "at least 1"),
        (SelectionSettings, "folds", 2, 1, "at least 2"),
        (GuardSettings, "errors", 0.0, -0.01, "at least 0"),
        (GuardSettings, "least", 1, 0, "at least 1"),
    ],
)
def test_a_number_may_be_at_its_limit_and_not_beyond(
    kind: type, name: str, fits: Any, beyond: Any, limit: str
) -> None:
    found = getattr(checked(kind, {name: fits}, "x"), name)

    assert (tuple(fits) if isinstance(fits, list) else fits) == found
    with pytest.raises(InvalidConfiguration, match=f"^x: {name}: expected {limit}, found"):
        checked(kind, {name: beyond}, "x")


@pytest.mark.parametrize("kind", DEFAULTS)
def test_settings_do_not_change(kind: type) -> None:
    settings = kind()

    with pytest.raises(AttributeError):
        setattr(settings, next(iter(DEFAULTS[kind])), None)


@pytest.mark.parametrize("method", ["relevant_mean", "performance_profile"])
def test_what_needs_labels_represents_queries_for_clustering_only(method: str) -> None:
    sentence = (
        rf"run.toml: method '{method}' needs labels, but a new query has none; set "
        rf"\[clustering\] representation = '{method}' to cluster by it, and another method here to route by"
    )

    with pytest.raises(InvalidConfiguration, match=f"^{sentence}$"):
        checked(RepresentationSettings, {"method": method}, "run.toml")
    assert method == checked(ClusteringSettings, {"representation": method}, "x").representation


def test_a_similarity_has_the_name_of_its_form_only_if_it_compares_directions() -> None:
    assert "covariance" == SimilaritySettings(form="covariance").name
    assert "euclidean" == SimilaritySettings("euclidean", form="covariance").name


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"method": "none", "clusters": 7}, (1,)),
        ({"method": "none"}, (1,)),
        ({}, (1, 2, 3, 5)),
        ({"clusters": 4}, (4,)),
        ({"candidates": (2, 6)}, (2, 6)),
        *(({"method": method}, ()) for method in MODEL_PER_QUERY),
    ],
)
def test_the_numbers_of_clusters_to_choose_from(settings: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert expected == ClusteringSettings(**settings).sizes


def test_prototypes_may_choose_among_shares_and_shrinkages() -> None:
    several = ClusteringSettings("prototypes", share=(0.1, 0.3), shrink=(0.0, 2.0))

    assert several.localities == (
        Locality(0.1, 0.0),
        Locality(0.1, 2.0),
        Locality(0.3, 0.0),
        Locality(0.3, 2.0),
    )
    assert several.options == tuple(
        {"share": share, "shrink": shrink} for share in (0.1, 0.3) for shrink in (0.0, 2.0)
    )
    assert (Locality(0.25, 0.75),) == ClusteringSettings("prototypes", share=0.25, shrink=0.75).localities


def test_other_methods_have_no_locality() -> None:
    settings = ClusteringSettings("kmeans", share=(0.1, 0.3), neighbours=(3, 4))

    assert () == settings.localities
    assert ({},) == settings.options


def test_nearest_neighbours_may_choose_how_many() -> None:
    assert ({"neighbours": 3}, {"neighbours": 4}) == ClusteringSettings("knn", neighbours=(3, 4)).options
    assert ({"neighbours": 7},) == ClusteringSettings("knn", neighbours=7).options


def test_a_table_of_clusters_is_written_with_one_of_the_two_that_exclude_each_other() -> None:
    open_, settled = ClusteringSettings().to_table(), ClusteringSettings(clusters=3).to_table()

    assert DEFAULTS[ClusteringSettings].keys() - {"clusters"} == open_.keys()
    assert DEFAULTS[ClusteringSettings].keys() - {"candidates"} == settled.keys()
    assert (3, (1, 2, 3, 5)) == (settled["clusters"], open_["candidates"])


def test_features_that_lack_values_in_training_may_lack_them_later() -> None:
    documents = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    settings = ContractSettings(missing="learned")

    assert ["reject", "nan", "reject"] == settings.policies(["a", "b", "c"], documents)
    assert ["reject"] * 3 == settings.policies(["a", "b", "c"], documents[1:])


def test_missing_values_are_looked_for_in_every_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents beyond memory are read in portions; one row each here."""
    monkeypatch.setattr("localrank_training.steps.CELLS", 3)
    documents = np.ones((4, 3), np.float32)
    documents[0, 2] = documents[3, 0] = np.nan

    found = ContractSettings(missing="learned").policies(["a", "b", "c"], documents)

    assert ["nan", "reject", "nan"] == found


def test_a_policy_for_a_feature_that_there_is_not_is_named_with_three_that_there_are() -> None:
    settings = ContractSettings(missing={"zzz": "zero", "*": "median"})

    with pytest.raises(
        InvalidConfiguration,
        match=r"^\[contract\] missing: no feature 'zzz' \(expected names of features, such as 'a', 'b', 'c'\)$",
    ):
        settings.policies(list("abcd"), np.ones((1, 4), np.float32))
