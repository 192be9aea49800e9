"""What a service has logged of rankings and of feedback, read from its files (`localrank.journal`).

The service may be running: files that it removes meanwhile are left out, and new records may be left out. Everything in
them is checked before use; a record with errors counts as damaged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank.journal import FEEDBACK, IMPRESSIONS, NAME, Journal, journals_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from localrank.journal import Record

_ID = (str, int)


@dataclass(slots=True)
class _Pass:
    """What is wrong with the files: damaged records, files that end within a record, and files of others."""

    damaged: int = 0
    torn: int = 0
    foreign: list[Path] = field(default_factory=list)


class Logged:
    """The impression log: files of records, or folders that hold such files among others.

    Every pass reads the files again and counts anew what is wrong with them.

    Attributes:
        files: in the order given; those of a folder from the oldest to the newest.
        names: of the features, by the digest of their contract, as far as a pass has met them.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.files: list[Path] = []
        self.names: dict[str, tuple[str, ...]] = {}
        #: What the last pass over each kind of records has found.
        self._passes = {kind: _Pass() for kind in ("impression", "feedback")}
        self._named: set[Path] = set()
        for path in map(Path, paths):
            if path.is_dir():
                found = journals_in(path)
                if not found:
                    raise InvalidData(
                        f"{path}: expected files of logged records (impressions-….journal), found none"
                    )
                self.files += found
            else:
                self.files.append(path)
                self._named.add(path)

    @property
    def damaged(self) -> int:
        """Records that could not be read by the last pass over impressions, or by the last one over feedback."""
        return sum(one.damaged for one in self._passes.values())

    @property
    def torn(self) -> int:
        """Files of these passes whose end is not a whole record."""
        return sum(one.torn for one in self._passes.values())

    @property
    def foreign(self) -> list[Path]:
        """Files of folders that have the name of a file of records, but another content."""
        return [path for one in self._passes.values() for path in one.foreign]

    def impressions(self) -> Iterator[dict[str, Any]]:
        """Yield what was shown: the members of each record, its arrays ``features``, ``scores`` and ``order`` among them.

        ``order`` holds the positions of the documents, best first; ``shown`` says how many of them the answer had.
        """
        for record in self._records("impression"):
            if _is_impression(record):
                yield record.members | record.arrays
            else:
                self._passes["impression"].damaged += 1

    def feedback(self) -> Iterator[dict[str, Any]]:
        """Yield what callers said of documents."""
        for record in self._records("feedback"):
            if _is_feedback(record.members):
                yield record.members
            else:
                self._passes["feedback"].damaged += 1

    def _records(self, kind: str) -> Iterator[Record]:
        found = self._passes[kind] = _Pass()
        others = FEEDBACK if kind == "impression" else IMPRESSIONS
        for path in self.files:
            name = NAME.fullmatch(path.name)
            if (name is not None and name["kind"] == others) or (
                path not in self._named and not path.exists()
            ):
                continue
            journal = Journal(path)
            try:
                for record in journal.records():
                    said = record.members.get("kind")
                    if said == "contract":
                        self._learn(record.members)
                    elif said == kind:
                        yield record
            except InvalidData:
                if path in self._named:
                    raise
                found.foreign.append(path)
            found.damaged += journal.damaged
            found.torn += journal.torn > 0

    def _learn(self, members: Mapping[str, Any]) -> None:
        digest, names = members.get("contract"), members.get("names")
        if (
            isinstance(digest, str)
            and isinstance(names, list)
            and all(isinstance(name, str) for name in names)
        ):
            self.names[digest] = tuple(names)


def _is_impression(record: Record) -> bool:
    members, arrays = record
    if arrays.keys() != {"features", "scores", "order"}:
        return False
    features, order = arrays["features"], arrays["order"]
    count, ids = len(order), members.get("ids")
    return (
        _has(
            members,
            request_id=str,
            query=int,
            time=(int, float),
            model=str,
            version=int,
            contract=str,
            shown=int,
        )
        and features.ndim == 2
        and order.ndim == 1
        and (len(features), arrays["scores"].shape) == (count, (count,))
        and np.array_equal(np.sort(order), np.arange(count))
        and 0 <= members["shown"] <= count
        and (ids is None or (isinstance(ids, list) and len(ids) == count))
        and all(isinstance(members.get(name), (*_ID, type(None))) for name in ("query_id", "session_id"))
    )


def _is_feedback(members: Mapping[str, Any]) -> bool:
    grade, index = members.get("grade"), members.get("index")
    return (
        _has(members, request_id=str, query=int, time=(int, float), click=bool)
        and (members["click"] or (isinstance(grade, int | float) and 0 <= grade < np.inf))
        and (isinstance(members.get("id"), _ID) or (isinstance(index, int) and index >= 0))
        and isinstance(members.get("event_id"), (*_ID, type(None)))
    )


def _has(members: Mapping[str, Any], **kinds: type | tuple[type, ...]) -> bool:
    return all(isinstance(members.get(name), kind) for name, kind in kinds.items())
