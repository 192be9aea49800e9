r"""Signatures of queries, and how alike two of them are.

What a query looks like: the principal directions of its documents.

Shapes: documents ``[n_docs, n_features]``, directions ``[n_components, n_features]``. A signature always holds
``n_components`` rows; a cloud of lower rank has fewer directions, and the rows beyond its rank are zero, so that
they add nothing to any dot product.

What does not belong here: how directions are computed (`localrank.features.principal`) and finding near ones
(`localrank.routing`).

How alike two signatures are.

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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from localrank.arrays import INTEGERS, Layout, Within, finite, one_line
from localrank.features.principal import principal, principal_directions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from localrank.arrays import Bits, Indices, Layouts, Matrix, Sizes, Vector
    from localrank.features.blocks import Cloud
    from localrank.points.representation import Points

#: Largest number of rows of a signature.
_MOST_COMPONENTS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """One query's principal directions.

    Attributes:
        directions: ``[n_components, n_features]`` float32, unit rows in order of decreasing eigenvalue, zero rows
            beyond the rank.
        eigenvalues: ``[n_components]`` float64, variances along the directions, zero beyond the rank.
        rank: how many directions the cloud has, at most ``n_components``. Zero: one document, or all alike.
    """

    directions: Matrix
    eigenvalues: Vector
    rank: int

    kind: ClassVar[str] = "signature"

    __repr__ = one_line

    @property
    def known(self) -> bool:
        """Whether the cloud has any direction."""
        return self.rank > 0

    def summary(self) -> dict[str, Any]:
        return {
            "components": len(self.directions),
            "rank": self.rank,
            "eigenvalues": self.eigenvalues[: self.rank].tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Signatures:
    """Many queries' signatures, one array each.

    Attributes:
        directions: ``[n_queries, n_components, n_features]`` float32.
        eigenvalues: ``[n_queries, n_components]`` float64.
        ranks: ``[n_queries]``.
    """

    directions: Matrix
    eigenvalues: Vector
    ranks: Indices

    layout: ClassVar[Layouts] = {
        "directions": Layout(("float32",), ("points", "components", "features"), finite),
        "eigenvalues": Layout(("float64", "float32"), ("points", "components"), finite),
        "ranks": Layout(INTEGERS, ("points",), lambda sizes: Within(0, sizes["components"])),
    }

    __repr__ = one_line

    def __len__(self) -> int:
        return len(self.directions)

    @property
    def known(self) -> Bits:
        """``[n_queries]`` which clouds have any direction."""
        return np.asarray(np.asarray(self.ranks) > 0)

    def of(self, query: int) -> Signature:
        """Return one query's signature."""
        return Signature(self.directions[query], self.eigenvalues[query], int(self.ranks[query]))

    def take(self, queries: Indices) -> Signatures:
        """Return those queries' signatures, in that order."""
        return Signatures(self.directions[queries], self.eigenvalues[queries], self.ranks[queries])


@dataclass(frozen=True, slots=True)
class PcaRepresentation:
    """Sign queries with a fixed number of components (P), chosen when training, never per query."""

    components: int

    method: ClassVar[str] = "pca"
    layout: ClassVar[Layouts] = {}
    points: ClassVar[type[Points]] = Signatures

    def settings(self) -> dict[str, Any]:
        return {"components": self.components}

    def of(self, cloud: Cloud, /) -> Signature:
        """Return the signature of one query."""
        return self.sign(cloud.normalised)

    def of_all(self, clouds: Iterable[Cloud], /) -> Signatures:
        """Return the signatures of many queries, each exactly as `of` does."""
        return self.sign_all([cloud.normalised for cloud in clouds])

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:
        components = settings.get("components")
        if not isinstance(components, int) or not 1 <= components <= _MOST_COMPONENTS:
            raise ValueError(f"expected 1 to {_MOST_COMPONENTS} components, found {components!r:.60}")
        return {"components": components, "features": n_features}

    def sign(self, documents: Matrix) -> Signature:
        """Return the signature of one query's normalised documents."""
        eigenvalues, directions, _ = principal(documents, self.components)
        rank = len(eigenvalues)
        if rank < self.components:
            eigenvalues = np.append(eigenvalues, np.zeros(self.components - rank))
            beyond = np.zeros((self.components - rank, documents.shape[1]), np.float32)
            directions = np.concatenate([directions, beyond])
        return Signature(directions, eigenvalues, rank)

    def sign_all(self, queries: Sequence[Matrix]) -> Signatures:
        """Sign many queries, each exactly as `sign` does.

        One by one: for a stack of small matrices LAPACK computes all eigenvectors of each, which takes longer than
        calling it once per query for the few that are wanted.
        """
        n_features = queries[0].shape[1] if len(queries) else 0
        directions = np.zeros((len(queries), self.components, n_features), np.float32)
        eigenvalues = np.zeros((len(queries), self.components))
        ranks = np.zeros(len(queries), np.int64)
        for query, documents in enumerate(queries):
            variances, axes = principal_directions(documents, self.components)
            rank = ranks[query] = len(variances)
            directions[query, :rank] = axes
            eigenvalues[query, :rank] = variances
        return Signatures(directions, eigenvalues, ranks)


def choose_components(spectra: Sequence[Vector], share: float = 0.8, most: int = 8) -> int:
    """Return P: the median over queries of the smallest number of directions that cover ``share`` of the variance.

    Clouds without variance have no say.
    """
    needed = [
        int(np.searchsorted(np.cumsum(values), share * values.sum() * (1 - 1e-12)) + 1)
        for values in spectra
        if len(values)
    ]
    return int(np.clip(np.median(needed), 1, most)) if needed else 1


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
