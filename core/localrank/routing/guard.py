r"""The guard: it keeps queries from the scorer of a cluster that they do not fit.

Three measures say how well a query fits its cluster: the similarity of its route, the margin of its route, and how far its
documents lie outside what training saw (`FeatureContract.outside`). Each measure has up to two thresholds, chosen by
training on held-out queries. A query beyond a threshold goes down a chain:

    cluster   ->   blend: the two best clusters, each with half the weight   ->   global: the global scorer

``blend`` needs a second cluster; without one the query goes on to the global scorer. The route names the reason in
`Route.fallback`. A query that the global scorer answers anyway is not judged.

A ranker without a guard does not know of this module: `GuardedRanker` overrides one method.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from localrank.arrays import one_line
from localrank.ranker import Ranker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from localrank.features.blocks import Cloud
    from localrank.points.representation import Point
    from localrank.routing.route import Route

#: How far down the chain a query goes.
Rung: TypeAlias = Literal["blend", "global"]
#: Why, by measure: the value of `Route.fallback`.
REASONS = {"similarity": "low_similarity", "margin": "low_margin", "distance": "far_outside"}


class GuardVerdict(NamedTuple):
    """Where a query goes instead of its cluster, and why."""

    rung: Rung
    reason: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Of one measure; ``None`` where a rung is not used.

    Attributes:
        blend: beyond it, the two best clusters answer.
        alone: beyond it, the global scorer answers. It is called ``global`` in an artifact.
    """

    blend: float | None = None
    alone: float | None = None


_NEVER = Thresholds()


@dataclass(frozen=True, slots=True)
class Guard:
    """The thresholds of one model.

    Attributes:
        similarity: routes with less are judged unfit.
        margin: routes with less are judged unfit; a route without a margin has no second cluster and passes.
        distance: queries that are further outside are judged unfit.
    """

    similarity: Thresholds = _NEVER
    margin: Thresholds = _NEVER
    distance: Thresholds = _NEVER

    def judge(self, route: Route, outside: Callable[[], float]) -> GuardVerdict | None:
        """Return where a query that its cluster would answer goes instead, or ``None`` if it fits.

        The rung furthest down the chain counts. If there are several reasons for this rung, the first in `REASONS` is
        given.

        Args:
            route: of the query.
            outside: measures the query's distance; called only if that has a threshold, because it takes a pass over the
                documents.
        """
        found: GuardVerdict | None = None
        for measure, rung in self._exceeded(route, outside):
            if rung == "global":
                return GuardVerdict(rung, REASONS[measure])
            found = found or GuardVerdict(rung, REASONS[measure])
        return found

    def _exceeded(self, route: Route, outside: Callable[[], float]) -> list[tuple[str, Rung]]:
        values = {"similarity": route.similarity, "margin": route.margin}
        if self.distance != _NEVER:
            values["distance"] = -outside()
        found: list[tuple[str, Rung]] = []
        for measure, value in values.items():
            if value is None:
                continue
            thresholds: Thresholds = getattr(self, measure)
            sign = -1.0 if measure == "distance" else 1.0
            if thresholds.alone is not None and value < sign * thresholds.alone:
                found.append((measure, "global"))
            elif thresholds.blend is not None and value < sign * thresholds.blend:
                found.append((measure, "blend"))
        return found

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) != _NEVER for one in fields(self))

    def to_json(self) -> dict[str, dict[str, float | None]]:
        """Return ``{measure: {rung: threshold}}``."""
        return {
            measure: {"blend": one["blend"], "global": one["alone"]} for measure, one in asdict(self).items()
        }

    @classmethod
    def of(cls, thresholds: Mapping[tuple[str, Rung], float]) -> Self:
        """Return the guard of these thresholds by measure and rung."""
        return cls(
            **{
                measure: Thresholds(thresholds.get((measure, "blend")), thresholds.get((measure, "global")))
                for measure in REASONS
            }
        )

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """Undo `to_json`.

        Raises:
            ValueError: it is not what `to_json` writes.
        """
        if set(members) != set(REASONS):
            raise ValueError(
                f"expected {', '.join(REASONS)}, found {', '.join(map(repr, members)) or 'none'}"
            )
        read: dict[str, Thresholds] = {}
        for measure, rungs in members.items():
            if not isinstance(rungs, dict) or set(rungs) != {"blend", "global"}:
                raise ValueError(f"{measure}: expected blend and global, found {rungs!r:.60}")
            for rung, value in rungs.items():
                number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
                if value is not None and not number:
                    raise ValueError(f"{measure}: {rung}: expected a number or null, found {value!r:.60}")
            read[measure] = Thresholds(rungs["blend"], rungs["global"])
        return cls(**read)


@dataclass(frozen=True, slots=True, eq=False)
class GuardedRanker(Ranker):
    """A ranker whose routes are judged.

    Attributes:
        guard: judges them.
    """

    guard: Guard

    __repr__ = one_line

    @classmethod
    def around(cls, ranker: Ranker, guard: Guard) -> Self:
        """Return the ranker with this guard."""
        parts = {one.name: getattr(ranker, one.name) for one in fields(Ranker)}
        return cls(**parts, guard=guard)

    def _routed(self, cloud: Cloud, point: Point) -> Route:
        # A dataclass with slots is a second class; super() without arguments would refer to the first one.
        route = super(GuardedRanker, self)._routed(cloud, point)
        if not route.local or (verdict := self.guard.judge(route, cloud.outside)) is None:
            return route
        return self.sent(route, point, verdict)

    def sent(self, route: Route, point: Point, verdict: GuardVerdict) -> Route:
        """Return the route of a query that goes down the chain."""
        if verdict.rung == "blend" and (blended := self.blended(route, point)) is not None:
            return blended._replace(fallback=verdict.reason)
        return route._replace(cluster=None, shares=(), local=False, fallback=verdict.reason)
