"""Calls that a command makes, kept in place of the work."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

#: Every option that names columns; `Columns("l", "q", "i", "w", "p", ("a", "b"), True)` is the same.
COLUMNS = [
    "--label",
    "l",
    "--qid",
    "q",
    "--id",
    "i",
    "--weight",
    "w",
    "--position",
    "p",
    "--ignore",
    "a,b",
    "--sparse",
]


class Calls:
    """Puts itself in place of functions; keeps what they were given, by name, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.order: list[str] = []
        self.given: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def answer(self, target: str, value: Any) -> None:
        """Let the function at ``module.name``, or the method at ``module.Class.name``, answer this."""
        path, _, name = target.rpartition(".")
        module, _, kind = path.rpartition(".")
        place = getattr(importlib.import_module(module), kind) if kind[0].isupper() else None

        def called(*arguments: Any, **options: Any) -> Any:
            self.order.append(name)
            self.given[name] = arguments, options
            return value

        if place is None:
            self._monkeypatch.setattr(importlib.import_module(path), name, called)
        else:
            self._monkeypatch.setattr(place, name, staticmethod(called))

    def options(self, name: str) -> dict[str, Any]:
        """Return the keyword arguments of the last call, without how progress is shown."""
        return {key: value for key, value in self.given[name][1].items() if key not in {"progress", "say"}}
