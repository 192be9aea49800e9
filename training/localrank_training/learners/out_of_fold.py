"""Out-of-fold scores of the members of a blend: the quality of each on queries that it has not learned from.

The queries fall into parts, by query and seeded. Every candidate learns from all parts but one and scores that one, for
each part in turn. From these scores follow the settings of each member, the weights of the blend, and an honest figure of
the whole: for each part, settings and weights are chosen once more without it.

Figures are means over queries of MAP and NDCG@10 together, by which settings are chosen. Queries without any relevant
document are left out. Documents of equal score are in random order: in many files the order shows the labels, and a
member that gives many documents the same score would profit from it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank.settings import plain, values_of
from localrank_training.evaluation.comparisons import clearly_above
from localrank_training.evaluation.latency import microseconds
from localrank_training.journal import each_known
from localrank_training.learners.budget import seconds_of
from localrank_training.learners.notes import note
from localrank_training.learners.seen import scores_of
from localrank_training.learners.weights import PULLS, Pairs, learn_weights, standardised_within
from localrank_training.parallel.processes import each_in_parallel, silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.arrays import Bits, Indices, Vector
    from localrank.scorers import Scorer
    from localrank_training.grouping.prototypes import Locality
    from localrank_training.journal import Journal
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.role import Learner
    from localrank_training.parallel.processes import Progress

#: What settings and weights are chosen by: the mean of these.
METRICS = ("map", "ndcg@10")


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """One member of a blend: its candidates, and what each scored.

    Attributes:
        position: of the member in the blend, counted from 0.
        learners: the candidates.
        scores: ``[n_candidates, n_docs]`` by models that had not learned from the document's query; standardised.
        seconds: ``[n_candidates]`` processor seconds of one fit, on average.
        microseconds: ``[n_candidates]`` of serving 100 documents, counted (`localrank_training.evaluation.latency`).
        localities: how local the candidates are; none if they are global.
    """

    position: int
    learners: tuple[Learner, ...]
    scores: Vector
    seconds: Vector
    microseconds: Vector
    localities: tuple[Locality, ...] = ()

    def only(self, candidate: int) -> Tried:
        """Return the member with one of its candidates."""
        return Tried(
            self.position,
            self.learners[candidate : candidate + 1],
            self.scores[candidate : candidate + 1],
            self.seconds[candidate : candidate + 1],
            self.microseconds[candidate : candidate + 1],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """Members that were chosen, and how much each counts.

    Attributes:
        candidates: which candidate of each member.
        weights: ``[n_members]``.
        pull: the strength of the pull towards equal weights that was chosen.
    """

    candidates: tuple[int, ...]
    weights: Vector
    pull: float


@dataclass(frozen=True, slots=True)
class Frontier:
    """Some members, what they cost and what they are worth.

    Attributes:
        members: their positions among those that were tried.
        microseconds: of serving 100 documents.
        value: mean of `METRICS` on held-out queries, with weights of their own.
    """

    members: tuple[int, ...]
    microseconds: float
    value: float


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Out-of-fold scores of all members, and what follows from them.

    Attributes:
        tried: one per member that could be fitted.
        labels, offsets: of the documents and queries.
        shares: ``[n_queries]`` how much each query counts.
        part_of: ``[n_queries]``.
        pairs: what weights are learned from.
    """

    tried: tuple[Tried, ...]
    labels: Vector
    offsets: Indices
    shares: Vector
    part_of: Indices
    pairs: Pairs

    @cached_property
    def _order(self) -> Indices:
        """``[n_docs]`` the documents of each list in random order."""
        query_of = np.repeat(np.arange(len(self.shares)), np.diff(self.offsets))
        return np.lexsort((np.random.default_rng(0).random(len(self.labels)), query_of))

    @cached_property
    def _judgements(self) -> Judgements:
        return Judgements(self.labels[self._order], self.offsets, "standard-skip")

    @cached_property
    def figures(self) -> tuple[Vector, ...]:
        """For each member ``[n_candidates, n_queries]``."""
        return tuple(
            np.array([self.figure(scores) for scores in one.scores]).reshape(-1, len(self.shares))
            for one in self.tried
        )

    def figure(self, scores: Vector) -> Vector:
        """Return ``[n_queries]`` the mean of `METRICS`; NaN without a relevant document."""
        measured = self._judgements.measure(scores[self._order], METRICS)
        mean: Vector = np.mean([one.per_query for one in measured], axis=0)
        return mean

    def mean(self, figures: Vector, judged: Bits) -> Vector:
        """Return the mean over some queries of ``[..., n_queries]`` figures; zero if none has a relevant document."""
        counted = np.where(judged & ~np.isnan(figures), self.shares, 0.0)
        total = counted.sum(axis=-1)
        return np.asarray((counted * np.nan_to_num(figures)).sum(axis=-1) / np.where(total > 0, total, 1.0))

    def choose(self, judged: Bits) -> tuple[int, ...]:
        """Return the best candidate of every member by some queries; of equals the first."""
        return tuple(int(np.argmax(self.mean(figures, judged))) for figures in self.figures)

    def stands_out(self, differences: Vector, judged: Bits, errors: float) -> bool:
        """Tell whether the mean of ``[n_queries]`` differences is above zero by more than ``errors`` standard errors."""
        return clearly_above(differences[judged & ~np.isnan(differences) & (self.shares > 0)], errors)

    def learners(self, weighed: Weighed) -> list[Learner]:
        """Return the learner of every member that was chosen."""
        return [one.learners[number] for one, number in zip(self.tried, weighed.candidates, strict=True)]

    def weigh(self, candidates: Sequence[int] | None = None, judged: Bits | None = None) -> Weighed:
        """Choose settings, the pull towards equal weights and the weights.

        Args:
            candidates: of each member, if they have been chosen.
            judged: ``[n_queries]`` by which queries; all of them by default.
        """
        judged = np.ones(len(self.shares), np.bool_) if judged is None else judged
        chosen = tuple(candidates) if candidates is not None else self.choose(judged)
        members = self.members(chosen)
        parts = np.unique(self.part_of[judged])
        pull = PULLS[0]
        if len(parts) > 1:
            scores = self._left_out(members, judged, parts)
            pull = PULLS[int(np.argmax([float(self.mean(self.figure(one), judged)) for one in scores]))]
        (weights,) = learn_weights(members, self.pairs.of_queries(judged), [pull])
        return Weighed(chosen, weights, pull)

    def members(self, candidates: Sequence[int]) -> Vector:
        """Return ``[n_docs, n_members]`` scores of one candidate each."""
        return np.column_stack(
            [one.scores[number] for one, number in zip(self.tried, candidates, strict=True)]
        )

    def nested(self) -> tuple[Vector, tuple[Weighed, ...]]:
        """Score every part by what the other parts choose; also return those choices, one per part."""
        scores = np.zeros(len(self.labels))
        choices = []
        for part in np.unique(self.part_of):
            held = self.part_of == part
            weighed = self.weigh(judged=~held)
            rows = self.rows_of(held)
            scores[rows] = self.members(weighed.candidates)[rows] @ weighed.weights
            choices.append(weighed)
        return scores, tuple(choices)

    def alone(self) -> list[Vector]:
        """Return ``[n_docs]`` scores of every member by itself, its candidate chosen by the other parts."""
        scores = np.zeros((len(self.tried), len(self.labels)))
        for part in np.unique(self.part_of):
            held = self.part_of == part
            rows = self.rows_of(held)
            for number, chosen in enumerate(self.choose(~held)):
                scores[number, rows] = self.tried[number].scores[chosen][rows]
        return list(scores)

    def frontier(self) -> tuple[Frontier, ...]:
        """Return the values of ever fewer members; each step leaves out the member with the least value per
        microsecond. The value of a member is the loss of the others without it, with their weights unchanged.
        """
        chosen = self.choose(np.ones(len(self.shares), np.bool_))
        kept = list(range(len(self.tried)))
        found = []
        while True:
            some = self.only(kept)
            candidates = [chosen[position] for position in kept]
            weighed = some.weigh(candidates)
            members = some.members(candidates)
            costs = np.array([self.tried[position].microseconds[chosen[position]] for position in kept])
            together = members @ weighed.weights
            found.append(Frontier(tuple(kept), float(costs.sum()), some.worth(together)))
            if len(kept) == 1:
                return tuple(found)
            lost = [
                some.worth(together) - some.worth(together - members[:, number] * weighed.weights[number])
                for number in range(len(kept))
            ]
            kept.pop(int(np.argmin(lost / costs)))

    def worth(self, scores: Vector) -> float:
        """Return the mean value of scores over all queries."""
        return float(self.mean(self.figure(scores), np.ones(len(self.shares), np.bool_)))

    def rows_of(self, queries: Bits) -> Bits:
        """Return ``[n_docs]`` which documents belong to some queries."""
        return np.repeat(queries, np.diff(self.offsets))

    def with_member(self, position: int, tried: Tried) -> OutOfFold:
        """Return the same with another member in one place."""
        members = tuple(tried if number == position else one for number, one in enumerate(self.tried))
        return replace(self, tried=members)

    def only(self, positions: Sequence[int]) -> OutOfFold:
        """Return the scores of some members."""
        return replace(self, tried=tuple(self.tried[position] for position in positions))

    def _left_out(self, members: Vector, judged: Bits, parts: Indices) -> Vector:
        """Return ``[n_pulls, n_docs]``: each part scored with weights that were learned from the other parts."""
        scores = np.zeros((len(PULLS), len(self.labels)))
        for part in parts:
            held = judged & (self.part_of == part)
            learned = learn_weights(members, self.pairs.of_queries(judged & ~held), PULLS)
            rows = self.rows_of(held)
            scores[:, rows] = np.stack(learned) @ members[rows].T
        return scores


