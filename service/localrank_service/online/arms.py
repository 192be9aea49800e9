"""The arms of an experiment: which units get the candidate, how an arm answers, and whether a canary must be taken back.

Always the same units get the candidate, in every process, although nothing is stored about them (`place`). A candidate
that fails costs no answer: the failure is counted, and the baseline answers instead (`Taking`). A caller knows its arm from
the answer, and chooses the length of its lists and its timeouts. So times are scaled to one length, and a timeout that is
too short for the baseline says nothing about the candidate (`LinearPace`).

The statistics of `judged` stay correct although they are read twice a second. Each guardrail compares the candidate's
interval with the baseline's (`localrank.sequential.share_interval`). The level is shared out: a third to each guardrail,
half of that to each arm. So a candidate that is no worse than allowed is taken back with a probability of at most
``alpha``, however long the canary runs.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from starlette.requests import ClientDisconnect

from localrank.rankings import METHODS
from localrank.sequential import share_interval
from localrank_service.http.problems import Problem
from localrank_service.online.definition import REQUEST, SESSION
from localrank_service.telemetry.experiments import RANK_BUCKETS
from localrank_service.wire.answer import BASELINE, CANDIDATE, INTERLEAVED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from localrank.ranker import Stopwatch
    from localrank_service.models.live import LiveModel
    from localrank_service.online.definition import Guardrails
    from localrank_service.online.experiments import DrawnPart, Experiments, Running
    from localrank_service.telemetry.experiments import Arm
    from localrank_service.wire.answer import Ranked
    from localrank_service.wire.query import Documents, Options


def place(key: bytes, salt: str, unit: str) -> float:
    """Return the place of a unit, from 0 to below 1."""
    digest = blake2b(_message(salt, unit), digest_size=8, key=key).digest()
    # 53 bits are what a float holds; more could round up to 1.
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def coins(key: bytes, salt: str, unit: str) -> Iterator[bool]:
    """Yield tosses of a fair coin, always the same ones for a unit, independent of its place."""
    number = 0
    while True:
        digest = blake2b(_message(salt, unit), digest_size=16, key=key, person=b"coins%d" % number).digest()
        bits = int.from_bytes(digest, "big")
        for bit in range(128):
            yield bool(bits >> bit & 1)
        number += 1


def _message(salt: str, unit: str) -> bytes:
    # A text of JSON may hold half of a surrogate pair.
    return f"{salt}\0{unit}".encode("utf-8", "surrogatepass")


def unit_of(kind: str, options: Options, request: str) -> str | None:
    """Return the unit of a request, as text; ``None`` if the request does not name it."""
    if kind == REQUEST:
        return request
    found = options.session_id if kind == SESSION else options.query_id
    return None if found is None else str(found)


#: Documents of the list that times are scaled to.
LENGTH: Final = 100
#: Weight of the newest ranking, and the fixed cost of a ranking in documents while all lists are equally long.
_NEWEST, _FIXED = 0.02, 16


class LinearPace:
    """Seconds of a ranking as a straight line over the number of documents, by least squares with running means."""

    __slots__ = ("_count", "_length", "_product", "_seconds", "_square")

    def __init__(self) -> None:
        self._count = 0
        self._length = self._seconds = self._square = self._product = 0.0

    def learn(self, documents: int, seconds: float) -> None:
        """Take note of what the baseline took. An empty list says nothing of others."""
        if not documents:
            return
        self._count += 1
        weight = max(_NEWEST, 1 / self._count)
        self._length += weight * (documents - self._length)
        self._seconds += weight * (seconds - self._seconds)
        self._square += weight * (documents**2 - self._square)
        self._product += weight * (documents * seconds - self._product)

    def expected(self, documents: int) -> float | None:
        """Return the seconds that the baseline is expected to take; ``None`` before its first ranking."""
        if not self._seconds:
            return None
        spread = self._square - self._length**2
        # The line passes through the means; it does not fall, and no list takes less than no time.
        steepest = self._seconds / self._length
        slope = steepest * self._length / (self._length + _FIXED)
        if spread > 1:
            slope = (self._product - self._length * self._seconds) / spread
        slope = min(max(slope, 0.0), steepest)
        return self._seconds + slope * (documents - self._length)

    def scaled(self, documents: int, seconds: float) -> float | None:
        """Return the seconds for a list of `LENGTH` documents; ``None`` before the baseline's first ranking."""
        whole, one = self.expected(LENGTH), self.expected(documents)
        return None if not whole or not one else seconds * whole / one


