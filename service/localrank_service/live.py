"""The models that answer requests now.

A request takes its model once, from one dictionary that is replaced as a whole, so that a swap cannot tear it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from localrank_service.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.ranker import Ranker

__all__ = ["LiveModel", "LiveModels"]

#: The alias that answers requests which name a model and no version.
CHAMPION = "champion"


@dataclass(frozen=True, slots=True, eq=False)
class LiveModel:
    """One version of one model, ready to rank."""

    name: str
    version: int
    ranker: Ranker
    manifest: Mapping[str, Any] = field(default_factory=dict)


class LiveModels:
    """Finds the model that a request addresses: ``name``, ``name@version`` or ``name@alias``."""

    def __init__(self, models: Iterable[LiveModel] = (), *, default: str | None = None) -> None:
        self._default = default
        self._by_address: dict[str | None, LiveModel] = {}
        self.loaded = False
        self.broken: dict[str, str] = {}
        self.replace(models)

    def replace(self, models: Iterable[LiveModel]) -> None:
        """Serve these; the first of each name is its champion."""
        addresses: dict[str | None, LiveModel] = {}
        for model in models:
            addresses[f"{model.name}@{model.version}"] = model
            for address in (model.name, f"{model.name}@{CHAMPION}"):
                addresses.setdefault(address, model)
        names = {model.name for model in addresses.values()}
        only = next(iter(names)) if len(names) == 1 else None
        if (default := addresses.get(self._default or only)) is not None:
            addresses[None] = default
        self._by_address = addresses
        self.loaded = True

    @property
    def champions(self) -> dict[str, LiveModel]:
        """The model that each name alone stands for."""
        return {
            address: model
            for address, model in sorted(self._by_address.items(), key=lambda item: item[0] or "")
            if address is not None and "@" not in address
        }

    def resolve(self, address: str | None) -> LiveModel:
        """Return the model addressed, or raise a `Problem`: 404, 422 or 503."""
        model = self._by_address.get(address)
        if model is None:
            raise self._missing(address)
        return model

    def _missing(self, address: str | None) -> Problem:
        if not self.loaded:
            return Problem(503, "models are being loaded", headers={"Retry-After": "1"})
        names = ", ".join(self.champions) or "none"
        if address is None:
            return Problem(422, f"the request names no model; there are: {names}", pointer="/model")
        if (reason := self.broken.get(address.partition("@")[0])) is not None:
            return Problem(503, f"model {address!r} is broken: {reason}", pointer="/model")
        return Problem(404, f"no model {address!r}; there are: {names}", pointer="/model")
