r"""Forests on gains: many deep trees of randomised splits, averaged.

At a node a tree tries a share of the features and takes the split that lowers the squared error of :math:`2^y - 1` most.
`ExtraTrees` draws one threshold for each of these features, and every tree sees all documents [geurts2006]. `RandomForest`
finds the best threshold of each, and every tree sees documents drawn with replacement [breiman2001]. scikit-learn grows both.
What comes out is a `TreesScorer` with scikit-learn's predictions.

A tree sees no more than ``max_samples`` documents, so that the time grows with the number of documents only up to there.

Trees that LightGBM or scikit-learn grew, as the plain arrays of `localrank.scorers.TreesScorer`.

LightGBM's own text is the source for its trees: it prints every threshold and leaf with the digits that read back to
the same double, and is what ``Booster.save_model`` writes, so models trained elsewhere come in the same way.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from localrank.errors import InvalidData
from localrank.features.blocks import parse
from localrank.scorers import TreesScorer
from localrank.scorers.trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN
from localrank.settings import setting
from localrank_training.learners.judged import check_grades
from localrank_training.learners.role import Learner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Indices
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson


def from_lightgbm(text: str, *, blocks: str = "raw") -> TreesScorer:
    """Read the text of a model that gives one number per document.

    The scores are LightGBM's raw ones (``predict(raw_score=True)``); objectives that transform them keep the order.

    Raises:
        InvalidData: it is no such text, or its trees are of a kind that cannot be walked this way (several classes,
            linear models in the leaves), or some are missing.
    """
    walked, *end = text.split("\n\nend of trees", 1)
    head, *texts = walked.split("\nTree=")
    fields = _fields(head)
    if not head.startswith("tree\n") or not texts:
        raise InvalidData(
            "expected the text of a LightGBM model with at least one tree, found something else"
        )
    if fields.get("num_tree_per_iteration") != "1":
        raise InvalidData(
            f"expected a LightGBM model of one score, found num_tree_per_iteration={fields.get('num_tree_per_iteration')}"
        )
    _check_whole(fields, len(texts), ended=bool(end))
    trees = [_fields(one) for one in texts]
    if any(tree.get("is_linear", "0") != "0" for tree in trees):
        raise InvalidData("expected a LightGBM model of constant leaves, found linear_tree")
    try:
        return _joined(trees, averaged="average_output" in head.split("\n"), blocks=blocks)
    except (KeyError, ValueError) as error:
        raise InvalidData(f"the text of this LightGBM model cannot be read: {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """Return what stopped the reading of a model's text or JSON, for a person."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__


def from_sklearn(estimators: Sequence[Any], *, blocks: str = "raw") -> TreesScorer:
    """Return the mean of fitted scikit-learn regression trees (a forest's ``estimators_``)."""
    parts: dict[str, list[np.ndarray[Any, Any]]] = {
        name: [] for name in ("splits", "features", "thresholds", "decisions", "left", "right", "values")
    }
    for estimator in estimators:
        tree = estimator.tree_
        inner = tree.children_left >= 0
        # Splits and leaves are counted apart; scikit-learn numbers parents before their children.
        number = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(~inner))
        parts["splits"].append(np.array([inner.sum()]))
        parts["features"].append(tree.feature[inner])
        parts["thresholds"].append(tree.threshold[inner])
        parts["decisions"].append(
            np.where(tree.missing_go_to_left[inner] > 0, MISSING_NAN | DEFAULT_LEFT, MISSING_NAN)
        )
        parts["left"].append(number[tree.children_left[inner]])
        parts["right"].append(number[tree.children_right[inner]])
        parts["values"].append(tree.value[~inner, 0, 0] / len(estimators))
    return _scorer(parts, [], [], blocks)


def mean(scorers: Sequence[TreesScorer | None]) -> TreesScorer:
    """Return the trees of all, with leaves such that the score is the mean of their scores, nothing counting zero."""
    parts = [replace(scorer, values=scorer.values / len(scorers)) for scorer in scorers if scorer is not None]
    return functools.reduce(TreesScorer.plus, parts)


