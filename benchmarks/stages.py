"""What each stage of a request costs alone, beside the bare library call that it stands on.

    python -m benchmarks.stages [--documents 1,20,100,1000,5000] [--features 10,46,136,700]
                                [--queries 100,1000,10000,1000000] [--parts stages,blocks,representations,routes,routers]
                                [--short] [--out FILE]

Microseconds of CPU, medians of many turns, a stage and its bare call one after the other on one BLAS thread:

======  ==================================================  =========================================
stage   what it does                                        bare
======  ==================================================  =========================================
npy     reads and checks the bytes of ``numpy.save``        ``numpy.frombuffer`` and a sum
json    reads and checks a body of ``/v1/rerank``           simdjson into a buffer, rounded to float32
cloud   checks, normalises                                  least, largest, subtract, divide
sign    finds the principal directions                      centre, one product, ``ssyevr``
route   finds the cluster (once per number of queries)      one product with all signatures
score   scores with a linear model, in double precision     one product in float32
order   checks and sorts                                    ``numpy.argsort``
encode  writes the results                                  ``orjson.dumps`` of the scores
======  ==================================================  =========================================

The blocks of a cloud (`localrank.features.blocks`), which are made only if a scorer wants them:

=========  ===================================================  =======================================
block      what it does                                         bare
=========  ===================================================  =======================================
raw        nothing: the documents are there                     nothing
minmax     as ``normalised``, if the contract has another one   least, largest, subtract, divide
zscore     the same                                             mean, deviation, subtract, divide
rank       mid-rank percentiles                                 ``numpy.argsort`` of every column
to_best    distance to the largest value                        largest, subtract, divide
quadratic  products of every two values, if not too many        two gathers and a product
list       principal variances over their sum                   centre, one product, ``ssyevr``
route      similarity and shares of five clusters               ``numpy.tile``
together   ``[raw, minmax, zscore, rank]`` next to each other   four copies
=========  ===================================================  =======================================

What every representation costs is the table ``representations`` (`benchmarks.representation_costs`), and what every other
router costs the table ``routers`` (`benchmarks.router_costs`).

Routing does not know how many documents there were, so it is measured once for each number of training queries and
features. The directions of a million queries of 700 features are 14 GB; a training set that does not fit into the
memory that is free is left out, and the results say so. The exit code is 1 if a stage takes too many times as long as
its bare call: see `MOST`, `MOST_BLOCK` and `MOST_ROUTE`. ``--parts`` measures some of the tables, and leaves the others
in ``FILE`` as they are.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson
from threadpoolctl import threadpool_limits

from benchmarks import floor, results, served_models
from benchmarks.representation_costs import directions, representation_calls
from benchmarks.router_costs import router_calls
from benchmarks.routing import draw
from localrank.commands.output import print_table
from localrank.features.blocks import Cloud
from localrank.ranker import Ranking, best_first
from localrank.routing.route import Route
from localrank.routing.routers import LshRouter
from localrank_service.apis.rerank import npy
from localrank_service.apis.rerank import reader as rerank_json
from localrank_service.wire.answer import Ranked
from localrank_service.wire.answer import results as encoded
from localrank_service.wire.query import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

#: Times its bare call that a stage may take, by documents of 136 features: head room of half over what compiled code took,
#: so that twice as slow is noticed, on the slower of two kinds of processor: one interprets three times as slowly and sums
#: as fast. Reading npy checks the shape and touches no number, which a sum does.
MOST = {
    100: {"npy": 2.9, "json": 1.2, "cloud": 0.8, "sign": 0.75, "score": 5.5, "order": 3.2, "encode": 7.5},
    1000: {"npy": 0.8, "json": 1.0, "cloud": 0.5, "sign": 0.95, "score": 9.5, "order": 4.5, "encode": 6.2},
}
#: The same of the blocks.
MOST_BLOCK = {
    100: {"minmax": 0.8, "zscore": 0.7, "rank": 1.1, "to_best": 1.5, "list": 0.8, "route": 2.5},
    1000: {"minmax": 0.5, "zscore": 0.7, "rank": 1.1, "to_best": 0.75, "list": 1.0, "route": 2.5},
}
#: Times one product with all signatures that routing may take, by training queries of 136 features.
MOST_ROUTE = {1000: 2.2, 20_000: 0.13}
GATED_FEATURES = 136
#: Training queries up to which every router is measured; beyond, hash tables are what routes.
MOST_SCANNED = 10_000
#: Numbers of the block ``quadratic`` up to which it is measured, twice over.
MOST_PRODUCTS = 50_000_000
#: Microseconds that a turn lasts at least: what takes less is called several times.
TURN = 100.0
LIMITS = Limits(max_documents=5000, refuse_extra_features=False)


class Stage(NamedTuple):
    """One stage on one query, and its bare call."""

    name: str
    ours: Callable[[], object]
    bare: Callable[[], object]


def stages(ranker: Ranker, documents: Matrix) -> Iterator[Stage]:
    """Return the stages that depend on the documents."""
    n_features = documents.shape[1]
    contract, representation, scorer = ranker.contract, ranker.representation, ranker.global_scorer
    cloud = contract.cloud(documents)
    view = cloud.normalised
    scores = scorer.score(cloud)
    weights = np.ones(n_features, np.float32)
    binary, text = served_models.as_npy(documents), served_models.as_json(documents)
    yield Stage(
        "npy",
        lambda: npy.read(binary, b"", LIMITS).documents(contract),
        lambda: floor.decode_npy(binary, n_features).sum(),
    )
    yield Stage(
        "json",
        lambda: rerank_json.JsonQuery.read(text, LIMITS).documents(contract),
        lambda: floor.decode_json(text, n_features),
    )
    yield Stage("cloud", lambda: contract.cloud(documents), lambda: rescaled(documents))
    yield Stage("sign", lambda: representation.of(cloud), lambda: directions(view))
    yield Stage("score", lambda: scorer.score(cloud), lambda: view @ weights)
    yield Stage("order", lambda: best_first(scores), lambda: np.argsort(scores))
    ranking = Ranking(best_first(scores), scores, Route("exact", 0), {})
    asked = npy.read(binary, b"", LIMITS)
    ranked = Ranked("m", 1, ranker, asked.options, asked.documents(contract), ranking, None, 0)
    yield Stage("encode", lambda: encoded(ranked), lambda: orjson.dumps(scores.tolist()))


def rescaled(documents: Matrix) -> Matrix:
    low, high = documents.min(axis=0), documents.max(axis=0)
    found: Matrix = documents - low
    found /= np.where(high > low, high - low, np.float32(1.0))
    return found


def standardised(documents: Matrix) -> Matrix:
    found: Matrix = documents - documents.mean(axis=0)
    found /= np.maximum(documents.std(axis=0), np.float32(1e-30))
    return found


def blocks(ranker: Ranker, documents: Matrix) -> Iterator[Stage]:
    """Return the making of each block alone, from a cloud that holds the documents on another scale."""
    contract = replace(ranker.contract, normalise="global_zscore")
    view = contract.cloud(documents).normalised
    scale = contract.scale.astype(np.float32)
    route = Route("exact", 2, 0.75)

    def making(name: str) -> Callable[[], object]:
        return lambda: Cloud(contract, documents, documents, view, {}).block(name)

    def routed() -> object:
        cloud = Cloud(contract, documents, documents, view, {})
        cloud.routed(route, 5)
        return cloud.block("route")

    yield Stage("raw", making("raw"), lambda: documents)
    yield Stage("minmax", making("minmax"), lambda: rescaled(documents))
    yield Stage("zscore", making("zscore"), lambda: standardised(documents))
    yield Stage("rank", making("rank"), lambda: np.argsort(documents, axis=0))
    yield Stage("to_best", making("to_best"), lambda: (documents.max(axis=0) - documents) / scale)
    yield Stage("list", making("list"), lambda: directions(view))
    if len(documents) * documents.shape[1] ** 2 < MOST_PRODUCTS:
        first, second = np.triu_indices(documents.shape[1])
        yield Stage("quadratic", making("quadratic"), lambda: view[:, first] * view[:, second])
    row = np.zeros(6, np.float32)
    yield Stage("route", routed, lambda: np.tile(row, (len(documents), 1)))
    yield Stage(
        "together",
        lambda: Cloud(contract, documents, documents, view, {}).rows("[raw, minmax, zscore, rank]"),
        lambda: np.concatenate([documents] * 4, axis=1),
    )


def representations(ranker: Ranker, documents: Matrix) -> Iterator[Stage]:
    """Return the making of a point by each representation."""
    for name, ours, bare in representation_calls(ranker, documents):
        yield Stage(name, ours, bare)


def measure(stage: Stage, budget: float = 0.15) -> tuple[float, float]:
    """Return the median microseconds of CPU of a stage and of its bare call."""
    calls = (stage.ours, stage.bare)
    # The first calls find nothing in the caches.
    counts = [max(1, int(TURN / max(_microseconds(call, 3), 0.1))) for call in calls]
    times: list[list[float]] = [[], []]
    until = time.process_time() + budget
    while len(times[0]) < 7 or (time.process_time() < until and len(times[0]) < 400):
        for call, count, taken in zip(calls, counts, times, strict=True):
            taken.append(_microseconds(call, count))
    ours, bare = (float(np.median(taken)) for taken in times)
    return ours, bare


def _microseconds(call: Callable[[], object], count: int) -> float:
    started = time.process_time_ns()
    for _ in range(count):
        call()
    return (time.process_time_ns() - started) / count / 1e3


def routes(n_queries: int, n_features: int) -> tuple[float, float]:
    """Return the median microseconds of routing new queries, and of a product with all signatures."""
    ranker = served_models.ranker(n_queries, n_features)
    router = ranker.router
    assert isinstance(router, LshRouter)
    components = served_models.COMPONENTS
    asked, _ = draw("spread", 200, components, n_features, seed=9)
    signatures = router.points.directions.reshape(n_queries * components, n_features)
    ours: list[float] = []
    bare: list[float] = []
    for query in range(len(asked)):
        signature = asked.of(query)
        ours.append(_microseconds(partial(router.route, signature), 1))
        if query < max(10, 10_000_000 // (n_queries * n_features)):
            bare.append(_microseconds(partial(np.matmul, signatures, signature.directions[0]), 1))
    return float(np.median(ours)), float(np.median(bare))


def fits(n_queries: int, n_features: int) -> bool:
    """Tell whether a training set can be made: its directions, its tables, and a gigabyte on the way."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    directions = 4 * n_queries * n_features * served_models.COMPONENTS
    tables = 3 * 4 * n_queries * served_models.COMPONENTS * 16
    return directions * 1.1 + tables + 1e9 < free


