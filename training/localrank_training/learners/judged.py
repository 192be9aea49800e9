"""What every learner must know of its queries before it starts: finite numbers, and how much each query counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

__all__ = ["check_finite", "query_weights"]


def query_weights(queries: QuerySet, weights: Vector | None) -> Vector:
    """Return ``[n_queries]`` how much each query counts, ones by default.

    Raises:
        InvalidConfiguration: not one finite number per query, one is negative, or all are zero.
    """
    if weights is None:
        return np.ones(len(queries))
    weights = np.asarray(weights, np.float64)
    if weights.shape != (len(queries),):
        raise InvalidConfiguration(
            f"weights: expected one per query ({len(queries)}), found shape {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise InvalidConfiguration(
            "weights: expected finite numbers, none negative and at least one positive, "
            f"found {weights.min()} to {weights.max()}"
        )
    return weights


def check_finite(queries: QuerySet, method: str) -> None:
    """Refuse what arithmetic cannot take.

    Raises:
        InvalidData: there is no document, or a feature or label is not finite.
    """
    if not queries.n_docs:
        raise InvalidData(f"{method}: expected judged documents, found none")
    if not np.isfinite(queries.labels).all():
        row = int(np.flatnonzero(~np.isfinite(queries.labels))[0])
        raise InvalidData(
            f"{method}: query {_query(queries, row)}: expected a finite label, found {queries.labels[row]}"
        )
    if not np.isfinite(queries.documents).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(queries.documents))[0])
        raise InvalidData(
            f"{method}: query {_query(queries, row)}, feature {queries.feature_names[column]!r}: expected a finite "
            f"value, found {queries.documents[row, column]}; impute missing values first"
        )


def _query(queries: QuerySet, row: int) -> str:
    return repr(queries.query_ids[int(np.searchsorted(queries.offsets, row, side="right")) - 1])