def prefix_mean(scorer: TreesScorer, rounds: Sequence[int]) -> TreesScorer:
    """Return trees whose score is the mean of the scores of the first ``rounds[0]``, ``rounds[1]``, ... trees.

    A number beyond the last tree means all of them. A tree counts as often as it is among the first ones, so the mean is
    the same trees with smaller leaves. Without ``rounds`` all trees count.
    """
    if not rounds:
        return scorer
    among = np.minimum(np.asarray(rounds)[:, None], scorer.n_trees) > np.arange(scorer.n_trees)
    values = scorer.values * np.repeat(among.mean(axis=0), scorer.splits + 1)
    return replace(scorer, values=values)


def _check_whole(fields: Mapping[str, str], found: int, *, ended: bool) -> None:
    """Refuse a part of a text: LightGBM itself would read beyond its end, and end the process."""
    listed = len(fields["tree_sizes"].split()) if "tree_sizes" in fields else found
    if listed == found and ended:
        return
    cut = ": the file is cut off" if found <= listed else ""
    without = "" if ended else " without 'end of trees'"
    raise InvalidData(f"expected {listed} trees and 'end of trees', found {found} trees{without}{cut}")


def _fields(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.split("\n") if "=" in line)


def _joined(trees: Sequence[dict[str, str]], *, averaged: bool, blocks: str) -> TreesScorer:
    parts: dict[str, list[np.ndarray[Any, Any]]] = {
        name: [] for name in ("splits", "features", "thresholds", "decisions", "left", "right", "values")
    }
    words: list[np.ndarray[Any, Any]] = []
    bits: list[np.ndarray[Any, Any]] = []
    n_sets = 0
    for tree in trees:
        splits = int(tree["num_leaves"]) - 1
        parts["splits"].append(np.array([splits]))
        values = np.array(tree["leaf_value"].split(), np.float64)
        parts["values"].append(values / len(trees) if averaged else values)
        if not splits:
            continue
        decisions = np.array(tree["decision_type"].split(), np.uint8)
        thresholds = np.array(tree["threshold"].split(), np.float64)
        if int(tree["num_cat"]):
            sets = np.array(tree["cat_boundaries"].split(), np.int64)
            words.append(np.diff(sets))
            bits.append(np.array(tree["cat_threshold"].split(), np.uint32))
            thresholds = np.where(decisions & CATEGORICAL, thresholds + n_sets, thresholds)
            n_sets += len(sets) - 1
        parts["features"].append(np.array(tree["split_feature"].split(), np.int64))
        parts["thresholds"].append(thresholds)
        parts["decisions"].append(decisions)
        parts["left"].append(np.array(tree["left_child"].split(), np.int64))
        parts["right"].append(np.array(tree["right_child"].split(), np.int64))
    return _scorer(parts, words, bits, blocks)


def _scorer(
    parts: dict[str, list[np.ndarray[Any, Any]]],
    words: list[np.ndarray[Any, Any]],
    bits: list[np.ndarray[Any, Any]],
    blocks: str,
) -> TreesScorer:
    def join(arrays: list[np.ndarray[Any, Any]], dtype: type[np.generic]) -> Any:
        return np.concatenate([np.zeros(0), *arrays]).astype(dtype)

    return TreesScorer(
        splits=join(parts["splits"], np.int32),
        features=join(parts["features"], np.int32),
        thresholds=join(parts["thresholds"], np.float64),
        decisions=join(parts["decisions"], np.uint8),
        left=join(parts["left"], np.int32),
        right=join(parts["right"], np.int32),
        values=join(parts["values"], np.float64),
        category_words=join(words, np.int32),
        category_bits=join(bits, np.uint32),
        blocks=blocks,
    )


