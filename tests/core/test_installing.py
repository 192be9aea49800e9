"""The sentence that says how to install what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localrank.extras import installing

ROOT = Path(__file__).parents[2]


def test_a_checkout_installs_from_itself() -> None:
    assert f"pip install -e '{ROOT}[train]'" == installing("train")
    assert f"pip install -e '{ROOT}'" == installing("")


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (None, "pip install 'localrank[sign]'"),
        (
            '{"url": "file:///some%20where/localrank-1.whl", "archive_info": {}}',
            "pip install '/some where/localrank-1.whl[sign]'",
        ),
        (
            '{"url": "https://example.org/localrank-1.whl"}',
            "pip install 'https://example.org/localrank-1.whl[sign]'",
        ),
    ],
)
def test_an_installed_package_installs_from_where_it_came(
    recorded: str | None, expected: str, tmp_path: Path
) -> None:
    """The program of a wheel, with what the installer has recorded beside it."""
    shutil.copytree(ROOT / "core" / "localrank", tmp_path / "localrank", ignore=shutil.ignore_patterns("*.c"))
    described = tmp_path / "localrank-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.4\nName: localrank\nVersion: 1\n")
    if recorded is not None:
        (described / "direct_url.json").write_text(recorded)
    probe = "from localrank.extras import installing; print(installing('sign'))"

    said = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {probe}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    assert expected == said.stdout.strip()
