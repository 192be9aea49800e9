from __future__ import annotations

import ast
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from localrank.settings import settings_of
from localrank_service.process.settings import Settings
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.settings.config import TrainingConfig
from tools.configuration import pages

ROOT = Path(__file__).parents[2]
GROUPS = ("use", "operate", "understand", "research")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]

    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


#: Names of other projects.
FOREIGN = re.compile(r"KernelPCA|LinearSVC|Booster\.|scipy\.|PCA$")
PACKAGES = [ROOT / "core", ROOT / "training", ROOT / "service", ROOT / "papers", ROOT / "benchmarks"]


@pytest.fixture(scope="module")
def defined() -> dict[str, set[str]]:
    """Every class with its members, and every module with what it defines."""
    found: dict[str, set[str]] = {}
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        tree = ast.parse(path.read_text())
        found.setdefault(path.stem, set()).update(_names(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_names(node))
    return found


def _names(tree: ast.Module | ast.ClassDef) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def quoted(page: str) -> set[str]:
    """What stands in backticks, formulas and blocks of code left out."""
    text = re.sub(r"\$\$.*?\$\$|```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", text))


def test_the_method_page_names_classes_members_and_files_that_exist(defined: dict[str, set[str]]) -> None:
    # Folders whose names begin with a point hold environments and what tools keep.
    rooms = [room for room in ROOT.iterdir() if not room.name.startswith(".")]
    files = [f"/{path.relative_to(ROOT)}" for room in rooms for path in (room, *room.rglob("*.*"))]
    unknown = []
    for text in quoted("docs/understand/method.md"):
        paths = re.findall(r"[\w/]+\.(?:py|c|md|json)\b", text)
        unknown += [path for path in paths if not any(file.endswith(f"/{path}") for file in files)]
        name = re.fullmatch(r"(?:\w+\.)*(\w+)\.(\w+)", text)
        if FOREIGN.match(text) or re.search(r"\.(py|c|md|json)$", text):
            continue
        if name:
            module = any(file.endswith(f"/{text.replace('.', '/')}.py") for file in files)
            if not module and name[2] not in defined.get(name[1], set()):
                unknown.append(text)
        elif re.fullmatch(r"[A-Z][a-z]+(?:[A-Z]\w*)+", text) and text not in defined:
            unknown.append(text)

    assert [] == unknown


def test_the_method_page_names_settings_that_exist() -> None:
    tables = {one.name: one.default for one in settings_of(TrainingConfig) if is_dataclass(one.default)}
    of_tables = {
        name: {one.name for one in settings_of(type(table))}
        for name, table in tables.items()
        if name != "learner"
    }
    of_tables["learner"] = {one.name for kind in LEARNERS.values() for one in settings_of(kind)} | {"method"}
    every = set().union(*of_tables.values()) | {"balance", "fitted_on"}
    text = quoted("docs/understand/method.md")

    in_tables = [found for one in text for found in re.findall(r"\[(\w+)\] (\w+)", one)]
    alone = [found for one in text for found in re.findall(r"^(\w+) = ", one)]

    assert in_tables
    assert alone
    assert [] == [(table, name) for table, name in in_tables if name not in of_tables[table]]
    assert [] == [name for name in alone if name not in every]


@pytest.mark.parametrize(
    "page",
    sorted(page for group in (*GROUPS, "decisions") for page in (ROOT / "docs" / group).glob("*.md")),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_says_first_whom_it_is_for(page: Path) -> None:
    title, _, rest = page.read_text().partition("\n\n")

    assert title.startswith("# ")
    assert re.match(r"\*?(For|This page is for) ", rest)


def test_every_page_is_in_one_of_four_groups() -> None:
    assert not list((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_pages_of_settings_are_current(page: Path) -> None:
    assert page.read_text() == pages()[page], "run make settings"


def test_every_setting_says_what_it_means() -> None:
    config = TrainingConfig()
    tables = [type(getattr(config, table)) for table in config.to_json() if table not in {"seed", "learner"}]

    kinds: list[type] = [Settings, *tables, *LEARNERS.values()]
    for kind in kinds:
        assert [] == [one.name for one in settings_of(kind) if not one.meaning], kind
