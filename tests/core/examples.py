"""Small rankers of every kind, for tests that must hold for all of them.

A new kind of scorer adds its example to `SCORER_EXAMPLES`, a new router its own to `ROUTER_EXAMPLES`; tests fail
while one is missing; so does a new representation, to `REPRESENTATION_EXAMPLES`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.artifact import Cluster, Provenance
from localrank.features.contract import FeatureContract
from localrank.points.gaussian import GaussianRepresentation
from localrank.points.of_query import KindRepresentation, PcaQueryRepresentation, QueryRepresentation
from localrank.points.signature import SIMILARITIES, PcaRepresentation, Signatures
from localrank.points.similarity import QueryMap
from localrank.points.vectors import (
    MeanRepresentation,
    SkewRepresentation,
    TopDocumentsRepresentation,
    TopScoresPcaRepresentation,
    VarianceRepresentation,
    VectorPoints,
)
from localrank.probe import choose
from localrank.ranker import Ranker
from localrank.routing.router import ExactRouter, GlobalRouter, Router
from localrank.routing.routers import (
    ROUTERS,
    CentroidRouter,
    ClassifierRouter,
    FusionRouter,
    KindRouter,
    LshRouter,
    MedoidRouter,
    OverlapRouter,
)
from localrank.routing.search import HyperplaneTables, draw_planes
from localrank.scorers import (
    AnchoredBySimilarityScorer,
    AnchoredScorer,
    BlendScorer,
    BordaScorer,
    LinearScorer,
    Scorer,
    StumpScorer,
    SumScorer,
    TreesScorer,
)
from localrank.scorers.anchored import CURVES
from localrank.scorers.combination import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix
    from localrank.points.representation import Representation

N_FEATURES = 6
_CLUSTERS = 3


def _linear(random: np.random.Generator) -> Scorer:
    return LinearScorer(random.standard_normal(N_FEATURES), "raw" if random.random() < 0.3 else "normalised")


def _trees(random: np.random.Generator) -> Scorer:
    # Chains of random lengths, each split with a leaf to its left; the last of all asks for a category.
    splits = random.integers(1, 5, size=7).astype(np.int32)
    own = np.concatenate([np.arange(count) for count in splits])
    last = own + 1 == np.repeat(splits, splits)
    decisions = random.choice([0, 2, 4, 6, 8, 10], len(own)).astype(np.uint8)
    decisions[-1] = 1
    thresholds = random.standard_normal(len(own))
    thresholds[-1] = 1
    return TreesScorer(
        splits=splits,
        features=random.integers(0, N_FEATURES, len(own)).astype(np.int32),
        thresholds=thresholds,
        decisions=decisions,
        left=(-1 - own).astype(np.int32),
        right=np.where(last, -2 - own, own + 1).astype(np.int32),
        values=random.standard_normal(len(own) + len(splits)),
        category_words=np.array([1, 2], np.int32),
        category_bits=random.integers(0, 2**32, 3).astype(np.uint32),
        blocks="raw" if random.random() < 0.3 else "normalised",
    )


def _stumps(random: np.random.Generator) -> Scorer:
    steps = int(random.integers(0, 12))
    return StumpScorer.of(
        random.integers(0, N_FEATURES, steps), random.random(steps), random.standard_normal(steps)
    )


def _borda(random: np.random.Generator) -> Scorer:
    members = tuple(LinearScorer(random.standard_normal(N_FEATURES)) for _ in range(3))
    return BordaScorer(members, random.random(3) + 0.1, RULES[int(random.integers(len(RULES)))])


def _anchored(random: np.random.Generator) -> AnchoredScorer:
    anchors, rows = random.integers(1, 4, 2)
    return AnchoredScorer(
        random.standard_normal((anchors, rows, N_FEATURES)),
        random.standard_normal((anchors, rows)),
        random.random(anchors),
        CURVES[int(random.integers(len(CURVES)))],
        "raw" if random.random() < 0.3 else "normalised",
    )


def _anchored_by_similarity(random: np.random.Generator) -> Scorer:
    member = _anchored(random)
    count = int(random.integers(1, 5))
    clouds = [random.standard_normal((5, N_FEATURES)).astype(np.float32) for _ in range(count)]
    return AnchoredBySimilarityScorer(
        member,
        random.random((count, len(member.weights))),
        random.random(count) / 2 + 0.1,
        PcaRepresentation(2).sign_all(clouds),
        SIMILARITIES[int(random.integers(len(SIMILARITIES)))],
        0.1 + random.random(),
    )


def _blocks(random: np.random.Generator) -> LinearScorer:
    return LinearScorer(random.standard_normal(3 * N_FEATURES), "[minmax, zscore * 0.25, rank]")


def _blend(random: np.random.Generator) -> Scorer:
    members = (_linear(random), _trees(random), _blocks(random))
    return BlendScorer(members, random.standard_normal(3))


def _sum(random: np.random.Generator) -> Scorer:
    return SumScorer((_trees(random), _blocks(random)))


#: One function for each kind of scorer: a random one of `N_FEATURES` features.
SCORER_EXAMPLES: dict[str, Callable[[np.random.Generator], Scorer]] = {
    AnchoredBySimilarityScorer.kind: _anchored_by_similarity,
    AnchoredScorer.kind: _anchored,
    BlendScorer.kind: _blend,
    BordaScorer.kind: _borda,
    LinearScorer.kind: _linear,
    StumpScorer.kind: _stumps,
    SumScorer.kind: _sum,
    TreesScorer.kind: _trees,
}


def _medoids(signatures: Signatures, clusters: np.ndarray) -> Signatures:
    return signatures.take(np.array([np.flatnonzero(clusters == c)[0] for c in range(_CLUSTERS)]))


def _centroids(points: VectorPoints, clusters: np.ndarray) -> CentroidRouter:
    means = np.stack([points.values[clusters == c].mean(axis=0) for c in range(_CLUSTERS)])
    return CentroidRouter(VectorPoints(means, np.ones(_CLUSTERS, np.bool_)))


def _weights(points: VectorPoints, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a softmax that prefers the cluster whose mean is nearest."""
    means = _centroids(points, clusters).centroids.values.astype(np.float64)
    return 3 * means, -1.5 * (means**2).sum(axis=1)


