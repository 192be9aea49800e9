"""The plan of fits: counted, cut until it fits, the same every time, and what is really fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_training.config import TrainingConfig
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.learners.blend import Blend
from localrank_training.learners.budget import plan_fits, seconds_of, without
from localrank_training.learners.catalogue import make
from localrank_training.training import plan_for, train

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.scorers import BlendScorer

DOCUMENTS, FEATURES = 12_000, 46
MEMBERS = [
    {"method": "linear", "blocks": "zscore", "ridge": [0.01, 0.03, 0.3, 1.0]},
    {"method": "extra_trees", "blocks": "raw", "trees": 9},
]


def blend(budget: float | None = None) -> Blend:
    return Blend(budget=budget)


def test_without_a_budget_nothing_is_cut() -> None:
    plan = plan_fits(blend(), DOCUMENTS, FEATURES)

    assert plan.blend == blend()
    assert not plan.cuts
    assert [one.fits for one in plan.members] == [17, 17, 9, 5, 5, 5, 5]
    assert 30 < plan.seconds < 90


def test_smaller_budgets_cut_more_and_are_kept() -> None:
    plans = [plan_fits(blend(seconds), DOCUMENTS, FEATURES) for seconds in (60, 30, 15, 5, 1)]

    for plan in plans:
        assert plan.blend.budget is not None
        assert plan.seconds <= plan.blend.budget
        assert plan.seconds == pytest.approx(1.2 * sum(one.seconds for one in plan.members))
    cuts = [plan.cuts for plan in plans]
    for more, fewer in zip(cuts[1:], cuts, strict=False):
        assert more[: len(fewer)] == fewer
    assert cuts[1][0] == "one seed"
    assert len(plans[-1].members) < 7
    assert {"C": [1.0, 10.0]}.items() <= plans[2].blend.members[0].settings.items() or not plans[2].cuts[1:]


def test_the_last_member_stays_however_small_the_budget() -> None:
    plan = plan_fits(blend(1e-9), DOCUMENTS, FEATURES)

    assert [one.member for one in plan.members] == ["linear on zscore"]
    assert plan.blend.local == 1
    assert plan.seconds > 1e-9


def test_the_local_member_is_followed() -> None:
    assert without(blend(), 0).local == 2
    assert without(blend(), 2).local == 0
    assert without(blend(), 5).local == 3


def test_time_grows_with_the_work() -> None:
    trees = [make("extra_trees", {"trees": number, "blocks": "raw"}) for number in (10, 30)]
    assert seconds_of(trees[1], 1000, 5) == pytest.approx(3 * seconds_of(trees[0], 1000, 5))
    assert seconds_of(trees[0], 2000, 5) == pytest.approx(2 * seconds_of(trees[0], 1000, 5))
    one, three = (make("lambdamart", {"members": number}) for number in (1, 3))
    assert seconds_of(three, 1000, 5) == pytest.approx(3 * seconds_of(one, 1000, 5))
    raw, both = (make("linear", {"blocks": blocks}) for blocks in ("raw", "[raw, zscore]"))
    assert seconds_of(both, 1000, 5) == pytest.approx(2 * seconds_of(raw, 1000, 5))


def test_what_is_planned_is_what_is_trained() -> None:
    queries = synthesize(20, Recipe(features=4, kinds=1))[0]
    tables = {
        "clustering": {"method": "none"},
        "learner": {"method": "blend", "members": MEMBERS, "local": 1, "budget": 1e-3},
    }
    config = TrainingConfig.from_tables(tables)
    planned = plan_for(config, queries)

    trained = train(queries, config)

    assert planned is not None
    assert trained.cross_fitted is not None
    assert trained.cross_fitted.plan.to_json() == planned.to_json()
    assert planned.cuts == (
        "two values of every choice",
        "a third of the trees",
        "without linear on zscore",
    )
    scorer: BlendScorer = trained.built.ranker.global_scorer  # type: ignore[assignment]
    assert len(scorer.rankers) == 1
    again = train(queries, config).built.ranker.rank(queries.documents_of(0)).scores
    np.testing.assert_array_equal(again, trained.built.ranker.rank(queries.documents_of(0)).scores)


def test_a_run_without_a_blend_has_no_plan() -> None:
    assert plan_for(TrainingConfig.read(method="global"), synthesize(5, Recipe(features=4))[0]) is None


def test_the_command_prints_the_plan_first_and_the_manifest_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, models = tmp_path / "judged.txt", tmp_path / "models"
    made = ["--queries", "16", "--documents", "8", "--features", "4", "--kinds", "1"]
    assert 0 == main(["data", "synthesize", *made, "--out", str(path)])
    capsys.readouterr()

    assert 0 == main(
        ["train", str(path), "--models-dir", str(models), "--budget", "2", "--latency-budget", "200"]
    )

    printed = capsys.readouterr().out
    assert printed.startswith("Plan: about ")
    manifest = json.loads((models / "model" / "1" / "manifest.json").read_text())
    assert manifest["source"]["plan"]["budget"] == 2
    assert manifest["source"]["plan"]["seconds"] <= 2
    assert manifest["source"]["plan"]["cuts"][0] == "one seed"
    kept = manifest["metrics"]["blend"]
    assert any(one["weight"] is None for one in kept["members"])
    assert sum(one["microseconds"] for one in kept["members"] if one["weight"] is not None) <= 200


def test_of_many_documents_whole_queries_are_drawn() -> None:
    queries = synthesize(40, Recipe(features=4, kinds=1, documents=(5, 15)))[0]
    tables = {
        "clustering": {"method": "none"},
        "learner": {"method": "blend", "members": MEMBERS, "documents": 150},
    }
    config = TrainingConfig.from_tables(tables)

    trained = train(queries, config)
    other = train(queries, replace(config, seed=1))

    assert 135 < trained.queries.n_docs <= 150
    assert set(trained.queries.query_ids) < set(queries.query_ids)
    assert other.queries.query_ids != trained.queries.query_ids
    (said,) = trained.warnings
    assert (
        said
        == f"{len(trained.queries)} of 40 queries were drawn at random for training, to stay within 150 documents"
    )
    assert len(trained.held_out.queries) == len(trained.queries)


def test_seven_hundred_features_can_be_learned() -> None:
    queries = synthesize(12, Recipe(features=700, kinds=1, noise_features=690, documents=(8, 8)))[0]
    config = TrainingConfig.read(
        overrides=[
            "learner.budget=1",
            "clustering.clusters=2",
            "clustering.share=0.2",
            "clustering.shrink=0.5",
        ]
    )

    trained = train(queries, config)

    assert np.isfinite(trained.built.ranker.rank(queries.documents_of(0)).scores).all()
    assert trained.cross_fitted is not None
    assert trained.cross_fitted.rehearsal is not None
