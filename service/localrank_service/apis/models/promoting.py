"""Moving an alias while the service runs, with an answer that is true for every worker.

The registry verifies and moves the alias; then every live worker must have switched before the answer is yes. Once the
alias has moved, every answer says so. A version that takes too long to verify is given up, and no alias moves to it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localrank.errors import ArtifactError
from localrank.registry.versions import Registry
from localrank_service.http.aside import beside
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank.registry.versions import Reference
    from localrank_service.ranking.service import Service

_log = logging.getLogger("localrank.service")

_POLL = 0.02


@dataclass(frozen=True, slots=True)
class Switched:
    """Every one of these workers serves the version under the alias."""

    name: str
    alias: str
    version: int
    previous: int | None
    workers: tuple[int, ...]


async def promote(service: Service, name: str, version: int, alias: str) -> Switched:
    """Let an alias stand for a version, in every worker."""
    return await _move(service, name, alias, lambda registry: registry.promote(name, version, alias))


async def rollback(service: Service, name: str, alias: str) -> Switched:
    """Let an alias stand again for what it stood for before, in every worker."""
    return await _move(service, name, alias, lambda registry: registry.rollback(name, alias))


async def _move(service: Service, name: str, alias: str, move: Callable[[Registry], Reference]) -> Switched:
    loader = service.loader
    if loader is None:
        raise Problem(
            503,
            "this process was started with models in memory; it has no registry to change",
            reason="fixed",
        )
    registry = loader.registry
    if loader.remote is not None:
        raise Problem(
            409,
            "this service follows the aliases of a folder of models at a URL; move the alias there: "
            "localrank models promote or rollback, then localrank models push",
        )
    if name in service.workers.unloaded():
        raise Problem(409, f"model {name!r} is unloaded; load it first")
    with loader.told(refused=409):
        previous = (await asyncio.to_thread(registry.aliases, name)).get(alias)
        reference = await _verified(name, registry, move, service.settings.load_timeout_seconds)
    try:
        await loader.refresh(name)
    except Exception:  # noqa: BLE001
        # The alias has moved; the workers look for it again and again.
        _log.exception("cannot load %s@%s now; trying again", name, alias)
    deadline = time.monotonic() + service.settings.switch_timeout_seconds
    while True:
        reports = await asyncio.to_thread(service.workers.living)
        behind = [one for one in reports if one.serving.get(name, {}).get(alias) != reference.version]
        if not behind:
            workers = tuple(report.pid for report in reports)
            return Switched(name, alias, reference.version, previous, workers)
        now = reference.version
        with suppress(ArtifactError):
            now = (await asyncio.to_thread(registry.aliases, name)).get(alias, 0)
        if now != reference.version:
            raise Problem(409, f"{name}@{alias} was moved to version {now} meanwhile")
        if time.monotonic() > deadline:
            who = ", ".join(
                f"{one.pid} "
                f"({one.broken.get(name) or one.broken.get(f'{name}@{alias}') or 'no reason known'})"
                for one in behind
            )
            raise Problem(
                503,
                f"{name}@{alias} is version {reference.version} now, but these workers do not serve it yet: "
                f"{who}",
                headers={"Retry-After": "1"},
                reason="workers",
            )
        await asyncio.sleep(_POLL)


async def _verified(
    name: str, registry: Registry, move: Callable[[Registry], Reference], seconds: float
) -> Reference:
    """Move an alias in a thread of its own; raise a `Problem` if its version takes longer than that to verify."""
    given_up, verified, deciding = threading.Event(), threading.Event(), threading.Lock()

    def verify(folder: Path) -> None:
        verified.clear()
        registry.verify(folder)
        with deciding:
            if given_up.is_set():
                raise ArtifactError(f"{folder}: given up")
            verified.set()

    moving = beside(move, Registry(registry.models_dir, verify=verify))
    moving.add_done_callback(asyncio.Future.exception)
    await asyncio.wait({moving}, timeout=seconds)
    with deciding:
        if not moving.done() and not verified.is_set():
            given_up.set()
            raise Problem(
                409,
                f"given up: expected the version to verify within {seconds:g} seconds; nothing was changed",
            )
    # From here on it cannot be given up: only the alias is still to be written.
    await asyncio.wait({moving}, timeout=seconds)
    if not moving.done():
        raise Problem(
            503,
            f"{name}: the version has verified, but its alias is not written yet; it may move later",
            headers={"Retry-After": "1"},
            reason="storage",
        )
    return moving.result()
