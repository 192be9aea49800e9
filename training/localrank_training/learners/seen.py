"""Scoring the documents of a lesson, whose blocks are next to each other rather than in clouds."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.scorers.role import Leaf, distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.arrays import Matrix, Vector
    from localrank.features.blocks import Cloud
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson


def scores_of(scorer: Scorer, lesson: Lesson) -> Vector:
    """Return ``[n_docs]`` the scores of a lesson's documents, query by query.

    A scorer of scorers looks at the scores of its members, so these are made first, each for all documents at once.
    """
    found: dict[Scorer, Vector] = {}
    for one in distinct([scorer]):
        found[one] = _scores_of(one, lesson, found)
    return found[scorer]


def _scores_of(scorer: Scorer, lesson: Lesson, found: Mapping[Scorer, Vector]) -> Vector:
    if isinstance(scorer, Leaf):
        return scorer.score_rows(lesson.seen_as(scorer.blocks).queries.documents)
    members = {member: found[member] for member in scorer.members()}
    seen: dict[str, QuerySet] = {}
    scores = np.empty(lesson.queries.n_docs)
    for query in range(len(lesson.queries)):
        span = lesson.queries.span(query)
        of_list = {member: of_all[span] for member, of_all in members.items()}
        scores[span] = scorer.score(cast("Cloud", _List(lesson, query, of_list, seen)))
    return scores


class _List:
    """What a scorer of scorers, or one that looks at the whole list, asks of one query's cloud."""

    def __init__(
        self, lesson: Lesson, query: int, scores: dict[Scorer, Vector], seen: dict[str, QuerySet]
    ) -> None:
        self._lesson, self._query, self._scores, self._seen = lesson, query, scores, seen

    def __len__(self) -> int:
        return int(self._lesson.queries.lengths[self._query])

    def rows(self, blocks: str) -> Matrix:
        if blocks not in self._seen:
            self._seen[blocks] = self._lesson.seen_as(blocks).queries
        return self._seen[blocks].documents_of(self._query)

    def scored(self, scorer: Scorer) -> Vector:
        return self._scores[scorer]
