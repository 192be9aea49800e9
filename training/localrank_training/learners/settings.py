"""How a learner is written in a configuration: its name, and its settings; a list as a value is a choice.

    [learner]
    method = "ranksvm"
    C = [0.1, 1.0, 10.0]

A setting that is itself a list, such as the members of a blend, is one value.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args, get_origin

from localrank.errors import InvalidConfiguration
from localrank.settings import alias, settings_of
from localrank_training.learners.catalogue import LEARNERS, make

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank_training.learners.role import Learner


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """A learner with its choices.

    Attributes:
        method: its name.
        settings: the settings that were written, and the learner's own choices (`Learner.grid`) for the others.
    """

    method: str = "ranksvm"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", {**self.kind.grid, **self.settings})

    @property
    def kind(self) -> type[Learner]:
        """The class of its learners."""
        return LEARNERS.named(self.method)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> LearnerSettings:
        """Check a table of a configuration; every combination of its choices must be a learner."""
        settings = dict(table)
        method = settings.pop("method", cls().method)
        if not isinstance(method, str):
            raise InvalidConfiguration(f"{where}: method: expected a name, found {method!r}")
        # The learner itself does not know that its name is a setting here.
        for name in settings:
            if (hint := alias(name, ("method",))) and name not in _names(LEARNERS.named(method)):
                raise InvalidConfiguration(f"{where}: unknown setting {name!r}{hint}")
        try:
            made = cls(method, settings)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"{where}: {error}") from None
        made.candidates(where)
        return made

    def to_table(self) -> dict[str, Any]:
        """Undo `from_table`."""
        return {"method": self.method, **self.settings}

    def candidates(self, where: str = "") -> list[Learner]:
        """Return a learner for each combination of the choices.

        Raises:
            InvalidConfiguration: a setting is unknown, of the wrong type or out of range.
        """
        return [make(self.method, one, where) for one in self.combinations(where)]

    def combinations(self, where: str = "") -> list[dict[str, Any]]:
        """Return the settings of each candidate."""
        lists = {one.name for one in settings_of(self.kind) if _takes_list(one.hint)}
        choices = {
            name: list(value) if isinstance(value, list | tuple) and name not in lists else [value]
            for name, value in self.settings.items()
        }
        for name, values in choices.items():
            if not values:
                raise InvalidConfiguration(
                    f"{where or f'learner {self.method!r}'}: {name}: expected at least one value to choose from, found none"
                )
        return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def _names(kind: type[Learner]) -> set[str]:
    return {one.name for one in settings_of(kind)}


def _takes_list(hint: object) -> bool:
    return get_origin(hint) in {tuple, list} or any(_takes_list(option) for option in get_args(hint))
