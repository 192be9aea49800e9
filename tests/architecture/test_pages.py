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
from tests.pages import NOT_RUN, ROOT, RUN, Block, blocks, commands, reason

#: What is shown and not run: what a reader's own programs or other systems print or take.
SHOWN = {"text", "jsonc", "", "http"}
#: Commands that have commands.
GROUPS = {"models", "tables", "data", "experiments", "papers"}
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs").rglob("*.md"))
    if ".venv" not in page.parts
)


BLOCKS = [block for page in PAGES for block in blocks(page)]


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


def calls(text: str) -> list[list[str]]:
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
        for words in calls(text):
            shown = f"{page}:{line}: {' '.join(words)}"
            assert words[0] in {*COMMANDS, "--help", "--version"}, shown
            if words[0] in COMMANDS:
                command = tuple(words[: 2 if words[0] in GROUPS else 1])
                asked = {word.partition("=")[0] for word in words if re.match(r"-{1,2}[a-z]", word)}
                assert asked <= offered(command) | {"--help"}, shown
    else:
        assert kind in SHOWN, f"{page}:{line}"


def typed(block: Block) -> list[str]:
    """What a reader would run of a block."""
    if block.kind in {"sh", "console", "bash"}:
        return commands(block)
    return [block.text] if block.kind == "python" else []


def test_every_block_is_run_or_has_a_reason() -> None:
    left = {
        f"{block.page}:{block.line}: {one}"
        for block in BLOCKS
        if block.page not in RUN
        for one in typed(block)
        if reason(one) is None
    }

    assert not left


def test_every_reason_is_needed() -> None:
    shown = [one for block in BLOCKS for one in typed(block)]

    assert [] == [begins for begins in NOT_RUN if not any(one.startswith(begins) for one in shown)]


def test_pages_that_are_said_to_be_run_are() -> None:
    for page, tests in RUN.items():
        for test in tests:
            assert Path(page).name in (ROOT / test).read_text(), (page, test)


def test_the_tests_that_reasons_name_exist() -> None:
    for why in NOT_RUN.values():
        for named in re.findall(r"tests/[\w/.]*", why):
            assert (ROOT / named).exists(), named
