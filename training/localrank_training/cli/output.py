"""Options that several commands have, and progress on a terminal."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrank_training.data.writing import check_writable, whole_file
from localrank_training.parallel.processes import silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank_training.parallel.processes import Progress
    from localrank_training.report import Page


def given(path: str | None) -> str | None:
    """Refuse an empty path, for options: it comes from a variable that is not set, and would mean this folder."""
    if path == "":
        raise typer.BadParameter("expected a path, found nothing")
    return path


def page_path(report: str | None) -> Path | None:
    """Return where a page goes, which can be written there, or nothing if none is wanted.

    Raises:
        PublishFailed: it cannot be written.
    """
    if report is None:
        return None
    path = Path(report)
    check_writable(path)
    return path


def write_page(page: Page, *paths: Path) -> None:
    """Write a page, whole or not at all, to each path."""
    text = page.html()
    for path in paths:
        with whole_file(path) as file:
            file.write(text)


#: ``--json``, on every command that answers figures.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
#: ``--report``, on every command whose findings make a page.
Report = Annotated[
    str | None,
    typer.Option(
        "--report", metavar="FILE", help="Also write a page with tables and plots, as HTML.", callback=given
    ),
]
#: ``--models-dir``, on every command that touches models.
ModelsDir = Annotated[
    str,
    typer.Option("--models-dir", help="Folder of the models.", envvar="LOCALRANK_MODELS_DIR", callback=given),
]


def where(models_dir: str) -> str:
    """Return the option that the next command needs to find the same models; empty if it needs none."""
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