#: What is measured, and what names a row of it.
PARTS: dict[str, tuple[str, ...]] = {
    "stages": ("stage", "documents", "features"),
    "blocks": ("block", "documents", "features"),
    "representations": ("representation", "documents", "features"),
    "routes": ("queries", "features"),
    "routers": ("router", "queries", "features"),
}
#: What depends on the documents.
MEASURED = {"stages": stages, "blocks": blocks, "representations": representations}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", default="1,20,100,1000,5000")
    parser.add_argument("--features", default="10,46,136,700")
    parser.add_argument("--queries", default="100,1000,10000,1000000")
    parser.add_argument("--parts", default=",".join(PARTS), help="the tables that are measured")
    parser.add_argument("--short", action="store_true", help="100 and 1,000 documents of 136 features")
    results.add_out(parser)
    options = parser.parse_args()
    if options.short:
        options.documents, options.features, options.queries = "100,1000", "136", "1000,20000"
    widths, sizes, sets = (
        [int(number) for number in numbers.split(",")]
        for numbers in (options.features, options.documents, options.queries)
    )
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: expected some of {', '.join(PARTS)}, found {', '.join(sorted(unknown))}")
    found: dict[str, list[results.Row]] = {}
    with threadpool_limits(1):
        for part in parts:
            named = PARTS[part]
            found[part] = [
                row
                for width in widths
                for row in (
                    route_rows(width, sets)
                    if part == "routes"
                    else router_rows(width, sets)
                    if part == "routers"
                    else stage_rows(named[0], MEASURED[part], width, sizes)
                )
            ]
            show(found[part], named)
            print()
    write = results.write if parts == list(PARTS) else results.write_beside
    write(options.out, **found)
    missed = [
        f"{row[PARTS[part][0]]} of {row['documents']} documents"
        for part, most in (("stages", MOST), ("blocks", MOST_BLOCK))
        for row in found.get(part, [])
        if row["features"] == GATED_FEATURES
        and row["us"] > most.get(row["documents"], {}).get(row[PARTS[part][0]], np.inf) * row["bare_us"]
    ] + [
        f"route among {row['queries']} training queries"
        for row in found.get("routes", [])
        if row["features"] == GATED_FEATURES
        and row["us"] is not None
        and row["us"] > MOST_ROUTE.get(row["queries"], np.inf) * row["bare_us"]
    ]
    if missed:
        print(f"slower than allowed, of {GATED_FEATURES} features: {', '.join(missed)}")
    return int(bool(missed))


