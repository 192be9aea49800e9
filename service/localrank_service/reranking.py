"""From a query to its ranking: what all wires share.

One call down to `localrank.ranker.Ranker.rank`, one value up. Errors of core gain their place in the request here and
pass on to `localrank_service.http.problems`.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from localrank.errors import InvalidDocuments, LocalRankError
from localrank.stages import Stopwatch
from localrank_service.aside import rank_aside, read_aside
from localrank_service.http.problems import STATUSES, Problem, problem_of
from localrank_service.telemetry.observing import OBSERVATION, Lap, Observed
from localrank_service.wire.query import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from localrank.ranker import Ranker, Ranking
    from localrank.routing import Route
    from localrank_service.models.live import LiveModel
    from localrank_service.service import Service
    from localrank_service.telemetry.observing import Observation
    from localrank_service.wire.query import Documents, Query

__all__ = ["Attempt", "Ranked", "Timing", "rank", "route_members", "server_timing", "warnings_of"]


class Timing(Stopwatch):
    """A stopwatch for the stages that also knows the whole."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        super().__init__()
        self._begun = perf_counter()

    def stop(self) -> Mapping[str, float]:
        """Return the stages and their ``total`` so far, in milliseconds, to a tenth of a microsecond."""
        # Rounding to a whole number takes half as long as rounding to four places.
        rounded = {stage: round(elapsed * 1e4) / 1e4 for stage, elapsed in self.milliseconds.items()}
        rounded["total"] = round((perf_counter() - self._begun) * 1e7) / 1e4
        return rounded


class _Laps(Timing):
    """Also notes when each stage began."""

    __slots__ = ("laps",)

    def __init__(self) -> None:
        super().__init__()
        self.laps: list[Lap] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stage, laps = self._name, self.laps
        before = self.milliseconds.get(stage, 0.0)
        super().__exit__(kind, error, trace)
        elapsed = self.milliseconds[stage] - before
        if laps and laps[-1].stage == stage:
            laps[-1] = Lap(stage, laps[-1].begun, laps[-1].milliseconds + elapsed)
        else:
            laps.append(Lap(stage, self._started, elapsed))


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """One query, answered: what every wire writes its answer from."""

    model: LiveModel
    options: Options
    documents: Documents
    ranking: Ranking


_Read = TypeVar("_Read")

_NO_OPTIONS = Options()

#: A request of so many documents times `LiveModel.work` is ranked in a thread. Below, ranking takes a few milliseconds
#: at most; there the way to a thread and back costs more than it spares others (`benchmarks/mixed.py`).
LARGE = 500_000
#: A body of so many bytes is read in a thread, its numbers without the interpreter. Smaller ones take 2 ms at most.
LARGE_BODY = 2**21


class Attempt:
    """One query on its way through the stages; counted however that ends.

    Attributes:
        api: the wire, as the metrics name it.
        timing: begun by `begin`, when the whole body is there.
    """

    __slots__ = ("_milliseconds", "_model", "_observation", "_ranked", "_service", "api", "timing")

    def __init__(self, service: Service, api: str) -> None:
        self.api = api
        self._observation = OBSERVATION.get()
        self.begin()
        self._service = service
        self._model: LiveModel | None = None
        self._ranked: Ranked | None = None
        self._milliseconds: Mapping[str, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        metrics = self._service.metrics
        if isinstance(error, Exception):
            if isinstance(error, Problem):
                status = error.status
            else:
                status = STATUSES.get(type(error), 500) if isinstance(error, LocalRankError) else 500
            metrics.refused(self.api, self._model, status, self.stop()["total"] / 1e3)
            if self._observation is not None:
                self._note(self._observation)
        elif error is None and self._ranked is not None:
            done = self._ranked
            outside = done.model.ranker.contract.out_of_range(done.documents.matrix)
            metrics.ranked(self.api, done.model, done.ranking, outside, self.stop())
            if self._observation is not None:
                self._note(self._observation)

    def _note(self, observation: Observation) -> None:
        """Add the query to what is noted of its request."""
        done, laps = self._ranked, self.timing.laps if isinstance(self.timing, _Laps) else []
        ranking, documents = (None, None) if done is None else (done.ranking, done.documents.matrix)
        observation.add(Observed(self._model, ranking, documents, self.stop(), laps))

    def begin(self) -> None:
        """Start measuring."""
        observation = self._observation
        self.timing = Timing() if observation is None or not observation.laps else _Laps()

    async def read(self, read: Callable[[bytes], _Read], body: bytes) -> _Read:
        """Return what ``read`` makes of the body, aside if it is large."""
        with self.timing("decode"):
            if len(body) < LARGE_BODY:
                return read(body)
            return await read_aside(read, body)

    async def rank(self, query: Query, *, at: str | None = "/model") -> Ranked:
        """Rank the query with the model that it names; a problem with the name points ``at`` it."""
        return await self.order(*await self.decode(query, at=at), query.options)

    async def decode(self, query: Query, *, at: str | None = "/model") -> tuple[LiveModel, Documents]:
        """Return the model that the query names, and its documents for that model."""
        model = await self.find(query.options.model, at=at)
        with self.timing("decode"):
            return model, query.documents(model.ranker.contract, self._service.limits)

    async def find(self, address: str | None, *, at: str | None) -> LiveModel:
        """Return the model addressed."""
        service = self._service
        with self.timing("decode"):
            self._model = model = service.live.find(address) or await service.resolve(address, at=at)
        return model

    async def order(self, model: LiveModel, documents: Documents, options: Options = _NO_OPTIONS) -> Ranked:
        """Rank the documents; many of them aside, so that health checks and small requests are answered meanwhile."""
        self._model = model
        if len(documents.matrix) * model.work < LARGE:
            ranking = rank(model.ranker, documents, self.timing)
        else:
            ranking = await rank_aside(rank, model.ranker, documents, self.timing)
        self._ranked = ranked = Ranked(model, options, documents, ranking)
        return ranked

    def stop(self) -> Mapping[str, float]:
        """Return the stages and their total, the same whenever it is asked."""
        if self._milliseconds is None:
            self._milliseconds = self.timing.stop()
        return self._milliseconds


def rank(ranker: Ranker, documents: Documents, timing: Stopwatch) -> Ranking:
    """Rank the documents; an error says where in the request they are."""
    try:
        return ranker.rank(documents.matrix, stage=timing)
    except InvalidDocuments as error:
        at = None if error.document is None else documents.locate(error.document, error.feature)
        raise problem_of(error, at) from None
    except LocalRankError as error:
        raise problem_of(error) from error


def route_members(route: Route) -> dict[str, Any]:
    """Return the route as the answer shows it."""
    return {
        "strategy": route.strategy,
        "cluster": route.cluster,
        "similarity": route.similarity,
        "margin": route.margin,
        "candidates": route.candidates,
        "fallback": route.fallback,
    }


def warnings_of(ranker: Ranker, documents: Documents, ranking: Ranking) -> list[dict[str, Any]]:
    """Return what the caller should know although the request was answered."""
    if not ranking.imputed and not documents.ignored:
        return []
    names = ranker.contract.names
    return [
        {"code": "feature_imputed", "feature": names[feature], "count": count}
        for feature, count in ranking.imputed.items()
    ] + [
        {"code": "feature_ignored", "feature": name, "count": count}
        for name, count in documents.ignored.items()
    ]


def server_timing(milliseconds: Mapping[str, float]) -> str:
    """Return the value of the ``Server-Timing`` header."""
    return ", ".join(f"{name};dur={elapsed:g}" for name, elapsed in milliseconds.items())
