"""One generation of a table in memory, and what a model takes from it.

Categories have the codes of the table, which are those of its own values. `Lookup` turns them into the codes of a model's
contract: a value that the model does not know is unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from localrank.arrays import one_line
from localrank.errors import ContractMismatch, InvalidDocuments
from localrank.native.items import Filling, Slots, fill
from localrank.tables.ids import finder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from localrank.arrays import Indices, Matrix
    from localrank.features.contract import FeatureContract
    from localrank.features.feature import Feature
    from localrank.frames import Indexed

#: Names in a sentence.
_FEW = 5


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ItemTable:
    """The features of items, by id.

    Attributes:
        name, generation: under which it was published.
        created: when, as the publisher wrote it.
        columns: name, kind and values of each.
        key: ``[2]`` of the hash.
        slots: find an id's row.
        values: ``[n_items, n_columns]``, NaN for no value.
        hold: keeps the files that the arrays are mapped from.
    """

    name: str
    generation: int
    created: str
    columns: tuple[Feature, ...]
    key: NDArray[np.uint64]
    slots: Slots
    values: Matrix
    hold: object = None
    _find: Callable[[Sequence[Any]], Indices] = field(init=False, repr=False)

    __repr__ = one_line

    def __post_init__(self) -> None:
        object.__setattr__(self, "_find", finder(self.key, self.slots))

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.values)

    @property
    def first_id(self) -> str:
        """The id of the first item, for messages; there must be one."""
        return self.slots.content[: int(self.slots.ends[1])].tobytes().decode(errors="replace")

    def rows(self, ids: Sequence[Any]) -> Indices:
        """Return ``[n]`` the row of each id, -1 for one that is not here.

        Args:
            ids: texts, or whole numbers, which are the same as their digits.
        """
        return self._find(ids)


class FilledDocuments(NamedTuple):
    """Documents with what tables hold of them.

    Attributes:
        documents: ``[n_docs, n_features]``.
        unknown: by table, how many ids it does not have.
    """

    documents: Matrix
    unknown: dict[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """The columns of one table that a model takes.

    Attributes:
        table: that is looked into.
        filling: which columns become which features.
    """

    table: ItemTable
    filling: Filling

    __repr__ = one_line

    @classmethod
    def of(cls, table: ItemTable, contract: FeatureContract) -> Lookup:
        """Return what a model with this contract takes from the table.

        Raises:
            ContractMismatch: the table lacks a feature of the model, or has it as another kind, or a category has no
                value that the model knows.
        """
        there = {one.name: at for at, one in enumerate(table.columns)}
        wanted = contract.tables[table.name]
        if lacking := [contract.names[at] for at in wanted if contract.names[at] not in there]:
            shown = _few(lacking)
            raise ContractMismatch(
                f"table {table.name}, generation {table.generation}: expected the columns that the model was trained "
                f"with, found none called {shown}, but {_few(list(there))}"
            )
        taken = [there[contract.names[at]] for at in wanted]
        begins, codes = [], [np.zeros(0, np.float32)]
        for at, column in zip(wanted, taken, strict=True):
            own = _codes(table, table.columns[column], contract.features[at])
            begins.append(-1 if own is None else sum(map(len, codes)))
            codes.append(np.zeros(0, np.float32) if own is None else own)
        return cls(
            table,
            Filling(
                table.values,
                np.array(taken, np.int64),
                np.array(wanted, np.int64),
                np.array(begins, np.int64),
                np.concatenate(codes),
            ),
        )

    def fill(self, documents: Matrix, ids: Sequence[Any]) -> int:
        """Put the table's values where documents have none, in place; return how many ids it does not have."""
        rows = self.table.rows(ids)
        if not fill(documents, rows, self.filling):
            _fill(documents, rows, self.filling)
        return int(np.count_nonzero(rows < 0))


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_FEW])) + ", …" * (len(names) > _FEW)


def _codes(table: ItemTable, own: Feature, wanted: Feature) -> Matrix | None:
    """Return the model's code of each code of the table; ``None`` for numbers."""
    if own.kind != wanted.kind:
        raise ContractMismatch(
            f"table {table.name}, generation {table.generation}: expected {wanted.name!r} as a {wanted.kind}, as the "
            f"model was trained, found a {own.kind}"
        )
    if own.kind == "number":
        return None
    codes = np.array(wanted.codes_of(own.values), np.float32)
    if len(codes) and wanted.values and (codes == wanted.unseen).all():
        raise ContractMismatch(
            f"table {table.name}, generation {table.generation}: expected values of {wanted.name!r} that the model "
            f"was trained with, such as {wanted.values[0]!r}, found none of them, but {own.values[0]!r}"
        )
    return codes


def _fill(documents: Matrix, rows: Indices, filling: Filling) -> None:
    """Do what the compiled kernel does."""
    known = np.flatnonzero(rows >= 0)
    for column, place, begin in zip(filling.taken, filling.places, filling.begins, strict=True):
        values = filling.values[rows[known], column]
        if begin >= 0:
            held = ~np.isnan(values)
            values[held] = filling.codes[begin + values[held].astype(np.intp)]
        own = documents[known, place]
        documents[known, place] = np.where(np.isnan(own), values, own)


def _check_shape(documents: Any) -> None:
    """Refuse what has no rows: a dictionary, or a value where a row should be."""
    if isinstance(documents, Mapping):
        raise InvalidDocuments("expected rows or a frame as documents, found a dictionary")
    for at, row in enumerate(documents if isinstance(documents, list | tuple) else ()):
        if isinstance(row, str) or not hasattr(type(row), "__len__"):
            raise InvalidDocuments(f"expected a row of values for document {at}, found {row!r:.60}")


@dataclass(frozen=True, slots=True, eq=False)
class ItemLookups:
    """Everything that a model takes from tables.

    Attributes:
        contract: of the model.
        lookups: one for each table.
    """

    contract: FeatureContract
    lookups: Sequence[Lookup]

    __repr__ = one_line

    @property
    def generations(self) -> dict[str, int]:
        """The number of each table's generation, by name."""
        return {one.table.name: one.table.generation for one in self.lookups}

    def completed(self, documents: Indexed, ids: Sequence[Any]) -> FilledDocuments:
        """Return documents with the values of tables where they have none of their own; the ranker takes them.

        Args:
            documents: ``[n_docs, n_features]``, NaN being no value, or what else `FeatureContract.matrix` takes. Columns that
                are looked up may be left out.
            ids: ``[n_docs]``; ``None`` for a document without one.

        Raises:
            InvalidDocuments: there are not as many ids as documents, features are too few or too many, or a value is none.
        """
        contract = self.contract
        _check_shape(documents)
        given, _ = contract.matrix(documents, looked_up=True)
        if given.shape[1:] != (contract.n_features,) and (given.ndim != 2 or len(given)):
            found = given.shape[1] if given.ndim == 2 else f"shape {given.shape}"
            few = contract.n_features - len(contract.looked_up)
            raise InvalidDocuments(
                f"expected {few} or {contract.n_features} features per document, found {found}"
            )
        if len(ids) != len(given):
            raise InvalidDocuments(f"expected an id for each of {len(given)} documents, found {len(ids)}")
        filled = np.array(given, np.float32, order="C")
        if not len(filled):
            return FilledDocuments(np.zeros((0, contract.n_features), np.float32), {})
        unknown = {one.table.name: one.fill(filled, ids) for one in self.lookups}
        return FilledDocuments(filled, {name: count for name, count in unknown.items() if count})
