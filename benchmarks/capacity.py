"""How many cores a rate of requests needs: CPU per request, fitted to measurements.

    python -m benchmarks.capacity --measure [--repeats 5] [--out benchmarks/results/capacity.json]
    python -m benchmarks.capacity --rate 2000 --documents 100 --features 136 [--trees 0] [--wire JSON] [--price 0.04] [--here]

``--measure`` asks services of one worker with lists of 10 to 1,000 documents of 10 to 136 features, by a linear model and by
1,000 trees, in JSON and as ``application/x-npy``, one request after the other; CPU is that of the whole service, from
``/proc``, and each point is asked once in every repeat.

Neighbours on a machine make everything slower, so each repeat is measured beside a yardstick: the bare arithmetic of
``benchmarks.floor`` for 100 × 136 numbers in JSON, looped. Figures are for a machine on which the yardstick takes what it took on the quiet
one of ``benchmarks/results/floor.json``; ``--here`` measures it on this machine, in a second, and calculates for that. To the medians of the points it fits, for each wire,

    CPU ms = a + b documents + c documents features + d documents trees / 1000

by least squares of relative errors, without negative coefficients. Intervals (95 %) are those of refits to
points whose distances from the fit are drawn anew from all distances. A calculated figure also has the spread of a
single point.

Without ``--measure`` it calculates from the results in ``benchmarks/results/capacity.json``: cores for the CPU alone, and for
cores that are busy ``--busy`` of the time (0.5), so that bursts find room and a core that is lost is no outage.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from benchmarks import arrivals, floor, results, served_models, servers
from localrank.commands.output import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Matrix, Vector

WIRES = ("JSON", "npy")
#: Documents, features and trees of the points.
POINTS = (
    *((documents, features, 0) for features in (10, 46, 136) for documents in (10, 100, 300, 1000)),
    *((documents, 46, 1000) for documents in (10, 100, 300)),
)
TREES, DEPTH = 1000, 5
QUERIES = 1000
DRAWS = 2000
#: Seconds of CPU of one point in one repeat, about; its clock ticks every 10 ms.
_LONG = 0.3
_TERMS = ("a", "b", "c", "d")
_MEANINGS = (
    "a request",
    "1,000 documents",
    "1,000 documents of 100 features",
    "1,000 documents by 1,000 trees",
)
#: What the terms are multiplied with, so that each coefficient is milliseconds of what `_MEANINGS` says.
_RESULTS = results.FOLDER / "capacity.json"


class Fit(NamedTuple):
    """CPU per request of one wire, in milliseconds.

    Attributes:
        middle: ``[4]`` the coefficients.
        draws: ``[n, 4]`` those of refits.
        spread: standard deviation of the points about the fit, relative to it.
    """

    middle: Vector
    draws: Matrix
    spread: float

    def predicted(self, documents: float, features: float, trees: float) -> tuple[float, float, float]:
        """Return the milliseconds of one request, and the ends of their interval (95 %)."""
        row = terms(np.array([[documents, features, trees]], float))[0]
        random = np.random.default_rng(0)
        drawn = (self.draws @ row) * (1 + self.spread * random.standard_normal(len(self.draws)))
        low, high = np.quantile(drawn, (0.025, 0.975))
        return float(self.middle @ row), float(max(low, 0.0)), float(high)


def terms(points: Matrix) -> Matrix:
    """Return ``[n, 4]`` what the coefficients are multiplied with, from documents, features and trees."""
    documents, features, trees = points.T
    return np.column_stack(
        [np.ones(len(points)), documents / 1e3, documents * features / 1e5, documents * trees / 1e6]
    )


def solve(points: Matrix, milliseconds: Vector) -> Vector:
    """Return the coefficients of least relative squared error that are not negative."""
    found: Vector = nnls(terms(points) / milliseconds[:, None], np.ones(len(points)))[0]
    return found


def fit(rows: Sequence[results.Row]) -> Fit:
    """Fit the points of one wire; a row is a point with its figure in each repeat."""
    points = np.array([[row["documents"], row["features"], row["trees"]] for row in rows], float)
    repeats = np.array([row["cpu_ms"] for row in rows], float)
    medians = np.median(repeats, axis=1)
    middle = solve(points, medians)
    predicted = terms(points) @ middle
    left = (medians / predicted - 1) * math.sqrt(len(rows) / max(1, len(rows) - len(_TERMS)))
    spread = float(np.sqrt(np.mean(left**2)))
    random = np.random.default_rng(0)
    draws = [solve(points, predicted * (1 + random.choice(left, len(rows)))) for _ in range(DRAWS)]
    return Fit(middle, np.array(draws), spread)


def yardstick(count: int = 150) -> float:
    """Return the milliseconds of CPU that the bare arithmetic takes here."""
    body = served_models.as_json(served_models.documents(100, 136))
    weights = np.ones(136, np.float32)
    with threadpool_limits(1):
        for _ in range(10):
            floor.arithmetic(floor.decode_json(body, 136), weights)
        begun = time.process_time()
        for _ in range(count):
            floor.arithmetic(floor.decode_json(body, 136), weights)
    return (time.process_time() - begun) / count * 1e3


def reference() -> float:
    """Return what the yardstick took on the quiet machine."""
    rows = (results.read("floor") or {})["floor"]
    return next(
        float(row["looped_ms"])
        for row in rows
        if (row["wire"], row["documents"], row["features"]) == ("JSON", 100, 136)
    )


def request(wire: str, matrix: Matrix, model: str) -> bytes:
    """Return a request that names the model."""
    if wire == "npy":
        body = served_models.as_npy(matrix)
        return servers.post(f"/v1/rerank?model={model}", body, "application/x-npy")
    body = served_models.as_json(matrix).replace(b"{", b'{"model":"' + model.encode() + b'",', 1)
    return servers.post("/v1/rerank", body, "application/json")


def measure(repeats: int) -> tuple[list[results.Row], list[results.Row]]:
    """Ask every point in every repeat, in an order that is drawn anew; return the points and the yardsticks."""
    random = np.random.default_rng(0)
    keys = [(wire, *point) for wire in WIRES for point in POINTS]
    found: dict[tuple[Any, ...], list[float]] = {key: [] for key in keys}
    sticks: list[float] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        models = Path(folder)
        for features, trees in sorted({point[1:] for point in POINTS}):
            scorer = served_models.forest(trees, DEPTH, features) if trees else None
            made = served_models.ranker(QUERIES, features, scorer=scorer)
            served_models.publish(models, made, f"f{features}t{trees}")
        server = stack.enter_context(servers.localrank(models))
        for repeat in range(repeats + 1):
            before_all = yardstick()
            for place in random.permutation(len(keys)):
                wire, documents, features, trees = keys[place]
                body = request(wire, served_models.documents(documents, features), f"f{features}t{trees}")
                guess = float(np.median(found[keys[place]])) if found[keys[place]] else None
                count = 30 if guess is None else max(30, math.ceil(_LONG * 1e3 / guess))
                before = server.cpu()
                arrivals.closed(server.port, body, count)
                used = (server.cpu() - before) / count * 1e3
                # The first round warms up and says how many requests a round takes.
                if repeat == 0:
                    found[keys[place]] = [max(used, 0.05)]
                elif repeat == 1:
                    found[keys[place]] = [used]
                else:
                    found[keys[place]].append(used)
            if repeat:
                sticks.append((before_all + yardstick()) / 2)
    names = ("wire", "documents", "features", "trees")
    scale = reference() / np.array(sticks)
    points = [
        {
            **dict(zip(names, key, strict=True)),
            "cpu_ms": np.round(np.array(values) * scale, 4).tolist(),
            "here_ms": np.round(values, 4).tolist(),
        }
        for key, values in found.items()
    ]
    return points, [{"repeat": i + 1, "yardstick_ms": round(one, 4)} for i, one in enumerate(sticks)]


def summary(rows: Sequence[results.Row]) -> list[results.Row]:
    """Return the coefficients of every wire with their intervals, and how far points are from the fit."""
    found = []
    for wire in WIRES:
        of = [row for row in rows if row["wire"] == wire]
        one = fit(of)
        low, high = np.quantile(one.draws, (0.025, 0.975), axis=0)
        for term, meaning, middle, below, above in zip(_TERMS, _MEANINGS, one.middle, low, high, strict=True):
            found.append(
                {
                    "wire": wire,
                    "term": term,
                    "ms of": meaning,
                    "ms": round(float(middle), 4),
                    "low": round(float(below), 4),
                    "high": round(float(above), 4),
                    "spread": round(one.spread, 4),
                }
            )
    return found


class Need(NamedTuple):
    """What a load takes; each with the ends of its interval.

    Attributes:
        milliseconds: CPU of one request.
        cores: that are busy all the time.
        provided: cores that are busy only a share of the time.
    """

    milliseconds: tuple[float, float, float]
    cores: tuple[float, float, float]
    provided: tuple[float, float, float]


def need(one: Fit, rate: float, point: tuple[float, float, float], busy: float) -> Need:
    """Return what ``rate`` requests a second of these documents, features and trees take."""
    milliseconds = one.predicted(*point)
    cores = tuple(rate * value / 1e3 for value in milliseconds)
    return Need(milliseconds, cores, tuple(value / busy for value in cores))  # type: ignore[arg-type]


def calculate(options: argparse.Namespace, rows: Sequence[results.Row]) -> None:
    """Print what the load takes, by wire."""
    table = []
    scale = 1.0
    if options.here:
        stick = yardstick(2000)
        scale = stick / reference()
        print(f"the yardstick takes {stick:.3f} ms here, {scale:.2f} times that of the quiet machine")
    for wire in [options.wire] if options.wire else WIRES:
        one = fit([row for row in rows if row["wire"] == wire])
        one = one._replace(middle=one.middle * scale, draws=one.draws * scale)
        found = need(one, options.rate, (options.documents, options.features, options.trees), options.busy)
        table.append(
            (
                wire,
                *(f"{middle:.3g} ({low:.3g} to {high:.3g})" for middle, low, high in found),
                math.ceil(found.provided[2]),
                f"{math.ceil(found.provided[2]) * options.price * 730:.0f}" if options.price else "–",
            )
        )
    print(
        f"{options.rate:g} requests a second of {options.documents:g} documents, {options.features:g} features, "
        f"{options.trees:g} trees; cores busy {options.busy:.0%} of the time"
    )
    print_table(
        ("wire", "CPU ms per request", "cores at work", "cores to provide", "cores, rounded up", "a month"),
        table,
    )
    largest = {name: max(row[name] for row in rows) for name in ("documents", "features", "trees")}
    for name, most in largest.items():
        if getattr(options, name) > most:
            print(
                f"{name}: {getattr(options, name):g} is beyond what was measured ({most}); measure before you buy"
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="measure; without it, calculate")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rate", type=_positive, default=1000.0, help="requests a second (default 1000)")
    parser.add_argument("--documents", type=_positive, default=100.0, help="of a request (default 100)")
    parser.add_argument("--features", type=_positive, default=136.0, help="of a document (default 136)")
    parser.add_argument("--trees", type=float, default=0.0, help="of the scorer; 0 is a linear one")
    parser.add_argument("--wire", choices=WIRES, help="default: both")
    parser.add_argument(
        "--busy", type=_share, default=0.5, help="share of the time that cores work (default 0.5)"
    )
    parser.add_argument("--price", type=float, default=0.0, help="of a core and hour")
    parser.add_argument("--here", action="store_true", help="calculate for this machine, by its yardstick")
    results.add_out(parser)
    options = parser.parse_args()
    if options.measure:
        rows, sticks = measure(options.repeats)
        print_table(
            ("wire", "documents", "features", "trees", "CPU ms", "least", "most"),
            [
                (row["wire"], row["documents"], row["features"], row["trees"], *_middle(row["cpu_ms"]))
                for row in rows
            ],
        )
        found = summary(rows)
        print()
        print_table(list(found[0]), [list(row.values()) for row in found])
        results.write(options.out, points=rows, yardsticks=sticks, coefficients=found)
        return 0
    read = results.read("capacity")
    if read is None:
        print(f"{_RESULTS}: none; run python -m benchmarks.capacity --measure --out {_RESULTS}")
        return 1
    calculate(options, read["points"])
    return 0


def _middle(values: Sequence[float]) -> tuple[str, str, str]:
    return f"{np.median(values):.3f}", f"{min(values):.3f}", f"{max(values):.3f}"


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text}")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share above 0, at most 1, found {text}")
    return value


if __name__ == "__main__":
    sys.exit(main())
