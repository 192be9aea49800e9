from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.metrics import Judgements
from localrank_training.learners.settings import LearnerSettings
from localrank_training.report.figures import against_best, setting_name
from localrank_training.report.pages import write_best
from localrank_training.run.train import train
from localrank_training.run.tune import TriedCombination, Tuned, combinations, edges_of, tune, tune_routing
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

TABLES: dict[str, Any] = {
    "contract": {"normalise": "none"},
    "representation": {"components": [1, 2]},
    "clustering": {"method": ["complete_link", "none"], "clusters": [1, 2]},
    "learner": {"method": "ranksvm", "C": [0.1, 1.0]},
    "selection": {"folds": 3},
}


def test_every_list_is_a_choice_and_moot_ones_are_left_out() -> None:
    choices = [choice.values for group in combinations(TABLES) for choice in group]

    # 2 components x 2 C for two clusters; one cluster is one global model, for which only C is a choice.
    assert 2 * 2 + 2 == len(choices)
    assert {"clustering.method": "complete_link", "clustering.clusters": 1, "learner.C": 0.1} in choices
    assert {
        "representation.components": 2,
        "clustering.method": "complete_link",
        "clustering.clusters": 2,
        "learner.C": 1.0,
    } in choices


def test_the_defaults_of_learner_and_clustering_are_choices_too() -> None:
    C, sizes = LearnerSettings().settings["C"], TrainingConfig().clustering.sizes

    assert [{"learner.C": value, "clustering.clusters": size} for size in sizes for value in C] == [
        choice.values for group in combinations({}) for choice in group
    ]


def test_a_wrong_value_among_many_is_named() -> None:
    with pytest.raises(InvalidConfiguration, match=r"space.toml \[clustering\]: clusters: .* found 0"):
        combinations({"clustering": {"clusters": [2, 0]}}, "space.toml")


def test_figures_are_those_of_training_with_the_same_folds(tmp_path: Path) -> None:
    queries = two_kinds()

    tuned = tune(queries, TABLES, tmp_path)

    for setting in tuned.settings[:3]:
        trained = train(queries, setting.config)
        held = trained.held_out
        order = [queries.query_ids.index(query_id) for query_id in held.queries.query_ids]
        judged = Judgements(held.queries.labels, held.queries.offsets)
        np.testing.assert_allclose(
            setting.local[order], judged.per_query(held.ranked.scores, "ndcg@10"), atol=1e-6
        )


