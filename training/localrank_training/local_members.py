"""Local models of the linear member of a blend, rehearsed: the scores of every degree of locality on held-out queries.

The model of a prototype weighs all queries (`localrank_training.prototypes`). With the matrices of each query
(`localrank_training.learners.least_squares`) it costs one small linear system, so that many degrees of locality are tried
for about the price of one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from localrank_training.blending import standardised_within
from localrank_training.comparisons import interval_of
from localrank_training.learners.least_squares import PerQueryMatrices
from localrank_training.prototypes import Locality, local_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank_training.comparisons import Interval
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.linear import LeastSquares
    from localrank_training.learners.rehearsal import Rehearsal, Tried

#: Bytes that the matrices of all queries may take.
_MOST_BYTES = 500_000_000


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of local models over the global one on held-out queries. These queries did not choose the degree of
    locality.
    """

    mean: float
    interval: Interval | None
    n_queries: int

    def __str__(self) -> str:
        within = "" if self.interval is None else f" {self.interval}"
        return f"{self.mean:+.4f}{within} over {self.n_queries} queries"


class LocalMembers:
    """The queries of a linear member, ready for many weighted models.

    Args:
        learner: the member, with a settled ridge.
        lesson: of the blend.
        part_of: ``[n_queries]`` as in the rehearsal.
    """

    def __init__(self, learner: LeastSquares, lesson: Lesson, part_of: Indices) -> None:
        self._queries = lesson.seen_as(learner.blocks).queries
        self._matrices = PerQueryMatrices.of(
            self._queries, learner.gains(self._queries), centre=learner.centre
        )
        self._shares = lesson.shares * learner.counts(self._queries)
        self._ridge = float(learner.ridge)
        self._part_of = part_of

    @staticmethod
    def fit(n_queries: int, width: int) -> bool:
        """Tell whether the matrices of this many queries fit into memory."""
        return n_queries * width * width * 8 <= _MOST_BYTES

    def rehearsed(
        self,
        globally: Tried,
        similarities: Vector,
        clusters: Indices,
        localities: Sequence[Locality],
        gate: float,
    ) -> Tried:
        """Return a member with local candidates after its one global candidate.

        Args:
            globally: the member; its first candidate scores queries without a cluster.
            similarities: ``[n_queries, n_prototypes]``.
            clusters: ``[n_queries]`` where each query would be sent by a router that does not know it; -1 is nowhere.
            localities: the degrees of locality.
            gate: see `Tried`.
        """
        queries = self._queries
        scores = np.repeat(globally.scores[:1], len(localities), axis=0)
        for part in np.unique(self._part_of):
            kept = np.flatnonzero(self._part_of != part)
            held = np.flatnonzero((self._part_of == part) & (clusters >= 0))
            by_share: dict[float, list[int]] = {}
            for number, locality in enumerate(localities):
                by_share.setdefault(locality.share, []).append(number)
            for share, numbers in by_share.items():
                near = np.zeros((similarities.shape[1], len(queries)))
                near[:, kept] = local_weights(similarities[kept], Locality(share, 0.0))
                alike = np.zeros(len(queries))
                alike[kept] = 1.0
                models = self._models(near, alike, [localities[number].shrink for number in numbers])
                for query in held.tolist():
                    span = queries.span(query)
                    scores[numbers, span] = models[:, clusters[query]] @ queries.documents[span].T
        standard = [standardised_within(one, queries.offsets) for one in scores]
        return replace(
            globally,
            learners=globally.learners[:1] * (1 + len(localities)),
            scores=np.stack([globally.scores[0], *standard]),
            seconds=np.repeat(globally.seconds[:1], 1 + len(localities)),
            microseconds=np.repeat(globally.microseconds[:1], 1 + len(localities)),
            localities=tuple(localities),
            gate=gate,
        )

    def _models(self, near: Vector, alike: Vector, shrinks: Sequence[float]) -> Vector:
        """Return ``[n_shrinks, n_prototypes, d]``; sums over queries are linear in the weights, so they are made once."""
        close, every = self._shares * near, self._shares * alike
        local, whole = self._matrices.total(close), self._matrices.total(every)
        counts, count = close.sum(axis=1), float(every.sum())
        d = local.gram.shape[-1]
        models = []
        for shrink in shrinks:
            total = counts + shrink * count
            gram = counts[:, None, None] * local.gram + shrink * count * whole.gram
            moment = counts[:, None] * local.moment + shrink * count * whole.moment
            gram, moment = gram / total[:, None, None], moment / total[:, None]
            ridge = self._ridge * np.trace(gram, axis1=1, axis2=2) / d
            systems = gram + ridge[:, None, None] * np.eye(d)
            models.append(np.linalg.solve(systems, moment[..., None])[..., 0])
        return np.stack(models)


def gain_of(rehearsal: Rehearsal, position: int) -> Gain:
    """Return what the local candidates of a member gain over its global one, each part scored by the others' choice."""
    figures = rehearsal.figures[position]
    gains = np.full(figures.shape[1], np.nan)
    for part in np.unique(rehearsal.part_of):
        held = rehearsal.part_of == part
        best = 1 + int(np.argmax(rehearsal.mean(figures[1:], ~held)))
        gains[held] = figures[best, held] - figures[0, held]
    known = gains[~np.isnan(gains)]
    return Gain(
        float(known.mean()) if len(known) else 0.0, interval_of(known) if len(known) else None, len(known)
    )
