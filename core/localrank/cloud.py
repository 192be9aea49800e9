r"""One query's documents as named blocks, each computed once and only if somebody asks for it.

Every block is ``[n_docs, width]`` float32. With :math:`x` the imputed values of one feature in a list of :math:`n`
documents:

``raw``
    :math:`x`; NaN only if the feature's policy is ``nan``. All other blocks take the imputed value.
``normalised``
    :math:`x` on the scale of the contract.
``minmax``
    :math:`(x - \min) / (\max - \min)`.
``zscore``
    :math:`(x - \bar x) / s` with the deviation :math:`s` of the list.
``rank``
    :math:`(r - \tfrac12) / n`, where :math:`r` is the mean of the ranks, from 1 for the smallest value, that documents
    of the same value share.
``to_best``
    :math:`(\max - x) / \sigma`, where :math:`\sigma` is the deviation of the training values. It keeps how large the
    gap is, which ``minmax`` does not.
``quadratic``
    :math:`x_i x_j` of the values in ``normalised``, for :math:`i \le j`: :math:`d(d + 1)/2` columns for :math:`d` features.
``list``
    the same for all documents: :math:`\log n`, then the share of the variance along each of the first principal
    directions of ``normalised``, zero beyond the rank.
``route``
    the same for all documents: the similarity of the route (0 without one), then the share of each cluster.

A feature that is the same in all documents, except for rounding to float32, is 0 in ``minmax``, ``zscore`` and ``to_best``
and 1/2 in ``rank``. So is every feature of a list of one document. Identical documents have identical rows.

Invariants: all blocks but ``raw`` are finite; documents are not modified; a block is the same to the bit whichever blocks
were asked for before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.blocks import parse
from localrank.errors import InvalidConfiguration, InvalidDocuments
from localrank.principal import principal_shares
from localrank.scaling import behind_best, percentiles, products_of_pairs, within_query

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.contract import FeatureContract
    from localrank.routing import Route
    from localrank.scorers import Scorer

#: Principal directions whose shares of the variance are in ``list``.
SPECTRUM = 8
#: Largest number that float32 holds.
_LARGEST = float(np.finfo(np.float32).max)
#: Products of two features that one query may have; without a limit, 700 features of 5,000 documents would take 5 GB.
_MOST_PRODUCTS = 2**26


class Cloud:
    """One query's documents; made by `FeatureContract.cloud`, used by one thread.

    Attributes:
        contract: by which it was made.
        imputed: ``{feature position: how many documents lacked it}``, only those that some did.
    """

    __slots__ = ("_filled", "_n_clusters", "_route", "_rows", "_scores", "contract", "imputed")

    def __init__(
        self,
        contract: FeatureContract,
        raw: Matrix,
        filled: Matrix,
        normalised: Matrix,
        imputed: dict[int, int],
    ) -> None:
        self.contract = contract
        self.imputed = imputed
        self._filled = filled
        #: The rows that were asked for, by the text of the wish.
        self._rows: dict[str, Matrix] = {"raw": raw, "normalised": normalised}
        self._scores: dict[Scorer, Vector] = {}
        self._route: Route | None = None
        self._n_clusters = 0

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._filled)

    @property
    def raw(self) -> Matrix:
        return self._rows["raw"]

    @property
    def normalised(self) -> Matrix:
        return self._rows["normalised"]

    def block(self, name: str) -> Matrix:
        """Return one block.

        Raises:
            InvalidConfiguration: it is ``route``, and the query has not been routed.
        """
        found = self._rows.get(name)
        if found is None:
            found = self._rows[name] = self._computed(name)
        return found

    def rows(self, blocks: str) -> Matrix:
        """Return what a wish for blocks names, next to each other: ``[n_docs, sum of the widths]``.

        Args:
            blocks: such as ``raw`` or ``[minmax, zscore * 0.25, rank]``; see `localrank.blocks`.
        """
        found = self._rows.get(blocks)
        if found is None:
            found = self._rows[blocks] = self._joined(blocks)
        return found

    def scored(self, scorer: Scorer) -> Vector:
        """Return a scorer's scores; they are computed once, even if several scorers have this member."""
        found = self._scores.get(scorer)
        if found is None:
            found = self._scores[scorer] = scorer.score(self)
        return found

    def outside(self) -> float:
        """Return how far the documents lie outside what training saw, see `FeatureContract.outside`."""
        return self.contract.outside(self._filled)

    def routed(self, route: Route, n_clusters: int) -> None:
        """Take the query's route, from which ``route`` is made."""
        self._route, self._n_clusters = route, n_clusters

    def _computed(self, name: str) -> Matrix:
        if name == "route":
            return self._of_route()
        n_docs, n_features = self._filled.shape
        if name == "list":
            return np.tile(self._of_list(min(SPECTRUM, n_features)), (n_docs, 1))
        if not n_docs:
            return np.zeros((0, self.contract.widths()[name]), np.float32)
        if name == "quadratic":
            width = self.contract.widths()[name]
            if n_docs * width > _MOST_PRODUCTS:
                raise InvalidDocuments(
                    f"expected at most {_MOST_PRODUCTS // width} documents, as the model takes the {width} products of two "
                    f"features of each, found {n_docs}"
                )
            return products_of_pairs(self.normalised)
        if name == "rank":
            return percentiles(self._filled)
        if name == "to_best":
            return behind_best(self._filled, self.contract.scale)
        if self.contract.normalise == f"query_{name}":
            return self.normalised
        # Never None: imputed values are finite.
        return cast("Matrix", within_query(self._filled, standard=name == "zscore"))

    def _joined(self, blocks: str) -> Matrix:
        terms = parse(blocks)
        if len(terms) == 1 and terms[0].scale == 1:
            return self.block(terms[0].name)
        parts = [self.block(term.name) for term in terms]
        joined = np.empty((len(self), sum(part.shape[1] for part in parts)), np.float32)
        begin = 0
        for term, part in zip(terms, parts, strict=True):
            here = joined[:, begin : begin + part.shape[1]]
            if term.scale == 1:
                here[:] = part
            elif term.scale < 1:
                np.multiply(part, np.float32(term.scale), out=here)
            else:
                with np.errstate(over="ignore"):
                    np.clip(part * np.float32(term.scale), -_LARGEST, _LARGEST, out=here)
            begin += part.shape[1]
        return joined

    def _of_list(self, most: int) -> Matrix:
        values = np.zeros(1 + most, np.float32)
        if len(self):
            values[0] = np.log(len(self))
            shares = principal_shares(self.normalised, most)
            values[1 : 1 + len(shares)] = shares
        return values

    def _of_route(self) -> Matrix:
        if self._route is None:
            raise InvalidConfiguration(
                "the block 'route': expected a query that was routed, found one before its routing"
            )
        values = np.zeros(1 + self._n_clusters, np.float32)
        values[0] = self._route.similarity or 0.0
        if self._route.shares:
            values[1:] = self._route.shares
        elif self._route.cluster is not None:
            values[1 + self._route.cluster] = 1.0
        return np.tile(values, (len(self), 1))
