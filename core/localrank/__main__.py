"""The one console script. It finds the half that a command belongs to and loads only this half.

``localrank serve`` must not import training code, and ``localrank train`` must work where no web server is
installed. This module imports only the standard library and the errors. If an extra is missing, a message names it.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from localrank._version import __version__
from localrank.errors import InvalidConfiguration, LocalRankError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Command(NamedTuple):
    """Where a command lives, and the extra that it needs; none if the core is enough."""

    module: str
    extra: str
    summary: str


_OFFLINE = "localrank_training.cli"

COMMANDS = {
    "demo": Command(_OFFLINE, "train", "Make the synthetic data, train on it, publish models/demo."),
    "assess": Command(_OFFLINE, "train", "Describe judged queries, and say what would improve a model most."),
    "train": Command(_OFFLINE, "train", "Learn a model from judged queries and publish it."),
    "extend": Command(_OFFLINE, "train", "Add new judged queries to the clusters and tables of a model."),
    "tune": Command(_OFFLINE, "train", "Choose settings by cross-validation over queries."),
    "evaluate": Command(_OFFLINE, "train", "Measure one or two models on judged queries."),
    "rank": Command(_OFFLINE, "train", "Print one score per input line."),
    "experiments": Command(
        _OFFLINE, "train", "Find out which version users prefer, from the log of a service."
    ),
    "models": Command(
        "localrank.commands.models",
        "",
        "List, show, verify, sign, promote, roll back, prune, compare models.",
    ),
    "models import": Command(_OFFLINE, "train", "Publish a model of LightGBM, XGBoost, CatBoost or RankLib."),
    "tables": Command(
        "localrank.commands.tables",
        "",
        "Publish, list, show, verify, sign, prune, push tables of features that models look up by id.",
    ),
    "tables publish": Command(_OFFLINE, "train", "Publish a table of features of items by id."),
    "papers": Command(
        "localrank_papers.command", "train", "Reproduce tables and figures of papers on your data."
    ),
    "data": Command(_OFFLINE, "train", "Inspect, convert, split, synthesize and export judged queries."),
    "serve": Command("localrank_service.process.command", "serve", "Answer rerank requests over HTTP."),
}

_USAGE = """\
Usage: localrank COMMAND [OPTIONS] ...

Learning to rank with a model chosen for each query.

Commands:
{commands}

Options:
  --version  Print the version.
  --help     Print this; after a command, print its options and examples.

Examples:
  localrank serve                                    serve the models in ./models
  localrank train data/train.txt --name web --promote
"""
#: Printed if somebody types only ``localrank``.
_START = """\
localrank demo && localrank serve            make a small model and serve it: http://127.0.0.1:8080
localrank train judged.txt --name web        learn from your own judged queries (LETOR text or a table)
localrank --help                             all commands; each has --help with examples
"""


# Complexity 16: one clause for each kind of error, each with its exit code.
def main(arguments: Sequence[str] | None = None) -> int:  # noqa: C901
    """Run one command; return 0, 1 (failed) or 2 (wrong use)."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [*arguments[1:], "--help"]
    if not arguments and sys.stdout is not None and sys.stdout.isatty():
        print(_START, end="")  # noqa: T201
        return 0
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        width = max(map(len, COMMANDS))
        lines = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items())
        print(_USAGE.format(commands=lines), end="")  # noqa: T201
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"localrank {__version__}")  # noqa: T201
        return 0
    if arguments[0] not in COMMANDS:
        return complain(_unknown(arguments[0]), 2)
    both = " ".join(arguments[:2])
    name = both if both in COMMANDS else arguments[0]
    command = COMMANDS[name]
    if sys.stdout is None and command.extra != "serve":
        return complain("standard output: expected to be open, found it closed", 1)
    try:
        code = int(importlib.import_module(command.module).run(arguments))
        # The rest of the buffer may fail too: the reader is gone, or the disk is full.
        if sys.stdout is not None:
            sys.stdout.flush()
        return code  # noqa: TRY300
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0].startswith("localrank"):
            raise
        from localrank.extras import installing

        return complain(f"'localrank {name}' needs {error.name!r}: {installing(command.extra)}", 1)
    except InvalidConfiguration as error:
        return complain(str(error), 2)
    except LocalRankError as error:
        return complain(str(error), 1)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe, so nobody can read a message.
        _drop_output()
        return 1
    except OSError as error:
        if error.filename is not None:
            return complain(f"{error.filename}: {error.strerror}", 1)
        _drop_output()
        return complain(f"the output cannot be written: {error.strerror or error}", 1)
    except MemoryError as error:
        return complain(f"not enough memory: {error}" if str(error) else "not enough memory", 1)
    except KeyboardInterrupt:
        return complain("interrupted", 130)


def _unknown(word: str) -> str:
    """Return the message for a first word that is not a command."""
    # Only a wrong command needs this module.
    from localrank.commands.wrong_use import no_option
    from localrank.errors import no_such

    if word.startswith("-"):
        return no_option(word, ("--version", "--help"))
    return no_such("command", word, COMMANDS)


def _drop_output() -> None:
    """Discard the output that the interpreter still holds: the reader is gone, or the disk is full."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - pathlib would be imported for every command
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def complain(message: str, code: int) -> int:
    """Say in one line why a command failed; return its exit code."""
    print(f"localrank: {message}", file=sys.stderr)  # noqa: T201
    return code


if __name__ == "__main__":
    sys.exit(main())
