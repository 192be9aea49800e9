from __future__ import annotations

import re
import tomllib
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.licences import ALLOWED, extras, identifiers, licence_of, needed

ROOT = Path(__file__).parents[2]


def test_everything_that_is_needed_has_an_allowed_licence() -> None:
    licences = {name: licence_of(distribution(name).metadata) for name in needed()}

    assert {"numpy", "scipy", "uvicorn", "httpx", "lightgbm", "cryptography"} <= set(licences)
    assert {} == {name: one for name, one in licences.items() if not identifiers(one) <= ALLOWED}


def test_the_page_has_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {
        *project["dependencies"],
        *(one for extra in extras() for one in project["optional-dependencies"][extra]),
    }
    names = {match[0].lower().replace(".", "-") for one in asked if (match := re.match(r"[\w.-]+", one))}
    page = (ROOT / "docs" / "operate" / "licences.md").read_text()

    rows = dict(re.findall(r"^\| (\S+) \| (.+?) \|", page, re.MULTILINE))

    assert names - {"localrank"} <= set(rows), "run make licences"
    assert all(identifiers(rows[name]) <= ALLOWED for name in names - {"localrank"})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"License-Expression": "MIT", "License": "GPL"}, "MIT"),
        ({"License": "BSD 3-Clause License"}, "BSD-3-Clause"),
        ({"License": "a whole\ntext", "Classifier": "License :: OSI Approved :: BSD License"}, "BSD"),
        (
            {"Classifier": "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"},
            "GNU General Public License v3 (GPLv3)",
        ),
        ({}, "unknown"),
    ],
)
def test_a_licence_is_read_from_new_and_old_metadata(fields: dict[str, str], expected: str) -> None:
    metadata: Any = Message()
    for name, value in fields.items():
        metadata[name] = value

    assert expected == licence_of(metadata)


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-2.0-or-later", False),
        ("unknown", False),
        ("GNU General Public License v3 (GPLv3)", False),
    ],
)
def test_every_licence_of_an_expression_must_be_allowed(expression: str, allowed: bool) -> None:  # noqa: FBT001
    assert allowed == (identifiers(expression) <= ALLOWED)
