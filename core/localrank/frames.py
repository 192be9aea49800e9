"""Documents and ids as callers have them: arrays, lists, and frames of pandas, polars or Arrow.

A frame is read by the names of its columns, never by their places, so that another order of the columns is not another
ranking. Frames and series are known by what they can do. This module imports none of these libraries.

A missing value (None, NaN, null, ``pandas.NA``) becomes NaN. Where the model has a category, values become its codes. Elsewhere
text, categories, dates and complex numbers are refused, although numpy could make numbers of them. A frame that is not in memory
yet, such as Polars' `LazyFrame`, is refused too: only its owner knows when to compute it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from decimal import Decimal
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from localrank.errors import InvalidDocuments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from localrank.arrays import Matrix

_NONE: Mapping[int, Any] = MappingProxyType({})
#: Kinds of numpy's types that are numbers: bool, integers, floats.
_NUMBERS = "biuf"
_KINDS = {"U": "text", "S": "text", "T": "text", "M": "dates", "m": "durations", "c": "complex numbers"}


#: What to do about dates.
_DATES = "; give the days since 1970, as --date makes them of the columns of files"


class Indexed(Protocol):
    """Has a length and items: a sequence, an array, a series, or a frame."""

    def __len__(self) -> int: ...

    def __getitem__(self, item: Any, /) -> Any: ...


def columns_of(documents: Any) -> list[Any] | None:
    """Return the names of a frame's columns as they are, ``None`` if it is no frame.

    Raises:
        InvalidDocuments: a name stands twice, or the frame is not in memory yet.
    """
    if isinstance(documents, np.ndarray | Mapping):
        return None
    if not hasattr(type(documents), "__len__"):
        if hasattr(type(documents), "collect"):
            raise InvalidDocuments(
                f"expected documents in memory, found a {type(documents).__name__}; its collect() brings them there"
            )
        return None
    columns = getattr(documents, "column_names", getattr(documents, "columns", None))
    if columns is None or callable(columns):
        return None
    listed = list(columns)
    seen = set()
    for name in listed:
        if name in seen:
            raise InvalidDocuments(f"expected every column once, found {name!r} again")
        seen.add(name)
    return listed


def names_of(columns: Sequence[Any]) -> tuple[str, ...] | None:
    """Return the names of features that columns have, ``None`` if they have only the numbers that pandas gives: 0, 1, 2, ….

    Raises:
        InvalidDocuments: a name is no text, or the numbers are not in order, as after a selection of columns.
    """
    if all(isinstance(name, str) for name in columns):
        return tuple(columns) or None
    numbered = [isinstance(name, int | np.integer) and not isinstance(name, bool) for name in columns]
    if all(numbered) and list(columns) == list(range(len(columns))):
        return None
    wrong = next(
        name
        for at, name in enumerate(columns)
        if not (isinstance(name, str) or (all(numbered) and name == at))
    )
    raise InvalidDocuments(
        f"expected the names of features as the names of all columns, or 0 to {len(columns) - 1} in this order, "
        f"found {wrong!r}"
    )


def matrix(
    documents: Any, columns: Sequence[Any] | None, codes: Mapping[int, Callable[[Any], float]] = _NONE
) -> Matrix:
    """Return ``[n_docs, n_features]``: these columns of a frame, or without columns an array or lists.

    Args:
        documents: a frame, lists or an array of objects, which hold the values of categories, or an array of numbers, which
            holds their codes.
        columns: of a frame.
        codes: what gives the code of a value, by the position of the category.
    """
    if isinstance(documents, np.ndarray) and documents.dtype.kind == "O" and documents.ndim == 2:
        documents = documents.tolist()
    if codes and columns is None and not isinstance(documents, np.ndarray):
        _check_rows(documents)
        rows = [list(row) for row in documents]
        if len({*map(len, rows)}) > 1:
            raise InvalidDocuments(
                "expected rows of the same length in the documents, found different lengths"
            )
        documents = dict(enumerate(zip(*rows, strict=True)))
        columns = [*documents]
        return _side_by_side(documents, columns, codes, len(rows))
    with np.errstate(over="ignore"):  # The contract names a value that is beyond float32.
        if columns is None:
            _check_rows(documents)
            return np.ascontiguousarray(as_numbers(documents, "the documents"), np.float32)
    return _side_by_side(documents, columns, codes, len(documents))


def _side_by_side(
    documents: Any, columns: Sequence[Any], codes: Mapping[int, Callable[[Any], float]], n_docs: int
) -> Matrix:
    found = np.empty((n_docs, len(columns)), np.float32)
    for position, name in enumerate(columns):
        where = f"the column {name!r}"
        code_of = codes.get(position)
        values = (
            as_numbers(documents[name], where)
            if code_of is None
            else _as_codes(documents[name], code_of, where)
        )
        if values.shape != (n_docs,):
            raise InvalidDocuments(f"expected one value per document in {where}, found shape {values.shape}")
        with np.errstate(over="ignore"):  # The contract names a value that is beyond float32.
            found[:, position] = values
    return found


def _as_codes(values: Any, code_of: Callable[[Any], float], where: str) -> NDArray[Any]:
    if hasattr(values, "to_pylist"):
        values = values.to_pylist()
    listed: Any = values if isinstance(values, list | tuple) else np.asarray(values, object).ravel()
    try:
        return np.array([np.nan if _is_null(value) else code_of(value) for value in listed], np.float64)
    except TypeError as error:
        raise InvalidDocuments(f"{where}: {error}") from None


def _check_rows(documents: Any) -> None:
    """Refuse rows with names, such as those of a frame one by one: they would be taken by place."""
    for row in documents if isinstance(documents, list | tuple) else ():
        index = getattr(row, "_fields", getattr(row, "index", None))
        names = () if index is None or callable(index) else tuple(index)
        if names != tuple(range(len(names))):
            more = " and more" if len(names) > 2 else ""
            raise InvalidDocuments(
                f"expected a frame or rows without names, found a row with the names "
                f"{', '.join(map(repr, names[:2]))}{more}"
            )


def as_numbers(values: Any, where: str) -> NDArray[Any]:
    """Return an array, series or list as an array of numbers; missing values are NaN.

    Raises:
        InvalidDocuments: something in it is no number; it names ``where``.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in _NUMBERS:
        return values
    kind = values.dtype if hasattr(values, "dtype") else getattr(values, "type", None)
    if str(kind) == "category" or str(kind).startswith("dictionary<"):
        raise InvalidDocuments(f"expected numbers in {where}, found categories")
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidDocuments(
            f"expected rows of the same length in {where}, found different lengths"
        ) from None
    if array.dtype.kind in _NUMBERS:
        return array
    if array.dtype.kind != "O":
        found = _KINDS.get(array.dtype.kind, str(array.dtype)) + _DATES * (array.dtype.kind == "M")
        raise InvalidDocuments(f"expected numbers in {where}, found {found}")
    if getattr(kind, "kind", "O") in _NUMBERS:
        # pandas: numbers beside `pandas.NA`.
        nullable: NDArray[Any] = values.to_numpy(np.float64, na_value=np.nan)
        return nullable
    return np.array([_number(value, where) for value in array.ravel()], np.float64).reshape(array.shape)


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, NaN, NaT or ``pandas.NA``."""
    # NaN and NaT are not equal to themselves; `pandas.NA` cannot be asked.
    return _is_null(value) or bool(value != value)  # noqa: PLR0124


def _is_null(value: Any) -> bool:
    return value is None or value is getattr(sys.modules.get("pandas"), "NA", None)


def _number(value: Any, where: str) -> float:
    if _is_null(value):
        return np.nan
    if not isinstance(value, Real | Decimal | np.bool_):
        found = "text" if isinstance(value, str | bytes) else f"a {type(value).__name__}"
        found += _DATES * isinstance(value, date)
        raise InvalidDocuments(f"expected numbers in {where}, found {found}")
    try:
        return float(value)
    except OverflowError:
        return np.inf


def as_tuple(ids: Any) -> tuple[Any, ...]:
    """Return ids by place, whatever sequence holds them: a list, an array, a series of any index.

    Raises:
        ValueError: they are no sequence, so their order says nothing.
    """
    if (
        isinstance(ids, str | bytes | Mapping | AbstractSet)
        or not hasattr(ids, "__len__")
        or columns_of(ids) is not None
    ):
        raise ValueError(f"expected a sequence of ids, found a {type(ids).__name__}")
    # Arrow would give scalars of its own.
    return tuple(ids.to_pylist() if hasattr(ids, "to_pylist") else ids)
