"""Every regular expression of the product takes time in proportion to the text, whatever the text is.

Python's `re` goes back and tries again where a pattern can match the same text in several ways, and nothing stops it
meanwhile: no deadline, no signal, no other thread. So each pattern that stands in the source is taken apart. For every
repetition in it, texts are made that get there, repeat what it may match, and fail at the end.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import localrank
import localrank_service
import localrank_training

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

PACKAGES = (localrank, localrank_service, localrank_training)
FUNCTIONS = ("match", "fullmatch", "search", "sub", "split", "findall", "finditer")
#: Characters of the repeated part. An exponential pattern is caught by the first few, a quadratic one by the last.
COUNTS = (*range(12, 40, 2), 64, 100, 256, 2048, 16_384)
#: CPU seconds for the longest; a linear pattern takes a hundredth of it.
SECONDS = 0.04
#: For the one before it; a quadratic pattern takes several times as long.
SUSPICIOUS = 1e-3
#: Patterns that functions make, by the source that makes them; one or more of each.
MADE = {
    "pattern": [r"sha256:[0-9a-f]{64}"],
    "f'(?<![\\\\w@]){re.escape(metric)}(?= -?\\\\d)'": [r"(?<![\w@])ndcg@10(?= -?\d)"],
}
parser: Any = importlib.import_module("re._parser")


class Use(NamedTuple):
    """A pattern and how it is used."""

    where: str
    pattern: str | bytes
    flags: int
    function: str


def uses() -> Iterator[Use]:
    for package in PACKAGES:
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            tree = ast.parse(source := path.read_text())
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_re(node.func)]
            if not calls:
                continue
            name = ".".join([package.__name__, *path.relative_to(root).with_suffix("").parts])
            module = importlib.import_module(name.removesuffix(".__init__"))
            named = {
                id(node.value): node.targets[0].id
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
            for call in calls:
                yield from uses_of(call, module, source, named.get(id(call), ""))


def is_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in {"compile", *FUNCTIONS}
    )


def uses_of(call: ast.Call, module: ModuleType, source: str, name: str) -> Iterator[Use]:
    function = str(getattr(call.func, "attr", ""))
    patterns = values(call.args[0], module)
    flags = [word.value for word in call.keywords if word.arg == "flags"]
    if function == "compile":
        flags += call.args[1:2]
        found = re.findall(rf"\b{name}\.({'|'.join(FUNCTIONS)})\b", source) if name else []
        functions = sorted(set(found)) or ["fullmatch", "search"]
    else:
        functions = [function]
    flag = int(values(flags[0], module)[0]) if flags else 0
    for pattern in patterns:
        for one in functions:
            yield Use(f"{module.__name__}:{call.lineno}", pattern, flag, one)


def values(expression: ast.expr, module: ModuleType) -> list[Any]:
    text = ast.unparse(expression)
    try:
        return [eval(text, vars(module).copy())]
    except NameError:
        return MADE[text]


def characters(tree: Any) -> set[str]:
    """The characters that a pattern names, and one of each class."""
    found = set("1aA _\n")
    for kind, what in tree:
        name = str(kind)
        if name in {"LITERAL", "NOT_LITERAL"}:
            found.add(chr(what))
        elif name == "RANGE":
            found |= {chr(what[0]), chr(what[1])}
        for part in parts(name, what):
            found |= characters(part)
    return found


def parts(name: str, what: Any) -> list[Any]:
    """The patterns within a node."""
    if name == "IN":
        return [what]
    if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        return [what[2]]
    if name == "SUBPATTERN":
        return [what[3]]
    if name == "BRANCH":
        return list(what[1])
    if name == "ATOMIC_GROUP":
        return [what]
    if name in {"ASSERT", "ASSERT_NOT"}:
        return [what[1]]
    return []


def example(tree: Any, groups: dict[Any, str], least: int = 1, other: str = "z") -> str:
    """A text that a pattern matches, perhaps.

    Args:
        tree: the pattern.
        groups: filled with what its groups match.
        least: how often repetitions repeat.
        other: what stands for anything but some characters.
    """
    return "".join(example_of(str(kind), what, groups, least, other) for kind, what in tree)


def example_of(name: str, what: Any, groups: dict[int, str], least: int = 1, other: str = "z") -> str:
    if name == "LITERAL":
        return chr(what)
    if name in {"NOT_LITERAL", "ANY"}:
        return other
    if name == "IN":
        # The first that it names; of what it does not name, some letter.
        names = [(str(kind), one) for kind, one in what]
        if names[0][0] == "NEGATE":
            return other
        kind, one = names[0]
        first = one[0] if kind == "RANGE" else one
        if isinstance(first, int) and kind != "CATEGORY":
            return chr(first)
        return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " "}.get(str(one), "a")
    if name.endswith("_REPEAT"):
        times: int = max(what[0], min(least, what[1]))
        return example(what[2], groups, least, other) * times
    if name == "GROUPREF":
        return groups.get(what, "")
    inner = [] if name in {"ASSERT", "ASSERT_NOT"} else parts(name, what)
    text = example(inner[0], groups, least, other) if inner else ""
    if name == "SUBPATTERN" and what[0]:
        groups[what[0]] = text
    return text


def repetitions(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """What leads to each repetition without a small bound, and some of what it may repeat."""
    for kind, what in tree:
        name = str(kind)
        if name.endswith("_REPEAT") and what[1] > 32:
            for other in "z1":
                longer = example(what[2], {}, 3, other)[:8]
                yield from ((before, longer[:length]) for length in range(1, len(longer) + 1))
        for part in parts(name, what):
            yield from repetitions(part, before)
        before += example_of(name, what, {})


def attacks(use: Use) -> Iterator[tuple[str, str, str]]:
    """A beginning, what is repeated, and an end."""
    tree = parser.parse(use.pattern, use.flags)
    singles = sorted(characters(tree))
    found = set(repetitions(tree, ""))
    for before, repeated in found:
        yield from ((before, repeated, end) for end in ("", "\0", *singles))
    for before in {before for before, _ in found}:
        for pump in {*singles, *(one + other for one in singles for other in singles if len(singles) < 20)}:
            yield from ((before, pump, end) for end in ("", "\0"))
    if use.function not in {"match", "fullmatch"}:
        # Each place in the text may be a beginning.
        for pump in {before + one for before, _ in found for one in ("", *singles)}:
            yield "", pump, ""


def seconds(use: Use, text: str) -> float:
    subject: Any = text.encode() if isinstance(use.pattern, bytes) else text
    run = getattr(re.compile(use.pattern, use.flags), use.function)
    more = (subject[:0],) if use.function == "sub" else ()
    begun = time.thread_time()
    done = run(*more, subject)
    if use.function == "finditer":
        list(done)
    return time.thread_time() - begun


def slowest(use: Use) -> tuple[float, str]:
    worst = 0.0, ""
    for before, pump, end in attacks(use):
        if not pump:
            continue
        for count in COUNTS:
            text = before + (pump * count)[:count] + end
            took = seconds(use, text)
            if took > SECONDS:
                took = min(took, seconds(use, text))
            if count == COUNTS[-2] and took < SUSPICIOUS:
                break
            worst = max(worst, (took, f"{before!r} + {pump!r} * {count} + {end!r}"))
            if took > SECONDS:
                return worst
    return worst


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", r"[0-9]+\.?[0-9]*x", r"\s*,?\s*\}", "(a|a)*b", "<(.*?)>x"],
)
def test_patterns_that_go_back_are_noticed(pattern: str) -> None:
    took, _ = slowest(Use("here", pattern, 0, "fullmatch" if pattern[0] != "<" else "search"))

    assert took > SECONDS


@pytest.mark.slow
def test_every_pattern_takes_time_in_proportion_to_the_text() -> None:
    found = sorted(set(uses()), key=str)
    assert len(found) > 50
    assert {package.__name__ for package in PACKAGES} == {use.where.partition(".")[0] for use in found}
    slow = []

    for use in found:
        took, text = slowest(use)
        if took > SECONDS:
            slow.append(f"{use.where} {use.function} {use.pattern!r}: {took:.2f} s for {text}")

    assert not slow, "\n".join(slow)
