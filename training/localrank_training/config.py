"""Everything that one training run is told: a TOML file, one table per step of the method.

What is left out has its default; what is unknown is refused by name. A ready configuration (`METHODS`) is itself such
a set of tables, and a file given beside it overrides single settings. The whole of it goes into the manifest.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

# `checked` reads annotations when it runs.
from localrank.contract import Missing, Normalisation  # noqa: TC001
from localrank.errors import InvalidConfiguration
from localrank.similarity import Similarity  # noqa: TC001
from localrank_training.settings import checked, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "METHODS",
    "ClusteringSettings",
    "ContractSettings",
    "LearnerSettings",
    "ListSettings",
    "RepresentationSettings",
    "RoutingSettings",
    "SelectionSettings",
    "SimilaritySettings",
    "TrainingConfig",
    "read_tables",
]


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """What becomes of feature values before anything looks at them."""

    normalise: Normalisation = "query_minmax"
    missing: Missing = "reject"
    constant: float = setting(0.0, meaning="what a missing value becomes with missing = 'constant'")


@dataclass(frozen=True, slots=True)
class RepresentationSettings:
    """What stands for a query when queries are compared."""

    method: Literal["pca"] = "pca"
    components: int | None = setting(None, low=1, meaning="P; by default as many as cover the share")
    share: float = setting(0.8, above=0, high=1, meaning="of the variance that P covers for the median query")
    most: int = setting(8, low=1, meaning="upper bound of P where the share decides")


@dataclass(frozen=True, slots=True)
class SimilaritySettings:
    """How alike two queries are: eq. 5, or another form of `localrank.similarity`."""

    method: Literal["pca_cosine"] = "pca_cosine"
    form: Similarity = "eq5"


@dataclass(frozen=True, slots=True)
class ClusteringSettings:
    """Which training queries share a model. ``random`` is a control for experiments, ``none`` one global model."""

    method: Literal["complete_link", "none", "random"] = "complete_link"
    clusters: int = setting(5, low=1)
    candidates: tuple[int, ...] | None = setting(
        None, low=1, meaning="numbers of clusters to choose from instead"
    )
    continuation: bool = setting(
        default=False, meaning="learn each cluster's scorer towards the global one instead of from nothing"
    )
    sample: int = setting(
        5000, low=2, meaning="clustered outright; further queries join the most similar of these"
    )


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """How a scorer is learned; a list is a choice to be made on validation queries."""

    method: str = "ranksvm"
    settings: Mapping[str, Any] = field(default_factory=lambda: {"C": [1.0, 10.0, 100.0, 1000.0]})


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """How a query finds its cluster."""

    method: Literal["lsh", "exact", "centroid", "global"] = "lsh"
    tables: int = setting(16, low=1, high=256, meaning="m, hash tables per component")
    planes: int | Literal["auto"] = setting("auto", low=1, high=24, meaning="h, hyperplanes per table")
    cap: int = setting(64, low=0, meaning="entries of a bucket that vote; 0 is all of them")
    probes: int = setting(0, low=0, meaning="neighbouring buckets that are looked at too")
    rerank: int = setting(256, low=1, meaning="candidates with most votes that are compared exactly")
    exact_below: int | Literal["auto"] = setting(
        "auto", low=0, meaning="with fewer training queries all are compared; 'auto' is where that is faster"
    )


@dataclass(frozen=True, slots=True)
class ListSettings:
    """Shorter lists of the training queries to learn from as well, as an earlier stage will let them through."""

    lengths: tuple[int, ...] | None = setting(None, low=1, meaning="documents of the shorter lists")
    by: str = setting("random", meaning="'random', or the feature that the earlier stage cuts by")


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """How choices are made, and how good the model is held to be.

    With validation queries, on those; without, by cross-validation over the training queries.
    """

    metric: str = setting("ndcg@10", meaning="what choices maximise")
    folds: int = setting(5, low=2, meaning="of the cross-validation without validation queries")


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """One training run."""

    contract: ContractSettings = ContractSettings()
    representation: RepresentationSettings = RepresentationSettings()
    similarity: SimilaritySettings = SimilaritySettings()
    clustering: ClusteringSettings = ClusteringSettings()
    learner: LearnerSettings = field(default_factory=LearnerSettings)
    routing: RoutingSettings = RoutingSettings()
    lists: ListSettings = ListSettings()
    selection: SelectionSettings = SelectionSettings()
    seed: int = 0

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any], where: str = "configuration") -> TrainingConfig:
        """Check the tables of one run; ``where`` names them in messages."""
        kinds: dict[str, type[Any]] = {
            "contract": ContractSettings,
            "representation": RepresentationSettings,
            "similarity": SimilaritySettings,
            "clustering": ClusteringSettings,
            "routing": RoutingSettings,
            "lists": ListSettings,
            "selection": SelectionSettings,
        }
        settled: dict[str, Any] = {}
        for name, table in tables.items():
            place = f"{where} [{name}]"
            if name == "seed":
                if not isinstance(table, int) or isinstance(table, bool) or table < 0:
                    raise InvalidConfiguration(
                        f"{where}: seed: expected a whole number from 0, found {table!r}"
                    )
                settled[name] = table
                continue
            if name not in {*kinds, "learner"}:
                raise InvalidConfiguration(
                    f"{where}: unknown table {name!r} (expected: {', '.join([*kinds, 'learner'])}, or seed)"
                )
            if not isinstance(table, dict):
                raise InvalidConfiguration(f"{place}: expected a table of settings, found {table!r}")
            settled[name] = (
                _learner(table, place) if name == "learner" else checked(kinds[name], table, place)
            )
        return _sensible(cls(**settled), where)

    @classmethod
    def read(cls, path: Path | str | None = None, method: str | None = None) -> TrainingConfig:
        """Read a TOML file over a ready configuration; either may be left out."""
        return cls.from_tables(read_tables(path, method), f"method {method}" if path is None else str(path))

    def replace(self, **tables: object) -> TrainingConfig:
        """Return the same run with other tables."""
        return dataclasses.replace(self, **tables)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        written = dataclasses.asdict(self)
        learner = written["learner"]
        written["learner"] = {"method": learner["method"], **learner["settings"]}
        return {
            name: {k: v for k, v in table.items() if v is not None} if isinstance(table, dict) else table
            for name, table in written.items()
        }


def read_tables(path: Path | str | None = None, method: str | None = None) -> dict[str, Any]:
    """Return the tables of a TOML file over those of a ready configuration, unchecked."""
    if method is not None and method not in METHODS:
        raise InvalidConfiguration(f"no method {method!r}; expected one of {', '.join(METHODS)}")
    tables: dict[str, Any] = {name: dict(table) for name, table in METHODS.get(method or "", {}).items()}
    for name, table in (_read_toml(Path(path)) if path is not None else {}).items():
        ready = tables.get(name)
        # Another method of a step has other settings: those of the ready configuration go with theirs.
        if isinstance(ready, dict) and isinstance(table, dict):
            same_method = table.get("method", ready.get("method")) == ready.get("method")
            tables[name] = {**ready, **table} if same_method else table
        else:
            tables[name] = table
    return tables


def _sensible(config: TrainingConfig, where: str) -> TrainingConfig:
    """Settle what follows from other settings, and refuse what contradicts them."""
    if config.clustering.method == "none" and config.routing.method != "global":
        return config.replace(routing=RoutingSettings("global"))
    if config.clustering.method != "none" and config.routing.method == "global":
        raise InvalidConfiguration(
            f"{where}: [routing] method 'global' never uses the clusters of [clustering] method "
            f"{config.clustering.method!r}; set [clustering] method = 'none', or another router"
        )
    return config


def _learner(table: Mapping[str, Any], where: str) -> LearnerSettings:
    method = table.get("method", LearnerSettings().method)
    if not isinstance(method, str):
        raise InvalidConfiguration(f"{where}: method: expected a name, found {method!r}")
    settings = {name: value for name, value in table.items() if name != "method"}
    default = LearnerSettings()
    if method == default.method:
        settings = {**default.settings, **settings}
    return LearnerSettings(method, settings)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InvalidConfiguration(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{path}: not TOML: {error}") from None


#: Ready configurations, by the name that ``--method`` takes.
METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "localrank": {
        "clustering": {"method": "complete_link"},
        "learner": {"method": "svmmap", "C": [0.1, 1.0, 10.0, 100.0]},
        "routing": {"method": "lsh"},
    },
    "mhr": {
        "clustering": {"method": "none"},
        "learner": {"method": "mhr", "C": [0.1, 1.0, 10.0, 100.0], "aggregate": ["borda", "weighted_borda"]},
    },
    "lgmml": {
        "clustering": {"method": "none"},
        "learner": {
            "method": "lgmml",
            "t": [0.3, 0.5, 0.7, 0.9],
            "weights": ["uniform", "mean", "similarity"],
        },
    },
    "global": {"clustering": {"method": "none"}},
}
