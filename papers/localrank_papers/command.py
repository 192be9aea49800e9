"""``localrank papers``: the papers' tables and figures again, on one's own data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrank.commands.output import print_json, print_table
from localrank.commands.wrong_use import run_typer
from localrank.errors import InvalidConfiguration
from localrank_training.cli.arguments import Dask, Workers, add, working
from localrank_training.cli.output import AsJson, given, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    name="localrank", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)
_papers = typer.Typer(no_args_is_help=True, help="Reproduce tables and figures of the five papers.")
app.callback()(lambda: None)
app.add_typer(_papers, name="papers")


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    return run_typer(app, arguments)


def listed(*, as_json: AsJson = False) -> None:
    """Name all tables and figures.

    Examples:
      localrank papers list
    """
    from localrank_papers.figures.running import EXPERIMENTS

    rows = [(one.name, one.figure, one.title, one.paper) for one in EXPERIMENTS.values()]
    if as_json:
        print_json([dict(zip(("name", "figure", "title", "paper"), row, strict=True)) for row in rows])
        return
    for paper in dict.fromkeys(row[3] for row in rows):
        typer.echo(f"\n{paper}\n")
        print_table(("name", "figure", "what it shows"), [row[:3] for row in rows if row[3] == paper])


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="Names from localrank papers list, or patterns: 'localrank-*' is every name that begins with localrank-.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        str,
        typer.Option(
            help="Folder for NAME.csv, .json, .svg and .html, and for the fitted models.", callback=given
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="Folder with S1 to S5, or with Fold1, Fold2, … (LETOR text), as localrank data split --folds makes it.",
            callback=given,
        ),
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of random draws for controls, such as random clusters; 0 leaves the controls out.",
        ),
    ] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random draws.")] = 0,
    workers: Workers = 0,
    dask: Dask = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce tables and figures on data in folds, or on their own synthetic data.

    Fitted models are kept in OUT/fits: figures share them, and an interrupted run continues. OUT/test-runs.jsonl has a
    line for every run on test folds.

    Examples:
      localrank papers run localrank-fig6 --data OHSUMED --out results/OHSUMED
      localrank papers run 'localrank-*' --data MQ2008 --out results/MQ2008 --draws 0
    """
    from localrank_papers.figures.running import named

    chosen = named(names)
    wanting = [one.name for one in chosen if one.needs_data]
    if data is None and wanting:
        raise InvalidConfiguration(
            f"--data: expected the folder of the data that {wanting[0]} needs, found none"
        )

    from localrank_papers.figures.fits import Fits
    from localrank_papers.figures.folds import Data, read_folds
    from localrank_papers.figures.running import run as run_one
    from localrank_papers.figures.study import Study

    with progress() as advance, working(workers, dask) as at_once:
        known = (
            read_folds(Path(data), advance) if data is not None and wanting else Data("none", "standard", ())
        )
        fits = Fits(Path(out) / "fits", workers=at_once, say=_say)
        study = Study(known, fits, draws, seed)
        found = {one.name: run_one(one, study, Path(out), say=_say, progress=advance) for one in chosen}
    if as_json:
        print_json({name: findings.to_json() for name, findings in found.items()})
        return
    for findings in found.values():
        for sentence in findings.sentences:
            typer.echo(sentence)


add(_papers, listed, "list")
add(_papers, reproduce, "run")


def _say(text: str) -> None:
    typer.echo(text, err=True)