#: One function for each router, given training points of the kind that it takes and their clusters.
ROUTER_EXAMPLES: dict[str, Callable[..., Router]] = {
    "global": lambda _signatures, _clusters: GlobalRouter(),
    "medoid": lambda signatures, clusters: MedoidRouter(_medoids(signatures, clusters)),
    "centroid": _centroids,
    "classifier": lambda points, clusters: ClassifierRouter(*_weights(points, clusters)),
    "exact": ExactRouter,
    "kind": lambda points, clusters: KindRouter(
        np.array([points.values[clusters == c][0, 0] for c in range(_CLUSTERS)])
    ),
    "fusion": lambda points, clusters: FusionRouter(*_weights(points, clusters)),
    "lsh": lambda signatures, clusters: LshRouter(
        signatures,
        clusters,
        HyperplaneTables.build(signatures, draw_planes(N_FEATURES, 4, 3, seed=5)),
        rerank=7,
        similarity="subspace",
        exemplars=(0, 1, 2),
        exact_below=0,
    ),
    "overlap": lambda signatures, clusters: OverlapRouter(
        signatures, clusters, (np.arange(len(clusters))[:, None] + 3 * np.arange(4)) % len(clusters)
    ),
}


def example_queries(count: int = 24, seed: int = 0) -> list[Matrix]:
    """Return clouds of three kinds, each long in another direction."""
    random = np.random.default_rng(seed)
    queries = []
    for number in range(count):
        spread = np.full(N_FEATURES, 0.2)
        spread[[number % _CLUSTERS, _CLUSTERS + number % _CLUSTERS]] = 3.0, 1.5
        cloud = random.standard_normal((int(random.integers(5, 12)), N_FEATURES)) * spread
        queries.append(cloud.astype(np.float32))
    return queries


def _takes_vectors(strategy: str) -> bool:
    return ROUTERS[strategy].takes is VectorPoints


def _of_kind(query: np.ndarray, kind: int) -> np.ndarray:
    """Return the documents with the number of a kind as a feature of the query."""
    found = query.copy()
    found[:, 1] = kind
    return found


def example_ranker(strategy: str = "lsh", kind: str = "linear", seed: int = 0) -> Ranker:
    """Return a ranker of three clusters (none for ``global``)."""
    random = np.random.default_rng(seed)
    queries = example_queries(seed=seed)
    contract = FeatureContract.learn(
        np.concatenate(queries), [len(query) for query in queries], normalise="none"
    )
    representation: Representation = PcaRepresentation(2)
    if strategy == "kind":
        representation = KindRepresentation(1)
        queries = [_of_kind(query, number % _CLUSTERS) for number, query in enumerate(queries)]
    elif _takes_vectors(strategy):
        representation = MeanRepresentation()
        queries = [query + 3 * (number % _CLUSTERS) for number, query in enumerate(queries)]
    points = representation.of_all(map(contract.cloud, queries))
    scorers = [SCORER_EXAMPLES[kind](random) for _ in range(_CLUSTERS)]
    return Ranker(
        contract=contract,
        representation=representation,
        router=ROUTER_EXAMPLES[strategy](points, np.arange(len(queries)) % _CLUSTERS),
        scorers=() if strategy == "global" else tuple(scorers),
        global_scorer=SCORER_EXAMPLES[kind](random),
    )


