"""What a benchmark measured, as a JSON file: tables and plots are made from it without measuring again.

A file holds the command, the machine, and named lists of rows; a row is a flat object. ``benchmarks/results`` holds
those that ``docs/operate/performance.md`` shows.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

Row: TypeAlias = dict[str, Any]
Results: TypeAlias = dict[str, Any]

FOLDER = Path(__file__).parent / "results"
#: Options that say where on this machine, not what is measured.
_PLACES = ("--out", "--cache")


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add the option that `write` takes."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="write what was measured as JSON")


def write(path: Path | None, **rows: Sequence[Row]) -> None:
    """Write a file of results, whole or not at all; without a path, do nothing."""
    if path is not None:
        _write(path, {"command": command(sys.argv[1:]), "machine": machine()}, rows)


def write_beside(path: Path | None, **rows: Sequence[Row]) -> None:
    """Write lists of rows into a file that keeps its others; ``commands`` says which command measured which of these."""
    before = json.loads(path.read_text()) if path is not None and path.exists() else None
    if path is None or before is None:
        write(path, **rows)
        return
    commands = before.get("commands", {}) | dict.fromkeys(rows, command(sys.argv[1:]))
    about = {"command": before["command"], "commands": commands, "machine": before["machine"]}
    _write(path, about, {name: found for name, found in before.items() if isinstance(found, list)} | rows)


def _write(path: Path, about: Results, rows: Mapping[str, Sequence[Row]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    lists = [
        json.dumps(name) + ": [\n" + ",\n".join(map(_line, found)) + "\n]" for name, found in rows.items()
    ]
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in about.items()] + lists
    partial.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    partial.replace(path)


def read(name: str, folder: Path = FOLDER) -> Results | None:
    """Return what a benchmark wrote; None if there is no such file."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def command(arguments: Sequence[str]) -> str:
    """Return the command that this process was started with, as one would type it."""
    module = sys.modules["__main__"].__spec__
    name = module.name.removesuffix(".__main__") if module else Path(sys.argv[0]).stem
    kept = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument in _PLACES:
            next(waiting, None)
        elif not argument.startswith(tuple(f"{place}=" for place in _PLACES)):
            kept.append(argument)
    return shlex.join(["python", "-m", name, *kept])


def machine() -> dict[str, str | int]:
    """Return what figures depend on."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median."""
    drawn = np.random.default_rng(0).choice(np.asarray(values), (2000, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(low), float(high)


def _line(row: Row) -> str:
    return json.dumps(
        {name: _plain(value) for name, value in row.items()}, ensure_ascii=False, allow_nan=False
    )


def _plain(value: Any) -> Any:
    """Round what is measured to six digits, and write what is not a number as null."""
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
