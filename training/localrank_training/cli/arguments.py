"""Help and options that Typer cannot express."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Options that take every word up to the next option: ``--validation a.txt b.txt``.
_SEVERAL = ("--validation",)


class Listing(TyperCommand):
    """A command whose help ends with the names of all methods and learners, plug-ins included."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the names; nothing is imported for them."""
        from localrank_training.learners.catalogue import LEARNERS
        from localrank_training.methods import METHODS

        super().format_epilog(ctx, formatter)
        with formatter.section("Names"):
            formatter.write_dl([("--method", ", ".join(METHODS)), ("--learner", ", ".join(LEARNERS))])


def described(command: Callable[..., object]) -> str:
    """Return a command's docstring as help, with the lines of its examples left as they are."""
    return inspect.cleandoc(command.__doc__ or "").replace("Examples:\n", "\b\nExamples:\n")


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
