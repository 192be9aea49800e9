r"""RankSVM: a linear scorer that puts the better document of each pair ahead by a margin.

.. math::
    J(w) = \tfrac12 \|w - w_0\|^2 + \frac{C}{Z} \sum_q \frac{\omega_q}{N_q^{\,\beta}}
           \sum_{i, j \in q:\; y_i > y_j} \max(0,\; 1 - w \cdot (x_i - x_j))^2

with :math:`N_q` the number of the query's pairs, the queries' weights :math:`\omega` and the balance :math:`\beta`: 0 counts
every pair the same, 1 every query. :math:`w_0` is zero, or the weights of ``Lesson.towards``. Ordinal pairs are those of [herbrich2000] and [joachims2002]; the squared hinge solved by Newton
steps in the primal is [chapelle2010]; loss, gradient and Hessian products without making the pairs are in the line of
[lee2014], whose order-statistic trees are prefix sums over the bits of label ranks here
(`localrank_training.learners.pairs`).

**Departs from** the plain sum over pairs in two ways. :math:`Z = \sum_q \omega_q N_q^{1 - \beta}` makes the loss a mean, so
that ``C`` means the same for a cluster of 5 queries and for all 6,000. And :math:`\beta = 1/2`: a query with many relevant
documents says more than another, but not in proportion to its pairs. ``balance = 0, total = "sum"`` (:math:`Z = 1`) is
the classical sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from localrank.features.blocks import parse
from localrank.scorers import LinearScorer
from localrank.settings import setting
from localrank_training.learners.notes import note
from localrank_training.learners.pairs import LabelledPairs
from localrank_training.learners.role import Grid, Learner
from localrank_training.learners.signs import within_signs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.pairs import ActivePairs

#: Numbers converted to double at a time. A set that has no more is converted once.
_BLOCK = 4_000_000
#: The preconditioner's Hessian is made of this many documents per feature, and of no fewer than these.
_SAMPLED_PER_FEATURE, _SAMPLED = 40, 2_000
#: A Hessian serves as preconditioner until a step needs this many products with the present one.
_STALE = 10
#: For more features than these a Hessian would cost more than it saves.
_DENSE_FEATURES = 2_000


@dataclass(frozen=True, slots=True)
class RankSvm(Learner):
    """Learn a linear scorer from pairs of documents with different labels."""

    C: float = setting(10.0, above=0, meaning="how much the loss counts against the norm of the weights")
    balance: float = setting(0.5, low=0, high=1, meaning="0 counts every pair the same, 1 every query")
    total: Literal["mean", "sum"] = setting(
        "mean", meaning="whether the loss is a mean over pairs or their sum"
    )
    tolerance: float = setting(
        1e-7, above=0, high=0.1, meaning="stop at this distance from the optimum, as a share of its norm"
    )
    iterations: int = setting(100, low=1, meaning="largest number of Newton steps")
    blocks: str = setting("normalised", check=parse, meaning="blocks of features that are weighed")

    method: ClassVar[str] = "ranksvm"
    grid: ClassVar[Grid] = {"C": (1.0, 10.0, 100.0, 1000.0)}
    continues: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    def fit(self, lesson: Lesson) -> LinearScorer:
        """Learn one scorer; see `Learner.fit`. A query of weight 2 counts as if it were there twice."""
        towards = lesson.towards_weights(self.method, self.blocks)
        objective = Objective.of(lesson, C=self.C, balance=self.balance, total=self.total, towards=towards)
        found: list[Solution] = []

        def minimise(free: Bits, start: Vector) -> Vector:
            found.append(
                objective.minimise(
                    start,
                    tolerance=self.tolerance,
                    iterations=self.iterations,
                    free=None if free.all() else free,
                )
            )
            return found[-1].weights

        weights = within_signs(minimise, objective.gradient, lesson.signs, lesson.first_weights(towards))
        solution = found[-1]
        if not solution.converged:
            note(
                self.method,
                f"stopped after {solution.iterations} Newton steps; the weights are up to "
                f"{solution.distance:.1e} of their norm from the optimum (tolerance {self.tolerance:g})",
                iterations=solution.iterations,
                distance=solution.distance,
            )
        return LinearScorer(weights, blocks=self.blocks)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Where the descent ended.

    Attributes:
        weights: ``[n_features]``.
        distance: bound on the distance to the optimum, as a share of the norm of the weights.
        iterations: Newton steps made.
        converged: the distance is below the tolerance, or rounding allows no further descent.
    """

    weights: Vector
    distance: float
    iterations: int
    converged: bool


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """``J`` on given queries.

    Attributes:
        documents: ``[n_docs, n_features]``, only of queries that have pairs; double if they are few.
        labels: ``[n_docs]``.
        offsets: where those queries are.
        pairs: their pairs, ``C`` and all weights being in the documents' weights.
        towards: ``[n_features]``, :math:`w_0`.
    """

    documents: Matrix | Vector
    labels: Vector
    offsets: Indices
    pairs: LabelledPairs
    towards: Vector

    @classmethod
    def of(
        cls,
        lesson: Lesson,
        *,
        C: float,
        balance: float = 0.5,
        total: Literal["mean", "sum"] = "mean",
        towards: Vector | None = None,
    ) -> Objective:
        """Drop what has no pairs and fold all factors into one weight per document."""
        lesson.check(RankSvm.method)
        queries, counts = lesson.queries, lesson.shares
        own = np.ones(queries.n_docs)
        found = LabelledPairs.of(queries.labels, queries.offsets, own).weight_by_query(queries.offsets)
        counts = np.where(found > 0, counts, 0.0)
        used = np.flatnonzero(counts)
        if len(used) < len(queries):
            own = own[np.repeat(counts > 0, queries.lengths)]
            queries = queries.select(used)
        factor = counts[used] * found[used] ** -balance
        factor *= C / (factor @ found[used]) if total == "mean" else C
        own = own * np.sqrt(np.repeat(factor, queries.lengths))
        documents = queries.documents
        return cls(
            documents.astype(np.float64) if documents.size <= _BLOCK else np.asarray(documents),
            queries.labels,
            queries.offsets,
            LabelledPairs.of(queries.labels, queries.offsets, own),
            np.zeros(queries.n_features) if towards is None else towards,
        )

    def value(self, weights: Vector) -> float:
        """Return ``J``."""
        apart = weights - self.towards
        return float(0.5 * apart @ apart + self.pairs.at(self._scores(weights)).squared_hinge())

    def gradient(self, weights: Vector) -> Vector:
        """Return the gradient of ``J``."""
        return weights - self.towards + self._combine(self.pairs.at(self._scores(weights)).slope())

    def minimise(
        self, start: Vector, *, tolerance: float, iterations: int, free: Bits | None = None
    ) -> Solution:
        r"""Make truncated Newton steps with line search.

        ``J`` is 1-strongly convex, so the norm of its gradient bounds the distance to the optimum.

        Args:
            start: where to begin.
            tolerance: distance to the optimum at which to stop, as a share of its norm.
            iterations: the largest number of steps.
            free: ``[n_features]`` the weights to choose; the others are zero. By default all.
        """
        weights = _of(np.array(start, np.float64), free)
        scores = self._scores(weights)
        active = self.pairs.at(scores)
        sample = _Sample.of(self.documents, self.labels, self.offsets, self.pairs)
        precondition: Callable[[Vector], Vector] | None = None
        distance = np.inf
        for iteration in range(iterations + 1):
            pull = _of(self._combine(active.slope()), free)
            gradient = _of(weights - self.towards + pull, free)
            # At the optimum towards zero the two terms of the gradient are equally long.
            length = max(float(np.linalg.norm(weights)), float(np.linalg.norm(pull)))
            distance = float(np.linalg.norm(gradient)) / length if length > 0 else 0.0
            if distance <= tolerance:
                return Solution(weights, distance, iteration, converged=True)
            if iteration == iterations:
                break
            if precondition is None:
                precondition = sample.preconditioner(scores, free)
            direction, products = _conjugate_gradients(
                self._hessian_product(active, free),
                -gradient,
                precondition,
                tolerance=min(0.1, max(distance, 1e-3)),
            )
            if products > _STALE:
                precondition = None
            along = self._scores(direction)
            step, active = self._search_line(weights, scores, direction, along)
            if step == 0.0:
                return Solution(weights, distance, iteration, converged=True)
            weights += step * direction
            scores = active.scores
        return Solution(weights, distance, iterations, converged=False)

    def _search_line(
        self, weights: Vector, scores: Vector, direction: Vector, along: Vector
    ) -> tuple[float, ActivePairs]:
        """Find where ``J`` is least on ``weights + t direction``.

        Its derivative by ``t`` is increasing and piecewise linear, so Newton's method on it, kept inside an interval
        around the root, ends after a few steps; mostly with the first, ``t = 1``.
        """
        slope_of_norm, curve_of_norm = (
            float((weights - self.towards) @ direction),
            float(direction @ direction),
        )
        active = self.pairs.at(scores)
        first = slope_of_norm + float(along @ active.slope())
        low, high, step = 0.0, np.inf, 1.0
        if first >= 0.0:
            return 0.0, active
        for _ in range(60):
            active = self.pairs.at(scores + step * along)
            slope = slope_of_norm + step * curve_of_norm + float(along @ active.slope())
            if abs(slope) <= 1e-3 * -first:
                break
            low, high = (step, high) if slope < 0 else (low, step)
            step -= slope / (curve_of_norm + 2.0 * float(along @ active.laplacian(along)))
            if not low < step < high:
                step = 2.0 * low if high == np.inf else 0.5 * (low + high)
        return step, active

    def _scores(self, weights: Vector) -> Vector:
        scores = np.empty(len(self.documents))
        for rows in _blocks(self.documents):
            scores[rows] = self.documents[rows].astype(np.float64, copy=False) @ weights
        return scores

    def _combine(self, coefficients: Vector) -> Vector:
        total = np.zeros(self.documents.shape[1])
        for rows in _blocks(self.documents):
            total += coefficients[rows] @ self.documents[rows].astype(np.float64, copy=False)
        return total

    def _hessian_product(self, active: ActivePairs, free: Bits | None = None) -> Callable[[Vector], Vector]:
        """Return how to multiply by the Hessian while the active pairs stay these.

        A search direction need not be exact, so this stays in the documents' own precision.
        """
        documents: NDArray[Any] = self.documents

        def product(vector: Vector) -> Vector:
            along = (documents @ vector.astype(documents.dtype)).astype(np.float64)
            pull: Vector = (active.laplacian(along).astype(documents.dtype) @ documents).astype(np.float64)
            return _of(vector + 2.0 * pull, free)

        return product


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Evenly chosen queries whose Hessian is close to that of all; all of them where they are few.

    Attributes:
        documents: ``[n_sampled, n_features]`` float64.
        rows: which documents these are.
        pairs: among them, weighted to stand for all.
    """

    documents: Vector
    rows: Indices
    pairs: LabelledPairs

    @classmethod
    def of(
        cls, documents: Matrix | Vector, labels: Vector, offsets: Indices, pairs: LabelledPairs
    ) -> _Sample:
        enough = max(_SAMPLED, _SAMPLED_PER_FEATURE * documents.shape[1])
        stride = -(-len(documents) // enough)
        if stride == 1:
            return cls(np.asarray(documents, np.float64), np.arange(len(documents)), pairs)
        chosen = np.arange(len(offsets) - 1) % stride == 0
        lengths = np.diff(offsets)
        rows = np.flatnonzero(np.repeat(chosen, lengths))
        sampled_offsets = np.concatenate([[0], np.cumsum(lengths[chosen])])
        of_query = pairs.weight_by_query(offsets)
        scale = np.sqrt(of_query.sum() / of_query[chosen].sum())
        return cls(
            documents[rows].astype(np.float64),
            rows,
            LabelledPairs.of(labels[rows], sampled_offsets, scale * pairs.weights[rows]),
        )

    def preconditioner(self, scores: Vector, free: Bits | None = None) -> Callable[[Vector], Vector]:
        """Return how to divide a vector by the sample's Hessian at these scores; by its diagonal if it is large."""
        spread = 2.0 * self.pairs.at(scores[self.rows]).laplacian(self.documents)
        if self.documents.shape[1] > _DENSE_FEATURES:
            diagonal = 1.0 + np.einsum("df,df->f", self.documents, spread)
            return lambda vector: _of(vector / diagonal, free)
        factor = cho_factor(np.eye(self.documents.shape[1]) + self.documents.T @ spread)
        return lambda vector: _of(np.asarray(cho_solve(factor, vector)), free)


