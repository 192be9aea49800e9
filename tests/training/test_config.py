from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.settings import settings_of
from localrank_training.config import TrainingConfig, read_tables
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.methods import METHODS
from localrank_training.steps import ClusteringSettings, RepresentationSettings, SelectionSettings
from localrank_training.toml_text import annotated

if TYPE_CHECKING:
    from localrank.artifact import Manifest

ROOT = Path(__file__).parents[2]


def test_the_oracle_is_no_router() -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"'oracle' chooses the cluster .* localrank evaluate --oracle"
    ):
        TrainingConfig.from_tables({"routing": {"method": "oracle"}})


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
    with pytest.raises(InvalidConfiguration, match=r"^configuration: \[routing\] .* never uses the clusters"):
        TrainingConfig.from_tables({"routing": {"method": "global"}})


@pytest.mark.parametrize("method", METHODS)
def test_what_is_written_reads_back_to_the_same(method: str) -> None:
    config = TrainingConfig.read(method=method)

    again = TrainingConfig.from_tables(json.loads(json.dumps(config.to_json())))

    assert config.to_json() == again.to_json()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[clustring]\nclusters = 3", r"run.toml: unknown table 'clustring'; did you mean 'clustering'\?"),
        (
            "[clustering]\ncluster = 3",
            r"run.toml \[clustering\]: unknown setting 'cluster'; did you mean 'clusters'",
        ),
        ("[clustering]\nmethod = 'dbscan'", r"run.toml \[clustering\]: method: expected one of"),
        ("clustering = 3", r"run.toml \[clustering\]: expected a table of settings, found 3"),
        ("seed = -1", r"run.toml: seed: expected at least 0, found -1"),
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
    with pytest.raises(InvalidConfiguration, match=r"no method 'best' \(expected: localrank, "):
        TrainingConfig.read(method="best")


def test_a_learner_alone_is_one_global_model() -> None:
    config = TrainingConfig.read(learner="lambdamart")

    assert ("none", "global", "lambdamart") == (
        config.clustering.method,
        config.routing.method,
        config.learner.method,
    )


def test_a_learner_replaces_that_of_a_method() -> None:
    config = TrainingConfig.read(method="localrank", learner="ranksvm", overrides=["learner.total=sum"])

    assert "complete_link" == config.clustering.method
    assert {"C": (1.0, 10.0, 100.0, 1000.0), "total": "sum"} == config.learner.settings


def test_single_settings_override_everything_else(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("seed = 1\n[clustering]\ncandidates = [2, 4]\n[learner]\nC = 3\n")

    config = TrainingConfig.read(
        tmp_path / "run.toml",
        overrides=[
            "seed=7",
            "clustering.clusters=3",
            "learner.C=[0.1, 1]",
            "selection.metric=map",
            "seed = 8",
        ],
    )

    assert (8, (3,), [0.1, 1], "map") == (
        config.seed,
        config.clustering.sizes,
        config.learner.settings["C"],
        config.selection.metric,
    )


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("clusters", "--set: expected table.key=value, found 'clusters'"),
        ("a.b.c=1", "--set: expected table.key=value, found 'a.b.c=1'"),
        ("selection.metric=ndcg 10", r"--set selection.metric: expected a value .*, found 'ndcg 10'"),
        (
            "clustering.cluster=3",
            r"configuration \[clustering\]: unknown setting 'cluster'; did you mean 'clusters'",
        ),
        ("selection.metric=mapp", r"configuration \[selection\]: metric: metric 'mapp': expected one of"),
    ],
)
def test_an_override_that_does_not_fit_is_named(override: str, sentence: str) -> None:
    with pytest.raises(InvalidConfiguration, match=sentence):
        TrainingConfig.read(overrides=[override])


