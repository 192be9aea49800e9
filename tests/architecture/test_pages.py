"""Every block of code on every page is run by a test, or at least checked: nothing printed is left to itself."""

from __future__ import annotations

import ast
import io
import json
import re
import tomllib
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from localrank.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[2]
#: Pages whose blocks a test runs as they are.
RUN = {
    "docs/http.md": "tests/end_to_end/test_http_examples.py",
    "docs/tutorial.md": "tests/end_to_end/test_tutorial.py",
}
#: What is shown and not run: what a reader's own programs or other systems print or take.
SHOWN = {"text", "jsonc", "", "http"}
#: Commands that have commands.
GROUPS = {"models", "data", "experiments"}
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs").rglob("*.md"))
    if ".venv" not in page.parts
)


def blocks() -> list[tuple[str, int, str, str]]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for block in re.finditer(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
            line = text[: block.start()].count("\n") + 1
            found.append((page, line, block[1], block[2]))
    return found


BLOCKS = blocks()


@cache
def offered(command: tuple[str, ...]) -> set[str]:
    """The options in the help of a command."""
    said = io.StringIO()
    with redirect_stdout(said):
        try:
            main([*command, "--help"])
        except SystemExit as stop:
            assert not stop.code, command  # noqa: PT017
    return set(re.findall(r"--[a-z][a-z-]*|(?<![\w-])-[a-zA-Z]\b", said.getvalue()))


def commands(text: str) -> list[list[str]]:
    """The calls of ``localrank`` in a block of shell, as words."""
    text = re.sub(r"\\\n\s*", " ", text)
    found = []
    for line in text.splitlines():
        for part in re.split(r"&&|\||;|\$\(", line.split("  #")[0]):
            words = re.sub(r"^\s*(?:\$ )?(?:sudo |exec )?(?:\S*/)?", "", part).split()
            if words[:1] == ["localrank"]:
                found.append(words[1:])
    return found


@pytest.mark.parametrize(("page", "line", "kind", "text"), BLOCKS, ids=lambda value: str(value)[:30])
def test_a_block_is_what_it_says(page: str, line: int, kind: str, text: str) -> None:
    if kind == "python":
        ast.parse(text)
    elif kind == "json":
        json.loads(text)
    elif kind == "toml":
        tomllib.loads(text)
    elif kind in {"sh", "console", "bash"}:
        for words in commands(text):
            shown = f"{page}:{line}: {' '.join(words)}"
            assert words[0] in {*COMMANDS, "--help", "--version"}, shown
            if words[0] in COMMANDS:
                command = tuple(words[: 2 if words[0] in GROUPS else 1])
                asked = {word.partition("=")[0] for word in words if re.match(r"-{1,2}[a-z]", word)}
                assert asked <= offered(command) | {"--help"}, shown
    else:
        assert kind in SHOWN, f"{page}:{line}"


def test_pages_that_are_said_to_be_run_are() -> None:
    for page, test in RUN.items():
        assert Path(page).name in (ROOT / test).read_text()
