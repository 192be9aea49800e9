"""The log of what was shown and of what callers say about it: sampled, queued, written by a thread of its own.

The event loop only puts references into a bounded queue. If the queue is full, or the thread cannot write, records are
lost and counted; no request waits and none fails. Which rankings are logged is drawn by the service, so that no caller
can choose; feedback to others is logged too, because nobody needs to know which they are. Feedback has files of its own,
and each caller a quota of both, so that neither displaces what others have shown.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson

from localrank.journal import contract_members, frame, size_of
from localrank_service.online.files import total_bytes
from localrank_service.wire.answer import route_members

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from starlette.types import Scope

    from localrank.features.contract import FeatureContract
    from localrank.journal import Buffer
    from localrank_service.online.files import Files
    from localrank_service.telemetry.instruments import Counter
    from localrank_service.telemetry.meters import Meters
    from localrank_service.wire.answer import Ranked

#: Seconds in which a caller may fill its part of the log again, and callers that are remembered.
_PERIOD: Final = 3600.0
_MOST_CALLERS: Final = 1024


def caller_of(scope: Scope) -> str:
    """Return who asks: the label of the key, else the address."""
    if (label := scope.get("key")) is not None:
        return f"key {label}"
    client = scope.get("client")
    return "" if client is None else str(client[0])


@dataclass(frozen=True, slots=True)
class Event:
    """One judgement of one document.

    Attributes:
        request_id: of the request that the document was ranked in.
        query: position of the query in that request.
        id: of the document; or
        index: its position in the request.
        click: whether the user chose it; or
        grade: how relevant it is.
        event_id: the caller's name for the event.
    """

    request_id: str
    query: int
    id: str | int | None
    index: int | None
    click: bool
    grade: float | None
    event_id: str | int | None


class Quota:
    """What each caller may still put into the log: at once the whole quota, and then as much again each hour.

    The only caller displaces nothing of others, so it may always.

    Args:
        most: bytes of one caller.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: str, size: int) -> bool:
        """Take a record's bytes from the caller's quota; return whether there were enough."""
        now = monotonic()
        left, at = self._left.pop(caller, (self._most, now))
        left = min(self._most, left + (now - at) * self._most / _PERIOD)
        enough = size <= left or not self._left
        # The last one is the one that was used last.
        self._left[caller] = (max(0.0, left - size) if enough else left), now
        if len(self._left) > _MOST_CALLERS:
            del self._left[next(iter(self._left))]
        return enough


_log = logging.getLogger("localrank.service")
#: What becomes of records.
OUTCOMES = ("logged", "dropped", "over_quota", "lost")
#: Records that wait to be written, at most, and the bytes of their documents.
MOST_RECORDS, MOST_BYTES = 4096, 64 * 2**20
#: Seconds in which records gather before they are written together.
_GATHER = 0.2
#: Bytes that are written at once.
_TOGETHER = 2**20
#: Seconds that a stopping worker waits for the thread.
_PATIENCE = 5.0
#: Bytes that a record takes in the queue besides its documents.
_FIXED = 1024
#: Bytes that an event of feedback takes in a file, about.
_EVENT = 256
#: Share of the log, and of the feedback, that one caller may fill.
_SHARE = 0.5
#: Nobody can foresee it.
_RANDOM = random.SystemRandom()


class _Shown(NamedTuple):
    """One query that was answered."""

    time: float
    request_id: str
    query: int
    api: str
    ranked: Ranked


class _Said(NamedTuple):
    """One event of feedback."""

    time: float
    event: Event


