"""Calls that a command makes, kept in place of the work."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

__all__ = ["Calls"]


class Calls:
    """Puts itself in place of functions; keeps what they were given, by name, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.order: list[str] = []
        self.given: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def answer(self, target: str, value: Any) -> None:
        """Let the function at ``module.name`` answer this; a list of values is answered one by one."""
        module, _, name = target.rpartition(".")

        def called(*arguments: Any, **options: Any) -> Any:
            self.order.append(name)
            self.given[name] = arguments, options
            return value.pop(0) if isinstance(value, list) else value

        self._monkeypatch.setattr(importlib.import_module(module), name, called)

    def options(self, name: str) -> dict[str, Any]:
        """Return the keyword arguments of the last call, without how progress is shown."""
        return {key: value for key, value in self.given[name][1].items() if key not in {"progress", "say"}}