def test_the_best_settings_tell_the_kinds_apart(tmp_path: Path) -> None:
    tuned = tune(two_kinds(40), TABLES, tmp_path)

    assert 2 == tuned.best.choices["clustering.clusters"]
    assert tuned.best.mean > tuned.best.global_.mean() + 0.1
    assert sorted((s.mean for s in tuned.settings), reverse=True) == [s.mean for s in tuned.settings]
    assert "clustering.clusters" == tuned.effects()[0].name


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    queries = two_kinds()
    whole = tune(queries, TABLES, tmp_path / "whole")
    lines = (tmp_path / "whole" / "trials.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / "trials.jsonl").write_text("".join(lines[:7]) + lines[7][:40])
    done: list[int] = []

    resumed = tune(queries, TABLES, tmp_path / "stopped", progress=lambda _, n, __: done.append(n))

    assert list(range(1, len(lines) + 1)) == done
    assert [s.choices for s in whole.settings] == [s.choices for s in resumed.settings]
    for expected, setting in zip(whole.settings, resumed.settings, strict=True):
        np.testing.assert_array_equal(expected.local, setting.local)
    assert lines == (tmp_path / "stopped" / "trials.jsonl").read_text().splitlines(keepends=True)


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    alone, together = (
        tune(two_kinds(), TABLES, tmp_path / str(workers), workers=workers) for workers in (1, 2)
    )

    assert [s.choices for s in alone.settings] == [s.choices for s in together.settings]
    assert [s.mean for s in alone.settings] == [s.mean for s in together.settings]


def test_more_combinations_than_asked_for_are_sampled(tmp_path: Path) -> None:
    settings = tune(two_kinds(), TABLES, tmp_path, most=4).settings

    assert 4 == len(settings)
    assert [s.choices for s in settings] == [
        s.choices for s in tune(two_kinds(), TABLES, tmp_path / "again", most=4).settings
    ]


def test_a_file_that_is_no_record_of_trials_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trials.jsonl").write_text("hello\n")

    with pytest.raises(InvalidData, match=r"trials.jsonl:1: expected one finished trial, found 'hello'"):
        tune(two_kinds(), TABLES, tmp_path)


def test_a_best_setting_at_the_edge_of_what_was_tried_is_told(tmp_path: Path) -> None:
    tables = {
        **TABLES,
        "representation": {"components": [1, 2, 3]},
        "clustering": {"clusters": 2},
        "learner": {"C": [1e-8, 1e-7, 1.0]},
    }

    told = edges_of(tune(two_kinds(), tables, tmp_path))

    assert "learner.C = 1 is the largest value that was tried; larger ones may be better" in told
    # One component is the fewest that there can be.
    assert not [text for text in told if text.startswith("representation.components = 1")]


def test_hash_tables_are_chosen_for_an_agreement() -> None:
    queries = two_kinds(60)
    settings = TrainingConfig.from_tables(
        {**TABLES, "representation": {"components": 1}, "clustering": {"clusters": 2}, "learner": {"C": 1.0}}
    )

    config, trials = tune_routing(queries, settings, 0.9)

    (chosen,) = [trial for trial in trials if trial.chosen]
    assert chosen.agreement >= 0.9
    assert (chosen.tables, chosen.planes) == (config.routing.tables, config.routing.planes)
    assert settings.clustering == config.clustering


def test_without_hash_tables_there_is_nothing_to_choose() -> None:
    settings = TrainingConfig.read(method="global")

    assert (settings, ()) == tune_routing(two_kinds(), settings, 0.95)


def setting(mean: float, **choices: Any) -> TriedCombination:
    """Eight queries that differ from others, so that there are intervals."""
    local = mean + np.linspace(-0.08, 0.08, 9)
    named = {f"learner.{name}": value for name, value in choices.items()}
    return TriedCombination(named, TrainingConfig.read(method="global"), local, local - 0.1)


def test_values_of_an_effect_are_in_the_order_of_numbers_and_then_of_texts() -> None:
    values = [10, "b", 9, True, 2.5, "a"]
    tuned = Tuned(tuple(setting(number / 10, C=value) for number, value in enumerate(values)), "ndcg@10", 5)

    (effect,) = tuned.effects()

    assert (2.5, 9, 10, "a", "b", True) == effect.values
    assert [0.4, 0.2, 0.0, 0.5, 0.1, 0.3] == pytest.approx(effect.means)
    assert effect.best == pytest.approx(effect.means)
    assert 0.5 == pytest.approx(effect.spread)


def test_the_largest_effect_comes_first_and_settings_without_a_choice_are_left_out() -> None:
    found = (setting(0.9, C=1.0, rounds=2), setting(0.7, C=1.0, rounds=1), setting(0.5, C=2.0))

    effects = Tuned(found, "ndcg@10", 5).effects()

    assert ["learner.C", "learner.rounds"] == [one.name for one in effects]
    assert [0.8, 0.5] == pytest.approx(effects[0].means)
    assert [0.9, 0.5] == pytest.approx(effects[0].best)
    assert [0.7, 0.9] == pytest.approx(effects[1].means)
    assert [0.3, 0.2] == pytest.approx([one.spread for one in effects])


def test_settings_are_named_by_their_choices() -> None:
    assert "C = 1.0, rounds = 2" == setting_name(setting(0.5, C=1.0, rounds=2))
    assert "as configured" == setting_name(setting(0.5))


def test_shortfalls_are_differences_on_the_same_queries() -> None:
    best, other = setting(0.5), setting(0.45)
    lost = np.linspace(-0.08, 0.0, 9)
    worse = TriedCombination({}, best.config, best.local + lost, best.local)

    found = against_best(Tuned((best, worse, other), "ndcg@10", 5))

    # Eight of nine queries differ: Student's quantile of seven degrees of freedom.
    half = 2.364624 * lost.std(ddof=1) / 3
    assert found[1].difference == pytest.approx(-0.04)
    assert found[1].interval is not None
    assert (found[1].interval.low, found[1].interval.high) == pytest.approx(
        (-0.04 - half, -0.04 + half), abs=1e-6
    )
    assert found[1].to_json()["difference"] == found[1].difference
    assert found[2].difference == pytest.approx(-0.05)


def test_the_file_of_the_best_settings_says_what_they_reach(tmp_path: Path) -> None:
    other = TrainingConfig.read(method="global", overrides=["seed=7"])
    tuned = Tuned((setting(0.5, C=1.0), setting(0.4, C=2.0)), "ndcg@10", 5)

    write_best(tuned, tmp_path / "best.toml", other)

    assert (
        (tmp_path / "best.toml")
        .read_text()
        .startswith(
            "# ndcg@10 0.5000 (its global scorer 0.4000) over 9 queries,\n# cross-validated in 5 folds; the best of 2 settings.\n"
        )
    )
    assert 7 == TrainingConfig.read(tmp_path / "best.toml").seed


@pytest.mark.parametrize(("n_queries", "tried"), [(19, False), (20, True)])
def test_hash_tables_are_tried_with_twenty_queries_or_more(n_queries: int, *, tried: bool) -> None:
    settings = TrainingConfig.from_tables(
        {**TABLES, "representation": {"components": 1}, "clustering": {"clusters": 2}, "learner": {"C": 1.0}}
    )

    config, trials = tune_routing(two_kinds(n_queries), settings, 0.5)

    assert tried == bool(trials)
    assert tried or config == settings


def test_what_was_found_with_other_queries_or_another_metric_is_not_taken_over(tmp_path: Path) -> None:
    tables = {
        **TABLES,
        "representation": {"components": 1},
        "clustering": {"clusters": 2},
        "learner": {"C": 1.0},
    }
    tune(two_kinds(), tables, tmp_path)

    for changed in ({"folds": 3, "metric": "map"}, {"folds": 2}):
        found = tune(two_kinds(), {**tables, "selection": changed}, tmp_path)
        assert (changed["folds"], changed.get("metric", "ndcg@10")) == (found.n_folds, found.metric)
    tune(two_kinds(seed=1), tables, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "trials.jsonl").read_text().splitlines()]
    assert [0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 2] == [line["fold"] for line in lines]
    assert [8] * 6 + [12] * 2 + [8] * 3 == [len(line["found"]["local"]) for line in lines]
    assert len(lines) == len({line["key"] for line in lines})
    assert all(
        TrainingConfig.from_tables(line["configuration"]).to_json() == line["configuration"] for line in lines
    )
