r"""What a query looks like: the principal directions of its documents.

Shapes: documents ``[n_docs, n_features]``, directions ``[n_components, n_features]``. A signature always holds
``n_components`` rows; a cloud of lower rank has fewer directions, and the rows beyond its rank are zero, so that
they add nothing to any dot product.

What does not belong here: how directions are computed (`localrank.principal`), comparing signatures (`localrank.similarity`) and finding near ones (`localrank.routing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from localrank.brief import one_line
from localrank.layout import INTEGERS, Layout, Within, finite
from localrank.principal import principal_directions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank.cloud import Cloud
    from localrank.layout import Layouts, Sizes
    from localrank.representation import Points

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
        directions = np.zeros((self.components, documents.shape[1]), np.float32)
        eigenvalues = np.zeros(self.components)
        variances, axes = principal_directions(documents, self.components)
        rank = len(variances)
        directions[:rank] = axes
        eigenvalues[:rank] = variances
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
