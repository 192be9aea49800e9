"""What gives a query's documents their scores.

A scorer sees the whole cloud, because Borda counts, blends and list-relative features need it. A *leaf* names the blocks
that it wants (`localrank.features.blocks`) and scores their rows; other scorers are made of scorers.

`localrank.artifact` stores all of them in the same way, because each lists its parts: plain settings, arrays and
members. `layout` declares the arrays, and `localrank.artifact` checks them.

Invariant: identical documents get identical scores wherever they stand in the list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from localrank.arrays import one_line
from localrank.contributions import by_feature, no_sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from localrank.arrays import Array, Indices, Layouts, Matrix, Vector
    from localrank.contributions import Parts
    from localrank.features.blocks import Cloud


class Scorer(Protocol):
    """Scores one query's documents."""

    kind: ClassVar[str]
    #: What each array must be. Sizes: ``width`` of a leaf's blocks, ``members``, ``features``, and what arrays add.
    layout: ClassVar[Layouts]
    #: Fields that hold neither a setting nor an array of `layout`: members, and what is made of arrays.
    made_of: ClassVar[tuple[str, ...]]

    def score(self, cloud: Cloud, /) -> Vector:
        """Return ``[n_docs]``; higher is better; finite."""
        ...

    def contributions(self, cloud: Cloud, which: Indices, /) -> Vector:
        """Return ``[len(which), n_features]``: what each feature adds to these documents' scores beyond the list's mean.

        Raises:
            ExplanationRefused: the scorer is no sum over features.
        """
        ...

    def terms(self, cloud: Cloud, /) -> Sequence[tuple[float, Scorer]]:
        """Return the weights and members whose scores add up to the score of this list, but for a constant; none for a leaf.

        Raises:
            ExplanationRefused: the score is no such sum.
        """
        ...

    def settings(self) -> dict[str, Any]:
        """Whatever is neither an array nor another scorer, as JSON values."""
        ...

    def arrays(self) -> dict[str, Array]:
        """The arrays by role; the roles are those of `layout`."""
        ...

    def members(self) -> Sequence[Scorer]:
        """The scorers this one is made of."""
        ...

    @classmethod
    def rebuild(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, Array], members: Sequence[Scorer]
    ) -> Self:
        """Undo `settings`, `arrays` and `members`, given arrays that are as declared, and members unless it is a leaf.

        Raises:
            ValueError: they do not fit together.
        """
        ...


class Leaf(ABC):
    """A scorer of the rows of some blocks: a dataclass of ``blocks``, of the arrays in `layout` and of settings."""

    __slots__ = ()

    kind: ClassVar[str]
    layout: ClassVar[Layouts]
    made_of: ClassVar[tuple[str, ...]] = ()
    #: Which blocks of a cloud `score_rows` takes.
    blocks: str

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Before a dataclass writes one that prints every number.
        cls.__repr__ = one_line  # type: ignore[method-assign]

    def score(self, cloud: Cloud, /) -> Vector:
        return self.score_rows(cloud.rows(self.blocks))

    @abstractmethod
    def score_rows(self, rows: Matrix, /) -> Vector:
        """Score documents whose blocks have been put next to each other: ``[n_docs, width] -> [n_docs]``."""

    def contributions(self, cloud: Cloud, which: Indices, /) -> Vector:
        return by_feature(cloud, self.blocks, self.parts_of, which)

    def terms(self, cloud: Cloud, /) -> Sequence[tuple[float, Scorer]]:  # noqa: ARG002
        return ()

    def parts_of(self, rows: Matrix, /) -> Parts:  # noqa: ARG002
        """Return how the scores of documents of this list, ``[n_docs, width]``, are sums over the columns.

        Raises:
            ExplanationRefused: they are not.
        """
        raise no_sum(self.kind)

    def settings(self) -> dict[str, Any]:
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)  # type: ignore[arg-type]
            if field.name not in self.layout
        }

    def arrays(self) -> dict[str, Array]:
        return {role: getattr(self, role) for role in self.layout}

    def members(self) -> Sequence[Scorer]:
        return ()

    @classmethod
    def rebuild(
        cls,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Array],
        members: Sequence[Scorer],  # noqa: ARG003 - a leaf has none
    ) -> Self:
        return cls(**arrays, **settings)


def distinct(scorers: Iterable[Scorer]) -> list[Scorer]:
    """Return the scorers and all that they are made of, each once, members before what they are made of."""
    found: dict[Scorer, None] = {}

    def visit(scorer: Scorer) -> None:
        if scorer not in found:
            for member in scorer.members():
                visit(member)
            found[scorer] = None

    for scorer in scorers:
        visit(scorer)
    return list(found)
