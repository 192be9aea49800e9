"""The settings of each step of a training run: one frozen dataclass for one table of TOML.

A setting has its type, its bounds and its meaning here; docs/use/configuration.md is made from them. `check_together`
says which steps can be combined: a representation makes one kind of points, and each class of similarities, routers and
clusterings says which it accepts (`localrank.points.similarity`, `localrank.routing.routers`, `VECTOR_CLUSTERINGS`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping  # noqa: TC003
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from localrank.artifact.parts import REPRESENTATIONS
from localrank.errors import InvalidConfiguration, did_you_mean
from localrank.features.blocks import parse
from localrank.features.columns import portions
from localrank.features.contract import Normalisation  # noqa: TC001
from localrank.features.feature import Missing  # noqa: TC001
from localrank.metrics import Metric
from localrank.points.signature import SIMILARITIES, Similarity
from localrank.points.similarity import MEASURES
from localrank.points.vectors import VectorPoints
from localrank.routing.routers import ROUTERS
from localrank.settings import from_fields, setting, settle
from localrank_training.data.rows import CELLS
from localrank_training.grouping.prototypes import Locality

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from localrank.arrays import Matrix
    from localrank.features.feature import Feature
    from localrank.points.representation import Points
    from localrank_training.settings.config import TrainingConfig

#: Clusterings of vectors by squared Euclidean distance, which mean nothing for other points.
VECTOR_CLUSTERINGS = ("kmeans", "ward", "bisecting_kmeans")
#: Clusterings with one model for each query.
MODEL_PER_QUERY = ("per_query", "knn")
#: Clusterings whose number of clusters nobody sets.
COUNTED = (*MODEL_PER_QUERY, "kind")
#: Routers that predict the cluster. They need several queries of each cluster.
_PREDICTING = ("classifier", "fusion")
#: Routers that take any points, but also need something else.
_SPECIAL = ("global", "overlap", "kind")
#: Representations that need labels.
LABELLED = ("relevant_mean", "performance_profile")
#: The name in ``[contract] missing`` that means all features that the table does not name.
OTHERS = "*"


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """How feature values are prepared before anything uses them."""

    normalise: Normalisation = setting("query_minmax", meaning="the scale of the block `normalised`")
    missing: Missing | Literal["learned"] | Mapping[str, Missing] = setting(
        "learned",
        meaning="what to do with missing values: one policy for all features, or a table with a policy for each "
        f"feature; `{OTHERS}` in the table is all other features (`reject` if left out). `learned` is `nan` for features "
        "with missing values in the training documents (`median` if the learner cannot take them), `reject` for the "
        "others. An absent category is a value of its own",
    )
    constant: float = setting(
        0.0, meaning='the number that replaces a missing value with `missing = "constant"`'
    )

    monotone: Mapping[str, Literal[-1, 1]] | None = setting(
        None,
        meaning="a table of features and directions: of two documents of one list that differ in this feature alone, the one "
        "with the larger value never has the lower score (1), or never the higher one (-1)",
    )

    def directed(self, features: Sequence[Feature]) -> list[Feature]:
        """Return the features with their directions.

        Raises:
            InvalidConfiguration: a direction is for a feature that there is not, for a category, or for one of the query.
        """
        wanted, names = self.monotone or {}, [one.name for one in features]
        for name in wanted:
            if name not in names:
                raise InvalidConfiguration(
                    f"[contract] monotone: no feature {name!r}{did_you_mean(name, names)} (expected names of features, "
                    f"such as {', '.join(map(repr, names[:3]))})"
                )
            known = features[names.index(name)]
            if known.kind == "category" or known.scope == "query":
                found = "a category" if known.kind == "category" else "a feature of the query"
                raise InvalidConfiguration(
                    f"[contract] monotone: expected numbers of documents, found {name!r}, {found}"
                )
        return [dataclasses.replace(one, monotone=wanted.get(one.name, 0)) for one in features]

    def policies(
        self,
        names: Sequence[str],
        documents: Matrix,
        learned: Missing = "nan",
        *,
        looked_up: Container[str] = (),
    ) -> Missing | list[Missing]:
        """Return what a missing value becomes, for all features or for each, given the training documents.

        Args:
            names: of the features.
            documents: NaN is a missing value.
            learned: the policy of ``learned`` for features with missing values.
            looked_up: features from tables, which will not have every document. Without gaps to learn from, a missing value is
                the median: a learner would rank it anywhere.

        Raises:
            InvalidConfiguration: a policy is for a feature that there is not.
        """
        if self.missing == "learned":
            lacks = [np.isnan(documents[rows]).any(axis=0) for rows in portions(documents, CELLS)]
            lacked = np.flatnonzero(np.any(lacks, axis=0))
            return [
                learned if position in lacked else "median" if name in looked_up else "reject"
                for position, name in enumerate(names)
            ]
        if isinstance(self.missing, str):
            return self.missing
        for name in self.missing:
            if name != OTHERS and name not in names:
                raise InvalidConfiguration(
                    f"[contract] missing: no feature {name!r}{did_you_mean(name, names)} (expected names of features, "
                    f"such as {', '.join(map(repr, names[:3]))})"
                )
        return [self.missing.get(name, self.missing.get(OTHERS, "reject")) for name in names]


@dataclass(frozen=True, slots=True)
class RepresentationSettings:
    """How a query is represented when queries are compared."""

    method: Literal[
        "pca",
        "mean",
        "variance",
        "skew",
        "top_documents",
        "top_scores_pca",
        "gaussian",
        "query",
        "pca+query",
    ] = setting(
        "pca",
        meaning="`pca`: the first principal directions of the normalised documents; `mean`, `variance`, "
        "`skew`: these of the documents; `top_documents`: the mean of the top documents by one "
        "feature; `top_scores_pca`: the largest values of each feature, on principal directions; "
        "`gaussian`: the normal distribution of the documents; `query`: the features of the query, numbers "
        "standardised and categories as one number for each value; `pca+query`: these and the subspace of the "
        "first principal directions",
    )
    components: int | None = setting(
        None,
        low=1,
        meaning="P, the number of directions of `pca`, `pca+query` and `top_scores_pca`; by default as many as "
        "cover `share`",
    )
    features: tuple[str, ...] = setting(
        (), meaning="for `query` and `pca+query`: which features of the query; by default all"
    )
    share: float = setting(
        0.8, above=0, high=1, meaning="share of the variance that P directions cover for the median query"
    )
    most: int = setting(8, low=1, meaning="largest P if `share` decides")
    documents: int = setting(10, low=1, meaning="for `top_documents`: number of documents")
    by: str = setting(
        "best",
        meaning="for `top_documents`: the feature whose largest values make the top documents, or its smallest "
        "values if a minus stands before its name; `best` is the feature that ranks the training queries "
        "best",
    )
    scores: int = setting(10, low=1, meaning="for `top_scores_pca`: h, number of values of each feature")
    shrink: float = setting(
        0.5,
        above=0,
        high=1,
        meaning="for `gaussian`: share of the covariance within all training queries that is mixed into the "
        "covariance of a query; without it the matrix could be singular",
    )

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> RepresentationSettings:
        """Check a table; what needs labels cannot represent a new query."""
        if table.get("method") in LABELLED:
            raise InvalidConfiguration(
                f"{where}: method {table['method']!r} needs labels, but a new query has none; set "
                f"[clustering] representation = {table['method']!r} to cluster by it, and another method here "
                "to route by"
            )
        return from_fields(cls, table, where)

    def to_table(self) -> dict[str, Any]:
        """Undo `from_table`; an empty list of features is left out."""
        table = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return table if self.features else {name: table[name] for name in table if name != "features"}


@dataclass(frozen=True, slots=True)
class SimilaritySettings:
    """How alike two queries are."""

    method: Literal["pca_cosine", "euclidean", "kl", "bhattacharyya"] = setting(
        "pca_cosine",
        meaning="`pca_cosine`: cosines of principal directions; `euclidean`: distance of vectors; `kl`, "
        "`bhattacharyya`: symmetric KL divergence or Bhattacharyya kernel of normal distributions",
    )
    form: Similarity = setting(
        "eq5", meaning="equation 5 of the LocalRank paper, or another form of `pca_cosine`"
    )

    @property
    def name(self) -> str:
        """Its name in `localrank.points.similarity`."""
        return self.form if self.method == "pca_cosine" else self.method


@dataclass(frozen=True, slots=True)
class ClusteringSettings:
    """Which training queries share a model."""

    method: Literal[
        "complete_link",
        "kmeans",
        "bisecting_kmeans",
        "ward",
        "prototypes",
        "kind",
        "per_query",
        "knn",
        "none",
        "random",
    ] = setting(
        "complete_link",
        meaning="`kmeans`, `bisecting_kmeans` and `ward` cluster vectors; `prototypes` has models of all queries "
        "in which near queries count more; `kind` has a model for each value of the feature `column`; `per_query` has a model for each query; `knn` has a model for "
        "each query together with its nearest queries; `none` is one global model; `random` is a control "
        "for experiments",
    )
    clusters: int | None = setting(
        None, low=1, meaning="number of clusters; by default chosen from `candidates`. 1 is one global model"
    )
    column: str | None = setting(None, meaning="for `kind`: the feature of the query that names its kind")
    least: int = setting(
        10,
        low=1,
        meaning="for `kind`: a value of fewer queries has no model of its own; the global one answers",
    )
    kinds: bool = setting(
        default=False,
        meaning="for `prototypes`: also try a model for each value of each feature of the query, and prototypes "
        "by the numbers among these features; the best of all ways must pass the gate",
    )
    candidates: tuple[int, ...] = setting(
        (1, 2, 3, 5),
        low=1,
        meaning="numbers of clusters to choose from, together with the settings of the learner",
    )
    continuation: bool = setting(
        default=False, meaning="learn each cluster's scorer towards the global one instead of from nothing"
    )
    sample: int = setting(
        5000,
        low=2,
        meaning="largest number of queries that are clustered; every further query joins the most similar of "
        "these",
    )
    beyond: Literal["join", "farthest"] = setting(
        "join",
        meaning="for `complete_link` with more queries than `sample`: `join` clusters the sample, and every "
        "other query joins the cluster of the most similar sampled query; `farthest` groups every query "
        "with the most similar sampled query and merges the groups by their farthest members, in time "
        "quadratic in all queries",
    )
    representation: Literal["routing", "relevant_mean", "performance_profile"] = setting(
        "routing",
        meaning="how queries are represented for clustering: `routing`: as for routing; `relevant_mean`: the "
        "mean of their relevant documents; `performance_profile`: how well each feature ranks them",
    )

    split: Literal["largest", "scattered"] = setting(
        "scattered",
        meaning="which cluster `bisecting_kmeans` splits next: the one with most queries, or the one with the "
        "largest sum of squared distances to its mean",
    )
    neighbours: int | tuple[int, ...] = setting(
        10,
        low=1,
        meaning="for `knn`: number of queries that each model is learned from, its own query included; a list is "
        "a choice",
    )
    rounds: int = setting(
        0,
        low=0,
        high=10,
        meaning="how often queries are clustered again, by how well the model of each cluster ranks them "
        "(adaptive training)",
    )
    share: float | tuple[float, ...] = setting(
        0.2,
        above=0,
        high=1,
        meaning="for `prototypes`: share of the queries that are near a prototype; a list is a choice",
    )
    shrink: float | tuple[float, ...] = setting(
        0.5,
        low=0,
        meaning="for `prototypes`, and for `kind` with learner `blend`: total weight of all queries in a model, if "
        "the near ones together have weight 1; a list is a choice",
    )
    gate: float = setting(
        0.0,
        low=0,
        meaning="a ranker with local models must be better than the one without them by this many standard errors, "
        "on queries that neither was trained on; else every cluster gets the global scorer. 0 turns this off",
    )

    local: bool = setting(
        default=True,
        meaning="give each cluster its own scorer; if false, queries are still routed, but every cluster gets "
        "the global scorer",
    )

    @property
    def localities(self) -> tuple[Locality, ...]:
        """How local the models of prototypes or kinds may be; empty for other methods."""
        shrinks = self.shrink if isinstance(self.shrink, tuple) else (self.shrink,)
        if self.method == "kind":
            return tuple(Locality(None, shrink) for shrink in shrinks)
        if self.method != "prototypes":
            return ()
        shares = self.share if isinstance(self.share, tuple) else (self.share,)
        return tuple(Locality(share, shrink) for share in shares for shrink in shrinks)

    @property
    def options(self) -> tuple[dict[str, Any], ...]:
        """Every combination of the other settings that may be choices."""
        if self.method == "knn":
            counts = self.neighbours if isinstance(self.neighbours, tuple) else (self.neighbours,)
            return tuple({"neighbours": count} for count in counts)
        if self.method != "prototypes":
            return ({},)
        return tuple(dataclasses.asdict(locality) for locality in self.localities)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of clusters to choose from; none if the queries tell the number."""
        if self.method == "none":
            return (1,)
        if self.method in COUNTED:
            return ()
        return self.candidates if self.clusters is None else (self.clusters,)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> ClusteringSettings:
        """Check a table; ``clusters`` and ``candidates`` exclude each other."""
        if {"clusters", "candidates"} <= table.keys():
            raise InvalidConfiguration(f"{where}: expected clusters or candidates, found both")
        return from_fields(cls, table, where)

    def to_table(self) -> dict[str, Any]:
        """Undo `from_table`; what is about kinds is left out where there are none."""
        unused = {"candidates" if self.clusters is not None else "clusters"}
        if self.method != "kind":
            unused |= {"column"} if self.kinds else {"column", "kinds", "least"}
        return {
            one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name not in unused
        }


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """How a query finds its cluster."""

    method: Literal[
        "lsh", "exact", "medoid", "centroid", "classifier", "fusion", "overlap", "kind", "global"
    ] = setting(
        "lsh",
        meaning="how the cluster of a query is found: `lsh` by hash tables; `exact` by comparing it with all "
        "training queries; `medoid` by one query per cluster; `centroid` by the mean vector of each "
        "cluster; `classifier` by logistic regression; `fusion` adds the scores of all clusters, "
        "weighted by their probability; `overlap` takes the model that shares most neighbours with "
        "the query; `kind` is for clusters by `kind`, `global` for models without clusters",
    )
    tables: int = setting(16, low=1, high=256, meaning="m, number of hash tables per component")
    planes: int | Literal["auto"] = setting(
        "auto", low=1, high=24, meaning="h, number of hyperplanes per table"
    )
    cap: int = setting(64, low=0, meaning="largest number of entries of a bucket that vote; 0 is all of them")
    probes: int = setting(0, low=0, meaning="number of neighbouring buckets that also vote")
    rerank: int = setting(
        256,
        low=0,
        meaning="number of candidates with most votes that are compared exactly; with 0 nothing is compared, and the cluster of "
        "the candidate with most votes answers, as published (Figure 3)",
    )
    exact_below: int | Literal["auto"] = setting(
        "auto",
        low=0,
        meaning="with fewer training queries than this, all are compared; `auto` does so if it is faster",
    )
    member: Literal["nearest", "average", "farthest"] = setting(
        "nearest",
        meaning="for `exact`: the similarity to a cluster is that of its nearest query, the average of its "
        "queries, or that of its farthest query",
    )
    C: float = setting(
        1.0,
        above=0,
        meaning="for `classifier` and `fusion`: weight of the loss against the norm of the weights",
    )
    scores: Literal["standard", "raw"] = setting(
        "standard",
        meaning="for `fusion`: `standard` gives the scores of each cluster mean 0 and deviation 1 within the "
        "list and then adds them; `raw` adds them unchanged",
    )

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> RoutingSettings:
        """Check a table; the oracle is no router that could serve."""
        if table.get("method") == "oracle":
            raise InvalidConfiguration(
                f"{where}: method 'oracle' chooses the cluster that ranks the query best, so it needs labels; "
                "to measure it for any model, use localrank evaluate --oracle"
            )
        return from_fields(cls, table, where)


