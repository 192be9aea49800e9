"""Adaptive training on one fold: as the notebooks of its authors do it, and repaired [cremers2020].

`as_published` follows the notebooks, errors included; `repaired` does what the paper describes. They differ in:

- the vector of a query: the mean of its relevant documents. The notebooks take zero if there are none, and by an error also
  if the only relevant document comes first. Repaired, a query without relevant documents is not clustered;
- the profile of a query: the notebooks measure models that have learned from the query; repaired, models that have not;
- the reciprocal rank: the notebooks give 0 if the only relevant document is ranked first; repaired, it is 1;
- the model: the notebooks grow 500 trees of depth 3. Repaired, validation queries stop the global model and those of the
  clusters alike;
- predicting the cluster: the notebooks fit one cluster against the rest on columns as they are; repaired, a multinomial model
  on standardised columns;
- fusion: the notebooks add raw scores; repaired, scores are standardised within the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank.points.vectors import VectorPoints
from localrank_training.grouping.clustering import kmeans, ward
from localrank_training.grouping.representations import PROFILE, profile_of
from localrank_training.grouping.routers import fit_classifier
from localrank_training.learners.best_feature import best_feature
from localrank_training.learners.boosting import LambdaMart
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.seen import scores_of
from localrank_training.run.choosing import folds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank.scorers import Scorer
    from localrank_papers.figures.folds import Fold
    from localrank_training.data.queries import QuerySet

Clusters: TypeAlias = Literal["kmeans", "ward"]

#: Refinements after the first clustering.
ROUNDS = 2
#: Parts of the training queries; a repaired profile comes from models that have not seen the query's part.
_PARTS = 5
#: Documents by which the cluster of a query is predicted.
_TOP = 10

#: pyltr's defaults with 500 trees, in LightGBM's names. Only pairs with a document among the first five change NDCG@5.
PUBLISHED = LambdaMart(
    num_iterations=500,
    learning_rate=0.1,
    num_leaves=8,
    max_depth=3,
    min_data_in_leaf=1,
    feature_fraction=1.0,
    bagging_fraction=1.0,
    early_stopping_rounds=0,
    members=1,
    lambdarank_truncation_level=5,
    lambdarank_norm=False,
    eval_at=5,
    num_threads=1,
)

#: The defaults of `lambdamart` with one member instead of five.
REPAIRED = LambdaMart(members=1, eval_at=5, num_threads=1)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What the models of clusters make of queries, before one of them is chosen.

    Attributes:
        queries: the ones asked.
        scores: ``[n_models, n_docs]``.
        shares: ``[n_queries, n_models]`` the predicted probability of each cluster.
        standard: whether fusion standardises scores within the list.
    """

    queries: QuerySet
    scores: Vector
    shares: Vector
    standard: bool

    def selective(self) -> Vector:
        """Return ``[n_docs]`` the scores of the most probable cluster's model."""
        chosen = self.shares.argmax(axis=1)[self.queries.query_of]
        return np.asarray(self.scores[chosen, np.arange(self.queries.n_docs)], np.float64)

    def fusion(self) -> Vector:
        """Return ``[n_docs]`` the scores of all models, weighted by the probabilities (eq. 2)."""
        scores = self._standardised() if self.standard else self.scores
        return np.asarray((self.shares[self.queries.query_of].T * scores).sum(axis=0), np.float64)

    def _standardised(self) -> Vector:
        found = np.zeros_like(self.scores)
        for query in range(len(self.queries)):
            span = self.queries.span(query)
            part = self.scores[:, span]
            if part.shape[1]:
                spread = part.std(axis=1, keepdims=True)
                apart = part - part.mean(axis=1, keepdims=True)
                found[:, span] = apart / np.where(spread > 0, spread, np.inf)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """Models of clusters, and what predicts the cluster of a query.

    Attributes:
        labels: ``[n_training_queries]`` their clusters; -1 is none.
        models: one for each cluster.
        feature: by which the top documents of a query are found.
        predict: from ``[n_queries, n_features]`` to ``[n_queries, n_models]``.
        standard: whether fusion standardises scores within the list.
    """

    labels: Indices
    models: Sequence[Scorer]
    feature: int
    predict: Callable[[Matrix], Vector]
    standard: bool

    def ask(self, queries: QuerySet) -> Answers:
        """Return what the models make of queries."""
        scores = np.stack([scored_by(model, queries) for model in self.models])
        shares = self.predict(top_documents(queries, self.feature).values)
        return Answers(queries, scores, shares, self.standard)


