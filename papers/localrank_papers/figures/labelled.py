"""Training queries described by their documents and labels, as LocalRank's conclusion proposes for clustering.

A new query has no labels, so these are for clustering training queries only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from localrank.principal import principal_variances
from localrank.signature import PcaRepresentation, choose_components
from localrank.vectors import VectorPoints
from localrank_training.representations import relevant_means

if TYPE_CHECKING:
    from localrank.representation import Points
    from localrank_training.clouds import Clouds

#: The principal directions of relevant documents, as equation 5 compares them; the direction from the mean of the other documents
#: to the mean of the relevant ones; the mean of the relevant ones.
ClusteredBy: TypeAlias = Literal["routing", "relevant_pca", "relevant_direction", "relevant_mean"]


def labelled_points(clouds: Clouds, by: ClusteredBy) -> tuple[Points, str]:
    """Return the points of training queries, and the similarity that compares them."""
    if by == "relevant_pca":
        relevant = [
            cloud.normalised[clouds.queries.labels_of(query) > 0] for query, cloud in enumerate(clouds)
        ]
        representation = PcaRepresentation(choose_components([principal_variances(one) for one in relevant]))
        return representation.sign_all(relevant), "eq5"
    return (relevant_means(clouds) if by == "relevant_mean" else relevant_directions(clouds)), "euclidean"


def relevant_directions(clouds: Clouds) -> VectorPoints:
    """Return unit vectors from the mean of the documents with label 0 to the mean of the others; none if one of the two is missing."""
    found = np.zeros((len(clouds), clouds.contract.n_features), np.float32)
    known = np.zeros(len(clouds), np.bool_)
    for query, cloud in enumerate(clouds):
        relevant = clouds.queries.labels_of(query) > 0
        if relevant.any() and not relevant.all():
            documents = cloud.normalised.astype(np.float64)
            apart = documents[relevant].mean(axis=0) - documents[~relevant].mean(axis=0)
            length = float(np.linalg.norm(apart))
            if length > 0:
                found[query], known[query] = apart / length, True
    return VectorPoints(found, known)
