from __future__ import annotations

from typing import TYPE_CHECKING, get_args, get_type_hints

import pytest
from typer.models import ArgumentInfo, OptionInfo

from localrank.__main__ import main
from localrank_training.cli import app
from localrank_training.cli.arguments import spread

if TYPE_CHECKING:
    from collections.abc import Callable

    import typer


def commands(group: typer.Typer) -> list[Callable[..., object]]:
    """Return the functions of all commands."""
    found = [one.callback for one in group.registered_commands if one.callback is not None]
    for member in group.registered_groups:
        assert member.typer_instance is not None
        found += commands(member.typer_instance)
    return found


def test_every_option_of_every_command_says_what_it_is_for() -> None:
    assert len(commands(app)) > 10
    for command in commands(app):
        for parameter, hint in get_type_hints(command, include_extras=True).items():
            for part in get_args(hint):
                if isinstance(part, OptionInfo | ArgumentInfo):
                    assert part.help or part.metavar, f"{command.__name__} {parameter}"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("train a b --validation c d --promote", "train a b --validation c --validation d --promote"),
        ("train a --validation c --validation d", "train a --validation c --validation d"),
        ("train --promote a", "train --promote a"),
        ("train a --validation", "train a --validation"),
        ("train a --validation c -- b", "train a --validation c -- b"),
        ("train a --validation --promote", "train a --validation"),
        ("train a --validation -- b", "train a --validation"),
        ("rank m a --out -", "rank m a --out -"),
    ],
)
def test_an_option_may_take_several_words(written: str, read: str) -> None:
    assert read.split() == spread(written.split())


def test_help_shows_examples_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["experiments", "report", "--help"])

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "localrank experiments report impressions" in lines
