"""How the representation and the router are stored: any frozen dataclass of plain settings, arrays and other parts.

A part is described by its name in `PARTS` and its fields; an array is the name of its file, ``router.`` and the path
of field names. Each part declares what its arrays must be, so that a router that loads cannot reach outside its arrays.

A new router or representation is one entry in `localrank.routing.routers.ROUTERS` or in `REPRESENTATIONS`.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.arrays import Anything, Finite, Layout, bound
from localrank.artifact.arrays import DTYPES
from localrank.artifact.manifest import MANIFEST
from localrank.errors import ArtifactCorrupt, InvalidConfiguration, PublishFailed
from localrank.points.gaussian import GaussianPoints, GaussianRepresentation
from localrank.points.of_query import KindRepresentation, PcaQueryRepresentation, QueryRepresentation
from localrank.points.representation import NoRepresentation
from localrank.points.signature import PcaRepresentation, Signatures
from localrank.points.similarity import QueryMap
from localrank.points.vectors import (
    MeanRepresentation,
    SkewRepresentation,
    TopDocumentsRepresentation,
    TopScoresPcaRepresentation,
    VarianceRepresentation,
    VectorPoints,
)
from localrank.routing.routers import ROUTERS
from localrank.routing.search import HyperplaneTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from localrank.arrays import Array, Content, Sizes
    from localrank.artifact.manifest import FileEntry
    from localrank.points.representation import Representation

#: Every representation that may be stored, by its name.
REPRESENTATIONS: dict[str, type[Representation]] = {
    one.method: one
    for one in (
        NoRepresentation,
        PcaRepresentation,
        MeanRepresentation,
        VarianceRepresentation,
        SkewRepresentation,
        TopDocumentsRepresentation,
        TopScoresPcaRepresentation,
        GaussianRepresentation,
        KindRepresentation,
        QueryRepresentation,
        PcaQueryRepresentation,
    )
}
#: The points and tables that a representation or a router may hold, by name.
INNER: dict[str, type] = {
    "signatures": Signatures,
    "vectors": VectorPoints,
    "gaussians": GaussianPoints,
    "tables": HyperplaneTables,
}
#: Every map of the training queries that may be stored, by its name.
MAPS: dict[str, type] = {"scaling": QueryMap}
#: What the members of a manifest may be.
KINDS: dict[str, Mapping[str, type]] = {"representation": REPRESENTATIONS, "router": ROUTERS, "map": MAPS}
#: Every class that may be stored, by its name in the manifest.
PARTS: dict[str, type] = {**REPRESENTATIONS, **ROUTERS, **INNER, **MAPS}
_NAMES = {part: name for name, part in PARTS.items()}


def describe(part: Any, path: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the manifest's description of a part and its arrays by file name."""
    if type(part) not in _NAMES:
        raise PublishFailed(f"{path}: expected one of {', '.join(PARTS)}, found {type(part).__name__}")
    description: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for field in fields(part):
        value, inner = getattr(part, field.name), f"{path}.{field.name}"
        if isinstance(value, np.ndarray):
            if value.dtype.name not in DTYPES:
                raise PublishFailed(f"{inner}: expected plain numbers, found {value.dtype}")
            arrays[f"{inner}.npy"] = value
            description[field.name] = {"array": f"{inner}.npy"}
        elif is_dataclass(value):
            description[field.name], more = describe(value, inner)
            arrays |= more
        elif value is None or isinstance(value, bool | int | float | str):
            description[field.name] = value
        elif isinstance(value, tuple) and all(isinstance(one, bool | int | float | str) for one in value):
            description[field.name] = list(value)
        else:
            raise PublishFailed(
                f"{inner}: expected a setting, an array or a part, found {type(value).__name__}"
            )
    return {"part": _NAMES[type(part)], "fields": description}, arrays


def files_of(description: Any, path: str, among: Mapping[str, type]) -> dict[str, str]:
    """Return ``{path of the field: file}`` of a part's arrays, in the order described.

    Args:
        description: of the part.
        path: where it stands in the manifest.
        among: what it may be.

    Raises:
        ArtifactCorrupt: the description is not one that `describe` writes.
    """
    where = f"{MANIFEST}: {path}"
    if not isinstance(description, dict) or set(description) != {"part", "fields"}:
        raise ArtifactCorrupt(f"{where}: expected a part and its fields, found {description!r:.60}")
    name, members = description["part"], description["fields"]
    if not isinstance(name, str) or name not in among:
        raise ArtifactCorrupt(f"{where}: expected one of {', '.join(among)}, found {name!r:.60}")
    if not isinstance(members, dict):
        raise ArtifactCorrupt(f"{where}: expected fields by name, found {members!r:.60}")
    known = {field.name: field for field in fields(among[name])}
    if unknown := [field for field in members if field not in known]:
        raise ArtifactCorrupt(f"{where}: expected no field {unknown[0]!r:.60} of {name!r}, found one")
    for field in known.values():
        if field.name not in members and field.default is MISSING and field.default_factory is MISSING:
            raise ArtifactCorrupt(f"{where}: expected the field {field.name!r} of {name!r}, found none")
    files: dict[str, str] = {}
    for field_name, value in members.items():
        inner = f"{path}.{field_name}"
        if isinstance(value, dict) and "array" in value:
            if set(value) != {"array"} or not isinstance(value["array"], str):
                raise ArtifactCorrupt(
                    f"{where}: expected the file of {field_name!r} and nothing else, found {value!r:.60}"
                )
            files[inner] = value["array"]
        elif isinstance(value, dict):
            files |= files_of(value, inner, INNER)
        else:
            _check_setting(where, str(known[field_name].type), field_name, value)
    return files


