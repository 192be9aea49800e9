"""What a published table costs: bytes of a million items, time of a look-up, and memory over many generations under load.

    python -m benchmarks.tables [--short]

The look-up is timed with ids drawn at random, so that most of what it reads is in no cache of the processor, and beside a
dictionary of Python from ids to rows. Fails if a million items of 20 features take more than `MOST_BYTES` beside the text of the
ids, if the look-up of 100 ids takes longer than `MOST_MICROSECONDS` (the best of several medians) or than `TIMES` as long as the
dictionary, if a request fails while generations change, or if the private memory of the workers grows by more than
`MOST_GROWTH` megabytes from the first quarter of the swaps to the last.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np

from benchmarks import servers
from localrank.artifact import Provenance
from localrank.features.contract import FeatureContract
from localrank.features.feature import Feature
from localrank.points.representation import NoRepresentation
from localrank.ranker import Ranker
from localrank.registry.tables import load_items, publish, tables_in
from localrank.registry.versions import Registry
from localrank.routing.router import GlobalRouter
from localrank.scorers import LinearScorer
from localrank.tables import generation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank.arrays import Matrix
    from localrank.registry.versions import Reference

MOST_BYTES, MOST_MICROSECONDS, TIMES, MOST_GROWTH = 100e6, 30.0, 3.0, 4.0
ITEMS, FEATURES, IDS = 1_000_000, 20, 100
RUNS, CALLS = 7, 500
SWAPS, SERVED = 200, 20_000
COLUMNS = tuple(Feature(f"x{number}") for number in range(FEATURES))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="no service")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        good = looked_up(Path(folder) / "large")
        return int(not (good and (asked.short or swapped(Path(folder) / "served"))))


def looked_up(models: Path) -> bool:
    """Measure one large table."""
    chance = np.random.default_rng(0)
    ids = [f"sku-{number:09d}" for number in chance.permutation(ITEMS).tolist()]
    values = chance.standard_normal((ITEMS, FEATURES)).astype(np.float32)
    started = time.perf_counter()
    reference = published(models, ids, values)
    print(f"published in {time.perf_counter() - started:.1f} s")
    started = time.perf_counter()
    read = generation.load(reference.path)
    print(f"read and verified in {time.perf_counter() - started:.1f} s")
    text = read.manifest.files["ids.npy"].size
    beside = read.manifest.size - text
    print(f"{ITEMS} items x {FEATURES} features: {beside / 1e6:.1f} MB beside {text / 1e6:.1f} MB of ids")

    rows = {one: row for row, one in enumerate(ids)}
    asked = [[ids[at] for at in chance.integers(0, ITEMS, IDS).tolist()] for _ in range(CALLS)]
    assert [rows[one] for one in asked[0]] == read.table.rows(asked[0]).tolist()
    items = load_items(contract(), models)
    documents = np.full((IDS, FEATURES + 1), np.nan, np.float32)
    contenders: dict[str, Callable[[list[str]], object]] = {
        "look-up": read.table.rows,
        "dictionary": lambda some: np.array([rows[one] for one in some]),
        "look-up and filling in": lambda some: items.completed(documents, some),
    }
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(RUNS):
        for name, call in contenders.items():
            found[name].append(microseconds(call, asked))
    best = {name: min(times) for name, times in found.items()}
    for name, times in found.items():
        print(f"{name} of {IDS} ids: {best[name]:.1f} µs (medians {min(times):.1f} to {max(times):.1f})")
    return (
        beside <= MOST_BYTES
        and best["look-up"] <= MOST_MICROSECONDS
        and best["look-up"] <= TIMES * best["dictionary"]
    )


def microseconds(call: Callable[[list[str]], object], asked: Sequence[list[str]]) -> float:
    """Return the median over calls."""
    times = []
    for some in asked:
        started = time.perf_counter_ns()
        call(some)
        times.append(time.perf_counter_ns() - started)
    return median(times) / 1e3


def swapped(models: Path) -> bool:
    """Publish generation after generation while two workers answer; compare their private memory."""
    chance = np.random.default_rng(1)
    ids = [f"sku-{number}" for number in range(SERVED)]
    values = chance.standard_normal((SERVED, FEATURES)).astype(np.float32)
    published(models, ids, values)
    made = contract()
    ranker = Ranker(
        made, NoRepresentation(), GlobalRouter(), (), LinearScorer(np.arange(FEATURES + 1, dtype=float))
    )
    probe = [chance.standard_normal((3, FEATURES + 1)).astype(np.float32)]
    registry = Registry(models)
    registry.publish("shop", ranker, Provenance("2026-01-01T00:00:00Z", source={}, probe=probe))
    registry.promote("shop", 1)
    body = {"ids": ids[:IDS], "features": [[float(at)] for at in range(IDS)]}
    wrong: list[Any] = []
    seen: set[int] = set()
    done = threading.Event()
    sizes: list[float] = []
    with servers.localrank(models, workers=2, LOCALRANK_POLL_SECONDS="0.05") as server:
        loads = [threading.Thread(target=ask, args=(server.port, body, done, seen, wrong)) for _ in range(4)]
        for one in loads:
            one.start()
        for number in range(SWAPS):
            published(models, ids, values + np.float32(number))
            if number % 20 == 19:
                tables_in(models).prune("items", keep=3, force=True)
            time.sleep(0.1)
            sizes.append(sum(server.memory("Private").values()))
        done.set()
        for one in loads:
            one.join()
    quarter = SWAPS // 4
    growth = median(sizes[-quarter:]) - median(sizes[quarter : 2 * quarter])
    print(
        f"{SWAPS} generations under load: {len(seen)} of them answered, {len(wrong)} requests failed, private memory of all "
        f"processes {median(sizes[quarter : 2 * quarter]):.1f} MB, later {growth:+.1f} MB"
    )
    if wrong:
        print(f"the first that failed: {wrong[0]}")
    return not wrong and growth <= MOST_GROWTH and len(seen) > SWAPS // 4


def ask(port: int, body: dict[str, Any], done: threading.Event, seen: set[int], wrong: list[Any]) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        while not done.is_set():
            answer = client.post("/v1/rerank", json=body)
            if answer.status_code != 200:
                wrong.append(answer.text)
            else:
                seen.add(answer.json()["tables"]["items"])


def contract() -> FeatureContract:
    features = (Feature("bm25"), *(replace(one, table="items") for one in COLUMNS))
    rows = np.random.default_rng(2).standard_normal((20, FEATURES + 1)).astype(np.float32)
    return FeatureContract.learn(rows, [20], features=features, missing="zero", normalise="none")


def published(models: Path, ids: Sequence[str], values: Matrix) -> Reference:
    return publish(
        tables_in(models), "items", COLUMNS, ids, values, created="2026-01-01T00:00:00Z", source={}
    )


if __name__ == "__main__":
    sys.exit(main())
