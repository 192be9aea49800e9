"""Published tables: ``<models-dir>/.tables/<name>/<generation>/``, numbered, verified and signed like versions of models.

The alias ``champion`` of a table is the generation that is looked into: publishing moves it, because a table is data that
is renewed, not a choice. A model takes the newest generation up to it that fits its contract.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank.errors import ArtifactError, ArtifactIncompatible, ArtifactNotFound, ContractMismatch
from localrank.registry.versions import CHAMPION, Reference, Registry, gone
from localrank.tables import generation
from localrank.tables.table import ItemLookups, Lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from localrank.arrays import Matrix
    from localrank.features.contract import FeatureContract
    from localrank.features.feature import Feature
    from localrank.tables.table import ItemTable

#: The folder of tables in a folder of models; no name of a model begins so.
FOLDER = ".tables"


def tables_in(models_dir: Path, *, verify: Callable[[Path], object] = generation.verify) -> Registry:
    """Return the registry of the tables beside the models in a folder."""
    return Registry(Path(models_dir) / FOLDER, verify=verify, noun="table")


def publish(
    tables: Registry,
    name: str,
    columns: Sequence[Feature],
    ids: Sequence[Any],
    values: Matrix,
    *,
    created: str,
    source: Mapping[str, Any],
) -> Reference:
    """Write the next generation of a table, verify it, and let models look into it.

    The arguments are those of `localrank.tables.generation.drafted`.
    """
    reference = tables.place(
        name,
        lambda family: generation.drafted(family, columns, ids, values, created=created, source=source),
    )
    tables.promote(name, reference.version, since=created)
    return reference


def newest(tables: Registry, name: str) -> list[int]:
    """Return the generations that a model may look into, the preferred one first.

    Raises:
        ArtifactNotFound: there is no such table, or its first generation is being published.
    """
    history = tables.history(name, CHAMPION)
    if not history:
        tables.versions(name)
        raise ArtifactNotFound(f"{name}: expected a generation that is whole, found none")
    current = history[-1].version
    return list(dict.fromkeys(one.version for one in reversed(history) if one.version <= current))


def items_for(
    contract: FeatureContract, tables: Registry, load: Callable[[Reference], ItemTable]
) -> tuple[ItemLookups, dict[str, str]]:
    """Return what a model looks up, of each table in the newest generation that is good and fits, and why newer ones are not.

    Args:
        contract: of the model.
        tables: from which.
        load: reads a generation.

    Raises:
        ArtifactError: no generation of a table can be used.
    """
    refused: dict[str, str] = {}
    lookups = [_lookup(contract, tables, name, load, refused) for name in contract.tables]
    return ItemLookups(contract, lookups), refused


def _lookup(
    contract: FeatureContract,
    tables: Registry,
    name: str,
    load: Callable[[Reference], ItemTable],
    refused: dict[str, str],
) -> Lookup:
    first: ArtifactError | None = None
    for number in newest(tables, name):
        try:
            return Lookup.of(load(Reference(name, number, tables.models_dir / name / str(number))), contract)
        except (ArtifactError, ContractMismatch) as error:
            said = str(error) if (tables.models_dir / name / str(number)).is_dir() else gone("table", name)
            if not said.startswith(named := f"table {name}, generation {number}: "):
                said = named + said
            refused.setdefault(name, said)
            first = first or ArtifactIncompatible(said)
    raise first or ArtifactNotFound(f"table {name}: expected a generation, found none")


def load_items(contract: FeatureContract, models_dir: Path | str) -> ItemLookups:
    """Return what a model with this contract looks up in the tables beside the models in a folder.

    `ItemLookups.completed` fills documents by their ids; the ranker takes what it returns.
    """
    return items_for(contract, tables_in(Path(models_dir)), lambda one: generation.load(one.path).table)[0]
