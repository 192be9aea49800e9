"""Choosing settings by cross-validation over queries.

Every list in the tables of a configuration is a choice, even for settings that `localrank train` takes one value of.
Each combination is built and examined on every fold; what came out is kept query by query in a file as soon as it is
known, so that a run that was stopped goes on where it was, and two settings can be compared on the same queries. No
query is ever examined by a model that has seen it, and files that are not given are not looked at.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from localrank.errors import InvalidData, PublishFailed
from localrank.metrics import Judgements
from localrank_training.choices import choices_of, edges, folds_of
from localrank_training.clouds import Clouds
from localrank_training.config import TrainingConfig
from localrank_training.evaluation import rank_all
from localrank_training.lsh_tuning import tune_tables
from localrank_training.parallel import each_in_parallel
from localrank_training.pipeline import build, learn_contract, lists_of, plan_of
from localrank_training.progress import silent
from localrank_training.steps import RepresentationSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from localrank.arrays import Indices, Vector
    from localrank.signature import Signatures
    from localrank_training.data.queries import QuerySet
    from localrank_training.lsh_tuning import TablesTrial
    from localrank_training.progress import Progress

#: Tried where the configuration leaves nothing open.
SPACE: dict[str, dict[str, Any]] = {
    "representation": {"components": [2, 3, 5]},
    "clustering": {"method": ["complete_link", "none"], "clusters": [2, 4, 8]},
    "learner": {"method": "ranksvm", "C": [1.0, 10.0, 100.0]},
}

#: A tenth of the queries is held out to measure their routes.
_FEWEST_TO_HOLD_OUT = 20


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
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

    settings: tuple[Setting, ...]
    metric: str
    n_folds: int

    @property
    def best(self) -> Setting:
        return self.settings[0]

    def effects(self) -> list[Effect]:
        """Return the effect of each setting, the largest first."""
        found = []
        for name in {name: None for setting in self.settings for name in setting.choices}:
            by_value: dict[str, list[Setting]] = {}
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


def combinations(
    tables: Mapping[str, Any], where: str = "configuration"
) -> list[tuple[dict[str, Any], TrainingConfig]]:
    """Return every combination of the settings that are lists, with the choices that were made in each."""
    open_settings: list[tuple[str, str, list[Any]]] = [
        (table, name, value)
        for table, settings in tables.items()
        for name, value in (settings.items() if isinstance(settings, dict) else ())
        if isinstance(value, list) and name != "candidates" and (table != "learner" or name == "method")
    ]
    found: dict[str, tuple[dict[str, Any], TrainingConfig]] = {}
    for values in itertools.product(*(value for _, _, value in open_settings)):
        settled = {name: dict(table) if isinstance(table, dict) else table for name, table in tables.items()}
        chosen = {}
        for (table, name, _), value in zip(open_settings, values, strict=True):
            settled[table][name] = chosen[f"{table}.{name}"] = value
        for choice in choices_of(TrainingConfig.from_tables(settled, where)):
            named = {
                "clustering.clusters" if name == "clusters" else f"learner.{name}": value
                for name, value in choice.values.items()
            }
            several, config = chosen | named, choice.config
            if config.clustering.method == "none":
                # Queries are not compared, so their representation is not a choice.
                config = config.replace(representation=RepresentationSettings())
                several = {n: v for n, v in several.items() if not n.startswith("representation.")}
            found.setdefault(json.dumps(config.to_json(), sort_keys=True), (several, config))
    return list(found.values())


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
    options = combinations(tables, where)
    first = options[0][1]
    if len(options) > most:
        drawn = np.random.default_rng(first.seed).choice(len(options), most, replace=False)
        options = [options[i] for i in sorted(drawn)]
    folds = folds_of(len(queries), first.selection.folds, first.seed)
    known = _Known(out, queries, first.selection.metric, len(folds))
    wanted = [(config, fold) for _, config in options for fold in range(len(folds))]
    missing = [(config, fold) for config, fold in wanted if known.get(config, fold) is None]
    done = len(wanted) - len(missing)
    # Every piece takes its own part. So only one set of queries is sent to other processes.
    pieces = [(queries, folds[fold], config) for config, fold in missing]
    results = each_in_parallel(_examined, pieces, workers=workers)
    for (config, fold), (local, global_) in zip(missing, results, strict=True):
        known.add(config, fold, local, global_)
        done += 1
        progress("trials", done, len(wanted))

    order = np.argsort(np.concatenate(folds))
    settings = []
    for choices, config in options:
        figures = [known[config, fold] for fold in range(len(folds))]
        routed, globally = (np.concatenate([pair[i] for pair in figures])[order] for i in range(2))
        settings.append(Setting(choices, config, routed, globally))
    ranked = sorted(settings, key=lambda setting: -setting.mean)
    return Tuned(tuple(ranked), first.selection.metric, len(folds))


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


def _examined(queries: QuerySet, fold: Indices, config: TrainingConfig) -> tuple[list[float], list[float]]:
    """Build on all queries but the fold, rank these, and measure both scorers query by query."""
    lesson, exam = queries.select(np.setdiff1d(np.arange(len(queries)), fold)), queries.select(fold)
    (learner,) = config.learner.candidates()
    ranked = rank_all(build(lesson, config, learner).ranker, exam)
    judged = Judgements(exam.labels, exam.offsets)
    local, global_ = (
        judged.per_query(scores, config.selection.metric).tolist()
        for scores in (ranked.scores, ranked.global_scores)
    )
    return local, global_


class _Known:
    """What has been found out already, in a file that grows line by line."""

    def __init__(self, out: Path, queries: QuerySet, metric: str, n_folds: int) -> None:
        from localrank_training.publishing import fingerprint

        self._basis = f"{fingerprint(queries)} {metric} {n_folds}"
        self._path = out / "trials.jsonl"
        self._figures: dict[str, tuple[list[float], list[float]]] = {}
        try:
            out.mkdir(parents=True, exist_ok=True)
            lines = self._path.read_text().split("\n") if self._path.exists() else []
            if lines and lines[-1]:
                # The line that was being written when an earlier run was stopped.
                with self._path.open("r+") as file:
                    file.truncate(sum(len(line) + 1 for line in lines[:-1]))
        except OSError as error:
            raise PublishFailed(f"{self._path}: cannot be written: {error.strerror}") from None
        for number, line in enumerate(lines[:-1], 1):
            try:
                entry = json.loads(line)
                self._figures[entry["key"]] = (entry["local"], entry["global"])
            except (ValueError, KeyError, TypeError):
                raise InvalidData(
                    f"{self._path}:{number}: expected one finished trial, found {line[:60]!r}; delete the "
                    "file to start again"
                ) from None

    def get(self, config: TrainingConfig, fold: int) -> tuple[list[float], list[float]] | None:
        return self._figures.get(self._key(config, fold))

    def __getitem__(self, trial: tuple[TrainingConfig, int]) -> tuple[list[float], list[float]]:
        return self._figures[self._key(*trial)]

    def add(self, config: TrainingConfig, fold: int, local: list[float], global_: list[float]) -> None:
        key = self._key(config, fold)
        self._figures[key] = (local, global_)
        entry = {
            "key": key,
            "fold": fold,
            "configuration": config.to_json(),
            "local": local,
            "global": global_,
        }
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _key(self, config: TrainingConfig, fold: int) -> str:
        text = f"{self._basis} {fold} {json.dumps(config.to_json(), sort_keys=True)}"
        return hashlib.sha256(text.encode()).hexdigest()


def _as_number(text: str) -> tuple[int, float, str]:
    value = json.loads(text)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return (0, float(value), "") if numeric else (1, 0.0, text)
