"""Why a query went where it went: what ``"explain": "route"`` adds to the answer.

Computed beside the ranking, so that requests which do not ask for it do not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.routing import CentroidRouter, ExactRouter, LshRouter
from localrank.similarity import one_to_many

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.ranker import Ranker
    from localrank.signature import Signature

__all__ = ["explain"]


def explain(ranker: Ranker, documents: Matrix) -> dict[str, Any]:
    """Return the query's signature in short, and how near each cluster's nearest training query is.

    ``clusters`` is ``None`` where the router does not compare signatures, or the query has none.
    """
    signature = ranker.signer.sign(ranker.contract.view(documents).normalised)
    nearest = _nearest(ranker, signature) if signature.rank else None
    return {
        "signature": {
            "components": len(signature.directions),
            "rank": signature.rank,
            "eigenvalues": signature.eigenvalues[: signature.rank].tolist(),
        },
        "clusters": None
        if nearest is None
        else [
            {"cluster": int(cluster), "similarity": float(nearest[cluster])}
            for cluster in np.argsort(-nearest, kind="stable")
            if np.isfinite(nearest[cluster])
        ],
    }


def _nearest(ranker: Ranker, signature: Signature) -> Vector | None:
    """Return ``[n_clusters]``, the similarity to the most similar training query of each cluster."""
    router = ranker.router
    if isinstance(router, CentroidRouter):
        return one_to_many(signature, router.medoids, router.similarity)
    if isinstance(router, ExactRouter | LshRouter):
        nearest = np.full(len(ranker.scorers), -np.inf)
        similarities = one_to_many(signature, router.signatures, router.similarity)
        np.maximum.at(nearest, router.clusters, similarities)
        return nearest
    return None
