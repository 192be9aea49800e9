from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {match[0].lower() for entry in requirements if (match := re.match(r"[\w.-]+", entry))}
    table = (ROOT / "docs" / "decisions" / "dependencies.md").read_text()
    explained = {
        name.strip().lower()
        for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
        for name in row.split(",")
    }

    assert names - {"localrank"} <= explained