def sharing_ranker(seed: int = 0) -> Ranker:
    """Return a ranker of three clusters whose scorers share members with the global one; the third is the global one."""
    random = np.random.default_rng(seed)
    trees, blocks = _trees(random), _blocks(random)
    whole = BlendScorer((trees, blocks), random.random(2) + 0.5)
    own = (
        BlendScorer((trees, blocks, _linear(random)), random.random(3) + 0.5),
        SumScorer((whole, _linear(random))),
    )
    return replace(example_ranker("lsh", seed=seed), scorers=(*own, whole), global_scorer=whole)


#: Two numbers of the query.
OF_QUERY = (np.array([1, 2]), np.zeros(2, np.int64), np.zeros(2), np.array([1.0, 2.0]), 2)
#: Every representation but signatures, which all other rankers here have, with a similarity that takes its points.
REPRESENTATION_EXAMPLES: dict[str, tuple[Representation, str]] = {
    "vectors": (MeanRepresentation(), "euclidean"),
    "variance": (VarianceRepresentation(), "euclidean"),
    "skew": (SkewRepresentation(), "euclidean"),
    "top_documents": (TopDocumentsRepresentation(2, 3, "smallest"), "euclidean"),
    "top_scores_pca": (
        TopScoresPcaRepresentation(np.ones(N_FEATURES), np.eye(N_FEATURES)[:2], 4),
        "euclidean",
    ),
    "value": (KindRepresentation(1), "euclidean"),
    "query": (QueryRepresentation(*OF_QUERY), "euclidean"),
    "pca+query": (PcaQueryRepresentation(*OF_QUERY, 2), "euclidean"),
    "gaussian": (GaussianRepresentation(np.eye(N_FEATURES), 0.5), "kl"),
    "gaussian_kernel": (GaussianRepresentation(np.eye(N_FEATURES), 0.25), "bhattacharyya"),
}


def representing_ranker(name: str, seed: int = 0) -> Ranker:
    """Return a ranker that compares its queries by one of `REPRESENTATION_EXAMPLES`."""
    representation, similarity = REPRESENTATION_EXAMPLES[name]
    ranker = example_ranker("exact", seed=seed)
    queries = [query + 3 * (number % _CLUSTERS) for number, query in enumerate(example_queries(seed=seed))]
    points = representation.of_all(map(ranker.contract.cloud, queries))
    router = ExactRouter(points, np.arange(len(queries)) % _CLUSTERS, similarity)
    return replace(ranker, representation=representation, router=router)


def example_map(ranker: Ranker, seed: int = 0) -> QueryMap | None:
    """Return a map of some training queries, with their points if the router holds none; nothing without clusters."""
    if not ranker.scorers:
        return None
    random = np.random.default_rng(seed)
    mapped = np.arange(0, 24, 2)
    coordinates = random.standard_normal((len(mapped), 2))
    points = ranker.representation.of_all(map(ranker.contract.cloud, example_queries(seed=seed)))
    similarity = "euclidean" if isinstance(points, VectorPoints) else "eq5"
    return QueryMap(
        queries=mapped,
        clusters=mapped % _CLUSTERS,
        coordinates=(coordinates - coordinates.mean(axis=0)).astype(np.float32),
        means=random.random(len(mapped)).astype(np.float32),
        similarity=getattr(ranker.router, "similarity", similarity),
        shown=0.5,
        points=points.take(mapped) if ranker.router.queries is None else None,
    )


def provenance(ranker: Ranker, seed: int = 0) -> Provenance:
    """Return a provenance with something in every place."""
    return Provenance(
        created="2026-01-31T12:00:00Z",
        source={"data": "sha256:0", "configuration": {"learner": {"C": 0.1}}, "seeds": [seed]},
        probe=choose(ranker, example_queries(12, seed=seed + 1), count=5),
        clusters=[Cluster(8, f"q{i}", {"ndcg@10": 0.5 + i / 8}) for i in range(len(ranker.scorers))],
        metrics={"ndcg@10": {"local": 0.5, "global": 0.4375, "p": 0.03}},
        notes=[{"cluster": 1, "note": "few queries"}],
        stability={"adjusted_rand": 0.75},
        query_map=example_map(ranker, seed),
    )
