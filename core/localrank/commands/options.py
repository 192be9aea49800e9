"""Settings as options: a parameter of a Typer command whose type is a dataclass of settings becomes an option for each.

So an option has the type, the bounds, the default and the meaning of its setting, and one object carries all of them.
Typer is imported when a command is made: the core does without it.
"""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from localrank.settings import read_texts, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from localrank.settings import Setting

_METAVARS = {int: "<int>", float: "<float>"}


def flag_of(name: str) -> str:
    """Return the option of a setting."""
    return f"--{name.replace('_', '-')}"


def with_options(
    command: Callable[..., None],
    *,
    prefix: str | None = None,
    several: tuple[str, ...] = (),
    read: Callable[[type, Mapping[str, str]], Any] = partial(read_texts, called=flag_of),
) -> Callable[..., None]:
    """Return a command with an option for each setting of its parameters; settings without a meaning get none.

    Args:
        command: what Typer calls.
        prefix: of the environment variables that also set them. Then the options have no defaults of their own.
        several: settings of texts with commas between, whose options may be repeated.
        read: makes the settings of what the user gave.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    grouped: dict[str, dict[str, str]] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind: type = hints[parameter.name]
        if not is_dataclass(hints[parameter.name]):
            parameters.append(parameter.replace(annotation=kind))
            continue
        offered = [one for one in settings_of(kind) if one.meaning]
        # Options of different objects, or of the command itself, must not share a name with Python's words.
        names = {f"{parameter.name}_{one.name}": one.name for one in offered}
        grouped[parameter.name] = names
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if prefix is not None or not one.default else one.default,
                annotation=_annotation(one, prefix, repeated=one.name in several),
            )
            for name, one in zip(names, offered, strict=True)
        ]

    def flat(**given: Any) -> None:
        for parameter, names in grouped.items():
            texts = {name: _text(given.pop(option)) for option, name in names.items()}
            found = {name: text for name, text in texts.items() if text is not None}
            given[parameter] = read(hints[parameter], found)
        command(**given)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    flat.__doc__, flat.__name__ = command.__doc__, command.__name__
    return flat


def _annotation(one: Setting, prefix: str | None, *, repeated: bool) -> Any:
    import typer

    flag = flag_of(one.name)
    switch = one.hint is bool
    meaning = one.meaning
    if prefix is not None:
        shown = f" (default {one.default})" if one.default not in (None, "") and not switch else ""
        meaning += f" [{prefix}{one.name.upper()}]{shown}"
        flag = f"{flag}/--no-{flag[2:]}" if switch else flag
    option = typer.Option(
        flag,
        help=meaning,
        show_default=prefix is None,
        metavar="<str>" if repeated else _METAVARS.get(one.hint),
    )
    return Annotated[(bool if switch else list[str] if repeated else str) | None, option]


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return ",".join(value) or None
    return None if value is None else str(value)
