"""What the routes share: one value per application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localrank_service.keys import Keys
    from localrank_service.live import LiveModels
    from localrank_service.metrics import Metrics
    from localrank_service.settings import Settings
    from localrank_service.wire.query import Limits

__all__ = ["Service"]


@dataclass(slots=True, eq=False)
class Service:
    """The parts of a running service."""

    settings: Settings
    live: LiveModels
    keys: Keys
    metrics: Metrics
    limits: Limits
    draining: bool = False

    def unready(self) -> str | None:
        """Return why requests should not be sent here, or ``None``."""
        if self.draining:
            return "the server is shutting down"
        if not self.live.loaded:
            return "models are being loaded"
        broken = [f"model {name!r} is broken: {reason}" for name, reason in self.live.broken.items()]
        if not self.live.champions:
            return "; ".join(broken) or f"no model in {self.settings.models_dir} has a champion"
        return "; ".join(broken) if broken and self.settings.ready == "all" else None
