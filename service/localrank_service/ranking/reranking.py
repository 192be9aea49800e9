"""From a query to its ranking: what all routes that rank share.

One call down to `localrank.ranker.Ranker.rank`, one value up. Errors of core gain their place in the request here and
pass on to `localrank_service.http.problems`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, ParamSpec, Self, TypeAlias, TypeVar

import numpy as np
from starlette.requests import ClientDisconnect

from localrank.errors import InvalidDocuments, LocalRankError
from localrank.features.blocks import Cloud
from localrank.ranker import Stopwatch
from localrank_service.http.aside import PERMIT, RANKER, READER
from localrank_service.http.problems import STATUSES, Problem, problem_of
from localrank_service.online.arms import Taking
from localrank_service.ranking.explaining import MOST_CELLS, MOST_ROUTES, explain, routing_work, rows_of
from localrank_service.ranking.ladder import rank_in_time, rank_lower
from localrank_service.telemetry.observing import OBSERVATION, Observed
from localrank_service.wire.answer import Ranked
from localrank_service.wire.query import Options, with_items
from localrank_service.wire.rules import applied

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from starlette.types import Scope

    from localrank.arrays import Matrix
    from localrank.ladder import Degraded
    from localrank.ranker import Ranking
    from localrank_service.http.admission import Admission
    from localrank_service.models.live import LiveModel
    from localrank_service.online.experiments import DrawnPart, Experiments
    from localrank_service.ranking.service import Service
    from localrank_service.wire.query import Documents
    from localrank_service.wire.rules import Ruled

    #: Ranks one query.
    Rank: TypeAlias = Callable[[LiveModel, Documents, Options, Stopwatch], Ranked]


_P = ParamSpec("_P")
_T = TypeVar("_T")

_NO_OPTIONS = Options()

#: A request is ranked in a thread if its documents times `LiveModel.work` are at least this. Below, ranking takes a few milliseconds
#: at most; there the way to a thread and back costs more than it spares others.
LARGE = 500_000
#: How many times as long it takes to rank and explain every score, at most.
EXPLAINING = 10
#: So many different models one request may name.
MOST_MODELS = 32
#: A body of at least this size in bytes is checked in a thread, without the interpreter. Smaller ones take 1 ms if they are plain.
LARGE_BODY = 2**20
#: Bytes of one contribution in an answer, about.
CELL = 20


class Attempt:
    """One query on its way through the stages: timed by one stopwatch, and observed once, however it ends.

    If its request is a trial (header LocalRank-Trial), it counts as work, but not as traffic of users.

    Attributes:
        api: the wire, as the metrics name it.
        drawn: the part of the request in an experiment.
        timing: of the stages; it starts anew, with ``decode``, when the whole body is there.
    """

    __slots__ = (
        "_address",
        "_cells",
        "_live",
        "_model",
        "_query",
        "_ranked",
        "_scope",
        "_service",
        "api",
        "drawn",
        "timing",
    )

    def __init__(self, service: Service, api: str, scope: Scope, query: int = 0) -> None:
        self.api = api
        self.drawn: DrawnPart | None = None
        self.timing = Stopwatch()
        self._service = service
        self._scope = scope
        self._query = query
        self._live = not scope["trial"]
        self._address: str | None = None
        self._model: LiveModel | None = None
        self._ranked: Ranked | None = None
        self._cells = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Observe how it ended: in the metrics, in the log of impressions, and in the records of its request."""
        service, model, done = self._service, self._model, self._ranked
        if isinstance(error, Exception):
            took = self.timing.stop()
            service.meters.refused(self.api, model, _status_of(error), took["total"] / 1e3)
        elif error is None and done is not None and model is not None:
            took = self.timing.stop()
            service.meters.ranked(
                self.api,
                model,
                done.ranking,
                done.out_of_range,
                took,
                degraded=done.degraded,
                live=self._live,
            )
            if done.placed is not None and self._live:
                service.meters.placed(done.name, done.version, *done.placed)
            if (looked := done.documents).generations:
                service.meters.looked_up(model.name, looked.generations, len(looked.matrix), looked.unknown)
            if service.impressions is not None and self._live:
                service.impressions.show(self.api, self._scope, self._query, done)
        else:
            # Nobody waits for an answer, or others are counted for it.
            return
        if (observation := OBSERVATION.get()) is not None:
            ranking, documents = (None, None) if done is None else (done.ranking, done.documents.matrix)
            observation.add(Observed(model, ranking, documents, took, self.timing.laps()))

    async def find(
        self,
        address: str | None,
        *,
        at: str | None = "/model",
        found: dict[str | None, LiveModel | None] | None = None,
    ) -> LiveModel:
        """Return the model addressed; a problem with the address points ``at`` it.

        A version that is not loaded is loaded if the request has an admin key.

        Args:
            address: of the model.
            at: where in the request the address stands.
            found: the models that earlier queries of the same request have asked for; this query adds its own. So if an
                alias moves meanwhile, the request does not notice.
        """
        service = self._service
        self._address = address
        model = None
        if found is not None:
            if len(found) >= MOST_MODELS and address not in found:
                said = f"expected at most {MOST_MODELS} different models in one request, found another"
                raise Problem(422, f"{said}; send several requests", pointer=at)
            model = found.setdefault(address, None)
        model = model or service.live.find(address) or await service.resolve(address, self._scope, at=at)
        self._model = model
        if found is not None:
            found[address] = model
        return model

    async def run(self, function: Callable[_P, _T], cost: int, *given: _P.args, **named: _P.kwargs) -> _T:
        """Return what a function that reads or writes returns, in a thread if it costs as much as a large body.

        Args:
            function: to be called.
            cost: bytes that it reads, or writes besides contributions.
            given: its arguments.
            named: its arguments.
        """
        cost += CELL * self._cells
        if cost < LARGE_BODY:
            return function(*given, **named)
        return await READER.run(cost, function, *given, **named)

    async def rank(
        self,
        model: LiveModel,
        documents: Documents,
        options: Options = _NO_OPTIONS,
        *,
        alone: bool = False,
    ) -> Ranked:
        """Rank the documents; many in a thread, so that health checks and small requests are answered meanwhile.

        Args:
            model: that was asked for.
            documents: to rank.
            options: of the request.
            alone: whether the request is treated as a trial: it takes no part in experiments, is no impression, and
                says nothing of the traffic.
        """
        self._live = self._live and not alone
        self._model = model
        # Once, although in an experiment two versions may rank.
        if options.explain == "contributions":
            self._claim_contributions(model, len(documents.matrix), options)
        elif options.explain == "route":
            self._claim_route()
        experiments = self._service.experiments
        if experiments is not None and experiments.active and self._live:
            self._ranked = ranked = await self._rank_in_experiment(experiments, model, documents, options)
            return ranked
        self._ranked = ranked = await self._rank(model, documents, options)
        return ranked

    async def _rank(self, model: LiveModel, documents: Documents, options: Options) -> Ranked:
        self._model = model
        if model.tables is not None:
            self.timing("look_up")
            documents = with_items(documents, model.tables.items, model.ranker.contract)
        n_documents = len(documents.matrix)
        work: float = n_documents * model.work
        held = n_documents
        if options.explain == "contributions":
            work *= EXPLAINING
            held += rows_of(options, n_documents)
        elif options.explain == "route":
            work += routing_work(model)
        if (permit := PERMIT.get()) is not None:
            permit.hold(held)
        rank = self._service.rank
        if options.timeout_ms is not None:
            work, rank = self._in_time(work, options.timeout_ms)
        if model.watched and self._live and self._service.signs():
            rank = partial(_placed, rank)
        given = model, documents, options, self.timing
        if work < LARGE:
            return rank(*given)
        self.timing("")  # waiting is no stage
        return await RANKER.run(work, rank, *given)

    def _claim_contributions(self, model: LiveModel, n_documents: int, options: Options) -> None:
        """Refuse more contributions than the answer to one request may have."""
        n_features = model.ranker.contract.n_features
        rows = rows_of(options, n_documents)
        before: int = self._scope.get("contributions", 0)
        self._cells = rows * n_features
        if before + self._cells > MOST_CELLS:
            left = f", and {MOST_CELLS - before} are left" if before else ""
            raise Problem(
                413,
                f"explain: {rows} documents with {n_features} contributions each are {self._cells} numbers; this server "
                f"answers {MOST_CELLS} per request{left}; ask for fewer documents with top_n",
                pointer="/explain",
            )
        self._scope["contributions"] = before + self._cells

    def _claim_route(self) -> None:
        """Refuse to explain the routes of more queries than one request may ask for."""
        self._scope["routes"] = asked = self._scope.get("routes", 0) + 1
        if asked > MOST_ROUTES:
            raise Problem(
                413,
                f"explain: this server explains the routes of {MOST_ROUTES} queries per request",
                pointer="/explain",
            )

    async def _rank_in_experiment(
        self, experiments: Experiments, model: LiveModel, documents: Documents, options: Options
    ) -> Ranked:
        """Rank the documents, if the request is for a model by its name alone, as the model's experiments want it."""
        if self._address is not None and "@" in self._address:
            return await self._rank(model, documents, options)
        # One call of the Open Inference Protocol uses one version for all its queries.
        whole = not self._query or self.api == "v2"
        request_id: str = self._scope["request_id"]
        request = request_id if whole else f"{request_id}/{self._query}"
        if self.drawn is None:
            # Each page of a list would be interleaved by itself.
            whole_list = options.answer == "ranking" and not options.offset
            teams = self.api != "v2" and options.explain == "none" and whole_list
            self.drawn = experiments.draw(model, options, request, teams=teams)
        if self.drawn is None:
            ranked = await self._rank(model, documents, options)
            plain: Ranked | None = ranked
        else:
            deadline = None if options.timeout_ms is None else self._deadline(options.timeout_ms)
            taking = Taking(experiments, self._rank, self.timing, deadline)
            ranked = await taking.part(self.drawn, model, documents, options, request=request)
            self._model = self.drawn.running.candidate if taking.by_candidate else model
            plain = taking.baseline
        if plain is not None and plain.degraded is None:
            experiments.offer(model, options, request, plain)
        return ranked

    def _in_time(self, work: float, timeout_ms: float) -> tuple[float, Rank]:
        """Return the work, and what ranks before the time has passed.

        If the time will have passed before the thread for large requests is free, there is no work that it should do.
        """
        deadline = self._deadline(timeout_ms)
        if work >= LARGE and monotonic() + RANKER.wait() > deadline:
            return 0.0, partial(_rank_in_time, deadline=0.0)
        return work, partial(_rank_in_time, deadline=deadline)

    def _deadline(self, timeout_ms: float) -> float:
        """Return when the time has passed, on the monotonic clock; it began when the whole request had arrived."""
        permit = PERMIT.get()
        begun = permit.arrived if permit is not None else 0.0
        return (begun or monotonic() - (perf_counter() - self.timing.begun)) + timeout_ms / 1e3


