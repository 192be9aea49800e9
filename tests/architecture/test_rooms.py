"""No rooms of a package import each other, neither directly nor through others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import localrank
import localrank_papers
import localrank_service
import localrank_training
from tests.architecture.imports import cycles, imports_between_rooms

ROOT = Path(__file__).parents[2]
PACKAGES = [
    Path(package.__path__[0])
    for package in (localrank, localrank_service, localrank_training, localrank_papers)
]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_rooms_import_each_other(package: Path) -> None:
    imports = imports_between_rooms(package)

    assert len(imports) > 5
    assert [] == cycles(imports)


def test_a_cycle_is_found_wherever_the_import_stands(tmp_path: Path) -> None:
    house = tmp_path / "house"
    (house / "kitchen").mkdir(parents=True)
    (house / "kitchen" / "__init__.py").write_text("from house import cellar")
    (house / "cellar.py").write_text("def wine():\n    import house.attic")
    (house / "attic.py").write_text("from house.kitchen.stove import cook")
    (house / "roof.py").write_text("import house.attic\nif TYPE_CHECKING:\n    import house.kitchen")

    imports = imports_between_rooms(house)

    assert {
        "attic": {"kitchen"}, "cellar": {"attic"}, "kitchen": {"cellar"}, "roof": {"attic"}
    } == imports  # fmt: skip
    assert [["attic", "cellar", "kitchen"]] == cycles(imports)


def test_the_entrance_of_the_service_stands_below_all_other_rooms() -> None:
    """Every room may import it: it imports none but the types of meters, and none of its modules import each other."""
    service = Path(localrank_service.__path__[0])

    assert imports_between_rooms(service, types=True)["http"] <= {"telemetry"}
    modules = imports_between_rooms(service / "http", types=True, name="localrank_service.http")
    assert {"admission", "messages", "problems"} <= modules["protocol"]
    assert [] == cycles(modules)


def test_no_rooms_of_the_service_import_each_other_even_for_types_with_the_root_as_a_room() -> None:
    service = Path(localrank_service.__path__[0])

    imports = imports_between_rooms(service, types=True, root=True)

    assert {"apis", "ranking", "http"} <= imports["root"]
    assert [] == cycles(imports)


def test_no_function_is_more_complex_than_20() -> None:
    """The linter's bound is 15; the functions above it are marked, and here is the bound for these."""
    bound = "lint.mccabe.max-complexity = 20"
    command = ["ruff", "check", "--isolated", "--select", "C901", "--ignore-noqa", "--config", bound, "."]

    checked = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, check=False, capture_output=True, text=True
    )

    assert (0, "All checks passed!\n") == (checked.returncode, checked.stdout)


def test_the_house_is_drawn_as_it_is() -> None:
    page = (ROOT / "docs" / "understand" / "architecture.md").read_text()

    for package in PACKAGES:
        drawing = re.search(rf"^\w+/{package.name}/ .*\n((?: .*\n)+)", page, re.MULTILINE)
        assert drawing is not None
        drawn = re.findall(r"^  (\w+)/", drawing[1], re.MULTILINE)
        assert sorted(path.parent.name for path in package.glob("*/__init__.py")) == sorted(drawn)
