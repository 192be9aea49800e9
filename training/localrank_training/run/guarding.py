r"""Choosing the thresholds of a guard (`localrank.routing.guard`) on queries that the models were not built from.

A threshold :math:`t` of one measure sends the held-out queries beyond it down one rung of the chain. Let :math:`g_q` be
the change of the metric of query :math:`q`, zero for queries that are not beyond it. The threshold is accepted if

.. math:: \bar g > e \cdot \mathrm{sd}(g) / \sqrt n

for ``errors`` :math:`e`. The threshold with the largest gain is taken first; then the search continues with this
threshold in place. Candidates concern a share of the queries, from one in forty to half of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.metrics import Judgements
from localrank.routing.guard import REASONS, Guard, GuardedRanker, Rung, Thresholds
from localrank_training.data.preparing import aligned
from localrank_training.evaluation.comparisons import clearly_above
from localrank_training.evaluation.evaluating import RankedQueries, rank_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank.features.contract import FeatureContract
    from localrank.ranker import Ranker
    from localrank_training.data.queries import QuerySet
    from localrank_training.run.pipeline import Built
    from localrank_training.settings.config import TrainingConfig
    from localrank_training.settings.steps import GuardSettings

#: Shares of the queries that candidates for a threshold concern.
_SHARES = np.arange(1, 21) / 40
_RUNGS: tuple[Rung, ...] = ("blend", "global")
#: Sends every query down to the blend: similarity is at most 1, margins are at most 1.
_ALWAYS_BLEND = Guard(margin=Thresholds(blend=2.0))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What held-out queries say, beside what a model made of them.

    Attributes:
        distances: ``[n_queries]`` outside of what training saw.
        blended: all queries, answered by a blend of the two best clusters; ``None`` if that is not known.
    """

    distances: Vector
    blended: RankedQueries | None


def evidence_of(ranker: Ranker, queries: QuerySet) -> Evidence:
    """Let a model that has not learned from the queries answer them with a blend."""
    return Evidence(
        distances(ranker.contract, queries), rank_all(GuardedRanker.around(ranker, _ALWAYS_BLEND), queries)
    )


def distances(contract: FeatureContract, queries: QuerySet) -> Vector:
    """Return how far each query lies outside of what training saw, ``[n_queries]``."""
    queries = aligned(queries, contract)
    return np.array([contract.cloud(documents).outside() for documents in queries.clouds()])


