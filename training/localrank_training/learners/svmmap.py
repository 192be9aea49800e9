r"""SVMmap: a linear scorer that maximises a bound on mean average precision [yue2007].

.. math::

    \min_w \; \tfrac12 \|w - w_0\|^2 + C \sum_q c_q \max_y \Big[ \Delta(y_q, y) -
        w \cdot \big(\Psi(q, y_q) - \Psi(q, y)\big) \Big], \qquad \Delta = 1 - AP

with the queries' weights :math:`c_q` scaled to add up to one (:math:`1/n` each in the paper), so that ``C`` means the
same for a cluster and for all queries, and a query of weight two is the same as that query twice. It is the 1-slack
form [joachims2009] of the paper's n-slack one: the same optimum, one cut per round for all queries together. :math:`w_0`
is zero in the paper, and the weights of ``Lesson.towards`` if there is one.

This is the learner of LocalRank's experiments (section 4.1.2), where ``C`` is called B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from localrank.errors import InvalidData
from localrank.features.blocks import parse
from localrank.scorers import LinearScorer
from localrank.settings import setting
from localrank_training.learners.average_precision import AveragePrecisionLoss
from localrank_training.learners.cutting_plane import minimise
from localrank_training.learners.notes import note
from localrank_training.learners.products import Products
from localrank_training.learners.role import Grid, Learner

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.learners.lesson import Lesson


@dataclass(frozen=True, slots=True)
class SvmMap(Learner):
    """Learn a linear scorer by structural SVM on average precision."""

    C: float = setting(3.0, above=0.0, meaning="weight of the loss against the size of the weights")
    relevant: float = setting(1.0, meaning="lowest label that counts as relevant")
    tolerance: float = setting(
        1e-4,
        above=0.0,
        high=1.0,
        meaning="stop when the objective is proven to be within this share of its optimum",
    )
    max_cuts: int = setting(1000, low=1, meaning="stop after this many cutting planes in any case")
    blocks: str = setting("normalised", check=parse, meaning="blocks of features that are weighed")

    method: ClassVar[str] = "svmmap"
    grid: ClassVar[Grid] = {"C": (0.1, 1.0, 10.0, 100.0)}
    continues: ClassVar[bool] = True

    def fit(self, lesson: Lesson) -> LinearScorer:
        lesson.check(self.method)
        queries = lesson.queries
        towards = lesson.towards_weights(self.method, self.blocks)
        loss = AveragePrecisionLoss(queries, relevant=self.relevant)
        shares = np.where(loss.usable, lesson.shares, 0.0)
        if not shares.any():
            raise InvalidData(
                f"svmmap: expected a query with documents below and from label {self.relevant:g} on, found none "
                f"(labels {queries.labels.min():g} to {queries.labels.max():g}, {len(queries)} queries)"
            )
        shares /= shares.sum()
        documents = Products.of(queries.documents)
        document_shares = shares[queries.query_of]

        def oracle(apart: Vector) -> tuple[float, Vector]:
            """Return the cut at ``towards + apart`` as a line in ``apart``."""
            worst = loss.worst(documents.scores(towards + apart))
            direction = documents.combination(worst.coefficients * document_shares)
            return float(shares @ worst.losses - towards @ direction), direction

        solution = minimise(
            oracle,
            lesson.first_weights(towards) - towards,
            C=self.C,
            tolerance=self.tolerance,
            max_cuts=self.max_cuts,
        )
        left_out = int(len(queries) - loss.usable.sum())
        note(
            self.method,
            f"{solution.cuts} cuts, objective {solution.objective:.6g} proven within {solution.gap:.3g} of the optimum"
            + (f"; {left_out} of {len(queries)} queries have nothing to learn from" if left_out else ""),
            cuts=solution.cuts,
            objective=solution.objective,
            gap=solution.gap,
            queries_left_out=left_out,
        )
        return LinearScorer(towards + solution.weights, self.blocks)
