"""Scoring the documents of a lesson, whose blocks are next to each other rather than in clouds."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.scorers.role import Leaf

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank.cloud import Cloud
    from localrank.scorers import Scorer
    from localrank_training.learners.lesson import Lesson

__all__ = ["scores_of"]


def scores_of(scorer: Scorer, lesson: Lesson) -> Vector:
    """Return ``[n_docs]`` the scores of a lesson's documents, query by query.

    A scorer of scorers looks at the scores of its members, so these are made first, each for all documents at once.
    """
    if isinstance(scorer, Leaf):
        return scorer.score_rows(lesson.seen_as(scorer.blocks).queries.documents)
    members = {member: scores_of(member, lesson) for member in scorer.members()}
    scores = np.empty(lesson.queries.n_docs)
    for query in range(len(lesson.queries)):
        span = lesson.queries.span(query)
        list_of = _List({member: of_all[span] for member, of_all in members.items()}, span.stop - span.start)
        scores[span] = scorer.score(cast("Cloud", list_of))
    return scores


class _List:
    """What a scorer of scorers asks of one query's cloud."""

    def __init__(self, scores: dict[Scorer, Vector], n_docs: int) -> None:
        self._scores, self._n_docs = scores, n_docs

    def __len__(self) -> int:
        return self._n_docs

    def scored(self, scorer: Scorer) -> Vector:
        return self._scores[scorer]
