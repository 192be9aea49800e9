r"""Scores by nearness to anchors: points of the feature space, each with a metric of its own [su2017].

With :math:`d_r(x) = \|W_r (x - a_r)\|`, the distance to anchor :math:`a_r` in the metric :math:`M_r = W_r^\top W_r`,

.. math:: f(x) = -\sum_r \theta_r \, g(d_r(x)),

where the curve :math:`g` is

``distance``
    :math:`g(d) = d`.
``turning``
    :math:`g(d) = d\,e^{-d}`, eq. 13 of the paper. It rises up to :math:`d = 1` and falls beyond, so the farthest
    document of all would come before most others.
``rising``
    the same up to :math:`d = 1`, continued by its mirror image :math:`2/e - d\,e^{-d}`: nearer is always better.

The weights are fixed (`AnchoredScorer`), or those of the training queries that the list resembles
(`AnchoredBySimilarityScorer`).

All distances of a list are one matrix product. Its kernel may treat rows at the end differently from the others, so
each distinct document is computed once, and identical documents get identical scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from localrank.errors import ArtifactCorrupt
from localrank.signature import QuerySigner, Signatures
from localrank.similarity import SIMILARITIES, one_to_many

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Indices, Matrix, Vector
    from localrank.scorers.role import Scorer, View
    from localrank.similarity import Similarity

__all__ = ["CURVES", "AnchoredBySimilarityScorer", "AnchoredScorer", "Curve", "bent"]

Curve: TypeAlias = Literal["distance", "turning", "rising"]
CURVES: tuple[Curve, ...] = get_args(Curve)

#: How many projected coordinates are held at a time.
_CELLS = 1 << 18
#: What projections may become at most, so that their squares can be added up.
_FARTHEST = 1e150
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class AnchoredScorer:
    r"""A weighted sum of curves of the distances to anchors, with the sign turned.

    Attributes:
        transforms: ``[n_anchors, n_rows, n_features]``, the :math:`W_r`; fewer rows than features are a metric of low
            rank.
        origins: ``[n_anchors, n_rows]`` where they put the anchors, :math:`W_r a_r`.
        weights: ``[n_anchors]``, the :math:`\theta_r`; none negative.
        curve: what becomes of a distance.
        view: of the documents.
    """

    transforms: Vector
    origins: Vector
    weights: Vector
    curve: Curve = "distance"
    view: View = "normalised"

    kind: ClassVar[str] = "anchored"

    def score(self, documents: Matrix, /) -> Vector:
        return self.score_with(self.weights, documents)

    def score_with(self, weights: Vector, documents: Matrix) -> Vector:
        """Score with other weights ``[n_anchors]``."""
        distinct, places = _distinct(documents.astype(np.float64, order="C"))
        # Summed row by row, for the reason given in `localrank.scorers.linear`.
        scores: Vector = -np.vecdot(bent(self.distances(distinct), self.curve), weights)
        return scores if places is None else scores[places]

    def distances(self, documents: Matrix | Vector) -> Vector:
        """Return ``[n_docs, n_anchors]``."""
        n_anchors, n_rows, n_features = self.transforms.shape
        columns = self.transforms.reshape(n_anchors * n_rows, n_features).T
        origins = self.origins.reshape(-1)
        found = np.empty((len(documents), n_anchors))
        step = max(1, _CELLS // max(1, n_anchors * n_rows))
        for begin in range(0, len(documents), step):
            part = slice(begin, begin + step)
            apart = documents[part].astype(np.float64, copy=False) @ columns
            apart -= origins
            apart = apart.reshape(-1, n_anchors, n_rows)
            np.vecdot(apart, apart, out=found[part])
        return np.sqrt(found, out=found)

    def settings(self) -> dict[str, Any]:
        return {"curve": self.curve, "view": self.view}

    def arrays(self) -> dict[str, Array]:
        return {"transforms": self.transforms, "origins": self.origins, "weights": self.weights}

    def members(self) -> Sequence[Scorer]:
        return ()

    @classmethod
    def rebuild(
        cls,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Array],
        members: Sequence[Scorer],
        n_features: int,
    ) -> Self:
        curve, view = settings.get("curve"), settings.get("view")
        if (
            members
            or set(arrays) != {"transforms", "origins", "weights"}
            or curve not in CURVES
            or view not in {"raw", "normalised"}
        ):
            raise ArtifactCorrupt(
                f"manifest.json: an anchored scorer has a view, a curve ({', '.join(CURVES)}), transforms, origins and "
                "weights, nothing else"
            )
        found = arrays["transforms"].shape
        n_anchors, n_rows = found[:2] if len(found) == 3 and 0 not in found else (1, 1)
        transforms = _checked(arrays, "transforms", (n_anchors, n_rows, n_features))
        origins = _checked(arrays, "origins", (n_anchors, n_rows))
        farthest = np.abs(transforms).max() * _LARGEST_FLOAT32 * n_features + np.abs(origins).max()
        if not farthest * np.sqrt(n_rows) < _FARTHEST:
            raise ArtifactCorrupt(
                "scorers.transforms.npy: a number is so large that a distance may not be finite"
            )
        weights = _checked_weights(_checked(arrays, "weights", (n_anchors,)))
        return cls(transforms, origins, weights, curve, view)


@dataclass(frozen=True, slots=True, eq=False)
class AnchoredBySimilarityScorer:
    r"""An `AnchoredScorer` whose weights are those of the training queries that the list resembles.

    With :math:`\theta_i` the weights learned for training query ``i``, and the similarity of signatures (eq. 5 of
    LocalRank [banerjee2009] or its like),

    .. math:: \theta \propto \sum_i c_i \, e^{\mathrm{sim}(q, q_i) / h} \, \theta_i,

    scaled so that the factors add up to one. A list without a signature (one document, or all alike) resembles every
    query equally.

    Attributes:
        member: measures the distances; its own weights are not used.
        weights: ``[n_queries, n_anchors]``, the :math:`\theta_i`.
        shares: ``[n_queries]``, the :math:`c_i`, how much each query counts; positive.
        signatures: of the training queries.
        similarity: how signatures are compared.
        bandwidth: :math:`h`.
    """

    member: AnchoredScorer
    weights: Vector
    shares: Vector
    signatures: Signatures
    similarity: Similarity
    bandwidth: float

    kind: ClassVar[str] = "anchored_by_similarity"

    @property
    def view(self) -> View:
        return self.member.view

    def score(self, documents: Matrix, /) -> Vector:
        return self.member.score_with(self.weights_for(documents), documents)

    def weights_for(self, documents: Matrix) -> Vector:
        """Return the list's weights, ``[n_anchors]``."""
        signature = QuerySigner(self.signatures.directions.shape[1]).sign(documents)
        alike = one_to_many(signature, self.signatures, self.similarity)
        factors = self.shares * np.exp((alike - alike.max()) / self.bandwidth)
        settled: Vector = (factors / factors.sum()) @ self.weights
        return settled

    def settings(self) -> dict[str, Any]:
        return {"similarity": self.similarity, "bandwidth": self.bandwidth}

    def arrays(self) -> dict[str, Array]:
        return {
            "weights": self.weights,
            "shares": self.shares,
            "directions": self.signatures.directions,
            "eigenvalues": self.signatures.eigenvalues,
            "ranks": self.signatures.ranks,
        }

    def members(self) -> Sequence[Scorer]:
        return (self.member,)

    @classmethod
    def rebuild(
        cls,
        settings: Mapping[str, Any],
        arrays: Mapping[str, Array],
        members: Sequence[Scorer],
        n_features: int,
    ) -> Self:
        roles = {"weights", "shares", "directions", "eigenvalues", "ranks"}
        similarity, bandwidth = settings.get("similarity"), settings.get("bandwidth")
        member = members[0] if len(members) == 1 else None
        if not isinstance(member, AnchoredScorer) or set(arrays) != roles or similarity not in SIMILARITIES:
            raise ArtifactCorrupt(
                "manifest.json: an anchored_by_similarity scorer has one anchored scorer, a similarity "
                f"({', '.join(SIMILARITIES)}), a bandwidth, weights, shares and signatures, nothing else"
            )
        if (
            isinstance(bandwidth, bool)
            or not isinstance(bandwidth, int | float)
            or not 1e-6 <= bandwidth < 1e6
        ):
            raise ArtifactCorrupt(
                f"manifest.json: expected a bandwidth from 1e-06 to 1e+06, found {bandwidth!r:.60}"
            )
        found = arrays["directions"].shape
        n_queries, n_components = found[:2] if len(found) == 3 and 0 not in found else (1, 1)
        directions = _checked(arrays, "directions", (n_queries, n_components, n_features), np.float32)
        eigenvalues = _checked(arrays, "eigenvalues", (n_queries, n_components))
        weights = _checked_weights(_checked(arrays, "weights", (n_queries, len(member.weights))))
        shares = _checked(arrays, "shares", (n_queries,))
        ranks = _checked(arrays, "ranks", (n_queries,), np.int64)
        if np.abs(directions).max() > 1.001:
            raise ArtifactCorrupt("scorers.directions.npy: expected unit vectors, found longer ones")
        if (eigenvalues < 0).any() or (shares <= 0).any() or shares.max() > 1:
            raise ArtifactCorrupt(
                "scorers.shares.npy: expected numbers above 0 and up to 1, and eigenvalues of at least 0"
            )
        if ranks.min() < 0 or ranks.max() > n_components:
            raise ArtifactCorrupt(
                f"scorers.ranks.npy: expected 0 to {n_components}, found {ranks.min()} to {ranks.max()}"
            )
        signatures = Signatures(directions, eigenvalues, ranks)
        return cls(member, weights, shares, signatures, similarity, float(bandwidth))


