"""Build the compiled kernels when the package is installed or its wheel is made.

It needs a C compiler: the one that ``CC`` names, else ``cc``. Without one, or if it fails, the package is pure Python and
uses numpy instead; a warning says why, and ``LOCALRANK_REQUIRE_NATIVE=1`` makes it an error.
``LOCALRANK_COMPILER=ziglang`` fetches a compiler as a wheel for the time of the build (for slim images).
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
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Sequence

NATIVE = Path("core/localrank/native")
#: Not .so, which Python would take for an extension module.
LIBRARY = "arithmetic.native"

#: Floating-point contraction is off, so that the code of every compiler gives the same bits.
OPTIONS = ("-O3", "-std=gnu99", "-shared", "-fPIC", "-ffp-contract=off", "-Wno-psabi")


class Native(BuildHookInterface):
    """Compiles the C sources into the wheel, or beside them for an editable installation."""

    def dependencies(self) -> list[str]:
        return ["ziglang"] if os.environ.get("LOCALRANK_COMPILER") == "ziglang" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root, NATIVE)
        editable = version == "editable"
        target = folder if editable else Path(tempfile.mkdtemp(prefix="localrank-native-"))
        try:
            built = compile_native(folder, target / LIBRARY, self.metadata.version)
        except CompilerError as problem:
            if os.environ.get("LOCALRANK_REQUIRE_NATIVE") == "1":
                self.app.abort(f"LOCALRANK_REQUIRE_NATIVE=1, but {problem}")
            self.app.display_warning(f"no compiled kernels, numpy will be used, which is slower: {problem}")
            return
        if editable:
            return
        self._made = target
        build_data["force_include"][str(built)] = f"localrank/native/{LIBRARY}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if made := getattr(self, "_made", None):
            shutil.rmtree(made, ignore_errors=True)


class CompilerError(Exception):
    """Why nothing was compiled, in one sentence."""


def compiler() -> list[str]:
    """Return the command of the C compiler."""
    if os.environ.get("LOCALRANK_COMPILER") == "ziglang":
        # For every processor of the family: without this it compiles for the processor that it runs on.
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    chosen = shlex.split(os.environ.get("CC", "cc"))
    if not chosen or not shutil.which(chosen[0]):
        raise CompilerError(f"there is no C compiler: {' '.join(chosen) or 'CC'} was not found")
    return chosen


def compile_native(sources: Path, target: Path, version: str, extra: Sequence[str] = ()) -> Path:
    """Compile the sources into ``target``.

    Args:
        sources: the folder of the C files.
        target: the library to write; another process may have the old one open.
        version: of the package.
        extra: more options for the compiler.

    Raises:
        CompilerError: there is no compiler, or it failed.
    """
    command = compiler()
    files = sorted(sources.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    options = [*OPTIONS, *extra, f'-DLOCALRANK_VERSION="{version} {digest}"']
    given = [str(file) for file in files if file.suffix == ".c"]
    # First for every generation of processors, if the compiler and the C library can choose when it is opened.
    for chosen in ([], ["-DLOCALRANK_ONE_TARGET"]):
        done = subprocess.run(  # noqa: S603 - whoever builds chooses the compiler
            [*command, *options, *chosen, "-o", str(partial), *given, "-lm"],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            partial.replace(target)
            return target
    partial.unlink(missing_ok=True)
    first = next(iter(done.stderr.splitlines()), "it printed nothing")
    raise CompilerError(
        f"the C compiler failed ({shlex.join(command)}, exit code {done.returncode}): {first}"
    )
