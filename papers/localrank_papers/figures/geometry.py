"""A tree of merged clusters; all of its cuts share 2n - 1 clusters.

Leaf ``i`` is node ``i``; merge ``i`` makes node ``n + i``. A cut into ``C`` clusters takes the nodes that the first ``n - C`` merges
leave. So the models of every number of clusters from 1 to ``n`` are those of 2n - 1 nodes, each learned once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from localrank.features.contract import FeatureContract
from localrank.features.principal import principal_variances
from localrank.points.signature import PcaRepresentation, Signatures, choose_components
from localrank.points.similarity import all_pairs, one_to_many
from localrank.points.vectors import VectorPoints
from localrank_papers.figures.fits import Fit
from localrank_training.data.clouds import Clouds
from localrank_training.grouping.clustering import merges
from localrank_training.grouping.representations import make_representation, relevant_means
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localrank.arrays import Indices, Vector
    from localrank.points.representation import Points, Representation
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_training.data.queries import QuerySet
    from localrank_training.grouping.clustering import Link


@dataclass(frozen=True, eq=False)
class Dendrogram:
    """Merges of training queries.

    Attributes:
        merges: ``[n - 1, 4]``, as scipy's linkage returns them.
        queries: ``[n]`` which training query each leaf is.
    """

    merges: Vector
    queries: Indices

    def __len__(self) -> int:
        """Return the number of leaves."""
        return len(self.queries)

    @property
    def root(self) -> int:
        """The node of all queries."""
        return 2 * len(self) - 2

    def cut(self, clusters: int) -> Indices:
        """Return ``[n]`` the node that each leaf is in when there are this many clusters."""
        first_beyond = 2 * len(self) - clusters
        nodes = np.arange(len(self))
        while True:
            above = self._parents[nodes]
            rising = above < first_beyond
            if not rising.any():
                return nodes
            nodes = np.where(rising, above, nodes)

    def nodes_of(self, cuts: Iterable[int]) -> Indices:
        """Return all nodes of several cuts, each once."""
        return np.unique(np.concatenate([self.cut(clusters) for clusters in cuts]))

    def members(self, node: int) -> Indices:
        """Return the training queries of a node, in their order."""
        leaves = [node]
        found = []
        while leaves:
            one = leaves.pop()
            if one < len(self):
                found.append(int(self.queries[one]))
            else:
                leaves += [int(child) for child in self.merges[one - len(self), :2]]
        return np.sort(np.array(found, np.int64))

    def shuffled(self, seed: int, draw: int) -> Dendrogram:
        """Return the same tree over shuffled queries: every cut has clusters of the same sizes, at random."""
        return replace(self, queries=np.random.default_rng([seed, draw]).permutation(self.queries))

    def leaf_of(self, n_queries: int) -> Indices:
        """Return ``[n_queries]`` the leaf of each training query; -1 if it has none."""
        found = np.full(n_queries, -1)
        found[self.queries] = np.arange(len(self))
        return found

    @cached_property
    def _parents(self) -> Indices:
        parents = np.full(2 * len(self) - 1, np.iinfo(np.int64).max)
        children = self.merges[:, :2].astype(np.int64)
        for side in children.T:
            parents[side] = len(self) + np.arange(len(children))
        return parents


# ------------------------------------------------------------------------------------------------
# Training queries described by their documents and labels, as LocalRank's conclusion proposes for clustering.
#
# A new query has no labels, so these are for clustering training queries only.

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


# ------------------------------------------------------------------------------------------------
# How similar the queries of a fold are: the dendrogram of its training queries, and the similarity of all other
# queries to these.


@dataclass(frozen=True, slots=True)
class Geometry:
    """What makes queries alike.

    Attributes:
        representation: as in ``[representation]`` of a configuration.
        most: directions at most, of ``pca``.
        similarity: as `localrank.points.similarity` call it.
        link: of the dendrogram.
        own_components: as many directions for each query as cover the share, instead of as many for all (of ``pca``).
        clustered_by: the points by which training queries are clustered; all except ``routing`` use labels
            (`labelled`). Queries find their cluster by the representation in any case, since a new query has no labels.
    """

    representation: str = "pca"
    share: float = 0.8
    shrink: float = 0.5
    most: int = 8
    similarity: str = "eq5"
    link: Link = "complete"
    own_components: bool = False
    clustered_by: ClusteredBy = "routing"

    def fit(self, fold: Fold) -> Fit:
        """Return the fit of one fold; `Nearness.of` reads it."""
        return Fit(nearness, fold, asdict(self))

    def points(self, fold: Fold) -> tuple[Points, Points, Points]:
        """Return the points of training, validation and test queries."""
        train, validation, test = self.points_of(fold, fold.train, fold.validation, fold.test)
        return train, validation, test

    def points_of(self, fold: Fold, *parts: QuerySet) -> list[Points]:
        """Return the points of some queries; the representation learns only from the training queries."""
        contract = contract_of(fold)
        clouds = [Clouds(part, contract) for part in parts]
        if self.own_components:
            own = [_own(one, self.share) for one in clouds]
            widest = max(one.directions.shape[1] for one in own)
            return [_widened(one, widest) for one in own]
        representation = self.representing(Clouds(fold.train, contract))
        return [representation.of_all(one) for one in clouds]

    def representing(self, train: Clouds) -> Representation:
        """Return the representation that makes the points."""
        named = ("share", "shrink", "most")
        method = {"method": self.representation, **{name: getattr(self, name) for name in named}}
        config = TrainingConfig.from_tables(
            {"representation": method, "similarity": _similarity(self), "routing": {"method": "exact"}}
        )
        return make_representation(train, config)


def _similarity(geometry: Geometry) -> dict[str, str]:
    if geometry.representation == "pca":
        return {"method": "pca_cosine", "form": geometry.similarity}
    return {"method": geometry.similarity}


def contract_of(fold: Fold) -> FeatureContract:
    """Return the contract of a fold's features: as they are if they lie in [0, 1], else scaled within every query."""
    documents = fold.train.documents
    published = bool(len(documents)) and np.nanmin(documents) >= 0 and np.nanmax(documents) <= 1
    return FeatureContract.learn(
        documents,
        fold.train.lengths.tolist(),
        names=fold.train.feature_names,
        normalise="none" if published else "query_minmax",
    )