class ImpressionLog:
    """The log of one worker.

    Args:
        share: of the rankings that are logged.
        folder: of the files.
        files: of impressions that this worker writes.
        feedback: the files of feedback that it writes.
        meters: that count what becomes of the records.
    """

    def __init__(self, share: float, folder: Path, files: Files, feedback: Files, meters: Meters) -> None:
        self.share = share
        self._folder = folder
        self._most_bytes = files.most_bytes + feedback.most_bytes
        self._meters = meters
        self._queue: deque[_Shown | _Said] = deque()
        # Each is changed by one thread only, so that no lock is needed.
        self._put = self._taken = 0
        self._shown = _Writer("impression", folder, files, meters.impressions)
        self._said = _Writer("feedback", folder, feedback, meters.feedback)
        self._waking = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._complaint: str | None = None

    def start(self) -> None:
        """Start writing; to be called in the process that answers."""
        self._thread = threading.Thread(target=self._run, name="impressions", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what waits, and stop."""
        self._closing.set()
        self._waking.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def show(self, api: str, scope: Scope, query: int, ranked: Ranked) -> None:
        """Log a query that was answered, if it is one of the share."""
        if _RANDOM.random() >= self.share:
            return
        size = _size(ranked)
        if self._takes(self._shown, caller_of(scope), size, size):
            self._enter(_Shown(time.time(), scope["request_id"], query, api, ranked), size)

    def say(self, scope: Scope, events: Sequence[Event]) -> dict[str, int]:
        """Log feedback; return how many events were accepted and dropped."""
        accepted, now, caller = 0, time.time(), caller_of(scope)
        for event in events:
            if self._takes(self._said, caller, _FIXED, _EVENT):
                accepted += 1
                self._enter(_Said(now, event), _FIXED)
        return {"accepted": accepted, "dropped": len(events) - accepted}

    def state(self) -> dict[str, Any]:
        """Return what became of the records of all workers since the start, and what the files take."""
        counted = self._meters.logged()
        return {
            "share": self.share,
            **_by(counted["impressions"]),
            "feedback": _by(counted["feedback"]),
            "bytes": total_bytes(self._folder),
            "most_bytes": self._most_bytes,
        }

    def _takes(self, writer: _Writer, caller: str, waiting: int, written: int) -> bool:
        """Tell whether a record may enter the queue; if not, count why."""
        if len(self._queue) >= MOST_RECORDS or self._put - self._taken + waiting > MOST_BYTES:
            writer.outcomes["dropped"][0] += 1.0
            return False
        if not writer.quota.take(caller, written):
            writer.outcomes["over_quota"][0] += 1.0
            return False
        return True

    def _enter(self, record: _Shown | _Said, size: int) -> None:
        self._put += size
        self._queue.append(record)
        if not self._waking.is_set():
            self._waking.set()

    def _run(self) -> None:
        while True:
            self._waking.wait()
            # Writing several records together costs less. If the thread woke up for each record, it would take time
            # from requests.
            closing = self._closing.wait(_GATHER)
            self._waking.clear()
            self._write_all()
            if closing:
                self._shown.files.close()
                self._said.files.close()
                return

    def _write_all(self) -> None:
        """Write what waits."""
        for writer in (self._shown, self._said):
            writer.files.look()
        while self._queue:
            record = self._queue.popleft()
            if isinstance(record, _Said):
                self._taken += _FIXED
                self._said.add(partial(_said, record))
            else:
                self._taken += _size(record.ranked)
                self._shown.add(partial(_shown, record), record.ranked.ranker.contract)
        for writer in (self._shown, self._said):
            writer.flush()


class _Writer:
    """Writes the records of one kind, many together.

    Attributes:
        files: that it writes.
        quota: of each caller.
        outcomes: the counts of what became of the records.
    """

    def __init__(self, kind: str, folder: Path, files: Files, counter: Counter) -> None:
        self.files = files
        self.quota = Quota(_SHARE * files.most_bytes / files.writers)
        self.outcomes = {outcome: counter.of(outcome) for outcome in OUTCOMES}
        self._kind, self._folder = kind, folder
        #: Frames, and whether each is a record; the others are names of features.
        self._waiting: list[tuple[list[Buffer], bool]] = []
        self._size = 0
        self._complaint: str | None = None

    def add(self, make: Callable[[], list[Buffer]], contract: FeatureContract | None = None) -> None:
        """Write a record with the others, and the names of its features first if the file does not have them."""
        known = self.files.contracts
        try:
            names = [] if contract is None or contract.digest in known else _names(contract)
            parts = make()
        except Exception:  # noqa: BLE001 - after any error the others are written
            _log.exception("a record for the %s log cannot be written", self._kind)
            self.outcomes["lost"][0] += 1.0
            return
        needed = size_of(parts) + size_of(names)
        if self._size + needed > min(self.files.room, _TOGETHER):
            self.flush()
            if not self.files.make_room(needed):
                self.outcomes["lost"][0] += 1.0
                return
        if contract is not None and contract.digest not in known:
            self._waiting.append((names or _names(contract), False))
            known.add(contract.digest)
        self._waiting.append((parts, True))
        self._size += needed

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        try:
            done = self.files.append([parts for parts, _ in waiting])
            reason = "the disk is full" if done < len(waiting) else None
        except OSError as error:
            done, reason = 0, error.strerror or str(error)
        for position, (_, is_record) in enumerate(waiting):
            if is_record:
                self.outcomes["logged" if position < done else "lost"][0] += 1.0
        if reason is not None:
            # The names of features may be among what was not written.
            self.files.contracts.clear()
            if reason != self._complaint:
                _log.error("the %s log in %s loses records: %s", self._kind, self._folder, reason)
        elif self._complaint is not None:
            _log.info("the %s log in %s can be written again", self._kind, self._folder)
        self._complaint = reason


def _by(counted: Mapping[str, int]) -> dict[str, int]:
    return {outcome: counted.get(outcome, 0) for outcome in OUTCOMES}


def _size(ranked: Ranked) -> int:
    return _FIXED + ranked.documents.matrix.nbytes + 64 * len(ranked.ranking.order)


def _names(contract: FeatureContract) -> list[Buffer]:
    """Return the frame that says what the features of a contract are."""
    return frame(orjson.dumps(contract_members(contract)))


def _shown(record: _Shown) -> list[Buffer]:
    ranked = record.ranked
    ranking, options, documents = ranked.ranking, ranked.options, ranked.documents
    features = np.ascontiguousarray(documents.matrix, "<f4")
    ruled = ranked.ruled
    scores = np.ascontiguousarray(ranking.scores if ruled is None else ruled.ranking.scores, "<f8")
    order = np.ascontiguousarray(ranking.order, "<i4")
    members: dict[str, Any] = {
        "kind": "impression",
        "time": round(record.time, 6),
        "request_id": record.request_id,
        "query": record.query,
        "query_id": options.query_id,
        "session_id": options.session_id,
        "api": record.api,
        "model": ranked.name,
        "version": ranked.version,
        "contract": ranked.ranker.contract.digest,
        "route": route_members(ranking.route),
        "degraded": None if ranked.degraded is None else ranked.degraded._asdict(),
        "experiment": None if ranked.experiment is None else ranked.experiment.record(),
        "shown": len(options.shown(ranking.order)),
        **({"offset": min(options.offset, len(ranking.order))} if options.offset else {}),
        **({"pinned": len(ruled.pinned)} if ruled is not None else {}),
        "ids": _texts(documents.ids),
        "arrays": {
            "features": ("<f4", features.shape),
            "scores": ("<f8", scores.shape),
            "order": ("<i4", order.shape),
        },
    }
    head = orjson.dumps(members)
    return frame(head, [one.tobytes() for one in (features, scores, order)])


def _texts(ids: Sequence[Any] | None) -> list[Any] | None:
    """Return the ids as JSON values. Ids of binary tensors are bytes, and a search engine's hit may have no id."""
    if ids is None:
        return None
    texts = [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in ids]
    return [one if isinstance(one, str | int) else None for one in texts]


def _said(record: _Said) -> list[Buffer]:
    event = record.event
    members = {"kind": "feedback", "time": round(record.time, 6), **asdict(event)}
    return frame(orjson.dumps(members))