def _of(vector: Vector, free: Bits | None) -> Vector:
    """Return the vector with zeros where it is not free."""
    return vector if free is None else np.where(free, vector, 0.0)


def _conjugate_gradients(
    product: Callable[[Vector], Vector],
    target: Vector,
    precondition: Callable[[Vector], Vector],
    *,
    tolerance: float,
) -> tuple[Vector, int]:
    """Solve ``product(x) = target`` until the residual is below ``tolerance`` of the target's norm.

    Returns:
        The solution, and how many products it took.
    """
    solution, residual = np.zeros_like(target), target.copy()
    enough = tolerance * float(np.linalg.norm(target))
    direction = np.zeros_like(target)
    previous = 1.0
    products = 0
    while products < len(target):
        products += 1
        improved = precondition(residual)
        agreement = float(residual @ improved)
        direction = improved + (agreement / previous) * direction
        previous = agreement
        image = product(direction)
        step = agreement / float(direction @ image)
        solution += step * direction
        residual -= step * image
        if np.linalg.norm(residual) <= enough:
            break
    return solution, products


def _blocks(documents: Matrix | Vector) -> Iterator[slice]:
    height = max(1, _BLOCK // max(1, documents.shape[1]))
    for begin in range(0, len(documents), height):
        yield slice(begin, begin + height)
