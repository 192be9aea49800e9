"""The report of a training run: as tables for people, as JSON for the manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from localrank.brief import html_table, one_line
from localrank.metrics import measure
from localrank_training.blend_report import blend_report_of
from localrank_training.comparisons import compare_family
from localrank_training.leaks import suspicion
from localrank_training.stability import IN_WORDS, flip_rates, flip_rates_of_known
from localrank_training.verdict import Verdict, of_blend, of_clusters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.metrics import Measured
    from localrank_training.blend_report import BlendReport
    from localrank_training.choices import Trial
    from localrank_training.comparisons import Comparison
    from localrank_training.training import HeldOut, Trained

#: Measured for every model, in the one convention that is comparable between data sets.
METRICS = ("map", "ndcg@1", "ndcg@5", "ndcg@10")
CONVENTION = "standard"


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """One cluster: its training queries, and the figures of the held-out queries that were routed to it."""

    size: int
    exemplar: str
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingReport:
    """Everything worth printing after training.

    Attributes:
        how: which queries the figures are of.
        local, global_: measured on them, metric by metric.
        comparisons: the one against the other; empty for a model without clusters.
        clusters: one per cluster.
        fallbacks: how many of the held-out queries went to the global scorer, and why.
        stability: share of held-out queries that change their cluster under small changes.
        trials: the settings that were tried.
        notes: what a reader should know.
        verdict: what to do.
        blend: of a blend that was cross-fitted.
        chosen_by: the metric of the trials.
    """

    how: str
    local: tuple[Measured, ...]
    global_: tuple[Measured, ...]
    comparisons: tuple[Comparison, ...]
    clusters: tuple[ClusterReport, ...]
    fallbacks: Mapping[str, int]
    stability: Mapping[str, float]
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]
    verdict: Verdict
    blend: BlendReport | None = None
    chosen_by: str = "value"

    __repr__ = one_line

    def _repr_html_(self) -> str:
        tables = (html_table(title, header, rows) for title, header, rows in self.tables())
        return "\n".join([*tables, f"<p>{escape(str(self.verdict))}</p>"])

    def metrics_json(self) -> dict[str, Any]:
        """The held-out figures, for the manifest: one row per metric."""
        rows: list[dict[str, Any]] = [
            {"metric": mine.name, "model": mine.mean, "global": base.mean}
            for mine, base in zip(self.local, self.global_, strict=True)
        ]
        for row, compared in zip(rows, self.comparisons, strict=False):
            row |= {
                "difference": compared.difference,
                "low": None if compared.interval is None else compared.interval.low,
                "high": None if compared.interval is None else compared.interval.high,
                "detectable": compared.detectable,
                "queries": compared.n_queries,
                "p_holm": compared.p_holm,
                "helped": compared.helped,
                "hurt": compared.hurt,
            }
        return {
            "held_out": self.how,
            "basis": self.local[0].basis,
            "figures": rows,
            "fallbacks": dict(self.fallbacks),
        } | ({} if self.blend is None else {"blend": self.blend.to_json()})

    def to_json(self) -> dict[str, Any]:
        """Everything, for ``--json``."""
        return {
            "trials": [trial.to_json() for trial in self.trials],
            "clusters": [
                {"size": cluster.size, "exemplar": cluster.exemplar, **cluster.figures}
                for cluster in self.clusters
            ],
            "metrics": self.metrics_json(),
            "stability": dict(self.stability),
            "notes": list(self.notes),
            "verdict": self.verdict.to_json(),
        }

    def tables(self) -> list[tuple[str, Sequence[str], Sequence[Sequence[object]]]]:
        """Return titles, headers and rows for a terminal."""
        tables = [self._held_out()]
        if self.blend is not None:
            tables = [*self.blend.tables(), *tables]
        if self.trials:
            rows: list[Sequence[object]] = [
                (trial.setting, trial.value, "chosen" if trial.chosen else "") for trial in self.trials
            ]
            tables.append((f"Choices ({self.how})", ("settings", self.chosen_by, ""), rows))
        if self.clusters:
            tables.append(self._clusters())
        if self.stability:
            changes: list[Sequence[object]] = [
                (IN_WORDS.get(change, change), rate) for change, rate in self.stability.items()
            ]
            tables.append(
                ("Stability: share of the queries that change their cluster", ("if", "share"), changes)
            )
        return tables

    def _clusters(self) -> tuple[str, Sequence[str], Sequence[Sequence[object]]]:
        """Return the table of clusters: beside the global scorer's figures if any cluster's differ."""
        local = any(one.wins or one.losses for one in self.comparisons)
        rows = [
            (number, one.size, one.exemplar, one.figures["queries"], one.figures["local"])
            + ((one.figures["global"],) if local else ())
            for number, one in enumerate(self.clusters)
        ]
        header = ("cluster", "queries", "typical query", "held out", METRICS[-1])
        if local:
            return "Clusters", (*header, "global scorer's"), rows
        return "Clusters, all answered by the global scorer", header, rows

    def _held_out(self) -> tuple[str, Sequence[str], Sequence[Sequence[object]]]:
        """Return the table of all metrics: beside the global scorer's if the model is anything else."""
        title = f"Held out: {self.how}; {self.local[0].basis}"
        if not any(one.wins or one.losses for one in self.comparisons):
            return title, ("metric", "model"), [(mine.name, mine.mean) for mine in self.local]
        rows: list[Sequence[object]] = [
            (
                one.metric,
                one.candidate,
                one.baseline,
                f"{one.difference:+.4f}",
                one.interval_text,
                one.p_holm,
                one.hurt,
            )
            for one in self.comparisons
        ]
        header = ("metric", "model", "global", "difference", "95 % interval", "p (Holm)", "hurt by > 0.1")
        return title, header, rows


