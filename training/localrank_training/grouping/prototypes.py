r"""Soft clusters around prototypes: every query teaches every model, near ones more.

A *prototype* is a training query that stands for those around it. Prototypes are chosen so that every query is as
similar as possible to the nearest one (k-medoids, on whatever similarity the router uses). With :math:`s_{qp}` the
similarity of query ``q`` to prototype ``p``, a share ``f`` of the queries is near it:

.. math::
    \pi_{qp} \propto \Big(1 + \exp \frac{Q_{1-f}(s_{\cdot p}) - s_{qp}}{0.2\, \mathrm{sd}(s_{\cdot p})}\Big)^{-1},
    \qquad \sum_q \pi_{qp} = 1

with the quantile :math:`Q_{1-f}`. The model of a prototype learns from all queries with weights
:math:`(\pi_{qp} + \rho / n) / (1 + \rho)`: with ``shrink`` :math:`\rho = 0` from the near ones alone, with a large one from
all alike, which is the global model. So any learner that takes weights can be local, and only as local as the evidence
supports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from localrank.points.similarity import all_pairs, one_to_many

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.points.representation import Points

#: How sharp the border between near and far is, in deviations of the similarities.
_SOFTNESS = 0.2
#: Beginnings that are tried, and steps of each at most.
_STARTS, _STEPS = 4, 50
#: Queries nearer than this to a prototype are no prototypes themselves.
_TWINS = 1e-6


@dataclass(frozen=True, slots=True)
class Locality:
    """How local the models of prototypes or kinds are.

    Attributes:
        share: of the queries that are near a prototype; `None` for kinds: near are those of the same kind.
        shrink: how much all queries count besides, against 1 for the near ones.
    """

    share: float | None
    shrink: float

    def __str__(self) -> str:
        near = "" if self.share is None else f"share = {self.share:g}, "
        return f"{near}shrink = {self.shrink:g}"


def choose_prototypes(points: Points, wanted: int, *, sample: int, seed: int, similarity: str) -> Indices:
    """Return at most ``wanted`` queries that stand for the others; all points are known.

    Of more than ``sample`` queries a seeded sample is looked at.
    """
    rng = np.random.default_rng(seed)
    chosen = np.arange(len(points))
    if len(points) > sample:
        chosen = np.sort(rng.choice(len(points), sample, replace=False))
    similarities = all_pairs(points.take(chosen), similarity)
    best, closest = np.zeros(1, np.int64), -np.inf
    for _ in range(_STARTS):
        medoids = _settled(similarities, _spread(similarities, wanted, rng))
        value = float(similarities[:, medoids].max(axis=1).mean())
        if value > closest:
            best, closest = medoids, value
    return chosen[np.sort(best)]


def similarities_to(points: Points, prototypes: Indices, similarity: str) -> Vector:
    """Return ``[n_queries, n_prototypes]``; -inf for queries that cannot be compared."""
    found = np.column_stack(
        [one_to_many(points.of(int(prototype)), points, similarity) for prototype in prototypes]
    )
    found[~np.asarray(points.known)] = -np.inf
    return found


def local_weights(similarities: Vector, locality: Locality) -> Vector:
    """Return ``[n_prototypes, n_queries]`` how much each query counts for each prototype, 1 on average.

    Args:
        similarities: ``[n_queries, n_prototypes]``; of kinds 1 and 0.
        locality: how local.
    """
    n_queries = len(similarities)
    known = np.isfinite(similarities).all(axis=1)
    near = np.zeros((similarities.shape[1], n_queries))
    if locality.share is None:
        near[:, known] = similarities[known].T
    elif known.any():
        values = similarities[known]
        threshold = np.quantile(values, 1.0 - locality.share, axis=0)
        width = _SOFTNESS * values.std(axis=0)
        near[:, known] = expit((values - threshold) / np.where(width > 0, width, 1.0)).T
    total = near.sum(axis=1, keepdims=True)
    near = np.divide(near, total, out=np.full_like(near, 1.0 / n_queries), where=total > 0)
    weights: Vector = n_queries * (near + locality.shrink / n_queries) / (1.0 + locality.shrink)
    return weights


def _spread(similarities: Vector, wanted: int, rng: np.random.Generator) -> Indices:
    """Return queries far from each other to begin with (k-means++)."""
    medoids = [int(rng.integers(len(similarities)))]
    while len(medoids) < wanted:
        distance = 1.0 - similarities[:, medoids].max(axis=1)
        distance[distance < _TWINS] = 0.0
        if not distance.any():
            break
        medoids.append(int(rng.choice(len(distance), p=distance / distance.sum())))
    return np.array(medoids, np.int64)


def _settled(similarities: Vector, medoids: Indices) -> Indices:
    """Move every medoid to the middle of the queries that are nearest to it, until none moves."""
    for _ in range(_STEPS):
        nearest = similarities[:, medoids].argmax(axis=1)
        moved = medoids.copy()
        for number in range(len(medoids)):
            members = np.flatnonzero(nearest == number)
            if len(members):
                within = similarities[np.ix_(members, members)].sum(axis=1)
                moved[number] = members[int(np.argmax(within))]
        if (moved == medoids).all():
            break
        medoids = moved
    return np.unique(medoids)
