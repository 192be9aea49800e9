"""Everything that one training run is told: a TOML file, one table per step of the method.

What is left out has its default. A ready configuration (`METHODS`) is a set of tables; a file overrides single settings of
it, ``--learner`` the whole table of the learner, and ``--set`` single settings once more. All of it goes into the
manifest. docs/configuration.md lists every setting; it is made from the definitions here and in `learners`.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib

# `checked` reads annotations when it runs.
from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from localrank.columns import portions
from localrank.contract import Missing, Normalisation  # noqa: TC001
from localrank.errors import InvalidConfiguration
from localrank.metrics import Metric
from localrank.similarity import Similarity  # noqa: TC001
from localrank_training.compatibility import MODEL_PER_QUERY
from localrank_training.compatibility import check as check_steps
from localrank_training.data.rows import CELLS
from localrank_training.learners.settings import LearnerSettings
from localrank_training.prototypes import Locality
from localrank_training.settings import check_bounds, checked, did_you_mean, from_fields, plain, setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Matrix
    from localrank.artifact import Manifest

__all__ = [
    "METHODS",
    "ClusteringSettings",
    "ContractSettings",
    "GuardSettings",
    "LearnerSettings",
    "ListSettings",
    "RepresentationSettings",
    "RoutingSettings",
    "SelectionSettings",
    "SimilaritySettings",
    "TrainingConfig",
    "read_tables",
]

#: Representations that need labels.
LABELLED = ("relevant_mean", "performance_profile")
#: The name in ``[contract] missing`` that stands for all features that have none of their own.
OTHERS = "*"


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """What becomes of feature values before anything looks at them."""

    normalise: Normalisation = setting("query_minmax", meaning="the scale of the block `normalised`")
    missing: Missing | Literal["learned"] | Mapping[str, Missing] = setting(
        "reject",
        meaning="what a missing value becomes: one policy for all features, or a table of one per feature by name, in "
        f"which `{OTHERS}` stands for all others (`reject` if it is left out). `learned` is `nan` for the features that "
        "training documents lack, `reject` for the others",
    )
    constant: float = setting(0.0, meaning='what a missing value becomes with `missing = "constant"`')

    def policies(self, names: Sequence[str], documents: Matrix) -> Missing | list[Missing]:
        """Return what a missing value becomes, for all features or for each, given the training documents.

        Raises:
            InvalidConfiguration: a policy is for a feature that there is not.
        """
        if self.missing == "learned":
            lacks = [np.isnan(documents[rows]).any(axis=0) for rows in portions(documents, CELLS)]
            lacked = np.flatnonzero(np.any(lacks, axis=0))
            return ["nan" if position in lacked else "reject" for position in range(len(names))]
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
    """What stands for a query when queries are compared."""

    method: Literal["pca", "mean", "variance", "skew", "top_documents", "top_scores_pca", "gaussian"] = (
        setting(
            "pca",
            meaning="the first principal directions of the normalised documents; their mean, variance or skew; the mean of the "
            "top documents by one feature; the top scores of every feature by itself, on principal directions; their normal "
            "distribution",
        )
    )
    components: int | None = setting(
        None,
        low=1,
        meaning="P, how many directions of `pca` and `top_scores_pca`; by default as many as cover the share",
    )
    share: float = setting(
        0.8, above=0, high=1, meaning="of the variance that P directions cover for the median query"
    )
    most: int = setting(8, low=1, meaning="upper bound of P if the share decides")
    documents: int = setting(10, low=1, meaning="of `top_documents`: how many")
    by: str = setting(
        "best",
        meaning="of `top_documents`: the feature that is largest in them, or smallest if its name follows a minus; `best` is "
        "the one that ranks the training queries best",
    )
    scores: int = setting(10, low=1, meaning="of `top_scores_pca`: h, how many values of every feature")
    shrink: float = setting(
        0.5,
        above=0,
        high=1,
        meaning="of `gaussian`: share of the covariance within all training queries in that of a query, which alone would "
        "be singular",
    )

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> RepresentationSettings:
        """Check a table; what needs labels cannot represent a new query."""
        if table.get("method") in LABELLED:
            raise InvalidConfiguration(
                f"{where}: method {table['method']!r} needs labels, which a new query does not have; set [clustering] "
                f"representation = {table['method']!r} to cluster by it, and another method here to route by"
            )
        return from_fields(cls, table, where)


@dataclass(frozen=True, slots=True)
class SimilaritySettings:
    """How alike two queries are."""

    method: Literal["pca_cosine", "euclidean", "kl", "bhattacharyya"] = setting(
        "pca_cosine",
        meaning="cosines of principal directions; the distance of vectors; the symmetric KL divergence or the Bhattacharyya "
        "kernel of normal distributions",
    )
    form: Similarity = setting(
        "eq5", meaning="equation 5 of the LocalRank paper, or another form of `pca_cosine`"
    )

    @property
    def name(self) -> str:
        """Its name in `localrank.measures`."""
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
        "per_query",
        "knn",
        "none",
        "random",
    ] = setting(
        "complete_link",
        meaning="`kmeans`, `bisecting_kmeans` and `ward` cluster vectors; `prototypes` lets near queries count more instead "
        "of parting them; `per_query` has a model for every query, `knn` one for every query and its nearest queries; "
        "`none` is one global model, `random` a control for experiments",
    )
    clusters: int | None = setting(
        None, low=1, meaning="how many clusters; by default chosen from the candidates. 1 is one global model"
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
        5000, low=2, meaning="queries that are clustered; further ones join the most similar of these"
    )
    beyond: Literal["join", "farthest"] = setting(
        "join",
        meaning="of `complete_link` with more queries than `sample`: `join` clusters the sample, and every other query joins the "
        "most similar of it; `farthest` links what has joined by the farthest members, in time quadratic in all queries",
    )
    representation: Literal["routing", "relevant_mean", "performance_profile"] = setting(
        "routing",
        meaning="what queries are clustered by: the points that are routed, the mean of their relevant documents, or how well "
        "each feature ranks them",
    )

    split: Literal["largest", "scattered"] = setting(
        "scattered",
        meaning="which cluster `bisecting_kmeans` splits next: that of most queries, or of the largest sum of squared "
        "distances to its mean",
    )
    neighbours: int | tuple[int, ...] = setting(
        10,
        low=1,
        meaning="queries that a model of `knn` is learned from, its own query among them; a list is a choice",
    )
    rounds: int = setting(
        0,
        low=0,
        high=10,
        meaning="times that queries are clustered anew, by how well each cluster's model ranks them (adaptive training)",
    )
    share: float | tuple[float, ...] = setting(
        0.2, above=0, high=1, meaning="of the queries that are near a prototype; a list is a choice"
    )
    shrink: float | tuple[float, ...] = setting(
        0.5,
        low=0,
        meaning="how much all queries count for a prototype's model, against 1 for the near ones; a list is a choice",
    )
    gate: float = setting(
        0.0,
        low=0,
        meaning="standard errors by which local models must be better than the global one on queries they have not learned "
        "from; else every cluster has the global scorer. 0 does not ask",
    )

    local: bool = setting(
        default=True,
        meaning="give clusters scorers of their own; else queries are routed, and every cluster has the global scorer",
    )

    @property
    def localities(self) -> tuple[Locality, ...]:
        """How local the models of prototypes may be; empty for other methods."""
        if self.method != "prototypes":
            return ()
        shares = self.share if isinstance(self.share, tuple) else (self.share,)
        shrinks = self.shrink if isinstance(self.shrink, tuple) else (self.shrink,)
        return tuple(Locality(share, shrink) for share in shares for shrink in shrinks)

    @property
    def options(self) -> tuple[dict[str, Any], ...]:
        """Every combination of the other settings that may be choices."""
        if self.method == "knn":
            counts = self.neighbours if isinstance(self.neighbours, tuple) else (self.neighbours,)
            return tuple({"neighbours": count} for count in counts)
        return tuple(dataclasses.asdict(locality) for locality in self.localities) or ({},)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of clusters to choose from; none if there are as many models as queries."""
        if self.method == "none":
            return (1,)
        if self.method in MODEL_PER_QUERY:
            return ()
        return self.candidates if self.clusters is None else (self.clusters,)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> ClusteringSettings:
        """Check a table; ``clusters`` and ``candidates`` exclude each other."""
        if {"clusters", "candidates"} <= table.keys():
            raise InvalidConfiguration(f"{where}: expected clusters or candidates, found both")
        return from_fields(cls, table, where)

    def to_table(self) -> dict[str, Any]:
        """Undo `from_table`."""
        unused = "candidates" if self.clusters is not None else "clusters"
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name != unused}


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """How a query finds its cluster."""

    method: Literal["lsh", "exact", "medoid", "centroid", "classifier", "fusion", "overlap", "global"] = (
        setting(
            "lsh",
            meaning="hash tables, all training queries, one query per cluster, the mean vector of each cluster; `classifier` "
            "predicts the cluster by logistic regression, `fusion` adds the scores of all clusters by their probability; "
            "`overlap` takes the model that shares most neighbours with the query; `global` if there are no clusters",
        )
    )
    tables: int = setting(16, low=1, high=256, meaning="m, hash tables per component")
    planes: int | Literal["auto"] = setting("auto", low=1, high=24, meaning="h, hyperplanes per table")
    cap: int = setting(64, low=0, meaning="entries of a bucket that vote; 0 is all of them")
    probes: int = setting(0, low=0, meaning="neighbouring buckets that are looked at too")
    rerank: int = setting(256, low=1, meaning="candidates with most votes that are compared exactly")
    exact_below: int | Literal["auto"] = setting(
        "auto", low=0, meaning="with fewer training queries all are compared; `auto` if that is faster"
    )
    member: Literal["nearest", "average", "farthest"] = setting(
        "nearest",
        meaning="with `exact`: a cluster is as near as its nearest query, its queries on average, or its farthest query",
    )
    C: float = setting(
        1.0,
        above=0,
        meaning="of `classifier` and `fusion`: how much the loss counts against the norm of the weights",
    )
    scores: Literal["standard", "raw"] = setting(
        "standard",
        meaning="of `fusion`: give the scores of each cluster mean 0 and deviation 1 within the list before they are "
        "added, or add them as they are",
    )

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> RoutingSettings:
        """Check a table; the oracle is no router that could serve."""
        if table.get("method") == "oracle":
            raise InvalidConfiguration(
                f"{where}: method 'oracle' takes the cluster that ranks the query best, so it needs the labels; "
                "localrank evaluate --oracle measures it for any model"
            )
        return from_fields(cls, table, where)


