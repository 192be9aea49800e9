"""The figures of a training run, a tuning and an evaluation, computed once, as values; terminal, JSON and pages show them.

The figures of a blend are of queries that the models had not learned from, with settings, locality and weights chosen
without them. The same queries decide which members are left out to save time, so the figures of few members are a little
too good.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from localrank.arrays import one_line
from localrank.metrics import measure
from localrank_training.evaluation.baselines import against_baseline
from localrank_training.evaluation.comparisons import compare, compare_family, interval_of
from localrank_training.evaluation.leaks import suspicion
from localrank_training.evaluation.stability import flip_rates, flip_rates_of_known
from localrank_training.report.verdict import Verdict, of_baseline, of_blend, of_clusters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.metrics import Measured
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.baselines import AgainstBaseline
    from localrank_training.evaluation.comparisons import Comparison, Interval
    from localrank_training.evaluation.evaluating import Evaluation, Versus
    from localrank_training.learners.out_of_fold import Frontier
    from localrank_training.run.blended import CrossFitted, Localised
    from localrank_training.run.choosing import Trial
    from localrank_training.run.train import HeldOut, Trained
    from localrank_training.run.tune import TriedCombination, Tuned

#: Measured for every model, in the one convention that is comparable between data sets.
METRICS = ("map", "ndcg@1", "ndcg@5", "ndcg@10")
#: Of these a blend makes its choices.
BLEND_METRICS = ("map", "ndcg@10")
CONVENTION = "standard"


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """One cluster: its training queries, and the figures of the held-out queries that were routed to it."""

    size: int
    exemplar: str
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rival:
    """One member by itself, and the blend against it.

    Attributes:
        name: its learner and the blocks that it sees.
        weight: in the blend; `None` if it was left out.
        microseconds: of serving 100 documents, counted.
        comparisons: the blend against it, one for each metric.
    """

    name: str
    weight: float | None
    microseconds: float
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class BlendReport:
    """What a blend is worth.

    Attributes:
        n_queries: that were held out in turn.
        rivals: the members.
        localised: what local models are worth; `None` if they were not tried.
        frontier: what fewer members cost and are worth.
    """

    n_queries: int
    rivals: tuple[Rival, ...]
    localised: Localised | None
    frontier: tuple[Frontier, ...]

    @property
    def best(self) -> Rival:
        """The member that is best alone, by the mean of the metrics."""
        return max(self.rivals, key=lambda one: sum(compared.baseline for compared in one.comparisons))

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "queries": self.n_queries,
            "members": [
                {
                    "name": rival.name,
                    "weight": rival.weight,
                    "microseconds": rival.microseconds,
                    "comparisons": [one.to_json() for one in rival.comparisons],
                }
                for rival in self.rivals
            ],
            "locality": None if self.localised is None else asdict(self.localised),
            "frontier": [asdict(one) for one in self.frontier],
        }


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
        baseline: the present order or the best single feature beside the model.
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
    baseline: AgainstBaseline
    blend: BlendReport | None = None
    chosen_by: str = "value"

    __repr__ = one_line

    @property
    def differs(self) -> bool:
        """Whether the global scorer ranks any held-out query in another way."""
        return any(one.wins or one.losses for one in self.comparisons)

    def _repr_html_(self) -> str:
        from localrank_training.report.terminal import notebook

        return notebook(self)

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
            "baseline": self.baseline.to_json(),
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
    baseline = against_baseline(local, held.queries, seed)
    if suspicious is None and baseline.given:
        verdict = of_baseline(baseline, verdict)
    reasons = [route.fallback for route in held.ranked.routes if route.fallback]
    return TrainingReport(
        how=held.how,
        local=local,
        global_=global_,
        comparisons=comparisons,
        clusters=tuple(clusters),
        fallbacks={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        stability=_stability(trained, seed) if clusters and built.ranker.router.chooses else {},
        trials=trained.trials,
        notes=(*_warnings(held), *trained.warnings, *built.notes),
        baseline=baseline,
        blend=blend,
        verdict=verdict,
        chosen_by=metric if found is None else f"mean of {' and '.join(BLEND_METRICS)}",
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


def blend_report_of(found: CrossFitted, queries: QuerySet, seed: int = 0) -> BlendReport | None:
    """Compare a blend with its members; `None` if there were too few queries to hold any out."""
    tried, scored, weighed = found.tried, found.out_of_fold, found.weighed
    if tried is None or scored is None or weighed is None:
        return None
    n_docs = queries.n_docs
    mine = measure(queries.labels, found.scores[:n_docs], queries.offsets, BLEND_METRICS, CONVENTION)
    weights = dict(zip((one.position for one in scored.tried), weighed.weights.tolist(), strict=True))
    chosen = tried.weigh().candidates
    rivals = []
    for one, candidate, scores in zip(tried.tried, chosen, tried.alone(), strict=True):
        theirs = measure(queries.labels, scores[:n_docs], queries.offsets, BLEND_METRICS, CONVENTION)
        learner = one.learners[candidate]
        rivals.append(
            Rival(
                f"{learner.method} on {learner.blocks}",
                weights.get(one.position),
                float(one.microseconds[candidate]),
                tuple(compare(a, b, seed=seed) for a, b in zip(mine, theirs, strict=True)),
            )
        )
    return BlendReport(len(queries), tuple(rivals), found.localised, found.frontier)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The loss of a setting against the best one, on the same queries, with a 95 % interval.

    The best one was chosen among many on these queries, so its figure is too good. An interval that contains zero means
    that no difference was found. Other differences may still be partly chance. None: too few queries differ for an
    interval.
    """

    difference: float
    interval: Interval | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def against_best(tuned: Tuned) -> list[Shortfall]:
    """Compare every setting with the best one."""
    found = []
    for setting in tuned.settings:
        differences = setting.local - tuned.best.local
        found.append(Shortfall(float(differences.mean()), interval_of(differences)))
    return found


def setting_name(setting: TriedCombination) -> str:
    """Name a setting by its choices."""
    return (
        ", ".join(f"{name.split('.', 1)[1]} = {value}" for name, value in setting.choices.items())
        or "as configured"
    )


class Sides(NamedTuple):
    """What an evaluation compares.

    Attributes:
        candidate, baseline: figures, metric by metric and convention by convention.
        comparisons: the one less the other; empty if there is nothing to compare.
        names: of the two.
        alone: one model beside its own global scorer.
    """

    candidate: Sequence[Measured]
    baseline: Sequence[Measured]
    comparisons: Sequence[Comparison]
    names: tuple[str, str]
    alone: bool = False


def sides_of(
    evaluations: Sequence[Evaluation], compared: Versus | None, ran: Sequence[Measured] | None
) -> Sides:
    """Return what is compared: the figures of both sides, their differences, and their names."""
    first, last = evaluations[0], evaluations[-1]
    if compared is None:
        names = (first.name, "its global scorer")
        return Sides(first.local, first.global_, first.against_global, names, alone=True)
    if ran is not None:
        return Sides(first.local, ran, compared.comparisons, (compared.candidate, compared.baseline))
    return Sides(last.local, first.local, compared.comparisons, (last.name, first.name))
