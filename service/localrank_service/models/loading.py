"""From published versions to live models, at start and whenever an alias has moved.

Every version that an alias stands for, an experiment needs or a setting names is read and verified in a thread of its own,
while the service is alive; a live version stays live until its successor has verified. A version that does not verify is
named in the log and affects no other. Nor does one that takes for ever: no lock is held while versions are read, and after a
while it is given up. Requests have further versions loaded only within `models.extra`, and promotions never wait for these.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from localrank.artifact import read_manifest
from localrank.errors import ArtifactError, ArtifactNotFound, LocalRankError
from localrank.registry.tables import FOLDER
from localrank.registry.versions import ALIASES, CHAMPION, Reference, Registry
from localrank_service.http.aside import beside
from localrank_service.http.problems import Problem, problem_of
from localrank_service.models.live import LiveModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from localrank_service.models.copies import Copies
    from localrank_service.models.extra import ExtraVersions
    from localrank_service.models.live import LiveModels
    from localrank_service.models.remote import Remote
    from localrank_service.models.tables import Tables
    from localrank_service.models.workers import Workers
    from localrank_service.telemetry.meters import Meters

_log = logging.getLogger("localrank.service")

#: Seconds after which a version that could not be loaded is tried again.
_RETRY = 30.0
#: Seconds in which one version is read alone, so that many do not need their memory at once. Then the next one begins.
_TURN = 1.0

_VERSION = re.compile(r"[1-9][0-9]{0,8}")

_Seen: TypeAlias = tuple[tuple[str, int, int, int], ...]


@dataclass(slots=True, eq=False)
class _Load:
    """A version that is being read.

    Attributes:
        tried: set once the version is served, or refused, or given up.
        result: the version, or why it is not there; nothing before that.
        late: whether it was given up. Its thread cannot be ended, so a version that comes after all is served.
        task: reads it.
    """

    tried: asyncio.Event = field(default_factory=asyncio.Event)
    result: LiveModel | Exception | None = None
    late: bool = False
    task: asyncio.Task[None] | None = None


class Loader:
    """Keeps the live models equal to those of the registry.

    Attributes:
        registry: says what should be live.
        tried: set once every model was tried.
        remote: keeps the folder of models like one at a URL, if it follows one.
        tables: what the models look up.
    """

    def __init__(
        self,
        models_dir: Path,
        live: LiveModels,
        meters: Meters,
        workers: Workers,
        *,
        copies: Copies,
        tables: Tables,
        extra: ExtraVersions,
        preload: Iterable[str] = (),
        seconds: float = 120.0,
        remote: Remote | None = None,
    ) -> None:
        # A version whose files change while it is verified must not end this process.
        self.registry = Registry(models_dir, verify=copies.read)
        self.tried = asyncio.Event()
        self.remote = remote
        self._hidden = [*hiding(models_dir), *copies.hiding()]
        self._live = live
        self._meters = meters
        self._workers = workers
        self._copies = copies
        self.tables = tables
        self._seconds = seconds
        self._preload = frozenset(preload)
        self._pinned = self._preload
        self._seen: tuple[_Seen, frozenset[str], frozenset[str]] | None = None
        self._unloaded: frozenset[str] = frozenset()
        self._retry_at = float("inf")
        self._wanted: list[tuple[str, str, int]] = []
        self._aliased: dict[str, LiveModel] = {}
        self._extra = extra
        self._broken: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        #: Models whose aliases cannot be read; by version: what was read, what could not be, what is being read.
        self._unread: dict[str, str] = {}
        self._arrived: dict[str, LiveModel] = {}
        self._failed: dict[str, Exception] = {}
        self._loads: dict[str, _Load] = {}
        self._tried: list[_Load] = []
        #: How many loads have not had their turn.
        self._queued = 0
        self._turn = asyncio.Semaphore(1)
        self._looking = asyncio.Lock()

    async def follow(self, seconds: float) -> None:
        """Load now, and look for moved aliases again and again."""
        try:
            while True:
                try:
                    await self._begin(retry=False)
                except Exception:  # noqa: BLE001
                    # Live models stay live after any error, and the next look may succeed.
                    _log.exception(
                        "cannot read the folder of models %s; trying again", self.registry.models_dir
                    )
                await asyncio.sleep(seconds)
        finally:
            for load in self._loads.values():
                if load.task is not None:
                    load.task.cancel()

    async def refresh(self, name: str | None = None, *, retry: bool = False) -> None:
        """Serve the versions that the aliases name, if an alias has moved or a broken version may be repaired.

        Args:
            name: of the model whose versions are waited for, until they are there, or refused, or given up; all models
                by default.
            retry: broken versions too.
        """
        await self._begin(retry=retry)
        for key, load in list(self._loads.items()):
            if name is None or name == key.partition("@")[0]:
                await load.tried.wait()

    async def _begin(self, *, retry: bool) -> None:
        """Begin to read what the aliases stand for and is not there yet."""
        async with self._looking:
            seen = (await asyncio.to_thread(self._look), self._workers.unloaded(), self._pinned)
            missing = await asyncio.to_thread(self._not_fetched)
            again = bool(retry and self._broken) or missing != self._missing
            if seen == self._seen and not again and time.monotonic() < self._retry_at:
                self._workers.tell()
                await asyncio.to_thread(self._copies.sweep)
                return
            self._unloaded = seen[1]
            self._missing = missing
            self._wanted, self._unread = await asyncio.to_thread(self._read_aliases)
            self._seen = seen
            self._extra.forget(self._unloaded)
            there = self._there()
            for _, name, version in self._wanted:
                if f"{name}@{version}" not in there:
                    self._start(name, version)
            self._live.loading = self._left()
            if not self._queued:
                self._settle()
        await self._retire()

    async def pin(self, addresses: Iterable[str]) -> None:
        """Keep these versions loaded besides those of aliases and settings; what was pinned before no longer is."""
        numbered = {address for address in addresses if _VERSION.fullmatch(address.partition("@")[2])}
        if (pinned := self._preload | numbered) == self._pinned:
            return
        self._pinned = pinned
        await self._begin(retry=False)
        for address in pinned:
            if (load := self._loads.get(address)) is not None:
                await load.tried.wait()

    async def fetch(self, address: str, *, admin: bool) -> LiveModel | None:
        """Return a version that was not loaded, ``name@version``; ``None`` if no such version may be loaded.

        Args:
            address: of the version.
            admin: whether the request has an admin key; no other has a version loaded.

        Raises:
            Problem: 409 if the request cannot have it loaded, 429 if it asks too soon, 503 if the version is broken.
        """
        name, _, number = address.partition("@")
        if not _VERSION.fullmatch(number) or not self._live.loaded:
            return None
        if name in self._unloaded or address in self._broken:
            return None
        version = int(number)
        if not await asyncio.to_thread(self.registry.has, name, version):
            return None
        self._extra.check(address, admin=admin)
        with self._extra.asking() as place:
            async with self._extra.loading:
                try:
                    return self._live.find(address) or await self._load_extra(address, name, version, place)
                except ArtifactNotFound:
                    return None
                except LocalRankError as error:
                    raise Problem(
                        503, f"model {address!r} is broken: {self.shown(error)}", reason="broken"
                    ) from None

    async def _load_extra(self, address: str, name: str, version: int, place: ExitStack) -> LiveModel | None:
        manifest = await asyncio.to_thread(read_manifest, self.registry.models_dir / name / str(version))
        self._extra.make_room(address, manifest.size)
        # Promotions go first. One that begins from now on does not wait for this, because it has its own turn.
        for load in list(self._loads.values()):
            if not load.late:
                await load.tried.wait()
        reading = beside(self._read, name, version)
        # The thread cannot be ended, so it keeps the place of the request.
        held = place.pop_all()
        reading.add_done_callback(lambda _: held.close())
        reading.add_done_callback(asyncio.Future.exception)
        await asyncio.wait({reading}, timeout=self._seconds)
        if not reading.done():
            raise _given_up(self._seconds)
        model = reading.result()
        if name in self._unloaded:
            return None
        self._extra.loaded[address] = model
        self._publish()
        await self._retire()
        return model

    def _start(self, name: str, version: int) -> _Load:
        """Return the reading of a version; it begins now unless it has begun before."""
        key = f"{name}@{version}"
        load = self._loads.get(key)
        if load is None:
            load = self._loads[key] = _Load()
            self._queued += 1
            load.task = asyncio.create_task(self._run(load, name, version))
        return load

    async def _run(self, load: _Load, name: str, version: int) -> None:
        """Read a version: alone for a while, then beside the next one, until it is there or given up."""
        key = f"{name}@{version}"
        try:
            async with self._turn:
                reading = beside(self._read, name, version)
                await asyncio.wait({reading}, timeout=min(_TURN, self._seconds))
                if reading.done():
                    self._end(key, load, reading)
        finally:
            self._queued -= 1
        if not reading.done():
            self._settle()
            await asyncio.wait({reading}, timeout=max(self._seconds - _TURN, 0.0))
            if not reading.done():
                load.late = True
                self._fail(key, load, _given_up(self._seconds))
                self._settle()
                await asyncio.wait({reading})
            self._end(key, load, reading)
        # Models that load quickly are published together.
        if not self._queued:
            self._settle()
            await self._retire()

    def _end(self, key: str, load: _Load, reading: asyncio.Future[LiveModel]) -> None:
        """Take what a thread has read."""
        del self._loads[key]
        error = reading.exception()
        if error is None:
            load.result = self._arrived[key] = reading.result()
            self._tried.append(load)
            self._failed.pop(key, None)
        elif isinstance(error, Exception):
            self._fail(key, load, error)
        self._live.loading = self._left()

    def _fail(self, key: str, load: _Load, error: Exception) -> None:
        load.result = error
        self._tried.append(load)
        self._failed[key] = error
        for address, name, version in self._wanted:
            if key == f"{name}@{version}":
                _log.error("model %s is broken: version %d: %s", address, version, error)

    def _left(self) -> dict[str, int]:
        """Return the addresses whose version is still to be loaded, and that version."""
        busy = {key for key, load in self._loads.items() if not load.late}
        return {address: version for address, name, version in self._wanted if f"{name}@{version}" in busy}

    def _there(self) -> dict[str, LiveModel]:
        """Return the versions that are loaded, by name and number."""
        return (
            self._arrived
            | self._extra.loaded
            | {f"{one.name}@{one.version}": one for one in self._aliased.values()}
        )

    def _settle(self) -> None:
        """Serve what is there, and say what is not."""
        there = self._there()
        aliased: dict[str, LiveModel] = {}
        broken: dict[str, str] = {}
        for address, name, version in self._wanted:
            key = f"{name}@{version}"
            model = there.get(key) or self._aliased.get(address)
            if model is not None:
                aliased[address] = model
            if key not in there and key in self._failed:
                broken[address] = f"version {version}: {self.shown(self._failed[key])}"
        wanted = {f"{name}@{version}" for _, name, version in self._wanted}
        self._failed = {key: error for key, error in self._failed.items() if key in wanted}
        self._arrived.clear()
        # A local error comes before an error at the URL.
        self._aliased, self._broken = aliased, {**self._missing, **self._unread, **broken}
        self._retry_at = time.monotonic() + _RETRY if self._broken else float("inf")
        self._live.loading = self._left()
        self._publish()
        if self._live.loaded:
            self.tried.set()
        for load in self._tried:
            load.tried.set()
        self._tried.clear()

    def _look(self) -> _Seen:
        """Return the state of the files of aliases, and of those of tables, which a model may wait for. It changes with
        every alias, because registries replace the file as a whole.
        """
        found = []
        folder = self.registry.models_dir
        for families, prefix in ((folder, ""), (folder / FOLDER, f"{FOLDER}/")):
            with suppress(OSError):
                for family in sorted(families.iterdir()):
                    with suppress(OSError):
                        # A link is refused when it is read, so it must be listed.
                        status = (family / ALIASES).lstat()
                        name = f"{prefix}{family.name}"
                        found.append((name, status.st_mtime_ns, status.st_ino, status.st_size))
        return tuple(found)

    def _not_fetched(self) -> dict[str, str]:
        """Return why versions that should be served could not be fetched, by address."""
        return {} if self.remote is None else self.remote.broken()

    def _read_aliases(self) -> tuple[list[tuple[str, str, int]], dict[str, str]]:
        """Return every address with its model and version, and why some models have none."""
        wanted: list[tuple[str, str, int]] = []
        unread: dict[str, str] = {}
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
                unread[name] = self.shown(error)
                still = " (still serving what was loaded before)" if aliases else ""
                _log.error("model %s is broken%s: %s", name, still, error)
            for alias, version in sorted(aliases.items(), key=lambda item: item[0] != CHAMPION):
                wanted.append((name if alias == CHAMPION else f"{name}@{alias}", name, version))
        for address in sorted(self._pinned):
            name, _, number = address.partition("@")
            if name not in self._unloaded:
                wanted.append((address, name, int(number)))
        return wanted, unread

    def shown(self, error: Exception) -> str:
        """Return the message without paths of this machine, because everybody may read it."""
        text = str(error)
        for path, name in self._hidden:
            text = text.replace(path, name)
        return text

    @contextmanager
    def told(self, *, refused: int | None = None) -> Iterator[None]:
        """Turn an error of core into the problem that a caller is told; the log has the whole message.

        Args:
            refused: the status if a version is there, but does not verify.
        """
        try:
            yield
        except LocalRankError as error:
            _log.warning("%s", error)
            problem = problem_of(error)
            problem.detail = self.shown(error)
            if refused and isinstance(error, ArtifactError) and not isinstance(error, ArtifactNotFound):
                problem.status = refused
            raise problem from None

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
        tables = self.tables.of(str(reference), read.ranker.contract)
        _log.info("model %s loaded in %.3f s", reference, time.perf_counter() - begun)
        return LiveModel(name, version, read.ranker, read.manifest, read.probe, hold, read.query_map, tables)

    async def _retire(self) -> None:
        live = {(model.name, model.version) for model in self._live.addresses.values()}
        await asyncio.to_thread(self._meters.retire, live)

    def _publish(self) -> None:
        addresses = dict(self._extra.loaded)
        for address, model in self._aliased.items():
            addresses[address] = model
            addresses[f"{model.name}@{model.version}"] = model
            if address == model.name:
                addresses[f"{model.name}@{CHAMPION}"] = model
        for name in {
            address.partition("@")[0] for address in (*addresses, *self._live.broken, *self._broken)
        }:
            self._meters.model_broken.set(float(name in self._broken), name)
        self._live.replace(
            addresses, self._broken, self._unloaded, loaded=self._live.loaded or not self._live.loading
        )
        serving: dict[str, dict[str, int]] = {}
        for address, model in self._aliased.items():
            self._meters.trained(model)
            alias = address.partition("@")[2] or CHAMPION
            if not alias.isdecimal():
                serving.setdefault(model.name, {})[alias] = model.version
                self._meters.model_version.set(model.version, model.name, alias)
        self._workers.report(serving, self._broken, loaded=self._live.loaded)


def hiding(models_dir: Path) -> list[tuple[str, str]]:
    """Return the paths of the folder of models, as messages hold them, and what is shown instead."""
    forms = sorted({str(one) for one in (models_dir, models_dir.absolute(), models_dir.resolve())}, key=len)
    inside = [(f"{one}{end}", "") for one in reversed(forms) for end in ("/", ": ")]
    return inside + [(one, "the folder of models") for one in reversed(forms) if one.startswith("/")]


def _given_up(seconds: float) -> ArtifactError:
    return ArtifactError(f"given up: expected to be loaded within {seconds:g} seconds")