@dataclass(frozen=True, slots=True)
class ListSettings:
    """Shorter lists of the training queries to learn from as well, as an earlier stage will let them through."""

    lengths: tuple[int, ...] | None = setting(None, low=1, meaning="documents of the shorter lists")
    by: str = setting("random", meaning="`random`, or the feature that the earlier stage cuts by")


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """How choices are made: on validation queries, or without them by cross-validation over the training queries."""

    metric: str = setting("ndcg@10", check=Metric.parse, meaning="what choices maximise")
    folds: int = setting(5, low=2, meaning="of the cross-validation without validation queries")
    refit: bool = setting(
        default=True,
        meaning="after choosing, learn from the training and the validation queries together; off in the methods of the "
        "papers",
    )

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Which queries are kept from their cluster's scorer, because it is worse for them on held-out queries."""

    learn: bool = setting(
        default=False,
        meaning="choose thresholds of the similarity, the margin and the distance outside of the training values; queries "
        "beyond them are answered by a blend of the two best clusters, or by the global scorer",
    )
    errors: float = setting(
        1.0,
        low=0,
        meaning="standard errors by which a threshold must gain on the held-out queries; few, because the global scorer is the "
        "safe answer. Dozens of thresholds are tried, so one may gain as much by chance; 3 lets hardly any through by chance",
    )
    least: int = setting(10, low=1, meaning="held-out queries that a threshold must concern")


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """One training run."""

    seed: int = setting(
        0, low=0, meaning="of everything that is drawn at random, learners' own seeds excepted"
    )
    contract: ContractSettings = ContractSettings()
    representation: RepresentationSettings = RepresentationSettings()
    similarity: SimilaritySettings = SimilaritySettings()
    clustering: ClusteringSettings = ClusteringSettings()
    learner: LearnerSettings = field(default_factory=LearnerSettings)
    routing: RoutingSettings = RoutingSettings()
    lists: ListSettings = ListSettings()
    selection: SelectionSettings = SelectionSettings()
    guard: GuardSettings = GuardSettings()

    def __post_init__(self) -> None:
        if self.clustering.clusters == 1 and self.clustering.method not in MODEL_PER_QUERY:
            alone = dataclasses.replace(self.clustering, method="none", clusters=None)
            object.__setattr__(self, "clustering", alone)
        if self.clustering.method == "none":
            object.__setattr__(self, "routing", RoutingSettings("global"))
        elif self.routing.method == "global":
            raise InvalidConfiguration(
                "[routing] method 'global' never uses the clusters of [clustering] method "
                f"{self.clustering.method!r}; set [clustering] method = 'none', or another router"
            )
        else:
            check_steps(self)
        if self.clustering.continuation and not self.learner.kind.continues:
            raise InvalidConfiguration(
                f"[clustering] continuation: learner {self.learner.method!r} cannot be learned towards another scorer"
            )

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any], where: str = "configuration") -> TrainingConfig:
        """Check the tables of one run; ``where`` names them in messages."""
        return checked(cls, tables, where)

    @classmethod
    def read(
        cls,
        path: Path | str | None = None,
        method: str | None = None,
        *,
        learner: str | None = None,
        overrides: Sequence[str] = (),
    ) -> TrainingConfig:
        """Read a configuration from its parts, see `read_tables`."""
        where = "configuration" if path is None else str(path)
        return cls.from_tables(read_tables(path, method, learner=learner, overrides=overrides), where)

    @classmethod
    def of_version(cls, manifest: Manifest) -> TrainingConfig:
        """Return the settings that were chosen for a published version.

        Raises:
            InvalidConfiguration: it was not published by a training run, or by one with other settings than there are.
        """
        name = f"{manifest.name}@{manifest.version}"
        tables = manifest.source.get("configuration")
        if not isinstance(tables, dict):
            raise InvalidConfiguration(
                f"{name}: expected a version that 'localrank train' has published, found one without its settings"
            )
        return cls.from_tables(tables, f"{name}: configuration")

    def replace(self, **tables: object) -> TrainingConfig:
        """Return the same run with other tables."""
        return dataclasses.replace(self, **tables)  # type: ignore[arg-type]

    def with_clusters(self, size: int | None, **settled: Any) -> TrainingConfig:
        """Return the same run with a settled number of clusters, and other settings of clustering; 1 is global."""
        return self.replace(clustering=dataclasses.replace(self.clustering, clusters=size, **settled))

    def without_local(self) -> TrainingConfig:
        """Return the same run in which every cluster has the global scorer."""
        return self.replace(clustering=dataclasses.replace(self.clustering, local=False))

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        tables: dict[str, Any] = plain(self)
        return tables


