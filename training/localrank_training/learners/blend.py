r"""A blend of members of different families, each weighted by what it adds on queries that it has not learned from.

.. math:: f(x) = \sum_k w_k \, z_k(x)

with :math:`z_k` the scores of member ``k``, standardised within the list. The training queries fall into parts. Every
member learns from all parts but one and scores that one; the settings of the members and the weights come from these
scores (`localrank_training.learners.out_of_fold`, `localrank_training.learners.weights`). Then every member learns from all queries.

A member that cannot learn from these queries is left out, and the weights are learned without it. With fewer than
`ENOUGH` queries to learn from there is nothing to choose by: all members count the same.

A cluster's blend, ``lesson.towards`` the global one, has a member of its own, `Blend.local`; it shares the other members and
the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.features.blocks import union
from localrank.scorers import BlendScorer
from localrank.settings import setting, values_of
from localrank_training.learners.judged import differs_within
from localrank_training.learners.notes import note
from localrank_training.learners.out_of_fold import fitted, out_of_fold, parts_of
from localrank_training.learners.role import Learner

# `checked` reads the annotations of settings when it runs.
from localrank_training.learners.settings import LearnerSettings
from localrank_training.parallel.processes import silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices
    from localrank.scorers import Scorer
    from localrank_training.journal import Journal
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.out_of_fold import Frontier, OutOfFold, Weighed
    from localrank_training.parallel.processes import Progress

#: With fewer queries that have documents of different labels, all members count the same.
ENOUGH = 8

#: The scores after each of these numbers of rounds are averaged: as good as choosing one number, without a choice.
_ROUNDS = [18, 25, 38, 50, 65, 80, 100, 125, 150, 200]
_BOOSTED: dict[str, Any] = {
    "num_iterations": 200,
    "learning_rate": 0.1,
    "members": 3,
    "averaged": _ROUNDS,
}
_RELATIVE = "[raw, zscore, rank]"

#: The members of the default recipe; docs/understand/quality.md says why these. The third one is the one that clusters have of their own.
MEMBERS: tuple[dict[str, Any], ...] = (
    {"method": "ranksvm", "blocks": "[minmax, zscore * 0.25, rank]", "C": [0.1, 1.0, 10.0, 100.0]},
    {"method": "ranksvm", "blocks": "minmax", "C": [0.1, 1.0, 10.0, 100.0]},
    {"method": "linear", "blocks": "zscore", "ridge": [0.03, 0.3], "balance": "queries"},
    {"method": "lambdamart", "blocks": "raw", "levels": 32, **_BOOSTED},
    {"method": "lambdamart", "blocks": _RELATIVE, "levels": 32, **_BOOSTED},
    {"method": "gbrt", "blocks": _RELATIVE, "gain": "exponential", "loss": "logistic", **_BOOSTED},
    {"method": "extra_trees", "blocks": _RELATIVE, "trees": 150},
)
#: One more for data with categories. What a category is worth often depends on others, so that the trees are deeper, and each
#: sees all features: the kind of the query is one of them.
_OF_CATEGORIES: dict[str, Any] = {
    "method": "gbrt",
    "blocks": _RELATIVE,
    "gain": "exponential",
    "loss": "logistic",
    "num_iterations": 400,
    "learning_rate": 0.1,
    "num_leaves": 31,
    "feature_fraction": 1.0,
    "members": 1,
}
#: Which of them clusters have of their own, counted from 1.
LOCAL = 3


@dataclass(frozen=True, slots=True)
class Blend(Learner):
    """Learn several scorers and how much each counts."""

    members: tuple[LearnerSettings, ...] = setting(
        (),
        meaning="the learners, one table each; a list in a table is a choice; by default those of method `auto`",
    )
    local: int = setting(
        0,
        low=0,
        meaning="which member has its own model in each cluster, counted from 1; 0 is none",
    )
    parts: int = setting(
        4,
        low=2,
        meaning="number of parts of the queries; each part is scored by models that learn from the others",
    )
    pairs: int = setting(
        150,
        low=1,
        meaning="largest number of pairs of documents per query from which the weights are learned",
    )
    documents: int = setting(
        1_000_000,
        low=1,
        meaning="largest number of documents to learn from; if there are more, whole queries are drawn at random",
    )
    budget: float | None = setting(
        None,
        above=0,
        meaning="processor seconds for a run, counted; seeds, choices, rounds, trees and members are cut until "
        "the plan fits",
    )
    latency: int | None = setting(
        None,
        low=1,
        meaning="microseconds of processor time to score 100 documents, counted; members with the least value "
        "per microsecond are left out until the others fit",
    )
    seed: int = setting(0, low=0, high=2**30, meaning="seed of the parts and pairs")

    method: ClassVar[str] = "blend"
    continues: ClassVar[bool] = True

    def agree(self) -> None:
        if not self.members:
            made = tuple(LearnerSettings.from_table(table, "blend") for table in MEMBERS)
            object.__setattr__(self, "members", made)
            object.__setattr__(self, "local", self.local or LOCAL)
        if self.local > len(self.members):
            raise InvalidConfiguration(
                f"local: expected at most {len(self.members)}, the number of members, found {self.local}"
            )

    def for_categories(self) -> Blend:
        """Return the blend for data with categories: with a further member, unless somebody has chosen the members."""
        if self.members != Blend().members:
            return self
        further = LearnerSettings.from_table(_OF_CATEGORIES, "blend")
        return replace(self, members=(*self.members, further))

    def takes_gaps(self) -> bool:
        return all(learner.takes_gaps() for member in self.members for learner in member.candidates())

    def keeps_directions(self) -> bool:
        return all(learner.keeps_directions() for member in self.members for learner in member.candidates())

    @property
    def blocks(self) -> str:
        return union(learner.blocks for member in self.members for learner in member.candidates())

    def fit(self, lesson: Lesson) -> BlendScorer:
        """Learn one scorer; see `Learner.fit`."""
        lesson.check(self.method, missing=True)
        if lesson.towards is not None:
            return self.own(lesson, lesson.towards)
        scored = self.out_of_fold(lesson)
        if scored is not None and self.latency is not None:
            scored = self.affordable(scored, scored.frontier())
        return self.composed(lesson, scored, None if scored is None else scored.weigh())

    def parts_of(self, lesson: Lesson) -> Indices:
        """Return each query's part, which is scored by models that learn from the others."""
        return parts_of(lesson, self.parts, self.seed)

    def out_of_fold(
        self,
        lesson: Lesson,
        lessons: Sequence[Lesson] = (),
        *,
        journal: Journal | None = None,
        workers: int = 1,
        progress: Progress = silent,
    ) -> OutOfFold | None:
        """Try the candidates of every member; `None` if there are too few queries to choose by.

        Args:
            lesson: the queries.
            lessons: the same for each part as they look if it is held out; by default as ever.
            journal: keeps what is found.
            workers: processes; the result does not depend on it.
            progress: told how far it is.
        """
        teaching = np.count_nonzero(
            differs_within(lesson.queries.labels, lesson.queries) & (lesson.shares > 0)
        )
        if teaching < ENOUGH:
            note(
                self.method,
                f"{teaching} queries can teach, which is too few: all members get the same weight",
            )
            return None
        return out_of_fold(
            [member.candidates() for member in self.members],
            lesson,
            self.parts_of(lesson),
            lessons,
            most_pairs=self.pairs,
            seed=self.seed,
            journal=journal,
            workers=workers,
            progress=progress,
        )

    def affordable(self, scored: OutOfFold, frontier: Sequence[Frontier]) -> OutOfFold:
        """Return the scores of as many members as the latency allows, of at least one."""
        if self.latency is None:
            return scored
        kept = next((one for one in frontier if one.microseconds <= self.latency), frontier[-1])
        if len(kept.members) < len(scored.tried):
            note(
                self.method,
                f"{len(kept.members)} of {len(scored.tried)} members together stay within {self.latency} "
                f"microseconds (about {kept.microseconds:.0f})",
            )
        return scored.only(kept.members)

    def composed(
        self,
        lesson: Lesson,
        scored: OutOfFold | None,
        weighed: Weighed | None,
        *,
        workers: int = 1,
        progress: Progress = silent,
    ) -> BlendScorer:
        """Learn every member from all queries and weigh them; without those that fail, weights are learned again.

        Args:
            lesson: the queries.
            scored: the members' out-of-fold scores, if there are some.
            weighed: what it chose.
            workers: processes; the result does not depend on it.
            progress: told how far it is.

        Raises:
            InvalidData: no member can learn from these queries.
        """
        if scored is None or weighed is None:
            candidates = [member.candidates() for member in self.members]
            learners = [some[len(some) // 2] for some in candidates]
        else:
            learners = scored.learners(weighed)
        scorers: list[Scorer | None] = []
        problems = []
        for scorer, problem in fitted(learners, lesson, workers=workers):
            scorers.append(scorer)
            progress("blend", len(scorers), len(learners))
            if problem is not None:
                problems.append(problem)
                note(self.method, f"left out: {problem}")
        kept = [position for position, scorer in enumerate(scorers) if scorer is not None]
        if not kept:
            raise InvalidData("; ".join(problems))
        if scored is None or weighed is None:
            weights = np.ones(len(kept))
        elif len(kept) == len(scorers):
            weights = weighed.weights
        else:
            weights = scored.only(kept).weigh([weighed.candidates[position] for position in kept]).weights
        return BlendScorer(tuple(scorer for scorer in scorers if scorer is not None), weights)

    def position_in(self, scored: OutOfFold) -> int | None:
        """Return where the local member is among those that could be fitted."""
        return next(
            (number for number, one in enumerate(scored.tried) if one.position == self.local - 1), None
        )

    def settled_to(self, scored: OutOfFold, weighed: Weighed) -> Blend:
        """Return the blend of the members that were tried, each with the settings that were chosen."""
        learners = scored.learners(weighed)
        local = self.position_in(scored)
        members = tuple(LearnerSettings(learner.method, values_of(learner)) for learner in learners)
        return replace(self, members=members, local=0 if local is None else local + 1)

    def own(self, lesson: Lesson, towards: Scorer) -> BlendScorer:
        """Learn a cluster's blend: its own local member, everything else as in the global blend.

        Raises:
            InvalidConfiguration: ``towards`` is no blend.
        """
        if not isinstance(towards, BlendScorer):
            raise InvalidConfiguration(
                f"{self.method}: towards: expected a blend, found a scorer of kind {towards.kind!r}"
            )
        if not self.local:
            return towards
        learner = self.members[self.local - 1].candidates()[0]
        position = position_of(learner, towards)
        if position is None:
            return towards
        own = learner.learn(
            replace(lesson.seen_as(learner.blocks), towards=None, start=towards.rankers[position])
        )
        return with_ranker(towards, position, own)


def position_of(learner: Learner, blend: BlendScorer) -> int | None:
    """Return which member of a blend a learner made, by its blocks; `None` if it was left out."""
    return next(
        (
            number
            for number, ranker in enumerate(blend.rankers)
            if getattr(ranker, "blocks", None) == learner.blocks
        ),
        None,
    )


def with_ranker(blend: BlendScorer, position: int, ranker: Scorer) -> BlendScorer:
    """Return the blend with another member in one place; the others are the very same ones."""
    rankers = (*blend.rankers[:position], ranker, *blend.rankers[position + 1 :])
    return BlendScorer(rankers, blend.weights)
