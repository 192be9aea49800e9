r"""RankBoost: a sum of threshold rankers, each chosen for the pairs that those before it get wrong [freund2003].

Over the pairs of two documents of a query with :math:`y_i > y_j`, in the notation of the paper:

.. math::

    D_t(i, j) \propto c_{ij} \, e^{f(x_j) - f(x_i)}, \qquad r = \sum D_t(i, j) \, (h(x_i) - h(x_j)), \qquad
    \alpha_t = \tfrac12 \ln \frac{1 + r}{1 - r}

and :math:`f \leftarrow f + \alpha_t h` with the threshold ranker :math:`h(x) = [x_k > \theta]` of the largest
:math:`|r|`. Then the share of misordered pairs is at most :math:`\prod_t Z_t` and :math:`Z_t \le \sqrt{1 - r^2}`.

The weight of a pair is a product of one number per document, so nothing runs over pairs (section 4 of the paper shows
it for two levels; here it is for any number): with :math:`E_l, I_l` a query's sums of :math:`e^f` and :math:`e^{-f}`
over its documents of level ``l``,

.. math::

    r = \sum_x \pi(x) \, h(x), \qquad
    \pi(x) \propto e^{-f(x)} \sum_{l < y(x)} E_l - e^{f(x)} \sum_{l > y(x)} I_l

One round sorts nothing: each feature's values are binned once, and a histogram of :math:`\pi` summed up from above
gives ``r`` at every threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from localrank.errors import InvalidData
from localrank.features.blocks import parse
from localrank.metrics import Judgements, Metric

# `checked` reads the annotations of settings when it runs.
from localrank.scorers import StumpScorer, SumScorer
from localrank.settings import setting
from localrank_training.learners.notes import figure, note
from localrank_training.learners.pairs import levels_within
from localrank_training.learners.role import Learner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.notes import Note

#: A ranker that orders every weighted pair correctly would have an infinite step; this is the largest |r| stepped by.
_LARGEST = 1.0 - 1e-6
#: Below this no ranker orders more than it misorders.
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class RankBoost(Learner):
    """Learn a sum of steps by boosting threshold rankers."""

    rounds: int = setting(
        100, low=1, meaning="number of threshold rankers; with validation queries, the largest number"
    )
    thresholds: int | Literal["all"] = setting(
        255, low=1, meaning="values of a feature that are tried, at its quantiles"
    )
    balance: float = setting(0.5, low=0, high=1, meaning="0 counts every pair the same, 1 every query")
    metric: str = setting(
        "ndcg@10",
        check=Metric.parse,
        meaning="metric by which validation queries choose the number of rounds",
    )
    blocks: str = setting("normalised", check=parse, meaning="blocks of features that have thresholds")

    method: ClassVar[str] = "rankboost"
    continues: ClassVar[bool] = True

    def fit(self, lesson: Lesson) -> Scorer:
        """Learn one scorer; see `Learner.fit`. Boosting goes on from the scores of ``lesson.towards``."""
        lesson.check(self.method)
        queries, validation = lesson.queries, lesson.validation
        begun, held = lesson.base_scores()
        rounds = boost(
            ThresholdRankers.of(queries.documents, self.thresholds),
            LevelPairs.of(queries, lesson.shares, self.balance),
            begun,
            self.rounds,
        )
        if not rounds:
            if lesson.towards is not None:
                note(self.method, "no threshold improves the scorer that it continues", rounds=0)
                return lesson.towards
            raise InvalidData(
                "rankboost: expected a feature with a threshold that orders more pairs correctly than "
                "wrongly, found none"
            )
        kept = len(rounds)
        if validation is not None and held is not None:
            kept = self._rounds_to_keep(rounds, validation, held)
        bound = float(np.prod([one.z for one in rounds[:kept]]))
        note(
            self.method,
            f"{kept} of {len(rounds)} rounds kept; at most {bound:.4f} of the weighted training pairs are "
            "ordered wrongly",
            rounds=kept,
            bound=bound,
        )
        steps = _sum_of(rounds[:kept], self.blocks)
        return steps if lesson.towards is None else SumScorer((lesson.towards, steps))

    def settled(self, notes: Sequence[Note]) -> Self:
        """Boost as many rounds as validation queries chose."""
        kept = figure(notes, "rounds")
        return self if kept is None else replace(self, rounds=max(1, round(kept)))

    def _rounds_to_keep(self, rounds: list[Round], validation: QuerySet, scores: Vector) -> int:
        judgements = Judgements(validation.labels, validation.offsets)
        means = []
        for one in rounds:
            scores = scores + one.step * (validation.documents[:, one.feature] > one.threshold)
            means.append(judgements.measure(scores, [self.metric])[0].mean)
        return int(np.argmax(means)) + 1


@dataclass(frozen=True, slots=True)
class Round:
    """One threshold ranker and its step.

    Attributes:
        feature, threshold: it prefers documents whose feature exceeds the threshold,
        step: by this much.
        r: its weighted rate of correctly over misordered pairs.
        z: what it multiplies the pairs' exponential loss by.
    """

    feature: int
    threshold: float
    step: float
    r: float
    z: float


def boost(thresholds: ThresholdRankers, pairs: LevelPairs, scores: Vector, rounds: int) -> list[Round]:
    """Choose up to ``rounds`` threshold rankers, starting from ``scores`` ``[n_docs]``; fewer if none helps.

    Cost of a round: one histogram over the documents per feature.
    """
    chosen: list[Round] = []
    loss, potential = pairs.at(scores)
    while len(chosen) < rounds:
        rates = thresholds.sums_above(potential)
        place = np.unravel_index(int(np.abs(rates).argmax()), rates.shape)
        feature, number, r = int(place[0]), int(place[1]), float(rates[place])
        if abs(r) <= _SMALLEST:
            break
        perfect = abs(r) >= _LARGEST
        step = float(np.arctanh(np.clip(r, -_LARGEST, _LARGEST)))
        scores = scores + step * thresholds.above(feature, number)
        before, (loss, potential) = loss, pairs.at(scores)
        chosen.append(Round(feature, thresholds.value(feature, number), step, r, loss / before))
        if perfect:
            break
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class LevelPairs:
    """The pairs to be ordered.

    Attributes:
        cell: ``[n_docs]`` the query and level of each document as one number.
        shape: number of queries and of levels.
        weights: ``[n_queries]`` of one pair.
        query_of: ``[n_docs]``.
    """

    cell: Indices
    shape: tuple[int, int]
    weights: Vector
    query_of: Indices

    @classmethod
    def of(cls, queries: QuerySet, weights: Vector, balance: float) -> LevelPairs:
        """Find the pairs; ``balance`` is the power of their number that a query's pairs are divided by."""
        levels = levels_within(queries.labels, queries.offsets)
        shape = len(queries), int(levels.max()) + 1
        query_of = queries.query_of
        cell = query_of * shape[1] + levels
        counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
        n_pairs = (counts * _below(counts)).sum(axis=1)
        share = np.maximum(n_pairs, 1.0) ** -balance
        return cls(cell, shape, np.where(n_pairs > 0, weights * share, 0.0), query_of)

    def at(self, scores: Vector) -> tuple[float, Vector]:
        """Return the exponential loss of the pairs, and each document's potential ``[n_docs]`` over it."""
        rising = np.exp(scores)
        falling = 1.0 / rising
        worse = _below(self._by_cell(rising))
        better = _above(by_level := self._by_cell(falling))
        loss = float(self.weights @ (by_level * worse).sum(axis=1))
        potential = (self.weights[:, None] * worse).reshape(-1)[self.cell] * falling
        potential -= (self.weights[:, None] * better).reshape(-1)[self.cell] * rising
        potential /= loss
        return loss, potential

    def _by_cell(self, values: Vector) -> Vector:
        sums = np.bincount(self.cell, values, self.shape[0] * self.shape[1])
        return np.asarray(sums.reshape(self.shape), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdRankers:
    """The threshold rankers to choose from.

    Attributes:
        values: per feature, ascending.
        codes: per feature ``[n_docs]``, how many of its thresholds each document exceeds.
    """

    values: tuple[Vector, ...]
    codes: tuple[NDArray[np.unsignedinteger], ...]

    @classmethod
    def of(cls, documents: Matrix, most: int | Literal["all"]) -> ThresholdRankers:
        """Put thresholds midway between neighbouring values, at most ``most`` for each feature, at its quantiles."""
        values, codes = [], []
        for column in documents.T:
            ordered = np.sort(column).astype(np.float64)
            ends = np.flatnonzero(ordered[1:] != ordered[:-1])
            if most != "all" and len(ends) > most:
                # The first threshold with at least this share of the documents below it: `ends + 1` are below.
                share = np.arange(1, most + 1) * len(ordered) / (most + 1)
                ends = np.unique(ends[np.clip(np.searchsorted(ends + 1, share), 0, len(ends) - 1)])
            middles = 0.5 * (ordered[ends] + ordered[ends + 1])
            values.append(middles)
            codes.append(np.searchsorted(middles, column).astype(np.min_scalar_type(len(middles))))
        return cls(tuple(values), tuple(codes))

    def sums_above(self, potential: Vector) -> Vector:
        """``[n_features, most]`` the sum over the documents above each threshold; zero if there is none."""
        most = max(1, *map(len, self.values))
        above = np.zeros((len(self.values), most))
        for feature, (values, codes) in enumerate(zip(self.values, self.codes, strict=True)):
            if len(values):
                bins = np.bincount(codes, potential, len(values) + 1)
                above[feature, : len(values)] = bins[:0:-1].cumsum()[::-1]
        return above

    def above(self, feature: int, number: int) -> Bits:
        """``[n_docs]`` which documents exceed a threshold."""
        return np.asarray(self.codes[feature] > number)

    def value(self, feature: int, number: int) -> float:
        return float(self.values[feature][number])


def _sum_of(rounds: list[Round], blocks: str) -> StumpScorer:
    features = np.array([one.feature for one in rounds], np.int64)
    thresholds = np.array([one.threshold for one in rounds])
    steps = np.array([one.step for one in rounds])
    return StumpScorer.of(features, thresholds, steps, blocks)


def _below(by_level: Vector | Indices) -> Vector:
    """``[n_queries, n_levels]`` sums over the lower levels."""
    return np.asarray(by_level.cumsum(axis=1) - by_level, np.float64)


def _above(by_level: Vector) -> Vector:
    """``[n_queries, n_levels]`` sums over the higher levels."""
    return np.asarray(by_level[:, ::-1].cumsum(axis=1)[:, ::-1] - by_level, np.float64)
