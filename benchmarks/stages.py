"""What each stage of a request costs alone, beside the bare library call that it stands on.

    python -m benchmarks.stages [--documents 1,20,100,1000,5000] [--features 10,46,136,700] [--queries 100,10000,1000000] [--short]

Microseconds of CPU, medians, a stage and its bare call in turn on one BLAS thread:

======  ==================================================  =========================================
stage   what it does                                        bare
======  ==================================================  =========================================
npy     reads and checks the bytes of ``numpy.save``        ``numpy.frombuffer`` and a sum
json    reads and checks a body of ``/v1/rerank``           simdjson into a buffer, rounded to float32
view    checks, normalises                                  least, largest, subtract, divide
sign    finds the principal directions                      centre, one product, ``ssyevr``
route   finds the cluster (once per number of queries)      one product with all signatures
score   scores with a linear model, in double precision     one product in float32
order   checks and sorts                                    ``numpy.argsort``
encode  writes the results                                  ``orjson.dumps`` of the scores
======  ==================================================  =========================================

Training sets of a million queries are made for up to 46 features, and routed among once for each number of features:
routing does not know how many documents there were. The exit code is 1 where a stage that matters takes more than so many
times its bare call: see `MOST`.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson
from threadpoolctl import threadpool_limits

from benchmarks import floor, served_models
from benchmarks.routing import draw
from localrank.ranker import Ranking, best_first
from localrank.routing import LshRouter, Route
from localrank_service.wire import npy, rerank_json
from localrank_service.wire.query import Limits
from localrank_service.wire.results import results
from localrank_training.commands.output import print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

#: A stage may take so many times its bare call, where that takes `LEAST` microseconds at least.
MOST = {"json": 3.0, "view": 2.0, "sign": 1.6, "encode": 5.0}
LEAST = 50.0
#: Routing among most queries may take so many times routing among the fewest, or microseconds where that is more.
MOST_ROUTE = 600.0
#: Numbers in the directions of the largest training set: two gigabytes and a half.
MOST_NUMBERS = 1_000_000 * 46 * 5
LIMITS = Limits(max_documents=5000, refuse_extra_features=False)


class Stage(NamedTuple):
    """One stage on one query, and its bare call."""

    name: str
    ours: Callable[[], object]
    bare: Callable[[], object]


def stages(ranker: Ranker, documents: Matrix) -> Iterator[Stage]:
    """Return the stages that depend on the documents."""
    n_features = documents.shape[1]
    contract, signer, scorer = ranker.contract, ranker.signer, ranker.global_scorer
    view = contract.view(documents).normalised
    scores = scorer.score(view)
    weights = np.ones(n_features, np.float32)
    binary, text = served_models.as_npy(documents), served_models.as_json(documents)
    yield Stage(
        "npy",
        lambda: npy.read(binary, ()).documents(contract, LIMITS),
        lambda: floor.decode_npy(binary, n_features).sum(),
    )
    yield Stage(
        "json",
        lambda: rerank_json.read(text).documents(contract, LIMITS),
        lambda: floor.decode_json(text, n_features),
    )

    def rescaled() -> Matrix:
        low, high = documents.min(axis=0), documents.max(axis=0)
        found: Matrix = documents - low
        found /= np.where(high > low, high - low, np.float32(1.0))
        return found

    yield Stage("view", lambda: contract.view(documents), rescaled)

    def directions() -> object:
        if len(view) < 2:
            return None
        centred = view - view.mean(axis=0)
        if len(centred) < n_features:
            return floor.eigensolve(centred @ centred.T)
        return floor.eigensolve(centred.T @ centred)

    yield Stage("sign", lambda: signer.sign(view), directions)
    yield Stage("score", lambda: scorer.score(view), lambda: view @ weights)
    yield Stage("order", lambda: best_first(scores), lambda: np.argsort(scores))
    ranking = Ranking(best_first(scores), scores, Route("exact", 0), {})
    yield Stage("encode", lambda: results(ranking, None, None), lambda: orjson.dumps(scores.tolist()))


def measure(stage: Stage, budget: float = 0.15) -> tuple[float, float]:
    """Return the median microseconds of CPU of a stage and of its bare call."""
    ours: list[int] = []
    bare: list[int] = []
    until = time.process_time() + budget
    while len(ours) < 7 or (time.process_time() < until and len(ours) < 400):
        for call, times in ((stage.ours, ours), (stage.bare, bare)):
            started = time.process_time_ns()
            call()
            times.append(time.process_time_ns() - started)
    # The first calls find nothing in the caches.
    return float(np.median(ours[2:])) / 1e3, float(np.median(bare[2:])) / 1e3


def routes(n_queries: int, n_features: int) -> tuple[float, float]:
    """Return the median microseconds of routing new queries, and of a product with all signatures."""
    ranker = served_models.ranker(n_queries, n_features)
    router = ranker.router
    assert isinstance(router, LshRouter)
    components = ranker.signer.components
    asked, _ = draw("spread", 200, components, n_features, seed=9)
    signatures = router.signatures.directions.reshape(n_queries * components, n_features)
    ours: list[int] = []
    bare: list[int] = []
    for query in range(len(asked)):
        signature = asked.of(query)
        started = time.process_time_ns()
        router.route(signature)
        ours.append(time.process_time_ns() - started)
        if query < max(10, 10_000_000 // (n_queries * n_features)):
            started = time.process_time_ns()
            _ = signatures @ signature.directions[0]
            bare.append(time.process_time_ns() - started)
    return float(np.median(ours)) / 1e3, float(np.median(bare)) / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", default="1,20,100,1000,5000")
    parser.add_argument("--features", default="10,46,136,700")
    parser.add_argument("--queries", default="100,10000,1000000")
    parser.add_argument("--short", action="store_true", help="100 and 1,000 documents of 136 features")
    options = parser.parse_args()
    if options.short:
        options.documents, options.features, options.queries = "100,1000", "136", "1000,20000"
    widths = [int(width) for width in options.features.split(",")]
    rows: list[tuple[str | int, ...]] = []
    missed = []
    with threadpool_limits(1):
        for n_features in widths:
            ranker = served_models.ranker(100, n_features)
            for n_docs in map(int, options.documents.split(",")):
                for stage in stages(ranker, served_models.documents(n_docs, n_features)):
                    ours, bare = measure(stage)
                    rows.append(
                        (stage.name, n_docs, n_features, f"{ours:.0f}", f"{bare:.0f}", f"{ours / bare:.1f}")
                    )
                    if bare >= LEAST and ours > MOST.get(stage.name, np.inf) * bare:
                        missed.append(f"{stage.name} of {n_docs}×{n_features}")
        rows.sort(key=lambda row: list(MOST).index(str(row[0])) if row[0] in MOST else -1)
        print_table(("stage", "documents", "features", "µs", "bare µs", "times"), rows)
        found: list[tuple[str | int, ...]] = []
        for n_features in widths:
            for n_queries in map(int, options.queries.split(",")):
                if n_queries * n_features * served_models.COMPONENTS > MOST_NUMBERS:
                    continue
                ours, bare = routes(n_queries, n_features)
                found.append((n_queries, n_features, f"{ours:.0f}", f"{bare:.0f}", f"{ours / bare:.2f}"))
                if ours > MOST_ROUTE:
                    missed.append(f"route among {n_queries} of {n_features} features")
    print()
    print_table(("training queries", "features", "route µs", "one product µs", "times"), found)
    if missed:
        print(f"slower than allowed: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
