"""Representations as training makes them, and points of training queries that need their labels.

Points that need labels are only for clustering, never for routing, because a new query has no labels.

How well one ranking does on every query, by eight metrics: the profile of adaptive training [kuzi2019; cremers2020].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidConfiguration, did_you_mean
from localrank.features.principal import principal_variances
from localrank.metrics import Judgements
from localrank.points.gaussian import GaussianRepresentation
from localrank.points.of_query import PcaQueryRepresentation, QueryRepresentation
from localrank.points.signature import PcaRepresentation, choose_components
from localrank.points.vectors import (
    MeanRepresentation,
    SkewRepresentation,
    TopDocumentsRepresentation,
    TopScoresPcaRepresentation,
    VarianceRepresentation,
    VectorPoints,
    top_scores,
)
from localrank_training.learners.best_feature import best_feature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Bits, Indices, Vector
    from localrank.points.representation import Representation
    from localrank_training.data.clouds import Clouds
    from localrank_training.settings.config import TrainingConfig
    from localrank_training.settings.steps import RepresentationSettings

#: The metrics of a profile (Cremers et al., section 3).
PROFILE = ("ndcg@3", "ndcg@5", "ndcg@10", "map@100", "mrr@100", "p@3", "p@5", "p@10")


def profile_of(judgements: Judgements, scores: Vector) -> Vector:
    """Return ``[n_queries, 8]`` the metrics of one ranking; documents of equal scores are ranked worst first."""
    measured = judgements.measure(scores, PROFILE, ties="pessimistic")
    return np.column_stack([one.per_query for one in measured])


#: Share of the mean variance that every feature gets in the pooled covariance, so that features that never differ within a
#: query, or that follow from others, leave it positive definite.
_FLOOR = 1e-3


def make_representation(clouds: Clouds, config: TrainingConfig) -> Representation:
    """Make the representation; what it needs to know of the training queries is learned here.

    Raises:
        InvalidConfiguration: it names a feature that there is not.
    """
    settings = config.representation
    match settings.method:
        case "mean":
            return MeanRepresentation()
        case "variance":
            return VarianceRepresentation()
        case "skew":
            return SkewRepresentation()
        case "gaussian":
            return GaussianRepresentation(pooled_covariance(clouds), settings.shrink)
        case "top_documents":
            return _top_documents(clouds, settings, config.selection.metric)
        case "top_scores_pca":
            return _top_scores_pca(clouds, settings)
        case "query":
            return QueryRepresentation(*_of_query(clouds, settings.features))
        case "pca+query":
            return PcaQueryRepresentation(
                *_of_query(clouds, settings.features), _components(clouds, settings)
            )
    return PcaRepresentation(_components(clouds, settings))


def _components(clouds: Clouds, settings: RepresentationSettings) -> int:
    if settings.components is not None:
        return settings.components
    spectra = [principal_variances(cloud.normalised) for cloud in clouds]
    return choose_components(spectra, settings.share, settings.most)


def _of_query(clouds: Clouds, wanted: Sequence[str]) -> tuple[Indices, Indices, Vector, Vector, int]:
    """Return positions, numbers of codes, means and deviations of features of the query, and the width of a point."""
    features = clouds.contract.features
    names = [one.name for one in features if one.scope == "query"]
    if unknown := [name for name in wanted if name not in names]:
        raise InvalidConfiguration(
            f"[representation] features: no feature of the query {unknown[0]!r}{did_you_mean(unknown[0], names)}"
        )
    if not names:
        raise InvalidConfiguration(
            "[representation] method: expected features of the query, found none; name them with --query-feature"
        )
    columns = np.array([at for at, one in enumerate(features) if one.name in (wanted or names)], np.int64)
    codes = np.array(
        [features[at].absent + 1 if features[at].kind == "category" else 0 for at in columns], np.int64
    )
    rows = [cloud.raw[0, columns] for cloud in clouds if len(cloud)]
    values = np.ma.masked_invalid(np.array(rows, np.float64).reshape(-1, len(columns)))
    centre, scale = values.mean(axis=0).filled(0.0), values.std(axis=0).filled(0.0)
    centre, scale = np.where(codes > 0, 0.0, centre), np.where((codes > 0) | (scale <= 0), 1.0, scale)
    return columns, codes, centre, scale, int(np.maximum(codes, 1).sum())


def pooled_covariance(clouds: Clouds) -> Vector:
    """Return ``[n_features, n_features]`` the covariance of all documents around the mean of their own query."""
    n_features = clouds.contract.n_columns
    total, count = np.zeros((n_features, n_features)), 0
    for cloud in clouds:
        documents = cloud.normalised.astype(np.float64)
        if len(documents):
            documents -= documents.mean(axis=0)
            total += documents.T @ documents
            count += len(documents)
    total /= max(count, 1)
    floor = _FLOOR * np.trace(total) / n_features
    total[np.diag_indices(n_features)] += floor if floor > 0 else 1.0
    return total


def _top_documents(
    clouds: Clouds, settings: RepresentationSettings, metric: str
) -> TopDocumentsRepresentation:
    if settings.by == "best":
        feature, sign, _ = best_feature(clouds.seen_as("normalised"), metric)
        return TopDocumentsRepresentation(feature, settings.documents, "largest" if sign > 0 else "smallest")
    names = clouds.contract.names
    # A name may begin with a minus itself.
    smallest = settings.by not in names and settings.by.startswith("-")
    name = settings.by[1:] if smallest else settings.by
    if name not in names:
        raise InvalidConfiguration(
            f"[representation] by: no feature {name!r}{did_you_mean(name, names)} (expected 'best' or names of features, "
            f"such as {', '.join(map(repr, names[:3]))})"
        )
    order = "smallest" if smallest else "largest"
    return TopDocumentsRepresentation(clouds.contract.positions[name], settings.documents, order)


def _top_scores_pca(clouds: Clouds, settings: RepresentationSettings) -> TopScoresPcaRepresentation:
    rows = [top_scores(cloud.normalised, settings.scores).astype(np.float64) for cloud in clouds]
    stacked = np.concatenate([*rows, np.zeros((0, clouds.contract.n_columns))])
    centre = stacked.mean(axis=0) if len(stacked) else np.zeros(clouds.contract.n_columns)
    stacked -= centre
    values, columns = np.linalg.eigh(stacked.T @ stacked)
    values, axes = np.maximum(values[::-1], 0.0), columns.T[::-1]
    count = settings.components
    if count is None:
        covered = np.cumsum(values) >= settings.share * values.sum() * (1 - 1e-12)
        count = min(int(np.argmax(covered)) + 1, settings.most)
    axes = axes[: min(count, len(axes))]
    # The sign of a direction is arbitrary, so the largest number of each is made positive.
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    axes = np.ascontiguousarray(axes * np.where(largest < 0, -1.0, 1.0)[:, None])
    return TopScoresPcaRepresentation(centre, axes, settings.scores)


def labelled_points(clouds: Clouds, representation: str) -> VectorPoints:
    """Return the points that queries are clustered by."""
    return relevant_means(clouds) if representation == "relevant_mean" else performance_profiles(clouds)


def relevant_means(clouds: Clouds) -> VectorPoints:
    """Return the mean of each query's normalised documents with a label above 0; a query without any is not known."""
    means = np.zeros((len(clouds), clouds.contract.n_columns), np.float32)
    known = _with_relevant(clouds)
    for query, cloud in enumerate(clouds):
        if known[query]:
            relevant = clouds.queries.labels_of(query) > 0
            means[query] = cloud.normalised[relevant].mean(axis=0, dtype=np.float64)
    return VectorPoints(means, known)


def performance_profiles(clouds: Clouds) -> VectorPoints:
    """Return how well each feature alone ranks each query, ``[n_queries, 16 * n_features]``.

    For each feature the eight metrics of a profile by large values, then by small ones. Documents of equal value are
    ranked worst first. A query with nothing relevant is not known.
    """
    seen = clouds.seen_as("normalised")
    judgements = Judgements(seen.labels, seen.offsets)
    figures = [
        profile_of(judgements, sign * seen.documents[:, feature].astype(np.float64))
        for feature in range(seen.n_features)
        for sign in (1.0, -1.0)
    ]
    return VectorPoints(np.column_stack(figures).astype(np.float32), _with_relevant(clouds))


def _with_relevant(clouds: Clouds) -> Bits:
    queries = clouds.queries
    return np.array([bool((queries.labels_of(query) > 0).any()) for query in range(len(queries))], np.bool_)
