r"""Training queries' directions in a quarter of their bytes, with a bound on what that leaves out.

A direction :math:`v` is a scale times whole numbers from -127 to 127 and a rest, :math:`v = s c + e`, so that for a unit
vector :math:`u` whose own rounding is :math:`f`

.. math:: |u \cdot v| \le |(u - f) \cdot s c| + \lVert e \rVert + \lVert f \rVert \lVert s c \rVert,

which costs a few instructions for dozens of features. Whatever is below what another training query has for certain need
not be compared. What the search finds is what it would find without; only `localrank.nearest` makes use of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from localrank.arrays import Indices, Matrix

__all__ = ["LANES", "Sketch"]

#: Training queries that stand next to each other.
LANES = 16
#: Directions longer than this are none.
_LONGEST = 1.001
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A sketch of every training query, sixteen after sixteen; those beyond the last are like nothing.

    Attributes:
        codes: ``[blocks, P, pairs, 16, 2]`` int8: of two features in turn what sixteen training queries have.
        scales: ``[blocks, P, 16]``.
        errors: ``[blocks, 16]``, the sum of the rests' lengths, rounded up.
        ranks: ``[blocks, 16]``.
        reach: the length of the longest ``s c``.
    """

    codes: NDArray[np.int8]
    scales: Matrix
    errors: Matrix
    ranks: Matrix
    reach: float

    @classmethod
    def of(cls, directions: Matrix, ranks: Indices) -> Self | None:
        """Sketch ``[n_queries, P, n_features]``; nothing where these are not directions."""
        n_queries, n_components, n_features = directions.shape
        blocks, pairs = -(-n_queries // LANES), -(-n_features // 2)
        codes = np.zeros((blocks, n_components, pairs, LANES, 2), np.int8)
        scales = np.zeros((blocks, n_components, LANES), np.float32)
        errors = np.full((blocks, LANES), -np.inf, np.float32)
        reach = 0.0
        step = max(1, _BLOCK // (8 * LANES * n_components * n_features))
        for first in range(0, blocks, step):
            part = np.asarray(directions[LANES * first : LANES * (first + step)], np.float64)
            if not (np.sqrt(np.vecdot(part, part)) <= _LONGEST).all():
                return None
            scale = np.asarray(np.abs(part).max(axis=2) / 127, np.float32)
            # What a direction of zeros is divided by does not matter.
            code = np.rint(part / np.where(scale > 0, scale, 1)[..., None]).clip(-127, 127)
            kept = code * scale[..., None]
            rest = np.sqrt(np.vecdot(part - kept, part - kept)).sum(axis=1)
            reach = max(reach, float(np.sqrt(np.vecdot(kept, kept)).max()))
            full = np.zeros((-(-len(part) // LANES) * LANES, n_components, 2 * pairs), np.int8)
            full[: len(part), :, :n_features] = code
            here = slice(first, first + len(full) // LANES)
            codes[here] = full.reshape(-1, LANES, n_components, pairs, 2).transpose(0, 2, 3, 1, 4)
            scales[here] = _padded(scale, 0.0).transpose(0, 2, 1)
            errors[here] = _padded(np.nextafter(rest.astype(np.float32), np.float32(np.inf)), -np.inf)
        return cls(codes, scales, errors, _padded(ranks.astype(np.float32), 0.0), reach)


def _padded(values: Matrix, beyond: float) -> Matrix:
    """Return ``[n_queries, ...]`` as ``[blocks, 16, ...]``."""
    full = np.full((-(-len(values) // LANES) * LANES, *values.shape[1:]), beyond, np.float32)
    full[: len(values)] = values
    return full.reshape(-1, LANES, *values.shape[1:])
