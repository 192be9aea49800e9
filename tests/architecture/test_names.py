"""A name stands for one class in all that is served and trained, so that a search for it finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def classes(folder: Path) -> dict[str, list[str]]:
    """Return where each class is defined, by its name."""
    found = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(folder)}:{node.lineno}")
    return found


def test_one_name_stands_for_one_class() -> None:
    """Plug-ins, such as those of the papers, may name their classes as they like."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in ("core", "service", "training"):
        for name, places in classes(ROOT / package).items():
            found[name] += places

    assert len(found) > 500
    assert {} == {name: places for name, places in found.items() if len(places) > 1}


def test_two_classes_of_one_name_are_found_even_within_functions(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Name: ...")
    (tmp_path / "other.py").write_text("\ndef make():\n    class Name: ...")

    assert {"Name": ["one.py:1", "other.py:3"]} == classes(tmp_path)
