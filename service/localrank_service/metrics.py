"""What Prometheus reads at ``/metrics``.

Names follow its conventions: one prefix, base units, ``_total`` for counters. Buckets begin at 50 microseconds,
because a request is over before the usual first bucket ends.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from localrank import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import CollectorRegistry

    from localrank.ranker import Ranking
    from localrank_service.live import LiveModel

__all__ = ["DOCUMENT_BUCKETS", "TIME_BUCKETS", "Metrics"]

TIME_BUCKETS = (
    50e-6,
    100e-6,
    250e-6,
    500e-6,
    1e-3,
    2.5e-3,
    5e-3,
    10e-3,
    25e-3,
    50e-3,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)
DOCUMENT_BUCKETS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
MARGIN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)


class Metrics:
    """The instruments of one application.

    The library decides when it is imported whether processes share their counts, in the folder that
    ``PROMETHEUS_MULTIPROC_DIR`` names; so it is imported no sooner than that is known.
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.http_requests = Counter(
            "localrank_http_requests_total",
            "Answers by route, method and status.",
            ["route", "method", "status"],
            registry=registry,
        )
        self.in_flight = Gauge(
            "localrank_inflight_requests",
            "Requests being answered.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.requests = Counter(
            "localrank_requests_total",
            "Rerank requests by outcome: ok, degraded, invalid (the caller's fault) or error (ours).",
            ["api", "model", "version", "outcome"],
            registry=registry,
        )
        self.duration = Histogram(
            "localrank_request_duration_seconds",
            "Time of a rerank request, from its whole body to its answer.",
            ["api", "model"],
            registry=registry,
            buckets=TIME_BUCKETS,
        )
        self.stage = Histogram(
            "localrank_stage_duration_seconds",
            "Time of each stage of a rerank request.",
            ["stage"],
            registry=registry,
            buckets=TIME_BUCKETS,
        )
        self.documents = Histogram(
            "localrank_documents",
            "Documents per rerank request; the manifest holds the lengths of the training lists.",
            ["model"],
            registry=registry,
            buckets=DOCUMENT_BUCKETS,
        )
        self.routes = Counter(
            "localrank_routes_total",
            "Rerank requests by the cluster whose scorer answered, and why it was not the strategy's choice.",
            ["model", "version", "cluster", "fallback"],
            registry=registry,
        )
        self.margin = Histogram(
            "localrank_route_margin",
            "What the best cluster was ahead of the second.",
            ["model"],
            registry=registry,
            buckets=MARGIN_BUCKETS,
        )
        self.imputed = Counter(
            "localrank_feature_imputed_total",
            "Missing values that were imputed.",
            ["model", "feature"],
            registry=registry,
        )
        self.out_of_range = Counter(
            "localrank_feature_out_of_range_total",
            "Values outside of what training saw.",
            ["model"],
            registry=registry,
        )
        self.model_seconds = Counter(
            "localrank_model_seconds_total",
            "Time of rerank requests by what it went into: success, fail, input, compute, output.",
            ["model", "version", "part"],
            registry=registry,
        )
        self.last = Gauge(
            "localrank_last_request_timestamp_seconds",
            "When the last rerank request was answered.",
            ["model", "version"],
            registry=registry,
            multiprocess_mode="max",
        )
        self.model_version = Gauge(
            "localrank_model_version",
            "Version that the alias stands for.",
            ["model", "alias"],
            registry=registry,
            multiprocess_mode="livemostrecent",
        )
        self.model_broken = Gauge(
            "localrank_model_broken",
            "1 where the version that should be served could not be loaded.",
            ["model"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        Gauge(
            "localrank_build_info",
            "Always 1.",
            ["version"],
            registry=registry,
            multiprocess_mode="livemax",
        ).labels(__version__).set(1)
        # Looking up labelled children costs more than counting; a cache of the usual ones costs less.
        self._outcome = lru_cache(1024)(self.requests.labels)
        self._duration = lru_cache(256)(self.duration.labels)
        self._stage = lru_cache(64)(self.stage.labels)
        self._documents = lru_cache(256)(self.documents.labels)
        self._routes = lru_cache(4096)(self.routes.labels)
        self._margin = lru_cache(256)(self.margin.labels)
        self._seconds = lru_cache(1024)(self.model_seconds.labels)
        self._last = lru_cache(256)(self.last.labels)
        self._http = lru_cache(1024)(self.http_requests.labels)

    def expose(self) -> bytes:
        """Return Prometheus text: over all workers where they share a folder, else of this process."""
        from prometheus_client import generate_latest

        return generate_latest(self._shared())

    def statistics(self) -> dict[tuple[str, str], dict[str, float]]:
        """Return, by model and version, requests by outcome and seconds by part, over all workers; and ``last``."""
        found: dict[tuple[str, str], dict[str, float]] = {}
        names = {
            "localrank_requests_total": "outcome",
            "localrank_model_seconds_total": "part",
            "localrank_last_request_timestamp_seconds": None,
        }
        for family in self._shared().collect():
            for sample in family.samples:
                if sample.name in names:
                    by, labels = names[sample.name], sample.labels
                    figures = found.setdefault((labels["model"], labels["version"]), {})
                    figure = labels[by] if by else "last"
                    figures[figure] = figures.get(figure, 0.0) + sample.value
        return found

    def _shared(self) -> CollectorRegistry:
        from prometheus_client import CollectorRegistry

        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return self.registry
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return registry

    def answered(self, route: str, method: str, status: int) -> None:
        """Count one answer of any route."""
        self._http(route, method, status).inc()

    def refused(self, api: str, model: LiveModel | None, status: int, seconds: float) -> None:
        """Count one rerank request that was not answered with a ranking."""
        name, version = (model.name, model.version) if model else ("", "")
        if model:
            self._seconds(name, version, "fail").inc(seconds)
        self._outcome(api, name, version, "invalid" if status < 500 else "error").inc()

    def ranked(
        self,
        api: str,
        model: LiveModel,
        ranking: Ranking,
        out_of_range: int,
        milliseconds: Mapping[str, float],
    ) -> None:
        """Count one ranking; ``milliseconds`` are its stages and their ``total``."""
        name, version = model.name, model.version
        self._outcome(api, name, version, "ok").inc()
        total, before, after = (milliseconds.get(part, 0.0) / 1e3 for part in ("total", "decode", "encode"))
        self._seconds(name, version, "success").inc(total)
        self._seconds(name, version, "input").inc(before)
        self._seconds(name, version, "compute").inc(max(total - before - after, 0.0))
        self._seconds(name, version, "output").inc(after)
        self._last(name, version).set(time.time())
        self._documents(model.name).observe(len(ranking.order))
        for stage, elapsed in milliseconds.items():
            if stage == "total":
                self._duration(api, name).observe(elapsed / 1e3)
            else:
                self._stage(stage).observe(elapsed / 1e3)
        route = ranking.route
        cluster = "global" if route.cluster is None else route.cluster
        self._routes(model.name, model.version, cluster, route.fallback or "").inc()
        if route.margin is not None:
            self._margin(model.name).observe(route.margin)
        for feature, count in ranking.imputed.items():
            self.imputed.labels(model.name, model.ranker.contract.names[feature]).inc(count)
        if out_of_range:
            self.out_of_range.labels(model.name).inc(out_of_range)
