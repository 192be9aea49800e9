r"""GMML as a ranker: documents are near to one ideal document, in one geometric mean metric [su2017, algorithm 1].

.. math:: f(x) = -\|W(x - a)\|

See `localrank_papers.learners.geometric_mean` for the metric. The anchor ``a`` is also used for queries without
judgements, so it is chosen on the training queries: the relevant document by whose nearness they are ranked best, or
the mean of the relevant documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from localrank.blocks import parse
from localrank.metrics import Metric
from localrank.scorers import AnchoredScorer
from localrank.settings import setting

# `checked` reads the annotations of settings when it runs.
from localrank_papers.learners.anchors import ANCHOR, Anchor, best_document, relevant_mean, usable_queries
from localrank_papers.learners.geometric_mean import PairScatter, metric_transform, reduced
from localrank_training.learners.notes import note
from localrank_training.learners.role import Grid, Learner

if TYPE_CHECKING:
    from localrank_training.learners.lesson import Lesson


@dataclass(frozen=True, slots=True)
class GeometricMeanMetric(Learner):
    """Learn one geometric mean metric; documents score by nearness to an ideal one."""

    regularisation: float = setting(0.1, above=0, meaning="added to both scatters, whose mean variance is 1")
    t: float = setting(
        0.5,
        low=0,
        high=1,
        meaning="from the inverse scatter within relevant documents (0) to the scatter between relevant and other "
        "documents (1)",
    )
    relevant: float = setting(1.0, meaning="lowest label that counts as relevant")
    balance: float = setting(1.0, low=0, high=1, meaning="0 counts every pair the same, 1 every query")
    rank: int | None = setting(
        None, low=1, meaning="number of rows of the metric that are kept; all by default"
    )
    anchor: Anchor = setting("document", meaning=ANCHOR)
    metric: str = setting(
        "ndcg@10",
        check=Metric.parse,
        meaning="metric that the anchor document maximises on the training queries",
    )
    candidates: int = setting(
        200,
        low=1,
        meaning="number of documents tried as the anchor; if there are more, they are drawn at random",
    )
    seed: int = setting(0, low=0, meaning="seed for drawing the candidates")
    blocks: str = setting(
        "normalised", check=parse, meaning="blocks of features that distances are measured in"
    )

    method: ClassVar[str] = "gmml"
    grid: ClassVar[Grid] = {"t": (0.3, 0.5, 0.7, 0.9)}

    def fit(self, lesson: Lesson) -> AnchoredScorer:
        lesson.refuse_towards(self.method, "a geometric mean of two scatters cannot continue a third one")
        lesson.check(self.method)
        queries = lesson.queries
        relevant, shares = usable_queries(queries, self.relevant, lesson.shares, self.method)
        scatter = PairScatter.of(queries, relevant, shares, balance=self.balance)
        transform = reduced(
            metric_transform(scatter, regularisation=self.regularisation, t=self.t), self.rank
        )
        if self.anchor == "origin":
            anchor = np.zeros(queries.n_features)
        elif self.anchor == "mean":
            anchor = relevant_mean(queries, relevant, shares)
        else:
            anchor, value = best_document(
                queries,
                relevant,
                shares,
                transform,
                metric=self.metric,
                candidates=self.candidates,
                rng=np.random.default_rng(self.seed),
            )
            note(
                self.method,
                f"nearness to the anchor reaches {self.metric} {value:.4f} in training",
                value=value,
            )
        return AnchoredScorer(
            transform[None], (transform @ anchor)[None], np.ones(1), "distance", self.blocks
        )