def global_model(fold: Fold, learner: LambdaMart) -> Scorer:
    """Return one model of all training queries."""
    return learner.fit(_lesson(fold.train, fold, learner))


def as_published(fold: Fold, clusters: Clusters, count: int = 5, learner: LambdaMart = PUBLISHED) -> Adapted:
    """Return what the notebooks learn."""
    labels = _clustered(published_points(fold.train), clusters, count)
    for _ in range(ROUNDS):
        models = _models(fold, labels, count, learner)
        profiles = [published_profile(fold.train, scored_by(model, fold.train)) for model in models]
        labels = _clustered(np.column_stack(profiles), clusters, count)
    return _adapted(fold, labels, count, learner, standard=False)


def repaired(
    fold: Fold, clusters: Clusters, count: int, learner: LambdaMart = REPAIRED, seed: int = 0
) -> Adapted:
    """Return what the method learns as the paper describes it."""
    relevant = _with_relevant(fold.train)
    labels = _of_known(relevant_means(fold.train), relevant, clusters, count)
    for _ in range(ROUNDS):
        profiles = repaired_profiles(fold, labels, count, learner, seed)
        labels = _of_known(profiles, relevant, clusters, count)
    return _adapted(fold, labels, count, learner, standard=True)


def dealt_at_random(fold: Fold, like: Adapted, learner: LambdaMart, seed: int) -> Adapted:
    """Return the same with the training queries dealt at random to clusters of the same sizes."""
    labels = like.labels.copy()
    known = np.flatnonzero(labels >= 0)
    labels[known] = np.random.default_rng(seed).permutation(labels[known])
    return _adapted(fold, labels, len(like.models), learner, standard=like.standard)


def flips(adapted: Adapted, queries: QuerySet, seed: int, repeats: int = 10) -> float:
    """Return how often the most probable cluster changes if a tenth of the documents is missing."""
    rng = np.random.default_rng(seed)
    whole = adapted.predict(top_documents(queries, adapted.feature).values).argmax(axis=1)
    changed = []
    for _ in range(repeats):
        kept = [
            np.sort(rng.choice(np.arange(span.start, span.stop), size, replace=False))
            for span in map(queries.span, range(len(queries)))
            for size in [max(1, round(0.9 * (span.stop - span.start)))]
        ]
        points = [
            queries.documents[rows][np.argsort(-queries.documents[rows, adapted.feature], kind="stable")][
                :_TOP
            ].mean(axis=0)
            for rows in kept
        ]
        changed.append(adapted.predict(np.stack(points)).argmax(axis=1) != whole)
    return float(np.mean(changed))


def published_points(queries: QuerySet) -> Vector:
    """Return the notebooks' query vectors, ``[n_queries, n_features]``.

    They test ``any(positions of relevant documents)``. This is false for ``[]``, but also for ``[0]``.
    """
    points = np.zeros((len(queries), queries.n_features))
    for query in range(len(queries)):
        relevant = np.flatnonzero(queries.labels_of(query) > 0)
        if relevant.any():
            points[query] = queries.documents_of(query)[relevant].mean(axis=0, dtype=np.float64)
    return points


def relevant_means(queries: QuerySet) -> Vector:
    """Return the mean of each query's relevant documents, ``[n_queries, n_features]``; zero if there are none."""
    points = np.zeros((len(queries), queries.n_features))
    for query in np.flatnonzero(_with_relevant(queries)).tolist():
        found = queries.labels_of(query) > 0
        points[query] = queries.documents_of(query)[found].mean(axis=0, dtype=np.float64)
    return points


def published_profile(queries: QuerySet, scores: Vector) -> Vector:
    """Return the notebooks' profile of one ranking, ``[n_queries, 8]``."""
    profile = profile_of(Judgements(queries.labels, queries.offsets), scores)
    profile[:, PROFILE.index("mrr@100")] = published_reciprocal_rank(queries, scores)
    return profile


def published_reciprocal_rank(queries: QuerySet, scores: Vector, cutoff: int = 100) -> Vector:
    """Return the notebooks' reciprocal rank, ``[n_queries]``.

    Relevant documents come before others of the same score; the ``any`` of `published_points` makes a query zero whose only
    relevant document is ranked first.
    """
    found = np.zeros(len(queries))
    for query in range(len(queries)):
        labels = queries.labels_of(query)
        order = np.lexsort((-labels, -scores[queries.span(query)]))
        relevant = np.flatnonzero(labels[order][:cutoff] > 0)
        if relevant.any():
            found[query] = 1.0 / (1 + relevant[0])
    return found


