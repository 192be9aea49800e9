r"""GMML as a ranker: documents are near to one ideal document, in one geometric mean metric [su2017, algorithm 1].

.. math:: f(x) = -\|W(x - a)\|

See `localrank_training.learners.geometric_mean` for the metric. The anchor ``a`` serves queries that nobody has judged,
so it is chosen on the training queries: the relevant document by whose nearness they are ranked best, or the mean of
the relevant documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from localrank.metrics import Metric
from localrank.scorers import AnchoredScorer

# `checked` reads the annotations of settings when it runs.
from localrank_training.learners.anchors import Anchor, best_document, relevant_mean, usable_queries
from localrank_training.learners.geometric_mean import PairScatter, metric_transform, reduced
from localrank_training.learners.notes import note
from localrank_training.settings import check_bounds, setting

if TYPE_CHECKING:
    from localrank.scorers import View
    from localrank_training.learners.lesson import Lesson

__all__ = ["GeometricMeanMetric"]


@dataclass(frozen=True, slots=True)
class GeometricMeanMetric:
    """Learn an `AnchoredScorer` of one metric.

    Attributes:
        regularisation: added to the diagonal of both scatters once their mean variance is one.
        t: from the inverse scatter of relevant documents (0) to the scatter of relevant against others (1).
        relevant: lowest label that counts as relevant.
        balance: from every pair counting the same (0) to every query counting the same (1).
        rank: rows of the metric that are kept; all by default.
        anchor: a relevant ``document``, or the ``mean`` of the relevant ones.
        metric: what the anchor document maximises on the training queries.
        candidates: documents tried as the anchor, drawn at random where there are more.
        seed: for drawing them.
    """

    regularisation: float = setting(0.1, above=0, meaning="added to both scatters, whose mean variance is 1")
    t: float = setting(0.5, low=0, high=1, meaning="0 counts the similar pairs only, 1 the dissimilar ones")
    relevant: float = setting(1.0, meaning="lowest label that counts as relevant")
    balance: float = setting(1.0, low=0, high=1, meaning="0 counts every pair the same, 1 every query")
    rank: int | None = setting(None, low=1, meaning="rows of the metric that are kept; all by default")
    anchor: Anchor = "document"
    metric: str = setting("ndcg@10", meaning="what the anchor maximises")
    candidates: int = setting(200, low=1, meaning="documents tried as the anchor")
    seed: int = setting(0, low=0)

    method: ClassVar[str] = "gmml"

    def __post_init__(self) -> None:
        check_bounds(self)
        Metric.parse(self.metric)

    @property
    def view(self) -> View:
        return "normalised"

    def fit(self, lesson: Lesson) -> AnchoredScorer:
        lesson.refuse_towards(self.method, "a geometric mean of two scatters has no third part")
        lesson.check(self.method)
        queries = lesson.queries
        relevant, shares = usable_queries(queries, self.relevant, lesson.shares, self.method)
        scatter = PairScatter.of(queries, relevant, shares, balance=self.balance)
        transform = reduced(
            metric_transform(scatter, regularisation=self.regularisation, t=self.t), self.rank
        )
        if self.anchor == "mean":
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
        return AnchoredScorer(transform[None], (transform @ anchor)[None], np.ones(1), "distance", self.view)
