"""Pieces of work whose results are kept on disk: figures share them, and an interrupted run continues.

A `Fit` is a function of one fold and of settings that JSON can hold; its result is arrays by name. Its address is a
hash of its parts: the function with its source, the settings, the queries of the fold, and the version of this package.
Whoever asks for the same fit again gets what is on disk. The address does not cover what the function calls, such as a
learner: after a change there, delete the folder.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import time
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from localrank._version import __version__
from localrank.errors import InvalidData, PublishFailed
from localrank_training.parallel.processes import each_in_parallel, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from localrank_papers.figures.folds import Fold
    from localrank_training.parallel.processes import Progress

#: What a fit results in.
Arrays: TypeAlias = "dict[str, NDArray[Any]]"


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One piece of work.

    Attributes:
        work: a function of a module: ``work(fold, **settings)`` returns arrays by name. It must not draw numbers from anywhere
            but a seed in its settings.
        fold: its data; None for work that makes its own.
        settings: JSON values.
    """

    work: Callable[..., Arrays]
    fold: Fold | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, work: Callable[..., Arrays], fold: Fold | None = None, /, **settings: Any) -> Fit:
        """Return the work on a fold, with its settings as arguments."""
        return cls(work, fold, settings)

    @property
    def address(self) -> str:
        """The hash of its parts."""
        made_of = {
            "version": __version__,
            "work": f"{self.work.__module__}.{self.work.__qualname__}",
            "source": inspect.getsource(self.work),
            "data": None if self.fold is None else self.fold.fingerprint,
            "settings": self.settings,
        }
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()

    def run(self) -> Arrays:
        """Do the work."""
        return self.work(self.fold, **self.settings)


@dataclass(frozen=True, slots=True)
class Planned:
    """How much a run has to do.

    Attributes:
        fits: pieces of work in all, each counted once.
        done: those that are on disk.
    """

    fits: int
    done: int

    def __str__(self) -> str:
        left = self.fits - self.done
        return f"{self.fits} fits: {self.done} on disk, {left} to do"


class Fits:
    """The results that are on disk.

    Args:
        folder: where they are; made if it is missing.
        workers: processes.
        say: called with a sentence about how much is left, at most twice a minute.
    """

    def __init__(
        self, folder: Path, *, workers: int = 1, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._folder, self._workers, self._say = folder, workers, say

    def of(self, fit: Fit) -> Arrays:
        """Return the result of a fit, from disk if it is there."""
        path = self._path(fit.address)
        if not path.exists():
            _keep(path, fit.run())
        return _stored(path)

    def planned(self, fits: Iterable[Fit]) -> Planned:
        """Say how many of these a run has to do."""
        addresses = {fit.address for fit in fits}
        return Planned(len(addresses), sum(self._path(address).exists() for address in addresses))

    def run_more(self, fits: Sequence[Fit]) -> None:
        """Run fits that were not in the plan, because they depend on the results of others; say how many there are."""
        planned = self.planned(fits)
        if planned.done < planned.fits:
            self._say(f"more, by what was chosen: {planned}")
            self.run(fits)

    def run(self, fits: Iterable[Fit], progress: Progress = silent) -> None:
        """Run those that are not on disk; each is kept as soon as it is finished."""
        by_address = {fit.address: fit for fit in fits}
        missing = {a: fit for a, fit in by_address.items() if not self._path(a).exists()}
        done = len(by_address) - len(missing)
        progress("fits", done, len(by_address))
        began = said = time.monotonic()
        results = each_in_parallel(Fit.run, [(fit,) for fit in missing.values()], workers=self._workers)
        for count, (address, result) in enumerate(zip(missing, results, strict=True), 1):
            _keep(self._path(address), result)
            progress("fits", done + count, len(by_address))
            now = time.monotonic()
            if now - said > 30 and count < len(missing):
                left = (now - began) / count * (len(missing) - count)
                self._say(f"{done + count} of {len(by_address)} fits, about {_duration(left)} left")
                said = now

    def _path(self, address: str) -> Path:
        return self._folder / address[:2] / f"{address[2:]}.npz"


def _keep(path: Path, arrays: Arrays) -> None:
    # Written beside and renamed: a run that is stopped here leaves nothing half written.
    partial = path.with_name(f".{path.name}.{os.getpid()}.npz")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(partial, **arrays)  # type: ignore[arg-type]
        partial.replace(path)
    except OSError as error:
        raise PublishFailed(f"{path}: cannot be written: {error.strerror}") from None


def _stored(path: Path) -> Arrays:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile):
        raise InvalidData(f"{path}: expected the result of a fit, found a damaged file; delete it") from None


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
