r"""The named blocks of features that a scorer may ask for, and the text for several of them, a *wish*.

A wish is a text: one block, ``raw``, or several next to each other, ``[minmax, zscore * 0.25, rank]``. A scale
multiplies its block. The text is what configurations, scorers and artifacts hold; `parse` reads it and `written` gives it
its one spelling.

How wide blocks are depends on the model: `FeatureContract.widths`.

One query's documents as named blocks, each computed once and only if somebody asks for it.

Every block is ``[n_docs, width]`` float32. With :math:`x` the imputed values of one feature in a list of :math:`n`
documents:

``raw``
    :math:`x`; NaN only if the feature's policy is ``nan``. All other blocks take the imputed value. Of a category it is
    the code; all other blocks take its encoding (`localrank.features.contract.Encoding`).
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

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidDocuments, did_you_mean
from localrank.features.principal import principal_shares
from localrank.features.scaling import behind_best, percentiles, products_of_pairs, within_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localrank.arrays import Matrix, Vector
    from localrank.features.contract import FeatureContract
    from localrank.routing.route import Route
    from localrank.scorers import Scorer

#: Every block by name, with its meaning in short.
BLOCKS: dict[str, str] = {
    "raw": "imputed values",
    "normalised": "values on the scale of the contract",
    "minmax": "from 0 to 1 within the list",
    "zscore": "mean 0 and deviation 1 within the list",
    "rank": "mid-rank percentile within the list",
    "to_best": "distance to the largest value of the list, in standard deviations of the training values",
    "quadratic": "products of every two values on the scale of the contract, and their squares",
    "list": "logarithm of the number of documents, and the spectrum of the list",
    "route": "similarity and shares of the clusters; known after routing only",
}
#: Weighting blocks against each other needs no larger scale.
_LARGEST_SCALE = 1000.0
_TERM = re.compile(r"\s*([a-z_]+)\s*(?:\*\s*([0-9.eE+-]+)\s*)?")


class Block(NamedTuple):
    """One block of a wish, and its factor."""

    name: str
    scale: float = 1.0

    def __str__(self) -> str:
        return self.name if self.scale == 1 else f"{self.name} * {str(self.scale).removesuffix('.0')}"


@lru_cache(1024)
def parse(text: str) -> tuple[Block, ...]:
    """Read a wish such as ``raw`` or ``[minmax, zscore * 0.25, rank]``.

    Raises:
        InvalidConfiguration: the text is not a wish, a block is unknown or comes twice, or a scale is out of range.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    blocks = tuple(_block(term, text) for term in inner.split(","))
    names = [block.name for block in blocks]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidConfiguration(
            f"blocks: expected every block once, found {twice!r} twice in {text!r:.80}"
        )
    return blocks


def written(blocks: Iterable[Block]) -> str:
    """Return the text of a wish."""
    terms = [str(block) for block in blocks]
    return terms[0] if len(terms) == 1 else f"[{', '.join(terms)}]"


def canonical(text: str) -> str:
    """Return the one spelling of a wish; raise what `parse` raises."""
    return written(parse(text))


def union(texts: Iterable[str]) -> str:
    """Return the wish for every block of several wishes, without scales."""
    return written(
        Block(name) for name in dict.fromkeys(block.name for text in texts for block in parse(text))
    )


def width_of(text: str, widths: Mapping[str, int]) -> int:
    """Return how many columns a wish has, given those of each block."""
    return sum(widths[block.name] for block in parse(text))


def _block(term: str, text: str) -> Block:
    found = _TERM.fullmatch(term)
    if found is None:
        raise InvalidConfiguration(
            f"blocks: expected blocks such as [minmax, zscore * 0.25, rank], found {text!r:.80}"
        )
    name, scale = found[1], 1.0
    if name not in BLOCKS:
        expected = f"expected one of {', '.join(BLOCKS)}, found {name!r}"
        raise InvalidConfiguration(f"blocks: {expected}{did_you_mean(name, BLOCKS)}")
    if found[2] is not None:
        try:
            scale = float(found[2])
        except ValueError:
            scale = math.nan
        if not 0 < scale <= _LARGEST_SCALE:
            raise InvalidConfiguration(
                f"blocks: {name}: expected a scale above 0 and up to {_LARGEST_SCALE:g}, found {found[2]}"
            )
    return Block(name, scale)


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
        raw, normalised: two of its blocks.
        imputed: ``{feature position: how many documents lacked it}``, only those that some did.
    """

    __slots__ = (
        "_filled",
        "_n_clusters",
        "_route",
        "_rows",
        "_scores",
        "contract",
        "imputed",
        "normalised",
        "raw",
    )

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
        self.raw, self.normalised = raw, normalised
        self._filled = filled
        #: The rows that were asked for, by the text of the wish.
        self._rows: dict[str, Matrix] = {"raw": raw, "normalised": normalised}
        self._scores: dict[Scorer, Vector] = {}
        self._route: Route | None = None
        self._n_clusters = 0

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._filled)

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
            blocks: such as ``raw`` or ``[minmax, zscore * 0.25, rank]``; see `localrank.features.blocks`.
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
