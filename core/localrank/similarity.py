r"""How alike two signatures are.

Eq. 5 of LocalRank [banerjee2009], over the directions that both clouds have:

.. math:: \mathrm{sim}(D, D') = \frac{1}{r} \sum_{p=1}^{r} |u_p \cdot u'_p|, \qquad r = \min(P, r_D, r_{D'})

Three forms stand beside it. ``weighted`` counts a direction by how much of both clouds' variance it carries:

.. math:: \frac{\sum_p \sqrt{\lambda_p \lambda'_p}\, |u_p \cdot u'_p|}{\sqrt{\sum_p \lambda_p \sum_p \lambda'_p}}

The other two do not depend on the order of the directions, which is unstable where eigenvalues are close:
``subspace`` compares the spaces that the directions span. ``covariance`` compares the clouds' covariances, limited to
the directions (the RV coefficient [robert1976]):

.. math::
    \frac{1}{r} \lVert U U'^\top \rVert_F^2, \qquad
    \frac{\sum_{p,q} \lambda_p \lambda'_q (u_p \cdot u'_q)^2}{\lVert\lambda\rVert \lVert\lambda'\rVert}

All lie in [0, 1] and do not change with the order of documents, or when all of a query's documents are shifted or
scaled; ``sim(D, D) = 1`` whatever the rank of ``D``, unless it is zero: such a cloud is like nothing, 0.

Large sets are compared in blocks, so that what is made on the way stays within the cache; directions that are mapped
from a file are read in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.signature import Signature, Signatures

Similarity: TypeAlias = Literal["eq5", "weighted", "subspace", "covariance"]
SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)

#: Bytes of directions that are worked on at a time: for one result per direction, and for many results.
_BLOCK = 1 << 22
_BLOCK_OF_ALL = 1 << 19
_BLOCK_OF_PAIRS = 1 << 24


def one_to_many(signature: Signature, others: Signatures, similarity: Similarity = "eq5") -> Vector:
    """Return the similarity of one signature to many: ``[n_queries]``."""
    directions = np.asarray(others.directions)
    n_queries, n_components, n_features = directions.shape
    sums = np.empty(n_queries)
    ordered = similarity in {"eq5", "weighted"}
    block = max(1, (_BLOCK if ordered else _BLOCK_OF_ALL) // max(1, 4 * n_components * n_features))
    if ordered:
        columns = signature.directions[:, :, None]
        share = _shares(signature.eigenvalues) if similarity == "weighted" else None
        for start in range(0, n_queries, block):
            part = slice(start, start + block)
            # One matrix-vector product for each component: only the dots that count are computed. Kernels of OpenBLAS
            # also compute with the content of unused lanes and set floating-point flags for it.
            with np.errstate(invalid="ignore"):
                dots = np.abs(np.matmul(directions[part].transpose(1, 0, 2), columns)[..., 0])
            if share is None:
                sums[part] = dots.sum(axis=0)
            else:
                sums[part] = np.vecdot(share * _shares(others.eigenvalues[part]), dots.T)
    else:
        transposed = signature.directions.T
        square = _spectrum(signature.eigenvalues) if similarity == "covariance" else None
        for start in range(0, n_queries, block):
            part = slice(start, start + block)
            dots = np.square(directions[part].reshape(-1, n_features) @ transposed)
            dots = dots.reshape(-1, n_components, n_components)
            if square is None:
                sums[part] = dots.sum(axis=(1, 2))
            else:
                sums[part] = np.vecdot(_spectrum(others.eigenvalues[part]), dots @ square)
    if similarity in {"eq5", "subspace"}:
        sums /= np.maximum(np.minimum(signature.rank, others.ranks), 1)
    # Unit vectors in float32 may have a product slightly above one.
    return np.minimum(sums, 1.0, out=sums)


def all_pairs(signatures: Signatures, similarity: Similarity = "eq5") -> Vector:
    """Return the similarity of all pairs: ``[n_queries, n_queries]``, symmetric, ones on the diagonal.

    Memory beyond the result is bounded; each pair is computed once.
    """
    n_queries, n_components, n_features = signatures.directions.shape
    ordered = similarity in {"eq5", "weighted"}
    scaled = _scaled(signatures, similarity)
    sums = np.empty((n_queries, n_queries))
    per_query = 4 * n_queries * (2 if ordered else n_components**2)
    block = max(1, _BLOCK_OF_PAIRS // max(1, per_query))
    for start in range(0, n_queries, block):
        rows = scaled[start : start + block]
        left = scaled[start:]
        if ordered:
            part = np.zeros((len(rows), len(left)), np.float32)
            for p in range(n_components):
                part += np.abs(rows[:, p] @ left[:, p].T)
        else:
            dots = rows.reshape(-1, n_features) @ left.reshape(-1, n_features).T
            np.square(dots, out=dots)
            part = dots.reshape(len(rows), n_components, len(left), n_components).sum(axis=(1, 3))
        # A product and its transpose may be rounded differently.
        corner = part[:, : len(rows)]
        part[:, : len(rows)] = np.maximum(corner, corner.T)
        sums[start : start + block, start:] = part
        sums[start:, start : start + block] = part.T
    if similarity in {"eq5", "subspace"}:
        sums /= np.maximum(np.minimum(signatures.ranks[:, None], signatures.ranks[None, :]), 1)
    np.minimum(sums, 1.0, out=sums)
    np.fill_diagonal(sums, 1.0)
    return sums


def _scaled(signatures: Signatures, similarity: Similarity) -> Matrix:
    """Return the directions multiplied by their weights, so that plain products of them are the weighted ones."""
    directions = np.asarray(signatures.directions)
    if similarity == "weighted":
        weights = _shares(signatures.eigenvalues)
    elif similarity == "covariance":
        # The products are squared afterwards.
        weights = np.sqrt(_spectrum(signatures.eigenvalues))
    else:
        return directions
    return np.asarray(directions * weights[..., None], np.float32)


def _shares(eigenvalues: Vector) -> Vector:
    r"""Return :math:`\sqrt{\lambda_p / \sum_q \lambda_q}`; zeros if there is no variance."""
    # Relative to the first, so that nothing overflows or vanishes.
    relative = _relative(eigenvalues)
    return np.asarray(np.sqrt(relative / np.maximum(relative.sum(axis=-1, keepdims=True), 1.0)))


def _spectrum(eigenvalues: Vector) -> Vector:
    r"""Return :math:`\lambda_p / \lVert\lambda\rVert`; zeros if there is no variance."""
    relative = _relative(eigenvalues)
    return np.asarray(relative / np.maximum(np.sqrt(np.vecdot(relative, relative)), 1.0)[..., None])


def _relative(eigenvalues: Vector) -> Vector:
    first = eigenvalues[..., :1]
    return np.asarray(eigenvalues / np.where(first > 0, first, 1.0))
