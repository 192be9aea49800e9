r"""How far the traffic of a model has moved from its training queries.

Each cluster has a share of the training queries, and a share of the requests since the service started. Their
distance is

.. math:: \frac12 \sum_c \lvert p_c - q_c \rvert = \sum_c \max(0, p_c - q_c)

from 0, the same, to 1, nothing in common. It is computed when it is asked for, from what is counted anyway. Few requests
are apart by chance, so it is not told before there are `needed` requests.

A version without clusters has a map of its training queries, in the kinds that training told apart. Then the shares are those of
these kinds, on the map and among the requests that were signed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

    from localrank_service.telemetry.counts import Counted
    from localrank_service.telemetry.instruments import Counter, Gauge

#: Requests without which nothing is told: in all, and for each cluster.
_LEAST, _LEAST_EACH = 100, 20


def needed(n_clusters: int) -> int:
    """Return how many requests the drift of a version with so many clusters needs."""
    return max(_LEAST, _LEAST_EACH * n_clusters)


class Drift:
    """An instrument made of pairs of others.

    Args:
        pairs: requests by model, version, cluster and more; and share of the training queries by model, version and cluster.
            A version is in one pair.
    """

    name = "localrank_route_drift"
    labels: Sequence[str] = ("model", "version")

    def __init__(self, *pairs: tuple[Counter, Gauge]) -> None:
        self._pairs = pairs

    def family(self, counted: Iterable[Counted]) -> Metric:
        family = GaugeMetricFamily(
            self.name,
            "Distance between the shares of the clusters in the traffic and in training, from 0 to 1.",
            labels=self.labels,
        )
        counted = list(counted)
        for routes, training in self._pairs:
            self._compare(family, routes.family(counted), training.family(counted))
        return family

    def _compare(self, family: GaugeMetricFamily, routes: Metric, training: Metric) -> None:
        trained: dict[tuple[str, str], dict[str, float]] = {}
        for sample in training.samples:
            labels = sample.labels
            trained.setdefault((labels["model"], labels["version"]), {})[labels["cluster"]] = sample.value
        served: dict[tuple[str, str], dict[str, float]] = {}
        for sample in routes.samples:
            labels = sample.labels
            clusters = served.setdefault((labels["model"], labels["version"]), {})
            clusters[labels["cluster"]] = clusters.get(labels["cluster"], 0.0) + sample.value
        for key in trained.keys() & served.keys():
            total = sum(served[key].values())
            if total >= needed(len(trained[key])):
                beyond = (
                    max(0.0, count / total - trained[key].get(cluster, 0.0))
                    for cluster, count in served[key].items()
                )
                family.add_metric(key, sum(beyond))

    def forget(self) -> None:
        """Hold nothing."""
