"""Kinds that a feature of the query names: one cluster for each of its values.

A value of fewer queries than `ClusteringSettings.least` has no cluster, and neither has a missing one: these queries teach only
the global scorer, which also answers values that training did not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData, did_you_mean
from localrank.points.of_query import KindRepresentation
from localrank.routing.routers import KindRouter
from localrank_training.grouping.clustering import NO_CLUSTER, Clustering, Weighted
from localrank_training.learners.judged import differs_within

if TYPE_CHECKING:
    from localrank.points.vectors import VectorPoints
    from localrank_training.data.clouds import Clouds

#: The way to part the queries that needs no feature of the query: by the representation of the documents.
SHAPE = "shape"


def kinds_of(
    clouds: Clouds, column: str, least: int
) -> tuple[KindRepresentation, VectorPoints, Clustering, KindRouter]:
    """Cluster the queries by the value of a feature, the most frequent value first.

    Args:
        clouds: the training queries.
        column: the feature's name.
        least: smallest number of queries of a cluster.

    Raises:
        InvalidConfiguration: there is no such feature.
        InvalidData: a query has two values of it, or no value has enough queries.
    """
    names = clouds.contract.names
    if column not in names:
        raise InvalidConfiguration(f"[clustering] column: no feature {column!r}{did_you_mean(column, names)}")
    position = names.index(column)
    told = np.nan_to_num(clouds.queries.documents[:, position], nan=np.inf)
    if (several := differs_within(told, clouds.queries)).any():
        query = clouds.queries.query_ids[int(several.argmax())]
        raise InvalidData(
            f"[clustering] column: expected one value of {column!r} in every query, found several in query {query!r}"
        )
    representation = KindRepresentation(position)
    points = representation.of_all(clouds)
    values = points.values[:, 0]
    found, first, counts = np.unique(values[points.known], return_index=True, return_counts=True)
    enough = np.lexsort((first, -counts))[: np.count_nonzero(counts >= least)]
    if not len(enough):
        raise InvalidData(
            f"[clustering] column: expected a value of {column!r} in at least {least} queries, found "
            f"{counts.max(initial=0)} queries of the most frequent one"
        )
    labels = np.full(len(points), NO_CLUSTER, np.int64)
    for number, kind in enumerate(found[enough]):
        labels[points.known & (values == kind)] = number
    members = [np.flatnonzero(labels == number) for number in range(len(enough))]
    clustering = Clustering(labels, tuple(map(Weighted, members)), np.array([one[0] for one in members]))
    return representation, points, clustering, KindRouter(found[enough].astype(np.float32))


def value_names(clouds: Clouds, column: str, router: KindRouter) -> tuple[str, ...]:
    """Return the value of each cluster as text."""
    feature = clouds.contract.features[clouds.contract.names.index(column)]
    return tuple(
        str(feature.value_of(value)) if feature.kind == "category" else f"{value:g}"
        for value in router.values.tolist()
    )
