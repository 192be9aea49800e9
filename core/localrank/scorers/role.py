"""What gives a query's documents their scores.

A scorer sees the whole list at once, because Borda counts, blends and list-relative features need it. It is made of
plain settings, plain arrays and other scorers, so that any of them is stored the same way (see `localrank.artifact`).

Invariant: identical documents get identical scores wherever they stand in the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Matrix, Vector

__all__ = ["Scorer", "View"]

#: What a scorer wants to see: imputed raw values, or imputed and normalised ones.
View: TypeAlias = Literal["raw", "normalised"]


class Scorer(Protocol):
    """Scores one query's documents."""

    kind: ClassVar[str]

    @property
    def view(self) -> View:
        """Which view of the documents `score` takes."""
        ...

    def score(self, documents: Matrix, /) -> Vector:
        """``[n_docs, n_features] -> [n_docs]``; higher is better; finite."""
        ...

    def settings(self) -> dict[str, Any]:
        """Whatever is neither an array nor another scorer, as JSON values."""
        ...

    def arrays(self) -> dict[str, Array]:
        """The arrays by role; the same roles for every scorer of a kind."""
        ...

    def members(self) -> Sequence[Scorer]:
        """The scorers this one is made of."""
        ...

    @classmethod
    def rebuild(
        cls,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Array],
        members: Sequence[Scorer],
        n_features: int,
    ) -> Self:
        """Undo `settings`, `arrays` and `members`; raise `ArtifactCorrupt` where they do not fit."""
        ...
