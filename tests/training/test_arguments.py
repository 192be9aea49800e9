from __future__ import annotations

import pytest

from localrank.__main__ import main
from localrank_training.cli.arguments import described, spread


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


def test_examples_keep_their_lines() -> None:
    def command() -> None:
        """Do it.

        Examples:
          localrank do it
        """

    assert "Do it.\n\n\b\nExamples:\n  localrank do it" == described(command)


def test_the_report_of_experiments_shows_its_examples_on_lines_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 0 == main(["experiments", "report", "--help"])

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "localrank experiments report impressions" in lines


def test_the_help_of_experiment_describes_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["experiment", "--help"])

    assert "Names from --list, or patterns: 'localrank-*'" in " ".join(capsys.readouterr().out.split())