def read_tables(
    path: Path | str | None = None,
    method: str | None = None,
    *,
    learner: str | None = None,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the tables of one run, unchecked; each part overrides those before it.

    Args:
        path: a TOML file.
        method: a ready configuration. Without one and without a file a learner alone means one global model.
        learner: its name, with its default settings.
        overrides: single settings, ``table.key=value``.
    """
    if method is None and path is None:
        method = DEFAULT_METHOD if learner is None else "global"
    if method is not None and method not in METHODS:
        raise InvalidConfiguration(
            f"no method {method!r}{did_you_mean(method, METHODS)} (expected: {', '.join(METHODS)})"
        )
    tables: dict[str, Any] = {}
    for part in (
        METHODS[method] if method else {},
        _read_toml(Path(path)) if path is not None else {},
        {} if learner is None else {"learner": {"method": learner}},
        _overriding(overrides),
    ):
        _merge(tables, part)
    return tables


def _merge(tables: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, table in over.items():
        under = tables.get(name)
        if not isinstance(under, dict) or not isinstance(table, dict):
            tables[name] = dict(table) if isinstance(table, dict) else table
            continue
        # Another method of a step has other settings: those of the method before it go with it.
        if table.get("method", under.get("method")) != under.get("method"):
            under = {}
        excluded = {"clusters": "candidates", "candidates": "clusters"} if name == "clustering" else {}
        kept = {key: value for key, value in under.items() if excluded.get(key) not in table}
        tables[name] = {**kept, **table}


def _overriding(overrides: Sequence[str]) -> dict[str, Any]:
    """Read ``table.key=value`` texts; a value is TOML, and text needs no quotes if it is one word."""
    tables: dict[str, Any] = {}
    for text in overrides:
        name, equals, written = text.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys) or len(keys) > 2:
            raise InvalidConfiguration(f"--set: expected table.key=value, found {text!r}")
        try:
            value = tomllib.loads(f"value = {written}")["value"]
        except tomllib.TOMLDecodeError:
            value = written.strip()
            if not re.fullmatch(r"[A-Za-z_][\w@.+-]*", value):
                raise InvalidConfiguration(
                    f'--set {name}: expected a value such as 3, [1, 2], true or "text", found {written!r}'
                ) from None
        if len(keys) == 1:
            tables[keys[0]] = value
        else:
            tables.setdefault(keys[0], {})[keys[1]] = value
    return tables


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InvalidConfiguration(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{path}: not TOML: {error}") from None


#: As their papers publish them, the methods learn from the training queries only.
_AS_PUBLISHED = {"refit": False}

#: Adaptive training [cremers2020], but for the clusters.
_ADAPTIVE: dict[str, dict[str, Any]] = {
    "representation": {"method": "top_documents", "documents": 10, "by": "best"},
    "similarity": {"method": "euclidean"},
    "learner": {"method": "lambdamart"},
    "routing": {"method": "fusion"},
    "selection": {"metric": "ndcg@5", **_AS_PUBLISHED},
}
_ADAPTIVE_CLUSTERS = {"clusters": 5, "representation": "relevant_mean", "rounds": 2}

#: Ready configurations, by the name that ``--method`` takes.
METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "localrank": {
        "clustering": {"method": "complete_link"},
        "learner": {"method": "svmmap", "C": [0.1, 1.0, 10.0, 100.0]},
        "routing": {"method": "lsh"},
        "selection": _AS_PUBLISHED,
    },
    "adaptive_kmeans": {**_ADAPTIVE, "clustering": {"method": "kmeans", **_ADAPTIVE_CLUSTERS}},
    "adaptive_ward": {**_ADAPTIVE, "clustering": {"method": "ward", **_ADAPTIVE_CLUSTERS}},
    "pca_query": {
        "contract": {"normalise": "global_zscore"},
        "representation": {"method": "top_scores_pca"},
        "similarity": {"method": "euclidean"},
        "clustering": {"method": "bisecting_kmeans"},
        "learner": {"method": "ranksvm"},
        "routing": {"method": "centroid"},
        "selection": _AS_PUBLISHED,
    },
    "knn": {
        "representation": {"method": "top_documents", "documents": 10, "by": "best"},
        "similarity": {"method": "euclidean"},
        "clustering": {"method": "knn", "neighbours": [10, 25, 50]},
        "learner": {"method": "ranksvm", "C": [1.0, 10.0, 100.0]},
        "routing": {"method": "exact"},
        "selection": _AS_PUBLISHED,
    },
    "mhr": {
        "clustering": {"method": "none"},
        "learner": {"method": "mhr", "C": [0.1, 1.0, 10.0, 100.0], "aggregate": ["borda", "weighted_borda"]},
        "selection": _AS_PUBLISHED,
    },
    "lgmml": {
        "clustering": {"method": "none"},
        "learner": {
            "method": "lgmml",
            "candidate_sets": "documents",
            "t": [0.3, 0.5, 0.7, 0.9],
            "weights": ["uniform", "mean", "similarity"],
        },
        "selection": _AS_PUBLISHED,
    },
    "global": {"clustering": {"method": "none"}},
    "auto": {
        "contract": {"normalise": "global_zscore", "missing": "learned"},
        "representation": {"share": 0.95},
        "similarity": {"form": "covariance"},
        "clustering": {
            "method": "prototypes",
            "clusters": 16,
            "share": [0.05, 0.1, 0.2, 0.4],
            "shrink": [0.0, 0.1, 0.5, 2.0],
            "gate": 2.0,
        },
        "learner": {"method": "blend"},
    },
}

#: What is trained without ``--method``, ``--config`` and ``--learner``.
DEFAULT_METHOD = "auto"
