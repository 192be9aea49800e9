"""Answering a request that takes part in an experiment.

A candidate that fails costs no answer: the failure is counted, and the baseline answers instead.
"""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from localrank.interleaving import METHODS
from localrank_service.experiments.drawing import coins
from localrank_service.http.problems import Problem
from localrank_service.wire.answer import BASELINE, CANDIDATE, INTERLEAVED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from localrank.stages import Stopwatch
    from localrank_service.experiments.running import Drawn, Experiments, Running
    from localrank_service.models.live import LiveModel
    from localrank_service.wire.answer import Ranked
    from localrank_service.wire.query import Documents, Options

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
        self, drawn: Drawn, model: LiveModel, documents: Documents, options: Options, *, request: str
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
            self._experiments.failed(running, CANDIDATE)
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
                self._experiments.failed(running, arm)
            raise
        seconds = (_spent(self._timing.milliseconds) - before) / 1e3
        self._experiments.ranked(running, arm, ranked, seconds, fair=fair)
        return ranked

    async def _interleaved(
        self, drawn: Drawn, model: LiveModel, documents: Documents, options: Options, *, request: str
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
                self._experiments.failed(running, CANDIDATE)
            return ranked
        if other.degraded is not None:
            return ranked
        mixed = METHODS[definition.method or "team_draft"](
            ranked.ranking.order,
            other.ranking.order,
            definition.depth or 1,
            coins(self._experiments.key, definition.salt, request),
        )
        return replace(
            ranked,
            ranking=replace(ranked.ranking, order=mixed.order),
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
