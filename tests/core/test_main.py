"""The console script: which half a command loads, and which exit code and sentence each kind of error gets."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import TYPE_CHECKING

import pytest

from localrank import __main__ as program
from localrank import __version__
from localrank.__main__ import COMMANDS, main
from localrank.errors import ArtifactNotFound, InvalidConfiguration
from localrank.extras import installing

if TYPE_CHECKING:
    from collections.abc import Sequence


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Half:
    """Stands in place of the half that a command loads: keeps what it is given, and answers or fails."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.given: list[list[str]] = []
        self.code = 0
        self.error: BaseException | None = None

    def imported(self, name: str) -> Half:
        self.asked.append(name)
        return self

    def run(self, arguments: Sequence[str]) -> int:
        self.given.append(list(arguments))
        if self.error is not None:
            raise self.error
        return self.code


@pytest.fixture
def half(monkeypatch: pytest.MonkeyPatch) -> Half:
    made = Half()
    monkeypatch.setattr(importlib, "import_module", made.imported)
    return made


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        ("train a.txt", "localrank_training.cli", "train"),
        ("models list", "localrank.commands.models", ""),
        ("models", "localrank.commands.models", ""),
        ("models import x", "localrank_training.cli", "train"),
        ("serve --port 1", "localrank_service.process.command", "serve"),
        ("data import x", "localrank_training.cli", "train"),
    ],
)
def test_a_command_loads_its_half_and_gets_its_words(words: str, module: str, extra: str, half: Half) -> None:
    half.code = 7

    assert 7 == main(words.split())

    assert ([module], [words.split()]) == (half.asked, half.given)
    both = " ".join(words.split()[:2])
    assert extra == COMMANDS[both if both in COMMANDS else words.split(maxsplit=1)[0]].extra


def test_the_arguments_of_the_process_are_taken_if_none_are_given(
    half: Half, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["localrank", "rank", "web", "a.txt"])

    assert 0 == main()

    assert [["rank", "web", "a.txt"]] == half.given


@pytest.mark.parametrize("words", ["help train", "train --help"])
def test_help_may_stand_before_or_after(words: str, half: Half) -> None:
    assert 0 == main(words.split())

    assert [["train", "--help"]] == half.given


@pytest.mark.parametrize("words", ["-h", "--help", "help", ""])
def test_help_names_every_command(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (0 if words else 2) == main(words.split())

    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert "Usage: localrank COMMAND [OPTIONS] ..." == lines[0]
    # Summaries stand below each other, two blanks after the longest name.
    width = max(map(len, COMMANDS))
    for name, command in COMMANDS.items():
        assert f"  {name:<{width}}  {command.summary}" in lines
    assert printed.endswith("--name web --promote\n")


def test_the_name_alone_shows_where_to_start_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)

    assert 0 == main([])

    assert terminal.getvalue().startswith("localrank demo && localrank serve ")
    assert 3 == terminal.getvalue().count("\n")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--version"])

    assert (f"localrank {__version__}\n", "") == capsys.readouterr()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InvalidConfiguration("seed: expected 3"), 2, "seed: expected 3"),
        (ArtifactNotFound("no model"), 1, "no model"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), 1, "a.txt: No such file or directory"),
        (MemoryError(), 1, "not enough memory"),
        (MemoryError("4 GB"), 1, "not enough memory: 4 GB"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (
            ModuleNotFoundError("No module named 'joblib'", name="joblib"),
            1,
            f"'localrank train' needs 'joblib': {installing('train')}",
        ),
    ],
)
def test_each_kind_of_error_has_its_sentence_and_code(
    error: BaseException,
    code: int,
    said: str,
    half: Half,
    capsys: pytest.CaptureFixture[str],
) -> None:
    half.error = error

    assert code == main(["train", "x"])

    assert ("", f"localrank: {said}\n") == capsys.readouterr()


def test_the_command_that_needs_an_extra_is_named_in_full(
    half: Half, capsys: pytest.CaptureFixture[str]
) -> None:
    half.error = ModuleNotFoundError("No module named 'joblib.x'", name="joblib.x")

    assert 1 == main(["models", "import", "x"])

    said = capsys.readouterr().err
    assert said.startswith("localrank: 'localrank models import' needs 'joblib.x': pip install")
    assert "[train]" in said


@pytest.mark.parametrize("name", [None, "localrank_training.nothing", "localrank"])
def test_a_module_of_our_own_that_is_missing_is_no_extra(name: str | None, half: Half) -> None:
    half.error = ModuleNotFoundError("no module", name=name)

    with pytest.raises(ModuleNotFoundError):
        main(["train"])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(32, "Broken pipe"), ""),
        (
            OSError(28, "No space left on device"),
            "localrank: the output cannot be written: No space left on device\n",
        ),
        (OSError("it is gone"), "localrank: the output cannot be written: it is gone\n"),
    ],
)
def test_an_output_that_fails_is_dropped(
    error: OSError,
    said: str,
    half: Half,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dropped: list[bool] = []
    monkeypatch.setattr(program, "_drop_output", lambda: dropped.append(True))
    half.error = error

    assert 1 == main(["train"])

    assert said == capsys.readouterr().err
    assert [True] == dropped


@pytest.mark.usefixtures("half")
def test_what_fails_when_the_rest_is_flushed_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(program, "_drop_output", lambda: None)
    monkeypatch.setattr(sys, "stdout", Full())

    assert 1 == main(["train"])

    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("train", 1, "localrank: standard output: expected to be open, found it closed\n"),
        ("models list", 1, "localrank: standard output: expected to be open, found it closed\n"),
        ("serve", 5, ""),
    ],
)
def test_only_a_service_works_without_standard_output(
    words: str, code: int, said: str, half: Half, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = io.StringIO()
    half.code = 5
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", errors)

    assert code == main(words.split())

    assert said == errors.getvalue()


def test_output_that_is_dropped_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)

        program._drop_output()

        output.write("lost")
    with os.fdopen(reader) as received:
        assert "" == received.read()
