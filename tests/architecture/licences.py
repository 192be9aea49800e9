"""The licence of every distribution that an installation brings, from the metadata of what is installed.

``make licences`` writes docs/operate/licences.md with it; a test allows only the licences below.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from importlib.metadata import PackageMetadata

ROOT = Path(__file__).parents[2]
#: SPDX identifiers: permissive licences, and the MPL, whose terms are those of the files that it covers.
ALLOWED = frozenset(
    {
        *(
            "0BSD",
            "Apache-2.0",
            "BSD",
            "BSD-2-Clause",
            "BSD-3-Clause",
            "CC0-1.0",
            "ISC",
            "MIT",
            "MIT-0",
            "MIT-CMU",
        ),
        *("MPL-2.0", "PSF-2.0", "Zlib"),
    }
)
#: What older metadata says instead of an identifier.
_WORDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_INTRODUCTION = """\
# Licences of the dependencies

*For lawyers and reviewers: what is installed with LocalRank, and under which licence.*

`make licences` writes this page from the metadata of what is installed. It holds every distribution that LocalRank needs
to run, with those that these need, and for which extra; `core` is what every installation has. Tools for development are
left out. A test allows the licences of this page and no other.

The wheels of numpy, scipy and others hold compiled libraries (OpenBLAS, the runtime library of gfortran). Their licences
are in the wheels.

| distribution | licence | needed by |
|---|---|---|
"""


def extras() -> list[str]:
    """Return the extras that are for running, not for developing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return sorted(set(project["optional-dependencies"]) - {"dev"})


def needed() -> dict[str, set[str]]:
    """Return, for every distribution that is needed to run, the extras that need it.

    Raises:
        PackageNotFoundError: one of them is not installed.
    """
    found: dict[str, set[str]] = {}
    for extra in ("", *extras()):
        for name in _closure("localrank", extra):
            found.setdefault(name, set()).add(extra or "core")
    return {name: {"core"} if "core" in by else by for name, by in sorted(found.items())}


def _closure(name: str, extra: str) -> set[str]:
    seen: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(name), extra)]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        for text in distribution(one[0]).requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": one[1]}):
                waiting += [(canonicalize_name(requirement.name), more) for more in ("", *requirement.extras)]
    return {found for found, _ in seen} - {name}


def licence_of(metadata: PackageMetadata) -> str:
    """Return an SPDX expression, or what the metadata says instead."""
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    text = metadata["License"].strip() if "License" in metadata else ""
    classifiers = [
        classifier.rpartition(" :: ")[2]
        for classifier in metadata.get_all("Classifier") or ()
        if classifier.startswith("License :: ")
    ]
    if "\n" not in text and (text in ALLOWED or text in _WORDS):
        return _WORDS.get(text, text)
    return " AND ".join(_WORDS.get(word, word) for word in classifiers) or text or "unknown"


def identifiers(expression: str) -> set[str]:
    """Return the licences that an SPDX expression names."""
    return {part.strip() for part in re.split(r"[()]|\bAND\b|\bOR\b|\bWITH\b", expression) if part.strip()}


def page() -> str:
    """Return the content of docs/operate/licences.md."""
    rows = [
        f"| {name} | {licence_of(distribution(name).metadata)} | {', '.join(sorted(by))} |\n"
        for name, by in needed().items()
    ]
    return _INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    try:
        sys.stdout.write(page())
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed; run make .venv/.dev")
