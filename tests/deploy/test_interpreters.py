"""Which Pythons CI runs the tests on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "interpreters"


def listed(path: str, pyenv: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path, "PYENV_ROOT": str(pyenv)}
    return subprocess.run([SCRIPT], env=environment, check=False, capture_output=True, text=True)


def tools(folder: Path) -> Path:
    """The commands that the script uses, and no Python."""
    folder.mkdir()
    for command in ("bash", "env", "sed", "sort", "dirname"):
        (folder / command).symlink_to(Path("/usr/bin") / command)
    return folder


def interpreter(path: Path) -> None:
    """A Python that answers with where it is, as the script asks it to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\necho {path}\n")
    path.chmod(0o755)


def test_those_on_the_path_and_those_of_pyenv_are_found_and_the_others_named(tmp_path: Path) -> None:
    found = tools(tmp_path / "bin")
    interpreter(found / "python3.12")
    interpreter(tmp_path / "pyenv" / "versions" / "3.11.9" / "bin" / "python")

    answer = listed(str(found), tmp_path / "pyenv")

    expected = [f"3.11 {tmp_path}/pyenv/versions/3.11.9/bin/python", f"3.12 {found}/python3.12"]
    assert expected == answer.stdout.splitlines()
    assert "missing Pythons: 3.13 " in answer.stderr
    assert 0 == answer.returncode


def test_without_any_it_fails_and_names_every_one_that_is_claimed(tmp_path: Path) -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    claimed = [match[1] for line in classifiers if (match := re.search(r":: (3\.\d+)$", line))]

    answer = listed(str(tools(tmp_path / "bin")), tmp_path)

    assert 1 == answer.returncode
    assert f"missing Pythons: {' '.join(claimed)} " in answer.stderr


def test_this_python_is_one_of_them() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"

    answer = listed(f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}", Path("/nowhere"))

    assert version in {line.split()[0] for line in answer.stdout.splitlines()}