def _own(clouds: Clouds, share: float) -> Signatures:
    """Sign each query with as many directions as cover the share of its own variance (LocalRank, section 4.1.2)."""
    spectra = [principal_variances(cloud.normalised) for cloud in clouds]
    wanted = [int(np.argmax(np.cumsum(one) >= share * one.sum())) + 1 if len(one) else 0 for one in spectra]
    signatures = PcaRepresentation(max(*wanted, 1)).of_all(clouds)
    ranks = np.minimum(signatures.ranks, wanted)
    beyond = np.arange(signatures.directions.shape[1]) >= ranks[:, None]
    return replace(
        signatures,
        directions=np.where(beyond[..., None], np.float32(0), signatures.directions),
        eigenvalues=np.where(beyond, 0.0, signatures.eigenvalues),
        ranks=ranks,
    )


def tree_of(fold: Fold, **settings: Any) -> Dendrogram:
    """Return the dendrogram of a fold's training queries, without comparing any other query."""
    geometry = Geometry(**settings)
    return _tree(fold, geometry, geometry.points_of(fold, fold.train)[0])


def nearness(fold: Fold, **settings: Any) -> Arrays:
    """Compare all queries of a fold with its training queries."""
    geometry = Geometry(**settings)
    train, validation, test = geometry.points(fold)
    tree = _tree(fold, geometry, train)
    among = train.take(tree.queries)
    found = {
        "queries": tree.queries,
        "merges": tree.merges,
        "train": all_pairs(among, geometry.similarity),
    }
    for name, points in (("validation", validation), ("test", test)):
        similarities = np.zeros((len(points), len(among)))
        for query in np.flatnonzero(points.known).tolist():
            similarities[query] = one_to_many(points.of(query), among, geometry.similarity)
        found[name], found[f"{name} known"] = similarities, np.asarray(points.known)
    return found


def _tree(fold: Fold, geometry: Geometry, train: Points) -> Dendrogram:
    if geometry.clustered_by == "routing":
        known = np.flatnonzero(train.known)
        return Dendrogram(merges(train.take(known), geometry.similarity, geometry.link), known)
    by, similarity = labelled_points(Clouds(fold.train, contract_of(fold)), geometry.clustered_by)
    known = np.flatnonzero(np.asarray(train.known) & np.asarray(by.known))
    return Dendrogram(merges(by.take(known), similarity, geometry.link), known)


def _widened(signatures: Signatures, width: int) -> Signatures:
    more = width - signatures.directions.shape[1]
    return replace(
        signatures,
        directions=np.pad(signatures.directions, ((0, 0), (0, more), (0, 0))),
        eigenvalues=np.pad(signatures.eigenvalues, ((0, 0), (0, more))),
    )


@dataclass(frozen=True, eq=False)
class Nearness:
    """What `nearness` found in one fold.

    Attributes:
        tree: of the training queries.
        similarities: by part (``validation``, ``test``): ``[n_queries, n]`` of every query to the tree's queries.
        known: by part: ``[n_queries]`` which queries can be compared; the others go to the global model.
        among: ``[n, n]`` similarities of the tree's queries.
    """

    tree: Dendrogram
    similarities: dict[str, Vector]
    known: dict[str, Vector]
    among: Vector

    @classmethod
    def of(cls, arrays: Arrays) -> Nearness:
        """Read the result of the fit."""
        return cls(
            Dendrogram(arrays["merges"], arrays["queries"]),
            {part: arrays[part] for part in ("validation", "test")},
            {part: arrays[f"{part} known"] for part in ("validation", "test")},
            arrays["train"],
        )
