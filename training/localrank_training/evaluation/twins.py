r"""Documents of a query that are alike and have different labels, and what they cost.

A scorer gives documents with the same features the same score, so their order among themselves is left to chance. Let a
group be the documents of a query with equal features, and :math:`\bar g` its mean gain :math:`2^l - 1`. In expectation no
scorer can do better than to order the groups by :math:`\bar g`:

.. math::
    \text{ceiling} = \sum_{p=1}^{k} \bar g_{(p)}\, d(p) \;/\; \text{DCG@}k \text{ of the best order}

with :math:`\bar g_{(p)}` the group's mean gain of each document, largest first. The ceiling is the mean over queries; one
without gains counts as in the convention ``standard`` (zero), as everywhere in reports.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree

if TYPE_CHECKING:
    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank_training.data.queries import QuerySet

CUTOFF = 10
#: Documents are near each other if no feature differs by more than this share of its range in the query.
NEAR = 0.01


@dataclass(frozen=True, slots=True)
class Twins:
    """The cost of similar documents with different labels.

    Attributes:
        documents: that were looked at.
        equal: documents with the features of another one of their query and another label.
        near: as many, if features may differ by `NEAR` of their range.
        examples: ids of queries with the most of the latter.
        ceiling: the mean NDCG@10 that no scorer exceeds in expectation, because of equal documents.
        best: the same without any equal documents: less than 1 if queries have no relevant document.
    """

    documents: int
    equal: int
    near: int
    examples: tuple[str, ...]
    ceiling: float
    best: float

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def twins_of(queries: QuerySet, examples: int = 3) -> Twins:
    """Look for documents alike in every query."""
    equal, near, ceilings = [], [], []
    for query in range(len(queries)):
        documents, labels = queries.documents_of(query), queries.labels_of(query)
        groups = _groups(documents)
        equal.append(int(_contested(groups, labels).sum()))
        near.append(_near(documents, labels) if len(documents) > 1 else 0)
        ceilings.append(_ceiling(groups, labels))
    order = np.argsort(-np.array(near), kind="stable")[:examples]
    found = np.array(ceilings)
    return Twins(
        queries.n_docs,
        sum(equal),
        sum(near),
        tuple(queries.query_ids[query] for query in order if near[query]),
        float(found.mean()),
        float((found > 0).mean()),
    )


def contested(queries: QuerySet) -> Bits:
    """Return ``[n_docs]`` which documents have the features of another one of their query and another label."""
    found = [
        _contested(_groups(queries.documents_of(query)), queries.labels_of(query))
        for query in range(len(queries))
        if queries.lengths[query]
    ]
    return np.concatenate([*found, np.zeros(0, np.bool_)])


def _groups(documents: Matrix) -> Indices:
    """Return ``[n_docs]`` the group of each document; NaN equals NaN, and 0 equals -0."""
    words = np.where(np.isnan(documents), np.float32(np.nan), documents + np.float32(0)).view(np.uint32)
    return np.asarray(np.unique(words, axis=0, return_inverse=True)[1].reshape(-1), np.int64)


def _contested(groups: Indices, labels: Vector) -> Bits:
    """Return ``[n_docs]`` whether another document of the group has another label."""
    low, high = np.full(groups.max() + 1, np.inf), np.full(groups.max() + 1, -np.inf)
    np.minimum.at(low, groups, labels)
    np.maximum.at(high, groups, labels)
    return np.asarray((low < high)[groups])


def _near(documents: Matrix, labels: Vector) -> int:
    values = np.nan_to_num(np.asarray(documents, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = values.min(axis=0), values.max(axis=0)
    scaled = (values - low) / np.where(high > low, high - low, 1.0)
    # A missing value is as far from every other as can be.
    scaled[np.isnan(documents)] = 2.0
    pairs = cKDTree(scaled).query_pairs(NEAR, p=np.inf, output_type="ndarray")
    return len(np.unique(pairs[labels[pairs[:, 0]] != labels[pairs[:, 1]]]))


def _ceiling(groups: Indices, labels: Vector) -> float:
    gains = np.exp2(labels) - 1.0
    means = (np.bincount(groups, gains) / np.bincount(groups))[groups]
    discounts = 1.0 / np.log2(np.arange(2, min(CUTOFF, len(labels)) + 2))
    best = float(np.sort(gains)[::-1][: len(discounts)] @ discounts)
    return float(np.sort(means)[::-1][: len(discounts)] @ discounts) / best if best > 0 else 0.0
