r"""Signs that data do not say what they seem to say: a feature that holds the label, lists that are none, wrong twins.

Held-out figures say nothing about documents that nobody has judged yet if a feature is known only after the judgement. Each
feature is looked at alone, on a sample of whole queries. Let :math:`R_{qi}` be the mid-rank of document `i` by the feature
within its query, :math:`L_{qi}` that by the label, both less their mean in the query and divided by the number of its
documents; a missing value counts as the least. The rank correlation with the label is

.. math:: r = \sum_{qi} R_{qi} L_{qi} \Big/ \sum_{qi} L_{qi}^2

It is 1 if no greater value ever has a smaller label, whatever documents share a label, and -1 the other way round.

A feature is strong if it alone ranks nearly as well as a linear model of the ranks of all features, which is learned from
one half of the queries and measured on the other.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from localrank.metrics import Judgements
from localrank_training.evaluation.twins import twins_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.features.feature import Feature
    from localrank.metrics import Measured
    from localrank_training.data.queries import QuerySet

METRIC = "ndcg@10"
#: A feature whose rank correlation with the label is above this holds the label.
TOO_ALIKE = 0.95
#: A feature is strong if it alone is within this of a model of all features.
NEARLY = 0.02
#: Words of a name, matched whole, that tell of what users did or of what a ranker made.
WORDS = frozenset(
    {"click", "clicks", "clicked", "position", "rank", "grade", "score", "label", "judgement", "judgment"}
)
#: At most this many documents and numbers are looked at.
_MOST_DOCUMENTS, _MOST_CELLS = 10_000, 2_000_000
#: Fewer documents may have features like their labels, and fewer queries be ranked without a mistake, by chance.
_FEWEST_DOCUMENTS, _FEWEST_QUERIES = 20, 10
#: The linear model takes the features of greatest correlation; of more its equations would take long.
_MOST_IN_MODEL = 300
#: So much better than the order of the input a model must be, or a feature near it says nothing.
_TELLING = 0.05
#: Names in a sentence.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Alone:
    """One feature as a ranker by itself.

    Attributes:
        name: of the feature.
        descending: whether large values come first, which is the better way. The values of a category have no size, but the
            labels that they had in other queries.
        ndcg: NDCG@10; documents with equal values are ranked worst first.
        correlation: rank correlation with the label.
        is_label: equal to the label of every document.
        is_id: a different whole number in every document.
        is_category: whether its values are names.
    """

    name: str
    descending: bool
    ndcg: float
    correlation: float
    is_label: bool
    is_id: bool
    is_category: bool

    @property
    def first(self) -> str:
        """What it ranks first, for people."""
        if self.is_category:
            return "values with the best labels"
        return "large values" if self.descending else "small values"

    @property
    def holds_label(self) -> bool:
        """Whether a model that uses it must not be served without a second look."""
        return self.is_label or abs(self.correlation) > TOO_ALIKE

    def __str__(self) -> str:
        """Say what it does alone."""
        if self.is_label:
            return f"feature {self.name!r} is the label of every document"
        return f"feature {self.name!r} has a rank correlation of {self.correlation:+.3f} with the label"


@dataclass(frozen=True, slots=True)
class Leaks:
    """What was found.

    Attributes:
        queries, documents: that were looked at.
        linear: NDCG@10 of a quick linear model on queries that it had not seen; None if there are too few queries.
        best: the feature that ranks best alone.
        holding: features that hold the label.
        strong: other features that alone rank nearly as well as the quick model, best first.
        named: features whose name tells of clicks or rankings.
        ids: features that number the documents.
        single: queries of one document in the whole data, ``of`` how many queries.
        near: documents that are nearly equal to another one of their query with another label.
    """

    queries: int
    documents: int
    linear: float | None
    best: Alone
    holding: tuple[Alone, ...]
    strong: tuple[Alone, ...]
    named: tuple[Alone, ...]
    ids: tuple[Alone, ...]
    single: int
    of: int
    near: int

    @property
    def sentences(self) -> tuple[str, ...]:
        """What to look at, the worst first, each with its numbers; empty if nothing looks wrong."""
        return tuple(self._said())

    def _said(self) -> Iterator[str]:
        if 2 * self.single > self.of:
            yield (
                f"{self.single} of {self.of} queries have one document: is --qid the column of the queries, and not of "
                "the documents?"
            )
        for one in self.holding[:_SHOWN]:
            yield f"{one} ({METRIC} {one.ndcg:.4f} alone): leave it out if it is not known before a document is judged"
        for one in self.strong[:_SHOWN]:
            yield (
                f"feature {one.name!r} ranks nearly alone: {METRIC} {one.ndcg:.4f} with "
                f"{one.first} first, a quick linear model of all features "
                f"{self.linear:.4f}, rank correlation with the label {one.correlation:+.3f}"
            )
        if self.named:
            each = (f"{one.name!r} ({one.correlation:+.3f})" for one in self.named)
            yield (
                "names tell of clicks, positions or scores; are these known before users see the list, and from another "
                f"time than the labels? (rank correlation with the label) {_listed(list(each))}"
            )
        if self.ids:
            names = [repr(one.name) for one in self.ids]
            yield f"a different whole number in every document, as ids have: {_listed(names)}; leave it out if it is an id"
        if self.near > self.documents / 100:
            yield (
                f"{self.near} of {self.documents} documents are nearly equal to a document of their query with another "
                "label"
            )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"sentences": list(self.sentences)}


def leaks_of(queries: QuerySet, *, exempt: Collection[str] = (), seed: int = 0) -> Leaks:
    """Look at judged queries.

    Args:
        queries: of which a sample is drawn.
        exempt: features that are known to be strong, such as the present order.
        seed: of the sample.
    """
    single = int((queries.lengths == 1).sum())
    some = _sample(queries, seed)
    documents = np.column_stack([values_of(some, column) for column in range(some.n_features)])
    ranks, label_ranks = _ranks(documents, some.offsets), _ranks(some.labels[:, None], some.offsets)[:, 0]
    judgements = Judgements(some.labels, some.offsets)
    squares = float(label_ranks @ label_ranks)
    correlations = ranks.T @ label_ranks / squares if squares else np.zeros(some.n_features)
    enough = some.n_docs >= _FEWEST_DOCUMENTS and len(some) >= _FEWEST_QUERIES and squares > 0
    features = [
        _alone(one, documents[:, column], float(correlations[column]), some.labels, judgements)
        for column, one in enumerate(some.features)
    ]
    linear = _linear(ranks, correlations, some, judgements) if enough else None
    (given,) = judgements.measure(np.zeros(some.n_docs), [METRIC])
    telling = linear is not None and linear > given.mean + _TELLING
    found = [one for one in features if one.name not in exempt] if enough else []
    strong = [
        one
        for one in found
        if telling and linear is not None and one.ndcg >= linear - NEARLY and not one.holds_label
    ]
    return Leaks(
        queries=len(some),
        documents=some.n_docs,
        linear=linear,
        best=max(features, key=lambda one: one.ndcg),
        holding=tuple(one for one in found if one.holds_label),
        strong=tuple(sorted(strong, key=lambda one: -one.ndcg)),
        named=tuple(one for one in features if one.name not in exempt and WORDS & set(words_of(one.name))),
        ids=tuple(one for one in found if one.is_id),
        single=single,
        of=len(queries),
        near=twins_of(some).near,
    )


def best_alone(queries: QuerySet, seed: int = 0) -> Alone:
    """Return the feature that ranks a sample of the queries best by itself."""
    some = _sample(queries, seed)
    judgements = Judgements(some.labels, some.offsets)
    return max(
        (
            _alone(one, values_of(some, column), 0.0, some.labels, judgements)
            for column, one in enumerate(some.features)
        ),
        key=lambda one: one.ndcg,
    )


def values_of(queries: QuerySet, column: int) -> Vector:
    """Return ``[n_docs]`` a feature as numbers: a category as how good its documents are in the other half of the queries."""
    values = queries.column(column).astype(np.float64)
    if queries.features[column].kind == "number":
        return values
    codes = np.nan_to_num(values, nan=-1.0).astype(np.int64) + 1
    means = np.add.reduceat(queries.labels, queries.offsets[:-1]) / queries.lengths
    target, half = queries.labels - np.repeat(means, queries.lengths), queries.query_of % 2 == 0
    found, size = np.zeros(len(codes)), int(codes.max()) + 1
    for learned in (half, ~half):
        sums = np.bincount(codes[learned], target[learned], size)
        # One document more of the mean, so that a value that is seen once says little.
        found[~learned] = (sums / (np.bincount(codes[learned], minlength=size) + 1.0))[codes[~learned]]
    return found


def words_of(name: str) -> list[str]:
    """Return the words of a name in small letters: ``lastClick_rank2`` has ``last``, ``click`` and ``rank``."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _sample(queries: QuerySet, seed: int) -> QuerySet:
    """Return as many whole queries as are looked at, drawn at random; those of one document only if there are no others."""
    several = np.flatnonzero(queries.lengths > 1)
    order = np.random.default_rng(seed).permutation(several if len(several) else len(queries))
    most = min(_MOST_DOCUMENTS, _MOST_CELLS // queries.n_features)
    fits = int((np.cumsum(queries.lengths[order]) <= most).sum())
    return queries.select(np.sort(order[: max(fits, _FEWEST_QUERIES)]))


def _ranks(values: Matrix | Vector, offsets: Indices) -> Vector:
    """Return ``[n_docs, n]`` mid-ranks within each query, less their mean and divided by its number of documents."""
    values = np.where(np.isnan(values), -np.inf, values)
    found = np.empty(values.shape)
    for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        length = last - first
        found[first:last] = (rankdata(values[first:last], axis=0) - (length + 1) / 2) / max(length, 1)
    return found


def _alone(
    feature: Feature, values: Vector, correlation: float, labels: Vector, judgements: Judgements
) -> Alone:
    values = np.nan_to_num(values, nan=-1e300)
    (down,), (up,) = (
        judgements.measure(scores, [METRIC], ties="pessimistic") for scores in (values, -values)
    )
    is_category = feature.kind == "category"
    descending = is_category or down.mean >= up.mean
    varies = len(values) >= _FEWEST_DOCUMENTS and not is_category
    is_id = varies and bool((values == np.floor(values)).all()) and len(np.unique(values)) == len(values)
    is_label = varies and bool(np.ptp(labels) > 0) and bool((values == labels).all())
    ndcg = down.mean if descending else up.mean
    return Alone(feature.name, descending, ndcg, correlation, is_label, is_id, is_category)


def _linear(ranks: Vector, correlations: Vector, queries: QuerySet, judgements: Judgements) -> float:
    """Return what least squares of the labels on the ranks reaches, each half of the queries scored by the other's."""
    used = np.argsort(-np.abs(correlations), kind="stable")[:_MOST_IN_MODEL]
    rows, half = ranks[:, used], queries.query_of % 2 == 0
    means = np.add.reduceat(queries.labels, queries.offsets[:-1]) / queries.lengths
    target = queries.labels - np.repeat(means, queries.lengths)
    scores = np.empty(queries.n_docs)
    for learned in (half, ~half):
        ridge = np.eye(len(used)) * (1.0 + 1e-3 * learned.sum())
        weights = np.linalg.solve(rows[learned].T @ rows[learned] + ridge, rows[learned].T @ target[learned])
        scores[~learned] = rows[~learned] @ weights
    return judgements.measure(scores, [METRIC])[0].mean


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


#: Of the held-out documents so many are compared with the features.
_MOST_HELD = 20_000
#: A figure that is shown as 1.0000.
_PERFECT = 0.99995


def suspicion(held: QuerySet, measured: Sequence[Measured]) -> str | None:
    """Say that a feature probably holds the label, and which one; ``None`` without a sign of it.

    Args:
        held: queries that the model has not learned from.
        measured: its figures on them.
    """
    last = max(1, int(np.searchsorted(held.offsets, _MOST_HELD, side="right")) - 1)
    span = slice(0, int(held.offsets[last]))
    documents, labels = np.asarray(held.documents[span]), held.labels[span]
    if len(labels) >= _FEWEST_DOCUMENTS and np.ptp(labels) > 0:
        equal = np.flatnonzero((documents == labels[:, None]).all(axis=0))
        if len(equal):
            name = held.feature_names[equal[0]]
            return f"feature {name!r} is the label of every held-out document; leave it out and train again"
    if not all(_is_perfect(one) for one in measured):
        return None
    queries = held.query_of[span]
    found = [
        name
        for name, values in zip(held.feature_names, documents.T, strict=True)
        if _orders(values, labels, queries) or _orders(-values, labels, queries)
    ]
    holds = (
        f"feature {found[0]!r} alone orders every query as the labels do, so it probably holds the label; leave it out"
        if found
        else "the features probably hold the label; leave out what is not known before a document is judged"
    )
    return f"{measured[-1].name} {measured[-1].mean:.4f} is too good to be true: {holds} and train again"


def _is_perfect(one: Measured) -> bool:
    """Whether every query that has something to find is ranked without a mistake."""
    judged = one.n_queries - one.n_empty
    return judged >= _FEWEST_QUERIES and float(np.nansum(one.per_query)) >= _PERFECT * judged


def _orders(values: Vector, labels: Vector, queries: Indices) -> bool:
    """Whether larger values never have a smaller label within a query; equal ones must have the same."""
    order = np.lexsort((-labels, values, queries))
    rises = np.diff(labels[order]) >= 0
    return bool((rises | (np.diff(queries[order]) > 0)).all())
