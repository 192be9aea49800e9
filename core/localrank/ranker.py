"""All of a model: from one query's documents to their order.

This is the only place where sign, route, score and order are spelled out. Training, evaluation and the service run
it, so the number reported offline belongs to the code that serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import ScoringFailed
from localrank.stages import untimed

if TYPE_CHECKING:
    from localrank.arrays import Indices, Matrix, Vector
    from localrank.contract import FeatureContract
    from localrank.routing import Route, Router
    from localrank.scorers import Scorer
    from localrank.signature import QuerySigner
    from localrank.stages import Stage

__all__ = ["Ranker", "Ranking", "best_first"]


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """What became of one query.

    Attributes:
        order: ``[n_docs]`` positions of the documents, best first.
        scores: ``[n_docs]`` in the order of the documents, not of the ranking.
        route: how the query found its scorer.
        imputed: ``{feature position: how many documents lacked it}``.
    """

    order: Indices
    scores: Vector
    route: Route
    imputed: dict[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Ranker:
    """Route a query to its cluster's scorer and order its documents.

    Immutable, so one instance may serve every thread.

    Attributes:
        contract: what the documents must be, and their views.
        signer: makes the signature that is routed.
        router: chooses the cluster.
        scorers: one per cluster.
        global_scorer: for queries that no cluster fits.
    """

    contract: FeatureContract
    signer: QuerySigner
    router: Router
    scorers: tuple[Scorer, ...]
    global_scorer: Scorer

    def rank(self, documents: Matrix, *, stage: Stage = untimed) -> Ranking:
        """Order one query's documents, ``[n_docs, n_features]`` float32, NaN being a missing value."""
        with stage("sign"):
            views = self.contract.view(documents)
            signature = self.signer.sign(views.normalised)
        with stage("route"):
            route = self.router.route(signature)
        with stage("score"):
            scorer = self.global_scorer if route.cluster is None else self.scorers[route.cluster]
            # A score that overflows is an error of its own, below; numpy need not warn of it as well.
            with np.errstate(over="ignore", invalid="ignore"):
                scores = scorer.score(views.of(scorer.view))
        with stage("order"):
            order = best_first(scores)
        return Ranking(order, scores, route, views.imputed)


def best_first(scores: Vector) -> Indices:
    """Return the positions of the scores, highest first.

    Stable: equal scores keep the caller's order, so ties are reproducible.
    """
    if not np.isfinite(scores).all():
        position = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise ScoringFailed(f"document {position} scored {scores[position]}; expected a finite score")
    return np.argsort(-scores, kind="stable")
