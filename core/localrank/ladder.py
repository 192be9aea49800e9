"""Cheaper rankers of the same model, for when there is no time for the best one.

    routed        the model as it is: represent, route, score with the cluster's scorer
    global        the global scorer, for which nothing is represented or routed
    first_trees   the global scorer with the first part of its trees

Each is a `Ranker`, so `Ranker.rank` stays the only place that spells the stages. Rungs that would be the same as the one
before are left out: a model without clusters has no ``global``, one without trees no ``first_trees``. Trees are cut
without copying them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from localrank.points.representation import NoRepresentation
from localrank.ranker import Ranker
from localrank.routing.router import GlobalRouter
from localrank.scorers import BlendScorer, SumScorer, TreesScorer, distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.scorers import Scorer

ROUTED, GLOBAL, FIRST_TREES = "routed", "global", "first_trees"
#: Why a cheaper ranking answers.
TIMEOUT, OVERLOAD = "timeout", "overload"
#: Share of the trees of each forest that the last rung walks; one tree at least.
PART = 0.1


class Degraded(NamedTuple):
    """Says that a cheaper ranking answered a request.

    Attributes:
        rung: that answered.
        reason: ``timeout`` or ``overload``.
    """

    rung: str
    reason: str


class Rung(NamedTuple):
    """One way to rank."""

    name: str
    ranker: Ranker


def rungs_of(ranker: Ranker) -> tuple[Rung, ...]:
    """Return the rungs of a model, the best first."""
    rungs = [Rung(ROUTED, ranker)]
    # As many scorers as before, so that the block `route` keeps its width.
    alone = Ranker(ranker.contract, NoRepresentation(), GlobalRouter(), ranker.scorers, ranker.global_scorer)
    if ranker.scorers:
        rungs.append(Rung(GLOBAL, alone))
    first = first_part(ranker.global_scorer)
    if first is not ranker.global_scorer:
        rungs.append(Rung(FIRST_TREES, replace(alone, global_scorer=first)))
    return tuple(rungs)


def first_part(scorer: Scorer, part: float = PART) -> Scorer:
    """Return the scorer with the first part of the trees of each of its forests; itself if it has none to leave out.

    Each boosted tree corrects those that were learned before it, so the first ones say most. What was one member of
    several scorers stays one.
    """
    found: dict[Scorer, Scorer] = {}
    for one in distinct([scorer]):
        found[one] = _first_part(one, part, found)
    return found[scorer]


def _first_part(scorer: Scorer, part: float, found: Mapping[Scorer, Scorer]) -> Scorer:
    if isinstance(scorer, TreesScorer):
        count = max(1, round(part * scorer.n_trees))
        return scorer if count == scorer.n_trees else scorer.first(count)
    if isinstance(scorer, BlendScorer | SumScorer):
        members = tuple(found[member] for member in scorer.rankers)
        changed = any(one is not other for one, other in zip(members, scorer.rankers, strict=True))
        return cast("Scorer", replace(scorer, rankers=members)) if changed else scorer
    return scorer
