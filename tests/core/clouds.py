"""Clouds of documents and signatures for tests of the method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.features.contract import FeatureContract
from localrank.points.signature import PcaRepresentation, Signatures

if TYPE_CHECKING:
    from localrank.arrays import Indices, Matrix
    from localrank.features.blocks import Cloud


def as_cloud(documents: Matrix) -> Cloud:
    """Return documents as the cloud of a contract that changes nothing."""
    known = documents if len(documents) else np.zeros((1, documents.shape[1]), np.float32)
    return FeatureContract.learn(known, [len(known)], normalise="none").cloud(documents)


def cloud(
    random: np.random.Generator, n_docs: int, n_features: int, *, decay: float = 0.8, rank: int | None = None
) -> Matrix:
    """Return documents whose standard deviations along random directions fall by ``decay``."""
    rank = min(n_docs, n_features) if rank is None else rank
    directions = np.linalg.qr(random.standard_normal((n_features, n_features)))[0][:rank]
    documents = (random.standard_normal((n_docs, rank)) * decay ** np.arange(rank)) @ directions
    return np.asarray(documents, np.float32)


def scattered(count: int, n_features: int = 20, components: int = 3, seed: int = 0) -> Signatures:
    """Return signatures of unrelated queries, one of rank 2, one of rank 1 and one of rank 0 among them."""
    random = np.random.default_rng(seed)
    queries = [cloud(random, 12, n_features) for _ in range(count)]
    for query, rank in ((1, 2), (2, 1)):
        queries[query] = cloud(random, 12, n_features, rank=rank)
    queries[3] = queries[3][:1]
    return PcaRepresentation(components).sign_all(queries)


def clustered(
    count: int, clusters: int, spread: float, *, n_features: int = 24, components: int = 3, seed: int = 0
) -> tuple[Signatures, Indices]:
    """Return signatures around ``clusters`` centres, each of orthonormal directions with noise, and whose they are."""
    random = np.random.default_rng(seed)
    centres = np.linalg.qr(random.standard_normal((clusters, n_features, components)))[0]
    chosen = random.integers(clusters, size=count)
    noisy = centres[chosen] + spread * random.standard_normal((count, n_features, components)) / np.sqrt(
        n_features
    )
    directions = np.linalg.qr(noisy)[0].transpose(0, 2, 1)
    # A factorisation may turn a direction round; a signature has no sign either.
    return (
        Signatures(
            np.ascontiguousarray(directions, np.float32),
            np.tile(0.5 ** np.arange(components), (count, 1)),
            np.full(count, components, np.int64),
        ),
        chosen,
    )
