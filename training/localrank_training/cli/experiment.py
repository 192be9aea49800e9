"""``localrank experiment``: a paper's table or figure again, on one's own data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from localrank.commands.output import print_json, print_table
from localrank.errors import InvalidConfiguration
from localrank_training.cli.output import AsJson, given, progress
from localrank_training.cli.workers import Dask, Workers, working


def experiment(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Names from --list, or patterns: 'localrank-*' is every name that begins with localrank-.",
            show_default=False,
        ),
    ] = None,
    *,
    listed: Annotated[bool, typer.Option("--list", help="Name all experiments.")] = False,
    data: Annotated[
        str | None,
        typer.Option(
            help="Folder with S1 to S5, or with Fold1, Fold2, … (LETOR text), as localrank data split --folds makes it.",
            callback=given,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Folder for NAME.csv, .json, .svg and .html, and for the fitted models.", callback=given
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
    """Reproduce tables and figures of the papers on data in folds, or on their own synthetic data.

    Fitted models are kept in OUT/fits: figures share them, and an interrupted run continues. OUT/test-runs.jsonl has a
    line for every run on test folds.

    Examples:
      localrank experiment --list
      localrank experiment localrank-fig6 --data OHSUMED --out results/OHSUMED
      localrank experiment 'localrank-*' --data MQ2008 --out results/MQ2008 --draws 0
    """
    from localrank_training.experiments.catalogue import EXPERIMENTS, named

    if listed:
        _list([(e.name, e.figure, e.title, e.paper) for e in EXPERIMENTS.values()], as_json=as_json)
        return
    if not names:
        raise typer.BadParameter("expected the name of an experiment, or --list, found neither")
    chosen = named(names)
    if out is None:
        raise typer.BadParameter("expected a folder for the results, found none", param_hint="--out")
    wanting = [one.name for one in chosen if one.needs_data]
    if data is None and wanting:
        raise InvalidConfiguration(
            f"--data: expected the folder of the data that {wanting[0]} needs, found none"
        )

    from localrank_training.experiments.fits import Fits
    from localrank_training.experiments.folds import Data, read_folds
    from localrank_training.experiments.role import Study
    from localrank_training.experiments.running import run

    with progress() as advance, working(workers, dask) as at_once:
        known = (
            read_folds(Path(data), advance) if data is not None and wanting else Data("none", "standard", ())
        )
        fits = Fits(Path(out) / "fits", workers=at_once, say=_say)
        study = Study(known, fits, draws, seed)
        found = {one.name: run(one, study, Path(out), say=_say, progress=advance) for one in chosen}
    if as_json:
        print_json({name: findings.to_json() for name, findings in found.items()})
        return
    for findings in found.values():
        for sentence in findings.sentences:
            typer.echo(sentence)


def _list(rows: list[tuple[str, str, str, str]], *, as_json: bool) -> None:
    if as_json:
        print_json([dict(zip(("name", "figure", "title", "paper"), row, strict=True)) for row in rows])
        return
    for paper in dict.fromkeys(row[3] for row in rows):
        typer.echo(f"\n{paper}\n")
        print_table(("name", "figure", "what it shows"), [row[:3] for row in rows if row[3] == paper])


def _say(text: str) -> None:
    typer.echo(text, err=True)
