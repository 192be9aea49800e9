"""How to make a page again: the command, the configuration, data and versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localrank_training.report import Folded, Pre, Section, Table
from localrank_training.toml_text import to_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.artifact import Manifest
    from localrank_training.config import TrainingConfig
    from localrank_training.report import Part


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a version comes from.

    Attributes:
        command: as it was typed; empty if there was none.
        manifest: of the version.
        asked: the configuration that the run began with, choices left open.
        megabytes: of the version.
    """

    command: str
    manifest: Manifest
    asked: TrainingConfig
    megabytes: float


def made(origin: Origin) -> Section:
    """Return the section."""
    manifest = origin.manifest
    source: Mapping[str, Any] = manifest.source
    parts: list[Part] = []
    if origin.command:
        parts += ["The same command on the same data makes the same model.", Pre(origin.command)]
    rows: list[tuple[object, ...]] = [
        ("model", f"{manifest.name}, version {manifest.version}"),
        ("made", manifest.created),
        ("size on disk", f"{origin.megabytes:.1f} MB"),
        ("seed", source["configuration"].get("seed", 0)),
    ]
    for name, one in source["data"].items():
        rows += [
            (f"{name} data", f"{one['queries']:,} queries, {one['documents']:,} documents"),
            (f"fingerprint of the {name} data", one["fingerprint"]),
        ]
    rows += [("contract", manifest.contract.digest), ("Python", source["python"])]
    rows += list(source["libraries"].items())
    parts += [
        Table("Versions and seeds", ("what", "which"), [(name, str(value)) for name, value in rows]),
        Folded("The configuration at the start of the run", [Pre(to_toml(origin.asked.to_json()))]),
        Folded("The configuration with every choice made", [Pre(to_toml(source["configuration"]))]),
    ]
    return Section("How to make it again", parts)
