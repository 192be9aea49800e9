"""The page of a tuning: which settings are best, by how much, and which of them mattered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank._version import __version__
from localrank_training.report import Axis, Dots, Facts, Folded, Level, Line, Page, Plot, Pre, Section, Table
from localrank_training.reporting.differences import INTERVALS, called, signed, within
from localrank_training.toml_text import to_toml
from localrank_training.tuning_report import against_best, named

if TYPE_CHECKING:
    from localrank_training.config import TrainingConfig
    from localrank_training.report import Part
    from localrank_training.tuning import Effect, Tuned

#: Settings that are listed; all of them are in ``trials.jsonl``.
_SHOWN = 15


def page_of_tuning(tuned: Tuned, best: TrainingConfig, command: str) -> Page:
    """Return the page; ``best`` is the configuration that was made of the best setting."""
    metric, first = called(tuned.metric), tuned.best
    parts: list[Part] = [
        Facts(
            [
                (metric, first.mean, "cross-validated"),
                ("its global scorer", float(first.global_.mean()), metric),
                ("settings", len(tuned.settings), f"in {tuned.n_folds} folds"),
                ("queries", len(first.local), "each examined by models that had not seen it"),
            ]
        ),
        *_settings(tuned),
        *(_effect(one, tuned) for one in tuned.effects() if len(one.values) > 1),
        Section(
            "How to train with them",
            [Pre(command), Folded("The best settings, as in `best.toml`", [Pre(to_toml(best.to_json()))])],
        ),
    ]
    return Page(
        "Tuning of settings",
        f"The best settings are {named(first)}: {metric} {first.mean:.4f} over {len(first.local):,} queries.",
        parts,
        foot=f"LocalRank {__version__}. This file asks no other host for anything.",
    )


def _settings(tuned: Tuned) -> list[Part]:
    if len(tuned.settings) < 2:
        return []
    shown = list(zip(tuned.settings, against_best(tuned), strict=True))[:_SHOWN]
    more = len(tuned.settings) - len(shown)
    equal = sum(one.interval is None or one.interval.high >= 0 for _, one in shown[1:])
    metric = called(tuned.metric)
    mark = Dots(
        "",
        list(range(len(shown))),
        [one.difference for _, one in shown],
        [None if one.interval is None else one.interval.low for _, one in shown],
        [None if one.interval is None else one.interval.high for _, one in shown],
    )
    plot = Plot(
        "Losses of other settings against the best",
        f"Of the {len(shown) - 1} next, {equal} are not clearly worse: their intervals reach the line.",
        x=Axis("settings", categories=[named(one) for one, _ in shown]),
        y=Axis(f"less than the best in {metric}"),
        marks=[mark, Level("", 0.0)],
        intervals=INTERVALS.format(len(tuned.best.local)),
        sideways=True,
        numbers=False,
    )
    table = Table(
        "Settings, best first",
        ("settings", metric, "its global scorer", "against the best"),
        [
            (
                named(one),
                one.mean,
                float(one.global_.mean()),
                within(lost.difference, lost.interval),
            )
            for one, lost in shown
        ],
        "The best setting was chosen by these figures, so its own figure is too good. The number after ± is "
        "half of the 95 % interval." + (f" {more} more settings are in `trials.jsonl`." if more else ""),
    )
    return [Section("Which settings are best", [plot, table])]


def _effect(effect: Effect, tuned: Tuned) -> Section:
    metric = called(tuned.metric)
    places = {repr(value): place for place, value in enumerate(effect.values)}
    found = [one for one in tuned.settings if effect.name in one.choices]
    best = max(range(len(effect.values)), key=lambda place: effect.means[place])
    plot = Plot(
        f"{metric} by {effect.name}",
        f"{effect.name} = {effect.values[best]} is best on average; from the worst value to the best it is "
        f"{signed(effect.spread)}. A dot is one combination; the line is the mean of each value.",
        x=Axis(effect.name, categories=[str(value) for value in effect.values]),
        y=Axis(metric),
        marks=[
            Dots(
                "combination",
                [places[repr(one.choices[effect.name])] for one in found],
                [one.mean for one in found],
                radius=3.0,
            ),
            Line("mean", list(range(len(effect.values))), list(effect.means)),
        ],
    )
    return Section(f"What `{effect.name}` matters", [plot])
