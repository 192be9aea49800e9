"""Progress is drawn on a terminal, one bar for each task, and nowhere else."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from localrank_training.cli.output import progress
from localrank_training.parallel.processes import silent

if TYPE_CHECKING:
    import pytest


class Bars:
    """Keeps what `rich.progress.Progress` is told."""

    told: list[tuple[str, Any]]

    def __init__(self, *_: Any, **options: Any) -> None:
        Bars.told = [("options", options["transient"])]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        Bars.told.append(("end", None))

    def add_task(self, name: str, total: int) -> str:
        Bars.told.append(("add", (name, total)))
        return f"task {name}"

    def update(self, task: str, completed: int, total: int) -> None:
        Bars.told.append(("update", (task, completed, total)))


def test_every_task_has_one_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.progress.Progress", Bars)
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: True, write=print, flush=print))

    with progress() as advance:
        for task, done in (("read", 1), ("read", 2), ("train", 5)):
            advance(task, done, 9)

    assert Bars.told == [
        ("options", True),
        ("add", ("read", 9)),
        ("update", ("task read", 1, 9)),
        ("update", ("task read", 2, 9)),
        ("add", ("train", 9)),
        ("update", ("task train", 5, 9)),
        ("end", None),
    ]


def test_nothing_is_drawn_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False))

    with progress() as advance:
        assert silent is advance
