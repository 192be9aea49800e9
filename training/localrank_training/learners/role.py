"""What every learner does.

A learner is a frozen dataclass of its settings, so that it can be written into the manifest, compared and tried with
other values. It is given documents already in the view it asks for, and returns a scorer of `localrank.scorers`.
The next learner is one module here with one entry in `localrank_training.learners.catalogue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank.scorers import Scorer, View
    from localrank_training.data.queries import QuerySet

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

    def fit(
        self,
        queries: QuerySet,
        *,
        weights: Vector | None = None,
        validation: QuerySet | None = None,
        start: Scorer | None = None,
    ) -> Scorer:
        """Learn from the queries.

        Args:
            queries: judged queries whose documents are already viewed; finite, unless the learner takes NaN.
            weights: ``[n_queries]`` how much each query counts, not negative; all the same by default.
            validation: for learners that stop early.
            start: where to start, such as the global scorer or the one of a neighbouring setting. The optimum of a
                convex learner does not depend on it.

        Raises:
            InvalidData: the queries cannot be learned from at all (no pair of documents with different labels).
            InvalidConfiguration: a setting does not fit these queries.
        """
        ...
