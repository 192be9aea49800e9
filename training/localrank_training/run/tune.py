"""Choosing settings of every table by cross-validation over queries.

Every list in the tables of a configuration is a choice, even for settings that `localrank train` takes one value of.
Combinations that differ in what `localrank train` would choose go to the engine together
(`localrank_training.run.choosing`), which keeps the figures of every fold in a journal: a run that was stopped goes on
where it was, and two settings can be compared on the same queries. No query is ever ranked by a model that has seen
it, and files that are not given are not looked at.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from localrank.settings import checked
from localrank_training.data.clouds import Clouds
from localrank_training.journal import Journal
from localrank_training.parallel.processes import silent
from localrank_training.run.choosing import Candidates, choices_of, edges, splits_of
from localrank_training.run.pipeline import learn_contract, lists_of, plan_of
from localrank_training.run.tables import tune_tables
from localrank_training.run.train import basis_of
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import RepresentationSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank.points.signature import Signatures
    from localrank_training.data.queries import QuerySet
    from localrank_training.parallel.processes import Progress
    from localrank_training.run.choosing import Choice
    from localrank_training.run.tables import TablesTrial

#: Tried where the configuration leaves nothing open.
SPACE: dict[str, dict[str, Any]] = {
    "representation": {"components": [2, 3, 5]},
    "clustering": {"method": ["complete_link", "none"], "clusters": [2, 4, 8]},
    "learner": {"method": "ranksvm", "C": [1.0, 10.0, 100.0]},
}

#: A tenth of the queries is held out to measure their routes.
_FEWEST_TO_HOLD_OUT = 20


@dataclass(frozen=True, slots=True, eq=False)
class TriedCombination:
    """One combination, and how its models did on the queries that they had not seen.

    Attributes:
        choices: ``{"table.name": value}`` of the settings that were open.
        config: all of it.
        local: ``[n_queries]`` the metric of the routed models.
        global_: ``[n_queries]`` of their global scorers.
    """

    choices: dict[str, Any]
    config: TrainingConfig
    local: Vector
    global_: Vector

    @property
    def mean(self) -> float:
        """Of the routed models."""
        return float(self.local.mean())


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one setting.

    Attributes:
        name: of the setting, ``table.name``.
        values: that it was given.
        means: of the metric over every combination with that value.
        best: of the metric among them.
        spread: the largest of ``means`` less the smallest.
    """

    name: str
    values: tuple[Any, ...]
    means: tuple[float, ...]
    best: tuple[float, ...]
    spread: float


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """Every setting that was tried, the best first."""

    settings: tuple[TriedCombination, ...]
    metric: str
    n_folds: int

    @property
    def best(self) -> TriedCombination:
        return self.settings[0]

    def effects(self) -> list[Effect]:
        """Return the effect of each setting, the largest first."""
        found = []
        for name in {name: None for setting in self.settings for name in setting.choices}:
            by_value: dict[str, list[TriedCombination]] = {}
            for setting in self.settings:
                if name in setting.choices:
                    by_value.setdefault(json.dumps(setting.choices[name]), []).append(setting)
            ordered = sorted(by_value.items(), key=lambda item: _as_number(item[0]))
            means = tuple(float(np.mean([one.mean for one in group])) for _, group in ordered)
            found.append(
                Effect(
                    name,
                    tuple(json.loads(text) for text, _ in ordered),
                    means,
                    tuple(max(one.mean for one in group) for _, group in ordered),
                    max(means) - min(means),
                )
            )
        return sorted(found, key=lambda effect: -effect.spread)


def edges_of(tuned: Tuned) -> list[str]:
    """Say which of the best settings lie at the edge of what was tried."""
    return edges([one.choices for one in tuned.settings], tuned.best.choices, tuned.best.config)


