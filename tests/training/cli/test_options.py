"""Every option of every command says what it is for; `tests.golden` has their names, defaults and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from localrank_training.cli import app

if TYPE_CHECKING:
    import typer


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


def test_every_option_of_every_command_says_what_it_is_for() -> None:
    for name, function in commands(app).items():
        for parameter, hint in get_type_hints(function, include_extras=True).items():
            for part in get_args(hint):
                if isinstance(part, OptionInfo | ArgumentInfo):
                    assert part.help or part.metavar, f"{name} {parameter}"
