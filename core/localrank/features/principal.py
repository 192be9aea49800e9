r"""The principal directions of one cloud of documents, by the fastest arithmetic that is precise enough.

With :math:`X` the documents minus their mean, the directions are the eigenvectors of the scatter :math:`X^\top X` and
the variances its eigenvalues over :math:`n - 1`. Where documents are fewer than features the Gram side is smaller: if
:math:`X X^\top v = \lambda v` then :math:`u = X^\top v / \sqrt\lambda`.

Everything is tried in float32, small clouds by compiled code (`localrank.native`), which takes the same steps as
`_in_single` in less than half of the time. Its directions have an error of about :math:`\epsilon \lambda_1 / \mathrm{gap}`. So they are used only if every needed
eigenvalue is far enough from the next one and from rounding. Otherwise the work is done again in float64. Large clouds
go through a block Krylov space, because reducing a large scatter to tridiagonal form costs more than a few directions
are worth; where that does not converge, the whole scatter is solved.

Invariants: no warnings and no NaN for any finite float32 input; deterministic; documents are not modified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from localrank.native.documents import DONE, IMPRECISE, PrincipalDirections, largest_eigenpairs

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector

Floats: TypeAlias = NDArray[np.floating[Any]]
#: Eigenvalues below this share of the largest are rounding of float32 features, not directions of the cloud.
_RANK_TOLERANCE = 1e-10
#: float32 answers are used if consecutive eigenvalues differ by this share of the largest. Such directions are within
#: 1e-4 of those of float64.
_CLEAR_GAP = 1e-3
#: Sums of squares between which float32 products neither overflow nor vanish.
_TAME = (1e-20, 1e20)
#: After subtraction, a remaining mean below this share of the sum of squares is negligible.
_OFF_CENTRE = 1e-9
#: From this many rows of the smaller side on, a Krylov space is cheaper than all of the scatter.
_LARGE = 512
_EPSILON = float(np.finfo(np.float32).eps)
_SINGLE = np.dtype(np.float32)
_COMPILED = PrincipalDirections(tame=_TAME, off_centre=_OFF_CENTRE, clear_gap=_CLEAR_GAP)


def principal_directions(documents: Matrix, most: int) -> tuple[Vector, Matrix]:
    r"""Return the leading variances and directions of a cloud, at most ``most``, only those above rounding.

    An eigenvalue of the scatter counts when it is above :math:`10^{-10} \lambda_1` and above
    :math:`n \epsilon^2 \lVert\mu\rVert^2`, which bounds what rounding the documents to float32 around their mean
    :math:`\mu` can add: documents that differ in their last bit only are alike.

    Returns:
        variances ``[rank]`` in decreasing order and unit directions ``[rank, n_features]``.
    """
    variances, directions, _ = principal(documents, most)
    return variances, directions


def principal_shares(documents: Matrix, most: int) -> Vector:
    """Return the share of a cloud's whole variance along each of its leading directions, ``[rank]``, at most ``most``."""
    variances, _, whole = principal(documents, most)
    return variances / whole if len(variances) else variances


def principal_variances(documents: Matrix) -> Vector:
    """Return all positive eigenvalues of the documents' covariance, largest first."""
    n_docs = len(documents)
    if n_docs < 2:
        return np.zeros(0)
    centred, extent, floor = _centred_in_double(documents)
    if extent == 0.0:
        return np.zeros(0)
    values = np.linalg.eigvalsh(_smaller_scatter(centred))[::-1][: n_docs - 1]
    real = values > max(_RANK_TOLERANCE * values[0], floor)
    return np.asarray(values[real] * (extent * extent / (n_docs - 1)), np.float64)


def principal(documents: Matrix, most: int) -> tuple[Vector, Matrix, float]:
    """Return what `principal_directions` does, and the whole variance of the cloud."""
    n_docs, n_features = documents.shape
    wanted = min(most, n_docs - 1, n_features)
    if wanted < 1:
        return np.zeros(0), np.zeros((0, n_features), np.float32), 0.0
    if min(n_docs, n_features) < _LARGE:
        outcome, variances, directions = _COMPILED.of(documents, wanted)
        if outcome == DONE:
            return variances[:wanted], directions, float(variances[wanted])
        if outcome == IMPRECISE:
            return _in_double(documents, wanted)
    found = _in_single(documents, wanted)
    return found if found is not None else _in_double(documents, wanted)


