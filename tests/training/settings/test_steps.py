"""The settings of each step, and which steps go together; docs/use/configuration.md has all defaults and limits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.settings import checked
from localrank_training.grouping.prototypes import Locality
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import (
    MODEL_PER_QUERY,
    ClusteringSettings,
    ContractSettings,
    RepresentationSettings,
    SimilaritySettings,
)


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

    assert {"candidates"} == open_.keys() - settled.keys()
    assert {"clusters"} == settled.keys() - open_.keys()
    assert (3, (1, 2, 3, 5)) == (settled["clusters"], open_["candidates"])


def test_features_that_lack_values_in_training_may_lack_them_later() -> None:
    documents = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    settings = ContractSettings(missing="learned")

    assert ["reject", "nan", "reject"] == settings.policies(["a", "b", "c"], documents)
    assert ["reject"] * 3 == settings.policies(["a", "b", "c"], documents[1:])


def test_a_feature_from_a_table_takes_gaps_as_training_saw_them() -> None:
    documents = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    settings = ContractSettings(missing="learned")

    assert ["reject", "nan", "median"] == settings.policies(["a", "b", "c"], documents, looked_up=["b", "c"])


def test_missing_values_are_looked_for_in_every_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents beyond memory are read in portions; one row each here."""
    monkeypatch.setattr("localrank_training.settings.steps.CELLS", 3)
    documents = np.ones((4, 3), np.float32)
    documents[0, 2] = documents[3, 0] = np.nan

    found = ContractSettings(missing="learned").policies(["a", "b", "c"], documents)

    assert ["nan", "reject", "nan"] == found


def test_missing_values_have_one_policy_or_one_per_feature() -> None:
    def policies(missing: Any) -> object:
        return ContractSettings(missing=missing).policies(
            ["age", "bm25", "c", "d"], np.zeros((1, 4), np.float32)
        )

    assert ["zero", "median", "zero", "zero"] == policies({"bm25": "median", "*": "zero"})
    assert ["reject", "nan", "reject", "reject"] == policies({"bm25": "nan"})
    assert "reject" == policies("reject")
    with pytest.raises(
        InvalidConfiguration,
        match=r"^\[contract\] missing: no feature 'bm26'; did you mean 'bm25'\? \(expected names of features, such as 'age', 'bm25', 'c'\)$",
    ):
        policies({"bm26": "zero"})


MEAN = {"representation": {"method": "mean"}, "similarity": {"method": "euclidean"}}


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            {"representation": {"method": "mean"}},
            (
                "[similarity] method 'pca_cosine' does not compare what [representation] method 'mean' makes; set "
                "[similarity] method = 'euclidean'"
            ),
        ),
        (
            {"representation": {"method": "gaussian"}},
            (
                "[similarity] method 'pca_cosine' does not compare what [representation] method 'gaussian' makes; set "
                "[similarity] method = 'kl' or 'bhattacharyya'"
            ),
        ),
        (
            {"similarity": {"method": "euclidean"}},
            (
                "[similarity] method 'euclidean' does not compare what [representation] method 'pca' makes; set "
                "[similarity] method = 'pca_cosine'"
            ),
        ),
        *(
            (
                {"clustering": {"method": method}},
                (
                    f"[clustering] method {method!r} clusters vectors, which [representation] method 'pca' does not make; "
                    "set [clustering] representation = 'relevant_mean', or method = 'complete_link'"
                ),
            )
            for method in ("kmeans", "ward", "bisecting_kmeans")
        ),
        *(
            (
                {"clustering": {"method": method, "clusters": clusters}},
                (
                    f"[clustering] clusters: expected none with method {method!r}, which has a model per query, found "
                    f"{clusters}"
                ),
            )
            for method, clusters in (("knn", 1), ("per_query", 4))
        ),
        (
            {"clustering": {"method": "random", "rounds": 1}},
            "[clustering] rounds: expected 0 for random clusters, because they do not depend on the scores of models",
        ),
        (
            {"clustering": {"rounds": 1}, "learner": {"method": "ranksvm", "blocks": "normalised,route"}},
            (
                "[clustering] rounds: learner 'ranksvm' uses the block 'route', which exists only after clustering; set "
                "rounds = 0, or use other blocks"
            ),
        ),
        (
            {"routing": {"method": "centroid"}},
            (
                "[routing] method 'centroid' takes VectorPoints, which [representation] method 'pca' does not make; set "
                "[routing] method = 'exact' or 'medoid'"
            ),
        ),
        *(
            (
                {**MEAN, "clustering": {"method": "knn"}, "routing": {"method": method}},
                (
                    f"[routing] method {method!r} needs several queries in each cluster, but [clustering] method 'knn' has a "
                    "model for each query; set [routing] method = 'exact'"
                ),
            )
            for method in ("classifier", "fusion")
        ),
        (
            {"routing": {"method": "overlap"}},
            (
                "[routing] method 'overlap' needs models of neighbours: expected [clustering] method 'knn', found "
                "'complete_link'; set [routing] method = 'exact'"
            ),
        ),
        *(
            (
                {"routing": {"method": "lsh", "member": member}},
                f"[routing] member {member!r} needs all members of a cluster; expected method 'exact', found 'lsh'",
            )
            for member in ("average", "farthest")
        ),
    ],
)
def test_steps_that_do_not_go_together_are_refused(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^configuration: {re.escape(sentence)}$"):
        TrainingConfig.from_tables(tables)


@pytest.mark.parametrize(
    "tables",
    [
        {**MEAN, "routing": {"method": "exact"}},
        {**MEAN, "clustering": {"method": "kmeans"}, "routing": {"method": "centroid"}},
        {"clustering": {"method": "kmeans", "representation": "relevant_mean"}},
        {"clustering": {"method": "ward", "representation": "performance_profile"}},
        {"clustering": {"method": "knn"}, "routing": {"method": "overlap"}},
        {"clustering": {"method": "per_query"}, "routing": {"method": "exact"}},
        {**MEAN, "clustering": {"method": "random"}, "routing": {"method": "fusion"}},
        {"clustering": {"rounds": 1}},
        {"clustering": {"rounds": 0}, "learner": {"method": "ranksvm", "blocks": "normalised,route"}},
        {"routing": {"method": "exact", "member": "average"}},
        {
            "representation": {"method": "gaussian"},
            "similarity": {"method": "kl"},
            "routing": {"method": "exact"},
        },
    ],
)
def test_steps_that_go_together_are_taken(tables: dict[str, Any]) -> None:
    config = TrainingConfig.from_tables(tables).to_json()

    assert tables == {
        table: {name: config[table][name] for name in settings} for table, settings in tables.items()
    }


def test_nothing_is_checked_without_clusters() -> None:
    config = TrainingConfig.from_tables(
        {"clustering": {"method": "none"}, "similarity": {"method": "euclidean"}}
    )

    assert ("none", "global") == (config.clustering.method, config.routing.method)
