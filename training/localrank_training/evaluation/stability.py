"""How easily a query changes its cluster: the weakness of routing by principal directions.

No change affects what the query is about. A query flips when its changed documents are routed to
another cluster than its own; a query that goes to the global scorer both times does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank_training.data.clouds import Clouds

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Indices, Matrix
    from localrank.ranker import Ranker
    from localrank_training.data.queries import QuerySet

#: Repetitions of the changes that draw numbers.
_REPEATS = 3
#: Queries that are changed; more would not say more.
_MOST = 1000


def _drop(documents: Matrix, random: np.random.Generator) -> Matrix:
    kept = len(documents) - max(1, round(len(documents) / 10)) if len(documents) > 1 else 1
    return documents[np.sort(random.permutation(len(documents))[:kept])]


def _truncate(documents: Matrix, _random: np.random.Generator) -> Matrix:
    return documents[:20]


def _duplicate(documents: Matrix, random: np.random.Generator) -> Matrix:
    copied = random.integers(len(documents), size=max(1, round(len(documents) / 10)))
    return np.concatenate([documents, documents[copied]])


def _jitter(documents: Matrix, random: np.random.Generator) -> Matrix:
    # A zero is a zero wherever it is computed.
    down = random.random(documents.shape) < 0.5
    moved = np.nextafter(documents, np.where(down, np.float32(-np.inf), np.float32(np.inf)))
    return np.where(documents == 0, documents, moved)


#: The changes by name: a tenth of the documents dropped, only the first twenty kept, a tenth given twice, every
#: value but zeros moved by one unit in its last place.
CHANGES: dict[str, Callable[[Matrix, np.random.Generator], Matrix]] = {
    "drop_10_percent": _drop,
    "first_20": _truncate,
    "duplicate_10_percent": _duplicate,
    "jitter": _jitter,
}
#: The changes for people.
IN_WORDS = {
    "drop_10_percent": "a tenth of the documents left out",
    "first_20": "only the first 20 documents",
    "duplicate_10_percent": "a tenth of the documents twice",
    "jitter": "values changed in the last digit",
}

_DRAWN = ("drop_10_percent", "duplicate_10_percent", "jitter")


def flip_rates(ranker: Ranker, queries: QuerySet, seed: int = 0) -> dict[str, float]:
    """Return for each change the share of queries that it sends to another cluster.

    Args:
        ranker: whose contract, representation and router are used; nothing is scored.
        queries: that the router does not know, as they come to the ranker, not yet normalised. Of more than
            a thousand a sample is taken.
        seed: of the sample and of the changes; those that draw are averaged over a few draws.
    """
    flips = _flips(ranker, _sample(queries, seed), seed)
    return {name: float(np.mean(found)) if len(found) else 0.0 for name, found in flips.items()}


def flip_rates_of_known(
    ranker: Ranker, queries: QuerySet, clusters: Indices, seed: int = 0
) -> dict[str, float]:
    """Return the flip rates of the very queries that the router compares with.

    After a small change a query still finds itself, so this would say nothing about new queries. So each fifth of the
    queries is routed by comparing it with the other four. A router that does not compare with training queries is taken
    as it is.

    Args:
        ranker: as for `flip_rates`.
        queries: that it was built from.
        clusters: ``[n_queries]``, -1 for those without a signature.
        seed: as for `flip_rates`, and of the fifths.
    """
    points = ranker.representation.of_all(Clouds(queries, ranker.contract))
    folds = np.random.default_rng(seed).permutation(np.arange(len(queries)) % 5)
    found: dict[str, list[bool]] = {name: [] for name in CHANGES}
    for fold in range(5):
        known = np.flatnonzero((folds != fold) & (clusters >= 0))
        held = np.flatnonzero(folds == fold)[: _MOST // 5]
        if not len(known) or not len(held):
            continue
        router = ranker.router.knowing(points.take(known), clusters[known])
        if router is None:
            return flip_rates(ranker, queries, seed)
        apart = replace(ranker, router=router)
        for name, flips in _flips(apart, queries.select(held), seed + fold).items():
            found[name] += flips
    return {name: float(np.mean(flips)) if flips else 0.0 for name, flips in found.items()}


def _flips(ranker: Ranker, queries: QuerySet, seed: int) -> dict[str, list[bool]]:
    clouds = [documents for documents in queries.clouds() if len(documents)]
    own = [_cluster(ranker, documents) for documents in clouds]
    found = {}
    features = ranker.contract.features
    codes = [at for at, feature in enumerate(features) if feature.kind == "category"]
    # What is said of the query does not change with its documents.
    told = [at for at, feature in enumerate(features) if feature.scope == "query"]

    def changed(change: Callable[[Matrix, np.random.Generator], Matrix], documents: Matrix) -> Matrix:
        values = change(documents, random)
        if codes or told:
            values = values.copy()
            values[:, codes] = np.round(values[:, codes])  # a code has no last digit
            values[:, told] = documents[:1, told]
        return values

    for name, change in CHANGES.items():
        random = np.random.default_rng(seed)
        found[name] = [
            _cluster(ranker, changed(change, documents)) != cluster
            for _ in range(_REPEATS if name in _DRAWN else 1)
            for documents, cluster in zip(clouds, own, strict=True)
        ]
    return found


def _sample(queries: QuerySet, seed: int) -> QuerySet:
    if len(queries) <= _MOST:
        return queries
    return queries.select(np.sort(np.random.default_rng(seed).permutation(len(queries))[:_MOST]))


def _cluster(ranker: Ranker, documents: Matrix) -> int | None:
    return ranker.route(ranker.contract.cloud(documents)).cluster
