"""Taking models out of service and back while it runs: what the protocol's model repository does.

A model that is unloaded is not served by any worker until it is loaded again or the service starts anew; its versions
and aliases stay as they are. The answer is yes once every live worker has followed.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from localrank.registry.versions import CHAMPION
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.registry.versions import Registry
    from localrank_service.models.live import LiveModels
    from localrank_service.models.loading import Loader
    from localrank_service.models.workers import Report
    from localrank_service.ranking.service import Service

_POLL = 0.02


async def load(service: Service, name: str) -> tuple[int, ...]:
    """Serve the model's champion, if it is not served; return the workers that do."""
    loader = _loader(service)
    with loader.told():
        version = (await asyncio.to_thread(loader.registry.aliases, name)).get(CHAMPION)
        await asyncio.to_thread(loader.registry.versions, name)
    if version is None:
        raise Problem(404, f"model {name!r} has no {CHAMPION}; promote a version")
    _mark(service, name, unloaded=False)
    await loader.refresh(name, retry=True)

    def follows(report: Report) -> bool:
        if (reason := report.broken.get(name)) is not None:
            raise Problem(503, f"model {name!r} is broken: {reason}", reason="broken")
        return report.serving.get(name, {}).get(CHAMPION) == version

    return await _until(service, follows, f"model {name!r} is being loaded")


async def unload(service: Service, name: str) -> tuple[int, ...]:
    """Serve the model no longer; return the workers that do not."""
    loader = _loader(service)
    if not service.live.of(name):
        with loader.told():
            await asyncio.to_thread(loader.registry.versions, name)
    _mark(service, name, unloaded=True)
    await loader.refresh(name)
    return await _until(
        service, lambda report: name not in report.serving, f"model {name!r} is being unloaded"
    )


async def index(service: Service, *, only_ready: bool) -> list[dict[str, Any]]:
    """Return every version, whether it is served, and the reason if not."""
    registry = None if service.loader is None or only_ready else service.loader.registry
    # In a thread, because the list may be long.
    return await asyncio.to_thread(_index, service.live, registry)


def _index(live: LiveModels, registry: Registry | None) -> list[dict[str, Any]]:
    ready = {(model.name, model.version) for model in live.addresses.values()}
    found = set(ready) if registry is None else ready | set(registry.published())
    loading = {(address.partition("@")[0], version) for address, version in live.loading.items()}
    broken = {
        (address.partition("@")[0], reason.partition(":")[0]): reason
        for address, reason in live.broken.items()
    }

    def entry(name: str, version: int) -> dict[str, Any]:
        members: dict[str, Any] = {"name": name, "version": str(version)}
        if (name, version) in ready:
            return members | {"state": "READY", "reason": ""}
        if name in live.unloaded:
            return members | {"state": "UNAVAILABLE", "reason": "unloaded"}
        if (name, version) in loading:
            return members | {"state": "LOADING", "reason": "it is being loaded"}
        said = broken.get((name, f"version {version}"), "it is not loaded: no alias stands for it")
        return members | {"state": "UNAVAILABLE", "reason": said}

    return [entry(*one) for one in sorted(found)]


def _loader(service: Service) -> Loader:
    if service.loader is None:
        raise Problem(
            503,
            "this process was started with models in memory; it has no registry to load from",
            reason="fixed",
        )
    return service.loader


def _mark(service: Service, name: str, *, unloaded: bool) -> None:
    try:
        service.workers.mark(name, unloaded=unloaded)
    except OSError as error:
        raise Problem(
            503,
            f"nothing was changed: cannot tell the workers: {error.strerror or error}",
            reason="storage",
        ) from None


async def _until(service: Service, follows: Callable[[Report], bool], doing: str) -> tuple[int, ...]:
    deadline = time.monotonic() + service.settings.switch_timeout_seconds
    while True:
        reports = await asyncio.to_thread(service.workers.living)
        behind = [report.pid for report in reports if not follows(report)]
        if not behind:
            return tuple(report.pid for report in reports)
        if time.monotonic() > deadline:
            who = ", ".join(map(str, behind))
            raise Problem(
                503,
                f"{doing}, but these workers have not done so yet: {who}",
                headers={"Retry-After": "1"},
                reason="workers",
            )
        await asyncio.sleep(_POLL)
