"""How fast a forest scores one query's documents: the compiled walk, the same in numpy, and LightGBM.

    python -m benchmarks.trees

500 trees of 63 leaves, 46 and 136 features, 20, 100 and 1,000 documents, one thread. The contenders take turns in one
process, so that a busy machine disturbs all alike; the figure is the processor time of the fastest of many turns. Start-up and memory are
those of a fresh process that loads the forest and scores once. Exit code 1 if the compiled walk is less than
`FASTER` times as fast as LightGBM anywhere, or differs by more than `DIFFERENCE` relative.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from localrank.native.library import library as kernels
from localrank.scorers.walk import ForestLayout, NumpyWalk
from localrank_training.learners.forests import from_lightgbm

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix

#: Times that the compiled walk must be as fast as ``lightgbm.Booster.predict``, at the least.
FASTER = 6.0
#: Relative difference from LightGBM's scores, at the most.
DIFFERENCE = 1e-9
TREES, LEAVES = 500, 63
FEATURES = (46, 136)
DOCUMENTS = (20, 100, 1000)


class Contender(Protocol):
    """One way to score with the forest."""

    def __call__(self, model: Path, n_features: int) -> Callable[[Matrix], Any]:
        """Load the LightGBM text and return what scores."""


def lightgbm(model: Path, n_features: int) -> Callable[[Matrix], Any]:  # noqa: ARG001
    import lightgbm as library

    booster = library.Booster(model_file=model)
    return lambda documents: booster.predict(documents, num_threads=1)


def localrank(model: Path, n_features: int) -> Callable[[Matrix], Any]:  # noqa: ARG001
    if kernels() is None:
        sys.exit("the compiled kernels are not installed: pip install --editable . with a C compiler")
    return from_lightgbm(model.read_text()).score_rows


def numpy(model: Path, n_features: int) -> Callable[[Matrix], Any]:  # noqa: ARG001
    return NumpyWalk(ForestLayout.of(from_lightgbm(model.read_text()))).score


CONTENDERS: dict[str, Contender] = {
    "localrank": localrank,
    "localrank in numpy": numpy,
    "lightgbm": lightgbm,
}


def grown(folder: Path, n_features: int) -> Path:
    """Grow the forest and return where its text is."""
    import lightgbm as library

    random = np.random.default_rng(n_features)
    documents = random.standard_normal((20_000, n_features)).astype(np.float32)
    gains = np.tanh(documents @ random.standard_normal(n_features) * 0.3)
    gains += np.sin(3 * documents[:, 0]) * documents[:, 1] + 0.3 * random.standard_normal(len(gains))
    path = folder / f"{n_features}.txt"
    settings = {"objective": "regression", "num_leaves": LEAVES, "learning_rate": 0.05, "verbosity": -1}
    library.train(settings, library.Dataset(documents, gains), TREES).save_model(path)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cold", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    if arguments.cold:
        print(json.dumps(_cold(arguments.cold, arguments.inside)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for n_features in FEATURES:
            grown(Path(folder), n_features)
        return _compare(CONTENDERS, Path(folder))


def _compare(contenders: dict[str, Contender], folder: Path) -> int:
    failures = []
    times: dict[str, list[float]] = {name: [] for name in contenders}
    errors = dict.fromkeys(contenders, 0.0)
    for n_features in FEATURES:
        model = folder / f"{n_features}.txt"
        scorers = {name: load(model, n_features) for name, load in contenders.items()}
        for n_docs in DOCUMENTS:
            documents = np.random.default_rng(n_docs).standard_normal((n_docs, n_features)).astype(np.float32)
            expected = scorers["lightgbm"](documents)
            for name, score in scorers.items():
                error = float(np.abs(score(documents) - expected).max() / np.abs(expected).max())
                errors[name] = max(errors[name], error)
            fastest = _take_turns(scorers, documents, turns=2_000 // n_docs)
            for name in contenders:
                times[name].append(fastest[name])
            ratio = fastest["lightgbm"] / fastest["localrank"]
            if ratio < FASTER:
                failures.append(f"{n_docs}x{n_features}: {ratio:.2f} times as fast as LightGBM, not {FASTER}")
    if errors["localrank"] > DIFFERENCE:
        failures.append(f"localrank differs from LightGBM by {errors['localrank']:.1e}")
    shapes = [f"{n_docs}×{n_features}" for n_features in FEATURES for n_docs in DOCUMENTS]
    print(f"| ms | {' | '.join(shapes)} | times LightGBM's speed | difference | start, s | private MB |")
    print("|---|" + "---|" * (len(shapes) + 4))
    for name, row in times.items():
        ratios = [base / own for base, own in zip(times["lightgbm"], row, strict=True)]
        start, memory = _measured_cold(name, folder)
        print(
            f"| {name} | {' | '.join(f'{ms:.3f}' for ms in row)} | {min(ratios):.1f} to {max(ratios):.1f} "
            f"| {errors[name]:.0e} | {start:.2f} | {memory:.0f} |"
        )
    for failure in failures:
        print("FAILED:", failure)
    return int(bool(failures))


def _take_turns(
    scorers: dict[str, Callable[[Matrix], Any]], documents: Matrix, *, turns: int
) -> dict[str, float]:
    fastest = dict.fromkeys(scorers, np.inf)
    for _ in range(max(turns, 5)):
        for name, score in scorers.items():
            score(documents)  # so that what the others left in the caches does not count
            begin = time.process_time_ns()
            score(documents)
            fastest[name] = min(fastest[name], 1e-6 * (time.process_time_ns() - begin))
    return fastest


def _measured_cold(name: str, folder: Path) -> tuple[float, float]:
    """Start a fresh process twice, so that caches are filled, and return its seconds and private megabytes."""
    command = [sys.executable, "-m", "benchmarks.trees", "--inside", str(folder), "--cold", name]
    for _ in range(2):
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = json.loads(answer.stdout.splitlines()[-1])
    return seconds, memory


def _cold(name: str, folder: Path) -> tuple[float, float]:
    """Load and score once; return seconds and megabytes beyond numpy's."""
    before, begin = _private_megabytes(), time.perf_counter()
    score = CONTENDERS[name](folder / "136.txt", 136)
    score(np.zeros((100, 136), np.float32))
    return time.perf_counter() - begin, _private_megabytes() - before


def _private_megabytes() -> float:
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private")) / 1024


if __name__ == "__main__":
    sys.exit(main())
