"""The counts of experiments by name, run and arm, over all workers.

A run is an experiment with certain settings. If these change, it is another run, and earlier counts do not belong to
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from localrank_service.telemetry.counts import Counted
    from localrank_service.telemetry.instruments import MetricTable

#: Seconds, in steps of a quarter, so that quantiles can be compared.
RANK_BUCKETS = tuple(20e-6 * 1.25**step for step in range(62))
TAU_BUCKETS = (-0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
AGREEMENT_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
OUTCOMES = ("ok", "degraded", "error")


@dataclass(slots=True)
class Arm:
    """What one arm of a run has counted.

    Attributes:
        outcomes: requests by outcome.
        buckets: how many rankings took at most the time of each of `RANK_BUCKETS` and no lower one; the last took longer.
        seconds: that all rankings took.
    """

    outcomes: dict[str, float] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0.0))
    buckets: list[float] = field(default_factory=lambda: [0.0] * (len(RANK_BUCKETS) + 1))
    seconds: float = 0.0

    @property
    def requests(self) -> float:
        return sum(self.outcomes.values())

    def quantile(self, share: float) -> float | None:
        """Return the bound of the bucket that holds this quantile of the times; ``None`` without any."""
        total, running = sum(self.buckets), 0.0
        if not total:
            return None
        for bound, count in zip(RANK_BUCKETS, self.buckets, strict=False):
            running += count
            if running >= share * total:
                return bound
        return RANK_BUCKETS[-1]


class ExperimentMeters:
    """The instruments of experiments."""

    def __init__(self, table: MetricTable) -> None:
        self._counts = table.counts
        run = ["experiment", "run"]
        self.requests = table.counter(
            "localrank_experiment_requests_total",
            "Requests of an experiment by arm and outcome: ok, degraded or error; outside counts requests "
            "that took no part, or whose outcome the caller or the load decided.",
            (*run, "arm", "outcome"),
        )
        self.seconds = table.histogram(
            "localrank_experiment_rank_seconds",
            "Time of ranking in an experiment, without reading and writing, scaled to a list of 100 documents.",
            (*run, "arm"),
            bounds=RANK_BUCKETS,
        )
        self.returns = table.counter(
            "localrank_experiment_returns_total",
            "Canaries that were taken back, by reason: errors, degraded or latency.",
            ("experiment", "reason"),
        )
        self.returned = table.gauge(
            "localrank_experiment_returned",
            "1 if the canary was taken back and is still in the file, else 0.",
            run,
            over="highest",
        )
        self.shadows = table.counter(
            "localrank_shadow_total",
            "Requests for a shadow by outcome: ranked, dropped because the queue was full, or failed.",
            (*run, "outcome"),
        )
        self.kendall_tau = table.histogram(
            "localrank_shadow_kendall_tau",
            "Kendall's tau-b between the scores of a shadow and of the answer.",
            run,
            bounds=TAU_BUCKETS,
        )
        self.rank_biased_overlap = table.histogram(
            "localrank_shadow_rbo",
            "Rank-biased overlap (0.9) between the rankings of a shadow and of the answer.",
            run,
            bounds=AGREEMENT_BUCKETS,
        )
        self.overlap = table.histogram(
            "localrank_shadow_overlap",
            "Share of the first 10 documents that a shadow and the answer have in common.",
            run,
            bounds=AGREEMENT_BUCKETS,
        )
        self._of_runs = {one.name: one for one in table.instruments if "run" in one.labels}

    def keep(self, runs: Collection[str]) -> None:
        """Forget the series of all other runs of this process."""

        def gone(name: str, labels: tuple[str, ...]) -> bool:
            return name in self._of_runs and labels[1] not in runs

        self._counts.drop(gone)
        for instrument in self._of_runs.values():
            instrument.forget()

    def arms(self, counted: Iterable[Counted]) -> dict[tuple[str, str], Arm]:
        """Return what each arm has counted, by run and arm."""
        found: dict[tuple[str, str], Arm] = {}
        for process in counted:
            for (_, run, arm, outcome), cells in process.series.get(self.requests.name, {}).items():
                outcomes = found.setdefault((run, arm), Arm()).outcomes
                outcomes[outcome] = outcomes.get(outcome, 0.0) + cells[0]
            for (_, run, arm), cells in process.series.get(self.seconds.name, {}).items():
                one = found.setdefault((run, arm), Arm())
                *buckets, seconds = cells
                one.buckets = [before + more for before, more in zip(one.buckets, buckets, strict=True)]
                one.seconds += seconds
        return found

    def shadowed(self, counted: Iterable[Counted], run: str) -> dict[str, Any]:
        """Return how many requests a shadow has ranked, and the means of how far it agreed."""
        members: dict[str, Any] = dict.fromkeys(("ranked", "dropped", "failed"), 0)
        sums = {
            "kendall_tau": (self.kendall_tau.name, [0.0, 0.0]),
            "rbo": (self.rank_biased_overlap.name, [0.0, 0.0]),
            "overlap_at_10": (self.overlap.name, [0.0, 0.0]),
        }
        for process in counted:
            for (_, of, outcome), cells in process.series.get(self.shadows.name, {}).items():
                if of == run:
                    members[outcome] += int(cells[0])
            for name, total in sums.values():
                for (_, of), cells in process.series.get(name, {}).items():
                    if of == run:
                        *buckets, value = cells
                        total[0] += sum(buckets)
                        total[1] += value
        return members | {
            name: round(value / count, 4) if count else None for name, (_, (count, value)) in sums.items()
        }
