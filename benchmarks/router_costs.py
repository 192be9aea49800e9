"""What finding the cluster costs with each router: the table ``routers`` of ``python -m benchmarks.stages``.

Five clusters; signatures of P = 5, vectors as wide as the features. The bare call is one product with as many numbers as the
router compares: all training queries, one point per cluster, or one row of weights per cluster. ``fusion, scored`` is the
routing and the scoring of a query together: it scores with every cluster, so it stands beside the scoring with one.
``no clusters, scored`` is a ranking by a version without clusters; it stands beside one whose clusters all have the global scorer.
Normal distributions (``kl``, ``bhattacharyya``) are compared if the covariances are not too large.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import served_models
from benchmarks.routing import draw
from localrank.points.gaussian import GaussianPoints, GaussianRepresentation
from localrank.points.signature import PcaRepresentation
from localrank.points.vectors import MeanRepresentation, VectorPoint, VectorPoints
from localrank.ranker import Ranker
from localrank.routing.router import ExactRouter, GlobalRouter
from localrank.routing.routers import (
    CentroidRouter,
    ClassifierRouter,
    FusionRouter,
    MedoidRouter,
    OverlapRouter,
)
from localrank.scorers import LinearScorer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank.routing.router import Router

CLUSTERS, NEIGHBOURS, ASKED = 5, 10, 64
#: Numbers of all covariances up to which normal distributions are compared.
MOST_COVARIANCES = 20_000_000


def router_calls(
    n_queries: int, n_features: int
) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Yield the name, one routing of a new query, and the bare product, of every router."""
    random = np.random.default_rng(0)
    components = min(served_models.COMPONENTS, n_features)
    clusters = np.arange(n_queries) % CLUSTERS
    neighbours = random.integers(0, n_queries, (n_queries, NEIGHBOURS))
    signatures, _ = draw("spread", n_queries, components, n_features, seed=1)
    asked, _ = draw("spread", ASKED, components, n_features, seed=9)
    directions = signatures.directions.reshape(n_queries * components, n_features)
    drawn = random.standard_normal((n_queries, n_features)).astype(np.float32)
    vectors = VectorPoints(drawn, np.ones(n_queries, np.bool_))
    points = [VectorPoint(row) for row in random.standard_normal((ASKED, n_features)).astype(np.float32)]
    weights = random.standard_normal((CLUSTERS, n_features))
    few, means = np.arange(CLUSTERS), vectors.take(np.arange(CLUSTERS))
    fusion = FusionRouter(weights, np.zeros(CLUSTERS))

    def one_each(router: Router, of: list[object], numbers: np.ndarray) -> tuple[Callable[[], object], ...]:
        turn = iter(range(2**62))
        return (
            lambda: router.route(of[next(turn) % ASKED]),  # type: ignore[arg-type]
            partial(np.matmul, numbers, numbers[0]),
        )

    by_signature: list[object] = [asked.of(query) for query in range(ASKED)]
    by_vector: list[object] = list(points)
    for name, router, of, numbers in (
        ("exact, signatures", ExactRouter(signatures, clusters), by_signature, directions),
        (
            "exact, average member",
            ExactRouter(signatures, clusters, "eq5", "average"),
            by_signature,
            directions,
        ),
        ("overlap, signatures", OverlapRouter(signatures, clusters, neighbours), by_signature, directions),
        ("medoid", MedoidRouter(signatures.take(few)), by_signature, directions[: CLUSTERS * components]),
        ("exact, vectors", ExactRouter(vectors, clusters, "euclidean"), by_vector, drawn),
        ("centroid", CentroidRouter(means), by_vector, drawn[:CLUSTERS]),
        ("classifier", ClassifierRouter(weights, np.zeros(CLUSTERS)), by_vector, weights),
        ("fusion", fusion, by_vector, weights),
    ):
        ours, bare = one_each(router, of, numbers)
        yield name, ours, bare
    if n_queries * n_features**2 <= MOST_COVARIANCES:
        normal, distributions = _gaussians(n_queries, n_features)
        flat = normal.precisions.reshape(n_queries, n_features**2)
        ours, bare = one_each(ExactRouter(normal, clusters, "kl"), distributions, flat)
        yield "exact, kl", ours, bare
        for similarity in ("kl", "bhattacharyya"):
            router = MedoidRouter(normal.take(few), similarity)
            ours, bare = one_each(router, distributions, flat[:CLUSTERS])
            yield f"medoid, {similarity}", ours, bare
    yield ("fusion, scored", *_scored(fusion, n_features))
    yield ("no clusters, scored", *_unrouted(ExactRouter(signatures, clusters), n_features))


def _gaussians(n_queries: int, n_features: int) -> tuple[GaussianPoints, list[object]]:
    """Return normal distributions of training queries, some of them the same, and of queries that are asked."""
    contract = served_models.ranker(100, n_features).contract
    clouds = [contract.cloud(served_models.documents(20, n_features) + query) for query in range(ASKED)]
    points = GaussianRepresentation(np.eye(n_features), 0.5).of_all(clouds)
    return points.take(np.arange(n_queries) % ASKED), [points.of(query) for query in range(ASKED)]


def _unrouted(router: ExactRouter, n_features: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the ranking of a hundred documents without clusters, and with clusters that all have the global scorer."""
    made = served_models.ranker(100, n_features)
    signer = PcaRepresentation(router.points.directions.shape[1])  # type: ignore[attr-defined]
    whole, documents = made.global_scorer, served_models.documents(100, n_features)
    alone = Ranker(made.contract, signer, GlobalRouter(), (), whole)
    routed = Ranker(made.contract, signer, router, (whole,) * CLUSTERS, whole)
    return partial(alone.rank, documents), partial(routed.rank, documents)


def _scored(fusion: FusionRouter, n_features: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the routing and scoring of a hundred documents by fusion, and the same by the most probable cluster."""
    made = served_models.ranker(100, n_features)
    scorers = tuple(
        LinearScorer(row) for row in np.random.default_rng(3).standard_normal((CLUSTERS, n_features))
    )
    routed = (fusion, ClassifierRouter(fusion.weights, fusion.intercepts))
    documents = served_models.documents(100, n_features)
    rankers = [
        Ranker(made.contract, MeanRepresentation(), router, scorers, made.global_scorer) for router in routed
    ]
    return tuple(partial(ranker.rank, documents) for ranker in rankers)  # type: ignore[return-value]
