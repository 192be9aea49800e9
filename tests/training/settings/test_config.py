"""What a run is told: files, methods, learners and single settings, each over those before it; and written as TOML."""

from __future__ import annotations

import json
import tomllib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.settings.config import TrainingConfig, annotated, read_tables, to_toml, value_text
from localrank_training.settings.methods import METHODS
from localrank_training.settings.steps import SelectionSettings

if TYPE_CHECKING:
    from pathlib import Path


def test_each_part_overrides_those_before_it(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        "seed = 1\n[clustering]\ncandidates = [2, 4]\n[learner]\nmethod = 'ranksvm'\nC = 3\n[routing]\ncap = 7\n"
    )

    def read(*overrides: str, learner: str | None = None) -> TrainingConfig:
        return TrainingConfig.read(tmp_path / "run.toml", "localrank", learner=learner, overrides=overrides)

    file, more = read(), read("seed=7", "learner.C=[0.1, 1]", "selection.metric=map", "seed = 8")

    assert (1, (2, 4), "complete_link", {"C": 3}, 7) == (
        file.seed,
        file.clustering.sizes,
        file.clustering.method,
        file.learner.settings,
        file.routing.cap,
    )
    assert (8, [0.1, 1], "map", 7) == (
        more.seed,
        more.learner.settings["C"],
        more.selection.metric,
        more.routing.cap,
    )
    assert "C" not in read(learner="rankboost").learner.settings
    (tmp_path / "run.toml").write_text("")
    assert TrainingConfig() == TrainingConfig.read(tmp_path / "run.toml")


def test_without_a_choice_it_is_auto_and_a_learner_alone_is_one_global_model() -> None:
    learner = TrainingConfig.read(learner="lambdamart")

    assert read_tables() == read_tables(method="auto")
    assert ("none", "global", "lambdamart") == (
        learner.clustering.method,
        learner.routing.method,
        learner.learner.method,
    )
    assert "global" == TrainingConfig.read(method="global").routing.method


@pytest.mark.parametrize(
    ("clusters", "expected"), [(1, ("none", None, "global")), (2, ("complete_link", 2, "lsh"))]
)
def test_one_cluster_is_one_global_model(clusters: int, expected: tuple[Any, ...]) -> None:
    config = TrainingConfig.from_tables({"clustering": {"clusters": clusters}})

    assert expected == (config.clustering.method, config.clustering.clusters, config.routing.method)


def test_another_method_of_a_step_drops_the_settings_of_the_one_before() -> None:
    """`shrink` and `gate` of method auto are of its prototypes; the share of its representation stays."""
    before = json.dumps(dict(METHODS))

    tables = read_tables(method="auto", overrides=["clustering.method=kmeans", "representation.most=3"])
    same = read_tables(method="auto", overrides=["clustering.method=prototypes", "clustering.gate=3.0"])

    assert {"method": "kmeans"} == tables["clustering"]
    assert {"share": 0.95, "most": 3} == tables["representation"]
    assert {"method": "blend"} == tables["learner"]
    assert (3.0, 16) == (same["clustering"]["gate"], same["clustering"]["clusters"])
    assert before == json.dumps(dict(METHODS))


def test_settled_clusters_and_candidates_replace_each_other() -> None:
    for override, expected in (
        ("candidates=[2, 4]", {"candidates": [2, 4]}),
        ("clusters=8", {"clusters": 8}),
    ):
        clustering = read_tables(method="auto", overrides=[f"clustering.{override}"])["clustering"]
        assert expected == {
            name: value for name, value in clustering.items() if name in {"clusters", "candidates"}
        }
    # Settings of another table with these names would stay.
    others = read_tables(method="global", overrides=["lists.clusters=1", "lists.candidates=2"])
    assert {"clusters": 1, "candidates": 2} == others["lists"]


def test_the_value_of_an_override_is_toml_or_a_word() -> None:
    written = ["selection.metric=ndcg@5", "a.b= x_1 ", "seed = 3", 'a.c="two words"', "a.d=true"]

    tables = read_tables(method="global", overrides=written)

    assert ("ndcg@5", 3) == (tables["selection"]["metric"], tables["seed"])
    assert {"b": "x_1", "c": "two words", "d": True} == tables["a"]


_NO_VALUE = '--set a.b: expected a value such as 3, [1, 2], true or "text", found '


@pytest.mark.parametrize(
    ("text", "overrides", "sentence"),
    [
        ("[clustring]\nclusters = 3", [], "run.toml: unknown table 'clustring'; did you mean 'clustering'?"),
        (
            "[clustering]\ncluster = 3",
            [],
            "run.toml [clustering]: unknown setting 'cluster'; did you mean 'clusters'",
        ),
        ("[clustering]\nmethod = 'dbscan'", [], "run.toml [clustering]: method: expected one of"),
        (
            "[clustering]\nclusters = 3\ncandidates = [2]",
            [],
            "run.toml [clustering]: expected clusters or candidates, f",
        ),
        ("clustering = 3", [], "run.toml [clustering]: expected a table of settings, found 3"),
        ("seed = -1", [], "run.toml: seed: expected at least 0, found -1"),
        ("[contract.missing]\nbm25 = 'mean'", [], "run.toml [contract]: missing: expected one of"),
        ("[routing]\nmethod = 'oracle'", [], "run.toml [routing]: method 'oracle' chooses the cluster"),
        ("[routing]\nmethod = 'global'", [], "run.toml: [routing] method 'global' never uses the clusters"),
        ("[learner]\nmethod = 3", [], "run.toml [learner]: method: expected a name, found 3"),
        (
            "[learner]\nmethod = 'ranksvn'",
            [],
            "run.toml [learner]: no learner 'ranksvn'; did you mean 'ranksvm'?",
        ),
        (
            "[learner]\nmethod = 'ranksvm'\nC = []",
            [],
            "run.toml [learner]: C: expected at least one value to choose",
        ),
        ("seed = ", [], "run.toml: not TOML"),
        ("\udcff", [], "run.toml: not TOML"),
        (
            "",
            ["clustering.cluster=3"],
            "run.toml [clustering]: unknown setting 'cluster'; did you mean 'clusters'",
        ),
        ("", ["selection.metric=mapp"], "run.toml [selection]: metric: metric 'mapp': expected one of"),
        ("", ["selection.metric=ndcg 10"], "--set selection.metric: expected a value such as 3"),
        *(("", [f"a.b={value}"], f"{_NO_VALUE}'{value}'") for value in ("", "1x", "two words", "-x")),
        *(
            ("", [text], f"--set: expected table.key=value, found '{text}'")
            for text in ("clusters", "a.b.c=1", "=3", ".x=3", "x.=3", "a..b=1", "")
        ),
    ],
)
def test_what_is_wrong_gets_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, overrides: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(text, errors="surrogateescape")

    with pytest.raises(InvalidConfiguration) as caught:
        TrainingConfig.read("run.toml", overrides=overrides)

    assert str(caught.value).startswith(sentence)


