"""The choices that a configuration leaves open, and the trials that settle them.

A list where a learner takes one value is a choice, and so is ``[clustering] candidates``. `localrank_training.training`
and `localrank_training.tuning` make them on queries that no model of theirs has seen.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData
from localrank_training.learners.catalogue import LEARNERS, make

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Indices, Vector
    from localrank_training.learners.role import Learner

__all__ = ["Trial", "candidates", "differing", "expanded", "folds_of", "settings_of", "trials_of"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting that was tried, and the mean of the selection metric over the held-out queries."""

    step: str
    setting: str
    value: float
    chosen: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def candidates(method: str, settings: Mapping[str, Any]) -> list[Learner]:
    """Return a learner for each combination of the settings that are lists."""
    return [make(method, combination) for combination in expanded(method, settings)]


def expanded(method: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each combination of the settings that are lists, except where a list is one value."""
    make(method, {})  # an unknown method is named before its settings are looked at
    hints = get_type_hints(LEARNERS[method])
    for name, value in settings.items():
        if isinstance(value, list | tuple) and not value:
            raise InvalidConfiguration(
                f"learner {method!r}: {name}: expected at least one value to choose from, found none"
            )
    choices = {
        name: value if isinstance(value, list | tuple) and not _takes_list(hints.get(name)) else [value]
        for name, value in settings.items()
    }
    return [
        dict(zip(choices, combination, strict=True)) for combination in itertools.product(*choices.values())
    ]


def folds_of(n_queries: int, wanted: int, seed: int) -> list[Indices]:
    """Return the queries of each fold of a cross-validation, a seeded partition."""
    n_folds = min(wanted, n_queries)
    if n_folds < 2:
        raise InvalidData(f"expected at least 2 queries to train on, found {n_queries}")
    shuffled = np.random.default_rng(seed).permutation(n_queries)
    return [np.sort(shuffled[i::n_folds]) for i in range(n_folds)]


def trials_of(step: str, names: Sequence[str], values: Vector, chosen: int) -> list[Trial]:
    """Return a trial for each name and value."""
    return [
        Trial(step, name, float(value), i == chosen)
        for i, (name, value) in enumerate(zip(names, values, strict=True))
    ]


def settings_of(learner: Learner) -> dict[str, Any]:
    """Return a learner's settings by name."""
    return {field.name: getattr(learner, field.name) for field in fields(learner)}  # type: ignore[arg-type]


def differing(learner: Learner, learners: Sequence[Learner]) -> str:
    """Name the settings in which the candidates differ."""
    mine = settings_of(learner)
    return ", ".join(
        f"{name} = {value}"
        for name, value in mine.items()
        if len({repr(settings_of(o)[name]) for o in learners}) > 1
    )


def _takes_list(hint: object) -> bool:
    return get_origin(hint) in {tuple, list} or any(_takes_list(option) for option in get_args(hint))
