"""Report of a cross-fitted blend: against each of its members, local models against chance, quality against cost.

All figures are of queries that the models had not learned from, with settings, locality and weights chosen without them.
The same queries decide which members are left out to save time. So the figures of few members are a little too good.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from localrank.metrics import measure
from localrank_training.comparisons import compare
from localrank_training.latency import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank_training.comparisons import Comparison
    from localrank_training.cross_fitting import CrossFitted, Localised
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.rehearsal import Frontier

METRICS = ("map", "ndcg@10")
CONVENTION = "standard"


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

    def tables(self) -> list[tuple[str, Sequence[str], Sequence[Sequence[object]]]]:
        """Return titles, headers and rows for a terminal."""
        first = self.rivals[0].comparisons
        rows: list[Sequence[object]] = [("this model", None, *(one.candidate for one in first), "", "", None)]
        rows += [
            (
                rival.name,
                rival.weight,
                *(one.baseline for one in rival.comparisons),
                *(f"{one.difference:+.4f} {one.interval_text}" for one in rival.comparisons),
                round(rival.microseconds),
            )
            for rival in self.rivals
        ]
        header = (
            "ranker",
            "weight",
            *METRICS,
            *(f"this model is better: {name}" for name in METRICS),
            "CPU µs",
        )
        title = (
            f"Against each of its members alone: {self.n_queries} queries, each scored by models that had not seen it "
            f"({CONVENTION}; CPU for {DOCUMENTS} documents, counted)"
        )
        tables: list[tuple[str, Sequence[str], Sequence[Sequence[object]]]] = [(title, header, rows)]
        if self.localised is not None:
            tables.append(self._locality(self.localised))
        steps: list[Sequence[object]] = [
            (len(one.members), round(one.microseconds), one.value) for one in self.frontier
        ]
        tables.append(
            (
                f"Fewer members: CPU against quality (mean of {' and '.join(METRICS)})",
                ("members", "CPU µs", "value"),
                steps,
            )
        )
        return tables

    def _locality(self, found: Localised) -> tuple[str, Sequence[str], Sequence[Sequence[object]]]:
        verdict = (
            "not used: their gain is below the gate" if found.locality is None else f"used: {found.locality}"
        )
        rows: list[Sequence[object]] = [
            ("gain of local models", str(found.gain)),
            ("gain with random prototypes", str(found.random)),
            ("nearest query has the same prototype", f"{found.agreement:.1%} of queries"),
        ]
        return f"Locality ({verdict})", ("what", "found"), rows


def blend_report_of(found: CrossFitted, queries: QuerySet, seed: int = 0) -> BlendReport | None:
    """Compare a blend with its members; `None` if there were too few queries to hold any out."""
    tried, rehearsal, weighed = found.tried, found.rehearsal, found.weighed
    if tried is None or rehearsal is None or weighed is None:
        return None
    n_docs = queries.n_docs
    mine = measure(queries.labels, found.scores[:n_docs], queries.offsets, METRICS, CONVENTION)
    weights = dict(zip((one.position for one in rehearsal.tried), weighed.weights.tolist(), strict=True))
    chosen = tried.weigh().candidates
    rivals = []
    for one, candidate, scores in zip(tried.tried, chosen, tried.alone(), strict=True):
        theirs = measure(queries.labels, scores[:n_docs], queries.offsets, METRICS, CONVENTION)
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
