"""What a reader makes of another library's file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localrank.arrays import one_line

if TYPE_CHECKING:
    from localrank.features.contract import Missing
    from localrank.scorers import Scorer

#: Features that a model may have: more would fill the memory with synthetic documents.
MOST_FEATURES = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class OriginModel:
    """A model that another library learned.

    Attributes:
        format: which reader read it.
        scorer: what LocalRank serves.
        n_features: how many features a document has.
        names: of the features, if the file names them.
        missing: what a missing value becomes.
        offset: what the origin adds to every score and `scorer` leaves out; it changes no order.
        rounds: how many rounds of boosting count, if early stopping chose fewer than the file has.
        tolerance: how far the scores may be from the origin's, as a share of the largest; 0 means equal bits.
        ranges: of each feature in the training data, lowest and highest, if the file says so; None for a feature of
            which it does not.
        notes: what somebody who imports it should know.
        content: of the file.
    """

    format: str
    scorer: Scorer
    n_features: int
    names: tuple[str, ...] | None
    missing: Missing
    offset: float = 0.0
    rounds: int | None = None
    tolerance: float = 0.0
    ranges: tuple[tuple[float, float] | None, ...] | None = None
    notes: tuple[str, ...] = ()
    content: bytes = field(default=b"", repr=False)

    __repr__ = one_line
