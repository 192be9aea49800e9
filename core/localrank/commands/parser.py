"""How commands that need the core alone read their arguments: by the standard library, and in the words of all others.

Typer would bring pydantic and Rich into an installation that only loads models.
"""

from __future__ import annotations

import os
import textwrap
from argparse import (
    PARSER,
    ArgumentParser,
    ArgumentTypeError,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from typing import TYPE_CHECKING, Any, NoReturn

from localrank.commands.wrong_use import no_option, of_argparse, see_help, too_many
from localrank.errors import InvalidConfiguration, no_such

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Callable, Sequence


class _Help(RawDescriptionHelpFormatter):
    """Writes help that looks like that of Typer's commands."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"max_help_position": 32, "width": 80, **more})

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:  # noqa: ARG002
        """Write the arguments; the options come below."""
        more = {None: "", PARSER: " [ARGS]..."}
        words = [f"{one.metavar}{more.get(one.nargs, '...')}" for one in actions if not one.option_strings]
        super().add_usage(f"%(prog)s {' '.join(['[OPTIONS]', *words])}", actions, groups, prefix or "Usage: ")

    def start_section(self, heading: str | None) -> None:
        """Begin a list of arguments or options."""
        names = {"positional arguments": "Arguments", "options": "Options"}
        super().start_section(names.get(str(heading), heading))

    def _format_action(self, action: Action) -> str:
        if isinstance(action, _SubParsersAction):
            return "".join(map(self._format_action, action._get_subactions()))  # noqa: SLF001
        return super()._format_action(action)


class CommandParser(ArgumentParser):
    """Says what is wrong in one line, as every command does."""

    def __init__(self, *, description: str, **more: Any) -> None:
        text = textwrap.indent(textwrap.fill(description, 76), "  ")
        super().__init__(description=text, formatter_class=_Help, allow_abbrev=False, **more)
        self._option_string_actions["--help"].help = "Show this message and exit."

    def error(self, message: str) -> NoReturn:
        raise InvalidConfiguration(of_argparse(message) + see_help(self.prog))

    def refuse(self, unknown: str) -> NoReturn:
        """Say that an option does not exist, or that a word is one too many."""
        if unknown.startswith("-"):
            self.error(no_option(unknown.partition("=")[0], self._option_string_actions))
        self.error(too_many(unknown))


class CommandGroup:
    """Commands below one word, such as ``localrank models``.

    Args:
        word: the first one.
        description: of all of them.
        epilog: the last line of the help.
        elsewhere: further commands below this word, for messages.
    """

    def __init__(
        self, word: str, description: str, epilog: str | None = None, elsewhere: Sequence[str] = ()
    ) -> None:
        self._word, self._elsewhere = word, elsewhere
        self._parser = CommandParser(prog=f"localrank {word}", description=description, epilog=epilog)
        self._commands = self._parser.add_subparsers(
            title="Commands",
            prog=self._parser.prog,
            metavar="COMMAND",
            required=True,
            parser_class=CommandParser,
        )
        self._made: dict[str, CommandParser] = {}

    def add(self, name: str, action: Callable[..., None], example: str) -> ArgumentParser:
        """Add a command that calls a function, whose docstring is the help; return its parser for further arguments."""
        summary = str(action.__doc__)
        self._made[name] = added = self._commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"Example: localrank {self._word} {name} {example}",
        )
        added.set_defaults(action=action)
        added.add_argument(
            "--models-dir",
            type=path,
            default=os.environ.get("LOCALRANK_MODELS_DIR") or "models",
            metavar="<str>",
            help="Folder of the models. [LOCALRANK_MODELS_DIR] (default %(default)s)",
        )
        added.add_argument("--json", dest="as_json", action="store_true", help="Print JSON instead of text.")
        return added

    def run(self, arguments: Sequence[str]) -> int:
        """Run one command, the group's word being the first argument; return its exit code."""
        if not arguments[1:]:
            self._parser.print_help()
            return 2
        name = arguments[1]
        if not name.startswith("-") and name not in self._made:
            known = [*self._made, *self._elsewhere]
            raise InvalidConfiguration(no_such("command", name, known) + see_help(self._parser.prog))
        try:
            found, unknown = self._parser.parse_known_args(arguments[1:])
        except SystemExit:
            return 0  # it has printed help
        if unknown:
            self._made.get(name, self._parser).refuse(unknown[0])
        asked = vars(found)
        asked.pop("action")(**asked)
        return 0


def path(text: str) -> str:
    """Refuse an empty path: it comes from a variable that is not set."""
    if not text:
        raise ArgumentTypeError("expected a path, found nothing")
    return text


def whole_number(text: str) -> int:
    """Read a count."""
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"expected a whole number, at least 0, found {text!r}")
    return int(text)
