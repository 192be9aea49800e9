"""The router over the training queries, as the configuration asks for it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.points.vectors import VectorPoints
from localrank.routing.router import ExactRouter
from localrank.routing.routers import (
    LARGEST,
    CentroidRouter,
    ClassifierRouter,
    FusionRouter,
    LshRouter,
    MedoidRouter,
    OverlapRouter,
)
from localrank.routing.search import HyperplaneTables, automatic_planes, draw_planes
from localrank_training.learners.notes import note

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.points.representation import Points
    from localrank.points.signature import Signatures
    from localrank.routing.router import Router
    from localrank_training.grouping.clustering import Clustering
    from localrank_training.settings.config import TrainingConfig

#: Steps of the logistic regression at most; it stops long before, unless C is very large.
_STEPS = 10_000
#: The centroid of a cluster without queries: far from everything.
_FAR = float(np.finfo(np.float32).max)
#: The intercept of a cluster that no query teaches: its probability is zero.
_NEVER = -1e6


def make_router(points: Points, clustering: Clustering, config: TrainingConfig) -> Router:
    """Make the router over the training queries."""
    settings, similarity = config.routing, config.similarity.name
    if settings.method == "medoid":
        return MedoidRouter(points.take(clustering.prototypes), similarity)
    clustered = np.flatnonzero(clustering.labels >= 0)
    known, theirs = points.take(clustered), clustering.labels[clustered]
    match settings.method:
        case "exact":
            return ExactRouter(known, theirs, similarity, settings.member)
        case "overlap":
            neighbours = np.stack([clustering.lessons[cluster].queries for cluster in theirs])
            return OverlapRouter(known, theirs, np.searchsorted(clustered, neighbours), similarity)
        case "centroid":
            means = centroids_of(cast("VectorPoints", known), theirs, len(clustering))
            return CentroidRouter(means, similarity)
        case "classifier" | "fusion":
            learned = fit_classifier(cast("VectorPoints", known), theirs, len(clustering), settings.C)
            if settings.method == "classifier":
                return ClassifierRouter(*learned)
            return FusionRouter(*learned, settings.scores)
    exemplars = np.searchsorted(clustered, clustering.prototypes)
    return _tables(cast("Signatures", known), theirs, exemplars, config)


def router_of_part(
    router: Router, points: Points, clustering: Clustering, known: Indices, config: TrainingConfig
) -> Router | None:
    """Return the router that some training queries make, in the same clusters; ``None`` if it would be the same."""
    if isinstance(router, CentroidRouter | ClassifierRouter | FusionRouter):
        labels = np.full(len(points), -1)
        labels[known] = clustering.labels[known]
        return make_router(points, replace(clustering, labels=labels), config)
    return router.knowing(points.take(known), clustering.labels[known])


def centroids_of(points: VectorPoints, clusters: Indices, n_clusters: int) -> VectorPoints:
    """Return the mean vector of each cluster. If a cluster has no query that can be compared, its vector is far from
    all.
    """
    values = np.full((n_clusters, points.values.shape[1]), _FAR, np.float32)
    known = np.zeros(n_clusters, np.bool_)
    for cluster in range(n_clusters):
        members = points.values[(clusters == cluster) & points.known]
        known[cluster] = len(members) > 0
        if known[cluster]:
            values[cluster] = members.mean(axis=0, dtype=np.float64)
    return VectorPoints(values, known)


def fit_classifier(
    points: VectorPoints, clusters: Indices, n_clusters: int, strength: float
) -> tuple[Vector, Vector]:
    """Learn to predict the cluster of a vector by multinomial logistic regression, with scikit-learn.

    The columns are standardised first, and the weights returned are those of the columns as they were.

    Args:
        points: of the training queries.
        clusters: ``[n_queries]`` theirs.
        n_clusters: of the model.
        strength: scikit-learn's ``C``.

    Returns:
        Weights ``[n_clusters, width]`` and intercepts ``[n_clusters]`` of a softmax.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    vectors, theirs = points.values[points.known].astype(np.float64), clusters[points.known]
    weights = np.zeros((n_clusters, vectors.shape[1]))
    intercepts = np.full(n_clusters, float(_NEVER))
    taught = np.unique(theirs)
    if len(taught) < 2:
        intercepts[taught] = 0.0
        return weights, intercepts
    centre, scale = vectors.mean(axis=0), vectors.std(axis=0)
    # A column of one value says nothing.
    scale = np.where(scale > 1e-12 * np.abs(centre), scale, np.inf)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = LogisticRegression(C=strength, max_iter=_STEPS)
        try:
            model.fit((vectors - centre) / scale, theirs)
        except ConvergenceWarning:
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit((vectors - centre) / scale, theirs)
            note(
                "routing",
                f"the classifier did not converge in {_STEPS} steps; set a smaller [routing] C",
            )
    found, offsets = model.coef_ / scale, model.intercept_ - (model.coef_ / scale) @ centre
    if len(taught) == 2:
        # For two classes there is one row, for the second against the first.
        found, offsets = np.stack([np.zeros_like(found[0]), found[0]]), np.array([0.0, offsets[0]])
    weights[taught], intercepts[taught] = found, offsets
    return np.clip(weights, -LARGEST, LARGEST), np.clip(intercepts, -LARGEST, LARGEST)


def _tables(
    signatures: Signatures, clusters: Indices, exemplars: Indices, config: TrainingConfig
) -> LshRouter:
    settings, planes = config.routing, config.routing.planes
    if planes == "auto":
        planes = automatic_planes(len(signatures))
    drawn = draw_planes(signatures.directions.shape[2], settings.tables, planes, config.seed)
    return LshRouter(
        signatures,
        clusters,
        HyperplaneTables.build(signatures, drawn, config.seed),
        rerank=settings.rerank,
        similarity=config.similarity.name,
        cap=settings.cap,
        probes=settings.probes,
        exact_below=None if settings.exact_below == "auto" else settings.exact_below,
        exemplars=tuple(exemplars.tolist()),
    )
