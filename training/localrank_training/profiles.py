"""How well one ranking does on every query, by eight metrics: the profile of adaptive training [kuzi2019; cremers2020]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank.metrics import Judgements

#: The metrics of a profile (Cremers et al., section 3).
PROFILE = ("ndcg@3", "ndcg@5", "ndcg@10", "map@100", "mrr@100", "p@3", "p@5", "p@10")


def profile_of(judgements: Judgements, scores: Vector) -> Vector:
    """Return ``[n_queries, 8]`` the metrics of one ranking; documents of equal scores are ranked worst first."""
    measured = judgements.measure(scores, PROFILE, ties="pessimistic")
    return np.column_stack([one.per_query for one in measured])
