"""What somebody is told whose installation lacks an extra."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from localrank.__main__ import _installing

ROOT = Path(__file__).parents[2]


def test_a_checkout_suggests_to_install_from_itself() -> None:
    assert f"pip install -e '{ROOT}[train]'" == _installing("train")
    assert f"pip install -e '{ROOT}'" == _installing("")


def test_an_installation_suggests_the_release(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "core" / "localrank", tmp_path / "lib" / "site-packages" / "localrank")
    code = "from localrank.__main__ import _installing; print(_installing('serve'))"

    printed = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path / "lib" / "site-packages",
        capture_output=True,
        text=True,
        check=False,
    )

    assert "pip install 'localrank[serve]'" == printed.stdout.strip(), printed.stderr
