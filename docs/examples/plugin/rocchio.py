"""A learner of another package: Rocchio's direction from other documents to relevant ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from localrank.scorers import LinearScorer
from localrank.settings import setting
from localrank_training import Learner, Lesson


@dataclass(frozen=True, slots=True)
class Rocchio(Learner):
    """Learn the mean of the relevant documents less the mean of the others, in every query."""

    beta: float = setting(1.0, low=0, meaning="how much the other documents count")
    blocks: str = setting("normalised", meaning="blocks of features that are weighed")

    method: ClassVar[str] = "rocchio"
    #: What is tried if a configuration says nothing.
    grid: ClassVar[dict[str, list[float]]] = {"beta": [0.25, 1.0]}

    def fit(self, lesson: Lesson) -> LinearScorer:
        """Learn one scorer from weighted queries."""
        lesson.refuse_towards(self.method, "a mean has no starting point")
        lesson.check(self.method)
        queries = lesson.queries
        weights = np.zeros(queries.n_features)
        for query, share in enumerate(lesson.shares):
            documents = queries.documents_of(query).astype(np.float64)
            relevant = queries.labels_of(query) > 0
            if relevant.any() and not relevant.all():
                others = documents[~relevant].mean(axis=0)
                weights += share * (documents[relevant].mean(axis=0) - self.beta * others)
        return LinearScorer(weights, self.blocks)


#: What `--method rocchio` stands for: one global model.
METHOD = {"clustering": {"method": "none"}, "learner": {"method": "rocchio", "beta": [0.5, 1.0, 2.0]}}
