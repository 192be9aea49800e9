"""What it costs to learn from more queries than memory holds: time, memory, and how both grow.

    python -m benchmarks.memory [--queries 1000,3000,10000] [--learners linear,lambdamart] [--folder /var/tmp]
                                [--out benchmarks/results/memory.json] [--plot benchmarks/results/memory.svg]

For each number of queries, `localrank data synthesize` writes Parquet, `data convert` maps it, `train` learns and publishes, and
`models verify` checks the version; each in processes of their own, which are watched. *Held* is the peak of their anonymous
memory together (RssAnon), *resident* of all of it, with the pages of files that are in memory anyway and that the system takes back
when it needs them (VmRSS). Times are of the processors and of the clock. The files are removed at the end; the largest take about
two times 4 bytes for each value. The exit code is 1 if the linear learner holds more than `--bound` bytes for each document beyond
what it holds for the smallest set.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import results
from localrank.commands.output import print_table
from localrank_training.report import Axis, Line, Plot, svg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.results import Row

DOCUMENTS, FEATURES = 100, 136
#: Trees are measured with one member of few trees: their number costs time and no memory.
SETTINGS = {"lambdamart": ("members=1", "num_iterations=20")}
_COLUMNS = ("step", "learner", "queries", "seconds", "cpu", "held", "resident")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", default="1000,3000,10000")
    parser.add_argument("--learners", default="linear,lambdamart")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--bound", type=float, default=150.0, help="bytes per document")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the growth as SVG")
    results.add_out(parser)
    options = parser.parse_args()
    sizes = sorted(int(number) for number in options.queries.split(","))
    rows: list[Row] = []
    for n_queries in sizes:
        with tempfile.TemporaryDirectory(prefix="localrank-memory-", dir=options.folder) as folder:
            for row in costs(n_queries, options.learners.split(","), Path(folder), options):
                rows.append(row)
                print_table(_COLUMNS, [tuple(row[name] for name in _COLUMNS)])
                results.write(options.out, rows=rows)
    if options.plot:
        options.plot.write_text(svg(*plots(rows)), encoding="utf-8")
    linear = [row for row in rows if (row["step"], row["learner"]) == ("train", "linear")]
    if len(linear) < 2:
        return 0
    grown = (linear[-1]["held"] - linear[0]["held"]) * 2**20 / DOCUMENTS
    return int(grown > options.bound * (linear[-1]["queries"] - linear[0]["queries"]))


def costs(n_queries: int, learners: list[str], folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield what every step costs."""
    written, mapped, models = folder / "queries.parquet", folder / "mapped.arrow", folder / "models"
    numbers = ["--queries", str(n_queries), "--documents", str(DOCUMENTS), "--features", str(FEATURES)]
    yield {"learner": "", "queries": n_queries} | watched(
        "data", "synthesize", *numbers, "--out", str(written), step="synthesize"
    )
    yield {"learner": "", "queries": n_queries} | watched(
        "data", "convert", str(written), "--out", str(mapped), step="convert"
    )
    written.unlink()
    for learner in learners:
        sets = [one for setting in SETTINGS.get(learner, ()) for one in ("--set", f"learner.{setting}")]
        where = ["--models-dir", str(models), "--name", learner]
        train = ["train", str(mapped), "--learner", learner, *sets, *where]
        run = ["--set", f"selection.folds={options.folds}", "--workers", str(options.workers)]
        yield {"learner": learner, "queries": n_queries} | watched(*train, *run, step="train")
        yield {"learner": learner, "queries": n_queries} | watched(
            "models", "verify", learner, "--models-dir", str(models), step="verify"
        )
    mapped.unlink()


def watched(*arguments: str, step: str) -> Row:
    """Run a command of localrank and return what its processes took."""
    started, before = time.perf_counter(), os.times()
    process = subprocess.Popen(
        [sys.executable, "-m", "localrank", *arguments],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    peak = {"RssAnon": 0.0, "VmRSS": 0.0}
    while process.poll() is None:
        for name, found in together(process.pid).items():
            peak[name] = max(peak[name], found)
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"localrank {' '.join(arguments)} failed")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "step": step,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu": round(cpu, 1),
        "held": round(peak["RssAnon"]),
        "resident": round(peak["VmRSS"]),
    }


def together(pid: int) -> dict[str, float]:
    """Return the megabytes of a process and of those that it started."""
    found = {"RssAnon": 0.0, "VmRSS": 0.0}
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = [task.read_text().split() for task in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has just ended
        return found
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value.split()[0]) / 1024
    for child in (int(number) for numbers in children for number in numbers):
        for name, more in together(child).items():
            found[name] += more
    return found


def plots(rows: list[Row]) -> list[Plot]:
    """Draw time and memory of training over the number of queries."""
    trained = [row for row in rows if row["step"] == "train"]
    learners = list(dict.fromkeys(row["learner"] for row in trained))
    return [
        Plot(
            title,
            f"Queries of {DOCUMENTS} documents with {FEATURES} features; on disk a query takes {DOCUMENTS * FEATURES * 4 // 1000} kB",
            Axis("queries", log=True),
            Axis(label, unit=unit, log=True),
            [
                Line(
                    f"{learner}{words}",
                    [row["queries"] for row in trained if row["learner"] == learner],
                    [row[name] for row in trained if row["learner"] == learner],
                )
                for learner in learners
                for name, words in names.items()
            ],
        )
        for title, label, unit, names in (
            ("Processor time of training", "processor time", "s", {"cpu": ""}),
            ("Memory of training", "memory", "MB", {"held": ", held", "resident": ", resident"}),
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
