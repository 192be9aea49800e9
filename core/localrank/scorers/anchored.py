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

from localrank.arrays import Between, Layout, Within, between, finite
from localrank.contributions import no_sum
from localrank.points.signature import SIMILARITIES, PcaRepresentation, Signatures, one_to_many
from localrank.scorers.role import Leaf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Array, Indices, Layouts, Matrix, Vector
    from localrank.features.blocks import Cloud
    from localrank.points.signature import Similarity
    from localrank.scorers.role import Scorer

Curve: TypeAlias = Literal["distance", "turning", "rising"]
CURVES: tuple[Curve, ...] = get_args(Curve)

#: How many projected coordinates are held at a time.
_CELLS = 1 << 18
#: Largest size of a projection, so that the sum of squares stays finite.
_FARTHEST = 1e150
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
#: Of an anchor.
_LARGEST_WEIGHT = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class AnchoredScorer(Leaf):
    r"""A weighted sum of curves of the distances to anchors, with the sign turned.

    Attributes:
        transforms: ``[n_anchors, n_rows, n_features]``, the :math:`W_r`; fewer rows than features are a metric of low
            rank.
        origins: ``[n_anchors, n_rows]`` where they put the anchors, :math:`W_r a_r`.
        weights: ``[n_anchors]``, the :math:`\theta_r`; none negative.
        curve: what becomes of a distance.
        blocks: of the documents.
    """

    transforms: Vector
    origins: Vector
    weights: Vector
    curve: Curve = "distance"
    blocks: str = "normalised"

    kind: ClassVar[str] = "anchored"
    layout: ClassVar[Layouts] = {
        "transforms": Layout(("float64",), ("anchors", "rows", "width"), finite),
        "origins": Layout(("float64",), ("anchors", "rows"), finite),
        "weights": Layout(("float64",), ("anchors",), between(0.0, _LARGEST_WEIGHT)),
    }

    def __post_init__(self) -> None:
        if self.curve not in CURVES:
            raise ValueError(f"curve: expected one of {', '.join(CURVES)}, found {self.curve!r:.60}")
        _, n_rows, width = self.transforms.shape
        farthest = np.abs(self.transforms).max() * _LARGEST_FLOAT32 * width + np.abs(self.origins).max()
        if not farthest * np.sqrt(n_rows) < _FARTHEST:
            raise ValueError("transforms: expected numbers that keep distances finite, found a larger one")

    def score_rows(self, rows: Matrix, /) -> Vector:
        return self.score_with(self.weights, rows)

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
    made_of: ClassVar[tuple[str, ...]] = ("member", "signatures")
    layout: ClassVar[Layouts] = {
        "weights": Layout(("float64",), ("queries", "anchors"), between(0.0, _LARGEST_WEIGHT)),
        "shares": Layout(("float64",), ("queries",), between(0.0, 1.0)),
        # Unit vectors, except for rounding to float32.
        "directions": Layout(("float32",), ("queries", "components", "width"), between(-1.001, 1.001)),
        "eigenvalues": Layout(("float64",), ("queries", "components"), lambda _: Between(0.0, np.inf)),
        "ranks": Layout(("int64",), ("queries",), lambda sizes: Within(0, sizes["components"])),
    }

    def __post_init__(self) -> None:
        if self.similarity not in SIMILARITIES:
            raise ValueError(
                f"similarity: expected one of {', '.join(SIMILARITIES)}, found {self.similarity!r:.60}"
            )
        bandwidth: object = self.bandwidth  # as a file has it
        if type(bandwidth) not in {int, float} or not 1e-6 <= self.bandwidth < 1e6:
            raise ValueError(f"bandwidth: expected 1e-06 to 1e+06, found {self.bandwidth!r:.60}")
        if not (self.shares > 0).all():
            raise ValueError("shares: expected positive numbers")
        if self.weights.shape[1] != len(self.member.weights):
            raise ValueError(
                f"weights: expected one for each of {len(self.member.weights)} anchors, "
                f"found {self.weights.shape[1]}"
            )
        if self.signatures.directions.shape[2] != self.member.transforms.shape[2]:
            raise ValueError("directions: expected as many numbers as the member's blocks have columns")

    def score(self, cloud: Cloud, /) -> Vector:
        return self.score_rows(cloud.rows(self.member.blocks))

    def contributions(self, cloud: Cloud, which: Indices, /) -> Vector:  # noqa: ARG002
        raise no_sum(self.kind)

    def terms(self, cloud: Cloud, /) -> Sequence[tuple[float, Scorer]]:  # noqa: ARG002
        raise no_sum(self.kind)

    def score_rows(self, rows: Matrix) -> Vector:
        """Score documents in the blocks of the member."""
        return self.member.score_with(self.weights_for(rows), rows)

    def weights_for(self, documents: Matrix) -> Vector:
        """Return the list's weights, ``[n_anchors]``."""
        signature = PcaRepresentation(self.signatures.directions.shape[1]).sign(documents)
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
        cls, settings: Mapping[str, Any], arrays: Mapping[str, Any], members: Sequence[Scorer]
    ) -> Self:
        if len(members) != 1 or not isinstance(members[0], AnchoredScorer):
            raise ValueError("expected one anchored scorer as the member of an anchored_by_similarity scorer")
        signatures = Signatures(arrays["directions"], arrays["eigenvalues"], arrays["ranks"])
        return cls(members[0], arrays["weights"], arrays["shares"], signatures, **settings)


def bent(distances: Vector, curve: Curve) -> Vector:
    """Return the curve's value for each distance."""
    if curve == "distance":
        return distances
    values: Vector = distances * np.exp(-distances)
    return values if curve == "turning" else np.where(distances > 1.0, 2.0 / np.e - values, values)


def _distinct(documents: Vector) -> tuple[Vector, Indices | None]:
    """Return each distinct document once, and for every document the position of its copy; nothing if all differ."""
    # Equal documents have equal keys, because row-wise products are equal. Other documents hardly ever do.
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