def rank_plainly(model: LiveModel, documents: Documents, options: Options, timing: Stopwatch) -> Ranked:
    """Rank the documents; an error says where in the request they are."""
    ranker = model.ranker
    asked: Matrix | Cloud = documents.matrix
    try:
        if options.explain != "none":
            # One cloud for both, so that nothing is computed twice.
            timing("sign" if ranker.router.chooses else "score")
            asked = ranker.contract.cloud(documents.matrix)
        ranking = ranker.rank(asked, stage=timing)
    except LocalRankError as error:
        raise _located(error, documents) from None
    by_rules, ruled = _ruled(ranking, documents, options, timing)
    explanation = None
    if isinstance(asked, Cloud):
        timing("explain")
        order = by_rules.order if options.answer == "ranking" else np.arange(len(ranking.order))
        explanation = explain(model, asked, replace(ranking, order=order), options)
        timing("")
    out_of_range = ranker.contract.out_of_range(documents.matrix)
    return Ranked(
        *(model.name, model.version, ranker, options, documents, by_rules, explanation, out_of_range),
        ruled=ruled,
    )


def under_pressure(admission: Admission, share: float) -> Rank:
    """Return what ranks more cheaply while requests wait for longer than a share of what they may wait."""

    def rank(model: LiveModel, documents: Documents, options: Options, timing: Stopwatch) -> Ranked:
        strain = admission.strain()
        if strain <= share or not options.allow_degraded or options.explain != "none":
            return rank_plainly(model, documents, options, timing)
        lowest = strain > (1 + share) / 2
        try:
            found = rank_lower(model, documents.matrix, timing, lowest=lowest)
        except LocalRankError as error:
            raise _located(error, documents) from None
        return _degraded(model, documents, options, timing, found)

    return rank


