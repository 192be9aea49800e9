"""Ranking in time: a model that would take too long is replaced by a cheaper one, down to the caller's own order.

    routed  ->  global  ->  first_trees  ->  request_order, or the order of a feature that the caller names

The rungs are those of `localrank.ladder`; the last one is made here and looks at nothing else. Before each stage of
each rung, the time that is left is compared with the recent times of the remaining stages. If a rung is left out, its
measured time shrinks slowly. So the rung is tried again after a while, because it may have become faster.

A request without ``timeout_ms`` never comes here, unless the operator lets overload degrade (`rank_lower`).
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from localrank.ladder import FIRST_TREES, GLOBAL, OVERLOAD, TIMEOUT, Degraded, rungs_of
from localrank.ranker import Ranking, best_first
from localrank.routing.route import Route
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.features.blocks import Cloud
    from localrank.ladder import Rung
    from localrank.ranker import Stopwatch
    from localrank_service.models.live import LiveModel
    from localrank_service.wire.query import Options

REQUEST_ORDER, FEATURE_ORDER = "request_order", "feature_order"
#: What `Degraded.rung` may be.
RUNGS = (GLOBAL, FIRST_TREES, REQUEST_ORDER, FEATURE_ORDER)
_STAGES = ("sign", "route", "score", "order")
#: Work that does not depend on the number of documents counts as this many documents.
_FIXED = 16
#: Weight of the newest observation in the running means of the time and of its deviation, and deviations of reserve.
_NEWEST, _NEWEST_DEVIATION, _RESERVE = 0.125, 0.25, 2.0
#: Factor by which the measured time of a rung shrinks each time that the rung is left out.
_FORGET = 0.99


class _OutOfTime(Exception):
    """The stages that are left would take too long."""


class Pace:
    """Seconds that each stage of one rung takes per document: running means with their deviations."""

    __slots__ = ("_deviations", "_means")

    def __init__(self) -> None:
        self._means = dict.fromkeys(_STAGES, 0.0)
        self._deviations = dict.fromkeys(_STAGES, 0.0)

    def left(self, stage: str, documents: int) -> float:
        """Return what this stage and those after it are expected to take at most; 0 before the first was measured."""
        stages = _STAGES[_STAGES.index(stage) :]
        each = sum(self._means[one] + _RESERVE * self._deviations[one] for one in stages)
        return each * (documents + _FIXED)

    def learn(self, stage: str, documents: int, seconds: float) -> None:
        """Take note of what a stage took."""
        each = seconds / (documents + _FIXED)
        mean = self._means[stage]
        if not mean:
            self._means[stage] = each
            return
        off = abs(each - mean)
        self._deviations[stage] += _NEWEST_DEVIATION * (off - self._deviations[stage])
        self._means[stage] = mean + _NEWEST * (each - mean)

    def forget(self) -> None:
        """Trust what was measured a little less."""
        for stage in _STAGES:
            self._means[stage] *= _FORGET
            self._deviations[stage] *= _FORGET


class _Watch:
    """Measures the stages of a rung, and ends it before a stage for which there is no time."""

    __slots__ = ("_begun", "_deadline", "_documents", "_name", "_pace", "_timing")

    def __init__(self, timing: Stopwatch, pace: Pace, documents: int, deadline: float) -> None:
        self._timing, self._pace, self._documents, self._deadline = timing, pace, documents, deadline
        self._name, self._begun = "", 0.0

    def __call__(self, name: str, /) -> None:
        now = monotonic()
        if self._name:
            self._pace.learn(self._name, self._documents, now - self._begun)
        # Scores that are computed already are always ordered.
        if name not in {"order", ""} and now + self._pace.left(name, self._documents) > self._deadline:
            self._timing("")
            raise _OutOfTime
        self._timing(name)
        self._name, self._begun = name, now


class _Ladder:
    """The rungs of one model with their paces, and the pace of what they share."""

    def __init__(self, model: LiveModel) -> None:
        self.shared = Pace()
        self.rungs: tuple[tuple[Rung, Pace], ...] = tuple((rung, Pace()) for rung in rungs_of(model.ranker))


#: One entry for each model that had a request with a timeout; other models cost nothing.
_LADDERS: WeakKeyDictionary[LiveModel, _Ladder] = WeakKeyDictionary()


def _ladder_of(model: LiveModel) -> _Ladder:
    found = _LADDERS.get(model)
    if found is None:
        found = _LADDERS[model] = _Ladder(model)
    return found


def rank_in_time(
    model: LiveModel, documents: Matrix, options: Options, timing: Stopwatch, deadline: float
) -> tuple[Ranking, Degraded | None]:
    """Rank with the best rung that there is time for.

    Args:
        model: that the request addresses.
        documents: of the request.
        options: of the request; they have ``timeout_ms``.
        timing: of the request.
        deadline: on the monotonic clock.

    Raises:
        Problem: 504, if there is no time for the best rung and the request forbids others; 422, if the feature whose
            order it wants is not the model's, or a category.
    """
    column = _column(model, options)
    ladder, count = _ladder_of(model), len(documents)
    rungs = ladder.rungs if options.allow_degraded else ladder.rungs[:1]
    cloud: Cloud | None = None
    try:
        watch = _Watch(timing, ladder.shared, count, deadline)
        watch("sign" if model.ranker.router.chooses else "score")
        cloud = model.ranker.contract.cloud(documents)
        watch("")
    except _OutOfTime:
        ladder.shared.forget()
    if cloud is not None:
        for position, (rung, pace) in enumerate(rungs):
            try:
                ranking = rung.ranker.rank(cloud, stage=_Watch(timing, pace, count, deadline))
            except _OutOfTime:
                pace.forget()
            else:
                return ranking, Degraded(rung.name, TIMEOUT) if position else None
    if not options.allow_degraded:
        raise Problem(
            504,
            f"the timeout of {options.timeout_ms:g} ms has passed or is too short for this model; set "
            "allow_degraded to true to get a cheaper ranking instead",
            pointer=options.timeout_at,
            kind="deadline",
        )
    rung_name = REQUEST_ORDER if column is None else FEATURE_ORDER
    timing("order")
    ranking = _as_sent(count) if column is None else _by_feature(documents[:, column])
    timing("")
    return ranking, Degraded(rung_name, TIMEOUT)


def rank_lower(
    model: LiveModel, documents: Matrix, timing: Stopwatch, *, lowest: bool
) -> tuple[Ranking, Degraded | None]:
    """Rank with the next rung after the best, or the lowest that looks at the features, because of overload."""
    rungs = _ladder_of(model).rungs
    rung, _ = rungs[-1] if lowest else rungs[min(1, len(rungs) - 1)]
    ranking = rung.ranker.rank(documents, stage=timing)
    return ranking, None if rung is rungs[0][0] else Degraded(rung.name, OVERLOAD)


def _column(model: LiveModel, options: Options) -> int | None:
    """Return the column of the feature that the request wants the last rung to order by."""
    name = options.fallback_feature
    if name is None:
        return None
    contract = model.ranker.contract
    column = contract.positions.get(name)
    if column is not None and column not in contract.categories:
        return column
    wrong = f"the model has no feature {name!r}"
    if column is not None:
        wrong = f"expected a feature that is a number, found {name!r}, a category, whose values have no order"
    raise Problem(
        422,
        f"fallback_feature: {wrong}",
        pointer=None if options.in_query_string else "/fallback_feature",
    )


def _as_sent(count: int) -> Ranking:
    """Return the order of the request; scores count down to 1."""
    scores = np.arange(count, 0, -1, dtype=np.float64)
    return Ranking(np.arange(count), scores, _unrouted(), {})


def _by_feature(values: Matrix) -> Ranking:
    """Return the order by a feature, the largest first; documents that lack it come last, with the least score."""
    scores: Vector = values.astype(np.float64)
    missing = np.isnan(scores)
    if missing.any():
        scores[missing] = 0.0 if missing.all() else np.nextafter(np.nanmin(scores), -np.inf)
    return Ranking(best_first(scores), scores, _unrouted(), {})


def _unrouted() -> Route:
    return Route("none", None, local=False)
