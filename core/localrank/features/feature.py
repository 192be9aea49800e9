"""One feature of the contract: its name, its kind, and the codes of its values.

The matrix of documents holds numbers only. A category is there as a *code*: the position of its value among those that
training knew, in the order in which training met them. One more code stands for all other values. On the way in, an
absent value is NaN; the contract gives it a code of its own, so that a model may learn what an absent value means.

A value has one spelling as text, offline and online and in every format: `spelled`.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.arrays import Matrix, Vector

#: What a missing value becomes. ``nan`` reaches scorers that take raw values, and is the median elsewhere.
Missing: TypeAlias = Literal["reject", "zero", "constant", "median", "nan"]
MISSING: tuple[Missing, ...] = get_args(Missing)
#: A category has at most this many values of its own.
MOST_VALUES = 10_000
#: Of a published table.
TABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Beyond this, doubles do not hold every whole number.
_WHOLE = 2.0**53
#: A text that is a number, as CSV has it. ``007`` and ``+1`` are names.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
#: A text that is a truth value, as Python and R write it.
_TRUTHS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}


@dataclass(frozen=True, slots=True)
class Feature:
    """What is known of one feature.

    Attributes:
        name: in data, requests and reports.
        kind: ``number``, or ``category`` for values that are names.
        values: of a category, each at its code.
        scope: ``query`` if all documents of a query have the same value.
        missing: what a missing value becomes. That of a category has a code of its own.
        monotone: 1 if a larger value may never lower a score, -1 if it may never raise one.
        table: the published table that has the values of documents that bring none, by their ids.
    """

    name: str
    kind: Literal["number", "category"] = "number"
    values: tuple[str, ...] = ()
    scope: Literal["document", "query"] = "document"
    missing: Missing = "reject"
    monotone: Literal[-1, 0, 1] = 0
    table: str | None = None
    _codes: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_codes", {value: code for code, value in enumerate(self.values)})

    @property
    def plain(self) -> bool:
        """Whether it is a number of documents, of which nothing else is known."""
        return self.kind == "number" and self.scope == "document" and not self.monotone and self.table is None

    @property
    def unseen(self) -> int:
        """The code of every value that training did not know."""
        return len(self.values)

    @property
    def absent(self) -> int:
        """The code of no value; on the way in it is NaN."""
        return len(self.values) + 1

    def code_of(self, value: Any) -> float:
        """Return the code of a category's value, NaN if there is none.

        Raises:
            TypeError: it is no text, number or truth value.
        """
        text = spelled(value)
        return np.nan if text is None else float(self._codes.get(text, self.unseen))

    def codes_of(self, values: Iterable[Any]) -> list[float]:
        """Return the codes of values, as `code_of` does one by one."""
        values = list(values)
        codes: list[Any] = list(map(self._codes.get, values))
        if None in codes:
            code_of = self.code_of
            return [code_of(one) if code is None else code for one, code in zip(values, codes, strict=True)]
        return codes

    def codes_of_numbers(self, column: Matrix) -> Vector:
        """Return ``[n]`` the codes of values that were written as numbers, as LETOR text has them."""
        distinct, inverse = np.unique(column, return_inverse=True)
        codes: Vector = np.array([self.code_of(number) for number in distinct], np.float64)[inverse]
        return codes

    def value_of(self, code: float) -> str | None:
        """Return the value of a category's code, ``None`` if there is no value.

        Training did not know the value of the code `unseen`, so that it is described.
        """
        if np.isnan(code) or code == self.absent:
            return None
        return "a value that training did not know" if code == self.unseen else self.values[int(code)]


def spelled(value: Any) -> str | None:
    """Return the one spelling of a category's value: ``"nike"``, ``"true"``, ``"42"`` (also of 42.0); ``None`` for no value.

    A format of text, such as CSV, does not tell numbers and truth values from texts. So the texts ``"42.0"`` and ``"True"``
    are spelled as the number and the truth value are. Unicode writes some letters in two ways that look alike, ``é`` as one
    character or as ``e`` and an accent; their spelling is the composed one (NFC).

    Raises:
        TypeError: it is no text, number or truth value.
    """
    if isinstance(value, str):
        return _spelled_text(value) or None
    if is_absent(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, np.floating):
        # The shortest text of a float32 is that of the number which was written down.
        value = float(str(value))
    if isinstance(value, Real | Decimal):
        number = float(value)
        if np.isnan(number):
            return None
        return str(int(number)) if number.is_integer() and abs(number) < _WHOLE else repr(number)
    if value != value:  # noqa: PLR0124 - NaT and its like
        return None
    raise TypeError(f"expected a text, a number or a truth value, found a {type(value).__name__}")


def _spelled_text(text: str) -> str:
    if text[:1] in "-0123456789" and _NUMBER.fullmatch(text):
        number = float(text)
        return str(spelled(number)) if abs(number) < _WHOLE else text
    return _TRUTHS.get(text, text) if text.isascii() else unicodedata.normalize("NFC", text)


def is_absent(value: Any) -> bool:
    """Return whether it is ``None``, or what pandas has in its place."""
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def special(features: Iterable[Feature]) -> dict[str, Feature]:
    """Return by name those features of which more is known than that they are numbers of documents."""
    return {feature.name: feature for feature in features if not feature.plain}
