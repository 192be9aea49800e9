"""What changes between two versions: settings, metrics, feature contract, and how they rank each other's probe.

The probes are the only queries that an artifact holds, so a comparison needs no data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from localrank.rankings import kendall_tau, ranks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.artifact import Manifest
    from localrank.features.contract import FeatureContract
    from localrank.probe import Probe
    from localrank.ranker import Ranker


class Compared(Protocol):
    """A version that was read, such as a `localrank.artifact.Artifact`."""

    @property
    def manifest(self) -> Manifest: ...

    @property
    def ranker(self) -> Ranker: ...

    @property
    def probe(self) -> Probe: ...


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs; ``None`` where one side has none."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Reranking:
    """One probe query, ranked by both versions.

    Attributes:
        probe: whose query it is, ``before`` or ``after``.
        query: its position in that probe.
        documents: how many it has.
        clusters: where each version sends it; ``None`` is the global scorer.
        tau: Kendall's rank correlation of the two orders; 1 is the same order, -1 the reverse.
        same_first: whether the first document is the same.
        furthest: the largest move of a document, in ranks.
    """

    probe: str
    query: int
    documents: int
    clusters: tuple[int | None, int | None]
    tau: float
    same_first: bool
    furthest: int


@dataclass(frozen=True, slots=True)
class Difference:
    """What `compare` found.

    Attributes:
        settings: of training, of the representation and of the router.
        metrics: held-out figures.
        contract: of the features.
        probe: the rankings of both probes, or ``None`` where the features, or their rules for missing values, are not the same.
    """

    settings: tuple[Change, ...]
    metrics: tuple[Change, ...]
    contract: tuple[Change, ...]
    probe: tuple[Reranking, ...] | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(before: Compared, after: Compared) -> Difference:
    """Compare two versions that were read."""
    return Difference(
        settings=_changes(_settings(before), _settings(after)),
        metrics=_changes(dict(before.manifest.metrics), dict(after.manifest.metrics)),
        contract=tuple(_contract_changes(before.manifest.contract, after.manifest.contract)),
        probe=_rerankings(before, after),
    )


def _settings(one: Compared) -> dict[str, Any]:
    raw = one.manifest.raw
    kinds = sorted({form["kind"] for form in raw["scorers"]["forms"]})
    return {
        **one.manifest.source,
        "representation": _plain(raw["representation"], one),
        "router": _plain(raw["router"], one),
        "guard": raw.get("guard"),
        "scorers": {"kinds": kinds, "clusters": len(one.manifest.clusters)},
    }


def _plain(value: Any, one: Compared) -> Any:
    """Turn the description of a part into its settings; an array becomes its shape."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return list(one.manifest.files[value["array"]].shape)
    return {"part": value["part"], **{name: _plain(member, one) for name, member in value["fields"].items()}}


def _changes(before: Any, after: Any, path: str = "") -> tuple[Change, ...]:
    """Compare two JSON values; each member of an object by name, arrays as a whole."""
    if before == after and type(before) is type(after):
        return ()
    if not isinstance(before, dict) or not isinstance(after, dict):
        return (Change(path, before, after),)
    return tuple(
        change
        for name in sorted(before.keys() | after.keys())
        for change in _changes(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    )


def _contract_changes(before: FeatureContract, after: FeatureContract) -> Iterator[Change]:
    if before.digest == after.digest:
        return
    yield Change("hash", before.digest, after.digest)
    if before.normalise != after.normalise:
        yield Change("normalise", before.normalise, after.normalise)
    for name in before.names:
        if name not in after.positions:
            yield Change(f"names.{name}", before.positions[name], None)
    for name in after.names:
        if name not in before.positions:
            yield Change(f"names.{name}", None, after.positions[name])
    shared = [name for name in before.names if name in after.positions]
    if shared != [name for name in after.names if name in before.positions]:
        yield Change("order", shared, [name for name in after.names if name in before.positions])
    for name in shared:
        policies = before.missing[before.positions[name]], after.missing[after.positions[name]]
        if policies[0] != policies[1]:
            yield Change(f"missing.{name}", *policies)
    old, new = ([contract.positions[name] for name in shared] for contract in (before, after))
    for statistic in ("fill", "shift", "scale", "quantiles"):
        values = getattr(before, statistic)[..., old], getattr(after, statistic)[..., new]
        differ = np.atleast_2d(values[0] != values[1]).any(axis=0)
        if differ.any():
            yield Change(statistic, None, f"differs for {int(differ.sum())} of {len(shared)} features")
    if before.list_lengths != after.list_lengths:
        yield Change("list_lengths", list(before.list_lengths), list(after.list_lengths))


def _rerankings(before: Compared, after: Compared) -> tuple[Reranking, ...] | None:
    if before.manifest.contract.names != after.manifest.contract.names:
        return None
    if before.manifest.contract.missing != after.manifest.contract.missing:
        return None
    rerankings = []
    for side, probe in (("before", before.probe), ("after", after.probe)):
        for position, query in enumerate(probe.documents):
            rankings = before.ranker.rank(query), after.ranker.rank(query)
            one, other = (ranks_of(ranking.order) for ranking in rankings)
            rerankings.append(
                Reranking(
                    probe=side,
                    query=position,
                    documents=len(query),
                    clusters=(rankings[0].route.cluster, rankings[1].route.cluster),
                    tau=kendall_tau(one, other) if len(query) > 1 else 1.0,
                    same_first=bool(rankings[0].order[0] == rankings[1].order[0]),
                    furthest=int(np.abs(one - other).max()),
                )
            )
    return tuple(rerankings)