@dataclass(frozen=True, slots=True)
class ListSettings:
    """Training also on shorter lists of the training queries, like those that an earlier stage lets through."""

    lengths: tuple[int, ...] | None = setting(
        None, low=1, meaning="lengths of the shorter lists, in documents"
    )
    by: str = setting(
        "random",
        meaning="which documents stay: `random` ones, or those with the largest values of a feature, if the "
        "earlier stage cuts by it",
    )


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """How choices are made: on validation queries if given, else by cross-validation over the training queries."""

    metric: str = setting("ndcg@10", check=Metric.parse, meaning="metric that choices maximise")
    folds: int = setting(
        5, low=2, meaning="number of folds of the cross-validation, if there are no validation queries"
    )
    refit: bool = setting(
        default=True,
        meaning="after the choice, train on training and validation queries together; off in the methods of the "
        "papers",
    )

    def __post_init__(self) -> None:
        settle(self)


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Which queries do not get their cluster's scorer, because it is worse for such queries on held-out data."""

    learn: bool = setting(
        default=False,
        meaning="choose thresholds for the similarity, the margin and the distance from the training values; a "
        "blend of the two best clusters, or the global scorer, answers queries beyond them",
    )
    errors: float = setting(
        1.0,
        low=0,
        meaning="a threshold must gain this many standard errors on the held-out queries. The default is low, "
        "because the global scorer is a safe answer. Dozens of thresholds are tried, so one may pass by "
        "chance; with 3 hardly any does",
    )
    least: int = setting(10, low=1, meaning="smallest number of held-out queries beyond a threshold")


