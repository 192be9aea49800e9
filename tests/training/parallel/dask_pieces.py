"""Pieces of work that tests send to workers, which import them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Matrix


def scaled(matrix: Matrix, factor: float) -> float:
    return float(matrix.sum()) * factor


def where(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def refuse(text: str) -> None:
    from localrank.errors import InvalidData

    raise InvalidData(text)


def blind(path: str) -> str:
    """Look at a file as a machine does that has another one there."""
    return f"{os.getpid()} {path}"


def die(once: str = "") -> str:
    """End the worker; with the path of a file, only if it is not there yet."""
    if once and Path(once).exists():
        return "alive"
    if once:
        Path(once).touch()
    os._exit(1)


def fill_memory(size: int) -> int:
    held = np.ones(size, np.uint8)
    time.sleep(60)
    return len(held)
