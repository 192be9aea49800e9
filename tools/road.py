"""Print the modules that a default training run enters, each below the one that first called it.

python -m tools.road

docs/understand/architecture.md shows what it prints. Calls while modules are imported are left out. A small set of synthetic
queries is learned from in one process, because `sys.setprofile` sees only this one.
"""

from __future__ import annotations

import io
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank.__main__ import main

if TYPE_CHECKING:
    from types import FrameType

PACKAGES = {"localrank_training.": "training/", "localrank.": "core/"}


class Road:
    """The modules of both packages that were entered, and from where first.

    Attributes:
        first: ``{module: (caller, function)}`` in the order in which modules were entered.
    """

    def __init__(self) -> None:
        self.first: dict[str, tuple[str | None, str]] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take note of a call from another module; `sys.setprofile` calls this."""
        here = _module(frame)
        if event != "call" or here is None or here in self.first or _imports(frame):
            return
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        self.first[here] = (None if caller is None else _module(caller), frame.f_code.co_name)

    def drawn(self, caller: str | None = None, depth: int = 0) -> list[str]:
        """Return a line for each module, further to the right than the module that called it first."""
        lines = []
        for module, (before, function) in self.first.items():
            if before == caller:
                package = next(package for package in PACKAGES if module.startswith(package))
                shown = PACKAGES[package] + module.removeprefix(package)
                lines.append(f"{'  ' * depth}{shown}  {function}")
                lines += self.drawn(module, depth + 1)
        return lines


def _module(frame: FrameType) -> str | None:
    name: str = frame.f_globals.get("__name__", "")
    return name if name.startswith(tuple(PACKAGES)) else None


def _imports(frame: FrameType | None) -> bool:
    """Tell whether a call is part of importing one of our modules: it only declares something."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _module(frame) is not None:
            return True
        frame = frame.f_back
    return False


def draw() -> list[str]:
    """Train with the defaults, and return the drawing."""
    road = Road()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        data = str(Path(folder, "judged.txt"))
        main(["data", "synthesize", "--queries", "60", "--documents", "20", "--features", "6", "--out", data])
        sys.setprofile(road)
        try:
            main(["train", data, "--models-dir", folder, "--workers", "1"])
        finally:
            sys.setprofile(None)
    return [*road.drawn(), f"{len(road.first)} modules"]


if __name__ == "__main__":
    sys.stdout.write("\n".join(draw()) + "\n")