def parts_of(lesson: Lesson, wanted: int, seed: int) -> Indices:
    """Return each query's part; queries that can teach and those that cannot are spread evenly.

    Lists of the same query, by its id, are in one part.
    """
    queries = lesson.queries
    teaches = np.array(
        [len(np.unique(queries.labels_of(query))) > 1 for query in range(len(queries))], np.bool_
    )
    part_of = np.zeros(len(queries), np.int64)
    rng = np.random.default_rng(seed)
    for some in (np.flatnonzero(teaches), np.flatnonzero(~teaches)):
        part_of[some] = rng.permutation(np.arange(len(some)) % wanted)
    first: dict[str, int] = {}
    for query, name in enumerate(queries.query_ids):
        part_of[query] = part_of[first.setdefault(name, query)]
    return part_of


def out_of_fold(
    candidates: Sequence[Sequence[Learner]],
    lesson: Lesson,
    part_of: Indices,
    lessons: Sequence[Lesson] = (),
    *,
    most_pairs: int,
    seed: int,
    journal: Journal | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> OutOfFold:
    """Let every candidate of every member learn from all parts but one, and score that one.

    The lesson may look different if a part is held out: one of ``lessons`` for each part.

    A candidate that cannot be fitted without one of the parts is left out, and so is a member without candidates.

    Raises:
        InvalidData: no member is left.
    """
    parts = np.unique(part_of).tolist()
    flat = [(member, learner) for member, learners in enumerate(candidates) for learner in learners]
    pieces = [
        (_alone(learner), lessons[part] if lessons else lesson, part_of, part)
        for _, learner in flat
        for part in parts
    ]
    results = each_known(
        [
            {"learner": {"method": learner.method, **plain(values_of(learner))}, "part": part}
            for learner, _, _, part in pieces
        ],
        lambda missing: each_in_parallel(
            _score_part, [pieces[number] for number in missing], workers=workers
        ),
        journal,
    )
    queries = lesson.queries
    found: dict[int, list[tuple[Learner, Vector, float, float]]] = {}
    problems: dict[int, str] = {}
    width = lesson.widths.get("raw", queries.n_features)
    expected = [seconds_of(learner, queries.n_docs, width) for _, learner in flat]
    done, total = 0.0, max(round(sum(expected) * len(parts)), 1)
    for (member, learner), each in zip(flat, expected, strict=True):
        scores, seconds, cost, problem = np.zeros(queries.n_docs), 0.0, 0.0, None
        for part in parts:
            one = next(results)
            problem = problem or one["problem"]
            if one["problem"] is None:
                seconds += one["seconds"] / len(parts)
                cost += one["microseconds"] / len(parts)
                scores[np.repeat(part_of == part, queries.lengths)] = one["scores"]
            done += each
            progress("members, in planned CPU seconds", min(round(done), total), total)
        if problem is None:
            standard = standardised_within(scores, queries.offsets)
            found.setdefault(member, []).append((learner, standard, seconds, cost))
        else:
            problems[member] = problem
    tried = tuple(
        Tried(
            member,
            tuple(learner for learner, *_ in found[member]),
            np.stack([scores for _, scores, *_ in found[member]]),
            np.array([seconds for *_, seconds, _ in found[member]]),
            np.array([cost for *_, cost in found[member]]),
        )
        for member in sorted(found)
    )
    for member, problem in sorted(problems.items()):
        if member not in found:
            note("blend", f"left out: {problem}")
    if not tried:
        raise InvalidData("; ".join(problems.values()))
    pairs = Pairs.of(queries.labels, queries.offsets, lesson.shares, most=most_pairs, seed=seed)
    return OutOfFold(tried, queries.labels, queries.offsets, lesson.shares, part_of, pairs)


def fitted(
    learners: Sequence[Learner], lesson: Lesson, *, workers: int = 1
) -> Iterator[tuple[Scorer | None, str | None]]:
    """Yield what each learner learns from all queries, or what went wrong."""
    yield from each_in_parallel(_fit, [(_alone(learner), lesson) for learner in learners], workers=workers)


def _fit(learner: Learner, lesson: Lesson) -> tuple[Scorer | None, str | None]:
    try:
        return learner.learn(lesson.seen_as(learner.blocks)), None
    except InvalidData as error:
        return None, str(error)


def _score_part(learner: Learner, lesson: Lesson, part_of: Indices, part: int) -> dict[str, Any]:
    """Learn from all parts but one.

    Returns:
        The scores of that one, the seconds of the fit and the microseconds of serving, or the problem.
    """
    started = time.process_time()
    seen = lesson.seen_as(learner.blocks)
    try:
        scorer = learner.learn(seen.select(np.flatnonzero(part_of != part)))
    except InvalidData as error:
        return {"problem": str(error)}
    seconds = time.process_time() - started
    return {
        "scores": scores_of(scorer, seen.select(np.flatnonzero(part_of == part))),
        "seconds": seconds,
        "microseconds": microseconds(scorer),
        "problem": None,
    }


def _alone(learner: Learner) -> Learner:
    """Return a learner that uses one thread: the pieces run side by side."""
    names = {one.name for one in fields(learner)}  # type: ignore[arg-type]
    changes: dict[str, Any] = {"num_threads": 1} if "num_threads" in names else {}
    return replace(learner, **changes)  # type: ignore[type-var]
