"""The pages of an assessment, an evaluation and a tuning, and the best settings of the latter as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank_training.data.writing import whole_file
from localrank_training.report.figures import against_best, setting_name
from localrank_training.report.html import Facts, Folded, Page, Pre, Section, Table
from localrank_training.report.parts import (
    FOOT,
    INTERVALS,
    advised,
    again,
    called,
    data,
    differences,
    dots,
    gained,
    means,
    named,
    signed,
)
from localrank_training.report.plots import Axis, Dots, Level, Line, Plot
from localrank_training.report.quality import quality
from localrank_training.settings.config import to_toml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank.metrics import Measured
    from localrank_training.data.inspection import Inspection
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.evaluation.evaluating import Evaluation
    from localrank_training.report.assessment import Assessment
    from localrank_training.report.figures import Sides
    from localrank_training.report.html import Part
    from localrank_training.run.tune import Effect, Tuned
    from localrank_training.settings.config import TrainingConfig

_LEVEL = 0.05
#: Clusters and settings that are listed; all settings are in ``trials.jsonl``.
_CLUSTERS, _SHOWN = 25, 15


def page_of_assessment(found: Assessment, inspection: Inspection, command: str) -> Page:
    """Return the page."""
    measured = found.report.local[-1]
    *said, conclusion = map(named, found.sentences)
    return Page(
        "Assessment of judged queries",
        conclusion,
        [
            Facts(
                [
                    ("queries", found.of, f"{found.queries:,} of them were learned from"),
                    (called(measured.name), measured.mean, "of the quick model, on queries it had not seen"),
                ]
            ),
            *said,
            quality(found.report, found.trained.held_out),
            advised(found.advice),
            data(inspection, found.leaks),
            again(command),
        ],
        foot=FOOT,
    )


def page_of_evaluation(evaluations: Sequence[Evaluation], sides: Sides, command: str) -> Page:
    """Return the page."""
    candidate, comparisons, names = sides.candidate, sides.comparisons, sides.names
    first = candidate[0]
    parts: list[Part] = [
        Facts(
            [
                (called(one.name), one.mean, f"{one.convention.name}, {one.n_queries:,} queries")
                for one in candidate
                if one.convention.name == first.convention.name
            ]
        )
    ]
    for convention in dict.fromkeys(one.convention.name for one in candidate):
        parts += [_convention(convention, sides)]
    parts += [_routes(one) for one in evaluations]
    parts.append(again(command))
    return Page(
        f"Evaluation of {names[0]}" + (f" beside {names[1]}" if comparisons else ""),
        _lead(candidate, comparisons, names),
        parts,
        foot=FOOT,
    )


def _lead(candidate: Sequence[Measured], comparisons: Sequence[Comparison], names: tuple[str, str]) -> str:
    if not comparisons:
        return f"{names[0]}: {called(candidate[0].name)} {candidate[0].mean:.4f}, with nothing to compare."
    clear = sorted((one for one in comparisons if one.p_holm <= _LEVEL), key=lambda one: one.p_holm)
    if not clear:
        return f"No figure of {names[0]} differs from that of {names[1]} by more than chance."
    most = clear[0]
    word = "better" if most.difference > 0 else "worse"
    both = any((one.difference > 0) != (most.difference > 0) for one in clear)
    mixed = ", but not in every figure" if both else ""
    return (
        f"{names[0]} is {word} than {names[1]}{mixed}: {called(most.metric)} {most.candidate:.4f} instead of {most.baseline:.4f} "
        f"(p = {most.p_holm:.2g}); {len(clear)} of {len(comparisons)} differences are more than chance."
    )


def _convention(convention: str, sides: Sides) -> Section:
    candidate, baseline, comparisons, names, _ = sides
    mine = [one for one in candidate if one.convention.name == convention]
    theirs = {one.name: one for one in baseline if one.convention.name == convention}
    compared = {one.metric: one for one in comparisons if one.convention == convention}
    title = f"Figures by the convention {convention}"
    basis = (
        f"{mine[0].n_queries:,} queries, {mine[0].n_empty:,} of them empty, {mine[0].convention.empty_text}."
    )
    if not compared:
        rows = [(called(one.name), one.per_query[~np.isnan(one.per_query)]) for one in mine]
        plot = means(
            "Means over queries",
            "From 0 to 1; 1 is the best order there is.",
            rows,
            unit="mean over queries",
            names="metric",
            intervals=INTERVALS.format(mine[0].n_queries),
        )
        return Section(title, [basis, plot])
    plot = differences(
        f"{names[0]} less {names[1]}",
        f"Right of the line {names[0]} is better.",
        [("difference", [(called(name), one) for name, one in compared.items()])],
        unit="difference",
        names="metric",
    )
    table = Table(
        f"{names[0]} beside {names[1]}",
        ("metric", names[0], names[1], "difference", "p (Holm)", "better", "equal", "worse"),
        [
            (
                called(one.name),
                one.mean,
                theirs[one.name].mean,
                gained(compared[one.name]),
                compared[one.name].p_holm,
                compared[one.name].wins,
                compared[one.name].ties,
                compared[one.name].losses,
            )
            for one in mine
            if one.name in compared
        ],
        "The number after ± is half of the 95 % interval. p is adjusted for the number of figures.",
    )
    return Section(title, [basis, plot, table])


def _routes(found: Evaluation) -> Section:
    routing = found.routing
    title = f"Routes of {found.name}"
    if not routing.clusters:
        return Section(title, ["It is one global model, without clusters."])
    n = max(sum(routing.clusters) + routing.to_global, 1)
    fallbacks = "".join(f" {reason}: {count:,}." for reason, count in routing.fallbacks.items())
    said = (
        f"Routed by `{routing.strategy}` to {sum(map(bool, routing.clusters))} of {len(routing.clusters)} clusters; the global scorer "
        f"answered {routing.to_global / n:.1%}.{fallbacks}"
    )
    figure = found.local[0]
    order = sorted(found.clusters, key=lambda one: -one.queries)[:_CLUSTERS]
    rows = [
        (
            "global" if one.cluster is None else str(one.cluster),
            one.queries,
            f"{one.queries / n:.1%}",
            one.local,
            one.global_,
        )
        for one in order
    ]
    more = len(found.clusters) - len(order)
    table = Table(
        "Clusters, by number of queries",
        ("cluster", "queries", "share", called(figure.name), "its global scorer"),
        rows,
        f"{more} more clusters are left out." if more else "",
    )
    return Section(title, [said, table])


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
        *(Section(f"What `{one.x.label}` matters", [one]) for one in effect_plots(tuned)),
        Section(
            "How to train with them",
            [Pre(command), Folded("The best settings, as in `best.toml`", [Pre(to_toml(best.to_json()))])],
        ),
    ]
    return Page(
        "Tuning of settings",
        f"The best settings are {setting_name(first)}: {metric} {first.mean:.4f} over {len(first.local):,} queries.",
        parts,
        foot=FOOT,
    )


def _settings(tuned: Tuned) -> list[Part]:
    if len(tuned.settings) < 2:
        return []
    shown = list(zip(tuned.settings, against_best(tuned), strict=True))[:_SHOWN]
    more = len(tuned.settings) - len(shown)
    equal = sum(one.interval is None or one.interval.high >= 0 for _, one in shown[1:])
    metric = called(tuned.metric)
    plot = Plot(
        "Losses of other settings against the best",
        f"Of the {len(shown) - 1} next, {equal} are not clearly worse: their intervals reach the line.",
        x=Axis("settings", categories=[setting_name(one) for one, _ in shown]),
        y=Axis(f"less than the best in {metric}"),
        marks=[dots("", [(one.difference, one.interval) for _, one in shown]), Level("", 0.0)],
        intervals=INTERVALS.format(len(tuned.best.local)),
        sideways=True,
        numbers=False,
    )
    table = Table(
        "Settings, best first",
        ("settings", metric, "its global scorer", "against the best"),
        [
            (
                setting_name(one),
                one.mean,
                float(one.global_.mean()),
                gained(lost),
            )
            for one, lost in shown
        ],
        "The best setting was chosen by these figures, so its own figure is too good. The number after ± is "
        "half of the 95 % interval." + (f" {more} more settings are in `trials.jsonl`." if more else ""),
    )
    return [Section("Which settings are best", [plot, table])]


def effect_plots(tuned: Tuned) -> list[Plot]:
    """Return a plot of each setting that has several values: every combination as a dot, the mean of each value as a line."""
    return [_effect(one, tuned) for one in tuned.effects() if len(one.values) > 1]


def _effect(effect: Effect, tuned: Tuned) -> Plot:
    metric = called(tuned.metric)
    places = {repr(value): place for place, value in enumerate(effect.values)}
    found = [one for one in tuned.settings if effect.name in one.choices]
    best = max(range(len(effect.values)), key=lambda place: effect.means[place])
    return Plot(
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


def write_best(tuned: Tuned, path: Path, config: TrainingConfig | None = None) -> None:
    """Write the best settings, or what was made of them, as a configuration for ``localrank train``."""
    best = tuned.best
    head = (
        f"# {tuned.metric} {best.mean:.4f} (its global scorer {best.global_.mean():.4f}) over {len(best.local)} queries,\n"
        f"# cross-validated in {tuned.n_folds} folds; the best of {len(tuned.settings)} settings.\n"
    )
    with whole_file(path) as file:
        file.write(head + to_toml((config or best.config).to_json()))
