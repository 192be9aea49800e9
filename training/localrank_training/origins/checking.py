"""Whether an imported model gives the scores of the library that it comes from.

Synthetic documents from the splits of a model, if there are no data: they reach every leaf of every tree.

Each feature takes values at each threshold, just above it and between thresholds, so that a comparison with the origin
notices a ``<`` that became a ``<=``, a default direction that is wrong, or a threshold that was rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.disk import read_plain
from localrank.errors import InvalidData
from localrank.scorers import StumpScorer, TreesScorer
from localrank.scorers.trees import CATEGORICAL
from localrank.scorers.walk import ZERO_REACH

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Matrix, Vector
    from localrank_training.origins.model import OriginModel

#: Queries and documents; a probe takes at most 200 documents of each.
_QUERIES, _DOCUMENTS = 16, 100
_MISSING = 0.1
_CATEGORIES = 256.0


def made_queries(model: OriginModel, seed: int = 0) -> list[Matrix]:
    """Return queries of one document and more."""
    rng = np.random.default_rng(seed)
    lengths = [1, *rng.integers(2, _DOCUMENTS + 1, _QUERIES - 1).tolist()]
    documents = np.empty((sum(lengths), model.n_features), np.float32)
    thresholds = _thresholds(model)
    for feature in range(model.n_features):
        if feature in model.categories:
            values = np.arange(len(model.categories[feature]) + 1, dtype=np.float32)
        else:
            values = _values(thresholds.get(feature, np.zeros(0)), rng)
        documents[:, feature] = rng.choice(values, len(documents))
    if model.missing == "nan":
        documents[rng.random(documents.shape) < _MISSING] = np.nan
    return [np.ascontiguousarray(part) for part in np.split(documents, np.cumsum(lengths)[:-1])]


def _thresholds(model: OriginModel) -> dict[int, Vector]:
    """Return the thresholds of each feature; for a feature of categories, the categories of its sets."""
    scorer = model.scorer
    if not isinstance(scorer, StumpScorer | TreesScorer) or not len(scorer.features):
        return {}
    order = np.argsort(scorer.features, kind="stable")
    used, begins = np.unique(scorer.features[order], return_index=True)
    parts = dict(zip(used.tolist(), np.split(scorer.thresholds[order], begins[1:]), strict=True))
    if isinstance(scorer, TreesScorer) and len(scorer.category_words):
        categories = np.arange(min(32.0 * scorer.category_words.max(), _CATEGORIES))
        for feature in np.unique(scorer.features[(scorer.decisions & CATEGORICAL) > 0]).tolist():
            parts[feature] = categories
    return parts


def _values(thresholds: Vector, rng: np.random.Generator) -> Matrix:
    """Return what a feature takes: whole numbers if nothing splits it, else values at, above and between."""
    plain = np.array([-1.0, 0.0, 1.0, 2.5])
    with np.errstate(over="ignore"):
        at = np.unique(thresholds).astype(np.float32)
        at = at[np.isfinite(at)]
        if not len(at):
            return np.concatenate([plain, rng.standard_normal(8)]).astype(np.float32)
        above, below = np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))
        between = at[:-1] / 2 + at[1:] / 2
        outside = np.array([at[0] - abs(at[0]) / 8 - 1, at[-1] + abs(at[-1]) / 8 + 1, 0.0], np.float32)
    values = np.concatenate([at, above, below, between, np.trunc(at), outside])
    finite: Matrix = values[np.isfinite(values)].astype(np.float32)
    # LightGBM takes everything that is not larger for zero before it looks at its trees.
    finite[np.abs(finite) <= ZERO_REACH] = 0.0
    return finite


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
