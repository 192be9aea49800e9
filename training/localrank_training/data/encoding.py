r"""Encodings of categories: the numbers that stand for their values, learned from labels.

With :math:`\bar y_c` the mean of the labels of the :math:`n_c` documents of value ``c``, each less the mean of its list, the
number of the value is

.. math:: e_c = \frac{n_c}{n_c + \sigma^2 / \tau^2} \, \bar y_c

with :math:`\sigma^2` the variance within the values and :math:`\tau^2` that between them beyond what chance explains, both
estimated from the same documents [robbins1956]. Rare values are so drawn to zero, and all values of a category that says
nothing are. A value that was not seen has zero. The number of two values together, one of them the query's, is drawn to
the number of the document's value instead of to zero.

A model must not learn from an encoding that has seen the label of the very document: it would trust the category too
much. So the queries fall into parts, and the documents of each part get encodings of the other parts (`Encoders`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank.features.contract import Encoding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Indices, Vector
    from localrank_training.data.queries import QuerySet

#: Each part of the queries falls into as many, if parts are given; else there are as many parts in all.
_PARTS, _PARTS_OF_EACH = 20, 5
#: Two categories together get numbers only if they have at most this many pairs of values.
_MOST_PAIRS = 100_000
#: Digits after the point; more would only make manifests longer.
_DIGITS = 6


class _Sums(NamedTuple):
    """Sums over documents for each part and value: ``[n_parts, n_codes]`` or ``[n_parts, n_codes, n_codes of the query]``.

    Attributes:
        feature, beside: as in `Encoding`.
        labels: of the labels less the mean of their list.
        counts: of documents, each by the weight of its query.
    """

    feature: int
    beside: int | None
    labels: Vector
    counts: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Encoders:
    """What each part of the training queries says of the categories.

    Attributes:
        part_of: ``[n_queries]`` the part of each query, from 0.
        group_of: ``[n_parts]`` the parts of one group are left out together.
        sums: of the categories, then of pairs.
        squares: ``[n_parts]`` of the labels less the mean of their list.
    """

    part_of: Indices
    group_of: Indices
    sums: tuple[_Sums, ...]
    squares: Vector

    @classmethod
    def of(cls, queries: QuerySet, group_of: Indices | None = None, seed: int = 0) -> Encoders | None:
        """Return those of judged queries, ``None`` if they have no categories.

        Args:
            queries: judged queries.
            group_of: ``[n_queries]`` groups that will be left out; each falls into parts.
            seed: of the parts.
        """
        features = queries.features
        categories = [at for at, one in enumerate(features) if one.kind == "category"]
        if not categories:
            return None
        each = _PARTS if group_of is None else _PARTS_OF_EACH
        names = {name: number for number, name in enumerate(dict.fromkeys(queries.query_ids))}
        drawn = np.random.default_rng(seed).permutation(np.arange(len(names)) % each)
        within = drawn[[names[name] for name in queries.query_ids]]
        groups = np.zeros(len(queries), np.int64) if group_of is None else group_of
        n_parts = each * (int(groups.max(initial=0)) + 1)
        part_of = each * groups + within

        weights = (np.ones(len(queries)) if queries.weights is None else queries.weights)[queries.query_of]
        means = np.bincount(queries.query_of, queries.labels, len(queries)) / np.maximum(queries.lengths, 1)
        labels = queries.labels - means[queries.query_of]
        part_of_document = part_of[queries.query_of]
        codes = {
            at: np.nan_to_num(queries.column(at), nan=features[at].absent).astype(np.int64)
            for at in categories
        }

        def summed(feature: int, beside: int | None) -> _Sums:
            shape = [n_parts, features[feature].absent + 1]
            cells = part_of_document * shape[1] + codes[feature]
            if beside is not None:
                shape.append(features[beside].absent + 1)
                cells = cells * shape[2] + codes[beside]
            size = int(np.prod(shape))
            return _Sums(
                feature,
                beside,
                np.bincount(cells, weights * labels, size).astype(np.float64).reshape(shape),
                np.bincount(cells, weights, size).astype(np.float64).reshape(shape),
            )

        steady = [at for at in categories if _is_steady(codes[at], queries)]
        pairs = [
            (one, other)
            for one, other in itertools.product(categories, steady)
            if one not in steady and (features[one].absent + 1) * (features[other].absent + 1) <= _MOST_PAIRS
        ]
        sums = tuple(summed(at, None) for at in categories) + tuple(summed(*pair) for pair in pairs)
        squares = np.bincount(part_of_document, weights * labels**2, n_parts).astype(np.float64)
        return cls(part_of, np.arange(n_parts) // each, sums, squares)

    def encodings(self, without: Indices | tuple[int, ...] = ()) -> tuple[Encoding, ...]:
        """Return the encodings that all parts but these give."""
        parts = np.setdiff1d(np.arange(len(self.squares)), np.asarray(without, np.int64))
        squares = float(self.squares[parts].sum())
        single: dict[int, Vector] = {}
        found = []
        for one in self.sums:
            labels, counts = one.labels[parts].sum(axis=0), one.counts[parts].sum(axis=0)
            start = (
                np.zeros(counts.shape)
                if one.beside is None
                else np.repeat(single[one.feature][:, None], counts.shape[1], axis=1)
            )
            numbers = np.round(_drawn(labels, counts, start, squares), _DIGITS)
            if one.beside is None:
                single[one.feature] = numbers
            found.append(Encoding(one.feature, one.beside, numbers))
        return tuple(found)

    def for_each(self, held: int | None = None) -> Iterator[tuple[Encoding, ...]]:
        """Yield the encodings of each part's documents, learned without it.

        Args:
            held: a group that no encoding learns from.
        """
        out = self.group_of == held
        of_held = self.encodings(np.flatnonzero(out)) if out.any() else ()
        for part in range(len(self.group_of)):
            others = out.copy()
            others[part] = True
            yield of_held if out[part] else self.encodings(np.flatnonzero(others))


def _is_steady(codes: Indices, queries: QuerySet) -> bool:
    """Tell whether all documents of each query have the same value."""
    filled = queries.lengths > 0
    return bool((codes == np.repeat(codes[queries.offsets[:-1][filled]], queries.lengths[filled])).all())


def _drawn(labels: Vector, counts: Vector, start: Vector, squares: float) -> Vector:
    """Return the means of values, drawn to where they start by how much chance explains."""
    seen = counts > 0
    n_docs, n_values = counts.sum(), np.count_nonzero(seen)
    apart = np.divide(labels, counts, out=np.zeros(counts.shape), where=seen) - start
    between = float((counts * apart**2).sum())
    freedom = n_docs - (counts**2).sum() / max(n_docs, 1e-300)
    if n_docs <= n_values or freedom <= 0:
        return start
    means = np.divide(labels, counts, out=np.zeros(counts.shape), where=seen)
    within = max(squares - float((counts * means**2).sum()), 0.0) / (n_docs - n_values)
    chance = (n_values - 1) * within
    variance = max(between - chance, 0.0) / freedom
    if variance == 0:
        return start
    drawn: Vector = start + counts / (counts + within / variance) * apart
    return np.where(seen, drawn, start)
