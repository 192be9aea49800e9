"""The tables that models look into now, and how a new generation takes the place of one.

Each model has its own view of a table, because generations must fit it. A view is replaced in one step, after the new
generation has been verified like a version, so every request reads one generation. A generation that is broken or does not
fit is refused and named; the one before it is looked into as before. Generations that are looked into live as long as
somebody does so, whatever becomes of their files.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

from localrank.errors import ArtifactError, LocalRankError
from localrank.registry.tables import items_for, tables_in
from localrank.registry.versions import ALIASES
from localrank.tables.generation import read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from localrank.features.contract import FeatureContract
    from localrank.registry.versions import Reference
    from localrank.tables.table import ItemLookups, ItemTable
    from localrank_service.models.copies import TableCopies
    from localrank_service.telemetry.meters import Meters

_log = logging.getLogger("localrank.service")

#: Seconds after which a generation that was refused is tried again.
_RETRY = 30.0


class LiveTables:
    """What one version of a model looks up now.

    Attributes:
        items: of the generations that are looked into; replaced as a whole.
        refused: why newer generations are not looked into, by table.
    """

    __slots__ = ("__weakref__", "contract", "items", "model", "refused", "retry_at", "seen")

    def __init__(
        self, model: str, contract: FeatureContract, items: ItemLookups, refused: Mapping[str, str]
    ) -> None:
        self.model, self.contract = model, contract
        self.items, self.refused = items, refused
        self.seen: object = None
        self.retry_at = float("inf")

    def describe(self) -> dict[str, Any]:
        """Return generation and age of each table, and why a newer one is not looked into."""
        return {
            one.table.name: {
                "generation": one.table.generation,
                "created": one.table.created,
                "age_seconds": _age(one.table.created),
                **({"refused": self.refused[one.table.name]} if one.table.name in self.refused else {}),
            }
            for one in self.items.lookups
        }


def _age(created: str) -> float | None:
    with suppress(ValueError, TypeError):
        return round((datetime.now(UTC) - datetime.fromisoformat(created)).total_seconds(), 1)
    return None


class Tables:
    """The tables below a folder of models.

    Args:
        models_dir: the folder.
        copies: of the generations that are looked into.
        meters: show generations.
        hiding: paths that messages may hold, and what callers are shown instead.
    """

    def __init__(
        self, models_dir: Path, copies: TableCopies, meters: Meters, hiding: Iterable[tuple[str, str]]
    ) -> None:
        self._registry = tables_in(models_dir, verify=copies.read)
        self._copies = copies
        self._meters = meters
        self._hidden = list(hiding)
        self._lock = threading.Lock()
        self._views: WeakSet[LiveTables] = WeakSet()
        self._loaded: WeakValueDictionary[tuple[str, str], ItemTable] = WeakValueDictionary()

    def of(self, model: str, contract: FeatureContract) -> LiveTables | None:
        """Return what a version of a model looks up; ``None`` if it looks up nothing.

        Raises:
            ArtifactError: no generation of a table can be used.
        """
        if not contract.tables:
            return None
        seen = self._look(contract)
        view = LiveTables(model, contract, *items_for(contract, self._registry, self._load))
        self._settle(view, seen, {})
        with self._lock:
            self._views.add(view)
        self._show()
        return view

    async def follow(self, seconds: float) -> None:
        """Look for new generations again and again."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await asyncio.to_thread(self.renew)
            except Exception:  # noqa: BLE001
                # What is looked into stays after any error, and the next look may succeed.
                _log.exception("cannot look for new generations of tables; trying again")

    def renew(self) -> None:
        """Let every model look into the newest generations that fit it."""
        for view in self._living():
            seen = self._look(view.contract)
            if seen == view.seen and time.monotonic() < view.retry_at:
                continue
            before = {one.table.name: one.table for one in view.items.lookups}
            try:
                items, refused = items_for(view.contract, self._registry, self._load)
            except LocalRankError as error:
                refused = dict.fromkeys(before, str(error))
            else:
                view.items = items
            self._settle(view, seen, before, refused)
        self._show()
        self._copies.sweep()

    def _living(self) -> list[LiveTables]:
        with self._lock:
            return list(self._views)

    def _show(self) -> None:
        """Show the oldest generation that any version of a model looks into."""
        oldest: dict[tuple[str, str], ItemTable] = {}
        broken: set[tuple[str, str]] = set()
        for view in self._living():
            model = view.model.partition("@")[0]
            broken |= {(model, name) for name in view.refused}
            for one in view.items.lookups:
                key = model, one.table.name
                if key not in oldest or one.table.generation < oldest[key].generation:
                    oldest[key] = one.table
        for key, table in oldest.items():
            self._meters.generation(*key, table.generation, table.created, broken=key in broken)

    def _settle(
        self,
        view: LiveTables,
        seen: object,
        before: Mapping[str, ItemTable],
        refused: Mapping[str, str] | None = None,
    ) -> None:
        """Note and log what was found."""
        refused = view.refused if refused is None else refused
        shown = {name: self._shown(reason) for name, reason in refused.items()}
        for name, reason in shown.items():
            if reason != view.refused.get(name) or not before:
                _log.error(
                    "model %s does not look into the newest generation of table %s: %s",
                    view.model,
                    name,
                    reason,
                )
        for one in view.items.lookups:
            table = one.table
            if before.get(table.name) is not table:
                _log.info(
                    "model %s looks into generation %d of table %s", view.model, table.generation, table.name
                )
        view.seen, view.refused = seen, shown
        view.retry_at = time.monotonic() + _RETRY if shown else float("inf")

    def _load(self, reference: Reference) -> ItemTable:
        name = str(reference)
        try:
            sha256 = read_manifest(reference.path).sha256
        except ArtifactError:
            # What is looked into stays, whatever becomes of its files.
            for (loaded, _), table in reversed(list(self._loaded.items())):
                if loaded == name:
                    return table
            raise
        if (known := self._loaded.get((name, sha256))) is not None:
            return known
        read, hold = self._copies.load(reference)
        if read.manifest.sha256 != sha256:
            # The copy is of other files that had this number.
            read, hold = self._copies.read(reference.path), None
        table = self._loaded[name, read.manifest.sha256] = replace(read.table, hold=hold)
        return table

    def _look(self, contract: FeatureContract) -> object:
        """Return the state of the files that say which generations there are."""
        found = []
        for name in contract.tables:
            with suppress(OSError):
                status = (self._registry.models_dir / name / ALIASES).lstat()
                found.append((name, status.st_mtime_ns, status.st_ino, status.st_size))
        return tuple(found)

    def _shown(self, text: str) -> str:
        for path, name in self._hidden:
            text = text.replace(path, name)
        return text
