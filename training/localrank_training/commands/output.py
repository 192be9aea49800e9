"""Options that several commands have, and progress on a terminal."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrank_training.progress import silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank_training.progress import Progress

__all__ = [
    "AsJson",
    "ModelsDir",
    "given",
    "progress",
    "where",
]


def given(path: str | None) -> str | None:
    """Refuse an empty path, for options: it comes from a variable that is not set, and would mean this folder."""
    if path == "":
        raise typer.BadParameter("expected a path, found nothing")
    return path


#: ``--json``, on every command that answers figures.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
#: ``--models-dir``, on every command that touches models.
ModelsDir = Annotated[
    str,
    typer.Option("--models-dir", help="Where the models are.", envvar="LOCALRANK_MODELS_DIR", callback=given),
]


def where(models_dir: str) -> str:
    """Return what the next command must be told to find the same models: nothing if it looks there by itself."""
    usual = os.environ.get("LOCALRANK_MODELS_DIR") or "models"
    return "" if models_dir == usual else f" --models-dir {shlex.quote(models_dir)}"


@contextmanager
def progress() -> Iterator[Progress]:
    """Draw progress bars on a terminal's standard error; stay silent anywhere else."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def advance(task: str, done: int, total: int) -> None:
            if task not in tasks:
                tasks[task] = bars.add_task(task, total=total)
            bars.update(tasks[task], completed=done, total=total)

        yield advance
