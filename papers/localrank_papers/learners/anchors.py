"""Ideal candidate documents: the points that relevant documents are near to [su2017, section 3]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import Judgements

if TYPE_CHECKING:
    from localrank.arrays import Bits, Vector
    from localrank_training.data.queries import QuerySet

Anchor: TypeAlias = Literal["document", "mean", "origin"]
#: What it means, for people.
ANCHOR = (
    "the ideal: a relevant document, the mean of the relevant ones, or the origin, for documents that are differences from a "
    "query of the same space"
)

#: More queries than this only cost time; they find the same best document.
_ENOUGH = 300


def usable_queries(queries: QuerySet, relevant: float, shares: Vector, method: str) -> tuple[Bits, Vector]:
    """Return which documents are relevant, and the shares of the queries that have both kinds; the others get none.

    Raises:
        InvalidData: no query that counts has both, or none whose two kinds differ in a feature.
    """
    chosen = queries.labels >= relevant
    query_of = queries.query_of
    n_relevant = np.bincount(query_of[chosen], minlength=len(queries))
    usable = (n_relevant > 0) & (n_relevant < queries.lengths)
    counted = np.where(usable, shares, 0.0)
    if not counted.any():
        raise InvalidData(
            f"{method}: expected a query with documents below and from label {relevant:g} on, found none "
            f"(labels {queries.labels.min():g} to {queries.labels.max():g}, {len(queries)} queries)"
        )
    first = queries.documents[queries.offsets[:-1][query_of]] if queries.n_docs else queries.documents
    differs = np.bincount(query_of[(queries.documents != first).any(axis=1)], minlength=len(queries)) > 0
    counted[~differs] = 0.0
    if not counted.any():
        raise InvalidData(
            f"{method}: expected relevant and other documents of one query with different features, found none in "
            f"{np.count_nonzero(usable)} queries with both"
        )
    return chosen, counted / counted.sum()


def relevant_mean(queries: QuerySet, relevant: Bits, shares: Vector) -> Vector:
    """Return the mean over queries of the mean of their relevant documents, ``[n_features]``."""
    anchor = np.zeros(queries.n_features)
    for query in np.flatnonzero(shares).tolist():
        span = queries.span(query)
        anchor += shares[query] * queries.documents[span][relevant[span]].mean(axis=0, dtype=np.float64)
    return np.asarray(anchor / shares.sum(), np.float64)


def best_document(
    queries: QuerySet,
    relevant: Bits,
    shares: Vector,
    transform: Vector,
    *,
    metric: str,
    candidates: int,
    rng: np.random.Generator,
) -> tuple[Vector, float]:
    """Return the relevant document by whose nearness the queries are ranked best, and how well.

    Args:
        queries: judged queries.
        relevant: ``[n_docs]``.
        shares: ``[n_queries]`` how much each counts; none relevant and zero for those that do not.
        transform: ``[n_rows, n_features]``, the metric's ``W``.
        metric: what is measured, such as ``ndcg@10``.
        candidates: how many relevant documents are tried; drawn at random if there are more.
        rng: for drawing them, and queries if there are very many.
    """
    counted = np.flatnonzero(shares)
    if len(counted) > _ENOUGH:
        counted = np.sort(rng.choice(counted, _ENOUGH, replace=False))
    rows = np.isin(queries.query_of, counted)
    some, own = queries.select(counted), shares[counted] / shares[counted].sum()
    places = np.flatnonzero(relevant[rows])
    if len(places) > candidates:
        places = np.sort(rng.choice(places, candidates, replace=False))
    judgements = Judgements(some.labels, some.offsets)
    projected = some.documents @ transform.T
    values = np.empty(len(places))
    for number, place in enumerate(places):
        apart = projected - projected[place]
        values[number] = own @ judgements.per_query(-np.vecdot(apart, apart), metric)
    best = int(values.argmax())
    return some.documents[places[best]].astype(np.float64), float(values[best])
