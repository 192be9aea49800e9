"""Everything that one training run is told: a TOML file, one table per step of the method.

What is left out has its default. A ready configuration (`methods`) is a set of tables; a file overrides single settings of
it, ``--learner`` the whole table of the learner, and ``--set`` single settings once more. All of it goes into the
manifest. docs/use/configuration.md lists every setting; it is made from the definitions in `steps` and `learners`.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank.disk import read_plain
from localrank.errors import InvalidConfiguration
from localrank.settings import checked, plain, setting
from localrank_training.compatibility import MODEL_PER_QUERY
from localrank_training.compatibility import check as check_steps
from localrank_training.learners.settings import LearnerSettings
from localrank_training.methods import DEFAULT_METHOD, METHODS
from localrank_training.steps import (
    ClusteringSettings,
    ContractSettings,
    GuardSettings,
    ListSettings,
    RepresentationSettings,
    RoutingSettings,
    SelectionSettings,
    SimilaritySettings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.artifact import Manifest


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """One training run."""

    seed: int = setting(
        0, low=0, meaning="seed of all random draws except those of learners with a seed of their own"
    )
    contract: ContractSettings = field(default_factory=ContractSettings)
    representation: RepresentationSettings = field(default_factory=RepresentationSettings)
    similarity: SimilaritySettings = field(default_factory=SimilaritySettings)
    clustering: ClusteringSettings = field(default_factory=ClusteringSettings)
    learner: LearnerSettings = field(default_factory=LearnerSettings)
    routing: RoutingSettings = field(default_factory=RoutingSettings)
    lists: ListSettings = field(default_factory=ListSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)

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
                f"{name}: expected a version that 'localrank train' published, found one without settings"
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
    tables: dict[str, Any] = {}
    for part in (
        METHODS.named(method) if method is not None else {},
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
        # Another method of a step has other settings, so the settings of the earlier method are dropped.
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


#: Bytes of a configuration.
_LARGEST = 1 << 20


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_plain(path, _LARGEST).decode())
    except OSError as error:
        raise InvalidConfiguration(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidConfiguration(f"{path}: not TOML: {error}") from None
