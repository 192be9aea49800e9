"""Dots of several kinds over the same categories; the drawing puts those of one category next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from localrank_training.report import Dots

if TYPE_CHECKING:
    from collections.abc import Sequence


class Kind(NamedTuple):
    """One kind of dots.

    Attributes:
        name: in the legend.
        categories: where it has dots.
        values: there.
        low, high: of their intervals.
    """

    name: str
    categories: Sequence[str]
    values: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def side_by_side(categories: Sequence[str], kinds: Sequence[Kind]) -> list[Dots]:
    """Return the dots of every kind, those of one category in the order of the kinds."""
    return [
        Dots(
            kind.name,
            [categories.index(category) for category in kind.categories],
            kind.values,
            kind.low,
            kind.high,
        )
        for kind in kinds
    ]
