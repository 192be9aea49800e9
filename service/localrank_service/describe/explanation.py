"""Why a query went where it went: what ``"explain": "route"`` adds to the answer.

Computed beside the ranking, so that requests which do not ask for it do not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

__all__ = ["explain"]


def explain(ranker: Ranker, documents: Matrix) -> dict[str, Any]:
    """Return the query's point in short, and how near each cluster's nearest training query is.

    The point stands under its kind, such as ``signature``. ``clusters`` is ``None`` if the router does not compare
    points, or the query's cannot be compared.
    """
    point = ranker.representation.of(ranker.contract.cloud(documents))
    nearest = ranker.router.nearest(point, len(ranker.scorers))
    summary = point.summary()
    return {
        **({point.kind: summary} if summary else {}),
        "clusters": None
        if nearest is None
        else [
            {"cluster": int(cluster), "similarity": float(nearest[cluster])}
            for cluster in np.argsort(-nearest, kind="stable")
            if np.isfinite(nearest[cluster])
        ],
    }
