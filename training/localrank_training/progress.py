"""How far a long task is: told by functions that know nothing of terminals, drawn by the commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Progress", "silent"]

#: ``progress(task, done, total)``.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(_task: str, _done: int, _total: int) -> None:
    """Report no progress."""
