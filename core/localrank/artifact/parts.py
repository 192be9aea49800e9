"""How the signer and the router are stored: any frozen dataclass of plain settings, arrays and other parts.

A part is described by its name in `PARTS` and its fields; an array is the name of its file, ``router.`` and the path
of field names. `LAYOUTS` says what each array must be, so that a router that loads cannot reach outside its arrays.

A new router is one entry in `PARTS` and one in `LAYOUTS`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.artifact.arrays import DTYPES
from localrank.artifact.content import Anything, Buckets, Finite, Within
from localrank.artifact.manifest import MANIFEST
from localrank.errors import ArtifactCorrupt, InvalidConfiguration, PublishFailed
from localrank.lsh import HyperplaneTables
from localrank.routing import CentroidRouter, ExactRouter, GlobalRouter, LshRouter
from localrank.signature import QuerySigner, Signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from localrank.arrays import Array
    from localrank.artifact.content import Content
    from localrank.artifact.manifest import FileEntry

__all__ = ["LAYOUTS", "PARTS", "Layout", "Sizes", "assemble", "contents", "describe", "files_of"]

#: Every class that may be stored, by its name in the manifest.
PARTS: dict[str, type] = {
    "signer": QuerySigner,
    "signatures": Signatures,
    "tables": HyperplaneTables,
    **{router.strategy: router for router in (GlobalRouter, ExactRouter, CentroidRouter, LshRouter)},
}
_NAMES = {part: name for name, part in PARTS.items()}

#: Numbers that shapes and contents are made of: ``features``, ``components``, ``clusters``, then what arrays add.
Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """What an array must be.

    Attributes:
        dtypes: any of these.
        shape: a name of `Sizes` for each axis; a new name takes the length that is found. ``buckets`` is
            ``2**bits + 1``.
        content: the rule for its numbers, once the sizes are known.
    """

    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    content: Callable[[Sizes], Content]


_INTEGERS = ("int64", "int32", "uint32", "uint16", "uint8")


def _finite(_sizes: Sizes) -> Content:
    return Finite()


def _below(name: str) -> Callable[[Sizes], Content]:
    return lambda sizes: Within(0, sizes[name] - 1)


def _signatures(path: str, count: str) -> dict[str, Layout]:
    return {
        f"{path}.directions": Layout(("float32",), (count, "components", "features"), _finite),
        f"{path}.eigenvalues": Layout(("float64", "float32"), (count, "components"), _finite),
        f"{path}.ranks": Layout(_INTEGERS, (count,), lambda sizes: Within(0, sizes["components"])),
    }


_TRAINING = {
    **_signatures("signatures", "queries"),
    "clusters": Layout(_INTEGERS, ("queries",), _below("clusters")),
}

#: By router and path. The order is that of the checks: a size is known from the first array that has it.
LAYOUTS: dict[str, dict[str, Layout]] = {
    "global": {},
    "centroid": _signatures("medoids", "clusters"),
    "exact": _TRAINING,
    "lsh": {
        **_TRAINING,
        "tables.planes": Layout(("float32",), ("tables", "bits", "features"), _finite),
        "tables.offsets": Layout(
            _INTEGERS,
            ("components", "tables", "buckets"),
            lambda sizes: Buckets(sizes["buckets"], sizes["queries"]),
        ),
        "tables.ids": Layout(_INTEGERS, ("components", "tables", "queries"), _below("queries")),
    },
}


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


def files_of(description: Any, path: str) -> dict[str, str]:
    """Return ``{path of the field: file}`` of a part's arrays, in the order described.

    Raises:
        ArtifactCorrupt: the description is not one that `describe` writes.
    """
    where = f"{MANIFEST}: {path}"
    if not isinstance(description, dict) or set(description) != {"part", "fields"}:
        raise ArtifactCorrupt(f"{where}: expected a part and its fields, found {description!r:.60}")
    name, members = description["part"], description["fields"]
    if not isinstance(name, str) or name not in PARTS:
        raise ArtifactCorrupt(f"{where}: expected one of {', '.join(PARTS)}, found {name!r:.60}")
    if not isinstance(members, dict):
        raise ArtifactCorrupt(f"{where}: expected fields by name, found {members!r:.60}")
    known = {field.name: field for field in fields(PARTS[name])}
    if unknown := [field for field in members if field not in known]:
        raise ArtifactCorrupt(f"{where}: expected no field {unknown[0]!r:.60} of {name!r}, found one")
    for field in known.values():
        if field.name not in members and field.default is MISSING and field.default_factory is MISSING:
            raise ArtifactCorrupt(f"{where}: expected the field {field.name!r} of {name!r}, found none")
    files: dict[str, str] = {}
    for field_name, value in members.items():
        inner = f"{path}.{field_name}"
        if isinstance(value, dict) and "array" in value:
            if value != {"array": f"{inner}.npy"}:
                raise ArtifactCorrupt(f"{where}: expected {field_name!r} in {inner}.npy, found {value!r:.60}")
            files[inner] = f"{inner}.npy"
        elif isinstance(value, dict):
            files |= files_of(value, inner)
        else:
            _check_setting(where, str(known[field_name].type), field_name, value)
    return files


def contents(
    description: Mapping[str, Any], path: str, entries: Mapping[str, FileEntry], sizes: Sizes
) -> dict[str, Content]:
    """Compare dtypes and shapes with the router's `LAYOUTS`; return the rule for each file's numbers."""
    files = files_of(description, path)
    layouts = LAYOUTS.get(description["part"])
    if layouts is None:
        raise ArtifactCorrupt(
            f"{MANIFEST}: {path}: expected one of {', '.join(LAYOUTS)}, found {description['part']!r}"
        )
    rules: dict[str, Content] = {}
    for inner, layout in layouts.items():
        name = files.pop(f"{path}.{inner}", None)
        if name is None:
            raise ArtifactCorrupt(f"{MANIFEST}: {path}: expected an array for {inner!r}, found none")
        entry = entries.get(name)
        if entry is None:
            raise ArtifactCorrupt(f"{MANIFEST}: files: expected {name!r}, found none")
        if entry.dtype not in layout.dtypes:
            raise ArtifactCorrupt(f"{name}: expected {' or '.join(layout.dtypes)}, found {entry.dtype}")
        _bind(name, layout.shape, entry.shape, sizes)
        rules[name] = layout.content(sizes)
    for name in files.values():
        entry = entries.get(name)
        if entry is None:
            raise ArtifactCorrupt(f"{MANIFEST}: files: expected {name!r}, found none")
        rules[name] = Finite() if entry.dtype.startswith("float") else Anything()
    return rules


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


def _bind(name: str, shape: tuple[str, ...], found: tuple[int, ...], sizes: Sizes) -> None:
    """Compare a shape with the sizes known, and learn those that are new."""
    if len(found) == len(shape):
        for axis, length in zip(shape, found, strict=True):
            if axis == "bits":
                # More bits than this have more buckets than any file has bytes.
                sizes.setdefault("buckets", 2 ** min(length, 62) + 1)
            sizes.setdefault(axis, length)
    expected = tuple(sizes.get(axis, axis) for axis in shape)
    if found != expected or 0 in found:
        raise ArtifactCorrupt(f"{name}: expected shape ({', '.join(map(str, expected))}), found {found}")


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