def repaired_profiles(fold: Fold, labels: Indices, count: int, learner: LambdaMart, seed: int) -> Vector:
    """Return ``[n_queries, 8 * count]`` how well each cluster's model ranks queries that it has not learned from."""
    queries = fold.train
    scores = np.empty((count, queries.n_docs))
    for part in folds_of(len(queries), _PARTS, seed):
        taught = labels.copy()
        taught[part] = -1
        rows, left_out = np.isin(queries.query_of, part), queries.select(part)
        for number, model in enumerate(_models(fold, taught, count, learner)):
            scores[number, rows] = scored_by(model, left_out)
    judgements = Judgements(queries.labels, queries.offsets)
    return np.column_stack([profile_of(judgements, one) for one in scores])


def top_documents(queries: QuerySet, feature: int) -> VectorPoints:
    """Return the mean of each query's ten documents in which a feature is largest."""
    values = np.zeros((len(queries), queries.n_features), np.float32)
    for query in range(len(queries)):
        documents = queries.documents_of(query)
        if len(documents):
            first = np.argsort(-documents[:, feature], kind="stable")[:_TOP]
            values[query] = documents[first].mean(axis=0, dtype=np.float64)
    return VectorPoints(values, queries.lengths > 0)


def scored_by(scorer: Scorer, queries: QuerySet) -> Vector:
    """Return ``[n_docs]`` the scores of a scorer of raw values."""
    return scores_of(scorer, Lesson(queries, blocks="raw", widths={"raw": queries.n_features}))


def _adapted(fold: Fold, labels: Indices, count: int, learner: LambdaMart, *, standard: bool) -> Adapted:
    feature, _, _ = best_feature(fold.train, "ndcg@5", signs=(1.0,))
    fit = _multinomial if standard else _one_against_the_rest
    predict = fit(top_documents(fold.train, feature), labels, count)
    return Adapted(labels, _models(fold, labels, count, learner), feature, predict, standard)


def _multinomial(points: VectorPoints, labels: Indices, count: int) -> Callable[[Matrix], Vector]:
    known = VectorPoints(points.values, points.known & (labels >= 0))
    weights, intercepts = fit_classifier(known, labels, count, 1.0)

    def predict(asked: Matrix) -> Vector:
        logits = asked.astype(np.float64) @ weights.T + intercepts
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)

    return predict


def _one_against_the_rest(points: VectorPoints, labels: Indices, count: int) -> Callable[[Matrix], Vector]:
    """Return what scikit-learn 0.20's logistic regression predicts, whose defaults the notebooks use."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    known, taught = labels >= 0, np.unique(labels[labels >= 0])
    model = None
    if len(taught) > 1:
        model = OneVsRestClassifier(LogisticRegression(C=1.0, solver="liblinear", random_state=0))
        model.fit(points.values[known].astype(np.float64), labels[known])

    def predict(asked: Matrix) -> Vector:
        shares = np.zeros((len(asked), count))
        shares[:, taught] = 1.0 if model is None else model.predict_proba(asked.astype(np.float64))
        return shares

    return predict


def _models(fold: Fold, labels: Indices, count: int, learner: LambdaMart) -> list[Scorer]:
    """Return the model of each cluster; one whose queries teach nothing has the model of all clusters' queries."""
    models: list[Scorer | None] = []
    for number in range(count):
        try:
            members = np.flatnonzero(labels == number)
            models.append(
                learner.fit(_lesson(fold.train.select(members), fold, learner)) if len(members) else None
            )
        except InvalidData:
            models.append(None)
    if None not in models:
        return [model for model in models if model is not None]
    of_all = learner.fit(_lesson(fold.train.select(np.flatnonzero(labels >= 0)), fold, learner))
    return [of_all if model is None else model for model in models]


def _lesson(queries: QuerySet, fold: Fold, learner: LambdaMart) -> Lesson:
    stops = learner.early_stopping_rounds > 0
    return Lesson(queries, validation=fold.validation if stops else None, blocks=learner.blocks)


def _clustered(points: Vector, clusters: Clusters, count: int) -> Indices:
    vectors = points.astype(np.float32)
    return kmeans(vectors, count, 0) if clusters == "kmeans" else ward(vectors, count)


def _of_known(points: Vector, known: Bits, clusters: Clusters, count: int) -> Indices:
    labels = np.full(len(points), -1, np.int64)
    labels[known] = _clustered(points[known], clusters, count)
    return labels


def _with_relevant(queries: QuerySet) -> Bits:
    found = np.bincount(queries.query_of[queries.labels > 0], minlength=len(queries))
    return np.asarray(found > 0, np.bool_)
