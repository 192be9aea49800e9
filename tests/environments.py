"""Environments for tests of tools that this project does not depend on: what is installed here, and one package more."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["environment_with"]


def environment_with(folder: Path, *packages: str) -> Path:
    """Make an environment that sees everything installed here and also has the packages; return its Python.

    The test is skipped if the packages cannot be had, as on a machine without a package index.
    """
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    [here] = (folder / "lib").glob("python3*/site-packages")
    (here / "shared.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    installing = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True, check=False
    )
    if installing.returncode:
        pytest.skip(f"cannot install {' '.join(packages)}: {installing.stderr.strip().splitlines()[-1]}")
    return python