def pooled(parts: Sequence[Evidence | None]) -> Evidence | None:
    """Put the evidence of all splits together; ``None`` if it was not collected."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return Evidence(
        np.concatenate([part.distances for part in known]),
        RankedQueries.joined([cast("RankedQueries", part.blended) for part in known]),
    )


def choose_guard(
    queries: QuerySet, ranked: RankedQueries, evidence: Evidence | None, config: TrainingConfig
) -> tuple[Guard | None, RankedQueries, list[str]]:
    """Choose the thresholds that held-out queries gain by.

    Returns:
        The guard, ``None`` if no threshold gains by enough or none is asked for; what the guarded model makes of the
        queries; and what is to be said.
    """
    settings = config.guard
    if not settings.learn:
        return None, ranked, []
    if evidence is None or not any(route.local for route in ranked.routes):
        return None, ranked, ["guard: the global scorer answers every query, so there is nothing to guard"]
    search = _Search.of(queries, ranked, evidence, config)
    thresholds, gains = search.greedy(settings)
    if not thresholds:
        return (
            None,
            ranked,
            ["guard: no threshold gains enough on the held-out queries, so the model has no guard"],
        )
    guard = Guard.of(thresholds)
    answered, n_sent = _answered(queries, ranked, evidence, guard)
    said = ", ".join(
        f"{measure} {'above' if measure == 'distance' else 'below'} {value:.4g} to {rung}"
        for (measure, rung), value in thresholds.items()
    )
    sentence = (
        f"guard: {said}; it concerns {n_sent} of {len(queries)} held-out queries and gains {sum(gains):+.4f} "
        f"in {config.selection.metric} on these; it was chosen on the same queries"
    )
    return guard, answered, [sentence]


def guarded(built: Built, guard: Guard | None) -> Built:
    """Return what was built, with the guard."""
    return built if guard is None else replace(built, ranker=GuardedRanker.around(built.ranker, guard))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """Held-out queries by number.

    Attributes:
        values: ``[n_queries]`` of each measure; more is better, NaN passes.
        figures: ``[3, n_queries]`` of the metric: of the cluster, of the blend, of the global scorer.
    """

    values: dict[str, Vector]
    figures: Vector

    @classmethod
    def of(
        cls, queries: QuerySet, ranked: RankedQueries, evidence: Evidence, config: TrainingConfig
    ) -> _Search:
        judged = Judgements(queries.labels, queries.offsets)
        blended = ranked.scores if evidence.blended is None else evidence.blended.scores
        figures = [
            judged.per_query(scores, config.selection.metric)
            for scores in (ranked.scores, blended, ranked.global_scores)
        ]
        local = np.array([route.local for route in ranked.routes])
        values = {
            "similarity": np.array([route.similarity for route in ranked.routes], np.float64),
            "margin": np.array([route.margin for route in ranked.routes], np.float64),
            "distance": -evidence.distances,
        }
        return cls(
            {measure: np.where(local, found, np.nan) for measure, found in values.items()}, np.array(figures)
        )

    def greedy(self, settings: GuardSettings) -> tuple[dict[tuple[str, Rung], float], list[float]]:
        """Return the thresholds by measure and rung in the order found, and what each gains."""
        chosen: dict[tuple[str, Rung], float] = {}
        gains: list[float] = []
        while True:
            now = self.answered(chosen)
            best: tuple[float, tuple[str, Rung], float] | None = None
            for measure in REASONS:
                for rung in _RUNGS:
                    if (measure, rung) in chosen:
                        continue
                    for threshold in self._candidates(measure, settings.least):
                        gain = self.answered({**chosen, (measure, rung): threshold}) - now
                        mean = float(gain.mean())
                        if (best is None or mean > best[0]) and clearly_above(gain, settings.errors):
                            best = mean, (measure, rung), threshold
            if best is None:
                signed = {key: -value if key[0] == "distance" else value for key, value in chosen.items()}
                return signed, gains
            chosen[best[1]] = best[2]
            gains.append(best[0])

    def answered(self, thresholds: dict[tuple[str, Rung], float]) -> Vector:
        """Return the metric of each query with these thresholds, for measures that are better if they are larger."""
        levels = np.zeros(self.figures.shape[1], np.intp)
        for (measure, rung), threshold in thresholds.items():
            beyond = self.values[measure] < threshold
            np.maximum(levels, np.where(beyond, 1 + _RUNGS.index(rung), 0), out=levels)
        found: Vector = np.take_along_axis(self.figures, levels[None], axis=0)[0]
        return found

    def _candidates(self, measure: str, least: int) -> list[float]:
        """Return thresholds halfway between two neighbouring values."""
        values = self.values[measure]
        known = np.sort(values[~np.isnan(values)])
        counts = {max(least, round(share * len(known))) for share in _SHARES}
        return [
            float((known[count - 1] + known[count]) / 2)
            for count in sorted(counts)
            if count < len(known) and known[count - 1] < known[count]
        ]


def _answered(
    queries: QuerySet, ranked: RankedQueries, evidence: Evidence, guard: Guard
) -> tuple[RankedQueries, int]:
    """Return what the guarded model makes of the queries, and how many it does not leave to their cluster."""
    scores, routes, n_sent = ranked.scores.copy(), list(ranked.routes), 0
    for query, route in enumerate(ranked.routes):
        if not route.local:
            continue
        verdict = guard.judge(route, lambda query=query: float(evidence.distances[query]))  # type: ignore[misc]
        if verdict is None:
            continue
        n_sent += 1
        span = queries.span(query)
        if verdict.rung == "blend" and evidence.blended is not None:
            scores[span] = evidence.blended.scores[span]
            routes[query] = evidence.blended.routes[query]._replace(fallback=verdict.reason)
        else:
            scores[span] = ranked.global_scores[span]
            routes[query] = route._replace(cluster=None, shares=(), local=False, fallback=verdict.reason)
    return RankedQueries(scores, ranked.global_scores, tuple(routes)), n_sent
