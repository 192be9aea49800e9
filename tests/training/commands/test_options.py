"""Every option of every command: its name, type, default, limits and variable (`tests.training.golden`)."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from localrank_training.commands import app
from tests.training.golden import agree_exactly

if TYPE_CHECKING:
    import typer

GOLDEN = Path(__file__).parent / "golden"


def commands(group: typer.Typer, path: str = "") -> dict[str, Any]:
    """Return the functions of all commands by their full names."""
    found = {}
    for one in group.registered_commands:
        assert one.callback is not None
        found[path + (one.name or one.callback.__name__)] = one.callback
    for member in group.registered_groups:
        assert member.typer_instance is not None
        name = member.typer_instance.info.name
        found |= commands(member.typer_instance, f"{path}{name} ")
    return found


def described(function: Any) -> list[str]:
    """Return a line for each parameter that a user can set."""
    lines = []
    for name, hint in get_type_hints(function, include_extras=True).items():
        parts = get_args(hint)
        if name == "return" or not any(isinstance(part, OptionInfo | ArgumentInfo) for part in parts):
            continue
        kind, info = parts[0], next(part for part in parts if isinstance(part, OptionInfo | ArgumentInfo))
        default = inspect.signature(function).parameters[name].default
        facts = [
            "argument" if isinstance(info, ArgumentInfo) else _written(name, info),
            getattr(kind, "__name__", str(kind))
            if isinstance(kind, type) and not get_args(kind)
            else str(kind).replace("pathlib._local.", "pathlib."),  # as Python 3.13 names it
            "required" if default is inspect.Parameter.empty else f"default {default!r}",
            *(f"at least {info.min}" for _ in [0] if info.min is not None),
            *(f"at most {info.max}" for _ in [0] if info.max is not None),
            *(f"variable {info.envvar}" for _ in [0] if info.envvar is not None),
            *(f"shown as {info.metavar}" for _ in [0] if info.metavar is not None),
            *("checked by " + info.callback.__name__ for _ in [0] if info.callback is not None),
            *("default not shown" for _ in [0] if not info.show_default),
        ]
        lines.append(f"  {name}: {'; '.join(facts)}")
    return lines


def _written(name: str, info: OptionInfo) -> str:
    """Return how an option is written; in an annotation Typer keeps the first form as the default."""
    forms = [form for form in (info.default, *(info.param_decls or ())) if isinstance(form, str)]
    return " ".join(forms) or f"--{name.replace('_', '-')}"


def test_the_golden_list_of_options_is_current() -> None:
    listed = {name: described(function) for name, function in commands(app).items()}

    text = "\n".join(f"{name}\n" + "\n".join(lines) for name, lines in listed.items())
    agree_exactly(GOLDEN / "options.txt", text + "\n")


def test_every_option_of_every_command_says_what_it_is_for() -> None:
    for name, function in commands(app).items():
        for parameter, hint in get_type_hints(function, include_extras=True).items():
            for part in get_args(hint):
                if isinstance(part, OptionInfo | ArgumentInfo):
                    assert part.help or part.metavar, f"{name} {parameter}"
