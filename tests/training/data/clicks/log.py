"""A log of rankings and feedback, written by a test as a service writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.journal import FEEDBACK, file_name, frame

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Log:
    """Files of records, as a service writes them."""

    def __init__(self, folder: Path, names: Sequence[str] = ("bm25", "age")) -> None:
        self.folder = folder
        self.path = folder / file_name(1, 1)
        self.feedback = folder / file_name(1, 1, FEEDBACK)
        self.time = 0.0
        self._write({"kind": "contract", "contract": "c", "names": list(names)})

    def _write(self, members: dict[str, Any], *arrays: np.ndarray) -> None:
        self.time += 1
        members = {"time": self.time, **members}
        path = self.feedback if members["kind"] == "feedback" else self.path
        with path.open("ab") as file:
            for part in frame(json.dumps(members).encode(), [array.tobytes() for array in arrays]):
                file.write(part)

    def show(self, request_id: str, order: list[int], **more: Any) -> None:
        n = len(order)
        features = more.pop("features", np.arange(2 * n, dtype="<f4").reshape(n, 2))
        members = {
            "kind": "impression", "request_id": request_id, "query": 0, "query_id": "q", "session_id": None,
            "model": "web", "version": 1, "contract": "c", "shown": n, "degraded": None,
            "ids": [f"d{one}" for one in range(n)],
            "arrays": {"features": ["<f4", list(features.shape)], "scores": ["<f8", [n]], "order": ["<i4", [n]]},
            **more,
        }  # fmt: skip
        self._write(members, features, np.zeros(n), np.array(order, "<i4"))

    def say(self, request_id: str, **more: Any) -> None:
        event = {
            "query": 0,
            "id": None,
            "index": None,
            "click": False,
            "grade": None,
            "event_id": None,
            **more,
        }
        self._write({"kind": "feedback", "request_id": request_id, **event})
