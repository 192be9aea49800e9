"""The models that answer requests now.

A request takes its model once, from one dictionary that is replaced as a whole, so that a swap cannot tear it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from localrank.registry.versions import CHAMPION, few
from localrank.scorers import TreesScorer, distinct
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.artifact import Manifest
    from localrank.points.similarity import QueryMap
    from localrank.probe import Probe
    from localrank.ranker import Ranker
    from localrank.scorers import Scorer
    from localrank_service.models.copies import Hold
    from localrank_service.models.tables import LiveTables

#: So much of an address is repeated in an answer.
_SHOWN = 100


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LiveModel:
    """One version of one model, ready to rank; without a manifest where it was not read from a folder.

    Attributes:
        hold: keeps the files that its arrays are mapped from.
        query_map: the training queries in two dimensions, if it has them.
        tables: what it looks up by the ids of documents; ``None`` if it looks up nothing.
        work: the cost of ranking one document, in numbers read: its features, or four for each tree of the largest
            scorer if that is more. A tree that several members share is walked once.
        watched: whether some requests are signed only to compare them with the map: there are no clusters, and the map has
            the points of its queries.
    """

    name: str
    version: int
    ranker: Ranker
    manifest: Manifest | None = None
    probe: Probe | None = None
    hold: Hold | None = None
    query_map: QueryMap | None = None
    tables: LiveTables | None = None
    work: int = field(init=False)
    watched: bool = field(init=False)

    def __post_init__(self) -> None:
        scorers = (*self.ranker.scorers, self.ranker.global_scorer)
        work = max(self.ranker.contract.n_features, *(4 * _trees(scorer) for scorer in scorers))
        object.__setattr__(self, "work", work)
        watched = (
            not self.ranker.router.chooses
            and self.query_map is not None
            and self.query_map.points is not None
        )
        object.__setattr__(self, "watched", watched)

    def sizes(self) -> list[int]:
        """Return how many training queries each cluster has; empty if that is not known."""
        if self.manifest is not None:
            return [cluster.size for cluster in self.manifest.clusters]
        return [int(size) for size in self.ranker.router.sizes(len(self.ranker.scorers))]

    def kinds(self) -> list[int]:
        """Return how many queries of each kind are on the map, if that is what requests are compared with."""
        if self.query_map is None or not self.watched:
            return []
        sizes: list[int] = np.bincount(self.query_map.clusters).tolist()
        return sizes


def _trees(scorer: Scorer) -> int:
    """Count the trees of a scorer and its members, each once."""
    return sum(one.n_trees for one in distinct([scorer]) if isinstance(one, TreesScorer))


def addresses_of(models: Iterable[LiveModel]) -> dict[str, LiveModel]:
    """Return where models are found if the first of each name is its champion."""
    addresses: dict[str, LiveModel] = {}
    for model in models:
        addresses[f"{model.name}@{model.version}"] = model
        for address in (model.name, f"{model.name}@{CHAMPION}"):
            addresses.setdefault(address, model)
    return addresses


class LiveModels:
    """Finds the model that a request addresses: ``name``, ``name@version`` or ``name@alias``.

    Attributes:
        default: the address of requests that have none.
        loaded: whether every model was tried.
        broken: by address, why it is not served or not with the right version.
        unloaded: names that are not to be served.
        loading: addresses whose version is still to be loaded, and that version.
    """

    def __init__(self, default: str | None = None) -> None:
        self.default = default
        self.loaded = False
        self.broken: Mapping[str, str] = {}
        self.unloaded: frozenset[str] = frozenset()
        self.loading: Mapping[str, int] = {}
        #: Every address that is answered, and the model that each name alone stands for, in order.
        self.addresses: Mapping[str, LiveModel] = {}
        self.champions: Mapping[str, LiveModel] = {}
        self._by_address: Mapping[str | None, LiveModel] = {}
        self._by_name: Mapping[str, Mapping[str, LiveModel]] = {}

    def replace(
        self,
        addresses: Mapping[str, LiveModel],
        broken: Mapping[str, str],
        unloaded: frozenset[str] = frozenset(),
        *,
        loaded: bool = True,
    ) -> None:
        """Serve these and nothing else; ``loaded`` says whether every model was tried."""
        by_address: dict[str | None, LiveModel] = dict(addresses.items())
        names = {address.partition("@")[0] for address in (*addresses, *broken)} | unloaded
        default = self.default or (names.pop() if len(names) == 1 else None)
        if default in by_address:
            by_address[None] = by_address[default]
        by_name: dict[str, dict[str, LiveModel]] = {}
        for address, model in addresses.items():
            by_name.setdefault(address.partition("@")[0], {})[address] = model
        self.addresses, self._by_name = dict(addresses), by_name
        self.champions = {name: addresses[name] for name in sorted(by_name) if name in addresses}
        self._by_address, self.broken, self.unloaded, self.loaded = by_address, broken, unloaded, loaded

    def of(self, name: str) -> Mapping[str, LiveModel]:
        """Return the addresses that are answered and begin with a name."""
        return self._by_name.get(name, {})

    def find(self, address: str | None) -> LiveModel | None:
        """Return the model addressed, if it is there."""
        return self._by_address.get(address)

    def waiting(self) -> Problem:
        """Return the problem for a request that comes before every model was tried."""
        names = few([f"{address} (version {version})" for address, version in self.loading.items()], "")
        return Problem(
            503,
            f"models are being loaded: {names}" if self.loading else "looking for models",
            headers={"Retry-After": "1"},
            reason="loading",
            members={"loading": dict(self.loading)},
        )

    def missing(self, address: str | None, at: str | None) -> Problem:
        """Return the problem for an address that is not served: 404, 422 or 503."""
        if not self.loaded:
            return self.waiting()
        names = list(self.champions)
        if address is None and self.default is None:
            return Problem(422, f"the request names no model; expected one of: {few(names, '')}", pointer=at)
        address = address or self.default or ""
        if (reason := self.broken.get(address.removesuffix(f"@{CHAMPION}"))) is not None:
            return Problem(503, f"model {address!r} is broken: {reason}", pointer=at, reason="broken")
        if (name := address.partition("@")[0]) in self.unloaded:
            return Problem(404, f"model {name!r} is unloaded", pointer=at)
        known = sorted(self.of(name).keys() - {name}) or names
        said = f"no model {address[:_SHOWN]!r}; expected one of: {few(known, address)}"
        return Problem(404, said, pointer=at)
