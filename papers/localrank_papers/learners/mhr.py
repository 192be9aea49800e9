r"""MHR: several hyperplanes, each for a part of the label levels, and one ranking out of theirs [qin2007].

For every pair of levels a RankSVM learns from the documents of those two levels alone; their rankings are aggregated by
Borda count, or by weighted Borda count with weights fitted or set by hand (`localrank.scorers.combination`). With two levels
there is one hyperplane, and MHR is RankSVM.

The paper leaves other base rankers and other aggregations open; they are settings here, see `MultipleHyperplanes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.features.blocks import parse
from localrank.metrics import Judgements, Metric
from localrank.scorers import BordaScorer, LinearScorer
from localrank.scorers.combination import ranked_behind
from localrank.settings import setting
from localrank_training.data.queries import QuerySet
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import figure, note
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.role import Grid, Learner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.arrays import Bits, Vector
    from localrank.scorers import Scorer
    from localrank.scorers.combination import Rule
    from localrank_training.learners.notes import Note

Base: TypeAlias = Literal["pairs", "adjacent", "overlapping", "sampled"]
Aggregation: TypeAlias = Literal["borda", "weighted_borda", "median", "markov", "scores"]

#: Real-valued labels are no levels.
_MOST_LEVELS = 16
#: More base rankers than these levels have pairs are not fitted weights.
_MOST_PARTS = _MOST_LEVELS * (_MOST_LEVELS - 1) // 2
#: Steps in which the share of one ranker is varied when weights are fitted.
_STEPS = 20


@dataclass(frozen=True, slots=True)
class MultipleHyperplanes(Learner):
    """Learn several RankSVMs, each of some label levels, and one ranking out of theirs."""

    C: float = setting(
        10.0, above=0, meaning="of every RankSVM: how much the loss counts against the norm of the weights"
    )
    balance: float = setting(
        0.5, low=0, high=1, meaning="of every RankSVM: 0 counts every pair the same, 1 every query"
    )
    base: Base = setting(
        "pairs",
        meaning="what each ranker learns from: `pairs`: one pair of levels, all K (K - 1) / 2 of them. "
        "`adjacent`: neighbouring levels only, K - 1. `overlapping`: all levels below against all from a "
        "level on, K - 1. `sampled`: all levels, of queries drawn at random",
    )
    aggregate: Aggregation = setting(
        "borda", meaning="how their rankings become one; `weighted_borda` fits the weights if none are given"
    )
    weights: tuple[float, ...] | Mapping[str, float] | None = setting(
        None,
        low=0,
        meaning="weights of the rankers, if they are known: a table by the levels of each ranker, such as `{0-2 "
        "= 3}` for the pair of levels 0 and 2 (or `{2 = 3}` for levels below and from 2 on, with `base = "
        '"overlapping"`), where rankers that are left out have weight 1; or a list with one weight for '
        "each ranker, pairs in the order (0, 1), (0, 2), ..., (1, 2), ... of ascending levels",
    )
    levels: tuple[float, ...] | None = setting(
        None, meaning="all labels; by default those in the data, but a cluster may lack some of them"
    )
    fitted_on: Literal["training", "validation"] = setting(
        "training",
        meaning="queries on which weights are fitted; the paper's experiments take the training queries",
    )
    metric: str = setting("ndcg@10", check=Metric.parse, meaning="metric that fitted weights maximise")
    samples: int = setting(10, low=1, meaning='number of rankers, with `base = "sampled"`')
    share: float = setting(0.6, above=0, high=1, meaning="share of the queries that each sampled ranker sees")
    seed: int = setting(0, low=0, meaning="seed for drawing the queries of sampled rankers")
    blocks: str = setting("normalised", check=parse, meaning="blocks of features that are weighed")

    method: ClassVar[str] = "mhr"
    grid: ClassVar[Grid] = {"C": (0.1, 1.0, 10.0, 100.0)}
    continues: ClassVar[bool] = True

    def agree(self) -> None:
        if isinstance(self.weights, Mapping):
            if self.base == "sampled":
                raise InvalidConfiguration(
                    "weights: expected a list, as samples have no levels, found a table"
                )
        elif self.weights is not None and not any(weight > 0 for weight in self.weights):
            raise InvalidConfiguration("weights: expected at least one positive, found none")

    def fit(self, lesson: Lesson) -> Scorer:
        """Learn one scorer; see `Learner.fit`. One base ranker alone is returned as it is.

        Every base ranker is shrunk to the one at the same place in ``lesson.towards``, or to its only one.
        """
        lesson.check(self.method)
        parts = list(self.parts(lesson))
        if isinstance(self.weights, tuple) and len(self.weights) != len(parts):
            raise InvalidData(
                f"mhr: expected as many base rankers as weights ({len(self.weights)}), found {len(parts)} to learn; set "
                "levels if some queries lack a label"
            )
        rankers, kept = self._base_rankers(lesson, parts)
        if len(rankers) == 1:
            # Its ranking is the only one.
            return rankers[0]
        counts = self._weights(rankers, kept, parts, lesson)
        return BordaScorer(tuple(rankers), counts, self._rule)

    def settled(self, notes: Sequence[Note]) -> Self:
        """Keep the weights that were fitted on validation queries."""
        fitted = [figure(notes, f"weight {part}") for part in range(_MOST_PARTS)]
        while fitted and fitted[-1] is None:
            fitted.pop()
        if self.fitted_on == "training" or not fitted:
            return self
        return replace(self, weights=tuple(weight or 0.0 for weight in fitted))

    def _prior(self, parts: list[Part]) -> list[float]:
        """Return the weight of each part as it was set."""
        if not isinstance(self.weights, Mapping):
            return list(self.weights or ())
        if unknown := [levels for levels in self.weights if levels not in {part.levels for part in parts}]:
            note(
                self.method,
                f"weights: no base ranker has the levels {unknown[0]!r} (there are "
                f"{', '.join(part.levels for part in parts)})",
            )
        return [self.weights.get(part.levels, 1.0) for part in parts]

    @property
    def _rule(self) -> Rule:
        return "borda" if self.aggregate == "weighted_borda" else self.aggregate

    def parts(self, lesson: Lesson) -> Iterator[Part]:
        """Yield what each base ranker is to learn from.

        Raises:
            InvalidData: there are too many different labels to be levels.
        """
        queries, weights = lesson.queries, lesson.shares
        everything = np.ones(queries.n_docs, np.bool_)
        if self.base == "sampled":
            rng = np.random.default_rng(self.seed)
            counted = np.flatnonzero(weights)
            size = max(1, round(self.share * len(counted)))
            for number in range(self.samples):
                drawn = np.zeros(len(queries))
                chosen = rng.choice(counted, size, replace=False)
                drawn[chosen] = weights[chosen]
                yield Part(f"sample {number}", "", queries.labels, everything, drawn)
            return
        found = np.unique(queries.labels[weights[queries.query_of] > 0])
        # A label of -0.0 is zero, also in names.
        levels = (found if self.levels is None else np.unique(self.levels)) + 0.0
        if len(levels) > _MOST_LEVELS:
            raise InvalidData(
                f"mhr: expected at most {_MOST_LEVELS} different labels, since pairs of levels have a ranker each, "
                f"found {len(levels)}"
            )
        if self.base == "overlapping":
            for border in levels[1:]:
                binary = (queries.labels >= border).astype(np.float64)
                yield Part(f"labels below and from {border:g} on", f"{border:g}", binary, everything, weights)
            return
        for low, high in combinations(levels, 2) if self.base == "pairs" else pairwise(levels):
            either = (queries.labels == low) | (queries.labels == high)
            yield Part(f"labels {low:g} and {high:g}", f"{low:g}-{high:g}", queries.labels, either, weights)

    def _base_rankers(self, lesson: Lesson, parts: list[Part]) -> tuple[list[LinearScorer], list[int]]:
        """Learn the base rankers; also say which parts they are of, as some may have no pair of documents."""
        svm = RankSvm(C=self.C, balance=self.balance, blocks=self.blocks)
        starts = _one_for_each(lesson.start, len(parts)) or [None] * len(parts)
        towards = _one_for_each(lesson.towards, len(parts))
        if towards is None:
            raise InvalidConfiguration(
                f"mhr: towards: expected a scorer of {len(parts)} hyperplanes, one for each base ranker, found another "
                "number; set levels if some queries lack a label"
            )
        rankers, kept = [], []
        for number, part in enumerate(parts):
            try:
                ranker = svm.fit(
                    Lesson(
                        part.of(lesson.queries), part.weights, start=starts[number], towards=towards[number]
                    )
                )
            except InvalidData:
                note(self.method, f"no base ranker for {part.name}: no query has a pair of such documents")
                continue
            rankers.append(ranker)
            kept.append(number)
        if not rankers:
            raise InvalidData(
                "mhr: expected documents of one query with different labels and features, found none"
            )
        return rankers, kept

    def _weights(
        self,
        rankers: list[LinearScorer],
        kept: list[int],
        parts: list[Part],
        lesson: Lesson,
    ) -> Vector:
        if self.weights is not None:
            chosen = np.array(self._prior(parts))[kept]
            if chosen.any():
                return chosen
            note(self.method, "equal weights: the base rankers with positive weights could not be learned")
        if self.aggregate != "weighted_borda" or self.weights is not None:
            return np.full(len(rankers), 1.0 / len(rankers))
        exam, counted = lesson.queries, lesson.shares
        if self.fitted_on == "validation":
            if lesson.validation is None:
                raise InvalidConfiguration("mhr: fitted_on: expected validation queries, found none")
            exam, counted = lesson.validation, np.ones(len(lesson.validation))
        weights, value = fit_weights(rankers, exam, self.metric, counted)
        shown = ", ".join(f"{weight:.2f}" for weight in weights)
        note(
            self.method,
            f"weights {shown} reach {self.metric} {value:.4f} on {self.fitted_on} queries",
            **{f"weight {part}": float(weight) for part, weight in zip(kept, weights, strict=True)},
        )
        return weights


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one base ranker learns from.

    Attributes:
        name: for people.
        levels: as a table of weights names them; nothing for a sample.
        labels: ``[n_docs]``.
        documents: ``[n_docs]`` which ones it sees.
        weights: ``[n_queries]``.
    """

    name: str
    levels: str
    labels: Vector
    documents: Bits
    weights: Vector

    def of(self, queries: QuerySet) -> QuerySet:
        """Return the queries as the ranker sees them."""
        if self.documents.all():
            return replace(queries, labels=self.labels)
        kept = np.concatenate([[0], np.cumsum(self.documents)])
        return QuerySet(
            documents=queries.documents[self.documents],
            labels=self.labels[self.documents],
            offsets=kept[queries.offsets],
            query_ids=queries.query_ids,
            feature_names=queries.feature_names,
            lines=queries.lines[self.documents],
        )


