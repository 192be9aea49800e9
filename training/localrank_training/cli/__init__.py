"""The offline commands, one module each.

Importing this package is cheap: what a command needs is imported when it runs, so that ``--help`` answers at once.
Commands parse, call one function of the packages, and print; errors of `localrank.errors` end in one line and
exit code 1 (see `localrank.__main__`).
"""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

import typer

from localrank.commands.wrong_use import run_typer
from localrank_training.cli import data, experiments
from localrank_training.cli.arguments import Listing, add, spread
from localrank_training.cli.assess import assess
from localrank_training.cli.demo import demo
from localrank_training.cli.evaluate import evaluate
from localrank_training.cli.extend import extend
from localrank_training.cli.import_model import import_model
from localrank_training.cli.rank import rank
from localrank_training.cli.tables import publish_table
from localrank_training.cli.train import train
from localrank_training.cli.tune import tune

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["app", "run"]

#: The exit code of Typer after Ctrl-C; it prints nothing then.
_INTERRUPTED = 130
#: The exit code of a command that SIGTERM ended, as shells count.
_TERMINATED = 143

app = typer.Typer(
    name="localrank",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, assess, extend, evaluate, rank):
    add(app, command)
for chooser in (train, tune):
    add(app, chooser, cls=Listing)

# The other subcommands of `localrank models` need the core alone and are in `localrank.commands.models`.
models = typer.Typer(name="models")
models.callback()(lambda: None)
add(models, import_model, "import")
app.add_typer(models)
# So are those of `localrank tables`, in `localrank.commands.tables`.
tables = typer.Typer(name="tables")
tables.callback()(lambda: None)
add(tables, publish_table, "publish")
app.add_typer(tables)
app.add_typer(data.app)
app.add_typer(experiments.app)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    alone = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _end) if alone else None
    try:
        # Reports say by which command they were made.
        code = run_typer(app, spread(arguments), obj=shlex.join(["localrank", *arguments]))
    finally:
        if alone:
            signal.signal(signal.SIGTERM, before)
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    return code


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    """End as Ctrl-C does; else joblib's workers would live on for five minutes."""
    sys.exit(_TERMINATED)
