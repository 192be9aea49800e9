"""Build the compiled tree walk when the package is installed or its wheel is made.

It needs a C compiler: the one that ``CC`` names, else ``cc``. Without one the package is pure Python and walks trees in
numpy. ``LOCALRANK_COMPILER=ziglang`` fetches a compiler as a wheel for the time of the build (for slim images).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCORERS = Path("core/localrank/scorers")


class TreeWalk(BuildHookInterface):
    """Compiles ``walk.c`` into the wheel, or beside its source for an editable installation."""

    def dependencies(self) -> list[str]:
        return ["ziglang"] if os.environ.get("LOCALRANK_COMPILER") == "ziglang" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root, SCORERS)
        editable = version == "editable"
        target = folder if editable else Path(tempfile.mkdtemp(prefix="localrank-walk-"))
        built = compile_walk(folder / "walk.c", target)
        if built is None:
            self.app.display_warning("no C compiler: trees will be walked in numpy, some six times slower")
            return
        if editable:
            for old in folder.glob("walk-*.native"):
                if old != built:
                    old.unlink()
            return
        self._made = target
        build_data["force_include"][str(built)] = f"localrank/scorers/{built.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if made := getattr(self, "_made", None):
            shutil.rmtree(made, ignore_errors=True)


def compiler() -> list[str] | None:
    """Return the command of a C compiler, if there is one."""
    if os.environ.get("LOCALRANK_COMPILER") == "ziglang":
        return [sys.executable, "-m", "ziglang", "cc"]
    chosen = shlex.split(os.environ.get("CC", "cc"))
    return chosen if chosen and shutil.which(chosen[0]) else None


def compile_walk(source: Path, folder: Path) -> Path | None:
    """Compile into ``folder`` under the name that `localrank.scorers.compiled` looks for."""
    command = compiler()
    if command is None:
        return None
    # Not .so, which Python would take for an extension module. The digest is of the source alone: floating-point
    # contraction is off, so every compiler's walk gives the same bits.
    target = folder / f"walk-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.native"
    partial = target.with_suffix(f".{os.getpid()}")
    options = ["-O3", "-std=c99", "-shared", "-fPIC", "-ffp-contract=off", "-s"]
    done = subprocess.run(  # noqa: S603 - whoever builds chooses the compiler
        [*command, *options, "-o", str(partial), str(source), "-lm"], check=False, capture_output=True
    )
    if done.returncode:
        print(done.stderr.decode(errors="replace"), file=sys.stderr)  # noqa: T201 - what a build says
        return None
    partial.replace(target)
    return target