def test_numbers_of_clusters_are_settled_or_candidates(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[clustering]\nclusters = 3\ncandidates = [2, 4]")

    with pytest.raises(
        InvalidConfiguration, match=r"\[clustering\]: expected clusters or candidates, found both"
    ):
        TrainingConfig.read(tmp_path / "run.toml")


def test_missing_values_have_one_policy_or_one_per_feature() -> None:
    config = TrainingConfig.from_tables({"contract": {"missing": {"bm25": "median", "*": "zero"}}})
    others = TrainingConfig.from_tables({"contract": {"missing": {"bm25": "nan"}}})

    assert ["zero", "median"] == config.contract.policies(["age", "bm25"], np.zeros((1, 2), np.float32))
    assert ["reject", "nan"] == others.contract.policies(["age", "bm25"], np.zeros((1, 2), np.float32))
    assert "reject" == TrainingConfig().contract.policies(["age", "bm25"], np.zeros((1, 2), np.float32))
    with pytest.raises(InvalidConfiguration, match=r"missing: no feature 'bm25'; did you mean 'bm26'\?"):
        others.contract.policies(["age", "bm26"], np.zeros((1, 2), np.float32))
    with pytest.raises(InvalidConfiguration, match=r"missing: expected one of .* or a table by name"):
        TrainingConfig.from_tables({"contract": {"missing": {"bm25": "mean"}}})


def test_only_learners_that_can_continue_are_asked_to() -> None:
    def tables(method: str) -> dict[str, dict[str, object]]:
        return {"clustering": {"continuation": True}, "learner": {"method": method}}

    for method, kind in LEARNERS.items():
        if kind.continues:
            assert TrainingConfig.from_tables(tables(method)).clustering.continuation
        else:
            with pytest.raises(InvalidConfiguration, match=f"learner '{method}' cannot be learned towards"):
                TrainingConfig.from_tables(tables(method))


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_printed_configuration_reads_back_to_the_same(learner: str, tmp_path: Path) -> None:
    config = TrainingConfig.read(
        method="localrank",
        learner=learner,
        overrides=["clustering.clusters=4", 'contract.missing={"a b" = "zero"}', "lists.lengths=[5, 9]"],
    )

    (tmp_path / "run.toml").write_text(annotated(config))

    again = TrainingConfig.read(tmp_path / "run.toml")
    assert config.replace(learner=again.learner) == again
    assert config.learner.candidates() == again.learner.candidates()
    assert annotated(again) == annotated(config)


def test_the_printed_configuration_names_every_setting() -> None:
    printed = annotated(TrainingConfig())

    for table in (ClusteringSettings, RepresentationSettings, RankSvm):
        for one in settings_of(table):
            assert f"\n{one.name} = " in printed or f"\n# {one.name} is not set  # " in printed


def test_settings_that_are_made_in_python_are_checked_too() -> None:
    with pytest.raises(InvalidConfiguration, match="folds: expected at least 2, found 1"):
        SelectionSettings(folds=1)
    with pytest.raises(InvalidConfiguration, match="metric 'mapp': expected one of"):
        SelectionSettings(metric="mapp")


def test_one_cluster_is_one_global_model() -> None:
    config = TrainingConfig.from_tables({"clustering": {"clusters": 1}})

    assert ("none", None, "global") == (
        config.clustering.method,
        config.clustering.clusters,
        config.routing.method,
    )


def test_two_clusters_are_not_global() -> None:
    config = TrainingConfig.from_tables({"clustering": {"clusters": 2}})

    assert ("complete_link", 2, "lsh") == (
        config.clustering.method,
        config.clustering.clusters,
        config.routing.method,
    )


def test_another_method_of_a_step_drops_the_settings_of_the_one_before(tmp_path: Path) -> None:
    """`shrink` and `gate` of method auto are of its prototypes; the share of its representation stays."""
    (tmp_path / "run.toml").write_text("[clustering]\nmethod = 'kmeans'\n[representation]\nmost = 3\n")

    tables = read_tables(tmp_path / "run.toml", "auto")

    assert {"method": "kmeans"} == tables["clustering"]
    assert {"share": 0.95, "most": 3} == tables["representation"]
    assert {"method": "blend"} == tables["learner"]


def test_the_same_method_of_a_step_keeps_its_settings(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[clustering]\nmethod = 'prototypes'\ngate = 3.0\n")

    clustering = read_tables(tmp_path / "run.toml", "auto")["clustering"]

    assert (3.0, 16) == (clustering["gate"], clustering["clusters"])


@pytest.mark.parametrize(
    ("method", "override", "expected"),
    [
        ("auto", "clustering.candidates=[2, 4]", {"candidates": [2, 4]}),
        ("auto", "clustering.clusters=8", {"clusters": 8}),
    ],
)
def test_settled_clusters_and_candidates_replace_each_other(
    method: str, override: str, expected: dict[str, object]
) -> None:
    clustering = read_tables(method=method, overrides=[override])["clustering"]

    assert expected == {name: clustering[name] for name in ("clusters", "candidates") if name in clustering}


def test_only_clusters_and_candidates_exclude_each_other(tmp_path: Path) -> None:
    """A setting of another table with one of these names would stay."""
    (tmp_path / "run.toml").write_text("[lists]\nclusters = 1\n")

    tables = read_tables(tmp_path / "run.toml", overrides=["lists.candidates=2"])

    assert {"clusters": 1, "candidates": 2} == tables["lists"]


def test_a_value_without_quotes_is_a_word() -> None:
    tables = read_tables(
        method="global",
        overrides=["selection.metric=ndcg@5", "a.b= x_1 ", "seed = 3", 'a.c="two words"', "a.d=true"],
    )

    assert ("ndcg@5", 3) == (tables["selection"]["metric"], tables["seed"])
    assert {"b": "x_1", "c": "two words", "d": True} == tables["a"]


@pytest.mark.parametrize("override", ["=3", ".x=3", "x.=3", "a..b=1", "a", ""])
def test_an_override_without_a_name_or_a_value_is_refused(override: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"^--set: expected table\.key=value, found "):
        read_tables(overrides=[override])


@pytest.mark.parametrize("written", ["", "1x", "two words", "-x"])
def test_an_override_that_is_neither_toml_nor_a_word_is_refused(written: str) -> None:
    with pytest.raises(
        InvalidConfiguration,
        match=rf"^--set a.b: expected a value such as 3, \[1, 2\], true or \"text\", found '{written}'$",
    ):
        read_tables(overrides=[f"a.b={written}"])


def test_tables_of_the_methods_are_not_changed_by_reading() -> None:
    before = json.dumps(dict(METHODS))

    read_tables(method="auto", overrides=["clustering.gate=9", "learner.method=ranksvm"])

    assert before == json.dumps(dict(METHODS))


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(InvalidConfiguration, match=r"run.toml: not TOML: "):
        read_tables(tmp_path / "run.toml")


def test_a_number_of_clusters_is_settled_without_changing_the_rest() -> None:
    config = TrainingConfig.from_tables({"seed": 4, "clustering": {"sample": 90}})

    settled = config.with_clusters(3, share=0.3)

    assert (3, 0.3, 90, 4) == (
        settled.clustering.clusters,
        settled.clustering.share,
        settled.clustering.sample,
        settled.seed,
    )
    assert "none" == config.with_clusters(1).clustering.method
    assert (True, False) == (config.clustering.local, config.without_local().clustering.local)
    assert 3 == settled.without_local().clustering.clusters


@dataclass
class _Published:
    source: dict[str, object]
    name: str = "web"
    version: int = 3


def of_version(source: dict[str, object]) -> TrainingConfig:
    return TrainingConfig.of_version(cast("Manifest", _Published(source)))


def test_the_settings_of_a_version_are_read_back() -> None:
    config = TrainingConfig.read(method="localrank", overrides=["clustering.clusters=4"])

    assert config.to_json() == of_version({"configuration": config.to_json()}).to_json()


def test_a_version_without_settings_is_named() -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"^web@3: expected a version that 'localrank train' published"
    ):
        of_version({})
    with pytest.raises(InvalidConfiguration, match=r"^web@3: configuration: unknown setting 'sead'"):
        of_version({"configuration": {"sead": 3}})