def bent(distances: Vector, curve: Curve) -> Vector:
    """Return the curve's value for each distance."""
    if curve == "distance":
        return distances
    values: Vector = distances * np.exp(-distances)
    return values if curve == "turning" else np.where(distances > 1.0, 2.0 / np.e - values, values)


def _distinct(documents: Vector) -> tuple[Vector, Indices | None]:
    """Return each different document once, and for every document the place of its like; nothing if all differ."""
    # Documents that are alike have the same key, since row-wise products are; others hardly ever.
    keys = np.sort(np.vecdot(documents, np.sqrt(np.arange(2.0, 2.0 + documents.shape[1]))))
    if (keys[1:] != keys[:-1]).all():
        return documents, None
    # Adding zero leaves no negative zeros, which are equal to zero but not the same bytes.
    plain = documents + 0.0
    rows = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1])))[:, 0].tolist()
    places: dict[bytes, int] = {}
    found = np.array([places.setdefault(row, len(places)) for row in rows])
    _, first = np.unique(found, return_index=True)
    return plain[first], found


def _checked(
    arrays: Mapping[str, Array], role: str, shape: tuple[int, ...], dtype: type[np.generic] = np.float64
) -> Any:
    found = arrays[role]
    if found.dtype != dtype or found.shape != shape:
        raise ArtifactCorrupt(
            f"scorers.{role}.npy: expected {np.dtype(dtype)} {shape}, found {found.dtype} {found.shape}"
        )
    settled = np.asarray(found, dtype)
    if not np.isfinite(settled).all():
        raise ArtifactCorrupt(f"scorers.{role}.npy: a number is not finite")
    return settled


def _checked_weights(weights: Vector) -> Vector:
    if weights.min() < 0 or not weights.max() < 1e100:
        raise ArtifactCorrupt(
            f"scorers.weights.npy: expected 0 to 1e+100, found {weights.min()} to {weights.max()}"
        )
    return weights
