"""From published versions to live models, at start and whenever an alias has moved.

Every version that an alias stands for is read and verified in a thread, while the service is alive; a live version
stays live until its successor has verified. A version that does not verify is named in the log and affects no other.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from localrank.errors import ArtifactNotFound, LocalRankError
from localrank.registry import ALIASES, CHAMPION, Reference, Registry
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from localrank_service.models.copies import Copies
    from localrank_service.models.live import LiveModels
    from localrank_service.models.remote import Remote
    from localrank_service.models.workers import Workers
    from localrank_service.telemetry.meters import Meters

__all__ = ["Loader"]

_log = logging.getLogger("localrank.service")

#: Seconds after which a version that could not be loaded is tried again.
_RETRY = 30.0

_VERSION = re.compile(r"[1-9][0-9]{0,8}")

_Seen: TypeAlias = tuple[tuple[str, int, int, int], ...]


class Loader:
    """Keeps the live models equal to those of the registry.

    Attributes:
        registry: says what should be live.
        tried: set once every model was tried.
        pinned: versions without an alias that stay loaded, however many others are asked for.
        remote: keeps the folder of models like one at a URL, if it follows one.
    """

    def __init__(
        self,
        models_dir: Path,
        live: LiveModels,
        meters: Meters,
        workers: Workers,
        *,
        copies: Copies,
        extra_versions: int,
        remote: Remote | None = None,
    ) -> None:
        # A version whose files change while it is verified must not end this process.
        self.registry = Registry(models_dir, verify=copies.read)
        self.tried = asyncio.Event()
        self.pinned: frozenset[str] = frozenset()
        self.remote = remote
        self._live = live
        self._meters = meters
        self._workers = workers
        self._copies = copies
        self._extra_versions = extra_versions
        self._seen: tuple[_Seen, frozenset[str]] | None = None
        self._unloaded: frozenset[str] = frozenset()
        self._retry_at = float("inf")
        self._aliased: dict[str, LiveModel] = {}
        self._extra: OrderedDict[str, LiveModel] = OrderedDict()
        self._broken: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        self._changing = asyncio.Lock()

    async def follow(self, seconds: float) -> None:
        """Load now, and look for moved aliases again and again."""
        while True:
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001
                # Live models stay live after any error, and the next look may succeed.
                _log.exception("cannot read the folder of models %s; trying again", self.registry.models_dir)
            await asyncio.sleep(seconds)

    async def refresh(self, *, retry: bool = False) -> None:
        """Serve the versions that the aliases name, if an alias has moved or a broken version may be repaired."""
        async with self._changing:
            seen = (await asyncio.to_thread(self._look), self._workers.unloaded())
            missing = await asyncio.to_thread(self._not_fetched)
            again = bool(retry and self._broken) or missing != self._missing
            if seen == self._seen and not again and time.monotonic() < self._retry_at:
                self._workers.tell()
                await asyncio.to_thread(self._copies.sweep)
                return
            self._unloaded = seen[1]
            self._missing = missing
            await asyncio.to_thread(self._load)
            self._seen = seen
            self._retry_at = time.monotonic() + _RETRY if self._broken else float("inf")
            self._publish()
            self.tried.set()
            await self._retire()

    async def fetch(self, address: str) -> LiveModel | None:
        """Return a version that no alias stands for, ``name@version``, loading it if need be.

        The least recently loaded ones are forgotten.
        """
        name, _, version = address.partition("@")
        if not _VERSION.fullmatch(version) or not self._live.loaded:
            return None
        if not self._extra_versions and address not in self.pinned:
            return None
        if name in self._unloaded:
            return None
        async with self._changing:
            if (model := self._live.find(address)) is not None:
                return model
            try:
                model = await asyncio.to_thread(self._read, name, int(version))
            except ArtifactNotFound:
                return None
            except LocalRankError as error:
                raise Problem(503, f"model {address!r} is broken: {self.shown(error)}") from None
            self._extra[address] = model
            loose = [one for one in self._extra if one not in self.pinned]
            for one in loose[: max(len(loose) - self._extra_versions, 0)]:
                del self._extra[one]
            self._publish()
            await self._retire()
            return model

    def _look(self) -> _Seen:
        """Return the state of the files of aliases. It changes with every alias, because registries replace the file as
        a whole.
        """
        found = []
        with suppress(OSError):
            for family in sorted(self.registry.models_dir.iterdir()):
                with suppress(OSError):
                    # A link is refused when it is read, so it must be listed.
                    status = (family / ALIASES).lstat()
                    found.append((family.name, status.st_mtime_ns, status.st_ino, status.st_size))
        return tuple(found)

    def _not_fetched(self) -> dict[str, str]:
        """Return why versions that should be served could not be fetched, by address."""
        return {} if self.remote is None else self.remote.broken()

    def _load(self) -> None:
        """Read what the aliases stand for and is not there yet."""
        kept = {f"{model.name}@{model.version}": model for model in self._aliased.values()} | self._extra
        aliased: dict[str, LiveModel] = {}
        broken: dict[str, str] = {}
        wanted: list[tuple[str, str, int]] = []
        there = {name for name, *_ in self._look() if not name.startswith(".")}
        served = self._workers.served()
        for name in sorted((there | served.keys()) - self._unloaded):
            try:
                if name not in there:
                    # The disk may be gone. To stop serving a model, one unloads it.
                    raise ArtifactNotFound(f"{name}/{ALIASES}: no such file")
                aliases: Mapping[str, int] = self.registry.aliases(name)
            except LocalRankError as error:
                aliases = served.get(name, {})
                broken[name] = self.shown(error)
                still = " (still serving what was loaded before)" if aliases else ""
                _log.error("model %s is broken%s: %s", name, still, error)
            for alias, version in sorted(aliases.items(), key=lambda item: item[0] != CHAMPION):
                wanted.append((name if alias == CHAMPION else f"{name}@{alias}", name, version))
        loading = {address: version for address, name, version in wanted if f"{name}@{version}" not in kept}
        for address, name, version in wanted:
            self._live.loading = loading.copy()
            loading.pop(address, None)
            key = f"{name}@{version}"
            try:
                model = kept.get(key) or self._read(name, version)
            except Exception as error:  # noqa: BLE001 - after any error the others must be served
                broken[address] = f"version {version}: {self.shown(error)}"
                _log.error("model %s is broken: version %d: %s", address, version, error)
                before = self._aliased.get(address)
                if before is not None:
                    aliased[address] = before
            else:
                kept[key] = aliased[address] = model
        self._live.loading = {}
        # A local error comes before an error at the URL.
        self._aliased, self._broken = aliased, {**self._missing, **broken}
        for address in [one for one in self._extra if one.partition("@")[0] in self._unloaded]:
            del self._extra[address]

    def shown(self, error: Exception) -> str:
        """Return the message without paths of this machine, because everybody may read it."""
        return str(error).replace(f"{self.registry.models_dir}/", "")

    def _read(self, name: str, version: int) -> LiveModel:
        begun = time.perf_counter()
        try:
            # The registry checks the name, which may come from a request, before it becomes a path.
            reference = self.registry.resolve(f"{name}@{version}")
        except ArtifactNotFound:
            reference = Reference(name, version, self.registry.models_dir / name / str(version))
            if not self._copies.has(reference):
                raise
        read, hold = self._copies.load(reference)
        _log.info("model %s loaded in %.3f s", reference, time.perf_counter() - begun)
        return LiveModel(name, version, read.ranker, read.manifest, read.probe, hold, read.query_map)

    async def _retire(self) -> None:
        live = {(model.name, model.version) for model in self._live.addresses.values()}
        await asyncio.to_thread(self._meters.retire, live)

    def _publish(self) -> None:
        addresses = dict(self._extra)
        for address, model in self._aliased.items():
            addresses[address] = model
            addresses[f"{model.name}@{model.version}"] = model
            if address == model.name:
                addresses[f"{model.name}@{CHAMPION}"] = model
        for name in {
            address.partition("@")[0] for address in (*addresses, *self._live.broken, *self._broken)
        }:
            self._meters.model_broken.set(float(name in self._broken), name)
        self._live.replace(addresses, self._broken, self._unloaded)
        serving: dict[str, dict[str, int]] = {}
        for address, model in self._aliased.items():
            alias = address.partition("@")[2] or CHAMPION
            serving.setdefault(model.name, {})[alias] = model.version
            self._meters.model_version.set(model.version, model.name, alias)
            self._meters.trained(model)
        self._workers.report(serving, self._broken)
