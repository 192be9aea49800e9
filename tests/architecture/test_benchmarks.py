from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_every_benchmark_is_there_and_explained(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")

    assert callable(module.main)
    assert f"benchmarks.{name}" in (module.__doc__ or "") or f"benchmarks/{name}.py" in (module.__doc__ or "")
    assert f"| `{name}` |" in (FOLDER / "README.md").read_text()


def test_no_package_imports_a_benchmark() -> None:
    sources = [
        path for half in ("core", "training", "service") for path in (FOLDER.parent / half).rglob("*.py")
    ]

    assert len(sources) > 50
    assert not [
        path
        for path in sources
        if "import benchmarks" in path.read_text() or "from benchmarks" in path.read_text()
    ]
