"""The page of a tuning: the settings, what they lose against the best, and what each mattered."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from localrank_training.config import TrainingConfig
from localrank_training.report import Dots, Facts, Level, Line, Plot, Section, Table
from localrank_training.reporting.tuned import page_of_tuning
from localrank_training.tuning import Setting, Tuned

CONFIG = TrainingConfig.read(method="global")


def setting(mean: float, C: float, rounds: int | None = None, spread: float = 0.02) -> Setting:
    """Nine queries, all of which differ from those of the others but for the middle one."""
    local = mean + np.linspace(-spread, spread, 9)
    choices: dict[str, Any] = {"learner.C": C} | ({} if rounds is None else {"learner.rounds": rounds})
    return Setting(choices, CONFIG, local, np.full(9, 0.25))


def sections(*settings: Setting) -> list[Section]:
    page = page_of_tuning(Tuned(settings, "ndcg@10", 5), CONFIG, "command")
    return [part for part in page.parts if isinstance(part, Section)]


def test_the_first_figures_are_those_of_the_best_setting() -> None:
    page = page_of_tuning(Tuned((setting(0.5, 1.0), setting(0.4, 2.0)), "ndcg@10", 5), CONFIG, "command")

    facts = page.parts[0]
    assert isinstance(facts, Facts)
    assert [0.5, 0.25, 2, 9] == [pytest.approx(figure) for _, figure, _ in facts.facts]
    assert ["cross-validated", "NDCG@10", "in 5 folds"] == [note for *_, note in facts.facts[:3]]
    assert "The best settings are C = 1.0: NDCG@10 0.5000 over 9 queries." == page.lead


def test_settings_stand_beside_the_best_with_their_intervals() -> None:
    best, near, far = setting(0.5, 1.0), setting(0.49, 2.0, spread=0.05), setting(0.3, 3.0, spread=0.021)

    plot, table = sections(best, near, far)[0].parts

    assert isinstance(plot, Plot)
    dots, zero = plot.marks
    assert isinstance(dots, Dots)
    assert [0.0, -0.01, -0.2] == pytest.approx(dots.y)
    assert Level("", 0.0) == zero
    assert dots.low is not None
    assert dots.high is not None
    # Nothing differs from itself; Student's quantile of eight degrees of freedom for the others.
    half = 2.306004 * np.linspace(-0.03, 0.03, 9).std(ddof=1) / 3
    assert (dots.low[0], dots.high[0]) == (None, None)
    assert (dots.low[1], dots.high[1]) == pytest.approx((-0.01 - half, -0.01 + half), abs=1e-6)
    # The second one's interval reaches the line.
    assert plot.caption.startswith("Of the 2 next, 1 are not clearly worse")
    assert "95 % intervals over 9 queries" == plot.intervals
    assert ["C = 1.0", "C = 2.0", "C = 3.0"] == plot.x.categories
    assert isinstance(table, Table)
    assert ["C = 1.0", "C = 2.0"] == [row[0] for row in table.rows[:2]]
    assert [0.5, 0.25] == pytest.approx(table.rows[0][1:3])
    assert [0.49, 0.25] == pytest.approx(table.rows[1][1:3])
    assert ["+0.0000", f"−0.0100 ± {half:.4f}"] == [row[3] for row in table.rows[:2]]
    assert "trials.jsonl" not in table.caption


def test_fifteen_settings_are_shown_and_one_alone_is_not() -> None:
    many = sections(*(setting(0.9 - number / 100, float(number)) for number in range(17)))[0]

    table = many.parts[1]
    assert isinstance(table, Table)
    assert 15 == len(table.rows)
    assert table.caption.endswith(" 2 more settings are in `trials.jsonl`.")
    assert ["How to train with them"] == [one.title for one in sections(setting(0.5, 1.0))]


def test_a_setting_is_drawn_value_by_value_with_every_combination() -> None:
    found = sections(setting(0.6, 2.0, 1), setting(0.5, 1.0, 1), setting(0.3, 2.0, 1), setting(0.2, 1.0))

    # Of rounds there is one value only, so it is no effect.
    (matters,) = [one for one in found if one.title.startswith("What")]
    assert "What `learner.C` matters" == matters.title
    (plot,) = matters.parts
    assert isinstance(plot, Plot)
    dots, line = plot.marks
    assert isinstance(dots, Dots)
    assert isinstance(line, Line)
    assert ["1.0", "2.0"] == plot.x.categories
    assert ([1, 0, 1, 0], [0, 1]) == (dots.x, line.x)
    assert [0.6, 0.5, 0.3, 0.2] == pytest.approx(dots.y)
    assert [0.35, 0.45] == pytest.approx(line.y)
    assert 3.0 == dots.radius
    assert re.match(
        r"learner\.C = 2\.0 is best on average; from the worst value to the best it is \+0\.1000\.",
        plot.caption,
    )
