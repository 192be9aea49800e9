"""From a query to its ranking: what all routes that rank share.

One call down to `localrank.ranker.Ranker.rank`, one value up. Errors of core gain their place in the request here and
pass on to `localrank_service.http.problems`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from localrank.cloud import Cloud
from localrank.errors import InvalidDocuments, LocalRankError
from localrank_service.aside import PERMIT, RANKER, READER
from localrank_service.describe.explanation import explain
from localrank_service.http.problems import STATUSES, Problem, problem_of
from localrank_service.telemetry.observing import OBSERVATION, Lap, Observed
from localrank_service.wire.answer import Ranked, Timing
from localrank_service.wire.query import Options

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from localrank.arrays import Matrix
    from localrank.stages import Stopwatch
    from localrank_service.models.live import LiveModel
    from localrank_service.service import Service
    from localrank_service.telemetry.observing import Observation
    from localrank_service.wire.query import Documents

__all__ = ["Attempt"]


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


_P = ParamSpec("_P")
_T = TypeVar("_T")

_NO_OPTIONS = Options()

#: A request is ranked in a thread if its documents times `LiveModel.work` are at least this. Below, ranking takes a few milliseconds
#: at most; there the way to a thread and back costs more than it spares others.
LARGE = 500_000
#: How many times as long it takes to rank and explain every score, at most.
EXPLAINING = 10
#: A body of at least this size in bytes is checked in a thread, without the interpreter. Smaller ones take 1 ms if they are plain.
LARGE_BODY = 2**20


class Attempt:
    """One query on its way through the stages; counted however that ends.

    Attributes:
        api: the wire, as the metrics name it.
        timing: begun by `begin`, when the whole body is there.
    """

    __slots__ = ("_model", "_observation", "_ranked", "_service", "api", "timing")

    def __init__(self, service: Service, api: str) -> None:
        self.api = api
        self._observation = OBSERVATION.get()
        self.begin()
        self._service = service
        self._model: LiveModel | None = None
        self._ranked: Ranked | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        meters = self._service.meters
        if isinstance(error, Exception):
            if isinstance(error, Problem):
                status = error.status
            else:
                status = STATUSES.get(type(error), 500) if isinstance(error, LocalRankError) else 500
            meters.refused(self.api, self._model, status, self.timing.stop()["total"] / 1e3)
            if self._observation is not None:
                self._note(self._observation)
        elif error is None and self._ranked is not None and self._model is not None:
            done = self._ranked
            meters.ranked(self.api, self._model, done.ranking, done.out_of_range, self.timing.stop())
            if self._observation is not None:
                self._note(self._observation)

    def _note(self, observation: Observation) -> None:
        """Add the query to what is noted of its request."""
        done, laps = self._ranked, self.timing.laps if isinstance(self.timing, _Laps) else []
        ranking, documents = (None, None) if done is None else (done.ranking, done.documents.matrix)
        observation.add(Observed(self._model, ranking, documents, self.timing.stop(), laps))

    def begin(self) -> None:
        """Start measuring."""
        observation = self._observation
        self.timing: Timing = Timing() if observation is None or not observation.laps else _Laps()

    async def find(self, address: str | None, *, at: str | None = "/model") -> LiveModel:
        """Return the model addressed; a problem with the address points ``at`` it."""
        service = self._service
        with self.timing("decode"):
            self._model = model = service.live.find(address) or await service.resolve(address, at=at)
        return model

    async def read(self, read: Callable[_P, _T], cost: int, *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Return what ``read`` makes of the arguments, in a thread if it costs as much as a large body."""
        with self.timing("decode"):
            if cost < LARGE_BODY:
                return read(*arguments, **named)
            return await READER.run(cost, read, *arguments, **named)

    async def write(self, write: Callable[_P, _T], cost: int, *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Return what ``write`` makes of the arguments, in a thread if it repeats as much as a large body holds."""
        if cost < LARGE_BODY:
            return write(*arguments, **named)
        return await READER.run(cost, write, *arguments, **named)

    async def rank(self, model: LiveModel, documents: Documents, options: Options = _NO_OPTIONS) -> Ranked:
        """Rank the documents; many in a thread, so that health checks and small requests are answered meanwhile."""
        self._model = model
        n_documents = len(documents.matrix)
        if (permit := PERMIT.get()) is not None:
            permit.hold(n_documents)
        given = model, documents, options, self.timing
        work = n_documents * model.work * (EXPLAINING if options.explain == "contributions" else 1)
        if work < LARGE:
            self._ranked = ranked = _ranked(*given)
        else:
            self._ranked = ranked = await RANKER.run(work, _ranked, *given)
        return ranked


def _ranked(model: LiveModel, documents: Documents, options: Options, timing: Stopwatch) -> Ranked:
    """Rank the documents; an error says where in the request they are."""
    ranker = model.ranker
    asked: Matrix | Cloud = documents.matrix
    try:
        if options.explain != "none":
            # One cloud for both, so that nothing is computed twice.
            with timing("sign"):
                asked = ranker.contract.cloud(documents.matrix)
        ranking = ranker.rank(asked, stage=timing)
    except InvalidDocuments as error:
        at = None if error.document is None else documents.locate(error.document, error.feature)
        raise problem_of(error, at) from None
    except LocalRankError as error:
        raise problem_of(error) from error
    explanation = None
    if isinstance(asked, Cloud):
        with timing("explain"):
            explanation = explain(model, asked, ranking, options)
    out_of_range = ranker.contract.out_of_range(documents.matrix)
    return Ranked(model.name, model.version, ranker, options, documents, ranking, explanation, out_of_range)