@dataclass(frozen=True, slots=True)
class Forest(Learner):
    """What both learners have: how trees are grown, how many, and of how many documents."""

    missing: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    trees: int = setting(500, low=1, high=100_000, meaning="how many trees")
    min_samples_leaf: int = setting(10, low=1, meaning="smallest number of documents in a leaf")
    max_features: float = setting(
        0.1, above=0.0, high=1.0, meaning="share of the features tried at each split"
    )
    max_depth: int = setting(0, low=0, meaning="largest number of splits on the way to a leaf; 0 is no limit")
    bootstrap: bool = setting(
        default=False, meaning="let each tree see documents drawn with replacement, as many as there are"
    )
    max_samples: int = setting(
        200_000,
        low=1,
        meaning="largest number of documents that a tree sees; if there are more, they are drawn with replacement",
    )
    gain: Literal["label", "exponential"] = setting(
        "exponential", meaning="regress on the label itself, or on 2^label - 1"
    )
    seed: int = setting(0, low=0, high=2**30, meaning="seed for drawing features, thresholds and documents")
    num_threads: int = setting(
        0, low=0, meaning="number of training threads, 0 for one per core; the trees do not depend on it"
    )
    blocks: str = setting("raw", check=parse, meaning="blocks of features that trees split")

    def fit(self, lesson: Lesson) -> TreesScorer:
        """Learn one scorer; see `Learner.fit`. NaN is a missing value and may stay."""
        lesson.refuse_towards(self.method, "its trees do not build on each other")
        lesson.check(self.method, missing=self.missing)
        check_grades(lesson.queries, self.method)
        lesson = lesson.counted()
        queries, shares = lesson.queries, lesson.shares
        drawn = queries.n_docs > self.max_samples
        columns = self._columns(queries)
        signs = lesson.signs if columns is None else lesson.signs[columns]
        forest = self.grower()(
            n_estimators=self.trees,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            max_depth=self.max_depth or None,
            bootstrap=self.bootstrap or drawn,
            max_samples=self.max_samples if drawn else None,
            random_state=self.seed,
            n_jobs=self.num_threads or -1,
            monotonic_cst=signs if signs.any() else None,
        )
        gains = queries.labels if self.gain == "label" else np.exp2(queries.labels) - 1
        forest.fit(
            queries.documents if columns is None else queries.documents[:, columns],
            gains,
            sample_weight=None if (shares == shares[0]).all() else shares[queries.query_of],
        )
        scorer = from_sklearn(forest.estimators_, blocks=self.blocks)
        if not len(scorer.features):
            raise InvalidData(
                f"{self.method}: expected documents that a tree can split, found {queries.n_docs}, too few "
                f"for min_samples_leaf {self.min_samples_leaf}"
            )
        if columns is None:
            return scorer
        return replace(scorer, features=columns[scorer.features].astype(np.int32))

    def _columns(self, queries: QuerySet) -> Indices | None:
        """Return the columns to split if codes are not among them: a threshold means more on an encoding than on a code."""
        codes = np.array([one.kind == "category" for one in queries.features])
        encoded = {block.name for block in parse(self.blocks)} - {"raw", "list", "route"}
        return np.flatnonzero(~codes) if codes.any() and encoded else None

    @abstractmethod
    def grower(self) -> Any:
        """Return scikit-learn's class of these forests."""


@dataclass(frozen=True, slots=True)
class ExtraTrees(Forest):
    """Learn the gain of every document as a mean of extremely randomised trees."""

    method: ClassVar[str] = "extra_trees"

    def grower(self) -> Any:
        from sklearn.ensemble import ExtraTreesRegressor

        return ExtraTreesRegressor


@dataclass(frozen=True, slots=True)
class RandomForest(Forest):
    """Learn the gain of every document as a mean of trees with the best splits, each of a random sample."""

    min_samples_leaf: int = setting(30, low=1, meaning="smallest number of documents in a leaf")
    bootstrap: bool = setting(
        default=True, meaning="let each tree see documents drawn with replacement, as many as there are"
    )
    max_samples: int = setting(
        50_000,
        low=1,
        meaning="largest number of documents that a tree sees; if there are more, they are drawn with replacement",
    )

    method: ClassVar[str] = "random_forest"

    def grower(self) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor
