"""LocalRank: rank each query's documents with the model of its own kind.

This package holds what a model *is*: signature, similarity, hash tables, routing, scorers, feature contract, artifact,
registry and metrics. Nothing here trains and nothing here speaks HTTP; numpy and scipy's LAPACK are all it imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from localrank._version import __version__

if TYPE_CHECKING:
    from localrank.errors import LocalRankError
    from localrank.ranker import Ranker, Ranking
    from localrank.registry.tables import load_items
    from localrank.registry.versions import Reference, Registry, load
    from localrank.routing.route import Route

__all__ = [
    "LocalRankError",
    "Ranker",
    "Ranking",
    "Reference",
    "Registry",
    "Route",
    "__version__",
    "load",
    "load_items",
]

#: Where each name lives. They are imported when first used, so that the command line starts without numpy.
_HOMES = {
    "LocalRankError": "errors",
    "Ranker": "ranker",
    "Ranking": "ranker",
    "Reference": "registry.versions",
    "Registry": "registry.versions",
    "Route": "routing.route",
    "load": "registry.versions",
    "load_items": "registry.tables",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
