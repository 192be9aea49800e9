"""The ``relevance_score`` of a result, which rerank clients read: made of the score, in one of several ways.

Some clients store it as float32. The logistic function of a score is there 1 from 17.33 on, and near 16 only every 0.23 of a
score is another number. Scores themselves, and ranks, stay apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Vector
    from localrank_service.wire.answer import Ranked

Relevance: TypeAlias = Literal["sigmoid", "raw", "rank"]
RELEVANCES: tuple[Relevance, ...] = get_args(Relevance)
#: How each is made.
FORMULAS: Final[Mapping[Relevance, str]] = {
    "sigmoid": "1 / (1 + exp(-score))",
    "raw": "score",
    "rank": "1 - (rank - 1) / documents",
}


def relevance_of(ranked: Ranked) -> Vector:
    """Return the relevance of each result that is shown, in their order."""
    options, ranking = ranked.options, ranked.ranking
    order = options.shown(ranking.order)
    if options.relevance == "rank":
        first, count = options.offset, len(ranking.order)
        ranks: Vector = np.arange(first, first + len(order), dtype=np.float64)
        return 1.0 - ranks / max(count, 1)
    scores: Vector = ranking.scores[order]
    return scores if options.relevance == "raw" else logistic(scores)


def logistic(scores: Vector) -> Vector:
    r"""Return :math:`1 / (1 + e^{-s})`, which keeps the order and is between 0 and 1; exact at both ends."""
    with np.errstate(over="ignore", under="ignore"):
        smaller = np.exp(-np.abs(scores))
    relevance: Vector = np.where(scores >= 0, 1.0, smaller) / (1.0 + smaller)
    return relevance
