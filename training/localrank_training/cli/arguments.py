"""Options and arguments that several commands have, and how a function becomes a command."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from localrank.commands.options import with_options
from localrank.commands.output import print_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from localrank_training.data.queries import QuerySet
    from localrank_training.data.tables import Columns

Model = Annotated[str, typer.Argument(help="name, name@version or name@alias.")]
Judged = Annotated[
    list[str],
    typer.Argument(help="Judged queries: LETOR text, CSV, JSON lines, Parquet, Arrow, or a folder of these."),
]
Learner = Annotated[
    str | None,
    typer.Option(help="The learner to use. Without --method and --config it trains one global model."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Override one setting; may be repeated."),
]
Monotone = Annotated[
    list[str] | None,
    typer.Option(
        "--monotone",
        metavar="FEATURE=+1|-1",
        help="A feature whose larger values never lower a score (+1), or never raise one (-1), all else being alike; may be "
        "repeated.",
        show_default=False,
    ),
]
Promote = Annotated[
    bool, typer.Option("--promote", help="Make the new version the champion, which the service uses.")
]
Baseline = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="COLUMN|position|FILE",
        help="The order that the model must beat: a column, the places of --position, a TREC run, or a file with a score "
        "for each document. Without it, the best single feature is shown.",
        show_default=False,
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
SkipBadFiles = Annotated[
    bool,
    typer.Option(
        "--skip-bad-files",
        help="Leave out files with errors, and name them. Without this option the first error ends the run.",
    ),
]
Workers = Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Train on a Dask cluster: the address of its scheduler, or 'local' for workers on this machine.",
        show_default=False,
    ),
]

#: Options that take every word up to the next option: ``--validation a.txt b.txt``.
_SEVERAL = ("--validation",)


class Listing(TyperCommand):
    """A command whose help ends with the names of all methods and learners, plug-ins included."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the names; nothing is imported for them."""
        from localrank_training.learners.catalogue import LEARNERS
        from localrank_training.settings.methods import METHODS

        super().format_epilog(ctx, formatter)
        with formatter.section("Names"):
            formatter.write_dl([("--method", ", ".join(METHODS)), ("--learner", ", ".join(LEARNERS))])


def add(app: typer.Typer, command: Callable[..., None], name: str | None = None, **more: Any) -> None:
    """Make a function a command: its docstring is the help, a parameter with settings becomes an option for each."""
    # The lines of the examples stay as they are.
    text = inspect.cleandoc(command.__doc__ or "").replace("Examples:\n", "\b\nExamples:\n")
    app.command(name, help=text, **more)(with_options(command, several=("table",)))


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat an option that takes several words before each of them, the only form that Typer reads."""
    spread_out: list[str] = []
    waiting: str | None = None  # an option of several words that has none yet
    option: str | None = None
    for position, argument in enumerate(arguments):
        if argument.startswith("-") and argument != "-":
            if waiting is not None:
                break
            if argument == "--":
                return [*spread_out, *arguments[position:]]
            option = waiting = argument if argument in _SEVERAL else None
            if option is None:
                spread_out.append(argument)
        else:
            spread_out += [argument] if option is None else [option, argument]
            waiting = None
    # Nothing follows the option, so that Typer says what is missing.
    return spread_out if waiting is None else [*spread_out, waiting]


def typed(context: typer.Context, group: str) -> frozenset[str]:
    """Return the settings of one object whose options somebody has typed, defaults or not."""
    found = set()
    for name in context.params:
        source = context.get_parameter_source(name)
        if name.startswith(f"{group}_") and source is not None and source.name == "COMMANDLINE":
            found.add(name.removeprefix(f"{group}_"))
    return frozenset(found)


def directions(told: Sequence[str] | None, remembered: Mapping[str, int] | None = None) -> list[str]:
    """Return the setting that ``--monotone`` stands for, over what is remembered; 0 takes a direction away."""
    from localrank_training.settings.config import value_text

    found: dict[str, int] = {}
    for text in told or ():
        name, _, sign = text.rpartition("=")
        if not name or sign not in {"+1", "1", "-1", "0"}:
            raise typer.BadParameter(
                f"expected FEATURE=+1 or FEATURE=-1, found {text!r}", param_hint="--monotone"
            )
        if found.setdefault(name, int(sign)) != int(sign):
            raise typer.BadParameter(
                f"expected one direction of {name!r}, found {found[name]:+d} and {int(sign):+d}",
                param_hint="--monotone",
            )
    kept = {name: sign for name, sign in {**(remembered or {}), **found}.items() if sign}
    return [f"contract.monotone={value_text(kept)}"] if kept or found else []


def say(text: str) -> None:
    """Tell the user what was taken from a table."""
    typer.echo(text, err=True)


def read_with(baseline: str | None, paths: Sequence[str], columns: Columns, **more: Any) -> QuerySet:
    """Read judged queries, and beside them the order that a model must beat, which may be a column to ignore.

    Args:
        baseline: as ``--baseline`` names it, or none.
        paths: of the data.
        columns: what they hold.
        more: of `localrank_training.data.reading.read`.
    """
    from localrank_training.data.reading import read
    from localrank_training.evaluation.baselines import with_present, without

    if baseline is None:
        return read(paths, columns=columns, say=say, **more)
    kept = tuple(name for name in columns.ignore if name != baseline)
    queries = with_present(read(paths, columns=replace(columns, ignore=kept), say=say, **more), baseline)
    return without(queries, baseline) if baseline in columns.ignore else queries


@contextmanager
def working(workers: int, dask: str | None) -> Iterator[int]:
    """Run the work on processes here or on a Dask cluster, as the user asked; yield how many pieces run at a time."""
    from localrank_training.parallel.processes import available_cores

    if dask is None:
        yield workers or available_cores()
        return
    if workers:
        raise typer.BadParameter("expected one of them, found both", param_hint="--workers and --dask")
    from localrank_training.parallel.dask_workers import dask_workers

    with dask_workers(dask) as cluster:
        try:
            yield cluster.threads
        finally:
            print_notes(cluster.notes, err=True)
