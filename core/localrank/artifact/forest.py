"""How scorers are stored: any number of them, of any kind, made of others, in a few files.

A *form* is everything about a scorer but its numbers: kind, settings, dtype and shape of each array, forms of its
members. Each form is written once, members before what they are made of, and a scorer is the position of its form;
ten thousand linear scorers have one form. The arrays of one role and dtype stand one after the other in one file, in
the order of a walk: the clusters' scorers first, the global scorer last, each before its members.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.artifact.arrays import DTYPES
from localrank.artifact.manifest import MANIFEST
from localrank.errors import ArtifactCorrupt, PublishFailed
from localrank.scorers import SCORERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from localrank.arrays import Array
    from localrank.scorers import Scorer

__all__ = ["Forest", "dismantle"]

#: Scorers that a model may hold, members counted: forms made of forms could otherwise unfold without end.
_MOST_SCORERS = 2_000_000
_FORM = {"kind", "settings", "arrays", "members"}


def dismantle(scorers: Sequence[Scorer], global_scorer: Scorer) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the manifest's description of the scorers and the arrays by file name."""
    forms: list[dict[str, Any]] = []
    known: dict[str, int] = {}
    pieces: dict[tuple[str, str], list[Array]] = {}

    def visit(scorer: Scorer) -> int:
        if SCORERS.get(scorer.kind) is not type(scorer):
            raise PublishFailed(f"expected a scorer of a kind in SCORERS, found {type(scorer).__name__}")
        arrays = scorer.arrays()
        for role, array in arrays.items():
            if array.dtype.name not in DTYPES:
                raise PublishFailed(
                    f"scorer {scorer.kind!r}: {role}: expected plain numbers, found {array.dtype}"
                )
            pieces.setdefault((role, array.dtype.name), []).append(np.ravel(array))
        form = {
            "kind": scorer.kind,
            "settings": scorer.settings(),
            "arrays": {role: [array.dtype.name, list(array.shape)] for role, array in arrays.items()},
            "members": [visit(member) for member in scorer.members()],
        }
        key = json.dumps(form, sort_keys=True)
        if key not in known:
            known[key] = len(forms)
            forms.append(form)
        return known[key]

    description = {
        "clusters": [visit(scorer) for scorer in scorers],
        "global": visit(global_scorer),
        "forms": forms,
    }
    names = _file_names(pieces)
    return description, {names[key]: np.concatenate(parts) for key, parts in pieces.items()}


