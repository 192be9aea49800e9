"""From a folder of models to one at a URL: versions first, aliases last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localrank import artifact
from localrank.artifact.manifest import LARGEST_MANIFEST, MANIFEST
from localrank.artifact.signing import LARGEST_SIGNATURES, signatures_name
from localrank.disk import read_plain
from localrank.errors import ArtifactNotFound, PublishFailed
from localrank.registry import ALIASES, LARGEST_ALIASES, parse_aliases, render_aliases

if TYPE_CHECKING:
    from localrank.registry import Reference, Registry
    from localrank.remote.store import Store


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push has done.

    Attributes:
        name: of the model.
        sent: versions that were not there.
        aliases: what each stands for there now.
    """

    name: str
    sent: tuple[int, ...]
    aliases: dict[str, int]


def push(store: Store, registry: Registry, name: str, *, force: bool = False) -> Pushed:
    """Send the versions that aliases stand for, then replace the aliases there by the aliases here.

    Each version is verified first. Its manifest is written after its arrays, and the aliases after all versions, so
    whoever follows never sees half of it.

    Args:
        store: to which.
        registry: from which.
        name: of the model.
        force: also replace aliases there that stand for versions that are not here.

    Raises:
        PublishFailed: there is another version under one of the numbers, or somebody else has promoted there.
        StoreUnavailable: the store cannot be written.
    """
    numbers = registry.versions(name)
    aliases = registry.aliases(name)
    if not aliases:
        raise ArtifactNotFound(f"{name}: expected an alias to push, found none; promote a version")
    content = store.read(f"{name}/{ALIASES}", LARGEST_ALIASES)
    if content is not None and not force:
        for alias, history in parse_aliases(content).items():
            if (there := history[-1].version) not in numbers:
                raise PublishFailed(
                    f"{store.url}/{name}/{ALIASES}: expected aliases of versions that this folder has too, "
                    f"found that {alias} is version {there}; pull first, or use --force"
                )
    sent = tuple(
        version
        for version in sorted(set(aliases.values()))
        if _send(store, registry, registry.resolve(f"{name}@{version}"))
    )
    histories = {alias: registry.history(name, alias) for alias in aliases}
    store.write(f"{name}/{ALIASES}", render_aliases(histories))
    return Pushed(name, sent, aliases)


def _send(store: Store, registry: Registry, reference: Reference) -> bool:
    """Send a version unless it is there; tell whether it was sent."""
    found = artifact.verify(reference.path)
    path = f"{reference.name}/{reference.version}"
    manifest = read_plain(reference.path / MANIFEST, LARGEST_MANIFEST)
    there = store.read(f"{path}/{MANIFEST}", LARGEST_MANIFEST)
    if there is not None and there != manifest:
        raise PublishFailed(
            f"{store.url}/{path}: expected the same version as in this folder, found a different one with "
            "this number; publish it under a new number"
        )
    signatures = reference.path.with_name(signatures_name(reference.path))
    if signatures.is_file():
        store.write(f"{reference.name}/{signatures.name}", read_plain(signatures, LARGEST_SIGNATURES))
    if there is not None:
        return False
    for name in found.manifest.files:
        store.send(reference.path / name, f"{path}/{name}")
    report = registry.report_path(reference)
    if report.is_file():
        store.send(report, f"{reference.name}/{report.name}")
    store.write(f"{path}/{MANIFEST}", manifest)
    return True
