"""The published versions of a model, read from their manifests, and what differs between two of them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from localrank.artifact import read_manifest
from localrank.errors import ArtifactError
from localrank.registry.difference import compare
from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Scope

    from localrank.artifact import Manifest
    from localrank.probe import Probe
    from localrank.ranker import Ranker
    from localrank.registry.versions import Registry
    from localrank_service.models.live import LiveModel
    from localrank_service.ranking.service import Service

#: The newest versions are listed, and those that an alias stands for or stood for.
MOST = 50
#: Figures of the held-out queries; the rest of a manifest's metrics is in ``/v1/models/{name}``.
_FIGURES = ("held_out", "basis", "figures")
_WHICH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class _Side(NamedTuple):
    """One version of a comparison."""

    manifest: Manifest
    ranker: Ranker
    probe: Probe


async def versions(service: Service, name: str) -> dict[str, Any]:
    """Return every version of a model with its aliases, origin and held-out figures, the newest first."""
    live = {model.version: model for model in service.live.of(name).values()}
    if service.loader is not None:
        registry = service.loader.registry
        if await asyncio.to_thread(registry.has, name):
            with service.loader.told():
                return await asyncio.to_thread(_published, registry, name, live, service.loader.shown)
    if not live:
        raise service.live.missing(name, None)
    listed = [_version(model.version, model.manifest, model.version in live) for model in live.values()]
    listed.sort(key=lambda one: -one["version"])
    return {"name": name, "aliases": {}, "history": {}, "versions": listed, "omitted": 0}


async def difference(service: Service, scope: Scope, name: str, before: str, after: str) -> dict[str, Any]:
    """Return what changes from one version to another, each a number or an alias."""
    models = []
    for member, which in (("before", before), ("after", after)):
        if not _WHICH.fullmatch(which):
            raise Problem(422, f"{member}: expected a version or an alias, found {which[:40]!r}")
        models.append(await service.resolve(f"{name}@{which}", scope, at=None))
    sides = [_side(model) for model in models]
    found = await asyncio.to_thread(compare, *sides)
    return {
        "name": name,
        "before": models[0].version,
        "after": models[1].version,
        **found.to_json(),
    }


def _side(model: LiveModel) -> _Side:
    if model.manifest is None or model.probe is None:
        raise Problem(
            409,
            f"model {model.name}@{model.version} was given to this process; only published versions compare",
        )
    return _Side(model.manifest, model.ranker, model.probe)


def _published(registry: Registry, name: str, live: dict[int, LiveModel], shown: Any) -> dict[str, Any]:
    numbers = registry.versions(name)
    aliases = registry.aliases(name)
    history = {alias: [asdict(one) for one in registry.history(name, alias)] for alias in sorted(aliases)}
    needed = {one["version"] for since in history.values() for one in since}
    listed = [one for one in numbers if one in needed or one in numbers[-MOST:]]
    found = []
    for number in reversed(listed):
        try:
            manifest = read_manifest(registry.models_dir / name / str(number))
        except ArtifactError as error:
            found.append({"version": number, "live": number in live, "broken": shown(error)})
        else:
            found.append(_version(number, manifest, number in live))
    return {
        "name": name,
        "aliases": aliases,
        "history": history,
        "versions": found,
        "omitted": len(numbers) - len(listed),
    }


def _version(number: int, manifest: Manifest | None, live: bool) -> dict[str, Any]:  # noqa: FBT001
    if manifest is None:
        return {"version": number, "live": live}
    raw = manifest.raw
    return {
        "version": number,
        "live": live,
        "created": manifest.created,
        "sha256": manifest.sha256,
        "contract": manifest.contract.digest,
        "n_features": manifest.contract.n_features,
        "n_clusters": len(manifest.clusters),
        "representation": raw["representation"].get("part"),
        "routing": raw["router"].get("part"),
        "scorers": sorted({form["kind"] for form in raw["scorers"]["forms"]}),
        "bytes": manifest.size,
        "metrics": {name: manifest.metrics[name] for name in _FIGURES if name in manifest.metrics},
    }
