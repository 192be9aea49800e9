"""The plan of fits: counted, cut until it fits, the same every time, and what is really fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.learners.blend import Blend
from localrank_training.learners.budget import plan_fits, seconds_of, without
from localrank_training.learners.catalogue import make
from localrank_training.run.train import plan_for, train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.scorers import BlendScorer

DOCUMENTS, FEATURES = 12_000, 46
MEMBERS: list[dict[str, Any]] = [
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
    assert trained.cross_fitted.out_of_fold is not None


def of_members(*members: dict[str, Any], **settings: Any) -> Blend:
    made = make("blend", {"members": list(members), **settings})
    assert isinstance(made, Blend)
    return made


NARROW = {"method": "linear", "blocks": "raw", "ridge": 0.1}
WIDE = {"method": "linear", "blocks": "[raw, zscore, rank]", "ridge": 0.1}
BETWEEN = {"method": "linear", "blocks": "[raw, zscore]", "ridge": 0.1}


@pytest.mark.parametrize(("parts", "times"), [(4, 3 * 2 + 1), (2, 1 * 2 + 1), (10, 9 * 2 + 1)])
def test_each_candidate_is_fitted_without_each_part_and_one_on_everything(parts: int, times: int) -> None:
    """Ten fits on nine tenths of the documents take as long as nine on all."""
    one = seconds_of(make("linear", {"blocks": "raw"}), 1000, 5)

    plan = plan_fits(of_members({**NARROW, "ridge": [0.1, 1.0]}, parts=parts), 1000, 5)

    (fits,) = plan.members
    assert ("linear on raw", 2, 2 * parts + 1) == (fits.member, fits.candidates, fits.fits)
    assert fits.seconds == pytest.approx(times * one)
    assert plan.seconds == pytest.approx(1.2 * times * one)


def test_every_cut_is_made_before_the_last_member_goes_over_its_budget() -> None:
    """The two values in the middle of each choice; of three the first two. A list of rounds is no choice."""
    boosted = {
        "method": "lambdamart", "blocks": "raw", "num_iterations": 501, "averaged": [1, 50, 100, 101], "members": 5,
        "learning_rate": [0.01, 0.02, 0.03, 0.04, 0.05], "num_leaves": [3, 7, 15, 31], "max_depth": [2, 3, 4],
        "lambda_l2": [0.0, 1.0],
    }  # fmt: skip

    plan = plan_fits(of_members(boosted, budget=1e-9), 1000, 5)

    assert ("one seed", "two values of every choice", "half the rounds") == plan.cuts
    settings = plan.blend.members[0].settings
    assert (250, [1, 25, 50], 1) == (settings["num_iterations"], settings["averaged"], settings["members"])
    assert ([0.02, 0.03], [7, 15]) == (settings["learning_rate"], settings["num_leaves"])
    assert ([2, 3], [0.0, 1.0]) == (settings["max_depth"], settings["lambda_l2"])
    assert 16 == plan.members[0].candidates


@pytest.mark.parametrize(
    ("member", "cuts", "left"),
    [
        ({"method": "extra_trees", "trees": 10}, ("a third of the trees",), {"trees": 3}),
        ({"method": "extra_trees", "trees": 2}, ("a third of the trees",), {"trees": 1}),
        ({"method": "extra_trees", "trees": 1}, (), {"trees": 1}),
        ({"method": "gbrt", "num_iterations": 3, "members": 1}, ("half the rounds",), {"num_iterations": 1}),
        ({"method": "gbrt", "num_iterations": 2, "members": 1}, ("half the rounds",), {"num_iterations": 1}),
        ({"method": "gbrt", "num_iterations": 1, "members": 1}, (), {"num_iterations": 1}),
        ({"method": "gbrt", "num_iterations": 1, "members": 2}, ("one seed",), {"members": 1}),
        # What nobody wrote has the learner's default: five seeds of 500 rounds, 500 trees.
        ({"method": "gbrt"}, ("one seed", "half the rounds"), {"members": 1, "num_iterations": 250}),
        ({"method": "extra_trees"}, ("a third of the trees",), {"trees": 166}),
    ],
)
def test_nothing_is_cut_to_less_than_one(
    member: dict[str, Any], cuts: tuple[str, ...], left: dict[str, int]
) -> None:
    plan = plan_fits(of_members(member, budget=1e-9), 1000, 5)

    assert cuts == plan.cuts
    assert left.items() <= plan.blend.members[0].settings.items()


def test_a_budget_that_just_suffices_cuts_nothing() -> None:
    exactly = plan_fits(of_members(MEMBERS[0], MEMBERS[1]), 1000, 5).seconds

    assert () == plan_fits(of_members(*MEMBERS, budget=exactly), 1000, 5).cuts
    assert plan_fits(of_members(*MEMBERS, budget=0.999 * exactly), 1000, 5).cuts


def test_the_member_that_takes_longest_goes_first_and_the_local_one_is_followed() -> None:
    without_it = plan_fits(of_members(NARROW, BETWEEN), 1000, 5)

    plan = plan_fits(of_members(NARROW, WIDE, BETWEEN, local=3, budget=without_it.seconds), 1000, 5)

    assert ("without linear on [raw, zscore, rank]",) == plan.cuts
    assert ["linear on raw", "linear on [raw, zscore]"] == [one.member for one in plan.members]
    assert (2, without_it.seconds) == (plan.blend.local, plan.seconds)


def test_no_more_documents_are_counted_than_are_learned_from() -> None:
    blend = of_members(NARROW, TREES := MEMBERS[1], documents=500)

    assert TREES == blend.members[1].to_table()
    assert plan_fits(blend, 1000, 5).seconds == plan_fits(blend, 500, 5).seconds
    assert plan_fits(blend, 400, 5).seconds < plan_fits(blend, 500, 5).seconds


def test_boosting_takes_time_for_each_round_document_and_number() -> None:
    """Seconds are a line in each of them; blocks of a list's own are not counted, but one block at least is."""
    few, many = (make("gbrt", {"num_iterations": rounds, "members": 2}) for rounds in (10, 40))
    alone = make("gbrt", {"num_iterations": 10, "members": 1})

    assert seconds_of(many, 1000, 5) == pytest.approx(4 * seconds_of(few, 1000, 5))
    assert seconds_of(few, 1000, 5) == pytest.approx(2 * seconds_of(alone, 1000, 5))
    nothing, once, twice = (seconds_of(few, number, 5) for number in (0, 1000, 2000))
    assert twice - once == pytest.approx(once - nothing)
    assert 0 < nothing < once
    narrow, wider, widest = (seconds_of(few, 1000, width) for width in (5, 10, 15))
    assert widest - wider == pytest.approx(wider - narrow)
    assert narrow < wider
    raw, listed = (
        seconds_of(make("linear", {"blocks": blocks}), 1000, 5) for blocks in ("raw", "[raw, list]")
    )
    assert raw == listed == seconds_of(make("linear", {"blocks": "list"}), 1000, 5)


@pytest.mark.parametrize(("local", "expected"), [(0, 0), (1, 1), (2, 0), (3, 2), (4, 3)])
def test_a_local_member_after_one_that_goes_has_a_smaller_number(local: int, expected: int) -> None:
    blend = of_members(NARROW, WIDE, BETWEEN, MEMBERS[1], local=local)

    left = without(blend, 1)

    assert expected == left.local
    assert (blend.members[0], *blend.members[2:]) == left.members