_TEAMS = (BASELINE, CANDIDATE)
_STAGES = ("sign", "route", "score", "order")
#: Refusals of the service under load or without models; no model is to blame for them.
_NOT_OURS = frozenset({429, 503})
_DEADLINE = 504


class Taking:
    """The way of one query through an experiment.

    Args:
        experiments: that count it.
        rank: ranks by one version.
        timing: what that measures.
        deadline: of the request on the monotonic clock, if it has one.

    Attributes:
        by_candidate: whether the candidate answers.
        baseline: the baseline's own ranking, if it has ranked.
    """

    def __init__(
        self,
        experiments: Experiments,
        rank: Callable[[LiveModel, Documents, Options], Awaitable[Ranked]],
        timing: Stopwatch,
        deadline: float | None = None,
    ) -> None:
        self.by_candidate = False
        self.baseline: Ranked | None = None
        self._experiments, self._rank, self._timing = experiments, rank, timing
        self._deadline = deadline

    async def part(
        self, drawn: DrawnPart, model: LiveModel, documents: Documents, options: Options, *, request: str
    ) -> Ranked:
        """Rank the documents by the arm that was drawn."""
        running, part = drawn
        if part.arm == INTERLEAVED:
            return await self._interleaved(drawn, model, documents, options, request=request)
        if part.arm == CANDIDATE:
            try:
                ranked = await self._timed(running, CANDIDATE, running.candidate, documents, options)
            except Exception as error:
                if _is_final(error):
                    raise
            else:
                self.by_candidate = True
                return replace(ranked, experiment=part)
            self.baseline = ranked = await self._rank(model, documents, options)
            # The baseline accepts these documents, so the caller is not to blame.
            self._experiments.count(running, CANDIDATE, "error")
        else:
            self.baseline = ranked = await self._timed(running, BASELINE, model, documents, options)
        return replace(ranked, experiment=part)

    async def _timed(
        self, running: Running, arm: str, model: LiveModel, documents: Documents, options: Options
    ) -> Ranked:
        """Rank by one arm, and count how that went if the caller is not to blame."""
        before = _spent(self._timing.milliseconds)
        left = None if self._deadline is None else self._deadline - monotonic()
        fair = self._experiments.is_fair(running, len(documents.matrix), left)
        try:
            ranked = await self._rank(model, documents, options)
        except Exception as error:
            # Other failures of the candidate are counted after the answer of the baseline.
            if fair if _is_late(error) else arm == BASELINE and _is_ours(error):
                self._experiments.count(running, arm, "error")
            raise
        seconds = (_spent(self._timing.milliseconds) - before) / 1e3
        self._experiments.ranked(running, arm, ranked, seconds, fair=fair)
        return ranked

    async def _interleaved(
        self, drawn: DrawnPart, model: LiveModel, documents: Documents, options: Options, *, request: str
    ) -> Ranked:
        running, part = drawn
        definition = running.definition
        self.baseline = ranked = await self._timed(running, BASELINE, model, documents, options)
        if ranked.degraded is not None:
            return ranked
        try:
            other = await self._timed(running, CANDIDATE, running.candidate, documents, options)
        except Exception as error:  # noqa: BLE001
            # The baseline has answered already, also if there is no time or no room for a second ranking.
            if not _is_final(error):
                self._experiments.count(running, CANDIDATE, "error")
            return ranked
        if other.degraded is not None:
            return ranked
        # Documents that the request pins stand before what is interleaved.
        pinned = 0 if ranked.ruled is None else len(ranked.ruled.pinned)
        order = ranked.ranking.order
        free = np.sort(order[pinned:])
        mixed = METHODS[definition.method or "team_draft"](
            np.searchsorted(free, order[pinned:]),
            np.searchsorted(free, other.ranking.order[pinned:]),
            definition.depth or 1,
            coins(self._experiments.key, definition.salt, request),
        )
        order = np.concatenate([order[:pinned], free[mixed.order]])
        return replace(
            ranked,
            ranking=replace(ranked.ranking, order=order),
            experiment=part._replace(
                teams=tuple(_TEAMS[team] for team in mixed.teams),
                ranks=mixed.ranks if definition.method == "balanced" else None,
            ),
        )


