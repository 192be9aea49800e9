"""Fresh environments: for the wheel, and for tools that this project does not depend on.

They hold no pip: the one of this environment installs into them, and compiles nothing that is not imported. That takes half
the time.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def fresh(folder: Path, interpreter: str = sys.executable) -> Path:
    """Make an empty environment and return its Python."""
    subprocess.run([interpreter, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, *wanted: str | Path) -> None:
    """Install packages into an environment.

    Raises:
        RuntimeError: with what pip said.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def environment_with(folder: Path, *packages: str) -> Path:
    """Make an environment that sees everything installed here and also has the packages; return its Python.

    The test is skipped if the packages cannot be had, as on a machine without a package index.
    """
    python = fresh(folder)
    [here] = (folder / "lib").glob("python3*/site-packages")
    (here / "shared.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    try:
        install(python, *packages)
    except RuntimeError as problem:
        pytest.skip(f"cannot install {' '.join(packages)}: {str(problem).splitlines()[-1]}")
    return python
