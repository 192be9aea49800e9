"""How many hash tables and hyperplanes are needed to agree with the exact scan, and how long a look-up then takes.

Agreement is measured on signatures that are not in the tables: those given, or a share of the training queries held
out. Times are of this machine and only to be compared with one another.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank.routing.router import ExactRouter
from localrank.routing.routers import LshRouter
from localrank.routing.search import MOST_PLANES, HyperplaneTables, automatic_planes, draw_planes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices
    from localrank.points.signature import Signatures, Similarity
    from localrank.routing.route import Route
    from localrank.routing.router import Router

#: At most this many held-out signatures are routed; this gives the agreement to about 2 %.
_MOST_HELD = 500


@dataclass(frozen=True, slots=True)
class TablesTrial:
    """One choice of ``m`` and ``h``, or the exact scan, which has neither.

    Attributes:
        tables: m, for each component; 0 is the exact scan.
        planes: h; 0 is the exact scan.
        milliseconds: median time of a route.
        recall: how often the most similar training query was found.
        agreement: how often the cluster is that of the exact scan.
        candidates: median number of training queries compared.
        chosen: the fastest of those that agree often enough, or the one that agrees most often if none does.
    """

    tables: int
    planes: int
    milliseconds: float
    recall: float
    agreement: float
    candidates: float
    chosen: bool = False


def tune_tables(
    signatures: Signatures,
    clusters: Indices,
    held: Signatures | None = None,
    *,
    wanted: float = 0.95,
    tables: Sequence[int] = (4, 8, 16, 32),
    planes: Sequence[int] | None = None,
    similarity: Similarity = "eq5",
    seed: int = 0,
) -> tuple[TablesTrial, ...]:
    """Try every number of tables with every number of planes; the exact scan stands first.

    Args:
        signatures: of the training queries.
        clusters: ``[n_queries]``; -1, those without a signature, are left out.
        held: other signatures; without them a tenth of the training queries is held out.
        wanted: the agreement with the exact scan that is enough.
        tables: numbers of tables to try.
        planes: numbers of hyperplanes to try; by default those around `automatic_planes`.
        similarity: by which form candidates are compared.
        seed: of what is held out, and of the hyperplanes.

    Raises:
        InvalidData: there are too few queries with a signature.
    """
    known = np.random.default_rng(seed).permutation(np.flatnonzero(clusters >= 0))
    if held is None:
        apart = min(_MOST_HELD, len(known) // 10)
        held, known = signatures.take(known[:apart]), known[apart:]
    held = held.take(np.flatnonzero(held.ranks > 0)[:_MOST_HELD])
    if not len(held) or not len(known):
        raise InvalidData(
            f"tuning hash tables needs queries with a signature: found {len(held)} held-out ones and "
            f"{len(known)} to compare them with"
        )
    known = np.sort(known)
    theirs, theirs_clusters = signatures.take(known), clusters[known]
    if planes is None:
        middle = automatic_planes(len(known))
        planes = sorted({int(np.clip(middle + step, 2, MOST_PLANES)) for step in (-4, -2, 0, 2)})
    milliseconds, truth = _routed(ExactRouter(theirs, theirs_clusters, similarity), held)
    trials = [TablesTrial(0, 0, milliseconds, 1.0, 1.0, float(len(known)))]
    for m in tables:
        for h in planes:
            built = HyperplaneTables.build(theirs, draw_planes(theirs.directions.shape[2], m, h, seed), seed)
            router = LshRouter(theirs, theirs_clusters, built, similarity=similarity, exact_below=0)
            milliseconds, routes = _routed(router, held)
            pairs = list(zip(routes, truth, strict=True))
            trials.append(
                TablesTrial(
                    tables=m,
                    planes=h,
                    milliseconds=milliseconds,
                    recall=float(np.mean([_as_similar(ours, best) for ours, best in pairs])),
                    agreement=float(np.mean([ours.cluster == best.cluster for ours, best in pairs])),
                    candidates=float(np.median([route.candidates for route in routes])),
                )
            )
    return _with_choice(trials, wanted)


def _with_choice(trials: list[TablesTrial], wanted: float) -> tuple[TablesTrial, ...]:
    tried = range(1, len(trials))
    enough = [trial for trial in tried if trials[trial].agreement >= wanted]
    best = (
        min(enough, key=lambda trial: trials[trial].milliseconds)
        if enough
        else max(tried, key=lambda trial: trials[trial].agreement)
    )
    return tuple(
        TablesTrial(
            one.tables, one.planes, one.milliseconds, one.recall, one.agreement, one.candidates, trial == best
        )
        for trial, one in enumerate(trials)
    )


def _routed(router: Router, held: Signatures) -> tuple[float, list[Route]]:
    times, routes = [], []
    for query in range(len(held)):
        signature = held.of(query)
        start = time.perf_counter()
        routes.append(router.route(signature))
        times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times)), routes


def _as_similar(ours: Route, best: Route) -> bool:
    # Sums of float32 products differ in their last digits with the place of a query among the compared.
    return (
        ours.similarity is not None
        and best.similarity is not None
        and ours.similarity > best.similarity - 1e-6
    )
