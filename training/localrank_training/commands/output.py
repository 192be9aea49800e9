"""How commands speak: figures as text or JSON, progress on a terminal, nothing decorative in a pipe."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from localrank_training.progress import silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from localrank_training.progress import Progress

__all__ = [
    "MANY",
    "AsJson",
    "ModelsDir",
    "given",
    "print_json",
    "print_notes",
    "print_table",
    "progress",
    "whole_file",
]

#: Clusters, and notes of them, that are printed; a model may have one for every training query.
MANY = 25


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


@contextmanager
def progress() -> Iterator[Progress]:
    """Draw progress bars on a terminal's standard error; stay silent anywhere else."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def advance(task: str, done: int, total: int) -> None:
            if task not in tasks:
                tasks[task] = bars.add_task(task, total=total)
            bars.update(tasks[task], completed=done, total=total)

        yield advance


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a text file that is written whole or not at all.

    A device, a pipe or what a link leads to is written, never replaced.
    """
    from localrank.errors import PublishFailed

    try:
        if path.exists() and not path.is_file():
            with path.open("w", newline="", encoding="utf-8") as file:
                yield file
            return
        target = path.resolve()
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with partial.open("w", newline="", encoding="utf-8") as file:
                yield file
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PublishFailed(f"{path}: cannot be written: {error.strerror or error}") from None


def print_json(answer: object) -> None:
    """Print one JSON document; numbers as they are, NaN as null."""
    typer.echo(json.dumps(_plain(answer), indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], most: int | None = None) -> None:
    """Print aligned columns: text to the left, numbers to the right.

    Args:
        header: the names of the columns.
        rows: a cell for each column.
        most: how many rows are printed; a last line counts the others.
    """
    more = 0 if most is None else max(0, len(rows) - most)
    rows = rows[: len(rows) - more]
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [
        max(len(name), *(len(row[i]) for row in texts)) if texts else len(name)
        for i, name in enumerate(header)
    ]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
        for i in range(len(header))
    ]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ).rstrip()

    typer.echo(line(list(header)))
    for row in texts:
        typer.echo(line(row))
    if more:
        typer.echo(f"... and {more} more; --json prints all")


def print_notes(notes: Sequence[object], *, err: bool = False) -> None:
    """Print what a reader should know, a line each; a last line counts what is beyond `MANY`."""
    for note in notes[:MANY]:
        typer.echo(f"note: {note}", err=err)
    if len(notes) > MANY:
        typer.echo(f"... and {len(notes) - MANY} more notes; --json prints all", err=err)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and value != value:  # noqa: PLR0124
        return None
    return value
