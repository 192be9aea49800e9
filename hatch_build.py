"""Build the compiled arithmetic when the package is installed or its wheel is made.

It needs a C compiler: the one that ``CC`` names, else ``cc``. Without one the package is pure Python and leaves all to
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

NATIVE = Path("core/localrank/native")


class Native(BuildHookInterface):
    """Compiles the C sources into the wheel, or beside them for an editable installation."""

    def dependencies(self) -> list[str]:
        return ["ziglang"] if os.environ.get("LOCALRANK_COMPILER") == "ziglang" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root, NATIVE)
        editable = version == "editable"
        target = folder if editable else Path(tempfile.mkdtemp(prefix="localrank-native-"))
        built = compile_native(folder, target)
        if built is None:
            self.app.display_warning(
                "no C compiler: numpy will do what compiled code would do some times faster"
            )
            return
        if editable:
            for old in folder.glob("*.native"):
                if old != built:
                    old.unlink()
            return
        self._made = target
        build_data["force_include"][str(built)] = f"localrank/native/{built.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if made := getattr(self, "_made", None):
            shutil.rmtree(made, ignore_errors=True)


def compiler() -> list[str] | None:
    """Return the command of a C compiler, if there is one."""
    if os.environ.get("LOCALRANK_COMPILER") == "ziglang":
        # For every processor of the family: of itself it compiles for the one that it runs on.
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    chosen = shlex.split(os.environ.get("CC", "cc"))
    return chosen if chosen and shutil.which(chosen[0]) else None


def compile_native(sources: Path, folder: Path) -> Path | None:
    """Compile into ``folder`` under the name that `localrank.native` looks for."""
    command = compiler()
    if command is None:
        return None
    files = sorted(sources.glob("*.[ch]"))
    # Not .so, which Python would take for an extension module. The digest is of the sources alone: floating-point
    # contraction is off, so every compiler's code gives the same bits.
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    target = folder / f"arithmetic-{digest}.native"
    partial = target.with_suffix(f".{os.getpid()}")
    options = ["-O3", "-std=gnu99", "-shared", "-fPIC", "-ffp-contract=off", "-Wno-psabi", "-s"]
    given = [str(file) for file in files if file.suffix == ".c"]
    # For every generation of processors where the compiler and the C library can choose when it is opened.
    for chosen in ([], ["-DLOCALRANK_ONE_TARGET"]):
        done = subprocess.run(  # noqa: S603 - whoever builds chooses the compiler
            [*command, *options, *chosen, "-o", str(partial), *given, "-lm"], check=False, capture_output=True
        )
        if done.returncode == 0:
            partial.replace(target)
            return target
    print(done.stderr.decode(errors="replace"), file=sys.stderr)  # noqa: T201 - what a build says
    return None
