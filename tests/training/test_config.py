from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.config import METHODS, TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("")

    assert TrainingConfig() == TrainingConfig.read(tmp_path / "run.toml")


def test_every_table_of_a_file_counts(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        """
        seed = 7
        [contract]
        normalise = "global_zscore"
        missing = "median"
        [representation]
        components = 3
        [clustering]
        candidates = [2, 4, 8]
        [learner]
        method = "ranksvm"
        C = [0.1, 1]
        [routing]
        method = "exact"
        [selection]
        metric = "map"
        """
    )

    config = TrainingConfig.read(tmp_path / "run.toml")

    assert (7, "global_zscore", "median", 3, (2, 4, 8), [0.1, 1], "exact", "map") == (
        config.seed,
        config.contract.normalise,
        config.contract.missing,
        config.representation.components,
        config.clustering.candidates,
        config.learner.settings["C"],
        config.routing.method,
        config.selection.metric,
    )


def test_a_file_overrides_single_settings_of_a_method(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[clustering]\nclusters = 3\n[routing]\nmethod = 'exact'\n")

    config = TrainingConfig.read(tmp_path / "run.toml", "localrank")

    assert ("complete_link", 3, "exact") == (
        config.clustering.method,
        config.clustering.clusters,
        config.routing.method,
    )


def test_one_global_model_is_routed_globally() -> None:
    assert "global" == TrainingConfig.read(method="global").routing.method


def test_a_router_that_ignores_the_clusters_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="never uses the clusters"):
        TrainingConfig.from_tables({"routing": {"method": "global"}})


@pytest.mark.parametrize("method", METHODS)
def test_what_is_written_reads_back_to_the_same(method: str) -> None:
    config = TrainingConfig.read(method=method)

    again = TrainingConfig.from_tables(json.loads(json.dumps(config.to_json())))

    assert config.to_json() == again.to_json()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[clustring]\nclusters = 3", r"run.toml: unknown table 'clustring'"),
        (
            "[clustering]\ncluster = 3",
            r"run.toml \[clustering\]: unknown setting 'cluster'; did you mean 'clusters'",
        ),
        ("[clustering]\nmethod = 'dbscan'", r"run.toml \[clustering\]: method: expected one of"),
        ("clustering = 3", r"run.toml \[clustering\]: expected a table of settings, found 3"),
        ("seed = -1", r"run.toml: seed: expected a whole number from 0, found -1"),
        ("[learner]\nmethod = 3", r"run.toml \[learner\]: method: expected a name, found 3"),
        ("seed = ", r"run.toml: not TOML"),
    ],
)
def test_what_is_wrong_gets_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "run.toml").write_text(text)

    with pytest.raises(InvalidConfiguration, match=sentence):
        TrainingConfig.read(tmp_path / "run.toml")


def test_a_missing_file_and_an_unknown_method_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"nowhere.toml: cannot be read: No such file"):
        TrainingConfig.read(tmp_path / "nowhere.toml")
    with pytest.raises(InvalidConfiguration, match="no method 'best'; expected one of localrank, "):
        TrainingConfig.read(method="best")