def _one_for_each(scorer: Scorer | None, n_parts: int) -> list[Scorer | None] | None:
    """Return a scorer for each part: the hyperplanes of a Borda count, or one for all; `None` if their number differs."""
    if not isinstance(scorer, BordaScorer):
        return [scorer] * n_parts
    return list(scorer.rankers) if len(scorer.rankers) == n_parts else None


def fit_weights(
    rankers: list[LinearScorer], queries: QuerySet, metric: str, weights: Vector
) -> tuple[Vector, float]:
    """Return the weights of a Borda count that maximise a metric, and its value.

    From equal weights on, the share of one ranker after the other is set to the best of `_STEPS` + 1 values, the others
    keeping their proportions, until a round brings nothing. The metric is a step function, so there is no gradient to
    follow, and only a better value changes anything.

    Args:
        rankers: two or more.
        queries: where the metric is measured.
        metric: such as ``map``.
        weights: ``[n_queries]`` how much each query counts.
    """
    behind = np.empty((len(rankers), queries.n_docs))
    for query in range(len(queries)):
        for number, ranker in enumerate(rankers):
            behind[number, queries.span(query)] = ranked_behind(
                ranker.score_rows(queries.documents_of(query))
            )
    judgements = Judgements(queries.labels, queries.offsets)

    def value_of(shares: Vector) -> float:
        return float(weights @ judgements.per_query(shares @ behind, metric) / weights.sum())

    shares = np.full(len(rankers), 1.0 / len(rankers))
    best = value_of(shares)
    improved = True
    while improved:
        improved = False
        for number in range(len(rankers)):
            others = shares.copy()
            others[number] = 0.0
            if not others.any():
                others[np.arange(len(rankers)) != number] = 1.0
            others /= others.sum()
            for step in range(_STEPS + 1):
                tried = (1.0 - step / _STEPS) * others
                tried[number] = step / _STEPS
                value = value_of(tried)
                if value > best + 1e-12:
                    best, shares, improved = value, tried, True
    return shares, best