def stage_rows(
    what: str,
    of: Callable[[Ranker, Matrix], Iterator[Stage]],
    n_features: int,
    sizes: list[int],
) -> Iterator[results.Row]:
    """Measure what depends on the documents."""
    ranker = served_models.ranker(100, n_features)
    for n_docs in sizes:
        for stage in of(ranker, served_models.documents(n_docs, n_features)):
            ours, bare = measure(stage)
            yield {
                what: stage.name,
                "documents": n_docs,
                "features": n_features,
                "us": ours,
                "bare_us": bare,
            }


def route_rows(n_features: int, sets: list[int]) -> Iterator[results.Row]:
    """Measure routing; where a training set does not fit into memory there are no figures."""
    for n_queries in sets:
        gc.collect()  # the training set before this one
        ours, bare = routes(n_queries, n_features) if fits(n_queries, n_features) else (None, None)
        yield {"queries": n_queries, "features": n_features, "us": ours, "bare_us": bare}


def router_rows(n_features: int, sets: list[int]) -> Iterator[results.Row]:
    """Measure every router, among as many training queries as a scan is made for."""
    for n_queries in sets:
        if n_queries <= MOST_SCANNED:
            for name, ours, bare in router_calls(n_queries, n_features):
                taken, floor_taken = measure(Stage(name, ours, bare))
                yield {
                    "router": name,
                    "queries": n_queries,
                    "features": n_features,
                    "us": taken,
                    "bare_us": floor_taken,
                }


def show(rows: list[results.Row], named: tuple[str, ...]) -> None:
    print_table(
        (*named, "µs", "bare µs", "times"),
        [
            (
                *(row[name] for name in named),
                *(
                    (f"{row['us']:.1f}", f"{row['bare_us']:.1f}", f"{row['us'] / row['bare_us']:.2f}")
                    if row["us"] is not None
                    else ("does not fit into memory", "", "")
                ),
            )
            for row in rows
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