def check_together(config: TrainingConfig) -> None:
    """Check a run that has clusters.

    Raises:
        InvalidConfiguration: two steps do not go together.
    """
    made = REPRESENTATIONS[config.representation.method].points
    _check_similarity(config, made)
    check_clustering(config, made)
    _check_routing(config, made)


def _check_similarity(config: TrainingConfig, made: type[Points]) -> None:
    if not issubclass(made, MEASURES[config.similarity.name].takes):
        fitting = dict.fromkeys(
            "pca_cosine" if name in SIMILARITIES else name
            for name, measure in MEASURES.items()
            if issubclass(made, measure.takes)
        )
        raise InvalidConfiguration(
            f"[similarity] method {config.similarity.method!r} does not compare what [representation] method "
            f"{config.representation.method!r} makes; set [similarity] method = {_either(fitting)}"
        )


def check_clustering(config: TrainingConfig, made: type[Points]) -> None:
    """Check the table of the clustering.

    Raises:
        InvalidConfiguration: its settings do not go together, or not with the points.
    """
    settings = config.clustering
    if settings.method in COUNTED and settings.clusters is not None:
        each = "value" if settings.method == "kind" else "query"
        raise InvalidConfiguration(
            f"[clustering] clusters: expected none with method {settings.method!r}, which has a model per {each}, found "
            f"{settings.clusters}"
        )
    if (
        settings.method in VECTOR_CLUSTERINGS
        and settings.representation == "routing"
        and not issubclass(made, VectorPoints)
    ):
        raise InvalidConfiguration(
            f"[clustering] method {settings.method!r} clusters vectors, which [representation] method "
            f"{config.representation.method!r} does not make; set [clustering] representation = 'relevant_mean', or "
            "method = 'complete_link'"
        )
    if settings.rounds and settings.method == "random":
        raise InvalidConfiguration(
            "[clustering] rounds: expected 0 for random clusters, because they do not depend on the scores "
            "of models"
        )
    if settings.rounds and any(
        block.name == "route" for learner in config.learner.candidates() for block in parse(learner.blocks)
    ):
        raise InvalidConfiguration(
            f"[clustering] rounds: learner {config.learner.method!r} uses the block 'route', which exists "
            "only after clustering; set rounds = 0, or use other blocks"
        )


