r"""Boosted regression trees, grown by LightGBM [ke2017].

Both learners sum trees; each tree is fitted to the gradient of a loss at the scores so far
[friedman2001]. `Gbrt` has the squared error of gains. `LambdaMart` has no loss but its gradient [burges2010]: two
documents of a query with labels :math:`y_i > y_j` and scores ``s`` are driven apart by

.. math::
    \lambda_{ij} = \frac{\sigma\, |\Delta \mathrm{NDCG}_{ij}|}{1 + e^{\sigma (s_i - s_j)}}

where :math:`\Delta \mathrm{NDCG}_{ij}` is what exchanging the two would change; only pairs count that have a document
among the first ``lambdarank_truncation_level``.

What LightGBM has a setting for keeps LightGBM's name. What comes out is a `TreesScorer` with LightGBM's predictions.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.features.blocks import parse
from localrank.scorers import SumScorer, TreesScorer
from localrank.settings import setting
from localrank_training.data.rows import CELLS, Rows, unheld
from localrank_training.learners.forests import from_lightgbm, mean, prefix_mean
from localrank_training.learners.judged import check_finite, check_grades, differs_within
from localrank_training.learners.notes import figure, note
from localrank_training.learners.role import Learner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.notes import Note


@dataclass(frozen=True, slots=True)
class Boosting(Learner):
    """What both learners have: how trees are grown, how many, and when to stop.

    With validation queries, boosting stops when ``early_stopping_rounds`` trees in a row brought no gain on them, and
    the trees up to the best are kept. With ``averaged`` there is no number of trees to choose: the score is the mean over
    several, which is as good, and is folded into the values of the leaves. With ``lesson.towards`` boosting goes on from
    its scores, and the model is the sum of both; if the trees gain nothing on the validation queries, the result is
    ``lesson.towards`` itself.
    """

    num_iterations: int = setting(500, low=1, meaning="largest number of trees")
    learning_rate: float = setting(
        0.05, above=0.0, high=1.0, meaning="learning rate: the share of each tree that is added"
    )
    num_leaves: int = setting(7, low=2, high=131_072, meaning="largest number of leaves of a tree")
    max_depth: int = setting(
        -1, low=-1, meaning="largest number of splits on the way to a leaf; -1 is no limit"
    )
    min_data_in_leaf: int = setting(20, low=0, meaning="smallest number of documents in a leaf")
    min_sum_hessian_in_leaf: float = setting(
        1e-3, low=0.0, meaning="smallest sum of second derivatives in a leaf"
    )
    feature_fraction: float = setting(
        0.5, above=0.0, high=1.0, meaning="share of the features that a tree may use"
    )
    bagging_fraction: float = setting(
        0.5, above=0.0, high=1.0, meaning="share of the queries that a tree sees"
    )
    lambda_l1: float = setting(0.0, low=0.0, meaning="L1 penalty on the leaves")
    lambda_l2: float = setting(0.0, low=0.0, meaning="L2 penalty on the leaves")
    max_bin: int = setting(255, low=2, high=65_535, meaning="largest number of bins of a feature")
    early_stopping_rounds: int = setting(
        100, low=0, meaning="number of trees without gain after which boosting stops; 0 never stops early"
    )
    averaged: tuple[int, ...] = setting(
        (),
        low=1,
        meaning="use the mean of the scores of the first 50, 100 and 200 trees, if this is [50, 100, 200], "
        "instead of the score of all trees; boosting then never stops early",
    )
    members: int = setting(
        5, low=1, high=1000, meaning="number of models with different seeds; their scores are averaged"
    )
    seed: int = setting(0, low=0, high=2**30, meaning="seed for drawing features and queries")
    num_threads: int = setting(
        0, low=0, meaning="number of training threads, 0 for one per core; the trees do not depend on it"
    )
    spread: bool = setting(
        default=False,
        meaning="grow every tree on all workers of the Dask cluster (`--dask`); each worker holds a part of the "
        "queries, and boosting never stops early. Without a cluster trees are grown as usual",
    )
    categorical: tuple[str, ...] = setting(
        (), meaning="further features whose numbers are categories, not amounts"
    )
    blocks: str = setting("raw", check=parse, meaning="blocks of features that trees split")

    continues: ClassVar[bool] = True
    missing: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    def fit(self, lesson: Lesson) -> Scorer:
        """Learn one scorer; see `Learner.fit`. NaN is a missing value and may stay."""
        lesson.check(self.method, missing=self.missing)
        self.check_labels(lesson.queries)
        lesson = lesson.counted()
        queries, shares = lesson.queries, lesson.shares
        scheduler = self._scheduler()
        validation = None if self.averaged or scheduler else lesson.validation
        if validation is not None:
            check_finite(validation, self.method, missing=True)
            self.check_labels(validation)
            if not differs_within(validation.labels, validation).any():
                note(self.method, "no validation query has different labels: boosting does not stop early")
                validation = None
        base = None if lesson.towards is None else replace(lesson, validation=validation).base_scores()
        members = [
            self._grown_on_workers(scheduler, queries, shares, base, settings)
            if scheduler
            else self._grow(queries, shares, validation, base, settings)
            for settings in (
                self._settings(self.seed + member, lesson.signs) for member in range(self.members)
            )
        ]
        if validation is not None and self.early_stopping_rounds:
            rounds = sum(trees.n_trees for trees in members if trees is not None) / self.members
            note(
                self.method,
                f"{rounds:.0f} rounds, by {len(validation)} validation queries (mean of {self.members} members)",
                rounds=rounds,
            )
        if lesson.towards is None:
            if not any(len(trees.features) for trees in members if trees is not None):
                raise InvalidData(
                    f"{self.method}: expected documents that a tree can split, found {queries.n_docs}, too "
                    f"few for min_data_in_leaf {self.min_data_in_leaf} and min_sum_hessian_in_leaf "
                    f"{self.min_sum_hessian_in_leaf:g}"
                )
            return mean(members)
        if not any(trees is not None and len(trees.features) for trees in members):
            note(self.method, "no tree improved the scorer that boosting continued, so it stays unchanged")
            return lesson.towards
        return SumScorer((lesson.towards, mean(members)))

    def settled(self, notes: Sequence[Note]) -> Self:
        """Boost as many rounds as validation queries chose."""
        rounds = figure(notes, "rounds")
        return self if rounds is None else replace(self, num_iterations=max(1, round(rounds)))

    @abstractmethod
    def check_labels(self, queries: QuerySet) -> None:
        """Refuse labels that this learner cannot learn from."""

    @abstractmethod
    def targets(self, labels: Vector) -> Vector:
        """``[n_docs]`` what LightGBM is given as labels."""

    @abstractmethod
    def objective(self) -> dict[str, Any]:
        """LightGBM's settings for the objective and for early stopping."""

    def _grow(
        self,
        queries: QuerySet,
        weights: Vector,
        validation: QuerySet | None,
        base: tuple[Vector, Vector | None] | None,
        settings: dict[str, Any],
    ) -> TreesScorer | None:
        """Grow the trees of one seed; nothing if they gain nothing on ``base``, the scores so far."""
        import lightgbm

        stops = validation is not None and self.early_stopping_rounds > 0
        callbacks: list[Any] = (
            [lightgbm.early_stopping(self.early_stopping_rounds, verbose=False)] if stops else []
        )
        before = _Before()
        try:
            data = self._dataset(queries, settings, None if base is None else base[0], weights)
            held = []
            if validation is not None and stops:
                held = [
                    self._dataset(validation, settings, None if base is None else base[1], reference=data)
                ]
                callbacks.append(before)
            rounds = min(self.num_iterations, max(self.averaged, default=self.num_iterations))
            booster = lightgbm.train(settings, data, rounds, valid_sets=held, callbacks=callbacks)
        except lightgbm.basic.LightGBMError as error:
            raise InvalidData(f"{self.method}: LightGBM cannot learn from these queries: {error}") from None
        if held and base is not None and not before.gained(booster):
            return None
        text = booster.model_to_string(num_iteration=booster.best_iteration if held else -1)
        return prefix_mean(from_lightgbm(text, blocks=self.blocks), self.averaged)

    def _scheduler(self) -> str | None:
        """Return the address of the scheduler if trees are to be grown on all workers."""
        if not self.spread:
            return None
        from localrank_training.parallel.dask_trees import scheduler_here

        found = scheduler_here()
        if found is None:
            note(
                self.method,
                "spread needs a Dask cluster (--dask), found none: one machine grew the trees",
            )
        return found

    def _grown_on_workers(
        self,
        scheduler: str,
        queries: QuerySet,
        weights: Vector,
        base: tuple[Vector, Vector | None] | None,
        settings: dict[str, Any],
    ) -> TreesScorer:
        from localrank_training.parallel.dask_trees import TreeSample, grown_on_workers

        judged = TreeSample(
            queries.documents,
            self.targets(queries.labels),
            queries.lengths[queries.lengths > 0],
            None if (weights == weights[0]).all() else weights[queries.query_of],
            None if base is None else base[0],
            tuple(self._categories(queries)),
        )
        rounds = min(self.num_iterations, max(self.averaged, default=self.num_iterations))
        text = grown_on_workers(scheduler, settings, rounds, judged)
        return prefix_mean(from_lightgbm(text, blocks=self.blocks), self.averaged)

    def _settings(self, seed: int, signs: Indices | None = None) -> dict[str, Any]:
        """Return LightGBM's settings; the same trees come of them with any number of threads."""
        return {
            **({} if signs is None or not signs.any() else {"monotone_constraints": signs.tolist()}),
            **self.objective(),
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "max_depth": self.max_depth,
            "min_data_in_leaf": self.min_data_in_leaf,
            "min_sum_hessian_in_leaf": self.min_sum_hessian_in_leaf,
            "feature_fraction": self.feature_fraction,
            "bagging_fraction": self.bagging_fraction,
            "bagging_freq": int(self.bagging_fraction < 1),
            "bagging_by_query": self.bagging_fraction < 1,
            "lambda_l1": self.lambda_l1,
            "lambda_l2": self.lambda_l2,
            "max_bin": self.max_bin,
            "seed": seed,
            "num_threads": self.num_threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }

    def _dataset(
        self,
        queries: QuerySet,
        settings: dict[str, Any],
        base: Vector | None,
        weights: Vector | None = None,
        reference: Any = None,
    ) -> Any:
        import lightgbm

        filled = queries.lengths[queries.lengths > 0]  # LightGBM has no queries without documents
        documents = unheld(queries.documents)
        return lightgbm.Dataset(
            queries.documents if documents is None else _as_sequence(documents),
            self.targets(queries.labels).copy(),  # LightGBM warns of views
            group=filled,
            weight=None if weights is None or (weights == weights[0]).all() else weights[queries.query_of],
            init_score=base,
            position=self._places(queries) if reference is None else None,
            categorical_feature=self._categories(queries),
            reference=reference,
            params=settings,
        )

    def _places(self, queries: QuerySet) -> Indices | None:  # noqa: ARG002
        """Return the places that the objective corrects for; only `LambdaMart` knows some."""
        return None

    def _categories(self, queries: QuerySet) -> list[int]:
        """Return the columns of the categories."""
        if unknown := set(self.categorical) - set(queries.feature_names):
            raise InvalidConfiguration(
                f"{self.method}: categorical: expected names of features, found {min(unknown)!r}"
            )
        return [
            at
            for at, feature in enumerate(queries.features)
            if feature.kind == "category" or feature.name in self.categorical
        ]


