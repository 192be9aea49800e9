"""What the routes share: one value per application."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from localrank.registry.versions import CHAMPION
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.types import Scope

    from localrank_service.http.admission import Admission, Connections
    from localrank_service.http.cors import Cors
    from localrank_service.http.keys import Keys
    from localrank_service.http.origin import Hosts
    from localrank_service.http.problems import Reason
    from localrank_service.models.live import LiveModel, LiveModels
    from localrank_service.models.loading import Loader
    from localrank_service.models.workers import Workers
    from localrank_service.online.experiments import Experiments
    from localrank_service.online.impressions import ImpressionLog
    from localrank_service.process.settings import Settings
    from localrank_service.ranking.reranking import Rank
    from localrank_service.telemetry.meters import Meters
    from localrank_service.telemetry.observing import Observer
    from localrank_service.wire.query import Limits

#: Why a worker is not ready before it has tried every model.
_LOADING = "models are being loaded"


@dataclass(slots=True, eq=False)
class Service:
    """The parts of a running service; no loader where the models were given.

    Attributes:
        rank: ranks one query, in the way that the settings have chosen.
        drawn: draws which requests are signed although no answer needs it; seeded, so that a run can be repeated.
        impressions: logs what was shown, and feedback to it; none if the settings do not ask for it.
        evaluating: held by the evaluation that runs in this worker.
        experiments: which version answers; none if the settings name no file for them.
    """

    settings: Settings
    live: LiveModels
    keys: Keys
    hosts: Hosts
    cors: Cors | None
    meters: Meters
    observer: Observer
    limits: Limits
    workers: Workers
    loader: Loader | None
    admission: Admission
    connections: Connections
    rank: Rank
    impressions: ImpressionLog | None = None
    evaluating: asyncio.Lock = field(default_factory=asyncio.Lock)
    experiments: Experiments | None = None
    draining: bool = False
    drawn: Random = field(default_factory=lambda: Random(0))

    def signs(self) -> bool:
        """Draw whether a request is signed only to compare it with the map of its model."""
        every = self.settings.sign_every
        return every > 0 and self.drawn.random() * every < 1

    def drain(self) -> None:
        """Become unready, so that no more requests are sent; answer the requests that still come."""
        self.draining = self.connections.draining = True

    async def resolve(self, address: str | None, scope: Scope, *, at: str | None = "/model") -> LiveModel:
        """Return the model addressed, or raise a `Problem`, 404, 409, 422, 429 or 503, that points ``at`` the address.

        Every version that is loaded may be named. Only for a request with an admin key another one is loaded.
        """
        model = self.live.find(address)
        if model is None and self.loader is not None and address is not None:
            try:
                model = await self.loader.fetch(address, admin=self.keys.is_admin(scope))
            except Problem as problem:
                problem.pointer = at
                raise
        if model is None:
            raise self.live.missing(address, at)
        return model

    def unstarted(self) -> Problem | None:
        """Return why the service has not started, or ``None``: it starts when every worker has tried every model."""
        expected = 1 if self.workers.alone else max(1, self.settings.workers)
        if self.loader is not None and self.workers.started(expected):
            return None
        if not self.live.loaded:
            return self.live.waiting()
        left = 0 if self.loader is None else expected - sum(one.loaded for one in self.workers.living())
        if left <= 0:
            return None
        return _unready(f"{left} of {expected} workers are still loading their models", "loading")

    def unready(self) -> Problem | None:
        """Return why requests should not be sent here, or ``None``. It is ready as long as one of its workers is."""
        if self.draining:
            return _unready("the server is shutting down", "stopping")
        if (problem := self.unstarted()) is not None:
            return problem
        reasons = self._reasons()
        if None in reasons.values():
            return None
        loading = _LOADING in reasons.values()
        return _unready(
            "; ".join(dict.fromkeys(map(str, reasons.values()))), "loading" if loading else "broken"
        )

    def unready_workers(self) -> dict[str, str]:
        """Return why some workers are not ready, by process."""
        return {str(pid): reason for pid, reason in self._reasons().items() if reason is not None}

    def _reasons(self) -> dict[int, str | None]:
        """Return why each worker is not ready, if it is not, by process."""
        found = {os.getpid(): self._lacking() if self.live.loaded else _LOADING}
        for report in self.workers.others():
            champions = {name for name, aliases in report.serving.items() if CHAMPION in aliases}
            broken = _broken(report.broken, champions)
            if not report.loaded:
                found[report.pid] = _LOADING
            elif not champions:
                found[report.pid] = "; ".join(broken) or "it serves no model"
            else:
                found[report.pid] = "; ".join(broken) if broken and self.settings.ready == "all" else None
        return found

    def _away(self) -> str | None:
        """Return why the folder of models at a URL cannot be read, if it cannot."""
        if self.loader is None or self.loader.remote is None:
            return None
        return self.loader.remote.error()

    def _lacking(self) -> str | None:
        """Return what is wrong with the models, if requests should not be sent here because of it."""
        champions = self.live.champions
        broken = _broken(self.live.broken, champions)
        if not champions:
            unloaded = [f"model {name!r} is unloaded" for name in sorted(self.live.unloaded)]
            away = [f"its URL cannot be read: {error}"] if (error := self._away()) else []
            nothing = [] if broken or unloaded else ["no model has a champion"]
            return "; ".join([*broken, *unloaded, *nothing, *away])
        return "; ".join(broken) if broken and self.settings.ready == "all" else None


def _unready(detail: str, reason: Reason) -> Problem:
    return Problem(503, detail, headers={"Retry-After": "1"}, reason=reason)


def _broken(broken: Mapping[str, str], champions: Collection[str]) -> list[str]:
    """Return what is wrong with models that have no champion. One with an earlier version can be used."""
    return [
        f"model {name!r} is broken: {reason}"
        for name, reason in broken.items()
        if "@" not in name and name not in champions
    ]
