r"""What is measured of hyperplanes: errors of order, directions, and the plane of two principal coordinates [qin2007].

Also graded queries whose hyperplanes are known. With a step :math:`e_g` from grade ``g`` to the next, a document of grade ``g``
is drawn around :math:`m_q + \sum_{h < g} e_h` with unit variance, so that the best hyperplane for grades ``s < t`` has the normal
:math:`\sum_{s \le h < t} e_h` and orders a share :math:`\Phi(-\|\sum e_h\| / \sqrt 2)` of the pairs wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank_training.data.queries import QuerySet, default_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector

#: Of the stand-in for definition search: what its 170 queries look like in the paper (about 10,000 pairs to learn from), and
#: steps that give the errors of its Table 6: 0.109 between bad and indifferent, 0.055 between indifferent and good.
_QUERIES, _DOCUMENTS, _FEATURES = 170, 14, 20
_SHARES = (0.65, 0.25, 0.10)
_STEPS = (1.74, 2.26)


def order_errors(queries: QuerySet, scores: Vector, low: float, high: float) -> tuple[float, int]:
    """Return how many pairs of a document of each label are ordered wrongly, a tie counting one half, and all pairs."""
    wrong, pairs = 0.0, 0
    for query in range(len(queries)):
        labels, own = queries.labels_of(query), scores[queries.span(query)]
        worse, better = np.sort(own[labels == low]), own[labels == high]
        pairs += len(worse) * len(better)
        not_above = len(worse) - np.searchsorted(worse, better, "left")
        above = len(worse) - np.searchsorted(worse, better, "right")
        wrong += 0.5 * float(not_above.sum() + above.sum())
    return wrong, pairs


def cosines(normals: Vector) -> Vector:
    """Return the cosine of every two rows of ``[n, n_features]``."""
    units = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    return np.asarray(units @ units.T, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """The documents of one query in their two principal coordinates.

    Attributes:
        coordinates: ``[n_docs, 2]``.
        axes: ``[2, n_features]``, orthonormal.
        share: of the variance that the plane holds.
    """

    coordinates: Vector
    axes: Vector
    share: float


def principal_plane(documents: Vector) -> Plane:
    """Return the plane of two principal coordinates of ``[n_docs, n_features]``; the largest number of an axis is positive."""
    centred = documents - documents.mean(axis=0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    first = axes[:2]
    signs = np.sign(first[np.arange(len(first)), np.abs(first).argmax(axis=1)])
    first = first * signs[:, None]
    total = float(values @ values)
    return Plane(centred @ first.T, first, float(values[:2] @ values[:2]) / total if total else 0.0)


def turned(count: int, turn: float, rng: np.random.Generator, n_features: int) -> Vector:
    """Return ``[count, n_features]`` unit directions: all equal for a turn of 0, and at right angles to each other for
    1.
    """
    frame = np.linalg.qr(rng.standard_normal((n_features, count)))[0].T
    mixed = (1.0 - turn) * frame[0] + turn * frame
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), np.float64)


def graded(
    n_queries: int, n_docs: int, steps: Vector, shares: Sequence[float], rng: np.random.Generator
) -> QuerySet:
    """Draw queries with ``n_steps + 1`` grades from ``steps [n_steps, n_features]``; ``shares`` are the shares of the
    grades.
    """
    n_features = steps.shape[1]
    centres = np.concatenate([np.zeros((1, n_features)), np.cumsum(steps, axis=0)])
    labels = rng.choice(len(centres), n_queries * n_docs, p=np.asarray(shares) / sum(shares))
    place = np.repeat(rng.standard_normal((n_queries, n_features)), n_docs, axis=0)
    documents = place + centres[labels] + rng.standard_normal(place.shape)
    return QuerySet(
        documents=documents.astype(np.float32),
        labels=labels.astype(np.float64),
        offsets=np.arange(n_queries + 1) * n_docs,
        query_ids=tuple(str(query + 1) for query in range(n_queries)),
        feature_names=default_names(n_features),
        lines=np.arange(len(documents)),
    )


def definition_search(seed: int) -> QuerySet:
    """Draw the stand-in for the paper's definition search: three grades whose steps are at right angles (Table 5 a)."""
    rng = np.random.default_rng([seed, 2007])
    steps = turned(2, 1.0, rng, _FEATURES) * np.array(_STEPS)[:, None]
    return graded(_QUERIES, _DOCUMENTS, steps, _SHARES, rng)
