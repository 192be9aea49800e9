"""The choices that a configuration leaves open, and the trials that settle them.

A list where a learner takes one value is a choice, and so are the numbers of clusters. They are made together: the best
``C`` of one global model need not be the best for five clusters. `localrank_training.training` and
`localrank_training.tuning` make them on queries that their models have not seen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank.settings import settings_of, values_of
from localrank_training.learners.settings import LearnerSettings
from localrank_training.steps import ClusteringSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Indices
    from localrank_training.config import TrainingConfig
    from localrank_training.learners.role import Learner


@dataclass(frozen=True, slots=True)
class Trial:
    """One combination that was tried, and the mean of the selection metric over the held-out queries."""

    setting: str
    value: float
    chosen: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One combination of the settings that a configuration leaves open.

    Attributes:
        config: with these settings.
        learner: learns its scorers.
        number: of the learner among the candidates.
        values: ``{setting: value}`` of the open settings only.
    """

    config: TrainingConfig
    learner: Learner
    number: int
    values: dict[str, Any]

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())


def choices_of(config: TrainingConfig) -> list[Choice]:
    """Return every combination, those of fewer clusters first."""
    learners = config.learner.candidates()
    combinations = [values_of(learner) for learner in learners]
    open_settings = [
        name for name in combinations[0] if len({repr(settings[name]) for settings in combinations}) > 1
    ]
    sizes = config.clustering.sizes
    options = config.clustering.options
    found = []
    for size in sorted(set(sizes)) or (None,):
        for settled in options if size != 1 else ({},):
            named: dict[str, Any] = {"clusters": size} if len(sizes) > 1 else {}
            if len(options) > 1:
                named |= settled
            for number, (learner, settings) in enumerate(zip(learners, combinations, strict=True)):
                chosen = config.replace(learner=LearnerSettings(config.learner.method, settings))
                values = {name: settings[name] for name in open_settings} | named
                found.append(Choice(chosen.with_clusters(size, **settled), learner, number, values))
    return found


def edges(
    tried_values: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any], config: TrainingConfig
) -> list[str]:
    """Return a sentence for each chosen number that is the smallest or largest one tried: better ones may lie beyond
    it.

    This does not count if the setting allows no smaller or larger number, or if only two were tried.

    Args:
        tried_values: the open settings of every combination, ``clusters``, those of the learner, or ``table.setting``.
        chosen: those of the best.
        config: of the best.
    """
    found = []
    for name, value in chosen.items():
        tried = {values[name] for values in tried_values if name in values}
        if len(tried) < 3 or not all(
            isinstance(one, int | float) and not isinstance(one, bool) for one in tried
        ):
            continue
        for edge, bound, word in ((min(tried), "low", "smallest"), (max(tried), "high", "largest")):
            if value == edge != _bound(config, name, bound):
                found.append(
                    f"{name} = {value:g} is the {word} value that was tried; "
                    f"{'smaller' if bound == 'low' else 'larger'} ones may be better"
                )
    return found


def _bound(config: TrainingConfig, name: str, bound: str) -> float | None:
    """Return the inclusive bound of a number that may be set."""
    table, _, setting = name.rpartition(".")
    settings = {
        "": (*settings_of(config.learner.kind), *settings_of(ClusteringSettings)),
        "learner": settings_of(config.learner.kind),
    }
    known = settings[table] if table in settings else settings_of(type(getattr(config, table)))
    limit: float | None = {one.name: one.bounds for one in known}[setting].get(bound)
    return limit


def folds_of(n_queries: int, wanted: int, seed: int) -> list[Indices]:
    """Return the queries of each fold of a cross-validation, a seeded partition."""
    n_folds = min(wanted, n_queries)
    if n_folds < 2:
        raise InvalidData(f"expected at least 2 queries to train on, found {n_queries}")
    shuffled = np.random.default_rng(seed).permutation(n_queries)
    return [np.sort(shuffled[i::n_folds]) for i in range(n_folds)]
