"""What every learner must know of its queries before it starts: finite numbers, and how much each query counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank.features.columns import portions
from localrank_training.data.rows import CELLS, unheld

if TYPE_CHECKING:
    from localrank.arrays import Array, Bits, Vector
    from localrank_training.data.queries import QuerySet


def query_weights(queries: QuerySet, weights: Vector | None) -> Vector:
    """Return ``[n_queries]`` how much each query counts, ones by default.

    Raises:
        InvalidData: not one finite number per query, one is negative, or all are zero.
    """
    if weights is None:
        return np.ones(len(queries))
    weights = np.asarray(weights, np.float64)
    if weights.shape != (len(queries),):
        raise InvalidData(f"weights: expected one per query ({len(queries)}), found shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise InvalidData(
            "weights: expected finite numbers, none negative and at least one positive, "
            f"found {weights.min()} to {weights.max()}"
        )
    return weights


def check_finite(queries: QuerySet, method: str, *, missing: bool = False) -> None:
    """Refuse values that are not finite.

    Args:
        queries: what is learned from.
        method: the learner's name in configuration.
        missing: whether the learner takes NaN for a missing value.

    Raises:
        InvalidData: there is no document, or a feature or label is not finite.
    """
    if not queries.n_docs:
        raise InvalidData(f"{method}: expected judged documents, found none")
    if not np.isfinite(queries.labels).all():
        row = int(np.flatnonzero(~np.isfinite(queries.labels))[0])
        raise InvalidData(
            f"{method}: {queries.where(row)}: expected a finite label, found {queries.labels[row]}"
        )
    documents = unheld(queries.documents)
    if documents is not None and documents.finite:
        return
    for rows in portions(queries.documents, CELLS):
        some = queries.documents[rows]
        bad = np.isinf(some) if missing else ~np.isfinite(some)
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            found = some[row, column]
            raise InvalidData(
                f"{method}: {queries.where(rows.start + row)}, feature {queries.feature_names[column]!r}: expected a finite "
                f"value, found {found}" + ("; impute missing values first" if np.isnan(found) else "")
            )


def check_grades(queries: QuerySet, method: str, *, whole: bool = False, highest: float = np.inf) -> None:
    """Refuse labels that have no gain.

    Args:
        queries: what is learned from; labels are finite.
        method: the learner's name in configuration.
        whole: whether labels must be whole numbers.
        highest: the largest label that has a gain.

    Raises:
        InvalidData: a label is negative, not whole, or too large.
    """
    labels = queries.labels
    for bad, expected in (
        (labels < 0, "labels of at least 0"),
        (whole & (labels != np.trunc(labels)), "whole numbers as labels"),
        (labels > highest, f"labels of at most {highest:g}"),
    ):
        if bad.any():
            row = int(bad.argmax())
            raise InvalidData(f"{method}: {queries.where(row)}: expected {expected}, found {labels[row]:g}")


def differs_within(values: Array, queries: QuerySet) -> Bits:
    """Return for each query whether any column of ``values`` ``[n_docs]`` or ``[n_docs, n_columns]`` differs in it."""
    filled = np.flatnonzero(queries.lengths)
    begins = queries.offsets[:-1][filled]
    rows = values.reshape(len(values), -1)
    differs = np.zeros(len(queries), np.bool_)
    most, least = np.maximum.reduceat(rows, begins), np.minimum.reduceat(rows, begins)
    differs[filled] = (most != least).any(axis=1)
    return differs


def check_informative(queries: QuerySet, weights: Vector, method: str) -> None:
    """Refuse queries in which no feature has anything to do with any difference in labels.

    Raises:
        InvalidData: no query that counts has documents with different labels and different features.
    """
    labels = differs_within(queries.labels, queries) & (weights > 0)
    if not labels.any():
        raise InvalidData(
            f"{method}: expected two documents of one query with different labels, found none in {len(queries)} queries"
        )
    counted = zip(labels.tolist(), queries.clouds(), strict=True)
    if not any(counts and (documents != documents[0]).any() for counts, documents in counted):
        raise InvalidData(
            f"{method}: expected two documents of one query with different features, found none in "
            f"{np.count_nonzero(labels)} queries with different labels"
        )
