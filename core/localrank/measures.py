"""How alike two queries are: every similarity by its name, with the kind of points that it takes.

Invariant: a similarity is symmetric, lies in [0, 1], and is 1 for a point and itself. So ``1 - similarity`` orders pairs
as a distance would, whatever the points are.

A new similarity is an entry of `MEASURES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from localrank.errors import InvalidConfiguration
from localrank.gaussian import (
    GaussianPoints,
    bhattacharyya_to_all,
    bhattacharyya_to_many,
    divergence_to_all,
    divergence_to_many,
)
from localrank.signature import Signatures
from localrank.similarity import SIMILARITIES
from localrank.similarity import all_pairs as signature_pairs
from localrank.similarity import one_to_many as signature_to_many
from localrank.vectors import VectorPoints, euclidean_to_all, euclidean_to_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Vector
    from localrank.representation import Point, Points


@dataclass(frozen=True, slots=True)
class Measure:
    """One similarity.

    Attributes:
        takes: the kind of points that it compares.
        one_to_many: ``(point, points) -> [n_queries]``.
        all_pairs: ``(points) -> [n_queries, n_queries]``.
    """

    takes: type[Points]
    one_to_many: Callable[[Any, Any], Vector]
    all_pairs: Callable[[Any], Vector]


#: By the name that configuration and artifacts use.
MEASURES: dict[str, Measure] = {
    **{
        form: Measure(
            Signatures, partial(signature_to_many, similarity=form), partial(signature_pairs, similarity=form)
        )
        for form in SIMILARITIES
    },
    "euclidean": Measure(VectorPoints, euclidean_to_many, euclidean_to_all),
    "kl": Measure(GaussianPoints, divergence_to_many, divergence_to_all),
    "bhattacharyya": Measure(GaussianPoints, bhattacharyya_to_many, bhattacharyya_to_all),
}


def measure_of(similarity: str, points: Points) -> Measure:
    """Return a similarity by name.

    Raises:
        InvalidConfiguration: no similarity has this name, or it compares other points.
    """
    measure = MEASURES.get(similarity)
    if measure is None:
        raise InvalidConfiguration(f"similarity: expected one of {', '.join(MEASURES)}, found {similarity!r}")
    if not isinstance(points, measure.takes):
        raise InvalidConfiguration(
            f"similarity: {similarity!r} compares {measure.takes.__name__}, found {type(points).__name__}"
        )
    return measure


def one_to_many(point: Point, others: Points, similarity: str) -> Vector:
    """Return the similarity of one point to many: ``[n_queries]``."""
    return measure_of(similarity, others).one_to_many(point, others)


def all_pairs(points: Points, similarity: str) -> Vector:
    """Return the similarity of all pairs: ``[n_queries, n_queries]``."""
    return measure_of(similarity, points).all_pairs(points)