def report_of(trained: Trained, seed: int = 0) -> TrainingReport:
    """Measure what training held out."""
    held = trained.held_out
    labels, offsets = held.queries.labels, held.queries.offsets
    local = measure(labels, held.ranked.scores, offsets, METRICS, CONVENTION)
    global_ = measure(labels, held.ranked.global_scores, offsets, METRICS, CONVENTION)
    built = trained.built
    clusters = []
    for number, exemplar in enumerate(built.exemplars):
        here = held.clusters == number
        clusters.append(
            ClusterReport(
                int((built.clusters == number).sum()),
                exemplar,
                {
                    "queries": int(here.sum()),
                    "metric": f"{METRICS[-1]} ({CONVENTION})",
                    "local": float(local[-1].per_query[here].mean()) if here.any() else None,
                    "global": float(global_[-1].per_query[here].mean()) if here.any() else None,
                },
            )
        )
    comparisons = tuple(compare_family(local, global_, seed=seed)) if clusters else ()
    found = trained.cross_fitted
    blend = None if found is None else blend_report_of(found, trained.queries, seed)
    n_queries = len(held.queries)
    metric = trained.config.selection.metric
    suspicious = suspicion(held.queries, local)
    if suspicious is not None:
        verdict = Verdict("suspect", f"verdict: {suspicious}")
    elif blend is None:
        verdict = of_clusters(comparisons, n_queries, alone=_alone(trained.trials, metric, local[-1]))
    else:
        verdict = of_blend(blend, comparisons, n_queries)
    reasons = [route.fallback for route in held.ranked.routes if route.fallback]
    return TrainingReport(
        how=held.how,
        local=local,
        global_=global_,
        comparisons=comparisons,
        clusters=tuple(clusters),
        fallbacks={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        stability=_stability(trained, seed) if clusters else {},
        trials=trained.trials,
        notes=(*_warnings(held), *trained.warnings, *built.notes),
        blend=blend,
        verdict=verdict,
        chosen_by=metric,
    )


def _alone(trials: Sequence[Trial], metric: str, measured: Measured) -> str:
    """Describe one model for all queries: the result of clusters if they were tried, else its own figure."""
    clusters = [(re.search(r"clusters = (\d+)", one.setting), one) for one in trials]
    others = [one.value for found, one in clusters if found is not None and int(found[1]) > 1]
    mine = [one.value for one in trials if one.chosen]
    if others and mine:
        return f"{metric} {mine[0]:.4f}, the best model with clusters: {max(others):.4f}"
    return f"{measured.name} {measured.mean:.4f}, without a local model to compare with"


def _warnings(held: HeldOut) -> tuple[str, ...]:
    if not held.learned_from:
        return ()
    count = f"{held.learned_from} of {len(held.queries)} validation queries"
    return (f"{count} are also training queries: the figures are too good for this model and its choices",)


def _stability(trained: Trained, seed: int) -> dict[str, float]:
    """Return the flip rates of queries that are routed as new ones are."""
    built, held = trained.built, trained.held_out.queries
    if set(held.query_ids).isdisjoint(trained.queries.query_ids):
        return flip_rates(built.ranker, held, seed)
    return flip_rates_of_known(built.ranker, trained.queries, built.clusters, seed)