def _check_routing(config: TrainingConfig, made: type[Points]) -> None:
    method = config.routing.method
    takes = ROUTERS[method].takes
    if takes is not None and not issubclass(made, takes):
        others = [name for name, router in ROUTERS.items() if router.takes is None and name not in _SPECIAL]
        raise InvalidConfiguration(
            f"[routing] method {method!r} takes {takes.__name__}, which [representation] method "
            f"{config.representation.method!r} does not make; set [routing] method = {_either(others)}"
        )
    if method in _PREDICTING and config.clustering.method in MODEL_PER_QUERY:
        raise InvalidConfiguration(
            f"[routing] method {method!r} needs several queries in each cluster, but [clustering] method "
            f"{config.clustering.method!r} has a model for each query; set [routing] method = 'exact'"
        )
    if method == "overlap" and config.clustering.method != "knn":
        raise InvalidConfiguration(
            "[routing] method 'overlap' needs models of neighbours: expected [clustering] method 'knn', "
            f"found {config.clustering.method!r}; set [routing] method = 'exact'"
        )
    if config.routing.member != "nearest" and method != "exact":
        raise InvalidConfiguration(
            f"[routing] member {config.routing.member!r} needs all members of a cluster; expected method "
            f"'exact', found {method!r}"
        )


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))
