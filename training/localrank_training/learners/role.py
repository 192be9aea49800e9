"""What every learner does.

A learner is a frozen dataclass of its settings, so that it can be written into the manifest, compared and tried with
other values. It is given documents already in the view it asks for, and returns a scorer of `localrank.scorers`.
The next learner is one module here with one entry in `localrank_training.learners.catalogue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from localrank.scorers import Scorer, View
    from localrank_training.learners.lesson import Lesson

__all__ = ["Learner"]


@runtime_checkable
class Learner(Protocol):
    """Learns one scorer from judged queries."""

    #: Its name in configuration.
    method: ClassVar[str]

    @property
    def view(self) -> View:
        """Which view of the documents `fit` takes; the scorer it returns asks for the same."""
        ...

    def fit(self, lesson: Lesson) -> Scorer:
        """Learn one scorer.

        Raises:
            InvalidData: the queries cannot be learned from at all (no pair of documents with different labels).
            InvalidConfiguration: a setting does not fit these queries, or the learner cannot use ``lesson.towards``.
        """
        ...
