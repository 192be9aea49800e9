"""Dots of several kinds over the same categories, next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from localrank_training.pages import Dots

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Kind", "side_by_side"]

#: Room that the kinds of one category share; less than 1, the distance to the next category.
_ROOM = 0.7


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
    found = []
    for number, kind in enumerate(kinds):
        aside = _ROOM * ((number + 0.5) / len(kinds) - 0.5)
        places = [categories.index(category) + aside for category in kind.categories]
        found.append(Dots(kind.name, places, kind.values, kind.low, kind.high))
    return found
