"""How much each query counts: a column that repeats the query's weight on each of its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank.arrays import Indices, Vector


class QueryWeights:
    """The weights that have been read so far."""

    def __init__(self) -> None:
        self._known: Vector = np.empty(0)

    def copy(self) -> QueryWeights:
        """Return a copy that later documents do not change."""
        other = QueryWeights()
        other._known = self._known.copy()
        return other

    def add(
        self, queries: Indices, weights: Vector, query_ids: Sequence[str], at: Callable[[int], str]
    ) -> None:
        """Take ``[n_docs]`` query numbers and weights.

        Args:
            queries: positions in ``query_ids``.
            weights: finite, at least 0.
            query_ids: of all queries so far.
            at: says where one of these documents stands.

        Raises:
            InvalidData: two documents of a query say different things.
        """
        new = np.full(len(query_ids) - len(self._known), np.nan)
        known = self._known = np.concatenate([self._known, new])
        numbers, first = np.unique(queries, return_index=True)
        known[numbers] = np.where(np.isnan(known[numbers]), weights[first], known[numbers])
        wrong = np.flatnonzero(weights != known[queries])
        if len(wrong):
            row = int(wrong[0])
            query = int(queries[row])
            raise InvalidData(
                f"{at(row)}: expected one weight for all documents of query {query_ids[query]!r}, found "
                f"{weights[row]:g} after {known[query]:g}"
            )

    def of_queries(self) -> Vector:
        """Return ``[n_queries]``."""
        return self._known
