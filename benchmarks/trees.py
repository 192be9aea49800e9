"""How fast a forest scores one query's documents: what this processor chooses, the walk, the same in numpy, and LightGBM.

    python -m benchmarks.trees [--short]

500 trees of 7, 31, 63 and 255 leaves, 46 and 136 features, 20, 100 and 1,000 documents, one thread. The contenders take turns
in one process, so that a busy machine disturbs all alike. Times are processor times of the fastest of many turns; ratios
are medians over the turns. Start-up and memory are those of a fresh process that loads the forest of 63 leaves and scores once. Exit code
1 if localrank is less than `FASTER` times as fast as LightGBM with 63 leaves and 100 documents, less than `NEVER_SLOWER` times
as fast as the walk anywhere, or differs by more than `DIFFERENCE` relative. The short form has 136 features, 7, 31 and 63
leaves, 100 documents and neither numpy nor fresh processes.
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
from localrank.native.walk import CompiledWalk
from localrank.scorers.walk import ForestLayout, NumpyWalk
from localrank_training.learners.forests import from_lightgbm

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix

#: Times that localrank must be as fast as ``lightgbm.Booster.predict``, at the least.
FASTER = 12.0
#: And as the walk; below 1 for noise, where the walk is what is chosen.
NEVER_SLOWER = 0.9
#: Relative difference from LightGBM's scores, at the most.
DIFFERENCE = 1e-9
TREES, LEAVES = 500, (7, 31, 63, 255)
FEATURES = (46, 136)
DOCUMENTS = (20, 100, 1000)
#: The aim is for this forest and list.
AIM = (63, 100)


class Contender(Protocol):
    """One way to score with the forest."""

    def __call__(self, model: Path) -> Callable[[Matrix], Any]:
        """Load the LightGBM text and return what scores."""


def lightgbm(model: Path) -> Callable[[Matrix], Any]:
    import lightgbm as library

    booster = library.Booster(model_file=model)
    return lambda documents: booster.predict(documents, num_threads=1)


def localrank(model: Path) -> Callable[[Matrix], Any]:
    if kernels() is None:
        sys.exit("the compiled kernels are not installed: pip install --editable . with a C compiler")
    return from_lightgbm(model.read_text()).score_rows


def walk(model: Path) -> Callable[[Matrix], Any]:
    return CompiledWalk(ForestLayout.of(from_lightgbm(model.read_text()))).score


def numpy(model: Path) -> Callable[[Matrix], Any]:
    return NumpyWalk(ForestLayout.of(from_lightgbm(model.read_text()))).score


CONTENDERS: dict[str, Contender] = {
    "localrank": localrank,
    "walk": walk,
    "walk in numpy": numpy,
    "lightgbm": lightgbm,
}


def grown(folder: Path, n_features: int, leaves: int) -> Path:
    """Grow the forest and return where its text is."""
    import lightgbm as library

    random = np.random.default_rng(n_features)
    documents = random.standard_normal((20_000, n_features)).astype(np.float32)
    gains = np.tanh(documents @ random.standard_normal(n_features) * 0.3)
    gains += np.sin(3 * documents[:, 0]) * documents[:, 1] + 0.3 * random.standard_normal(len(gains))
    path = folder / f"{n_features}x{leaves}.txt"
    settings = {"objective": "regression", "num_leaves": leaves, "learning_rate": 0.05, "verbosity": -1}
    library.train(settings, library.Dataset(documents, gains), TREES).save_model(path)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cold", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    if arguments.cold:
        print(json.dumps(_cold(arguments.cold, arguments.inside)))
        return 0
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        if arguments.short:
            contenders = {name: CONTENDERS[name] for name in ("localrank", "walk", "lightgbm")}
            return _compare(contenders, folder, leaves=(7, 31, 63), features=FEATURES[1:], documents=(100,))
        failed = _compare(CONTENDERS, folder, leaves=LEAVES, features=FEATURES, documents=DOCUMENTS)
        print("\n| with 63 leaves, 136 features | start, s | private MB |\n|---|---|---|")
        for name in CONTENDERS:
            start, memory = _measured_cold(name, folder / "136x63.txt")
            print(f"| {name} | {start:.2f} | {memory:.0f} |")
        return failed


def _compare(
    contenders: dict[str, Contender],
    folder: Path,
    *,
    leaves: tuple[int, ...],
    features: tuple[int, ...],
    documents: tuple[int, ...],
) -> int:
    failures = []
    print("| leaves | documents × features | " + " | ".join(f"{name}, ms" for name in contenders), end="")
    print(" | times LightGBM's speed | times the walk's | difference |")
    print("|---" * (len(contenders) + 5) + "|")
    for count, n_features in ((count, n_features) for count in leaves for n_features in features):
        model = grown(folder, n_features, count)
        scorers = {name: load(model) for name, load in contenders.items()}
        for n_docs in documents:
            asked = np.random.default_rng(n_docs).standard_normal((n_docs, n_features)).astype(np.float32)
            expected = scorers["lightgbm"](asked)
            error = float(np.abs(scorers["localrank"](asked) - expected).max() / np.abs(expected).max())
            times = _take_turns(scorers, asked, turns=2_000 // n_docs)
            ratios = {
                name: float(np.median(np.divide(times[name], times["localrank"])))
                for name in ("lightgbm", "walk")
            }
            place = f"{count} leaves, {n_docs}×{n_features}"
            if (count, n_docs) == AIM and ratios["lightgbm"] < FASTER:
                failures.append(f"{place}: {ratios['lightgbm']:.1f} times as fast as LightGBM, not {FASTER}")
            if ratios["walk"] < NEVER_SLOWER:
                failures.append(f"{place}: {ratios['walk']:.2f} times as fast as the walk")
            if error > DIFFERENCE:
                failures.append(f"{place}: differs from LightGBM by {error:.1e}")
            fastest = " | ".join(f"{min(times[name]):.3f}" for name in contenders)
            print(
                f"| {count} | {n_docs}×{n_features} | {fastest} | {ratios['lightgbm']:.1f} | {ratios['walk']:.2f} | {error:.0e} |",
                flush=True,
            )
    for failure in failures:
        print("FAILED:", failure)
    return int(bool(failures))


def _take_turns(
    scorers: dict[str, Callable[[Matrix], Any]], documents: Matrix, *, turns: int
) -> dict[str, list[float]]:
    """Return the milliseconds of every turn."""
    times: dict[str, list[float]] = {name: [] for name in scorers}
    for _ in range(max(turns, 5)):
        for name, score in scorers.items():
            score(documents)  # so that what the others left in the caches does not count
            begin = time.process_time_ns()
            score(documents)
            times[name].append(1e-6 * (time.process_time_ns() - begin))
    return times


def _measured_cold(name: str, model: Path) -> tuple[float, float]:
    """Start a fresh process twice, so that caches are filled, and return its seconds and private megabytes."""
    command = [sys.executable, "-m", "benchmarks.trees", "--inside", str(model), "--cold", name]
    for _ in range(2):
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = json.loads(answer.stdout.splitlines()[-1])
    return seconds, memory


def _cold(name: str, model: Path) -> tuple[float, float]:
    """Load and score once; return seconds and megabytes beyond numpy's."""
    before, begin = _private_megabytes(), time.perf_counter()
    score = CONTENDERS[name](model)
    score(np.zeros((100, 136), np.float32))
    return time.perf_counter() - begin, _private_megabytes() - before


def _private_megabytes() -> float:
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private")) / 1024


if __name__ == "__main__":
    sys.exit(main())
