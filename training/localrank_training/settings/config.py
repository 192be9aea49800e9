"""Everything that one training run is told: a TOML file, one table per step of the method.

What is left out has its default. A ready configuration (`methods`) is a set of tables; a file overrides single settings of
it, ``--learner`` the whole table of the learner, and ``--set`` single settings once more. All of it goes into the
manifest. docs/use/configuration.md lists every setting; it is made from the definitions in `steps` and `learners`.
The standard library reads TOML and does not write it; `to_toml` and `annotated` do.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank.disk import read_plain
from localrank.errors import InvalidConfiguration
from localrank.points.vectors import VectorPoints
from localrank.settings import checked, plain, setting, settings_of
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.learners.settings import LearnerSettings
from localrank_training.settings.methods import DEFAULT_METHOD, METHODS
from localrank_training.settings.steps import (
    COUNTED,
    ClusteringSettings,
    ContractSettings,
    GuardSettings,
    ListSettings,
    RepresentationSettings,
    RoutingSettings,
    SelectionSettings,
    SimilaritySettings,
    check_clustering,
    check_together,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from localrank.artifact import Manifest
    from localrank_training.learners.role import Learner


#: The table of a file that says what the columns of the data hold (`localrank_training.data.tables.Columns`).
DATA = "data"


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
        if self.clustering.clusters == 1 and self.clustering.method not in COUNTED:
            alone = dataclasses.replace(self.clustering, method="none", clusters=None)
            object.__setattr__(self, "clustering", alone)
        if (self.clustering.method == "kind") != (self.clustering.column is not None):
            raise InvalidConfiguration(
                "[clustering] column: expected method 'kind' and the name of a feature, or neither, found method "
                f"{self.clustering.method!r} and column {self.clustering.column!r}"
            )
        if self.clustering.method == "none":
            object.__setattr__(self, "routing", RoutingSettings("global"))
        elif self.clustering.method == "kind":
            # The column tells the cluster, so nothing is represented or compared.
            object.__setattr__(self, "routing", RoutingSettings("kind"))
            check_clustering(self, VectorPoints)
        elif self.routing.method == "kind":
            raise InvalidConfiguration(
                "[routing] method 'kind' is for [clustering] method 'kind', found "
                f"{self.clustering.method!r}; set another router"
            )
        elif self.routing.method == "global":
            raise InvalidConfiguration(
                "[routing] method 'global' never uses the clusters of [clustering] method "
                f"{self.clustering.method!r}; set [clustering] method = 'none', or another router"
            )
        else:
            check_together(self)
        if self.clustering.continuation and not self.learner.kind.continues:
            raise InvalidConfiguration(
                f"[clustering] continuation: learner {self.learner.method!r} cannot be learned towards another scorer"
            )
        if self.contract.monotone:
            _check_directions(self.learner)

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any], where: str = "configuration") -> TrainingConfig:
        """Check the tables of one run; ``where`` names them in messages."""
        check_learners(tables.get("learner"))
        return checked(cls, tables, where)

    @classmethod
    def read(
        cls,
        path: Path | str | None = None,
        method: str | None = None,
        *,
        learner: str | None = None,
        overrides: Sequence[str] = (),
        base: Mapping[str, Any] | None = None,
    ) -> TrainingConfig:
        """Read a configuration from its parts, see `read_tables`."""
        where = "configuration" if path is None else str(path)
        tables = read_tables(path, method, learner=learner, overrides=overrides, base=base)
        tables.pop(DATA, None)
        return checked(cls, tables, where)

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
        return checked(cls, tables, f"{name}: configuration")

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
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the tables of one run, unchecked; each part overrides those before it.

    Args:
        path: a TOML file.
        method: a ready configuration. Without one and without a file a learner alone means one global model.
        learner: its name, with its default settings.
        overrides: single settings, ``table.key=value``.
        base: the tables of another run, which stand in place of the default method. A method, file or learner counts alone.
    """
    if method is not None:
        METHODS.check_written(method)
    elif path is None and (base is None or learner is not None):
        method = DEFAULT_METHOD if learner is None else "global"
    tables: dict[str, Any] = {}
    if method is None and path is None:
        _merge(tables, base or {})
    _merge(tables, METHODS.named(method) if method is not None else {})
    for part in (
        _read_toml(Path(path)) if path is not None else {},
        {} if learner is None else {"learner": {"method": learner}},
        _overriding(overrides),
    ):
        check_learners(part.get("learner"))
        _merge(tables, part)
    return tables


