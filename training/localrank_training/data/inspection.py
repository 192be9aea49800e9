"""What a set of judged queries is like, and what looks wrong with it.

Everything is computed over pieces of whole queries, so that a mapped set larger than memory can be inspected.
A correlation takes a missing value as the feature's mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from localrank_training.parallel.processes import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank.features.feature import Feature
    from localrank_training.data.queries import QuerySet

_CELLS = 1 << 20
#: Quantiles come from at most this many documents, evenly spaced.
_SAMPLE = 50_000
#: Pairs of more features are not correlated: the table would be larger than the data.
_MOST_CORRELATED = 3000
_LEVELS_SHOWN = 20
_VALUES_SHOWN = 5
_PAIRS_SHOWN = 10
_EXAMPLES = 3
#: Among fewer documents whole numbers may all differ by chance.
_FEWEST_IDS = 20
#: float32 counts in steps of more than one above this.
_EXACT_INTEGERS = 2.0**24
_QUANTILES = {"min": 0.0, "5%": 0.05, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95, "max": 1.0}


@dataclass(frozen=True, slots=True)
class FeatureFigures:
    """One column.

    Attributes:
        name: its name.
        minimum: the smallest value; NaN where all are missing.
        median: of a sample of documents.
        maximum: the largest value.
        mean: over the values that are there.
        deviation: standard deviation over the values that are there.
        missing: documents without a value.
        zeros: share of zeros among the values.
        constant: one value everywhere.
        per_query: constant within every query, so it cannot order documents by itself.
        normalised: ``minmax`` or ``zscore`` if every query's values look so.
        label_correlation: with the label, both as differences from their query's mean.
        distinct: how many values a category has; 0 for numbers.
        values: of a category, the most frequent ones and how many documents have them.

    The order of a category's values means nothing, so figures of order and size are NaN, and zeros and correlations 0.
    """

    name: str
    minimum: float
    median: float
    maximum: float
    mean: float
    deviation: float
    missing: int
    zeros: float
    constant: bool
    per_query: bool
    normalised: str | None
    label_correlation: float
    distinct: int = 0
    values: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's correlation of two features over all documents."""

    first: str
    second: str
    correlation: float


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something that looks wrong: how often, and where to look."""

    what: str
    count: int
    of: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `inspect` found.

    Attributes:
        n_queries: queries.
        n_docs: documents.
        n_features: features.
        lengths: quantiles and mean of the documents per query.
        labels: documents per label, if there are few different ones; else quantiles by name.
        label_levels: how many different labels.
        weights: quantiles and mean of the weights of the queries; None without weights.
        positions: quantiles and mean of the places at which documents were shown, and how many were not; None if the data
            do not say.
        features: one per column.
        correlations: the strongest between features, strongest first; empty where features are too many.
        suspicions: what looks wrong.
    """

    n_queries: int
    n_docs: int
    n_features: int
    lengths: dict[str, float]
    labels: dict[str, float]
    label_levels: int
    weights: dict[str, float] | None
    positions: dict[str, float] | None
    features: tuple[FeatureFigures, ...]
    correlations: tuple[Correlation, ...]
    suspicions: tuple[Suspicion, ...]


def inspect(queries: QuerySet, *, progress: Progress = silent) -> Inspection:
    """Look at a set."""
    # A mapped set is not checked when it is opened, and may hold infinite values.
    with np.errstate(invalid="ignore", over="ignore"):
        return _inspect(queries, progress)


def _inspect(queries: QuerySet, progress: Progress) -> Inspection:
    columns = _Columns(queries.n_features)
    twins = _Twins(queries)
    largest = max(float(np.abs(queries.labels).max()), 1.0)  # so that squares of labels stay finite
    done = 0
    for first, last in _pieces(queries):
        rows = slice(int(queries.offsets[first]), int(queries.offsets[last]))
        documents = np.asarray(queries.documents[rows])
        offsets = queries.offsets[first : last + 1] - queries.offsets[first]
        columns.add(documents, queries.labels[rows] / largest, offsets)
        twins.add(documents, first, last)
        done += len(documents)
        progress("looking at values", done, 2 * queries.n_docs)
    spread = _Spread(columns, [at for at, one in enumerate(queries.features) if one.kind == "category"])
    for first, last in _pieces(queries):
        rows = slice(int(queries.offsets[first]), int(queries.offsets[last]))
        spread.add(np.asarray(queries.documents[rows]))
        done += rows.stop - rows.start
        progress("looking at values", done, 2 * queries.n_docs)
    features = _features(queries, columns, spread)
    pairs = _strongest(queries.feature_names, spread)
    levels, counts = np.unique(queries.labels, return_counts=True)
    return Inspection(
        n_queries=len(queries),
        n_docs=queries.n_docs,
        n_features=queries.n_features,
        lengths=_quantiles_and_mean(queries.lengths),
        labels=(
            {f"{level:g}": int(count) for level, count in zip(levels.tolist(), counts.tolist(), strict=True)}
            if len(levels) <= _LEVELS_SHOWN
            else _quantiles(queries.labels)
        ),
        label_levels=len(levels),
        weights=None if queries.weights is None else _quantiles_and_mean(queries.weights),
        positions=_shown(queries.positions),
        features=features,
        correlations=tuple(pairs[:_PAIRS_SHOWN]),
        suspicions=tuple(_suspicions(queries, features, spread, twins)),
    )


