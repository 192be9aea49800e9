"""Progress of long tasks: functions report it without knowing about terminals, and commands draw it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

#: ``progress(task, done, total)``.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(_task: str, _done: int, _total: int) -> None:
    """Report no progress."""
