"""The log of what was shown and of what callers say about it: sampled, queued, written by a thread of its own.

The event loop only puts references into a bounded queue. If the queue is full, or the thread cannot write, records are
lost and counted; no request waits and none fails. Which requests are logged follows from their ids alone, the same
in every worker, so that feedback to a request that was not logged need not be kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
import orjson

from localrank.journal import frame, size_of
from localrank_service.impressions.files import total_bytes
from localrank_service.wire.answer import route_members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from localrank.contract import FeatureContract
    from localrank.journal import Buffer
    from localrank_service.impressions.files import Files
    from localrank_service.telemetry.meters import Meters
    from localrank_service.wire.answer import Ranked
    from localrank_service.wire.feedback import Event

__all__ = ["ImpressionLog", "sampled"]

_log = logging.getLogger("localrank.service")
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


def sampled(request_id: str, share: float) -> bool:
    """Tell whether the request is one of the share that is logged; the same for the same id, everywhere."""
    # The multiplication mixes the bits of the checksum. Without it, the highest bits of consecutive ids would be almost
    # equal.
    return (crc32(request_id.encode()) * 0x9E3779B1 & 0xFFFFFFFF) < share * 2**32


class ImpressionLog:
    """The log of one worker.

    Args:
        share: of the requests that are logged.
        folder: of the files.
        files: that this worker writes.
        meters: that count what becomes of the records.
    """

    def __init__(self, share: float, folder: Path, files: Files, meters: Meters) -> None:
        self.share = share
        self._folder = folder
        self._files = files
        self._meters = meters
        self._queue: deque[_Shown | _Said] = deque()
        # Each is changed by one thread only, so that no lock is needed.
        self._put = self._taken = 0
        self._dropped = meters.impressions.of("dropped")
        self._feedback_dropped = meters.feedback.of("dropped")
        self._feedback_unsampled = meters.feedback.of("unsampled")
        self._logged = {_Shown: meters.impressions.of("logged"), _Said: meters.feedback.of("logged")}
        self._lost = {_Shown: meters.impressions.of("lost"), _Said: meters.feedback.of("lost")}
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

    def show(self, api: str, request_id: str, query: int, ranked: Ranked) -> None:
        """Log a query that was answered, if its request is one of the share."""
        if not sampled(request_id, self.share):
            return
        size = _size(ranked)
        if self._is_full(size):
            self._dropped[0] += 1.0
            return
        self._enter(_Shown(time.time(), request_id, query, api, ranked), size)

    def say(self, events: Sequence[Event]) -> dict[str, int]:
        """Log feedback to requests that are logged; return how many events were taken, were not logged and were dropped."""
        found = {"accepted": 0, "unsampled": 0, "dropped": 0}
        now = time.time()
        for event in events:
            if not sampled(event.request_id, self.share):
                found["unsampled"] += 1
            elif self._is_full(_FIXED):
                found["dropped"] += 1
            else:
                found["accepted"] += 1
                self._enter(_Said(now, event), _FIXED)
        self._feedback_unsampled[0] += found["unsampled"]
        self._feedback_dropped[0] += found["dropped"]
        return found

    def state(self) -> dict[str, Any]:
        """Return what became of the records of all workers since the start, and what the files take."""
        counted = self._meters.logged()
        return {
            "share": self.share,
            **_by(("logged", "dropped", "lost"), counted["impressions"]),
            "feedback": _by(("logged", "unsampled", "dropped", "lost"), counted["feedback"]),
            "bytes": total_bytes(self._folder),
            "most_bytes": self._files.most_bytes,
        }

    def _is_full(self, size: int) -> bool:
        return len(self._queue) >= MOST_RECORDS or self._put - self._taken + size > MOST_BYTES

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
                self._files.close()
                return

    def _write_all(self) -> None:
        """Write what waits."""
        waiting: list[tuple[type, list[Buffer]]] = []
        size = 0
        self._files.look()
        while self._queue:
            record = self._queue.popleft()
            kind = type(record)
            self._taken += _FIXED if isinstance(record, _Said) else _size(record.ranked)
            try:
                contract = None if isinstance(record, _Said) else record.ranked.ranker.contract
                known = contract is None or contract.digest in self._files.contracts
                names = [] if contract is None or known else _names(contract)
                parts = _said(record) if isinstance(record, _Said) else _shown(record)
            except Exception:  # noqa: BLE001 - after any error the others are written
                _log.exception("a record for the impression log cannot be written")
                self._lost[kind][0] += 1.0
                continue
            needed = size_of(parts) + size_of(names)
            if size + needed > min(self._files.room, _TOGETHER):
                self._flush(waiting)
                waiting, size = [], 0
                if not self._files.make_room(needed):
                    self._lost[kind][0] += 1.0
                    continue
            if contract is not None and contract.digest not in self._files.contracts:
                names = names or _names(contract)
                waiting.append((type(None), names))
                self._files.contracts.add(contract.digest)
            waiting.append((kind, parts))
            size += needed
        self._flush(waiting)

    def _flush(self, waiting: list[tuple[type, list[Buffer]]]) -> None:
        if not waiting:
            return
        try:
            done = self._files.append([parts for _, parts in waiting])
            reason = "the disk is full" if done < len(waiting) else None
        except OSError as error:
            done, reason = 0, error.strerror or str(error)
        for position, (kind, _) in enumerate(waiting):
            if kind is not type(None):
                (self._logged if position < done else self._lost)[kind][0] += 1.0
        if reason is not None:
            # The names of features may be among what was not written.
            self._files.contracts.clear()
            if reason != self._complaint:
                _log.error("the impression log in %s loses records: %s", self._folder, reason)
        elif self._complaint is not None:
            _log.info("the impression log in %s can be written again", self._folder)
        self._complaint = reason


def _by(outcomes: Sequence[str], counted: Mapping[str, int]) -> dict[str, int]:
    return {outcome: counted.get(outcome, 0) for outcome in outcomes}


def _size(ranked: Ranked) -> int:
    return _FIXED + ranked.documents.matrix.nbytes + 64 * len(ranked.ranking.order)


def _names(contract: FeatureContract) -> list[Buffer]:
    """Return the frame that says what the features of a contract are called."""
    return frame(
        orjson.dumps({"kind": "contract", "contract": contract.digest, "names": list(contract.names)})
    )


def _shown(record: _Shown) -> list[Buffer]:
    ranked = record.ranked
    ranking, options, documents = ranked.ranking, ranked.options, ranked.documents
    n_documents = len(ranking.order)
    shown = n_documents if options.top_n is None else min(options.top_n, n_documents)
    features = np.ascontiguousarray(documents.matrix, "<f4")
    scores = np.ascontiguousarray(ranking.scores, "<f8")
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
        "shown": shown,
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
