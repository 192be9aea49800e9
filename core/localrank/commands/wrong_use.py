"""Wrong use of a command in one sentence: what is wrong, what it expects, and where its help is.

Typer's own errors take three lines and show no value. The core does not import Typer, so its errors are known by their
attributes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from localrank.errors import InvalidConfiguration, did_you_mean, no_such

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Pydantic's name for a value of the wrong kind, and the kind that was expected.
_EXPECTED = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
}


def run_typer(app: Any, arguments: Sequence[str], **context: Any) -> int:
    """Run a Typer application; return its exit code.

    Raises:
        InvalidConfiguration: the arguments are wrong.
    """
    try:
        code = app(list(arguments), prog_name="localrank", standalone_mode=False, **context)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            # A group of commands without a command: the message is its help.
            error.show()  # type: ignore[attr-defined]
            return 2
        raise InvalidConfiguration(_sentence(error)) from None
    return code if isinstance(code, int) else 0


def no_option(name: str, known: Iterable[str]) -> str:
    """Return what to say of an option that does not exist."""
    return f"no option {name!r}{did_you_mean(name, known)}"


def too_many(word: str) -> str:
    """Return what to say of a word that no argument of a command takes."""
    return f"expected no further word, found {word!r}"


def not_one_of(found: str, choices: Iterable[str]) -> str:
    """Return what to say of a value that is no choice of an option."""
    choices = list(choices)
    return f"expected one of {', '.join(choices)}, found {found!r}{did_you_mean(found, choices)}"


def of_argparse(message: str) -> str:
    """Return what argparse says in the words of every other command."""
    where, _, problem = message.removeprefix("argument ").partition(": ")
    if where == "the following arguments are required":
        return f"expected {problem}, found none"
    if choice := re.match(r"invalid choice: '(.*)' \(choose from (.*)\)", problem):
        return f"{where}: {not_one_of(choice[1], choice[2].replace(chr(39), '').split(', '))}"
    if given := re.match("ignored explicit argument '(.*)'", problem):
        return f"{where}: expected no value, found {given[1]!r}"
    return f"{where}: {problem}" if problem else where


def see_help(command: str) -> str:
    """Return where the help of a command is, for the end of a sentence."""
    return f" (see {command} --help)"


def _sentence(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return _problem(error, context) + ("" if context is None else see_help(context.command_path))


def _problem(error: Any, context: Any) -> str:
    kind = type(error).__name__
    if kind == "NoSuchOption" and context is not None:
        return no_option(error.option_name, _options(context))
    if kind == "MissingParameter" and error.param is not None:
        return f"expected {error.param.param_type_name} {_called(error.param)}, found none"
    if kind == "BadOptionUsage":
        taking = "no value, found one" if "not take" in error.message else "a value, found none"
        return f"{error.option_name}: expected {taking}"
    if hasattr(error, "param_hint"):
        where = error.param_hint or (_called(error.param) if error.param is not None else "")
        return f"{where}: {_misfit(error)}" if where else _misfit(error)
    if unknown := re.match("No such command '(.+?)'[.]", error.message):
        return no_such("command", unknown[1], context.command.commands)
    if extra := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((\S+)", error.message):
        return too_many(extra[1].removesuffix(")"))
    return _plain(error.message)


def _options(context: Any) -> list[str]:
    """Return the options of a command, as written."""
    return [
        option
        for one in context.command.get_params(context)
        if one.param_type_name == "option"
        for option in (*one.opts, *one.secondary_opts)
    ]


def _called(parameter: Any) -> str:
    """Return what the user calls an option or an argument."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _misfit(error: Any) -> str:
    """Return what was expected of a value and what was found, if pydantic knows it, else the message."""
    if " is not one of " in error.message:
        found, *choices = re.findall("'(.*?)'", error.message)
        return not_one_of(found, choices)
    for cause in getattr(error.__cause__, "errors", list)():
        if expected := _EXPECTED.get(cause["type"]):
            return f"expected {expected.format(**cause.get('ctx', {}))}, found {cause['input']!r}"
    return _plain(error.message)


def _plain(message: str) -> str:
    """Return a message on one line, as a part of a sentence."""
    line = " ".join(message.split()).removesuffix(".")
    return line[:1].lower() + line[1:]
