from __future__ import annotations

import re
from pathlib import Path

import localrank
import localrank_papers
import localrank_service
import localrank_training

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_top_entry_of_the_changelog() -> None:
    entries = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert localrank.__version__ == entries[0]


def test_every_package_is_typed() -> None:
    for package in (localrank, localrank_training, localrank_service, localrank_papers):
        assert (Path(package.__path__[0]) / "py.typed").is_file()


def test_make_and_the_readme_agree_on_the_two_commands() -> None:
    makefile, readme = ((ROOT / name).read_text() for name in ("Makefile", "README.md"))

    for target in ("serve", "test"):
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE)
        assert f"make {target}" in readme