def _rank_in_time(
    model: LiveModel, documents: Documents, options: Options, timing: Stopwatch, *, deadline: float
) -> Ranked:
    try:
        found = rank_in_time(model, documents.matrix, options, timing, deadline)
    except LocalRankError as error:
        raise _located(error, documents) from None
    return _degraded(model, documents, options, timing, found)


def _degraded(
    model: LiveModel,
    documents: Documents,
    options: Options,
    timing: Stopwatch,
    found: tuple[Ranking, Degraded | None],
) -> Ranked:
    ranker, degraded = model.ranker, found[1]
    ranking, ruled = _ruled(found[0], documents, options, timing)
    out_of_range = ranker.contract.out_of_range(documents.matrix)
    return Ranked(
        *(model.name, model.version, ranker, options, documents, ranking, None, out_of_range, degraded),
        ruled=ruled,
    )


def _placed(
    rank: Rank, model: LiveModel, documents: Documents, options: Options, timing: Stopwatch
) -> Ranked:
    """Rank, then sign the query to tell which kind of training queries it is like, if there is time left for that."""
    ranked = rank(model, documents, options, timing)
    late = options.timeout_ms is not None and perf_counter() - timing.begun > options.timeout_ms / 2e3
    if model.query_map is None or ranked.degraded is not None or late:
        return ranked
    timing("sign")
    ranker = model.ranker
    point = ranker.representation.of(ranker.contract.cloud(documents.matrix))
    kind = model.query_map.nearest(point, ranker.router)
    timing("")
    return replace(ranked, placed=(kind,))


def _ruled(
    ranking: Ranking, documents: Documents, options: Options, timing: Stopwatch
) -> tuple[Ranking, Ruled | None]:
    if not options.pin and not options.boost:
        return ranking, None
    timing("order")
    found = applied(ranking, documents, options)
    timing("")
    return found


def _status_of(error: Exception) -> int:
    """Return the status that the request of this error is counted with."""
    if isinstance(error, Problem):
        return error.status
    if isinstance(error, ClientDisconnect):
        return 499
    return STATUSES.get(type(error), 500) if isinstance(error, LocalRankError) else 500


def _located(error: LocalRankError, documents: Documents) -> Problem:
    """Return the problem, which says where in the request the documents are."""
    if isinstance(error, InvalidDocuments) and error.document is not None:
        return problem_of(error, documents.locate(error.document, error.feature))
    return problem_of(error)
