"""The experiments of one worker: which requests take part, what is counted, and when a canary is taken back.

Requests look at `Experiments.active` and at two dictionaries, which are replaced as a whole. Everything else happens beside
them, every ``poll_seconds``: the file is read if it changed, candidates are loaded, canaries are judged by the counts of all
workers. Whichever worker finds that a canary must be taken back tells the others, and all of them follow with their next look.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from localrank.ladder import OVERLOAD
from localrank_service.http.problems import Problem
from localrank_service.online.arms import LinearPace, judged, place, unit_of
from localrank_service.online.definition import CANARY, INTERLEAVING, SHADOW, Guardrails
from localrank_service.online.shadow import Job, Shadow
from localrank_service.online.store import Written
from localrank_service.telemetry.experiments import Arm
from localrank_service.wire.answer import BASELINE, CANDIDATE, INTERLEAVED, Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank_service.http.admission import Admission
    from localrank_service.models.live import LiveModel, LiveModels
    from localrank_service.models.loading import Loader
    from localrank_service.models.workers import Workers
    from localrank_service.online.definition import Definition
    from localrank_service.online.store import ExperimentStore
    from localrank_service.telemetry.meters import Meters
    from localrank_service.wire.answer import Ranked
    from localrank_service.wire.query import Options

_log = logging.getLogger("localrank.service")

OFF = (
    "experiments are off: set LOCALRANK_EXPERIMENTS_FILE to the path of a JSON file and restart the service; "
    "the file may be missing at first"
)
_POLL = 0.02
RUNNING, RETURNED, WAITING, OVER = "running", "returned", "waiting", "over"


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """An experiment that requests take part in, with its candidate, and how long its baseline takes here."""

    definition: Definition
    run: str
    candidate: LiveModel
    pace: LinearPace = field(default_factory=LinearPace)

    @property
    def share(self) -> float:
        return self.definition.percent / 100

    @property
    def labels(self) -> tuple[str, str]:
        """Name and run, as the metrics have them."""
        return self.definition.name, self.run

    def tests(self, model: LiveModel) -> bool:
        """Tell whether the model is the candidate itself."""
        return (self.candidate.name, self.candidate.version) == (model.name, model.version)


class DrawnPart(NamedTuple):
    """The part that a request takes in an experiment."""

    running: Running
    part: Part


@dataclass(slots=True, eq=False)
class Experiments:
    """The experiments of one worker.

    Attributes:
        active: whether any request may take part in one.
        written: the file and the notes, as last read.
        looked: set once all experiments were looked at with the models loaded.
        key: of the draws.
    """

    store: ExperimentStore
    live: LiveModels
    loader: Loader | None
    workers: Workers
    meters: Meters
    admission: Admission
    active: bool = False
    written: Written = field(default_factory=Written)
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    shadow: Shadow = field(init=False)
    key: bytes = b""
    _answering: Mapping[str, Running] = field(default_factory=dict)
    _shadows: Mapping[str, tuple[Running, ...]] = field(default_factory=dict)
    _states: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    #: Whether the loader has tried to load all models.
    _loaded: asyncio.Event = field(init=False)
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.shadow = Shadow(self.admission, self.meters.experiments)
        if self.loader is not None:
            self._loaded = self.loader.tried
        else:
            self._loaded = asyncio.Event()
            self._loaded.set()

    # What requests ask.

    def draw(self, model: LiveModel, options: Options, request: str, *, teams: bool) -> DrawnPart | None:
        """Return the part that a request for a model takes in an experiment.

        Args:
            model: that it asked for by its name alone.
            options: of the request.
            request: its id, with the position of the query if it has several.
            teams: whether its answer can be interleaved.
        """
        running = self._answering.get(model.name)
        if running is None or running.tests(model):
            # The candidate was promoted, and the next look ends the experiment.
            return None
        definition = running.definition
        interleaving = definition.kind == INTERLEAVING
        unit = unit_of(definition.unit, options, request)
        if unit is None or (interleaving and not teams):
            self.count(running, "", "outside")
            return None
        chosen = place(self.key, definition.salt, unit) < running.share
        if interleaving and not chosen:
            return None
        arm = INTERLEAVED if interleaving else CANDIDATE if chosen else BASELINE
        return DrawnPart(running, Part(definition.name, arm, unit, running.share))

    def is_fair(self, running: Running, documents: int, left: float | None) -> bool:
        """Tell whether a ranking with these seconds left will say something about its arm.

        It does if there is time for the baseline, as often as the candidate may take longer. Otherwise the caller decides
        how it ends.
        """
        if left is None:
            return True
        guardrails = running.definition.guardrails or Guardrails()
        expected = running.pace.expected(documents)
        return expected is not None and guardrails.latency * expected <= left

    def ranked(self, running: Running, arm: str, ranked: Ranked, seconds: float, *, fair: bool) -> None:
        """Count the answer of an arm, and how long its ranking took, unless the caller or the load is the cause."""
        degraded, documents = ranked.degraded, len(ranked.ranking.order)
        if degraded is None and arm == BASELINE:
            running.pace.learn(documents, seconds)
        if not fair or (degraded is not None and degraded.reason == OVERLOAD):
            self.count(running, "", "outside")
            return
        self.count(running, arm, "ok" if degraded is None else "degraded")
        if degraded is None and (scaled := running.pace.scaled(documents, seconds)) is not None:
            self.meters.experiments.seconds.of(*running.labels, arm).observe(scaled)

    def count(self, running: Running, arm: str, outcome: str) -> None:
        """Count a request; without an arm, it is one that could have taken part, but cannot."""
        self.meters.experiments.requests.of(*running.labels, arm, outcome)[0] += 1.0

    def offer(self, model: LiveModel, options: Options, request: str, ranked: Ranked) -> None:
        """Let shadows also rank a request that the model has ranked; they are compared with the model without rules."""
        alone = ranked.ranking if ranked.ruled is None else ranked.ruled.ranking
        for running in self._shadows.get(model.name, ()):
            definition = running.definition
            if running.tests(model):
                continue
            unit = unit_of(definition.unit, options, request)
            if unit is None:
                self.count(running, "", "outside")
            elif place(self.key, definition.salt, unit) < running.share:
                self.shadow.offer(Job(running, ranked.documents.matrix, alone))

    # What happens beside them.

    async def follow(self, seconds: float) -> None:
        """Look at the file, at the models and at the canaries again and again."""
        while True:
            tried = self._loaded.is_set()
            try:
                await self.refresh()
                await self._judge()
            except Exception:  # noqa: BLE001
                # Running experiments continue after any error, and the next look may succeed.
                _log.exception("cannot update the experiments; trying again")
            if tried:
                self.looked.set()
                await asyncio.sleep(seconds)
            else:
                # Experiments begin as soon as their models are there.
                # Not `wait_for`: Python 3.11 loses a cancellation that comes in the same turn of the loop.
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._loaded.wait()

    async def refresh(self) -> None:
        """Do what is written down."""
        async with self._changing:
            tried = self._loaded.is_set()
            written = await asyncio.to_thread(self.store.read)
            if written.definitions and not self.key:
                self.key = await asyncio.to_thread(self.store.secret)
            candidates = {one.candidate for one in written.definitions if one.run not in written.returned}
            if self.loader is not None:
                await self.loader.pin(candidates)
            if {one.run for one in written.definitions} != {one.run for one in self.written.definitions}:
                await asyncio.to_thread(
                    self.meters.experiments.keep, {one.run for one in written.definitions}
                )
            self.written = written
            self._begin()
            if tried:
                self.workers.follow(written.generation)

    def _begin(self) -> None:
        answering: dict[str, Running] = {}
        shadows: dict[str, tuple[Running, ...]] = {}
        states: dict[str, tuple[str, str | None]] = {}
        paces = {running.run: running.pace for running in self._answering.values()}
        for one in self.written.definitions:
            run = one.run
            state, reason = states[run] = self._state(one, run)
            if one.kind == CANARY:
                self.meters.experiments.returned.set(float(state == RETURNED), one.name, run)
            candidate = self.live.find(one.candidate)
            if state != RUNNING or candidate is None:
                before = self._states.get(run)
                if before != (state, reason) and state != RETURNED and self.live.loaded:
                    _log.warning("experiment %s is %s: %s", one.name, state, reason)
                continue
            running = Running(one, run, candidate, paces.get(run) or LinearPace())
            if one.kind == SHADOW:
                shadows[one.model] = (*shadows.get(one.model, ()), running)
            else:
                answering[one.model] = running
        self._answering, self._shadows, self._states = answering, shadows, states
        self.active = bool(answering or shadows)

    def _state(self, one: Definition, run: str) -> tuple[str, str | None]:
        """Return whether requests take part, and why not."""
        if (record := self.written.returned.get(run)) is not None:
            return RETURNED, record.get("evidence")
        baseline, candidate = self.live.find(one.model), self.live.find(one.candidate)
        if baseline is None or candidate is None:
            return WAITING, self.live.missing(one.model if baseline is None else one.candidate, None).detail
        if (baseline.name, baseline.version) == (candidate.name, candidate.version):
            return (
                OVER,
                f"the champion of {one.model!r} is now version {baseline.version}, the candidate itself",
            )
        ours, theirs = baseline.ranker.contract.names, candidate.ranker.contract.names
        if ours != theirs:
            return (
                WAITING,
                f"expected the features of {one.model!r} in the same order, found others in {one.candidate!r}",
            )
        return RUNNING, None

    async def _judge(self) -> None:
        """Take back canaries that break their guardrails."""
        canaries = [one for one in self._answering.values() if one.definition.kind == CANARY]
        if not canaries:
            return
        arms = await asyncio.to_thread(self.meters.arms)
        for running in canaries:
            definition, guardrails = running.definition, running.definition.guardrails
            baseline, candidate = (arms.get((running.run, arm), Arm()) for arm in (BASELINE, CANDIDATE))
            breach = None if guardrails is None else judged(guardrails, baseline, candidate)
            if breach is None:
                continue
            record = {
                "experiment": definition.name,
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "reason": breach.reason,
                "evidence": breach.evidence,
            }
            if await asyncio.to_thread(self.store.note_return, running.run, record):
                self.meters.experiments.returns.of(definition.name, breach.reason)[0] += 1.0
                _log.error(
                    "canary %s is taken back: %s; %s answers all requests",
                    definition.name,
                    breach.evidence,
                    definition.model,
                )
            await self.refresh()

    # What operators ask.

    async def change(self, name: str, definition: Definition | None, timeout: float) -> tuple[int, ...]:  # noqa: ASYNC109
        """Add, replace or remove an experiment; return the workers when all of them follow it.

        Raises:
            Problem: nothing was changed, or some workers have not followed in time.
        """
        async with self._changing:
            if definition is not None:
                await self._check(definition)
            await asyncio.to_thread(self.store.change, name, definition)
        await self.refresh()
        deadline = time.monotonic() + timeout
        while True:
            wanted = self.written.generation
            reports = await asyncio.to_thread(self.workers.living)
            behind = [report.pid for report in reports if report.experiments != wanted]
            if not behind:
                return tuple(report.pid for report in reports)
            if time.monotonic() > deadline:
                raise Problem(
                    503,
                    f"the file is written, but these workers do not use it yet: {', '.join(map(str, behind))}",
                    headers={"Retry-After": "1"},
                    reason="workers",
                )
            await asyncio.sleep(_POLL)

    async def _check(self, definition: Definition) -> None:
        """Load the candidate. Without it or its model an experiment would wait for ever, and the caller would not know why."""
        if self.loader is not None and self.live.find(definition.candidate) is None:
            name, _, number = definition.candidate.partition("@")
            there = not number.isdecimal() or await asyncio.to_thread(
                self.loader.registry.has, name, int(number)
            )
            if there:
                await self.loader.pin(
                    {one.candidate for one in self.written.definitions} | {definition.candidate}
                )
        for at, address in (("/model", definition.model), ("/candidate", definition.candidate)):
            if self.live.find(address) is None:
                raise self.live.missing(address, at)

    def states(self) -> list[dict[str, str]]:
        """Return the experiments in short."""
        return [
            {"name": one.name, "kind": one.kind, "state": self._states.get(one.run, (WAITING, None))[0]}
            for one in self.written.definitions
        ]

    def shown(self) -> dict[str, Any]:
        """Return the settings, the state and the counts of every experiment, over all workers."""
        counted = self.meters.counted()
        arms = self.meters.experiments.arms(counted)
        return {
            "generation": self.written.generation,
            "workers": [
                {"pid": report.pid, "generation": report.experiments} for report in self.workers.living()
            ],
            "problem": self.written.problem,
            "experiments": [self._one(definition, arms, counted) for definition in self.written.definitions],
        }

    def _one(
        self, definition: Definition, arms: Mapping[tuple[str, str], Arm], counted: Any
    ) -> dict[str, Any]:
        run = definition.run
        state, reason = self._states.get(run, (WAITING, "it starts in a moment"))
        found = {address: self.live.find(address) for address in (definition.model, definition.candidate)}
        outside = arms.get((run, ""), Arm()).outcomes.get("outside", 0.0)
        members = definition.to_json() | {
            "run": run,
            "state": state,
            "reason": reason,
            "returned": self.written.returned.get(run),
            "versions": {
                arm: None if model is None else f"{model.name}@{model.version}"
                for arm, model in zip((BASELINE, CANDIDATE), found.values(), strict=True)
            },
            "arms": {arm: _figures(one) for (of, arm), one in sorted(arms.items()) if of == run and arm},
            "outside": int(outside),
        }
        if definition.kind == SHADOW:
            members["shadow"] = self.meters.experiments.shadowed(counted, run)
        return members


def _figures(arm: Arm) -> dict[str, Any]:
    def shown(share: float) -> float | None:
        value = arm.quantile(share)
        return None if value is None else float(f"{value * 1e3:.3g}")

    return {
        "requests": {name: int(count) for name, count in arm.outcomes.items()},
        "rank_ms": {"p50": shown(0.5), "p95": shown(0.95)},
    }
