"""What Prometheus reads at ``/metrics``.

Names follow its conventions: one prefix, base units, ``_total`` for counters. Buckets begin at 50 microseconds,
because a request is over before the usual first bucket ends.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest

from localrank import __version__
from localrank_service.telemetry.counts import Counts
from localrank_service.telemetry.drift import Drift
from localrank_service.telemetry.experiments import ExperimentMeters
from localrank_service.telemetry.instruments import MetricTable
from localrank_service.telemetry.recent import Recent
from localrank_service.telemetry.totals import SHOWN, totals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prometheus_client import Metric

    from localrank.ladder import Degraded
    from localrank.ranker import Ranking
    from localrank_service.telemetry.counts import Counted
    from localrank_service.telemetry.experiments import Arm
    from localrank_service.telemetry.instruments import Instrument
    from localrank_service.telemetry.observing import CountedModel

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
#: Versions of a model that have series although no alias stands for them.
MOST_VERSIONS = 10
#: Clusters of a model that have series of their own: the first; there may be one for each training query.
MOST_CLUSTERS = 64
MARGIN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)


def _label(cluster: int | None) -> int | str:
    """Return the label of a cluster."""
    if cluster is None:
        return "global"
    return cluster if cluster < MOST_CLUSTERS else "other"


class Meters:
    """The instruments of one application, whose counts are shared in ``folder`` if there is one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._counts = counts = Counts(folder)
        table = MetricTable(counts)
        self.http_requests = table.counter(
            "localrank_http_requests_total",
            "Answers by route, method and status.",
            ("route", "method", "status"),
        )
        self.key_checks = table.counter(
            "localrank_key_checks_total",
            "Key checks, by the label of the key and the outcome: accepted, missing or refused.",
            ("key", "outcome"),
        )
        self.in_flight = table.gauge("localrank_inflight_requests", "Requests being answered.", over="sum")
        self.documents_in_flight = table.gauge(
            "localrank_inflight_documents", "Documents of the requests being answered.", over="sum"
        )
        self.accepted = table.gauge(
            "localrank_accepted_requests",
            "Requests that have arrived and are not answered, counted ten times a second: all, those that wait for "
            "their turn (waiting), those in the thread that reads large bodies (reading) or ranks large lists "
            "(ranking), and those of administrators (changing).",
            ("state",),
            over="sum",
        )
        self.refused_requests = table.counter(
            "localrank_refused_total",
            "Requests and connections that were refused or ended early, by reason.",
            ("reason",),
        )
        self.queue_wait = table.histogram(
            "localrank_queue_wait_seconds",
            "Time from the arrival of a request's whole body to its turn on the event loop.",
            bounds=TIME_BUCKETS,
        )
        self.connections = table.gauge("localrank_connections", "Open connections.", over="sum")
        self.requests = table.counter(
            "localrank_requests_total",
            "Rerank requests by outcome: ok, degraded, invalid (the caller's fault) or error (ours).",
            ("api", "model", "version", "outcome"),
        )
        self.duration = table.histogram(
            "localrank_request_duration_seconds",
            "Time of a rerank request, from the arrival of its whole body to its answer.",
            ("api", "model"),
            bounds=TIME_BUCKETS,
        )
        self.stage = table.histogram(
            "localrank_stage_duration_seconds",
            "Time of each stage of a rerank request.",
            ("stage",),
            bounds=TIME_BUCKETS,
        )
        self.documents = table.histogram(
            "localrank_documents",
            "Documents per rerank request; the manifest holds the lengths of the training lists.",
            ("model",),
            bounds=DOCUMENT_BUCKETS,
        )
        self.routes = table.counter(
            "localrank_routes_total",
            "Rerank requests by the cluster whose scorer answered, the reason if the routing strategy "
            "did not choose it, and the strategy that was used.",
            ("model", "version", "cluster", "fallback", "strategy"),
        )
        self.degraded = table.counter(
            "localrank_degraded_total",
            "Rerank requests that a cheaper ranking answered, by that ranking and the reason.",
            ("model", "rung", "reason"),
        )
        self.training_share = table.gauge(
            "localrank_training_share",
            "Share of the training queries in each cluster; compare localrank_routes_total with it.",
            ("model", "version", "cluster"),
            over="latest",
        )
        self.signed = table.counter(
            "localrank_signed_total",
            "Rerank requests of versions without clusters that were signed, one in localrank_sign_every, by the kind of the "
            "most similar query on the version's map.",
            ("model", "version", "cluster"),
        )
        self.map_share = table.gauge(
            "localrank_map_share",
            "Share of the kinds on the map of a version without clusters; compare localrank_signed_total with it.",
            ("model", "version", "cluster"),
            over="latest",
        )
        self.sign_every = table.gauge(
            "localrank_sign_every",
            "One request in this many of a version without clusters is signed, for the drift; 0 is none.",
            over="latest",
        )
        table.add(Drift((self.routes, self.training_share), (self.signed, self.map_share)))
        self.margin = table.histogram(
            "localrank_route_margin",
            "How far the best cluster was ahead of the second best.",
            ("model",),
            bounds=MARGIN_BUCKETS,
        )
        self.imputed = table.counter(
            "localrank_feature_imputed_total", "Missing values that were imputed.", ("model", "feature")
        )
        self.out_of_range = table.counter(
            "localrank_feature_out_of_range_total", "Values out of the training range.", ("model",)
        )
        self.impressions = table.counter(
            "localrank_impressions_total",
            "Queries of the impression log: logged, dropped because too many waited, over_quota because their caller had "
            "too many, or lost because they could not be written.",
            ("outcome",),
        )
        self.feedback = table.counter(
            "localrank_feedback_total",
            "Events of feedback: logged, dropped, over_quota or lost.",
            ("outcome",),
        )
        self.model_seconds = table.counter(
            "localrank_model_seconds_total",
            "Time of rerank requests by part: success, fail, input, compute, output.",
            ("model", "version", "part"),
        )
        self.last = table.gauge(
            "localrank_last_request_timestamp_seconds",
            "Unix time of the last answer to a rerank request.",
            ("model", "version"),
            over="highest",
            lasting=True,
        )
        self.model_version = table.gauge(
            "localrank_model_version", "Version that the alias stands for.", ("model", "alias"), over="latest"
        )
        self.model_broken = table.gauge(
            "localrank_model_broken",
            "1 if the version that should be served could not be loaded.",
            ("model",),
            over="highest",
        )
        self.remote_seen = table.gauge(
            "localrank_remote_seen_timestamp_seconds",
            "Unix time of the last reading of the models at LOCALRANK_MODELS_URL.",
            over="highest",
        )
        self.ids = table.counter(
            "localrank_table_ids_total",
            "Ids that were looked up in tables: known, or unknown to the table.",
            ("model", "table", "outcome"),
        )
        self.table_generation = table.gauge(
            "localrank_table_generation",
            "Oldest generation of the table that a version of the model looks into.",
            ("model", "table"),
            over="latest",
        )
        self.table_created = table.gauge(
            "localrank_table_created_timestamp_seconds",
            "Unix time at which that generation was published.",
            ("model", "table"),
            over="latest",
        )
        self.table_broken = table.gauge(
            "localrank_table_broken",
            "1 if a newer generation of the table is broken or does not fit the model.",
            ("model", "table"),
            over="highest",
        )
        self.worker_deaths = table.counter(
            "localrank_worker_deaths_total",
            "Workers that ended by themselves or hung, by cause: hung, stuck, the signal, or the exit code.",
            ("cause",),
        )
        self.experiments = ExperimentMeters(table)
        build = table.gauge("localrank_build_info", "Always 1.", ("version",), over="highest")
        build.set(1.0, __version__)
        self.instruments: Sequence[Instrument] = table.instruments

        self.recent = Recent(counts)
        # Since when the service runs: a process that takes over the files of another goes on.
        begun = counts.cells("begun", (), 1)
        begun[0] = begun[0] or time.monotonic()
        self._versioned = {
            one.name: (one.labels.index("model"), one.labels.index("version"))
            for one in self.instruments
            if {"model", "version"} <= set(one.labels)
        }

    def collect(self) -> Iterator[Metric]:
        """Return every metric over all processes that share the folder, else of this one.

        Of each model only the versions that an alias stands for and the latest to be used are shown, the same by every
        process.
        """
        return self._families(self._counts.counted(), self.instruments)

    def _families(self, counted: list[Counted], instruments: Iterable[Instrument]) -> Iterator[Metric]:
        known = self._known(counted)
        for process in counted:
            for name in self._versioned.keys() & process.series.keys():
                process.series[name] = {
                    labels: cells
                    for labels, cells in process.series[name].items()
                    if self._version(name, labels) in known
                }
        for instrument in instruments:
            yield instrument.family(counted)

    def retire(self, live: Collection[tuple[str, int]]) -> None:
        """Drop the series of versions that are neither ``live`` here nor shown, and what was recent of other models."""
        known = self._known(self._counts.counted()) | {(name, str(version)) for name, version in live}

        models = {"", *(name for name, _ in live)}
        tables = (self.table_generation, self.table_created, self.table_broken)
        of_tables = {one.name for one in tables}

        def gone(name: str, labels: tuple[str, ...]) -> bool:
            if name in Recent.SERIES or name in of_tables:
                return labels[0] not in models
            return name in self._versioned and self._version(name, labels) not in known

        self._counts.drop(gone)
        for instrument in self.instruments:
            if instrument.name in self._versioned or instrument in tables:
                instrument.forget()
        self.recent.forget()

    def _version(self, name: str, labels: tuple[str, ...]) -> tuple[str, str]:
        """Return the model and the version that a series is about."""
        model, version = self._versioned[name]
        return labels[model], labels[version]

    def _known(self, counted: Iterable[Counted]) -> set[tuple[str, str]]:
        """Return the models and versions that are shown."""
        # Requests that name no model have a series too.
        known = {("", "")}
        used: dict[str, dict[str, float]] = {}
        for process in counted:
            for (model, _), (version, when) in process.series.get(self.model_version.name, {}).items():
                if process.alive and when:
                    known.add((model, str(int(version))))
            for name in self._versioned.keys() & process.series.keys():
                for labels, cells in process.series[name].items():
                    model, number = self._version(name, labels)
                    last = cells[0] if name == self.last.name else 0.0
                    versions = used.setdefault(model, {})
                    versions[number] = max(last, versions.get(number, 0.0))
        for model, versions in used.items():
            latest = sorted(versions, key=lambda number: (versions[number], number), reverse=True)
            known |= {(model, number) for number in latest[:MOST_VERSIONS]}
        return known

    def counted(self) -> list[Counted]:
        """Return what every process has counted so far."""
        return self._counts.counted()

    def arms(self) -> dict[tuple[str, str], Arm]:
        """Return what each arm of each experiment has counted, over all workers."""
        return self.experiments.arms(self._counts.counted())

    def expose(self) -> bytes:
        """Return Prometheus text."""
        return generate_latest(self)

    def statistics(self) -> dict[tuple[str, str], dict[str, float]]:
        """Return, by model and version, requests by outcome and seconds by part, over all workers; and ``last``."""
        found: dict[tuple[str, str], dict[str, float]] = {}
        names = {
            "localrank_requests_total": "outcome",
            "localrank_model_seconds_total": "part",
            "localrank_last_request_timestamp_seconds": None,
        }
        for family in self.collect():
            for sample in family.samples:
                if sample.name in names:
                    by, labels = names[sample.name], sample.labels
                    figures = found.setdefault((labels["model"], labels["version"]), {})
                    figure = labels[by] if by else "last"
                    figures[figure] = figures.get(figure, 0.0) + sample.value
        return found

    def stats(self, *, series: bool = False) -> dict[str, Any]:
        """Return what was measured in the last minutes, and what is going on, over all workers.

        Args:
            series: whether to tell of each slice of time.
        """
        counted, now = self._counts.counted(), time.monotonic()
        begun = [one.series["begun"][()][0] for one in counted if "begun" in one.series]
        uptime = now - min((when for when in begun if when), default=now)

        def values(instrument: Instrument) -> dict[str, int]:
            samples = instrument.family(counted).samples
            return {",".join(sample.labels.values()): int(sample.value) for sample in samples}

        return {
            "uptime_seconds": round(uptime, 1),
            "in_flight": values(self.in_flight).get("", 0),
            "connections": values(self.connections).get("", 0),
            "refused": values(self.refused_requests),
            "deaths": values(self.worker_deaths),
            "windows": self.recent.shown(counted, now, uptime),
            **({"series": self.recent.series(counted, now)} if series else {}),
            # Last, because it forgets series of versions that are not shown.
            "models": totals(self._families(counted, [one for one in self.instruments if one.name in SHOWN])),
        }

    def logged(self) -> dict[str, dict[str, int]]:
        """Return what became of impressions and of feedback, over all workers."""
        counted = self._counts.counted()
        return {
            name: {
                sample.labels["outcome"]: int(sample.value) for sample in instrument.family(counted).samples
            }
            for name, instrument in (("impressions", self.impressions), ("feedback", self.feedback))
        }

    def trained(self, model: CountedModel) -> None:
        """Note how a model's training queries were spread over its clusters, or over the kinds on its map without clusters."""
        for gauge, sizes in ((self.training_share, model.sizes()), (self.map_share, model.kinds())):
            if not (total := sum(sizes)):
                continue
            shares = {str(cluster): size / total for cluster, size in enumerate(sizes[:MOST_CLUSTERS])}
            if len(sizes) > MOST_CLUSTERS:
                shares["other"] = sum(sizes[MOST_CLUSTERS:]) / total
            for cluster, share in {**shares, "global": 0.0}.items():
                gauge.set(share, model.name, model.version, cluster)

    def placed(self, name: str, version: int, kind: int | None) -> None:
        """Count a request that was signed; ``None`` is one that cannot be compared."""
        self.signed.of(name, version, _label(kind))[0] += 1.0

    def generation(self, model: str, table: str, number: int, created: str, *, broken: bool) -> None:
        """Note which generation of a table a version of a model looks into."""
        self.table_generation.set(number, model, table)
        with suppress(ValueError):
            self.table_created.set(datetime.fromisoformat(created).timestamp(), model, table)
        self.table_broken.set(float(broken), model, table)

    def looked_up(self, model: str, tables: Iterable[str], count: int, unknown: Mapping[str, int]) -> None:
        """Count the ids of one ranking that were looked up in these tables."""
        for table in tables:
            missing = unknown.get(table, 0)
            self.ids.of(model, table, "known")[0] += count - missing
            if missing:
                self.ids.of(model, table, "unknown")[0] += missing

    def answered(self, route: str, method: str, status: int) -> None:
        """Count one answer of any route."""
        self.http_requests.of(route, method, status)[0] += 1.0

    def refused(self, api: str, model: CountedModel | None, status: int, seconds: float) -> None:
        """Count one rerank request that was not answered with a ranking."""
        name, version = (model.name, model.version) if model else ("", "")
        if model:
            self.model_seconds.of(name, version, "fail")[0] += seconds
        outcome = "invalid" if status < 500 else "error"
        self.requests.of(api, name, version, outcome)[0] += 1.0
        self.recent.refused(name, outcome)

    def ranked(
        self,
        api: str,
        model: CountedModel,
        ranking: Ranking,
        out_of_range: int,
        milliseconds: Mapping[str, float],
        *,
        degraded: Degraded | None = None,
        live: bool = True,
    ) -> None:
        """Count one ranking.

        Args:
            api: the wire.
            model: that ranked.
            ranking: its result.
            out_of_range: values out of the training range.
            milliseconds: its stages and their ``total``.
            degraded: which cheaper ranking answered, if one did.
            live: whether it is a ranking for users; others tell nothing about the traffic.
        """
        name, version = model.name, model.version
        if degraded is None:
            self.requests.of(api, name, version, "ok")[0] += 1.0
        else:
            self.requests.of(api, name, version, "degraded")[0] += 1.0
            self.degraded.of(name, *degraded)[0] += 1.0
        total = milliseconds["total"] / 1e3
        before, after = milliseconds.get("decode", 0.0) / 1e3, milliseconds.get("encode", 0.0) / 1e3
        seconds = self.model_seconds.of
        seconds(name, version, "success")[0] += total
        seconds(name, version, "input")[0] += before
        seconds(name, version, "compute")[0] += max(total - before - after, 0.0)
        seconds(name, version, "output")[0] += after
        self.last.set(time.time(), name, version)
        self.recent.ranked(name, milliseconds)
        # Without a call for each time: there are seven of them.
        for stage, elapsed in milliseconds.items():
            taken = self.duration.of(api, name) if stage == "total" else self.stage.of(stage)
            taken.cells[bisect_left(TIME_BUCKETS, elapsed / 1e3)] += 1.0
            taken.cells[-1] += elapsed / 1e3
        if not live:
            return
        self.documents.of(name).observe(len(ranking.order))
        route = ranking.route
        cluster = _label(route.cluster)
        self.routes.of(name, version, cluster, route.fallback or "", route.strategy)[0] += 1.0
        if route.margin is not None:
            self.margin.of(name).observe(route.margin)
        for feature, count in ranking.imputed.items():
            self.imputed.of(name, model.ranker.contract.names[feature])[0] += count
        if out_of_range:
            self.out_of_range.of(name)[0] += out_of_range