def check_learners(table: object) -> None:
    """Refuse the name of a learner that stands for two, also of one that is part of another learner."""
    if isinstance(table, dict):
        named = table.get("method")
        for name in named if isinstance(named, list) else [named]:
            if isinstance(name, str):
                LEARNERS.check_written(name)
        for value in table.values():
            check_learners(value)
    elif isinstance(table, list | tuple):
        for value in table:
            check_learners(value)


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


def _check_directions(learner: LearnerSettings) -> None:
    """Refuse learners that cannot keep the directions of features, also as members of a blend."""
    unable = [one for one in _leaves(learner) if not one.keeps_directions()]
    if not unable:
        return
    if unable[0].monotone:
        reason = "on the block 'quadratic' cannot keep the direction of a feature: products have none"
    else:
        able = [name for name in LEARNERS if LEARNERS.named(name).monotone]
        reason = (
            f"cannot keep the direction of a feature; those that can: {', '.join(able)}, and blends of these"
        )
    raise InvalidConfiguration(f"[contract] monotone: learner {unable[0].method!r} {reason}")


def _leaves(learner: LearnerSettings) -> Iterator[Learner]:
    for one in learner.candidates():
        members = getattr(one, "members", None)
        if isinstance(members, tuple):
            for member in members:
                yield from _leaves(member)
        else:
            yield one


#: Bytes of a configuration.
_LARGEST = 1 << 20


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_plain(path, _LARGEST).decode())
    except OSError as error:
        raise InvalidConfiguration(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidConfiguration(f"{path}: not TOML: {error}") from None


#: A name that TOML reads without quotes.
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(tables: Mapping[str, Any]) -> str:
    """Write a configuration's tables; top-level values come first, as TOML wants."""
    return "\n".join(_lines(tables, "", {})).lstrip("\n") + "\n"


def annotated(config: TrainingConfig) -> str:
    """Write a whole configuration, every setting with its meaning; it reads back to the same.

    A setting without a value is a comment.
    """
    meanings: dict[str, str] = {}
    tables: dict[str, Any] = {}
    for one in settings_of(type(config)):
        value = getattr(config, one.name)
        if not dataclasses.is_dataclass(value):
            tables[one.name], meanings[one.name] = value, one.meaning
            continue
        if one.name == "learner":
            # Only what was written is there; the rest has the learner's defaults.
            described = settings_of(config.learner.kind)
            unwritten = {setting.name: plain(setting.default) for setting in described}
            tables[one.name] = {"method": config.learner.method, **unwritten, **plain(value)}
        else:
            described = settings_of(type(value))
            tables[one.name] = {setting.name: None for setting in described} | plain(value)
        meanings |= {f"{one.name}.{setting.name}": setting.meaning for setting in described}
    return "\n".join(_lines(tables, "", meanings)).lstrip("\n") + "\n"


def value_text(value: Any) -> str:
    """Write one value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {value_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    # JSON's texts, numbers and booleans are TOML's.
    return json.dumps(value, ensure_ascii=False)


def _lines(tables: Mapping[str, Any], path: str, meanings: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a table: its values, then the tables and lists of tables in it."""
    inner = {}
    for name, value in tables.items():
        place = f"{path}.{name}" if path else name
        if (isinstance(value, dict) and not path) or _is_tables(value):
            inner[place] = value
        else:
            meaning = meanings.get(place)
            unset = value is None or value == []
            line = f"# {_key(name)} is not set" if unset else f"{_key(name)} = {value_text(value)}"
            yield line + (f"  # {meaning}" if meaning else "")
    for place, value in inner.items():
        for table in value if isinstance(value, list) else [value]:
            yield ""
            yield f"[[{place}]]" if isinstance(value, list) else f"[{place}]"
            yield from _lines(table, place, meanings)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(member, dict) for member in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