def _in_single(documents: Matrix, wanted: int) -> tuple[Vector, Matrix, float] | None:
    """Return the answer in float32 arithmetic; ``None`` if float32 is not precise enough for it."""
    n_docs = len(documents)
    centred, size, offset = _centred_in_single(documents)
    floor = n_docs * _EPSILON**2 * offset / _CLEAR_GAP
    if not max(_TAME[0], floor) < size < _TAME[1]:
        return None
    values, axes = _leading(centred, size, wanted)
    if (values[:-1] - values[1:]).min() < _CLEAR_GAP * values[0] or values[wanted - 1] < floor:
        return None
    return values[:wanted] / (n_docs - 1), axes[:wanted], size / (n_docs - 1)


def _centred_in_single(documents: Matrix) -> tuple[Matrix, float, float]:
    """Return the documents around their mean, the sum of their squares, and the square of the mean's length.

    The mean has a rounding error in proportion to the documents' distance from zero. A second mean, of what is left, has one in
    proportion to their spread only. It is subtracted too unless it is negligible. An overflow shows in the sum.
    """
    n_docs = len(documents)
    average = np.full(n_docs, 1.0 / n_docs, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = average @ documents
        centred = documents - mean
        rest = average @ centred
        size = float(np.vdot(centred, centred))
        if n_docs * float(np.vdot(rest, rest)) > _OFF_CENTRE * size:
            centred -= rest
            size = float(np.vdot(centred, centred))
        return centred, size, float(np.vdot(mean, mean))


def _in_double(documents: Matrix, wanted: int) -> tuple[Vector, Matrix, float]:
    n_docs, n_features = documents.shape
    centred, extent, floor = _centred_in_double(documents)
    if extent == 0.0:
        return np.zeros(0), np.zeros((0, n_features), np.float32), 0.0
    size, unit = float(np.vdot(centred, centred)), extent * extent / (n_docs - 1)
    values, axes = _leading(centred, size, wanted)
    rank = int(np.count_nonzero(values[:wanted] > max(_RANK_TOLERANCE * values[0], floor)))
    return values[:rank] * unit, axes[:rank].astype(np.float32), size * unit


def _centred_in_double(documents: Matrix) -> tuple[Vector, float, float]:
    """Return the documents around their mean within [-1, 1], the factor to undo that, and the floor of rounding."""
    mean = documents.mean(axis=0, dtype=np.float64)
    centred: Vector = documents - mean
    extent = max(float(centred.max()), -float(centred.min()))
    if extent == 0.0:
        return centred, 0.0, 0.0
    # Scaled before any product, so that none of them overflows or vanishes.
    centred /= extent
    mean /= extent
    return centred, extent, len(documents) * _EPSILON**2 * float(np.vdot(mean, mean))


def _leading(centred: Floats, size: float, wanted: int) -> tuple[Vector, Floats]:
    """Return ``wanted + 1`` leading eigenvalues of the scatter (zero beyond the last) and their unit directions.

    Args:
        centred: ``[n_docs, n_features]``, float32 or float64.
        size: its squared Frobenius norm, which is the sum of all eigenvalues.
        wanted: how many.
    """
    n_docs, n_features = centred.shape
    gram = n_docs < n_features
    smaller = min(n_docs, n_features)
    solved = None
    if smaller >= _LARGE:
        solved = _krylov(centred.T if gram else centred, size, wanted)
    if solved is None:
        solved = _top_eigenpairs(_smaller_scatter(centred), min(wanted + 1, smaller))
    values, rows = np.maximum(solved[0], 0.0, dtype=np.float64), solved[1]
    if gram:
        rows = rows[:wanted] @ centred
        lengths = np.sqrt(np.vecdot(rows, rows))
        rows /= np.maximum(lengths, np.finfo(rows.dtype).tiny)[:, None]
    if len(values) <= wanted:
        values = np.append(values, 0.0)
    return values, rows


def _smaller_scatter(centred: Floats) -> Floats:
    return centred @ centred.T if len(centred) < centred.shape[1] else centred.T @ centred


def _top_eigenpairs(symmetric: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues of a symmetric matrix in decreasing order, and unit eigenvectors as rows.

    Args:
        symmetric: positive semi-definite.
        count: how many.
    """
    size = len(symmetric)
    if size < _LARGE and (found := largest_eigenpairs(symmetric, count)) is not None:
        return found
    solve = lapack.ssyevr if symmetric.dtype == _SINGLE else lapack.dsyevr
    # In float32 the solver is less exact for matrices of small numbers.
    trace = symmetric.trace()
    scale = np.where(trace > 0, trace, 1.0).astype(symmetric.dtype)
    # The transpose has the memory order of LAPACK, so nothing is copied. The least work space makes
    # it reduce the matrix column by column: up to 200 rows that takes less time than blocks, and beyond as much.
    values, columns, _, _, info = solve(
        (symmetric / scale).T,
        range="I",
        lower=1,
        il=size - count + 1,
        iu=size,
        lwork=26 * size,
        overwrite_a=1,
    )
    if info != 0:
        # It can give up if many eigenvalues are equal or nearly so. The other method takes longer and does not.
        values, columns = np.linalg.eigh(symmetric / scale)
        values, columns = values[size - count :], columns[:, size - count :]
    return values[:count][::-1] * trace, columns.T[:count][::-1]


def _krylov(matrix: Floats, size: float, wanted: int) -> tuple[Floats, Floats] | None:
    r"""Return the leading eigenpairs of :math:`S = A^\top A` from a block Krylov space, or nothing if that takes long.

    The space is :math:`\mathrm{span}\{B, S B, S^2 B, \dots\}` for a random block :math:`B` [golub1977block]. Its Ritz
    pairs :math:`(\theta, y)` are accepted when :math:`\lVert S y - \theta y \rVert` is below a share of
    :math:`\theta_1` and, in float32, of the gap to the next, which bounds the angle to the true direction.

    Args:
        matrix: ``A``, ``[rows, columns]``, with at least as many rows as columns.
        size: its squared Frobenius norm.
        wanted: how many; one more eigenvalue is returned, so that the gap to it is known.
    """
    rows, columns = matrix.shape
    dtype = matrix.dtype
    width = max(8, wanted + 3)
    # float64 is used only for close eigenvalues; the whole scatter is then almost as fast.
    longest = min(columns // 3, (28 if dtype == _SINGLE else 12) * width)
    basis = np.empty((longest, columns), dtype)
    images = np.empty((longest, columns), dtype)
    ritz = np.empty((longest, longest), dtype)
    check = 3 * width
    block = np.random.default_rng(0).standard_normal((width, rows), dtype) @ matrix
    for start in range(0, longest - width + 1, width):
        end = start + width
        grown = _orthonormalised(block, basis[:start])
        if grown is None:
            return None
        basis[start:end] = grown
        images[start:end] = (grown @ matrix.T) @ matrix
        ritz[:end, start:end] = basis[:end] @ images[start:end].T
        ritz[start:end, :start] = ritz[:start, start:end].T
        if end >= check:
            check = end + max(width, end // 6)
            values, weights = _top_eigenpairs(ritz[:end, :end].copy(), wanted + 1)
            vectors = weights @ basis[:end]
            residuals = weights @ images[:end] - values[:, None] * vectors
            errors = np.sqrt(np.vecdot(residuals, residuals))[:wanted]
            if dtype == _SINGLE:
                tolerance = np.clip(1e-3 * (values[:-1] - values[1:]), 1e-6 * values[0], 1e-5 * values[0])
            else:
                tolerance = np.full(wanted, 1e-9 * values[0])
            if (errors <= tolerance).all():
                return values, vectors
        # Scaled so that the next products stay within range.
        block = images[start:end] * dtype.type(1.0 / size)
    return None


def _orthonormalised(block: Floats, basis: Floats) -> Floats | None:
    """Return an orthonormal basis of the part of a block that is outside the space of a basis, or nothing if not
    every row adds a direction.
    """
    single = block.dtype == _SINGLE
    factorise, solve = (lapack.spotrf, lapack.strtrs) if single else (lapack.dpotrf, lapack.dtrtrs)
    # Twice is enough [giraud2005].
    for _ in range(2):
        block = block - (block @ basis.T) @ basis
        lower, info = factorise((block @ block.T).T, lower=1)
        if info != 0:
            return None
        block = np.ascontiguousarray(solve(lower, block, lower=1)[0])
    return block
