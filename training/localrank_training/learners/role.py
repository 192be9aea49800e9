"""What every learner does.

A learner is a frozen dataclass of its settings, so that it can be written into the manifest, compared and tried with
other values. It is given documents in the blocks it asks for, and returns a scorer of `localrank.scorers`.
The next learner is one module here with one entry in `localrank_training.learners.catalogue`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable

from localrank.blocks import canonical

if TYPE_CHECKING:
    from localrank.scorers import Scorer
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.notes import Note

__all__ = ["Grid", "Learner", "settle_blocks"]

#: Values to choose from, by setting.
Grid: TypeAlias = Mapping[str, Sequence[Any]]


@runtime_checkable
class Learner(Protocol):
    """Learns one scorer from judged queries."""

    #: Its name in configuration.
    method: ClassVar[str]
    #: What is chosen from if a configuration leaves these settings out.
    grid: ClassVar[Grid] = {}
    #: Whether it can learn ``towards`` another scorer.
    continues: ClassVar[bool] = False

    @property
    def blocks(self) -> str:
        """Which blocks of the documents `fit` takes, such as ``[raw, zscore * 0.25, rank]`` (`localrank.blocks`).

        A scorer that it returns asks for these or for some of them.
        """
        ...

    def fit(self, lesson: Lesson) -> Scorer:
        """Learn one scorer.

        Raises:
            InvalidData: the queries cannot be learned from at all (no pair of documents with different labels).
            InvalidConfiguration: a setting does not fit these queries, or the learner cannot use ``lesson.towards``.
        """
        ...

    def settled(self, notes: Sequence[Note]) -> Self:  # noqa: ARG002
        """Return a learner that needs no validation queries, because it repeats what those decided.

        Args:
            notes: what it noted when it learned with validation queries.
        """
        return self


def settle_blocks(learner: Learner) -> None:
    """Give the setting ``blocks`` of a learner its one spelling; for its ``__post_init__``."""
    object.__setattr__(learner, "blocks", canonical(learner.blocks))
