from __future__ import annotations

import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def committed() -> list[Path]:
    """The files of the repository; in a copy without git, those of the folders that a release has."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in listed.stdout.splitlines()]


def test_the_lock_has_a_version_of_every_dependency_that_its_range_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: some for name, some in project["optional-dependencies"].items() if name != "dev"}
    wanted = [Requirement(one) for one in [*project["dependencies"], *chain(*extras.values())]]
    lock = (ROOT / "requirements.lock").read_text()
    locked: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE):
        locked.setdefault(name, []).append(version)

    assert wanted
    for one in wanted:
        versions = locked[canonicalize_name(one.name)]
        assert all(version in one.specifier for version in versions), (one, versions)
    # Every version has the digests of its files.
    assert set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)) == set(
        re.findall(r"^([a-z0-9-]+)==[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    )
    (named,) = re.findall(r"^LOCKED := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(extras) == set(named.split())


def test_no_committed_file_has_the_address_of_a_package_index() -> None:
    address = re.compile(rb"(?:https?|file)://[^\s\"']*/simple\b|--(?:extra-)?index-url[ =]\S|pythonhosted\.")

    found = [
        path.relative_to(ROOT).as_posix()
        for path in committed()
        if path.is_file() and address.search(path.read_bytes())
    ]

    assert [] == found


def test_nobody_is_told_to_install_from_an_index_that_does_not_have_the_package() -> None:
    """`pip install localrank` in the pages that a user reads; one says when it will be true."""
    told = re.compile(r"(?:pip|uv) install [^\n]*(?<![./\w-])localrank(?:\[|\b(?![-/]))")
    pages = [path for path in committed() if path.suffix in {".md", ".ipynb"} and path.name != "CHANGELOG.md"]

    found = {path.name: told.findall(path.read_text()) for path in pages if told.search(path.read_text())}

    assert ["release.md"] == sorted(found)
