r"""How important each feature is for a model: how much it adds to the scores.

The importance of feature ``j`` is the mean of :math:`|\phi_{ij}|` over the documents of judged queries, each ranked by the
scorer that it is routed to (`localrank.contributions`), as a share of the sum over all features. Labels are not used.

With :math:`s_{qj}` the sum of a query and :math:`t_q` that of all its features, the share is the ratio of two sums over
queries, so its standard error is that of a ratio [cochran1977]_:

.. math::
    r_j = \frac{\sum_q s_{qj}}{\sum_q t_q}, \qquad
    \mathrm{se}(r_j)^2 = \frac{n}{n - 1} \frac{\sum_q (s_{qj} - r_j t_q)^2}{(\sum_q t_q)^2}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import ExplanationRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Matrix, Vector
    from localrank.ranker import Ranker

#: Queries that are looked at, at most: evenly spread over those there are.
MOST_QUERIES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Importances:
    """Shares of features, which sum to 1 if any feature adds anything.

    Attributes:
        names: of the features.
        overall: ``[n_features]``, over all queries.
        clusters: ``[n_clusters, n_features]``, over the queries that are routed to each cluster; zeros if there are none.
        errors: ``[n_features]`` standard errors of `overall`; NaN if there is one query only.
    """

    names: tuple[str, ...]
    overall: Vector
    clusters: Vector
    errors: Vector

    def table(self, most: int = 20) -> list[dict[str, object]]:
        """Return the most important features and their shares, for the manifest."""
        return [
            {"feature": self.names[feature], "importance": float(self.overall[feature])}
            for feature in _first(self.overall, most)
        ]

    def features(self, cluster: int, most: int = 5) -> list[str]:
        """Return the names of a cluster's most important features."""
        return [self.names[feature] for feature in _first(self.clusters[cluster], most)]


def importances_of(ranker: Ranker, queries: Sequence[Matrix]) -> Importances | None:
    """Measure the importances on some queries' documents; nothing if a scorer is no sum over features."""
    step = -(-len(queries) // MOST_QUERIES) or 1
    n_features = ranker.contract.n_features
    sums = np.zeros((1 + len(ranker.scorers), n_features))
    each = []
    for documents in queries[::step]:
        cloud = ranker.contract.cloud(documents)
        ranking = ranker.rank(cloud)
        try:
            sizes = np.abs(ranker.contributions(cloud, ranking).values).sum(axis=0)
        except ExplanationRefused:
            return None
        each.append(sizes)
        sums[0] += sizes
        if ranking.route.cluster is not None:
            sums[1 + ranking.route.cluster] += sizes
    totals = sums.sum(axis=1, keepdims=True)
    shares = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
    return Importances(ranker.contract.names, shares[0], shares[1:], _errors(np.array(each), shares[0]))


def _errors(each: Vector, shares: Vector) -> Vector:
    """Return the standard errors of shares that were made of ``[n_queries, n_features]`` sums."""
    totals = each.sum(axis=1)
    if len(each) < 2 or not totals.any():
        return np.full(len(shares), np.nan)
    squares = ((each - shares * totals[:, None]) ** 2).sum(axis=0)
    errors: Vector = np.sqrt(len(each) / (len(each) - 1) * squares) / totals.sum()
    return errors


def _first(shares: Vector, most: int) -> list[int]:
    """Return the features with the largest shares; features without a share are left out."""
    return [int(feature) for feature in np.argsort(-shares, kind="stable")[:most] if shares[feature] > 0]
