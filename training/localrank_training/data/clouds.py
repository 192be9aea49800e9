"""Judged queries after the contract of a model: the input of the learners and the representation.

Each query goes through `FeatureContract.cloud` by itself, as in serving, so that a learner gets exactly the numbers
that its scorer will get.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.features.blocks import parse, width_of
from localrank.features.columns import forget
from localrank_training.data.encoding import Encoders
from localrank_training.data.rows import Rows, fits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.arrays import Indices, Matrix
    from localrank.features.blocks import Cloud
    from localrank.features.contract import FeatureContract
    from localrank.routing.route import Route
    from localrank_training.data.queries import QuerySet


class Clouds:
    """Judged queries and the contract that they go through.

    Args:
        queries: as they were read.
        contract: of the model.
        routes: one per query, for the block ``route``.
        n_clusters: of the model, likewise.
        encoders: make each query's encodings from other queries; without them all have those of the contract.
        held: the queries of this group are held out, so that no encoding learns from them.
    """

    def __init__(
        self,
        queries: QuerySet,
        contract: FeatureContract,
        routes: Sequence[Route] | None = None,
        n_clusters: int = 0,
        *,
        encoders: Encoders | None = None,
        held: int | None = None,
    ) -> None:
        self.queries, self.contract = queries, contract
        self._routes, self._n_clusters = routes, n_clusters
        self._encoders = encoders
        self._contracts = (
            []
            if encoders is None
            else [replace(contract, encodings=encodings) for encodings in encoders.for_each(held)]
        )
        self._seen: dict[str, QuerySet] = {}

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.queries)

    def __iter__(self) -> Iterator[Cloud]:
        """Yield the cloud of each query."""
        for query, documents in enumerate(self.queries.clouds()):
            yield self.cloud_of(query, documents)

    def cloud_of(self, query: int, documents: Matrix | None = None) -> Cloud:
        """Return the cloud of one query, whose documents may be at hand."""
        contract = self.contract if self._encoders is None else self._contracts[self._encoders.part_of[query]]
        cloud = contract.cloud(self.queries.documents_of(query) if documents is None else documents)
        if self._routes is not None:
            cloud.routed(self._routes[query], self._n_clusters)
        return cloud

    def to_learn_from(self, group_of: Indices | None = None) -> Clouds:
        """Return the clouds that models learn from: what stands for a category does not know the query's labels.

        Without categories they are the same.

        Args:
            group_of: ``[n_queries]`` groups that `without` will hold out.
        """
        encoders = Encoders.of(self.queries, group_of)
        if encoders is None:
            return self
        return Clouds(self.queries, self.contract, self._routes, self._n_clusters, encoders=encoders)

    def without(self, group: int) -> Clouds:
        """Return the clouds `to_learn_from` if a group of queries is held out."""
        if self._encoders is None:
            return self
        return Clouds(
            self.queries,
            self.contract,
            self._routes,
            self._n_clusters,
            encoders=self._encoders,
            held=group,
        )

    @property
    def as_served(self) -> Clouds:
        """The clouds as the model will see queries."""
        return (
            self
            if self._encoders is None
            else Clouds(self.queries, self.contract, self._routes, self._n_clusters)
        )

    @property
    def widths(self) -> dict[str, int]:
        """Columns of every block."""
        return self.contract.widths(self._n_clusters)

    @property
    def directions(self) -> dict[str, Indices]:
        """Of every block but ``quadratic``, how each column may move a score (`Feature.monotone`); empty if nothing is said.

        Within a list all blocks keep the order of a feature's values, and ``to_best`` reverses it.
        """
        signs = np.array([one.monotone for one in self.contract.features], np.int64)
        if not signs.any():
            return {}
        widths = self.widths
        further = np.zeros(self.contract.n_columns - len(signs), np.int64)
        columns = np.concatenate([signs, further])
        return {
            "raw": signs,
            **dict.fromkeys(("normalised", "minmax", "zscore", "rank"), columns),
            "to_best": -columns,
            **{block: np.zeros(widths[block], np.int64) for block in ("list", "route")},
        }

    def seen_as(self, blocks: str) -> QuerySet:
        """Return the queries with their documents in these blocks (`localrank.features.blocks`); made once.

        If the set is too large to be copied, they are computed at each use.
        """
        if blocks not in self._seen:
            seen = _Seen(self, blocks)
            few = fits(self.queries.documents, len(seen) * seen.shape[1] // max(self.queries.n_features, 1))
            documents = seen.between(0, len(seen)) if few else seen.as_matrix
            names = self.contract.columns(blocks, self._n_clusters)
            # Only unscaled codes are codes, and only the columns of `raw` have the plain names of features beside others.
            codes = any(str(block) == "raw" for block in parse(blocks))
            special = self.contract.special if codes else {}
            self._seen[blocks] = replace(
                self.queries, documents=documents, feature_names=names, special=special
            )
        return self._seen[blocks]


class _Seen(Rows):
    """The documents of clouds in some blocks."""

    def __init__(self, clouds: Clouds, blocks: str) -> None:
        super().__init__(clouds.queries.n_docs, width_of(blocks, clouds.widths))
        self._clouds, self._blocks = clouds, blocks
        # `Cloud` promises this of all other blocks, and refuses what is infinite.
        raw = any(block.name == "raw" for block in parse(blocks))
        self.finite = not (raw and "nan" in clouds.contract.missing)

    def between(self, begin: int, end: int) -> Matrix:
        queries = self._clouds.queries
        found = np.empty((end - begin, self.shape[1]), np.float32)
        if begin == end:
            return found
        first = int(np.searchsorted(queries.offsets, begin, side="right")) - 1
        last = int(np.searchsorted(queries.offsets, end, side="left"))
        documents = np.asarray(queries.documents[queries.offsets[first] : queries.offsets[last]])
        for query in range(first, last):
            span = queries.span(query)
            if span.stop > span.start:
                start = int(queries.offsets[first])
                rows = self._clouds.cloud_of(query, documents[span.start - start : span.stop - start]).rows(
                    self._blocks
                )
                low, high = max(begin, span.start), min(end, span.stop)
                found[low - begin : high - begin] = rows[low - span.start : high - span.start]
        forget(queries.documents, int(queries.offsets[first]), int(queries.offsets[last]))
        return found

    def some(self, rows: Indices) -> Matrix:
        """Return those rows; the cloud of a query is made once, however its rows are spread."""
        queries = self._clouds.queries
        found = np.empty((len(rows), self.shape[1]), np.float32)
        query_of = np.searchsorted(queries.offsets, rows, side="right") - 1
        order = np.argsort(query_of, kind="stable")
        ends = np.flatnonzero(np.diff(query_of[order], append=-1)) + 1
        for here in np.split(order, ends[:-1]) if len(order) else ():
            query = int(query_of[here[0]])
            found[here] = self._clouds.cloud_of(query).rows(self._blocks)[rows[here] - queries.offsets[query]]
        return found