def test_a_missing_file_and_an_unknown_method_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"nowhere.toml: cannot be read: No such file"):
        TrainingConfig.read(tmp_path / "nowhere.toml")
    with pytest.raises(InvalidConfiguration, match=r"no method 'best' \(expected: localrank, "):
        TrainingConfig.read(method="best")


def test_settings_that_are_made_in_python_are_checked_too() -> None:
    with pytest.raises(InvalidConfiguration, match="folds: expected at least 2, found 1"):
        SelectionSettings(folds=1)
    with pytest.raises(InvalidConfiguration, match="metric 'mapp': expected one of"):
        SelectionSettings(metric="mapp")


def test_only_learners_that_can_continue_are_asked_to() -> None:
    assert {True, False} == {kind.continues for kind in LEARNERS.values()}
    for method, kind in LEARNERS.items():
        tables = {"clustering": {"continuation": True}, "learner": {"method": method}}
        if kind.continues:
            assert TrainingConfig.from_tables(tables).clustering.continuation
        else:
            with pytest.raises(InvalidConfiguration, match=f"learner '{method}' cannot be learned towards"):
                TrainingConfig.from_tables(tables)


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


def test_the_settings_of_a_version_are_read_back() -> None:
    def of_version(source: dict[str, object]) -> TrainingConfig:
        manifest: Any = SimpleNamespace(name="web", version=3, source=source)
        return TrainingConfig.of_version(manifest)

    config = TrainingConfig.read(method="localrank", overrides=["clustering.clusters=4"])

    assert config.to_json() == of_version({"configuration": config.to_json()}).to_json()
    with pytest.raises(
        InvalidConfiguration, match=r"^web@3: expected a version that 'localrank train' published"
    ):
        of_version({})
    with pytest.raises(InvalidConfiguration, match=r"^web@3: configuration: unknown setting 'sead'"):
        of_version({"configuration": {"sead": 3}})


# As TOML.


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_what_is_printed_reads_back_to_the_same(method: str, learner: str) -> None:
    config = TrainingConfig.read(
        method=method,
        learner=learner,
        overrides=['contract.missing={"a b" = "zero"}', "lists.lengths=[5, 9]"],
    )

    text = annotated(config)

    again = TrainingConfig.from_tables(tomllib.loads(text))
    assert config.replace(learner=again.learner) == again
    assert config.learner.candidates() == again.learner.candidates()
    assert annotated(again) == text
    assert config.to_json() == TrainingConfig.from_tables(json.loads(json.dumps(config.to_json()))).to_json()


def test_a_printed_configuration_has_every_setting_with_its_meaning() -> None:
    lines = annotated(TrainingConfig.read(method="global", overrides=["learner.C=2", "seed=5"])).splitlines()

    assert lines[0].startswith("seed = 5  # seed of all random draws")
    assert ["", "[contract]"] == lines[1:3]
    learner = lines[lines.index("[learner]") + 1 :]
    assert 'method = "ranksvm"' == learner[0]
    assert any(line.startswith("C = 2  # ") for line in learner)
    assert any(line.startswith("# components is not set  # P, the number of") for line in lines)
    assert [] == [line for line in lines if " = " in line and "  # " not in line and "method" not in line]


def test_values_stand_before_tables_and_lists_of_tables_after_their_table() -> None:
    tables = {
        "learner": {"method": "blend", "members": [{"method": "a", "C": 1}, {"method": "b"}], "seed": 2},
        "seed": 7,
        "contract": {"missing": {"two words": "zero"}, "constant": None, "names": []},
    }

    text = to_toml(tables)

    assert text.split("\n") == [
        "seed = 7",
        "",
        "[learner]",
        'method = "blend"',
        "seed = 2",
        "",
        "[[learner.members]]",
        'method = "a"',
        "C = 1",
        "",
        "[[learner.members]]",
        'method = "b"',
        "",
        "[contract]",
        'missing = {"two words" = "zero"}',
        "# constant is not set",
        "# names is not set",
        "",
    ]
    assert tables["learner"] == tomllib.loads(text)["learner"]
    assert "[a]\nb = 1\n" == to_toml({"a": {"b": 1}})


@pytest.mark.parametrize(
    "value",
    [3, 0.5, True, 'say "ä"\n', [1, [2, "b"]], [], {"a": 1, "two words": [1], "é": "x", "a-b_9": 1}],
)
def test_a_value_is_written_as_toml(value: Any) -> None:
    assert value == tomllib.loads(f"x = {value_text(value)}")["x"]
