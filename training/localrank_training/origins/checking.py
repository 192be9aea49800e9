"""Whether an imported model gives the scores of the library that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.disk import read_plain
from localrank.errors import InvalidData

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank_training.origins.model import OriginModel

#: Tolerance for scores in a file, because the program that printed them rounded them.
_PRINTED = 1e-5
#: Bytes of a file of scores.
_LARGEST = 1 << 28


@dataclass(frozen=True, slots=True)
class Check:
    """What a comparison with the origin found.

    Attributes:
        against: where the expected scores come from.
        documents: how many were compared.
        deviation: the largest difference, as a share of the largest score.
        tolerance: what it may be.
    """

    against: str
    documents: int
    deviation: float
    tolerance: float

    def __str__(self) -> str:
        same = (
            "equal to the bit" if not self.deviation else f"within {self.deviation:.1e} of the largest score"
        )
        return f"{self.documents} scores are {same}, compared with {self.against}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "against": self.against,
            "documents": self.documents,
            "deviation": self.deviation,
            "tolerance": self.tolerance,
        }


def check(
    model: OriginModel, scores: Vector, expected: Vector, against: str, *, printed: bool = False
) -> Check:
    """Compare scores with those that the origin gives.

    Args:
        model: that was imported.
        scores: its own, without its offset.
        expected: the origin's.
        against: what the origin is called.
        printed: whether the expected scores were read from a file.

    Raises:
        InvalidData: they are further apart than the tolerance; the message names the worst document.
    """
    if len(expected) != len(scores):
        raise InvalidData(
            f"{against}: expected a score for each of {len(scores)} documents, found {len(expected)}"
        )
    finite = np.isfinite(expected)
    if not finite.all():
        wrong = int(np.argmin(finite))
        raise InvalidData(
            f"{against}: expected a finite score for document {wrong + 1}, found {expected[wrong]!r}"
        )
    tolerance = max(model.tolerance, _PRINTED) if printed else model.tolerance
    found = scores + model.offset if model.offset else scores
    largest = max(float(np.abs(expected).max(initial=0.0)), float(np.abs(found).max(initial=0.0)))
    difference = np.abs(found - expected) / largest if largest > 0 else np.zeros(len(found))
    worst = int(np.argmax(difference))
    if not difference[worst] <= tolerance:
        raise InvalidData(
            f"{against}: expected the score {expected[worst]!r} for document {worst + 1}, found "
            f"{found[worst]!r}; give raw scores, not probabilities"
        )
    return Check(against, len(scores), float(difference[worst]), tolerance)


def expected_scores(path: Path) -> Vector:
    """Read scores from a file: the last column of each line, as RankLib prints them, or the only one.

    Raises:
        InvalidData: names the line.
    """
    try:
        lines = read_plain(path, _LARGEST).decode().splitlines()
    except OSError as error:
        raise InvalidData(f"{path}: expected a score on each line: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path}: expected a score on each line: {error}") from None
    scores = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        last = line.split()[-1]
        try:
            score = float(last)
        except ValueError:
            score = float("nan")
        if not np.isfinite(score):
            raise InvalidData(f"{path}:{number}: expected a score, found {last!r}")
        scores.append(score)
    return np.array(scores)