def sizes_of(description: Any, path: str, n_features: int) -> Sizes:
    """Return the sizes that the points of the described representation have."""
    files_of(description, path, REPRESENTATIONS)
    try:
        return REPRESENTATIONS[description["part"]].sizes(description["fields"], n_features)
    except ValueError as error:
        raise ArtifactCorrupt(f"{MANIFEST}: {path}: {error}") from None


def contents(
    description: Mapping[str, Any], path: str, entries: Mapping[str, FileEntry], sizes: Sizes
) -> dict[str, Content]:
    """Compare dtypes and shapes of a part's arrays with what it declares; return the rule for each file's numbers."""
    files_of(description, path, KINDS[path])
    rules: dict[str, Content] = {}
    for name, layout, counted in _declared(description, path):
        if not name.startswith(f"{path}."):
            raise ArtifactCorrupt(f"{MANIFEST}: {path}: expected a file named {path}.…, found {name!r:.60}")
        entry = entries.get(name)
        if entry is None:
            raise ArtifactCorrupt(f"{MANIFEST}: files: expected {name!r}, found none")
        if name in rules:
            raise ArtifactCorrupt(f"{MANIFEST}: {path}: expected a file for each array, found {name!r} twice")
        if layout is None:
            rules[name] = Finite() if entry.dtype.startswith("float") else Anything()
            continue
        seen = (
            sizes
            if counted is None
            else {**sizes, **({"points": sizes[counted]} if counted in sizes else {})}
        )
        if fault := bound(layout, entry.dtype, entry.shape, seen):
            raise ArtifactCorrupt(f"{name}: {fault}")
        rules[name] = layout.content(dict(seen))
        if counted is not None:
            # The number of points of one part has no meaning in the next.
            sizes |= {axis: length for axis, length in seen.items() if axis != "points"}
            sizes.setdefault(counted, seen["points"])
    return rules


def _declared(
    description: Mapping[str, Any], path: str, counted: str | None = None
) -> Iterator[tuple[str, Layout | None, str | None]]:
    """Yield file, layout and what counts the points of every array; declared arrays come first."""
    files = files_of(description, path, PARTS)
    members: Mapping[str, Any] = description["fields"]
    part = PARTS[description["part"]]
    layouts: Mapping[str, Layout | str] = getattr(part, "layout", {})
    optional = {field.name for field in fields(part) if field.default is None}
    for field, layout in layouts.items():
        value: Any = members.get(field)
        described = isinstance(value, dict)
        if isinstance(layout, str) and described and "part" in value:
            yield from _declared(value, f"{path}.{field}", layout)
            for inner in [inner for inner in files if inner.startswith(f"{path}.{field}.")]:
                del files[inner]
        elif isinstance(layout, Layout) and described and "array" in value:
            yield files.pop(f"{path}.{field}"), layout, counted
        elif value is None and field in optional:
            continue
        else:
            what = "a part" if isinstance(layout, str) else "an array"
            raise ArtifactCorrupt(f"{MANIFEST}: {path}: expected {what} for {field!r}, found none")
    for file in files.values():
        yield file, None, None


def assemble(description: Mapping[str, Any], path: str, arrays: Mapping[str, Array]) -> Any:
    """Undo `describe`, given the arrays by file name."""
    members: dict[str, Any] = {}
    for name, value in description["fields"].items():
        if isinstance(value, dict) and "array" in value:
            members[name] = arrays[value["array"]]
        elif isinstance(value, dict):
            members[name] = assemble(value, f"{path}.{name}", arrays)
        else:
            members[name] = tuple(value) if isinstance(value, list) else value
    try:
        return PARTS[description["part"]](**members)
    except (TypeError, ValueError, InvalidConfiguration) as error:
        raise ArtifactCorrupt(f"{MANIFEST}: {path}: expected a {description['part']!r}: {error}") from None


def _check_setting(where: str, annotation: str, name: str, value: Any) -> None:
    plain = (bool, int, float, str)
    if value is not None and not isinstance(value, (*plain, list)):
        raise ArtifactCorrupt(f"{where}: expected a setting for {name!r}, found {value!r:.60}")
    if value is None and annotation.endswith(" | None"):
        return
    kinds = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
    expected = kinds.get(annotation.removesuffix(" | None"), ())
    if expected and (not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected)):
        raise ArtifactCorrupt(f"{where}: expected {annotation} for {name!r}, found {value!r:.60}")
