"""What a run has found out already: a file that grows line by line, so that a stopped run goes on where it was.

A piece of work is known by a digest of the run's basis (data, libraries, and whatever else its result depends on) and of
what distinguishes the piece. So other data, other settings or other libraries never take over what was found.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData, PublishFailed
from localrank.features.columns import portions
from localrank_training.data.rows import CELLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank_training.data.queries import QuerySet

#: What a result may depend on.
_LIBRARIES = ("localrank", "numpy", "scipy", "scikit-learn", "lightgbm")


class Journal:
    """The finished pieces of a run.

    Args:
        path: of the file; it is made when the first piece is finished.
        basis: everything that all results depend on.

    Attributes:
        path: the argument.
        known: how many finished pieces were found in the file.

    Raises:
        InvalidData: the file is something else.
        PublishFailed: it cannot be read or written.
    """

    def __init__(self, path: Path, *basis: str) -> None:
        self.path = path
        self._basis = " ".join(basis)
        self._found: dict[str, dict[str, Any]] = {}
        try:
            # What is not UTF-8 is not ours either, and is refused as such.
            lines = path.read_text(errors="replace").split("\n") if path.exists() else []
            if lines and lines[-1]:
                # The line that was being written when an earlier run was stopped.
                with path.open("r+b") as file:
                    file.truncate(file.read().rfind(b"\n") + 1)
        except OSError as error:
            raise PublishFailed(f"{path}: cannot be written: {error.strerror}") from None
        for number, line in enumerate(lines[:-1], 1):
            try:
                entry = json.loads(line)
                self._found[entry["key"]] = entry["found"]
                for value in entry["found"].values():
                    _decoded(value)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise InvalidData(
                    f"{path}:{number}: expected one finished trial, found {line[:60]!r}; delete the "
                    "file to start again"
                ) from None
        self.known = len(self._found)

    def get(self, what: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a piece found; `None` if it is not finished."""
        found = self._found.get(self._key(what))
        return None if found is None else {name: _decoded(value) for name, value in found.items()}

    def add(self, what: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Keep what a piece found: JSON values and arrays of numbers."""
        key = self._key(what)
        self._found[key] = {name: _encoded(value) for name, value in found.items()}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key, **what, "found": self._found[key]}) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise PublishFailed(f"{self.path}: cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        """Remove the file: the run is finished."""
        self.path.unlink(missing_ok=True)

    def _key(self, what: Mapping[str, Any]) -> str:
        return hashlib.sha256(f"{self._basis} {json.dumps(what, sort_keys=True)}".encode()).hexdigest()


def each_known(
    pieces: Sequence[Mapping[str, Any]],
    do: Callable[[list[int]], Iterator[Mapping[str, Any]]],
    journal: Journal | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield what every piece finds, in their order; those that the journal knows are not done again.

    Args:
        pieces: what distinguishes each of them, as JSON values.
        do: yields what the pieces of these numbers find, in this order: JSON values and arrays of numbers by name.
        journal: keeps what is found.
    """
    known = [None if journal is None else journal.get(what) for what in pieces]
    results = do([number for number, found in enumerate(known) if found is None])
    for what, found in zip(pieces, known, strict=True):
        if found is not None:
            yield found
            continue
        new = next(results)
        if journal is not None:
            journal.add(what, new)
        yield new


def libraries() -> dict[str, str]:
    """Return the versions of what a result may depend on."""
    return {library: importlib.metadata.version(library) for library in _LIBRARIES}


def fingerprint(queries: QuerySet) -> str:
    """Return a hash of the judged queries themselves: the same for the same data in another file format."""
    digest = hashlib.sha256()
    for rows in portions(queries.documents, CELLS):
        digest.update(np.ascontiguousarray(queries.documents[rows]).data)
    for array in (queries.labels, queries.offsets):
        digest.update(np.ascontiguousarray(array).data)
    if queries.weights is not None:
        digest.update(queries.weights.data)
    digest.update("\n".join((*queries.query_ids, *queries.feature_names)).encode())
    return "sha256:" + digest.hexdigest()


def _encoded(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return {"float64": base64.b64encode(np.asarray(value, "<f8").tobytes()).decode()}


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return np.frombuffer(base64.b64decode(value["float64"]), "<f8").astype(np.float64)