def _as_sequence(documents: Rows) -> Any:
    """Return rows that are not held as LightGBM wants them: it bins them in portions and keeps only the bins."""
    import lightgbm

    class Sequence(lightgbm.Sequence):  # type: ignore[misc]
        batch_size = max(1, CELLS // documents.shape[1])
        first, some = 0, np.empty((0, documents.shape[1]), np.float32)

        def __getitem__(self, rows: Any) -> Any:
            if isinstance(rows, slice):
                return documents[rows]
            # Single rows are asked for in ascending order.
            if not self.first <= rows < self.first + len(self.some):
                self.first = rows - rows % self.batch_size
                self.some = documents[self.first : self.first + self.batch_size]
            return self.some[rows - self.first].astype(np.float64)

        def __len__(self) -> int:
            return len(documents)

    return Sequence()


class _Before:
    """Remembers the validation figure before the first tree."""

    before_iteration = True
    order = 0

    def __init__(self) -> None:
        self._figure = 0.0
        self._sign = 1.0

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            (result,) = env.model.eval_valid()
            self._figure, self._sign = result[2], 1.0 if result[3] else -1.0

    def gained(self, booster: Any) -> bool:
        ((best,),) = (figures.values() for figures in booster.best_score.values())
        return bool(self._sign * best > self._sign * self._figure)


@dataclass(frozen=True, slots=True)
class Gbrt(Boosting):
    """Learn the gain of every document by boosted regression trees, without regard to its query."""

    gain: Literal["label", "exponential"] = setting(
        "label", meaning="regress on the label itself, which may be any number from 0, or on 2^label - 1"
    )
    loss: Literal["squared", "logistic"] = setting(
        "squared",
        meaning="squared error of the gain; or cross-entropy of the gain as a share of the largest gain; the "
        "score is then the log-odds of that share",
    )

    method: ClassVar[str] = "gbrt"

    def check_labels(self, queries: QuerySet) -> None:
        check_grades(queries, self.method)

    def targets(self, labels: Vector) -> Vector:
        gains = labels if self.gain == "label" else np.exp2(labels) - 1
        return gains / max(gains.max(initial=0.0), 1e-300) if self.loss == "logistic" else gains

    def objective(self) -> dict[str, Any]:
        if self.loss == "logistic":
            return {"objective": "cross_entropy", "metric": "cross_entropy"}
        return {"objective": "regression", "metric": "l2"}


@dataclass(frozen=True, slots=True)
class LambdaMart(Boosting):
    """Learn the order of each query's documents by boosted trees on the gradient of NDCG."""

    label_gain: tuple[float, ...] = setting(
        (), low=0.0, meaning="gains of the labels 0, 1, ...; by default 2^label - 1, up to label 30"
    )
    lambdarank_truncation_level: int = setting(
        30,
        low=1,
        meaning="only pairs with at least one of this many first documents count; set it a little higher than the "
        "number of results that matter",
    )
    lambdarank_norm: bool = setting(default=True, meaning="scale each query's gradients by their sum")
    sigmoid: float = setting(1.0, above=0.0, meaning="steepness of the pair loss")
    levels: int = setting(
        0,
        low=0,
        high=1000,
        meaning="round labels that are not whole numbers to this many levels, each with the gain of its own "
        "label, 2^label - 1; 0 refuses them",
    )
    unbiased: bool = setting(
        default=False,
        meaning="labels are clicks: learn how much each place of the data (--position) adds to them, and leave that out of "
        "the scores (LightGBM's position bias)",
    )
    metric: Literal["ndcg", "map"] = setting("ndcg", meaning="the metric that stops boosting")
    eval_at: int = setting(10, low=1, meaning="number of first documents that this metric counts")

    method: ClassVar[str] = "lambdamart"

    def fit(self, lesson: Lesson) -> Scorer:
        """Learn one scorer; see `Learner.fit`. NaN is a missing value and may stay."""
        labels = lesson.queries.labels
        if not self.levels or not np.isfinite(labels).all() or (labels == np.trunc(labels)).all():
            return Boosting.fit(self, lesson)
        check_grades(lesson.queries, self.method)
        levels = np.unique(labels)
        if len(levels) > self.levels:
            levels = np.linspace(levels[0], levels[-1], self.levels)
        cut = replace(self, label_gain=tuple((np.exp2(levels) - 1).tolist()))
        held = lesson.validation
        return Boosting.fit(
            cut,
            replace(
                lesson,
                queries=_at_levels(lesson.queries, levels),
                validation=None if held is None else _at_levels(held, levels),
            ),
        )

    def check_labels(self, queries: QuerySet) -> None:
        check_grades(queries, self.method, whole=True, highest=len(self._gains()) - 1)

    def targets(self, labels: Vector) -> Vector:
        return labels

    def objective(self) -> dict[str, Any]:
        return {
            "objective": "lambdarank",
            "label_gain": list(self._gains()),
            "lambdarank_truncation_level": self.lambdarank_truncation_level,
            "lambdarank_norm": self.lambdarank_norm,
            "sigmoid": self.sigmoid,
            "metric": self.metric,
            "eval_at": [self.eval_at],
        }

    def _places(self, queries: QuerySet) -> Indices | None:
        if not self.unbiased:
            return None
        if queries.positions is None:
            raise InvalidConfiguration(
                f"{self.method}: unbiased: expected the places of the documents (--position), found none"
            )
        return queries.positions

    def _gains(self) -> tuple[float, ...]:
        return self.label_gain or tuple(2.0**label - 1 for label in range(31))


def _at_levels(queries: QuerySet, levels: Vector) -> QuerySet:
    """Return the queries with the number of the nearest level in place of each label."""
    between = (levels[1:] + levels[:-1]) / 2
    return replace(queries, labels=np.searchsorted(between, queries.labels).astype(np.float64))