class Forest:
    """The scorers that a manifest describes, before their arrays are read.

    Raises:
        ArtifactCorrupt: the description is not one that `dismantle` writes.
    """

    def __init__(self, description: Mapping[str, Any]) -> None:
        if set(description) != {"clusters", "global", "forms"}:
            raise ArtifactCorrupt(
                f"{MANIFEST}: scorers: expected clusters, global and forms, found {', '.join(description)}"
            )
        self._forms: Any = description["forms"]
        self._clusters: Any = description["clusters"]
        self._global: Any = description["global"]
        self._check()
        self._lengths: dict[tuple[str, str], int] = {}
        for form in self._walk():
            for role, (dtype, shape) in form["arrays"].items():
                key = (role, dtype)
                self._lengths[key] = self._lengths.get(key, 0) + math.prod(shape)
        self._names = _file_names(self._lengths)

    @property
    def n_clusters(self) -> int:
        return len(self._clusters)

    @property
    def files(self) -> dict[str, tuple[str, int]]:
        """Dtype and length of each file."""
        return {self._names[key]: (key[1], length) for key, length in self._lengths.items()}

    def rebuild(self, files: Mapping[str, Array], n_features: int) -> tuple[tuple[Scorer, ...], Scorer]:
        """Return the clusters' scorers and the global one, made of the files' flat arrays."""
        starts = dict.fromkeys(self._lengths, 0)

        def build(position: int) -> Scorer:
            form = self._forms[position]
            arrays = {}
            for role, (dtype, shape) in form["arrays"].items():
                start = starts[role, dtype]
                stop = starts[role, dtype] = start + math.prod(shape)
                arrays[role] = files[self._names[role, dtype]][start:stop].reshape(shape)
            members = tuple(build(member) for member in form["members"])
            return SCORERS[form["kind"]].rebuild(form["settings"], arrays, members, n_features)

        try:
            return tuple(build(position) for position in self._clusters), build(self._global)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise ArtifactCorrupt(
                f"{MANIFEST}: scorers: expected what a scorer is made of: {error!r}"
            ) from None

    def _walk(self) -> Iterator[Mapping[str, Any]]:
        pending = [self._global, *reversed(self._clusters)]
        while pending:
            form = self._forms[pending.pop()]
            yield form
            pending.extend(reversed(form["members"]))

    def _check(self) -> None:
        if not isinstance(self._forms, list) or not isinstance(self._clusters, list):
            raise ArtifactCorrupt(f"{MANIFEST}: scorers: expected arrays of clusters and forms, found others")
        sizes: list[int] = []
        depths: list[int] = []
        for position, form in enumerate(self._forms):
            where = f"{MANIFEST}: scorers: form {position}"
            if not isinstance(form, dict) or set(form) != _FORM:
                raise ArtifactCorrupt(f"{where}: expected kind, settings, arrays and members, found others")
            if not isinstance(form["kind"], str) or form["kind"] not in SCORERS:
                raise ArtifactCorrupt(
                    f"{where}: expected a kind of {', '.join(SCORERS)}, found {form['kind']!r}"
                )
            if not isinstance(form["settings"], dict) or not isinstance(form["arrays"], dict):
                raise ArtifactCorrupt(f"{where}: expected settings and arrays by name, found others")
            for role, spec in form["arrays"].items():
                _check_array(f"{where}: {role}", role, spec)
            members = form["members"]
            if not isinstance(members, list) or not all(_is_position(member, position) for member in members):
                raise ArtifactCorrupt(
                    f"{where}: expected members among the forms before it, found {members!r:.60}"
                )
            sizes.append(1 + sum(sizes[member] for member in members))
            depths.append(1 + max((depths[member] for member in members), default=0))
        for position in (*self._clusters, self._global):
            if not _is_position(position, len(self._forms)):
                raise ArtifactCorrupt(
                    f"{MANIFEST}: scorers: expected one of {len(self._forms)} forms, found {position!r:.60}"
                )
        total = sum(sizes[position] for position in (*self._clusters, self._global))
        if total > _MOST_SCORERS or max(depths) > 32:
            raise ArtifactCorrupt(
                f"{MANIFEST}: scorers: expected at most {_MOST_SCORERS}, nested at most 32 deep, "
                f"found {total}, {max(depths)} deep"
            )


def _check_array(where: str, role: str, spec: Any) -> None:
    if not role.isidentifier() or not role.isascii() or role != role.lower():
        raise ArtifactCorrupt(f"{where}: expected a role in lower case, found {role!r:.60}")
    if (
        not isinstance(spec, list)
        or len(spec) != 2
        or not isinstance(spec[0], str)
        or spec[0] not in DTYPES
        or not isinstance(spec[1], list)
        or len(spec[1]) > 8
        or not all(_is_position(length, 2**48) for length in spec[1])
    ):
        raise ArtifactCorrupt(f"{where}: expected a dtype and a shape, found {spec!r:.60}")


def _is_position(value: Any, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end


def _file_names(keys: Mapping[tuple[str, str], object]) -> dict[tuple[str, str], str]:
    """Name the file of each role and dtype; a role with several dtypes names all but its first."""
    names: dict[tuple[str, str], str] = {}
    roles: set[str] = set()
    for role, dtype in keys:
        names[role, dtype] = f"scorers.{role}-{dtype}.npy" if role in roles else f"scorers.{role}.npy"
        roles.add(role)
    return names
