r"""How alike two signatures are.

Eq. 5 of LocalRank, over the directions that both clouds have:

.. math:: \mathrm{sim}(D, D') = \frac{1}{r} \sum_{p=1}^{r} |u_p \cdot u'_p|, \qquad r = \min(P, r_D, r_{D'})

so that ``sim(D, D) = 1`` whatever the rank of ``D``. A cloud of rank zero is like nothing: 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank.signature import Signature, Signatures

__all__ = ["all_pairs", "one_to_many"]


def one_to_many(signature: Signature, others: Signatures) -> Vector:
    """Return eq. 5 between one signature and many: ``[n_queries]``."""
    dots = np.abs(np.einsum("pd,qpd->qp", signature.directions, others.directions))
    shared = np.minimum(signature.rank, others.ranks)
    return np.asarray(dots.sum(axis=1) / np.maximum(shared, 1), np.float64)


def all_pairs(signatures: Signatures) -> Vector:
    """Return eq. 5 between all pairs: ``[n_queries, n_queries]``, symmetric, ones on the diagonal."""
    total = np.zeros((len(signatures), len(signatures)))
    for component in range(signatures.directions.shape[1]):
        rows = signatures.directions[:, component]
        total += np.abs(rows @ rows.T)
    shared = np.minimum(signatures.ranks[:, None], signatures.ranks[None, :])
    total /= np.maximum(shared, 1)
    np.fill_diagonal(total, 1.0)
    return total
