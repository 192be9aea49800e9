r"""Models that are learned when the query is known: for comparison with models that are learned beforehand.

*Transductive ranking* [duh2008]: kernel principal components of the query's own documents are the features; the training
documents are projected onto them, and a model is learned from these. With the documents :math:`z_1, \dots, z_n` of the query,
their kernel matrix :math:`K_{ij} = k(z_i, z_j)`, centred as :math:`\tilde K = HKH`, and :math:`\tilde K = \sum_p \lambda_p a_p
a_p^T`, the features of a document :math:`x` are

.. math:: \phi_p(x) = \lambda_p^{-1/2} \sum_i a_{pi}\, \tilde k(x, z_i), \qquad
    \tilde k(x, z_i) = k(x, z_i) - \bar k(x, \cdot) - \bar k(\cdot, z_i) + \bar k(\cdot, \cdot).

`KNN online` [geng2008]: the model of a query is learned from its nearest training queries.

Every query costs a training run, so neither can serve: LocalRank reports an hour and a half for one query of Yandex.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from localrank.errors import InvalidData
from localrank.points.similarity import one_to_many
from localrank.settings import setting, settle
from localrank_training.learners.seen import scores_of
from localrank_training.parallel.processes import in_parallel, silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.decomposition import KernelPCA

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.points.representation import Points
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.role import Learner
    from localrank_training.parallel.processes import Progress

#: A kernel component below this share of the first is rounding.
_RANK = 1e-9


@dataclass(frozen=True, slots=True)
class KernelFeatures:
    """Which kernel principal components become features."""

    kernel: Literal["linear", "poly", "rbf"] = setting(
        "linear", meaning="x·z, (gamma x·z + 1)^degree or exp(-gamma |x - z|²)"
    )
    components: int = setting(5, low=1, meaning="largest number of components")
    degree: int = setting(2, low=1, meaning="of `poly`")
    gamma: float | None = setting(
        None, above=0, meaning="of `poly` and `rbf`; one over the number of features by default"
    )
    keep: bool = setting(default=False, meaning="also keep the features themselves")

    def __post_init__(self) -> None:
        settle(self)

    def of(self, documents: Matrix) -> Projection | None:
        """Return the projection that a query's documents define; ``None`` if they are all alike."""
        from sklearn.decomposition import KernelPCA

        if len(documents) < 2 or (documents == documents[0]).all():
            return None
        found = KernelPCA(
            kernel=self.kernel, degree=self.degree, gamma=self.gamma, coef0=1, eigen_solver="dense"
        ).fit(documents.astype(np.float64))
        wanted = int((found.eigenvalues_ > _RANK * found.eigenvalues_[0]).sum())
        return Projection(found, min(wanted, self.components), self.keep)


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Kernel principal components of one query's documents.

    Attributes:
        fitted: scikit-learn's.
        width: components that are kept.
        keep: whether the features stand before them.
    """

    fitted: KernelPCA
    width: int
    keep: bool

    def of(self, documents: Matrix) -> Matrix:
        """Return the features of documents, ``[n_docs, width]``."""
        found = self.fitted.transform(documents.astype(np.float64))[:, : self.width].astype(np.float32)
        return np.concatenate([documents, found], axis=1) if self.keep else found


def rank_transductively(
    lesson: Lesson,
    exam: QuerySet,
    learner: Learner,
    features: KernelFeatures,
    *,
    workers: int = 1,
    progress: Progress = silent,
) -> Vector:
    """Return ``[n_docs]``: every query of the exam scored by a model that was learned for it alone.

    Args:
        lesson: the training queries.
        exam: queries in the same blocks as the lesson; their labels are not looked at.
        learner: of the models.
        features: that models are learned from.
        workers: processes.
        progress: told ``("queries", done, all)``.
    """
    return _together(_projected, [(lesson, one, learner, features) for one in _each(exam)], workers, progress)


def rank_by_neighbours(
    lesson: Lesson,
    exam: QuerySet,
    learner: Learner,
    near: Neighbours,
    *,
    workers: int = 1,
    progress: Progress = silent,
) -> Vector:
    """Return ``[n_docs]``: every query of the exam scored by a model of its nearest training queries (KNN online)."""
    pieces = [(lesson.select(near.of(query)), one, learner) for query, one in enumerate(_each(exam))]
    return _together(_scored, pieces, workers, progress)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Which training queries are nearest to a query.

    Attributes:
        points: of the training queries.
        asked: of the exam.
        count: K.
        similarity: one of `localrank.points.similarity`.
    """

    points: Points
    asked: Points
    count: int
    similarity: str

    def of(self, query: int) -> Indices:
        """Return the nearest training queries in their order; all of them if the query cannot be compared."""
        if not self.asked.known[query]:
            return np.arange(len(self.points))
        similarities = one_to_many(self.asked.of(query), self.points, self.similarity)
        similarities = np.where(self.points.known, similarities, -np.inf)
        return np.sort(np.argsort(-similarities, kind="stable")[: self.count])


def _each(exam: QuerySet) -> list[QuerySet]:
    return [exam.select([query]) for query in range(len(exam))]


def _together(work: Callable[..., Vector], pieces: list[Any], workers: int, progress: Progress) -> Vector:
    found = in_parallel(
        work, pieces, workers=workers, progress=lambda done, total: progress("queries", done, total)
    )
    return np.concatenate(found)


def _projected(lesson: Lesson, asked: QuerySet, learner: Learner, features: KernelFeatures) -> Vector:
    projection = features.of(asked.documents)
    if projection is None:
        return np.zeros(asked.n_docs)

    def through(queries: QuerySet) -> QuerySet:
        documents = projection.of(queries.documents)
        names = tuple(f"component {number + 1}" for number in range(projection.width))
        if features.keep:
            names = (*queries.feature_names, *names)
        return replace(queries, documents=documents, feature_names=names)

    projected = replace(lesson, queries=through(lesson.queries), validation=None)
    return _scored(projected, through(asked), learner)


def _scored(lesson: Lesson, asked: QuerySet, learner: Learner) -> Vector:
    """Learn from the lesson and score a query; alike if the lesson teaches nothing."""
    try:
        scorer = learner.fit(lesson)
    except InvalidData:
        return np.zeros(asked.n_docs)
    return scores_of(scorer, replace(lesson, queries=asked, weights=None, validation=None))