def _pieces(queries: QuerySet) -> Iterator[tuple[int, int]]:
    """Yield ``first, last`` of runs of whole queries: as many as fit into a piece, at least one."""
    size = max(_CELLS // queries.n_features, 1)
    first = 0
    while first < len(queries):
        fit = int(np.searchsorted(queries.offsets, queries.offsets[first] + size, side="right")) - 1
        last = max(fit, first + 1)
        yield first, last
        first = last


class _Columns:
    """Everything about columns that one pass can tell."""

    def __init__(self, n_features: int) -> None:
        self.minimum = np.full(n_features, np.inf)
        self.maximum = np.full(n_features, -np.inf)
        self.missing = np.zeros(n_features, np.int64)
        self.zeros = np.zeros(n_features, np.int64)
        self.sums = np.zeros(n_features)
        self.n_docs = 0
        #: Queries in which the feature varies, and among them those that look normalised.
        self.varying = np.zeros(n_features, np.int64)
        self.minmax = np.zeros(n_features, np.int64)
        self.zscore = np.zeros(n_features, np.int64)
        self.between = np.zeros(n_features, bool)
        self._products = np.zeros(n_features)
        self._squares = np.zeros(n_features)
        self._label_squares = 0.0

    def add(self, documents: Matrix, labels: Vector, offsets: Indices) -> None:
        self.n_docs += len(documents)
        missing = np.isnan(documents)
        present = ~missing
        values = np.where(missing, 0, documents).astype(np.float64)
        starts, lengths = offsets[:-1], np.diff(offsets)
        low = np.minimum.reduceat(np.where(missing, np.inf, values), starts)
        high = np.maximum.reduceat(np.where(missing, -np.inf, values), starts)
        self.minimum = np.minimum(self.minimum, low.min(axis=0))
        self.maximum = np.maximum(self.maximum, high.max(axis=0))
        self.missing += missing.sum(axis=0)
        self.zeros += (present & (values == 0)).sum(axis=0)
        self.sums += values.sum(axis=0)

        counts = np.maximum(np.add.reduceat(present, starts, dtype=np.int64), 1)
        means = np.add.reduceat(values, starts) / counts
        centred = np.where(missing, 0, values - np.repeat(means, lengths, axis=0))
        squares = np.add.reduceat(centred**2, starts)
        varying = high > low
        self.varying += varying.sum(axis=0)
        self.minmax += (varying & (low == 0) & (high == 1)).sum(axis=0)
        self.between |= ((values > 0) & (values < 1)).any(axis=0)
        # Deviations over n and over n - 1 are both in use.
        unit = (np.abs(squares / counts - 1) < 1e-3) | (
            np.abs(squares / np.maximum(counts - 1, 1) - 1) < 1e-3
        )
        self.zscore += (varying & (np.abs(means) < 1e-3) & unit).sum(axis=0)

        relevance = labels - np.repeat(np.add.reduceat(labels, starts) / lengths, lengths)
        self._products += relevance @ centred
        self._squares += squares.sum(axis=0)
        self._label_squares += float(relevance @ relevance)

    @property
    def means(self) -> Vector:
        means: Vector = self.sums / np.maximum(self.n_docs - self.missing, 1)
        return means

    @property
    def label_correlations(self) -> Vector:
        scale = np.sqrt(self._squares * self._label_squares)
        return np.divide(self._products, scale, out=np.zeros_like(scale), where=scale > 0)


class _Spread:
    """Deviations and products around the means, which takes a second pass to be exact."""

    def __init__(self, columns: _Columns, categories: Sequence[int] = ()) -> None:
        self._means = columns.means
        self._categories = categories
        self._n_present = np.maximum(columns.n_docs - columns.missing, 1)
        self._squares = np.zeros(len(self._means))
        self._products = (
            np.zeros((len(self._means), len(self._means))) if len(self._means) <= _MOST_CORRELATED else None
        )

    def add(self, documents: Matrix) -> None:
        centred = documents - self._means
        centred[np.isnan(centred)] = 0
        self._squares += (centred**2).sum(axis=0)
        if self._products is not None:
            self._products += centred.T @ centred

    @property
    def deviations(self) -> Vector:
        deviations: Vector = np.sqrt(self._squares / self._n_present)
        return deviations

    def correlations(self) -> Vector | None:
        """Return ``[n_features, n_features]``; zero for constants and categories, None if there are too many features."""
        if self._products is None:
            return None
        scale = np.sqrt(np.outer(self._squares, self._squares))
        scale[self._categories] = scale[:, self._categories] = 0
        return np.divide(self._products, scale, out=np.zeros_like(scale), where=scale > 0)


class _Twins:
    """Documents of a query with the same values."""

    def __init__(self, queries: QuerySet) -> None:
        self._queries = queries
        self.copies = 0
        self.copied: list[int] = []
        self.conflicts = 0
        self.conflicting: list[int] = []
        self._weights = np.random.default_rng(0).integers(
            0, 2**64, queries.n_features, np.uint64
        ) | np.uint64(1)

    def add(self, documents: Matrix, first: int, last: int) -> None:
        """Take the documents of the queries ``first`` to ``last - 1``."""
        spans = self._queries.offsets[first : last + 1]
        query_of = np.repeat(np.arange(first, last), np.diff(spans))
        labels = self._queries.labels[int(spans[0]) : int(spans[-1])]
        # Rows with equal hashes come together and are then compared. 0.0 == -0.0.
        words = np.where(np.isnan(documents), np.float32(np.nan), documents + np.float32(0)).view(np.uint32)
        hashes = words.astype(np.uint64) @ self._weights
        order = np.lexsort((labels, hashes, query_of))
        before, after = order[:-1], order[1:]
        alike = np.flatnonzero((query_of[before] == query_of[after]) & (hashes[before] == hashes[after]))
        same = (words[before[alike]] == words[after[alike]]).all(axis=1)
        before, after = before[alike[same]], after[alike[same]]
        self.copies += len(after)
        self.copied += np.unique(query_of[after])[:_EXAMPLES].tolist()
        differing = labels[before] != labels[after]
        self.conflicts += int(differing.sum())
        self.conflicting += np.unique(query_of[after[differing]])[:_EXAMPLES].tolist()


def _features(queries: QuerySet, columns: _Columns, spread: _Spread) -> tuple[FeatureFigures, ...]:
    step = -(-queries.n_docs // _SAMPLE)
    sample: Vector = np.asarray(queries.documents[::step], np.float64)
    medians = np.full(queries.n_features, np.nan)
    present = ~np.isnan(sample).all(axis=0)
    medians[present] = np.nanmedian(sample[:, present], axis=0)
    means, deviations, correlations = columns.means, spread.deviations, columns.label_correlations
    features = []
    for i, (name, known) in enumerate(zip(queries.feature_names, queries.features, strict=True)):
        if known.kind == "category":
            features.append(_category(known, queries.column(i), int(columns.varying[i])))
            continue
        there = queries.n_docs - int(columns.missing[i])
        varying = int(columns.varying[i])
        normalised = None
        if varying > 1:
            normalised = (
                "minmax"
                if columns.minmax[i] == varying and columns.between[i]  # not a flag of 0 and 1
                else "zscore"
                if columns.zscore[i] == varying
                else None
            )
        features.append(
            FeatureFigures(
                name=name,
                minimum=float(columns.minimum[i]) if there else np.nan,
                median=float(medians[i]),
                maximum=float(columns.maximum[i]) if there else np.nan,
                mean=float(means[i]) if there else np.nan,
                deviation=float(deviations[i]) if there else np.nan,
                missing=int(columns.missing[i]),
                zeros=float(columns.zeros[i] / there) if there else 0.0,
                constant=bool(columns.minimum[i] >= columns.maximum[i]),
                per_query=varying == 0,
                normalised=normalised,
                label_correlation=float(correlations[i]),
            )
        )
    return tuple(features)


def _category(feature: Feature, codes: Matrix, varying: int) -> FeatureFigures:
    missing = np.isnan(codes)
    counts = np.bincount(codes[~missing].astype(np.intp), minlength=feature.absent)
    found = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    return FeatureFigures(
        name=feature.name,
        minimum=np.nan,
        median=np.nan,
        maximum=np.nan,
        mean=np.nan,
        deviation=np.nan,
        missing=int(missing.sum()),
        zeros=0.0,
        constant=len(found) < 2,
        per_query=varying == 0,
        normalised=None,
        label_correlation=0.0,
        distinct=len(found),
        values={str(feature.value_of(code)): int(counts[code]) for code in found[:_VALUES_SHOWN].tolist()},
    )


def _strongest(names: Sequence[str], spread: _Spread) -> list[Correlation]:
    correlations = spread.correlations()
    if correlations is None:
        return []
    first, second = np.triu_indices(len(names), 1)
    strengths = correlations[first, second]
    order = np.argsort(-np.abs(strengths), kind="stable")[:_PAIRS_SHOWN]
    return [
        Correlation(names[int(first[i])], names[int(second[i])], float(strengths[i]))
        for i in order
        if strengths[i] != 0
    ]


def _suspicions(
    queries: QuerySet, features: Sequence[FeatureFigures], spread: _Spread, twins: _Twins
) -> Iterator[Suspicion]:
    def of_queries(what: str, found: Bits) -> Iterator[Suspicion]:
        where = np.flatnonzero(found)
        if len(where):
            examples = tuple(queries.query_ids[query] for query in where[:_EXAMPLES].tolist())
            yield Suspicion(what, len(where), len(queries), examples)

    def of_features(what: str, found: Sequence[FeatureFigures]) -> Iterator[Suspicion]:
        if found:
            examples = tuple(feature.name for feature in found[:_EXAMPLES])
            yield Suspicion(what, len(found), len(features), examples)

    def of_documents(what: str, count: int, where: Sequence[int]) -> Iterator[Suspicion]:
        if count:
            examples = tuple(queries.query_ids[query] for query in where[:_EXAMPLES])
            yield Suspicion(what, count, queries.n_docs, examples)

    starts = queries.offsets[:-1]
    high = np.maximum.reduceat(queries.labels, starts)
    low = np.minimum.reduceat(queries.labels, starts)
    single = queries.lengths == 1
    yield from of_queries("queries without a relevant document", high <= 0)
    yield from of_queries("queries whose documents all have the same label", (high == low) & ~single)
    yield from of_queries("queries of one document", single)
    yield from of_queries(
        "queries whose documents are already sorted by label (tied scores keep this order, so metrics look "
        "too good)",
        _sorted_by_label(queries) if _mostly_sorted(queries, high > low) else np.zeros(len(queries), bool),
    )
    yield from of_documents("documents with a negative label", *_where(queries, queries.labels < 0))
    yield from of_documents(
        "documents that are equal to another document of their query", twins.copies, twins.copied
    )
    yield from of_documents(
        "documents with the same values as another document of their query but a different label",
        twins.conflicts,
        twins.conflicting,
    )
    if queries.comments is not None:
        count, where = _repeated(queries)
        # A comment that most documents share is not an id of the document.
        if 2 * count < queries.n_docs:
            yield from of_documents(
                "documents with the same comment as another document of their query", count, where
            )

    for gap in queries.gaps:
        yield Suspicion(
            "lines lack features that other lines have; these are read as zeros",
            gap.lines,
            gap.of,
            (f"{gap.file}:{gap.line} has no feature {gap.feature}",),
        )
    yield from of_features(
        "features that look like ids of documents: a different whole number in every document",
        [feature for feature in features if _numbers_documents(queries, feature)],
    )
    empty = [feature for feature in features if feature.missing == queries.n_docs]
    constant = [feature for feature in features if feature.constant and feature.missing < queries.n_docs]
    yield from of_features("features without any value", empty)
    yield from of_features("constant features", constant)
    yield from of_features(
        "features with infinite values", [f for f in features if np.inf in (-f.minimum, f.maximum)]
    )
    yield from of_features(
        "features that are constant within every query",
        [
            feature
            for feature, known in zip(features, queries.features, strict=True)
            if feature.per_query and not feature.constant and known.scope == "document"
        ],
    )
    yield from of_features(
        "features with missing values", [f for f in features if 0 < f.missing < queries.n_docs]
    )
    yield from _same_columns(features, spread)
    varying = [feature for feature in features if not feature.constant and not feature.distinct]
    for kind in ("minmax", "zscore"):
        yield from of_features(
            f"features that look normalised per query ({kind}): never mix them with raw data",
            [feature for feature in varying if feature.normalised == kind],
        )
    if varying:
        narrow = min(varying, key=lambda feature: feature.deviation)
        wide = max(varying, key=lambda feature: feature.deviation)
        if narrow.deviation > 0 and wide.deviation > 1e4 * narrow.deviation:
            yield Suspicion(
                "features whose scales differ more than 10,000 times: linear scorers need a normalisation",
                sum(feature.deviation > 1e4 * narrow.deviation for feature in varying),
                len(features),
                (wide.name, narrow.name),
            )
    yield from of_features(
        "features with values above 16,777,216: float32 cannot tell neighbouring integers apart there",
        [f for f in features if max(abs(f.minimum), abs(f.maximum)) > _EXACT_INTEGERS],
    )


def _numbers_documents(queries: QuerySet, feature: FeatureFigures) -> bool:
    """Tell whether a column may be an id that was taken for a feature."""
    if (
        queries.n_docs < _FEWEST_IDS
        or feature.missing
        or feature.distinct
        or not feature.maximum - feature.minimum < np.inf
    ):
        return False
    if feature.maximum - feature.minimum < queries.n_docs - 1:
        return False
    values = queries.column(queries.feature_names.index(feature.name))
    whole = bool((values[:1000] == np.floor(values[:1000])).all()) and bool(
        (values == np.floor(values)).all()
    )
    return whole and len(np.unique(values)) == len(values)


def _same_columns(features: Sequence[FeatureFigures], spread: _Spread) -> Iterator[Suspicion]:
    correlations = spread.correlations()
    if correlations is None:
        return
    pairs = np.argwhere(np.triu(np.abs(correlations) > 1 - 1e-9, 1))
    if len(pairs):
        examples = tuple(f"{features[i].name} = {features[j].name}" for i, j in pairs[:_EXAMPLES].tolist())
        repeated = len(np.unique(pairs[:, 1]))
        yield Suspicion(
            "features that repeat another feature (correlation ±1)", repeated, len(features), examples
        )


def _where(queries: QuerySet, found: Bits) -> tuple[int, list[int]]:
    return int(found.sum()), np.unique(queries.query_of[found])[:_EXAMPLES].tolist()


def _sorted_by_label(queries: QuerySet) -> Bits:
    """``[n_queries]`` whether labels never rise within a query and do fall."""
    inside = np.diff(queries.query_of) == 0
    steps = np.diff(queries.labels)
    query_of = queries.query_of[1:]
    rises = np.bincount(query_of[inside & (steps > 0)], minlength=len(queries))
    falls = np.bincount(query_of[inside & (steps < 0)], minlength=len(queries))
    found: Bits = (rises == 0) & (falls > 0)
    return found


def _mostly_sorted(queries: QuerySet, mixed: Bits) -> bool:
    """Tell whether more queries are sorted than by chance: short lists are sorted now and then."""
    long = mixed & (queries.lengths >= 5)
    return bool(long.any()) and float(_sorted_by_label(queries)[long].mean()) > 0.5


def _repeated(queries: QuerySet) -> tuple[int, list[int]]:
    comments: Sequence[str] = () if queries.comments is None else queries.comments
    seen: set[tuple[int, str]] = set()
    where: list[int] = []
    count = 0
    for query, comment in zip(queries.query_of.tolist(), comments, strict=True):
        if comment.strip():
            count += (query, comment) in seen
            if (query, comment) in seen and query not in where[-1:]:
                where.append(query)
            seen.add((query, comment))
    return count, where


def _shown(positions: Indices | None) -> dict[str, float] | None:
    """Describe places from 1; those of documents that were not shown are 0."""
    if positions is None:
        return None
    shown = positions[positions > 0]
    return (_quantiles_and_mean(shown) if len(shown) else {}) | {
        "not shown": float(len(positions) - len(shown))
    }


def _quantiles_and_mean(values: Vector | Indices) -> dict[str, float]:
    return _quantiles(values) | {"mean": float(values.mean())}


def _quantiles(values: Vector | Indices) -> dict[str, float]:
    found = np.quantile(values, list(_QUANTILES.values()))
    return {name: float(value) for name, value in zip(_QUANTILES, found, strict=True)}
