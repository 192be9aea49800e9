"""Names for the kinds of array that cross function boundaries.

Shapes stand in docstrings: ``n_docs`` documents of one query, ``n_features`` features, ``n_components``
directions of a signature (P in the papers), ``n_queries`` training queries.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.generic]
#: Feature vectors and directions: float32, C-contiguous.
Matrix: TypeAlias = NDArray[np.float32]
#: Scores, weights, eigenvalues, labels: float64.
Vector: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
#: Positions that are stored by the million.
Ids: TypeAlias = NDArray[np.int32]
ShortInts: TypeAlias = NDArray[np.uint16]
Bits: TypeAlias = NDArray[np.bool_]
