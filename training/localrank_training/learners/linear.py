r"""A linear scorer by least squares on gains, in closed form.

.. math:: \min_w \; \sum_q \frac{c_q}{\sum c} \, \|L_q(y_q - X_q w)\|^2 + \rho \|w - w_0\|^2

With ``centre = "query"`` each query is centred on its own mean, so that only differences within a query count (ranking
least squares [pahikkala2009]); with ``"all"`` one mean serves all queries, which is ridge regression with an intercept.
See `localrank_training.learners.least_squares` for many models of the same queries at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from localrank.features.blocks import parse
from localrank.scorers import LinearScorer
from localrank.settings import setting

# `checked` reads the annotations of settings when it runs.
from localrank_training.learners.least_squares import Centre, NormalEquations, PerQueryMatrices
from localrank_training.learners.notes import note
from localrank_training.learners.role import Learner

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson

#: What ``ridge = "auto"`` chooses from, in units of the mean variance of a feature.
RIDGES = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

#: The ridge for a single query, because no query can be left out to choose it.
_UNCHOSEN = 0.3

#: More queries than these do not change the choice, only its cost.
_ENOUGH = 500


@dataclass(frozen=True, slots=True)
class LeastSquares(Learner):
    """Learn a linear scorer by regression on gains."""

    ridge: float | Literal["auto"] = setting(
        "auto",
        above=0.0,
        meaning="penalty that pulls the weights towards zero or towards given weights, in units of the mean "
        "variance of a feature; `auto` tries ten and takes the one with the least squared error on "
        "held-out queries",
    )
    centre: Centre = setting(
        "query", meaning="learn differences within each query, or have one intercept for all queries"
    )
    gain: Literal["label", "exponential"] = setting(
        "label", meaning="regress on the label itself, or on 2^label - 1"
    )
    balance: Literal["documents", "queries"] = setting(
        "documents",
        meaning="count every document the same, or every query, whatever its length and the variance of its gains",
    )
    blocks: str = setting("normalised", check=parse, meaning="blocks of features that are weighed")

    method: ClassVar[str] = "linear"
    continues: ClassVar[bool] = True

    def fit(self, lesson: Lesson) -> LinearScorer:
        lesson.check(self.method)
        queries = lesson.queries
        shares = lesson.shares * self.counts(queries)
        towards = lesson.towards_weights(self.method, self.blocks)
        gains = self.gains(queries)
        equations = NormalEquations.of(queries, gains, weights=shares, centre=self.centre)
        if self.ridge == "auto":
            ridge = equations.ridge(
                choose_ridge(queries, gains, equations, shares, centre=self.centre, towards=towards)
            )
        else:
            ridge = equations.ridge(self.ridge)
        return LinearScorer(equations.solve(ridge, towards), blocks=self.blocks)

    def gains(self, queries: QuerySet) -> Vector:
        """Return what is regressed on, ``[n_docs]``."""
        gains: Vector = queries.labels if self.gain == "label" else np.exp2(queries.labels) - 1
        if self.balance == "documents":
            return gains
        spreads = np.array(
            [
                gains[queries.span(query)].std() if length else 0.0
                for query, length in enumerate(queries.lengths)
            ]
        )
        scaled: Vector = gains / np.repeat(np.where(spreads > 0, spreads, 1.0), queries.lengths)
        return scaled

    def counts(self, queries: QuerySet) -> Vector:
        """Return how much each query counts by its length, ``[n_queries]``."""
        if self.balance == "documents":
            return np.ones(len(queries))
        return 1.0 / np.maximum(queries.lengths, 1)


def choose_ridge(
    queries: QuerySet,
    gains: Vector,
    equations: NormalEquations,
    weights: Vector,
    *,
    centre: Centre,
    towards: Vector | None = None,
) -> float:
    """Return the one of `RIDGES` whose models err least on the queries that were left out of them.

    The error is what `centre` "query" minimises, the squared error about each query's mean, in both cases: only that
    part of it changes an order.
    """
    counted = np.flatnonzero(weights)
    if len(counted) < 2:
        note(
            "linear",
            f"ridge {_UNCHOSEN:g}: there is only one query, so none can be held out to choose it",
            ridge=_UNCHOSEN,
        )
        return _UNCHOSEN
    chosen = counted[np.unique(np.linspace(0, len(counted) - 1, _ENOUGH).astype(np.int64))]
    some, shares = queries.select(chosen), weights[chosen]
    gains = gains[np.isin(queries.query_of, chosen)]
    matrices = PerQueryMatrices.of(some, gains, centre=centre)
    within = matrices if centre == "query" else PerQueryMatrices.of(some, gains)
    errors = [
        float(
            shares
            @ within.errors(matrices.leave_query_out(equations.ridge(relative), shares, towards=towards))
        )
        for relative in RIDGES
    ]
    best = RIDGES[int(np.argmin(errors))]
    note(
        "linear",
        f"ridge {best:g} has the least error on {len(chosen)} queries, each held out in turn",
        ridge=best,
    )
    return best
