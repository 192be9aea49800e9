r"""Queries as normal distributions of their documents, and how far two of these are apart.

With mean :math:`\mu` and covariance :math:`\Sigma` of a query's normalised documents [banerjee2009, section 2.2]:

.. math::
    \mathrm{KL}(1 \| 2) &= \tfrac12 \big( \ln \tfrac{|\Sigma_2|}{|\Sigma_1|} + \mathrm{tr}(\Sigma_2^{-1} \Sigma_1)
        + (\mu_2 - \mu_1)^\top \Sigma_2^{-1} (\mu_2 - \mu_1) - d \big) \\
    \mathrm{JS}(1, 2) &= \tfrac12 (\mathrm{KL}(1 \| 2) + \mathrm{KL}(2 \| 1)) \\
    -\ln K(1, 2) &= \tfrac18 (\mu_2 - \mu_1)^\top S^{-1} (\mu_2 - \mu_1)
        + \tfrac12 \ln \tfrac{|S|}{\sqrt{|\Sigma_1| |\Sigma_2|}}, \qquad S = \tfrac12 (\Sigma_1 + \Sigma_2)

The paper calls eq. 2 JS, but it is half of Jeffreys' divergence, not a Jensen-Shannon divergence. In the sum the
determinants cancel. :math:`K` is the Bhattacharyya kernel (eq. 4). The similarities are :math:`1 / (1 + \mathrm{JS})`
and :math:`1 / (1 - \ln K)`: they order pairs as JS and K do, and do not vanish for distributions that are far apart.

The covariance of a query is singular if it has fewer documents than features, or features that depend on each other. So it
is shrunk towards the pooled covariance :math:`W` within the training queries:
:math:`\Sigma = (1 - s) \hat\Sigma + s W`, :math:`\hat\Sigma` the covariance of the query's documents.

Shapes: ``[n_features]`` and ``[n_features, n_features]`` for one query. Everything is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import lapack

from localrank.arrays import Layout, anything, between
from localrank.errors import ArtifactCorrupt, InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.arrays import Bits, Indices, Layouts, Sizes, Vector
    from localrank.features.blocks import Cloud
    from localrank.points.representation import Points

#: Of a mean, covariance or precision: products of larger ones could be infinite.
_BOUND = 1e100
#: Numbers of matrices that are solved at a time.
_CELLS = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPoint:
    """One query as a normal distribution.

    Attributes:
        mean: ``[n_features]``.
        covariance: ``[n_features, n_features]``, shrunk.
        precision: its inverse.
        log_determinant: of the covariance.
        known: false for a query without documents.
    """

    mean: Vector
    covariance: Vector
    precision: Vector
    log_determinant: float
    known: bool = True

    kind: ClassVar[str] = "gaussian"

    def summary(self) -> dict[str, Any]:
        return {"width": len(self.mean), "log_determinant": self.log_determinant}


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPoints:
    """Many queries as normal distributions, one array for each property of `GaussianPoint`."""

    means: Vector
    covariances: Vector
    precisions: Vector
    log_determinants: Vector
    known: Bits

    layout: ClassVar[Layouts] = {
        "means": Layout(("float64",), ("points", "features"), between(-_BOUND, _BOUND)),
        "covariances": Layout(("float64",), ("points", "features", "features"), between(-_BOUND, _BOUND)),
        "precisions": Layout(("float64",), ("points", "features", "features"), between(-_BOUND, _BOUND)),
        "log_determinants": Layout(("float64",), ("points",), between(-_BOUND, _BOUND)),
        "known": Layout(("bool",), ("points",), anything),
    }

    def __len__(self) -> int:
        return len(self.means)

    def of(self, query: int) -> GaussianPoint:
        return GaussianPoint(
            self.means[query],
            self.covariances[query],
            self.precisions[query],
            float(self.log_determinants[query]),
            bool(self.known[query]),
        )

    def take(self, queries: Indices) -> GaussianPoints:
        return GaussianPoints(
            self.means[queries],
            self.covariances[queries],
            self.precisions[queries],
            self.log_determinants[queries],
            self.known[queries],
        )


@dataclass(frozen=True, slots=True, eq=False)
class GaussianRepresentation:
    """The normal distribution of a query's normalised documents.

    Attributes:
        pooled: ``[n_features, n_features]`` the covariance within the training queries; positive definite.
        shrink: share of ``pooled`` in the covariance of a query, above 0 and up to 1.
    """

    pooled: Vector
    shrink: float

    method: ClassVar[str] = "gaussian"
    layout: ClassVar[Layouts] = {
        "pooled": Layout(("float64",), ("features", "features"), between(-_BOUND, _BOUND))
    }
    points: ClassVar[type[Points]] = GaussianPoints

    def __post_init__(self) -> None:
        if not 0 < self.shrink <= 1:
            raise InvalidConfiguration(
                f"representation: expected shrink above 0 and at most 1, found {self.shrink}"
            )

    def settings(self) -> dict[str, Any]:
        return {"shrink": self.shrink}

    def of(self, cloud: Cloud, /) -> GaussianPoint:
        documents = cloud.normalised.astype(np.float64)
        n_docs, n_features = documents.shape
        mean = documents.mean(axis=0) if n_docs else np.zeros(n_features)
        apart = documents - mean
        covariance = self.shrink * self.pooled + (1 - self.shrink) / max(n_docs, 1) * (apart.T @ apart)
        factor, failed = lapack.dpotrf(covariance, lower=1)
        lower, failed = lapack.dpotri(factor, lower=1) if not failed else (covariance, failed)
        if failed or not n_docs:
            identity = np.eye(n_features)
            return GaussianPoint(np.zeros(n_features), identity, identity, 0.0, known=False)
        precision = np.tril(lower) + np.tril(lower, -1).T
        determinant = 2 * float(np.log(np.diagonal(factor)).sum())
        return GaussianPoint(mean, covariance, precision, determinant)

    def of_all(self, clouds: Iterable[Cloud], /) -> GaussianPoints:
        points = [self.of(cloud) for cloud in clouds]
        n_features = len(self.pooled)
        means, covariances = np.zeros((len(points), n_features)), np.zeros((len(points), *self.pooled.shape))
        precisions = np.zeros_like(covariances)
        for query, point in enumerate(points):
            means[query], covariances[query], precisions[query] = (
                point.mean,
                point.covariance,
                point.precision,
            )
        determinants = np.array([point.log_determinant for point in points])
        known = np.array([point.known for point in points], np.bool_)
        return GaussianPoints(means, covariances, precisions, determinants, known)

    @staticmethod
    def sizes(settings: Mapping[str, Any], n_features: int) -> Sizes:  # noqa: ARG004
        return {"features": n_features}


def divergence_to_many(point: GaussianPoint, others: GaussianPoints) -> Vector:
    """Return the similarity by symmetric KL divergence of one distribution to many: ``[n_queries]``."""
    n_features = len(point.mean)
    traces = others.precisions.reshape(len(others), -1) @ point.covariance.reshape(-1)
    traces += others.covariances.reshape(len(others), -1) @ point.precision.reshape(-1)
    apart = others.means - point.mean
    distances = np.vecdot(apart @ point.precision, apart)
    distances += np.vecdot((others.precisions @ apart[..., None])[..., 0], apart)
    return _similarity((traces + distances - 2 * n_features) / 4)


def divergence_to_all(points: GaussianPoints) -> Vector:
    """Return the similarity by symmetric KL divergence of all pairs: ``[n_queries, n_queries]``."""
    n_queries, n_features = points.means.shape
    # Row i, column j: the terms with the precision of i; the others are those of the transpose.
    terms = points.precisions.reshape(n_queries, -1) @ points.covariances.reshape(n_queries, -1).T
    for query in range(n_queries):
        apart = points.means - points.means[query]
        terms[query] += np.vecdot(apart @ points.precisions[query], apart)
    found = _similarity((terms + terms.T - 2 * n_features) / 4)
    np.fill_diagonal(found, 1.0)
    return found


def bhattacharyya_to_many(point: GaussianPoint, others: GaussianPoints) -> Vector:
    """Return the similarity by the Bhattacharyya kernel of one distribution to many: ``[n_queries]``.

    Cost: a determinant and a solution for each pair, cubic in the features.

    Raises:
        ArtifactCorrupt: the matrices are no covariances.
    """
    found = np.empty(len(others))
    step = max(1, _CELLS // max(1, len(point.mean) ** 2))
    for start in range(0, len(others), step):
        part = slice(start, start + step)
        between_both = (others.covariances[part] + point.covariance) / 2
        apart = others.means[part] - point.mean
        try:
            solved = np.linalg.solve(between_both, apart[..., None])[..., 0]
        except np.linalg.LinAlgError:
            raise ArtifactCorrupt(
                "the covariance matrices of the training queries cannot be inverted"
            ) from None
        determinants = np.linalg.slogdet(between_both)[1]
        distances = np.vecdot(solved, apart)
        spread = determinants - (others.log_determinants[part] + point.log_determinant) / 2
        found[part] = distances / 8 + spread / 2
    return _similarity(found)


def bhattacharyya_to_all(points: GaussianPoints) -> Vector:
    """Return the similarity by the Bhattacharyya kernel of all pairs: ``[n_queries, n_queries]``."""
    n_queries = len(points)
    found = np.ones((n_queries, n_queries))
    for query in range(n_queries - 1):
        following = points.take(np.arange(query + 1, n_queries))
        found[query, query + 1 :] = found[query + 1 :, query] = bhattacharyya_to_many(
            points.of(query), following
        )
    return found


def _similarity(distances: Vector) -> Vector:
    # Rounding may make it slightly negative. If it is NaN, the model is not a distribution.
    return np.asarray(1.0 / (1.0 + np.maximum(np.nan_to_num(distances, nan=np.inf), 0.0)))
