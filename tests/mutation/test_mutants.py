"""Which defects fit, and that one of them is noticed and another is not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutation.__main__ import drawn, named_after, slow_beside
from tests.mutation.mutants import mutants_of

ROOT = Path(__file__).parents[2]


def changes(folder: Path, name: str, text: str) -> list[str]:
    (folder / name).write_text(text)
    return [one.planted(text) for one in mutants_of(folder, folder / name)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = a < b", {"x = a <= b"}),
        ("x = (a) not in (b)", {"x = (a) in (b)"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = a and b or c", {"x = a or b or c", "x = a and b and c"}),
        ("x = é + b", {"x = é - b"}),
        ("x = not a", {"x = a"}),
        ("x = -a", {"x = a"}),
        ("x = 7", {"x = 8"}),
        ("x = 5_000", {"x = 10000"}),
        ("x = 0.5", {"x = 1.0"}),
        ("x = True", {"x = False"}),
        ("x += y", {"x -= y"}),
        ("check(x)", {"pass"}),
        ("x = f'{y:3}' + 'text %d' % 3", {"x = f'{y:3}' + 'text %d' % 4"}),
        ("x: tuple[int, 3]", set()),
        ("__all__ = [1]", set()),
        ("_log.info(3)", set()),
        ("if TYPE_CHECKING:\n    x = 3", set()),
        ("def f(a: int = 3) -> 7:\n    'Text.'\n    return a", {
            "def f(a: int = 4) -> 7:\n    'Text.'\n    return a", "def f(a: int = 3) -> 7:\n    'Text.'\n    return None",
        }),
        ("if a:\n    x = b if c else d", {"if not (a):\n    x = b if c else d", "if a:\n    x = b if not (c) else d"}),
        ("for a in b:\n    break", {"for a in b:\n    continue"}),
        ("raise E(3)", set()),
        ("x = zip(a, b, strict=True)", set()),
        ("x = f(a, wide=True)", {"x = f(a, wide=False)"}),
    ],
)  # fmt: skip
def test_defects_of_python(tmp_path: Path, code: str, expected: set[str]) -> None:
    found = changes(tmp_path, "code.py", code)

    assert expected == set(found)
    for one in found:
        ast.parse(one)


def test_defects_of_c(tmp_path: Path) -> None:
    code = """/* a < b */
#define WIDE (1 + 2)
static int f(const float *row, int count)
{
    __builtin_prefetch(row + 1);
    for (int i = 0; i < count; i++)
        if (row[i] > 0.5 && count)
            break;
    return *row - 16;
}
"""

    found = changes(tmp_path, "code.c", code)

    assert {
        code.replace("i = 0", "i = 1"),
        code.replace("i < count", "i <= count"),
        code.replace("> 0.5", ">= 0.5"),
        code.replace("&&", "||"),
        code.replace("break", "continue"),
        code.replace("*row - 16", "*row + 16"),
        code.replace("- 16", "- 17"),
    } == set(found)


@pytest.mark.slow
def test_defects_are_drawn_from_everything_and_by_the_seed() -> None:
    first, again, other = drawn(1)[:500], drawn(1)[:500], drawn(2)[:500]

    assert first == again != other
    assert {"core", "service", "training", "papers"} == {one.path.split("/")[0] for one in first}
    assert any(one.path.endswith(".c") for one in first)
    for one in first[:50]:
        text = (ROOT / one.path).read_text()
        assert one.old == text[one.begin : one.end]
        assert one.planted(text) != text


def test_the_tests_of_a_source_are_found_by_its_name_and_folder() -> None:
    source = "papers/localrank_papers/figures/fits.py"

    assert ["tests/papers/figures/test_fits.py"] == named_after(ROOT, source)
    assert ["-m", "slow and not soak", "tests/papers/figures"] == slow_beside(ROOT, source)
    assert [] == slow_beside(ROOT, "training/localrank_training/journal.py")