def combinations(tables: Mapping[str, Any], where: str = "configuration") -> list[list[Choice]]:
    """Return every combination of the settings that are lists, in groups that differ only in learner and clusters."""
    open_settings: list[tuple[str, str, list[Any]]] = [
        (table, name, value)
        for table, settings in tables.items()
        for name, value in (settings.items() if isinstance(settings, dict) else ())
        if isinstance(value, list) and name != "candidates" and (table != "learner" or name == "method")
    ]
    seen = set()
    found = []
    for values in itertools.product(*(value for _, _, value in open_settings)):
        settled = {name: dict(table) if isinstance(table, dict) else table for name, table in tables.items()}
        chosen = {}
        for (table, name, _), value in zip(open_settings, values, strict=True):
            settled[table][name] = chosen[f"{table}.{name}"] = value
        together = []
        for choice in choices_of(checked(TrainingConfig, settled, where)):
            named = {
                "clustering.clusters" if name == "clusters" else f"learner.{name}": value
                for name, value in choice.values.items()
            }
            several, config = chosen | named, choice.config
            if config.clustering.method == "none":
                # Queries are not compared, so their representation is not a choice.
                config = config.replace(representation=RepresentationSettings())
                several = {n: v for n, v in several.items() if not n.startswith("representation.")}
            text = json.dumps(config.to_json(), sort_keys=True)
            if text not in seen:
                seen.add(text)
                together.append(replace(choice, config=config, values=several))
        found.append(together)
    return [together for together in found if together]


def tune(
    queries: QuerySet,
    tables: Mapping[str, Any],
    out: Path,
    *,
    most: int = 100,
    workers: int = 1,
    progress: Progress = silent,
    where: str = "configuration",
) -> Tuned:
    """Try every combination, or a seeded sample of ``most``, on every fold.

    Args:
        queries: training queries; keep test queries out of here.
        tables: a configuration in which lists are choices.
        out: folder that keeps what is known already (``trials.jsonl``).
        most: combinations at most.
        workers: processes; the result does not depend on it.
        progress: told ``("trials", done, all)``.
        where: names the configuration in messages.
    """
    groups = combinations(tables, where)
    first = groups[0][0].config
    n_options = sum(map(len, groups))
    if n_options > most:
        drawn = set(np.random.default_rng(first.seed).choice(n_options, most, replace=False).tolist())
        number = itertools.count()
        groups = [[choice for choice in group if next(number) in drawn] for group in groups]
    splits = splits_of(queries, first)
    order = np.argsort(np.concatenate([split.held for split in splits]))
    journal = Journal(out / "trials.jsonl", *basis_of(queries))
    total = sum(map(len, groups)) * len(splits)
    settings: list[TriedCombination] = []
    for group in groups:
        before = len(settings) * len(splits)

        def advance(task: str, done: int, _: int, before: int = before) -> None:
            if task == "held-out models":
                progress("trials", before + done, total)

        found = Candidates(group, splits, journal=journal, workers=workers, progress=advance).figures()
        for choice, figures in zip(group, found, strict=True):
            local, global_ = (np.concatenate(one)[order] for one in (figures.local, figures.global_))
            settings.append(TriedCombination(choice.values, choice.config, local, global_))
    ranked = sorted(settings, key=lambda setting: -setting.mean)
    return Tuned(tuple(ranked), first.selection.metric, len(splits))


def tune_routing(
    queries: QuerySet, config: TrainingConfig, wanted: float
) -> tuple[TrainingConfig, tuple[TablesTrial, ...]]:
    """Choose how many hash tables of how many hyperplanes agree with the exact scan, for settled settings.

    Returns:
        The configuration with them, and what was tried; nothing is tried if nothing is looked up in tables, or
        if there are too few queries to hold any out.
    """
    if config.routing.method != "lsh" or len(queries) < _FEWEST_TO_HOLD_OUT:
        return config, ()
    lists, _ = lists_of(queries, config)
    plan = plan_of(Clouds(lists, learn_contract(lists, config)), config)
    trials = tune_tables(
        cast("Signatures", plan.points),
        plan.clustering.labels,
        wanted=wanted,
        similarity=config.similarity.form,
        seed=config.seed,
    )
    chosen = next(trial for trial in trials if trial.chosen)
    routing = replace(config.routing, tables=chosen.tables, planes=chosen.planes)
    return config.replace(routing=routing), trials


def _as_number(text: str) -> tuple[int, float, str]:
    value = json.loads(text)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return (0, float(value), "") if numeric else (1, 0.0, text)
