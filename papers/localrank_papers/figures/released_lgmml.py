r"""The method of the code released with L-GMML. It differs from the paper; for comparison only [su2017].

1. A number of different queries are drawn. In each, the documents are in the order of the file, and their positions decide.
   The first ``n`` are "similar". To find ``n``, the code takes the different labels in order of appearance, and counts the
   documents with a label in the first half of these. The last documents are "dissimilar" to them: as many as have label 0,
   and one more. Both sets hold all labels.
2. All pairs within the first set, and all pairs between the first and the second set, are shuffled. The code keeps the
   same number of both: 80 % of the smaller number of pairs. Their scatters, plus 0.1 of the identity, are :math:`S` and
   :math:`D`.
3. The metric is the point at :math:`t = 1` from :math:`S^{-1}` to :math:`D`: :math:`D` itself, or :math:`S^{-1}` if that is the
   better conditioned of the two, because the ends are exchanged without :math:`t` becoming :math:`1 - t`.
4. The anchor is one of the first documents of the list, the one with the best NDCG@10 if the list is sorted by the distance to it.
5. A list is sorted ascending by :math:`-\sqrt{\sum_r \theta_r d_r e^{-d_r}}`: the farthest first, as long as distances are below one.
6. The weights of a query are kept by its name and are 1 for any other, so training does not matter for test queries.

Columns are divided by their norm over all documents that are loaded, those of a test set by its own. A query at which the code
stops (no document of another label than 0, or no anchor with an NDCG above zero) is passed over here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank_papers.learners.warp import rank_weights

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank_training.data.queries import QuerySet

_RATE, _REGULARISATION, _T = 0.8, 0.1, 1.0
#: How much better than the relevant document a document must be to be a violator.
_VIOLATES = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """Metrics and anchors.

    Attributes:
        metrics: ``[m, n_features, n_features]``.
        anchors: ``[m, n_features]``.
    """

    metrics: Vector
    anchors: Vector

    def first(self, size: int) -> Released:
        """Return the first metrics of all."""
        return replace(self, metrics=self.metrics[:size], anchors=self.anchors[:size])

    def distances(self, documents: Matrix) -> Vector:
        """Return ``[n_docs, m]``."""
        found = np.empty((len(documents), len(self.metrics)))
        for number, (metric, anchor) in enumerate(zip(self.metrics, self.anchors, strict=True)):
            apart = documents - anchor
            found[:, number] = np.sqrt(np.maximum(np.vecdot(apart @ metric, apart), 0.0))
        return found

    def scores(self, documents: Matrix) -> Vector:
        """Return ``[n_docs]`` scores, higher before lower, with the weights of a query that is not known."""
        return self.combined(self.distances(documents))

    def combined(self, distances: Vector, weights: Vector | float = 1.0) -> Vector:
        """Return ``[n_docs]`` scores by weights ``[n_docs, m]``."""
        return np.asarray(np.sqrt((weights * distances * np.exp(-distances)).sum(axis=1)), np.float64)


def learn_released(queries: QuerySet, wanted: int, rng: np.random.Generator) -> Released:
    """Draw queries and return the metric and the anchor of each; fewer than wanted if there are fewer."""
    found = []
    for query in rng.permutation(len(queries)):
        one = _of_query(queries.documents_of(query).astype(np.float64), queries.labels_of(query), rng)
        if one is not None:
            found.append(one)
        if len(found) == wanted:
            break
    if not found:
        raise InvalidData("released L-GMML: expected a query with a relevant document, found none")
    return Released(np.stack([metric for metric, _ in found]), np.stack([anchor for _, anchor in found]))


def parts_as_released(labels: Vector) -> tuple[int, int, int]:
    """Return how many documents are "similar", from which position others are "dissimilar", and how many may be the anchor."""
    _, first = np.unique(labels, return_index=True)
    appearing = labels[np.sort(first)]
    similar = int(np.isin(labels, appearing[: len(appearing) // 2]).sum())
    beyond = len(labels) - int((labels == 0).sum())
    # The code counts positions from 1, so the second set includes the last document that should not belong to it.
    return similar, beyond - 1, int((labels == appearing[0]).sum())


def _of_query(documents: Vector, labels: Vector, rng: np.random.Generator) -> tuple[Vector, Vector] | None:
    if not (labels > 0).any():
        return None
    similar, beyond, candidates = parts_as_released(labels)
    high, low = np.arange(similar), np.arange(beyond, len(labels))
    within = np.stack(np.triu_indices(similar, 1), axis=1)
    between = np.stack(np.meshgrid(high, low, indexing="ij"), axis=-1).reshape(-1, 2)
    kept = round(_RATE * min(len(within), len(between)))
    scatters = []
    for pairs in (within, between):
        chosen = pairs[rng.permutation(len(pairs))[:kept]]
        apart = documents[chosen[:, 0]] - documents[chosen[:, 1]]
        scatters.append(apart.T @ apart + _REGULARISATION * np.eye(documents.shape[1]))
    metric = mean_as_released(scatters[0], scatters[1], _T)
    judged = Judgements(labels, [0, len(labels)])
    values = np.empty(candidates)
    for number in range(candidates):
        apart = documents - documents[number]
        values[number] = judged.per_query(-np.vecdot(apart @ metric, apart), "ndcg@10")[0]
    best = int(values.argmax())
    return (metric, documents[best]) if values[best] > 0 else None


def mean_as_released(similar: Vector, dissimilar: Vector, t: float) -> Vector:
    """Return the point at ``t`` between the inverse of one scatter and the other, exchanged if the first is worse conditioned."""
    first, second = np.linalg.inv(similar), dissimilar
    if np.linalg.cond(first) > np.linalg.cond(second):
        first, second = second, first
    lower = np.linalg.cholesky(0.5 * (first + first.T))
    inner = np.linalg.solve(lower, np.linalg.solve(lower, second).T)
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    root = lower @ vectors * np.maximum(values, 0.0) ** (0.5 * t)
    return np.asarray(root @ root.T, np.float64)


def released_weights(distances: Vector, queries: QuerySet, rounds: int, rng: np.random.Generator) -> Vector:
    """Return ``[n_queries, m]`` the weights that its descent ends with, after ``rounds`` steps for each query on average."""
    curves = distances * np.exp(-distances)
    weights = np.ones((len(queries), distances.shape[1]))
    of_rank = rank_weights(int(queries.lengths.max()))
    for step in range(1, rounds * len(queries) + 1):
        query = int(rng.integers(len(queries)))
        labels, own = queries.labels_of(query), curves[queries.span(query)]
        nothing = np.flatnonzero(labels == 0)
        if not len(nothing) or not labels.any():
            continue
        nothing = rng.permutation(nothing)
        positive = rng.choice(np.flatnonzero(labels == labels.max()))
        values = -np.sqrt(own @ weights[query])
        violating = np.flatnonzero(values[nothing] + _VIOLATES > values[positive])
        tries = int(violating[0]) + 1 if len(violating) else 1
        rate = 1.0 / (1.0 + np.exp(step / (100 * len(queries))))
        change = own[nothing[tries - 1]] - own[positive]
        weights[query] = np.maximum(
            weights[query] - rate * of_rank[round(len(nothing) / tries)] * change, 0.0
        )
    return weights
