r"""R-MLR: a metric by structural SVM on rankings, with few features taking part [lim2013]; for comparison.

.. math::

    \min_{M \succeq 0} \; \|M\|_{2,1} + C \sum_q c_q \max_y \Big[\Delta(y_q, y) -
        \big\langle M, \Psi(q, y_q) - \Psi(q, y)\big\rangle \Big], \qquad
    \Psi(q, y) = \frac{1}{RN} \sum_{k\,\text{relevant}} \sum_{j\,\text{not}} y_{kj} \, (\phi_k - \phi_j)

with :math:`\phi_i = -(x_i - a)(x_i - a)^\top`, so that a document scores :math:`\langle M, \phi_i \rangle = -\|x_i -
a\|_M^2`, and :math:`\Delta = 1 - AP`. The score is linear in ``M``, so the most violated ranking is that of SVMmap
(`localrank_training.learners.average_precision`).

With the trace of ``M`` in the place of :math:`\|M\|_{2,1}` (``size = "trace"``) it is MLR [mcfee2010].

The paper retrieves what is near to a query that is a point of the same space. Judged queries have no such point; an
ideal document stands for it, as in `localrank_papers.learners.gmml`. If there are such points, give the documents as
differences from them, and ``anchor = "origin"``.
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
from localrank_papers.learners.structural_metric import Size, minimise_metric, row_lengths
from localrank_training.learners.average_precision import AveragePrecisionLoss
from localrank_training.learners.notes import note
from localrank_training.learners.role import Grid, Learner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Bits, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson

#: Documents that are worked on at a time.
_PORTION = 1 << 14


@dataclass(frozen=True, slots=True)
class RobustMetric(Learner):
    """Learn one metric that few features take part in; documents score by nearness to an ideal one."""

    C: float = setting(
        100.0,
        above=0,
        meaning="weight of the loss against the size of the metric, for a mean squared distance of 1",
    )
    relevant: float = setting(1.0, meaning="lowest label that counts as relevant")
    size: Size = setting(
        "rows",
        meaning="how the size of the metric is measured: by the lengths of its rows, so that few features take "
        "part (R-MLR), or by its trace (MLR)",
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
    tolerance: float = setting(
        1e-3,
        above=0,
        high=1,
        meaning="stop when the objective is proven to be within this share of its optimum",
    )
    max_cuts: int = setting(500, low=1, meaning="stop after this many cutting planes in any case")
    seed: int = setting(0, low=0, meaning="seed for drawing the candidates")
    blocks: str = setting(
        "normalised", check=parse, meaning="blocks of features that distances are measured in"
    )

    method: ClassVar[str] = "rmlr"
    grid: ClassVar[Grid] = {"C": (10.0, 100.0, 1000.0)}

    def fit(self, lesson: Lesson) -> AnchoredScorer:
        lesson.refuse_towards(self.method, "metrics around different anchors cannot be compared")
        lesson.check(self.method)
        queries = lesson.queries
        relevant, shares = usable_queries(queries, self.relevant, lesson.shares, self.method)
        anchor = self._anchor(queries, relevant, shares)
        trained = np.flatnonzero(shares)
        some, own = queries.select(trained), shares[trained]
        document_shares = own[some.query_of]
        # By the largest difference first, so that no square overflows or vanishes.
        extent = max(float(np.abs(apart).max()) for _, apart in _differences(some, anchor, 1.0)) or 1.0
        squares = sum(
            float((document_shares / some.lengths[some.query_of])[part] @ np.vecdot(apart, apart))
            for part, apart in _differences(some, anchor, extent)
        )
        scale = extent * (np.sqrt(squares) or 1.0)
        loss = AveragePrecisionLoss(some, relevant=self.relevant)

        def oracle(matrix: Vector) -> tuple[float, Vector]:
            scores, direction = np.empty(some.n_docs), np.zeros_like(matrix)
            for part, apart in _differences(some, anchor, scale):
                scores[part] = -np.vecdot(apart @ matrix, apart)
            worst = loss.worst(scores)
            counts = worst.coefficients * document_shares
            for part, apart in _differences(some, anchor, scale):
                direction -= (apart.T * counts[part]) @ apart
            return float(own @ worst.losses), 0.5 * (direction + direction.T)

        solution = minimise_metric(
            oracle,
            queries.n_features,
            C=self.C,
            tolerance=self.tolerance,
            max_cuts=self.max_cuts,
            size=self.size,
        )
        features = int(np.count_nonzero(row_lengths(solution.matrix)))
        note(
            self.method,
            f"{solution.cuts} cuts, objective {solution.objective:.6g} proven within {solution.gap:.3g} of the "
            f"optimum; {features} of {queries.n_features} features take part"
            + ("" if features else ": C is too small, so documents are ranked by their Euclidean distance"),
            cuts=solution.cuts,
            objective=solution.objective,
            gap=solution.gap,
            features=features,
        )
        matrix = solution.matrix if features else np.eye(queries.n_features)
        transform = _root(matrix) / scale
        return AnchoredScorer(
            transform[None], (transform @ anchor)[None], np.ones(1), "distance", self.blocks
        )

    def _anchor(self, queries: QuerySet, relevant: Bits, shares: Vector) -> Vector:
        if self.anchor == "origin":
            return np.zeros(queries.n_features)
        if self.anchor == "mean":
            return relevant_mean(queries, relevant, shares)
        anchor, _ = best_document(
            queries,
            relevant,
            shares,
            np.eye(queries.n_features),
            metric=self.metric,
            candidates=self.candidates,
            rng=np.random.default_rng(self.seed),
        )
        return anchor


def _differences(queries: QuerySet, anchor: Vector, scale: float) -> Iterator[tuple[slice, Vector]]:
    """Yield portions of the documents and how far they are from the anchor, over a scale; all at once take much memory."""
    for begin in range(0, queries.n_docs, _PORTION):
        part = slice(begin, begin + _PORTION)
        yield part, (queries.documents[part] - anchor) / scale


def _root(matrix: Vector) -> Vector:
    """Return the ``W`` of a metric that is not zero: a row for each direction that it does not ignore."""
    used = np.flatnonzero(row_lengths(matrix))
    # Features without a part are left out, or rounding would give them one.
    values, axes = np.linalg.eigh(matrix[np.ix_(used, used)])
    kept = values > 1e-12 * values[-1]
    root = np.zeros((np.count_nonzero(kept), len(matrix)))
    root[:, used] = np.sqrt(values[kept])[:, None] * axes[:, kept].T
    return root
