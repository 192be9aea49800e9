"""What every learner does.

A learner is a frozen dataclass of its settings, so that it can be written into the manifest, compared and tried with
other values. What a setting takes is said where it is declared, and checked here for all learners. A learner is given
documents in the blocks it asks for, and returns a scorer of `localrank.scorers`.
The next learner is one module here with one entry in `localrank_training.learners.catalogue`; a learner of another package
is an entry point (`localrank_training.plugins`). It returns a kind of scorer that core knows, and cannot add one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable

from localrank.errors import InvalidConfiguration
from localrank.features.blocks import canonical, parse
from localrank.scorers import SCORERS
from localrank.settings import settings_of, settle

if TYPE_CHECKING:
    from localrank.scorers import Scorer
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.notes import Note

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
    #: Whether it learns from documents with missing values.
    missing: ClassVar[bool] = False
    #: Whether its scorers keep the directions of features (`Lesson.signs`).
    monotone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check kind and bounds of every setting, then what several must agree on.

        Raises:
            InvalidConfiguration: a setting does not fit.
        """
        settle(self)
        self.agree()
        if any(one.name == "blocks" for one in settings_of(type(self))):
            object.__setattr__(self, "blocks", canonical(self.blocks))

    def agree(self) -> None:
        """Check settings against each other, and settle those that others decide.

        Raises:
            InvalidConfiguration: two settings do not fit each other.
        """
        return

    @property
    def blocks(self) -> str:
        """Which blocks of the documents `fit` takes, such as ``[raw, zscore * 0.25, rank]`` (`localrank.features.blocks`).

        A scorer that it returns asks for these or for some of them.
        """
        ...

    def takes_gaps(self) -> bool:
        """Return whether it can learn if the block `raw` has missing values; no other block has any."""
        return self.missing or not any(block.name == "raw" for block in parse(self.blocks))

    def keeps_directions(self) -> bool:
        """Return whether its scorers keep the directions of features; a product of two features has none."""
        return self.monotone and not any(block.name == "quadratic" for block in parse(self.blocks))

    def fit(self, lesson: Lesson) -> Scorer:
        """Learn one scorer.

        Raises:
            InvalidData: the queries cannot be learned from at all (no pair of documents with different labels).
            InvalidConfiguration: a setting does not fit these queries, or the learner cannot use ``lesson.towards``.
        """
        ...

    def learn(self, lesson: Lesson) -> Scorer:
        """`fit`, and check what a plug-in returns.

        Raises:
            InvalidConfiguration: core does not know this kind of scorer.
        """
        scorer = self.fit(lesson)
        if not isinstance(scorer, tuple(SCORERS.values())):
            raise InvalidConfiguration(
                f"learner {self.method!r}: fit: expected a scorer of localrank.scorers ({', '.join(SCORERS)}), "
                f"found {scorer!r}"
            )
        return scorer

    def settled(self, notes: Sequence[Note]) -> Self:  # noqa: ARG002
        """Return a learner that needs no validation queries, because it repeats what those decided.

        Args:
            notes: what it noted when it learned with validation queries.
        """
        return self
