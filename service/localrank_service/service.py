"""What the routes share: one value per application."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Scope

    from localrank_service.experiments.running import Experiments
    from localrank_service.http.admission import Admission
    from localrank_service.http.connections import Connections
    from localrank_service.http.cors import Cors
    from localrank_service.http.keys import Keys
    from localrank_service.http.origin import Hosts
    from localrank_service.impressions.log import ImpressionLog
    from localrank_service.models.live import LiveModel, LiveModels
    from localrank_service.models.loading import Loader
    from localrank_service.models.workers import Workers
    from localrank_service.process.settings import Settings
    from localrank_service.reranking import Rank
    from localrank_service.telemetry.meters import Meters
    from localrank_service.telemetry.observing import Observer
    from localrank_service.wire.query import Limits

__all__ = ["Service"]


@dataclass(slots=True, eq=False)
class Service:
    """The parts of a running service; no loader where the models were given.

    Attributes:
        rank: ranks one query, in the way that the settings have chosen.
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

    def unready(self) -> Problem | None:
        """Return why requests should not be sent here, or ``None``."""
        if not self.draining and not self.live.loaded:
            return self.live.waiting()
        reason = "the server is shutting down" if self.draining else self._lacking()
        return None if reason is None else Problem(503, reason, headers={"Retry-After": "1"})

    def _away(self) -> str | None:
        """Return why the folder of models at a URL cannot be read, if it cannot."""
        if self.loader is None or self.loader.remote is None:
            return None
        return self.loader.remote.error()

    def _lacking(self) -> str | None:
        """Return what is wrong with the models, if requests should not be sent here because of it."""
        champions = self.live.champions
        # A broken model with an earlier version is reported, but requests can use it.
        broken = [
            f"model {name!r} is broken: {reason}"
            for name, reason in self.live.broken.items()
            if "@" not in name and name not in champions
        ]
        if not champions:
            unloaded = [f"model {name!r} is unloaded" for name in sorted(self.live.unloaded)]
            away = [f"its URL cannot be read: {error}"] if (error := self._away()) else []
            nothing = [] if broken or unloaded else [f"no model in {self.settings.models_dir} has a champion"]
            return "; ".join([*broken, *unloaded, *nothing, *away])
        return "; ".join(broken) if broken and self.settings.ready == "all" else None
