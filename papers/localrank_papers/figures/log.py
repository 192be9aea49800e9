"""The log of every run on test folds: a line is written before the first test query is scored.

Nothing is chosen on test queries. But whoever looks at test folds often will finally choose by them. So every look is
counted.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from localrank._version import __version__
from localrank.errors import InvalidData, PublishFailed

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_papers.figures.folds import Data


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run.

    Attributes:
        time: when it began, UTC.
        experiment: its name.
        data: name of the data set.
        fingerprint: of its folds.
        queries: test queries in all folds.
        draws, seed: of the run.
        version: of this package.
    """

    time: str
    experiment: str
    data: str
    fingerprint: str
    queries: int
    draws: int
    seed: int
    version: str


class RunLog:
    """The log in a file, a line of JSON for each run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, experiment: str, data: Data, draws: int, seed: int) -> None:
        """Write down that test folds are about to be read."""
        prints = " ".join(fold.fingerprint for fold in data.folds)
        run = LoggedRun(
            time=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            experiment=experiment,
            data=data.name,
            fingerprint=hashlib.sha256(prints.encode()).hexdigest(),
            queries=sum(len(fold.test) for fold in data.folds),
            draws=draws,
            seed=seed,
            version=__version__,
        )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(run)) + "\n")
        except OSError as error:
            raise PublishFailed(f"{self._path}: cannot be written: {error.strerror}") from None

    def runs(self) -> list[LoggedRun]:
        """Return all runs, the first first."""
        if not self._path.exists():
            return []
        found: list[LoggedRun] = []
        for number, line in enumerate(self._path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                entry: dict[str, Any] = json.loads(line)
                found.append(LoggedRun(**entry))
            except (ValueError, TypeError):
                raise InvalidData(
                    f"{self._path}:{number}: expected one logged run, found {line[:60]!r}"
                ) from None
        return found
