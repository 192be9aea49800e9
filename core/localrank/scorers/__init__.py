"""Scorers give the documents of a query their scores: one module per kind, one role for all (`role.Scorer`).

A new kind is one module here with its class in `SCORERS`.
"""

from __future__ import annotations

from localrank.scorers.anchored import AnchoredBySimilarityScorer, AnchoredScorer
from localrank.scorers.combination import BlendScorer, BordaScorer, SumScorer
from localrank.scorers.linear import LinearScorer, StumpScorer
from localrank.scorers.role import Leaf, Scorer, distinct
from localrank.scorers.trees import TreesScorer

__all__ = [
    "SCORERS",
    "AnchoredBySimilarityScorer",
    "AnchoredScorer",
    "BlendScorer",
    "BordaScorer",
    "Leaf",
    "LinearScorer",
    "Scorer",
    "StumpScorer",
    "SumScorer",
    "TreesScorer",
    "distinct",
]

#: Every kind of scorer that an artifact may hold.
SCORERS: dict[str, type[Scorer]] = {
    scorer.kind: scorer
    for scorer in (
        AnchoredBySimilarityScorer,
        AnchoredScorer,
        BlendScorer,
        BordaScorer,
        LinearScorer,
        StumpScorer,
        SumScorer,
        TreesScorer,
    )
}
