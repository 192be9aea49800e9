"""The notebooks of docs/examples run from top to bottom, in a folder of their own."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localrank.ranker import Ranking

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def run(notebook: Path) -> dict[str, Any]:
    """Run the code cells in one namespace; return it, with each cell's last value under ``_1``, ``_2``, ..."""
    members = json.loads(notebook.read_text())
    namespace: dict[str, Any] = {}
    for number, cell in enumerate((cell for cell in members["cells"] if cell["cell_type"] == "code"), 1):
        assert not cell["outputs"], "committed notebooks have no outputs"
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{notebook.name}[{number}]", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = compile(ast.Expression(last.value), f"{notebook.name}[{number}]", "eval")
            namespace[f"_{number}"] = eval(value, namespace)
    return namespace


def test_the_first_model_is_learned_compared_and_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(EXAMPLES / "judged.csv", tmp_path)
    monkeypatch.chdir(tmp_path)

    found = run(EXAMPLES / "first-model.ipynb")

    assert "better" == found["ranker"].report_.verdict.outcome
    assert found["_4"]["local"] > found["_4"]["global"] + 0.02
    assert found["_5"]["score"].is_monotonic_decreasing
    served = found["_6"]
    assert isinstance(served, Ranking)
    np.testing.assert_array_equal(served.scores, found["ranker"].predict(found["query"]))
    assert (tmp_path / "models" / "web" / "1" / "manifest.json").is_file()


def test_every_notebook_has_a_test() -> None:
    assert ["first-model.ipynb"] == [path.name for path in sorted(EXAMPLES.glob("*.ipynb"))]