def _spent(milliseconds: Mapping[str, float]) -> float:
    """Return what the stages of ranking have taken so far."""
    return sum(milliseconds.get(stage, 0.0) for stage in _STAGES)


def _is_late(error: Exception) -> bool:
    return isinstance(error, Problem) and error.status == _DEADLINE


def _is_ours(error: Exception) -> bool:
    """Tell whether the model is to blame, and not the caller or the load of the service."""
    if isinstance(error, Problem):
        return error.status >= 500 and error.status not in _NOT_OURS
    return not isinstance(error, ClientDisconnect)


def _is_final(error: Exception) -> bool:
    """Tell whether the baseline cannot do better."""
    if isinstance(error, Problem):
        return error.status in _NOT_OURS or error.status == _DEADLINE
    return isinstance(error, ClientDisconnect)


_GUARDS, _ARMS = 3, 2


class Breach(NamedTuple):
    """Why a canary must be taken back.

    Attributes:
        reason: ``errors``, ``degraded`` or ``latency``.
        evidence: a sentence with the figures.
    """

    reason: str
    evidence: str


def judged(guardrails: Guardrails, baseline: Arm, candidate: Arm) -> Breach | None:
    """Return why the candidate must be taken back, if it must."""
    if candidate.requests < guardrails.minimum_requests:
        return None
    alpha = guardrails.alpha / (_GUARDS * _ARMS)
    for reason, margin in (("errors", guardrails.errors), ("degraded", guardrails.degraded)):
        outcome = "error" if reason == "errors" else reason
        least, _ = share_interval(candidate.outcomes[outcome], candidate.requests, alpha)
        _, most = share_interval(baseline.outcomes[outcome], baseline.requests, alpha)
        if least > most + margin:
            said = "failed" if reason == "errors" else "was degraded"
            return Breach(
                reason,
                f"the candidate {said} in {candidate.outcomes[outcome]:.0f} of {candidate.requests:.0f} "
                f"requests (at least {least:.1%}), the baseline in {baseline.outcomes[outcome]:.0f} of "
                f"{baseline.requests:.0f} (at most {most:.1%}); {margin:.1%} more is allowed",
            )
    return _slower(guardrails, baseline, candidate, alpha)


def _slower(guardrails: Guardrails, baseline: Arm, candidate: Arm, alpha: float) -> Breach | None:
    """Compare the quantiles of the times.

    The baseline's quantile is at most the least bound for which it is certain that at least this share of the rankings took
    at most the bound; the candidate's is at least the greatest bound for which it is certain that fewer did. Each is one
    event for all bounds, because more rankings take at most a longer time.
    """
    share = guardrails.quantile
    most = least = None
    total = sum(baseline.buckets)
    for bound, below in zip(RANK_BUCKETS, accumulate(baseline.buckets), strict=False):
        if below >= share * total > 0 and share_interval(below, total, alpha)[0] >= share:
            most = bound
            break
    total = sum(candidate.buckets)
    for bound, below in zip(RANK_BUCKETS, accumulate(candidate.buckets), strict=False):
        if below >= share * total or share_interval(below, total, alpha)[1] >= share:
            break
        least = bound
    if most is None or least is None or least <= guardrails.latency * most:
        return None
    return Breach(
        "latency",
        f"the time that {share:.0%} of the rankings do not exceed is at least {least * 1e3:.3g} ms for the "
        f"candidate and at most {most * 1e3:.3g} ms for the baseline; {guardrails.latency:g} times as long is "
        "allowed",
    )
