"""How scorers are stored: any number of them, of any kind, made of others, in a few files.

A *form* is everything about a scorer but its numbers: kind, settings, dtype and shape of each array, forms of its
members. Each form is written once, members before what they are made of, and a scorer is the position of its form;
ten thousand linear scorers have one form. The arrays of one role and dtype are joined in one file, in
the order of a walk: the shared scorers first, then the clusters', the global one last, each before its members.

A scorer that is used more than once, such as the global one inside every cluster's, is *shared*: it is stored once and
loaded once, and ``{"shared": k}`` stands for it wherever it is used. A shared scorer refers to earlier ones only, so
that there are no cycles.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.arrays import bound
from localrank.artifact.arrays import DTYPES
from localrank.artifact.manifest import MANIFEST
from localrank.errors import ArtifactCorrupt, InvalidConfiguration, PublishFailed
from localrank.features.blocks import canonical, width_of
from localrank.scorers import SCORERS, Leaf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from localrank.arrays import Array, Content, Sizes
    from localrank.features.contract import FeatureContract
    from localrank.scorers import Scorer

#: Largest number of scorers of a model, members included, shared ones once: otherwise forms made of forms could unfold
#: without end.
_MOST_SCORERS = 2_000_000
#: Largest number of members of one scorer, members of members included, shared ones counted wherever they stand:
#: otherwise sums of shared sums could unfold without end. Each costs an addition when a query is scored.
_MOST_MEMBERS = 10_000
_DEEPEST = 32
#: No larger number is counted: it would have as many digits as there are forms.
_UNCOUNTED = 10**12
_FORM = {"kind", "settings", "arrays", "members"}
_DESCRIPTION = {"clusters", "global", "forms", "shared"}


def dismantle(scorers: Sequence[Scorer], global_scorer: Scorer) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the manifest's description of the scorers and the arrays by file name."""
    forms: list[dict[str, Any]] = []
    known: dict[str, int] = {}
    pieces: dict[tuple[str, str], list[Array]] = {}
    shared: dict[Scorer, int] = {}

    def visit(scorer: Scorer) -> int | dict[str, int]:
        """Return the reference to a scorer."""
        return {"shared": shared[scorer]} if scorer in shared else write(scorer)

    def write(scorer: Scorer) -> int:
        arrays = scorer.arrays()
        for role, array in arrays.items():
            if array.dtype.name not in scorer.layout[role].dtypes:
                raise PublishFailed(
                    f"scorer {scorer.kind!r}: {role}: expected {' or '.join(scorer.layout[role].dtypes)}, "
                    f"found {array.dtype}"
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

    written = []
    for scorer in _used_twice((*scorers, global_scorer)):
        written.append(write(scorer))
        shared[scorer] = len(shared)
    description = {
        "shared": written,
        "clusters": [visit(scorer) for scorer in scorers],
        "global": visit(global_scorer),
        "forms": forms,
    }
    names = _file_names(pieces)
    return description, {names[key]: np.concatenate(parts) for key, parts in pieces.items()}


def _used_twice(roots: Sequence[Scorer]) -> list[Scorer]:
    """Return the scorers that are used more than once, members before what they are made of."""
    uses: Counter[Scorer] = Counter()
    ordered: list[Scorer] = []

    def count(scorer: Scorer) -> None:
        uses[scorer] += 1
        if uses[scorer] == 1:
            if SCORERS.get(scorer.kind) is not type(scorer):
                raise PublishFailed(f"expected a scorer of a kind in SCORERS, found {type(scorer).__name__}")
            for member in scorer.members():
                count(member)
            ordered.append(scorer)

    for root in roots:
        count(root)
    return [scorer for scorer in ordered if uses[scorer] > 1]


class StoredScorers:
    """The scorers that a manifest describes, before their arrays are read.

    Args:
        description: as `dismantle` makes it.
        contract: of the model, which says how wide blocks are.

    Raises:
        ArtifactCorrupt: the description is not one that `dismantle` writes, or does not fit the contract.
    """

    def __init__(self, description: Mapping[str, Any], contract: FeatureContract) -> None:
        described = {"shared": [], **description}
        if set(described) != _DESCRIPTION:
            raise ArtifactCorrupt(
                f"{MANIFEST}: scorers: expected clusters, global, forms and shared, found {', '.join(description)}"
            )
        self._forms: Any = described["forms"]
        self._shared: Any = described["shared"]
        self._clusters: Any = described["clusters"]
        self._global: Any = described["global"]
        self._check()
        widths = contract.widths(len(self._clusters))
        self._contents = [
            _checked(f"{MANIFEST}: scorers: form {position}", form, widths)
            for position, form in enumerate(self._forms)
        ]
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

    def rebuild(self, files: Mapping[str, Array]) -> tuple[tuple[Scorer, ...], Scorer]:
        """Return the clusters' scorers and the global one, made of the files' flat arrays."""
        starts = dict.fromkeys(self._lengths, 0)
        shared: list[Scorer] = []

        def build(reference: int | Mapping[str, int]) -> Scorer:
            if not isinstance(reference, int):
                return shared[reference["shared"]]
            form, contents = self._forms[reference], self._contents[reference]
            arrays = {}
            for role, (dtype, shape) in form["arrays"].items():
                start = starts[role, dtype]
                stop = starts[role, dtype] = start + math.prod(shape)
                name = self._names[role, dtype]
                values = files[name][start:stop]
                if fault := contents[role].fault(values, start, None):
                    raise ArtifactCorrupt(f"{name}: {fault}")
                arrays[role] = values.reshape(shape)
            members = tuple(build(member) for member in form["members"])
            try:
                return SCORERS[form["kind"]].rebuild(form["settings"], arrays, members)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
                raise ArtifactCorrupt(f"{MANIFEST}: scorers: form {reference}: {error}") from None

        for position in self._shared:
            shared += [build(position)]
        return tuple(build(reference) for reference in self._clusters), build(self._global)

    def _walk(self) -> Iterator[Mapping[str, Any]]:
        pending = [self._global, *reversed(self._clusters), *reversed(self._shared)]
        while pending:
            reference = pending.pop()
            if isinstance(reference, int):
                form = self._forms[reference]
                yield form
                pending.extend(reversed(form["members"]))

    def _check(self) -> None:
        if not all(isinstance(one, list) for one in (self._forms, self._clusters, self._shared)):
            raise ArtifactCorrupt(
                f"{MANIFEST}: scorers: expected arrays of clusters, forms and shared scorers"
            )
        sizes: list[int] = []
        #: As many as `sizes`, with shared scorers counted wherever they stand.
        unfolded: list[int] = []
        depths: list[int] = []
        #: How many shared scorers must be there before a form can be built.
        needs: list[int] = []
        for position, form in enumerate(self._forms):
            where = f"{MANIFEST}: scorers: form {position}"
            if not isinstance(form, dict) or set(form) != _FORM:
                raise ArtifactCorrupt(
                    f"{where}: expected kind, settings, arrays and members, found other members"
                )
            if not isinstance(form["kind"], str) or form["kind"] not in SCORERS:
                raise ArtifactCorrupt(
                    f"{where}: expected a kind of {', '.join(SCORERS)}, found {form['kind']!r}"
                )
            if not isinstance(form["settings"], dict) or not isinstance(form["arrays"], dict):
                raise ArtifactCorrupt(f"{where}: expected settings and arrays by name, found something else")
            for role, spec in form["arrays"].items():
                _check_array(f"{where}: {role}", role, spec)
            members = form["members"]
            if not isinstance(members, list) or not all(self._stands(one, position) for one in members):
                raise ArtifactCorrupt(
                    f"{where}: expected members among the forms and the shared scorers before it, "
                    f"found {members!r:.60}"
                )
            sizes.append(_plus_one(sizes[member] for member in members if isinstance(member, int)))
            unfolded.append(_plus_one(unfolded[self._form_of(member)] for member in members))
            depths.append(1 + max((depths[self._form_of(member)] for member in members), default=0))
            needs.append(
                max((needs[one] if isinstance(one, int) else one["shared"] + 1 for one in members), default=0)
            )
        for reference in (*self._shared, *self._clusters, self._global):
            if not self._stands(reference, len(self._forms)):
                raise ArtifactCorrupt(
                    f"{MANIFEST}: scorers: expected one of {len(self._forms)} forms or {len(self._shared)} shared "
                    f"scorers, found {reference!r:.60}"
                )
        for position, reference in enumerate(self._shared):
            if not isinstance(reference, int) or needs[reference] > position:
                raise ArtifactCorrupt(
                    f"{MANIFEST}: scorers: shared scorer {position}: expected only shared scorers before it "
                    f"as members, found {reference!r:.60}"
                )
        roots = [one for one in (*self._shared, *self._clusters, self._global) if isinstance(one, int)]
        total, deepest = sum(sizes[position] for position in roots), max(depths)
        if total > _MOST_SCORERS or deepest > _DEEPEST:
            raise ArtifactCorrupt(
                f"{MANIFEST}: scorers: expected at most {_MOST_SCORERS}, nested at most {_DEEPEST} deep, "
                f"found {total}, {deepest} deep"
            )
        if (most := max(unfolded[position] for position in roots) - 1) > _MOST_MEMBERS:
            raise ArtifactCorrupt(
                f"{MANIFEST}: scorers: expected at most {_MOST_MEMBERS} members of a scorer, shared ones counted wherever "
                f"they stand, found {most}"
            )

    def _stands(self, reference: Any, end: int) -> bool:
        """Tell whether a value is a reference to a scorer whose form is before ``end``."""
        if isinstance(reference, dict):
            if set(reference) != {"shared"} or not _is_position(reference["shared"], len(self._shared)):
                return False
            reference = self._form_of(reference)
        return _is_position(reference, end)

    def _form_of(self, reference: Any) -> Any:
        """Return the form of the scorer that a reference names."""
        return reference if isinstance(reference, int) else self._shared[reference["shared"]]


def _checked(where: str, form: Mapping[str, Any], widths: Mapping[str, int]) -> dict[str, Content]:
    """Compare a form's settings and arrays with what its kind declares; return the rule for each array's numbers."""
    kind = SCORERS[form["kind"]]
    known = {
        field.name: field.default
        for field in fields(kind)  # type: ignore[arg-type]
        if field.name not in kind.layout and field.name not in kind.made_of
    }
    settings: Mapping[str, Any] = form["settings"]
    missing = [name for name, default in known.items() if default is MISSING and name not in settings]
    if missing or not set(settings) <= set(known):
        raise ArtifactCorrupt(
            f"{where}: expected the settings of {form['kind']!r} ({', '.join(known) or 'none'}), "
            f"found {', '.join(settings) or 'none'}"
        )
    if set(form["arrays"]) != set(kind.layout):
        raise ArtifactCorrupt(
            f"{where}: expected the arrays of {form['kind']!r} ({', '.join(kind.layout) or 'none'}), "
            f"found {', '.join(form['arrays']) or 'none'}"
        )
    sizes: Sizes = {"members": len(form["members"])}
    if issubclass(kind, Leaf) == bool(form["members"]):
        expected = "no members" if form["members"] else "members"
        raise ArtifactCorrupt(
            f"{where}: expected {expected} of {form['kind']!r}, found {len(form['members']) or 'none'}"
        )
    if issubclass(kind, Leaf):
        blocks = settings.get("blocks", known["blocks"])
        try:
            if not isinstance(blocks, str) or blocks != canonical(blocks):
                raise ArtifactCorrupt(
                    f"{where}: expected blocks as LocalRank writes them, found {blocks!r:.60}"
                )
            sizes["width"] = width_of(blocks, widths)
        except InvalidConfiguration as error:
            raise ArtifactCorrupt(f"{where}: {error}") from None
    contents = {}
    for role, layout in kind.layout.items():
        dtype, shape = form["arrays"][role]
        if fault := bound(layout, dtype, tuple(shape), sizes):
            raise ArtifactCorrupt(f"{where}: {role}: {fault}")
        contents[role] = layout.content(sizes)
    return contents


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


def _plus_one(sizes: Iterable[int]) -> int:
    return min(1 + sum(sizes), _UNCOUNTED)


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
