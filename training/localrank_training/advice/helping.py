"""What should be done about judged queries, each with its evidence.

The evidence is documents of one query with almost the same features but different labels, queries that teach nothing, and what
features are there at all. Only a sample of the queries is used, so that it takes seconds. Whether more queries, documents,
features or better labels would help most is not said: in planted cases, what is lost if some is taken away named the right one
no more often than a fixed answer did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank_training.data.inspection import inspect
from localrank_training.evaluation.twins import twins_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.twins import Twins

#: At most this many documents are looked at; more would take longer than a minute.
MOST_DOCUMENTS = 20_000
#: With fewer queries that have documents of different labels, there is no advice.
FEWEST = 10
_SHOWN = 5
METRIC = "ndcg@10"


@dataclass(frozen=True, slots=True)
class Advice:
    """What was found.

    Attributes:
        queries, documents: that were looked at, ``of`` how many queries.
        idle: number of queries whose documents all have one label; nothing can be learned from them.
        twins: documents alike with different labels.
        useless: features with one value everywhere.
        of_query: other features that are constant within every query, and that nobody has named as features of the query.
        missing: features with missing values, and the share that is missing, most first.
    """

    queries: int
    documents: int
    of: int
    idle: int
    twins: Twins
    useless: tuple[str, ...]
    of_query: tuple[str, ...]
    missing: tuple[tuple[str, float], ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The conclusions, the most helpful first, each with its evidence."""
        return (*self._of_twins(), *self._of_queries(), *self._of_features())

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "queries": self.queries,
            "documents": self.documents,
            "of_queries": self.of,
            "queries_of_one_label": self.idle,
            "twins": self.twins.to_json(),
            "features_constant": list(self.useless),
            "features_constant_within_queries": list(self.of_query),
            "features_with_missing_values": [
                {"feature": name, "missing": share} for name, share in self.missing
            ],
            "sentences": list(self.sentences),
        }

    def _of_twins(self) -> list[str]:
        found = self.twins
        if found.equal and found.ceiling < found.best:
            text = (
                f"{found.equal} of {found.documents} documents have the same features as a document of their "
                f"query with another label: no ranker can be expected to exceed {METRIC} {found.ceiling:.4f} "
                f"instead of {found.best:.4f}. Judge them again, or add a feature that tells them apart "
                f"({_queries(found.examples)})."
            )
            return [text]
        if found.near > found.documents / 100:
            text = (
                f"{found.near} of {found.documents} documents are almost equal to a document of their query "
                "with another label. Judge them again, or add a feature that tells them apart "
                f"({_queries(found.examples)})."
            )
            return [text]
        return []

    def _of_queries(self) -> list[str]:
        if not self.idle:
            return []
        return [
            (
                f"{self.idle} of {self.of} queries have documents of one label only, so a model learns nothing "
                "from them: judge more of their documents."
            )
        ]

    def _of_features(self) -> list[str]:
        said = []
        if self.useless:
            said.append(f"Useless, because there is one value everywhere: {_some(self.useless)}.")
        if self.of_query:
            said.append(
                f"Constant within every query: {_some(self.of_query)}. Name such features of the query with --query-feature: trees "
                "and routers use them, linear members cannot."
            )
        if self.missing:
            shares = [f"{name} ({share:.0%})" for name, share in self.missing]
            said.append(f"Values are missing: {_some(shares)}. Fill them at their source.")
        return said


def advise(queries: QuerySet, *, seed: int = 0) -> Advice:
    """Find out what should be done about the data.

    Raises:
        InvalidData: fewer than `FEWEST` queries have documents of different labels.
    """
    sample = sample_of(queries, seed)
    features = inspect(sample).features
    missing = sorted(
        ((one.name, one.missing / sample.n_docs) for one in features if one.missing),
        key=lambda pair: -pair[1],
    )
    return Advice(
        queries=len(sample),
        documents=sample.n_docs,
        of=len(queries),
        idle=len(queries) - len(_teaching(queries)),
        twins=twins_of(sample),
        useless=tuple(one.name for one in features if one.constant),
        of_query=tuple(
            one.name
            for one, known in zip(features, sample.features, strict=True)
            if one.per_query and not one.constant and known.scope == "document"
        ),
        missing=tuple(missing),
    )


def sample_of(queries: QuerySet, seed: int) -> QuerySet:
    """Return queries that can teach something, as many as take a minute.

    Raises:
        InvalidData: fewer than `FEWEST` queries have documents of different labels.
    """
    order = drawn(queries, seed)
    fits = np.cumsum(queries.lengths[order]) <= MOST_DOCUMENTS
    return queries.select(np.sort(order[: max(FEWEST, int(fits.sum()))]))


def drawn(queries: QuerySet, seed: int) -> Indices:
    """Return the positions of the queries that can teach something, in random order.

    Raises:
        InvalidData: fewer than `FEWEST` queries have documents of different labels.
    """
    teaching = _teaching(queries)
    if len(teaching) < FEWEST:
        raise InvalidData(
            f"expected at least {FEWEST} queries with documents of different labels, found {len(teaching)} of {len(queries)}"
        )
    order: Indices = np.random.default_rng(seed).permutation(teaching)
    return order


def _teaching(queries: QuerySet) -> list[int]:
    return [query for query in range(len(queries)) if len(np.unique(queries.labels_of(query))) > 1]


def _queries(names: Sequence[str]) -> str:
    return f"most of them in {'query' if len(names) == 1 else 'queries'} {', '.join(names)}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
