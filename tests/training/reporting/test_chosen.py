"""What was chosen: members, trials and the plan, from what a run found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from localrank_training.config import TrainingConfig
from localrank_training.report import Folded, Items, Table
from localrank_training.reporting.chosen import chosen


def report(**more: Any) -> Any:
    return SimpleNamespace(
        **{"blend": None, "trials": (), "notes": (), "how": "5-fold cross-validation", **more}
    )


def run(found: Any = None, method: str = "global") -> Any:
    return SimpleNamespace(config=TrainingConfig.read(method=method), cross_fitted=found)


def found(seconds: float = 12.4, budget: float | None = None, cuts: tuple[str, ...] = ()) -> Any:
    plan = SimpleNamespace(
        seconds=seconds,
        blend=SimpleNamespace(budget=budget),
        cuts=cuts,
        table=lambda: ("Plan", ("a", "b"), [("x", 1)]),
    )
    return SimpleNamespace(plan=plan, tried=None, rehearsal=None, learner=SimpleNamespace(members=[1, 2, 3]))


def rival(name: str, weight: float | None) -> Any:
    return SimpleNamespace(name=name, weight=weight, microseconds=7.6)


def trial(setting: str, value: float, *, taken: bool = False) -> Any:
    return SimpleNamespace(setting=setting, value=value, chosen=taken)


def tables(section: Any) -> list[Table]:
    return [part for part in section.parts if isinstance(part, Table)]


@pytest.mark.parametrize(
    ("weights", "shares", "said"),
    [
        ([3.0, 1.0, 0.0], ["75%", "25%", "0%"], ["of 2 members'", "One member has weight 0"]),
        ([0.0, 1.0, 0.0], ["0%", "100%", "0%"], ["of 1 members'", "2 members have weight 0"]),
        ([1.0, 3.0, None], ["25%", "75%", "left out"], ["of 2 members'", "1 members were left out"]),
        ([1.0, 1.0, 2.0], ["25%", "25%", "50%"], ["of 3 members'"]),
    ],
)
def test_members_have_shares_of_the_weight(
    weights: list[float | None], shares: list[str], said: list[str]
) -> None:
    blend = SimpleNamespace(
        rivals=[rival(name, weight) for name, weight in zip("abc", weights, strict=True)], frontier=()
    )

    section = chosen(report(blend=blend), run(found()))

    assert [(f"`{name}`", "", share, 8) for name, share in zip("abc", shares, strict=True)] == tables(
        section
    )[0].rows
    text = str(section.parts[0])
    assert all(one in text for one in said)
    assert len(said) - 1 == sum(one in text for one in ("weight 0", "left out to stay"))


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_fewer_members_are_shown_if_there_is_a_choice(count: int) -> None:
    steps = [((0, 1, 2), 30.6, 0.5), ((0, 1), 20.4, 0.52), ((0,), 10.0, 0.4)][:count]
    frontier = [
        SimpleNamespace(members=members, microseconds=cost, value=value) for members, cost, value in steps
    ]
    blend = SimpleNamespace(rivals=[rival("a", 1.0)], frontier=frontier)

    folded = [part for part in chosen(report(blend=blend), run(found())).parts if isinstance(part, Folded)]

    assert (2 if count > 1 else 1) == len(folded)
    if count > 1:
        (table,) = folded[0].parts
        assert isinstance(table, Table)
        assert [(3, 31, 0.5), (2, 20, 0.52), (1, 10, 0.4)][:count] == table.rows
        assert table.caption.startswith("2 members have the best value")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({}, "about 12 processor seconds, without a budget. Nothing was cut."),
        ({"budget": 12.4}, "about 12 processor seconds of a budget of 12.4. Nothing was cut."),
        ({"budget": 12.0, "cuts": ("trees on raw", "rounds")},
         ("about 12 processor seconds, more than its budget of 12: less cannot be fitted. To fit, this was cut: "
          "`trees on raw`, rounds.")),
    ],
)  # fmt: skip
def test_the_plan_says_what_it_takes_and_what_was_cut(plan: dict[str, Any], said: str) -> None:
    few, sentence, folded = chosen(report(), run(found(**plan))).parts

    assert str(few).startswith("A blend of 3 members with equal weights.")
    assert str(sentence).endswith(said)
    assert isinstance(folded, Folded)
    (table,) = folded.parts
    assert isinstance(table, Table)
    assert [("`x`", 1)] == table.rows


def test_twenty_trials_are_listed_and_the_chosen_one_whatever_its_place() -> None:
    trials = [trial(f"C = {number}", number / 100, taken=number == 1) for number in range(30)]

    (table,) = tables(chosen(report(trials=tuple(trials)), run()))

    assert [
        *((f"C = {number}", number / 100, "") for number in range(29, 9, -1)),
        ("C = 1", 0.01, "chosen"),
    ] == table.rows
    assert "How they were measured: 5-fold cross-validation. The 9 worst are left out." == table.caption
    assert ("settings", "NDCG@10", "") == table.header


def test_all_of_twenty_trials_are_listed_once() -> None:
    trials = [trial(f"C = {number}", number / 100, taken=number == 1) for number in range(20)]

    (table,) = tables(chosen(report(trials=tuple(trials)), run()))

    assert 20 == len(table.rows)
    assert "left out" not in table.caption


@pytest.mark.parametrize(("count", "more"), [(25, []), (27, ["2 more notes are in the manifest."])])
def test_twenty_five_notes_are_listed(count: int, more: list[str]) -> None:
    section = chosen(report(notes=tuple(f"note {number}." for number in range(count))), run())

    (items,) = [part for part in section.parts if isinstance(part, Items)]
    assert [*(f"Note {number}." for number in range(25)), *more] == items.texts


def test_the_recipe_names_the_steps() -> None:
    (alone,) = chosen(report(), run()).parts
    (clustered,) = chosen(report(), run(method="localrank")).parts

    assert "One model for all queries, learned by `" in str(alone)
    assert (
        "Queries are represented by `pca`, compared by `eq5`, clustered by `complete_link` and routed by `lsh`; each "
        "cluster's scorer is learned by `svmmap`."
    ) == clustered
