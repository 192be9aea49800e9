r"""How good rankings are: MAP, NDCG, mean NDCG, MRR, precision and ERR, in named conventions.

The NDCG of the same ranking differs by up to 0.28 between tools. They differ in the discount, in queries without
relevant documents and in lists shorter than the cutoff. So a figure here carries its `Convention` and the number of
empty queries with it (`Measured`), and prints with them.

Shapes: ``labels`` and ``scores`` ``[n_docs]`` with a query's documents adjacent, ``offsets`` ``[n_queries + 1]``;
results ``[n_queries]``. A query's figure has the same bits with any other queries beside it, so that equal rankings
have a difference of exactly zero.

With ``l_p`` the label at position ``p`` (from 1), ``g(l) = 2^l - 1`` [burges2005]_ and ``r_p`` one where ``l_p`` is
relevant, else zero; ``n`` documents, ``R`` of them relevant:

.. math::
    \mathrm{DCG@}k &= \sum_{p=1}^{\min(k, n)} g(l_p)\, d(p), \qquad
    \mathrm{NDCG@}k = \mathrm{DCG@}k \,/\, \text{DCG@}k \text{ of the best order} \\
    d(p) &= 1 / \log_2(1 + p) \text{ [jarvelin2002]; official scripts: } 1 / \max(1, \log_2 p) \\
    \text{mean NDCG} &= \tfrac{1}{n} \sum_{k=1}^{n} \mathrm{NDCG@}k \\
    \mathrm{AP} &= \tfrac{1}{R} \sum_{p=1}^{n} r_p \cdot \tfrac{1}{p} \sum_{i=1}^{p} r_i, \qquad
    \mathrm{P@}k = \tfrac{1}{k} \sum_{p=1}^{\min(k, n)} r_p, \qquad
    \mathrm{RR} = \max_p r_p / p \\
    \mathrm{ERR@}k &= \sum_{p=1}^{\min(k, n)} \tfrac{1}{p} R_p \prod_{i<p} (1 - R_i), \qquad
    R_p = g(l_p) / 2^{\text{top grade}} \text{ [chapelle2009]}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData, ScoringFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

    from localrank.arrays import Bits, Indices, Vector

Kind: TypeAlias = Literal["map", "ndcg", "mean_ndcg", "mrr", "p", "err"]

#: What a query without relevant documents counts as.
Empty: TypeAlias = Literal["zero", "one", "skip"]

#: Which of the documents with equal scores comes first: the one that came first in the input, as the service answers;
#: the least relevant; or the most relevant. Any other order gives a figure between the last two.
Ties: TypeAlias = Literal["input", "pessimistic", "optimistic"]

_METRIC = re.compile(r"(?P<kind>[a-z_]+)(?:@(?P<cutoff>[0-9]+))?")
_NEEDS_CUTOFF = {"p"}
_TAKES_NO_CUTOFF = {"mean_ndcg"}

#: No list is that long.
_LARGEST_CUTOFF = 1_000_000_000

#: A gain of 2^label does not fit into float64 beyond this.
_LARGEST_LABEL = 1000.0

#: Padded cells in one operation: enough that the time of the interpreter does not matter, and few enough for the cache.
_BLOCK_CELLS = 1 << 17


@dataclass(frozen=True, slots=True)
class Metric:
    """What to measure: ``map``, ``map@100``, ``mean_ndcg``, ``ndcg@10``, ``p@5``, ``mrr``, ``err@20``.

    Without a cutoff the whole list counts. ``p`` needs one; ``mean_ndcg`` takes none.
    """

    kind: Kind
    cutoff: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``ndcg@10`` and its like, in any case.

        Raises:
            InvalidConfiguration: the metric is unknown, lacks its cutoff, or has a cutoff that it does not take or that is
                beyond `_LARGEST_CUTOFF`.
        """
        match = _METRIC.fullmatch(text.strip().lower())
        if match is None or match["kind"] not in get_args(Kind):
            raise InvalidConfiguration(
                f"metric {text!r:.80}: expected one of map, map@100, mean_ndcg, mrr, mrr@10, ndcg, ndcg@10, err, err@20, p@5, "
                "with any cutoff"
            )
        kind, cutoff = match["kind"], match["cutoff"]
        if cutoff is None and kind in _NEEDS_CUTOFF:
            raise InvalidConfiguration(f"metric {text!r}: expected a cutoff, as in {kind}@5")
        if cutoff is not None and kind in _TAKES_NO_CUTOFF:
            raise InvalidConfiguration(
                f"metric {text!r:.80}: {kind} is over the whole list and takes no cutoff"
            )
        # Python does not read a number of thousands of digits.
        if cutoff is not None and (len(cutoff) > 20 or not 1 <= int(cutoff) <= _LARGEST_CUTOFF):
            raise InvalidConfiguration(
                f"metric {text!r:.80}: expected a cutoff from 1 to {_LARGEST_CUTOFF}, found {cutoff:.40}"
            )
        return cls(kind, None if cutoff is None else int(cutoff))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return self.kind if self.cutoff is None else f"{self.kind}@{self.cutoff}"


@dataclass(frozen=True, slots=True)
class Convention:
    """One tool's way of measuring.

    Attributes:
        name: what a figure is labelled with.
        empty: what a query counts as that has no gain (NDCG, ERR) or no relevant document (MAP, MRR, P@k).
        top_grade: the largest label; fixes the scale of ERR.
        official: the discount and the grades of the LETOR scripts; else ``1 / log2(1 + p)`` and any real label
            from zero up.
        relevant: the smallest relevant label of the official scripts; else everything above zero is relevant.
        short_lists: which metrics are zero where the list is shorter than the cutoff.
        origin: which tool measures so.
    """

    name: str
    empty: Empty
    top_grade: int
    official: bool = False
    relevant: int = 1
    short_lists: frozenset[Kind] = field(default_factory=frozenset)
    origin: str = ""

    @classmethod
    def named(cls, name: str | Convention) -> Convention:
        """Return a convention by its name; raise ``InvalidConfiguration`` if the name is unknown."""
        if isinstance(name, Convention):
            return name
        if name not in CONVENTIONS:
            raise InvalidConfiguration(f"convention {name!r}: expected one of {', '.join(CONVENTIONS)}")
        return CONVENTIONS[name]

    @property
    def empty_text(self) -> str:
        """What becomes of empty queries, in words."""
        return _EMPTY_TEXT[self.empty]

    def with_top_grade(self, top_grade: int) -> Convention:
        """Return the same with another largest label; its name says so."""
        if self.official:
            raise InvalidConfiguration(f"convention {self.name}: its top grade is always {self.top_grade}")
        if not 1 <= top_grade <= _LARGEST_LABEL:
            raise InvalidConfiguration(f"top grade: expected 1 to {_LARGEST_LABEL:g}, found {top_grade}")
        if top_grade == self.top_grade:
            return self
        return replace(self, name=f"{self.name}(top_grade={top_grade})", top_grade=top_grade)

    def check(self, labels: Vector) -> None:
        """Refuse labels that the convention does not define."""
        if not len(labels):
            return
        if not np.isfinite(labels).all():
            position = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise InvalidData(
                f"label of document {position}: expected a finite number, found {labels[position]}",
                document=position,
            )
        if self.official:
            strange = (labels != np.floor(labels)) | (labels < 0) | (labels > self.top_grade)
            if strange.any():
                position = int(np.flatnonzero(strange)[0])
                raise InvalidData(
                    f"label of document {position}: convention {self.name} defines the grades 0 to "
                    f"{self.top_grade}, found {labels[position]:g}; conventions standard, standard-one and "
                    "standard-skip take any number from 0 up",
                    document=position,
                )
        strange = (labels < 0) | (labels > _LARGEST_LABEL)
        if strange.any():
            position = int(np.flatnonzero(strange)[0])
            raise InvalidData(
                f"label of document {position}: expected 0 to {_LARGEST_LABEL:g}, found {labels[position]:g}",
                document=position,
            )

    def discounts(self, n: int) -> Vector:
        """Return ``[n]``, what a gain at each position is multiplied with."""
        positions = np.arange(1, n + 1, dtype=np.float64)
        shifted = np.maximum(positions, 2.0) if self.official else positions + 1.0
        discounts: Vector = np.log(2.0) / np.log(shifted)
        return discounts

    def is_relevant(self, labels: Vector) -> Bits:
        """Return which labels count as relevant for MAP, MRR and P@k."""
        return labels >= self.relevant if self.official else labels > 0


#: By name. P@k of a short list counts the missing documents as irrelevant. LETOR 3.0 is the exception: its script stops.
CONVENTIONS: dict[str, Convention] = {
    convention.name: convention
    for convention in (
        Convention(
            "letor3",
            "zero",
            top_grade=2,
            official=True,
            short_lists=frozenset({"ndcg", "p"}),
            origin="LETOR 3.0, Eval-Score-3.0.pl",
        ),
        Convention(
            "letor4",
            "zero",
            top_grade=2,
            official=True,
            short_lists=frozenset({"ndcg"}),
            origin="LETOR 4.0, Eval-Score-4.0.pl",
        ),
        Convention(
            "mslr",
            "zero",
            top_grade=4,
            official=True,
            relevant=2,
            short_lists=frozenset({"ndcg"}),
            origin="MSLR-WEB, eval-score-mslr.pl",
        ),
        Convention("standard", "zero", top_grade=4, origin="RankLib; trec_eval on exponential gains"),
        Convention("standard-one", "one", top_grade=4, origin="LightGBM, XGBoost, CatBoost, allRank"),
        Convention("standard-skip", "skip", top_grade=4, origin="gdeval.pl, TF-Ranking"),
    )
}

_EMPTY_VALUE: dict[Empty, float] = {"zero": 0.0, "one": 1.0, "skip": np.nan}
_EMPTY_TEXT: dict[Empty, str] = {"zero": "counted 0", "one": "counted 1", "skip": "left out"}


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One metric of one ranking of many queries, with what is needed to compare it with another.

    Attributes:
        metric: such as ``ndcg@10``.
        convention: how it was measured.
        per_query: ``[n_queries]``; NaN where the convention leaves empty queries out.
        mean: over all queries, or over those not left out; NaN if there are none.
        n_queries: how many there were, empty ones included.
        n_empty: how many of them have nothing to find.
        ties: how equal scores were ordered.
    """

    metric: Metric
    convention: Convention
    per_query: Vector
    mean: float
    n_queries: int
    n_empty: int
    ties: Ties = "input"

    @classmethod
    def pooled(cls, parts: Sequence[Measured]) -> Measured:
        """Return the figure over the queries of all parts, such as the test queries of the five folds.

        The official mean over folds is another one: the mean of the parts' means.
        """
        if not parts:
            raise InvalidData("figures to pool: expected at least one, found none")
        first = parts[0]
        for part in parts:
            if (part.metric, part.convention, part.ties) != (first.metric, first.convention, first.ties):
                raise InvalidData(
                    f"figures to pool: expected one metric and convention, found {first} and {part}"
                )
        per_query = np.concatenate([part.per_query for part in parts])
        return replace(
            first,
            per_query=per_query,
            mean=_mean(per_query),
            n_queries=len(per_query),
            n_empty=sum(part.n_empty for part in parts),
        )

    @property
    def name(self) -> str:
        """The metric's name."""
        return str(self.metric)

    def __str__(self) -> str:
        ties = "" if self.ties == "input" else f", ties {self.ties}"
        return f"{self.metric} {self.mean:.4f} ({self.basis}{ties})"

    @property
    def basis(self) -> str:
        """The convention and counts that are always printed with the figure."""
        return (
            f"{self.convention.name}; {self.n_queries} queries, {self.n_empty} of them empty, "
            f"{self.convention.empty_text}"
        )

    def to_json(self) -> dict[str, Any]:
        """The mean with its convention and counts, as JSON values."""
        return {
            "metric": str(self.metric),
            "mean": self.mean,
            "convention": self.convention.name,
            "queries": self.n_queries,
            "empty_queries": self.n_empty,
            "empty_queries_are": self.convention.empty_text,
            "ties": self.ties,
        }


class Judgements:
    """Judged queries, made ready once to measure many rankings of them.

    Queries of about the same length are worked on together as the rows of padded matrices; one pass over those
    matrices measures everything asked for.
    """

    def __init__(
        self, labels: ArrayLike, offsets: ArrayLike, convention: str | Convention = "standard"
    ) -> None:
        """Prepare ``labels [n_docs]`` of the queries that ``offsets [n_queries + 1]`` delimit.

        Raises:
            InvalidData: labels that the convention does not define, or offsets that do not fit them.
            InvalidConfiguration: no such convention.
        """
        self.convention = Convention.named(convention)
        self.labels: Vector = np.asarray(labels, np.float64)
        self.offsets: Indices = _checked_offsets(offsets, self.labels)
        self.convention.check(self.labels)
        self.n_queries = len(self.offsets) - 1
        self._blocks = tuple(_blocks(self.labels, self.offsets, self.convention))

    def measure(
        self, scores: ArrayLike, metrics: Sequence[Metric | str], *, ties: Ties = "input"
    ) -> tuple[Measured, ...]:
        """Measure the ranking that ``scores [n_docs]`` make, higher being better; one result per metric.

        Raises:
            ScoringFailed: a score is not finite.
            InvalidConfiguration: no such metric.
            InvalidData: not one score per document, or a label above the convention's top grade, for ERR.
        """
        wanted = [Metric.parse(metric) if isinstance(metric, str) else metric for metric in metrics]
        if ties not in get_args(Ties):
            raise InvalidConfiguration(f"ties {ties!r}: expected one of {', '.join(get_args(Ties))}")
        self.check(wanted)
        negated = -_checked_scores(scores, self.labels)
        nothing = _EMPTY_VALUE[self.convention.empty]
        values = [np.full(self.n_queries, nothing) for _ in wanted]
        n_empty = [self.n_queries] * len(wanted)
        depth = _depth(wanted)
        for block in self._blocks:
            ranked = _Ranked(block, negated, depth, ties)
            for i, metric in enumerate(wanted):
                filled = block.n_gains if metric.kind in {"ndcg", "mean_ndcg", "err"} else block.n_relevant
                values[i][block.queries] = np.where(filled > 0, self._of(ranked, metric), nothing)
                n_empty[i] -= int(np.count_nonzero(filled))
        return tuple(
            Measured(metric, self.convention, one, _mean(one), self.n_queries, empty, ties)
            for metric, one, empty in zip(wanted, values, n_empty, strict=True)
        )

    def check(self, metrics: Sequence[Metric]) -> None:
        """Refuse what `measure` would refuse of these labels, before there are scores."""
        top = self.convention.top_grade
        if any(metric.kind == "err" for metric in metrics) and (self.labels > top).any():
            position = int(np.flatnonzero(self.labels > top)[0])
            raise InvalidData(
                f"label of document {position}: ERR in convention {self.convention.name} has the top grade {top}, "
                f"found {self.labels[position]:g}; set another top grade",
                document=position,
            )

    def per_query(self, scores: ArrayLike, metric: Metric | str) -> Vector:
        """Return one metric's ``[n_queries]`` values."""
        return self.measure(scores, [metric])[0].per_query

    def every_per_query(self, scores: ArrayLike, metrics: Sequence[Metric | str]) -> Vector:
        """Return the ``[n_metrics, n_queries]`` values of several metrics."""
        return np.stack([one.per_query for one in self.measure(scores, metrics)])

    def _of(self, ranked: _Ranked, metric: Metric) -> Vector:
        lengths = ranked.block.lengths
        k = lengths if metric.cutoff is None else np.minimum(metric.cutoff, lengths)
        match metric.kind:
            case "ndcg":
                found = _at(ranked.ndcg, k)
            case "mean_ndcg":
                found = _at(np.cumsum(ranked.ndcg, axis=1), lengths) / lengths
            case "map":
                found = _at(ranked.precisions, k) / np.maximum(ranked.block.n_relevant, 1)
            case "p":
                found = _at(ranked.hits, k) / (metric.cutoff or 1)
            case "mrr":
                first = np.argmax(ranked.relevant, axis=1)
                found = np.where(_at(ranked.hits, k) > 0, 1 / (first + 1), 0.0)
            case "err":
                found = _at(ranked.reciprocal_ranks(2.0**self.convention.top_grade), k)
        if metric.cutoff is not None and metric.kind in self.convention.short_lists:
            found = np.where(lengths < metric.cutoff, 0.0, found)
        return found


def measure(
    labels: ArrayLike,
    scores: ArrayLike,
    offsets: ArrayLike,
    metrics: Sequence[Metric | str],
    convention: str | Convention = "standard",
    *,
    ties: Ties = "input",
) -> tuple[Measured, ...]:
    """Measure one ranking; see `Judgements` for measuring several of the same queries."""
    return Judgements(labels, offsets, convention).measure(scores, metrics, ties=ties)


def ndcg(
    labels: ArrayLike,
    scores: ArrayLike,
    offsets: ArrayLike,
    k: int | None = 10,
    convention: str | Convention = "standard",
) -> Vector:
    """Return NDCG@k of every query, ``[n_queries]``; ``k`` of None is the whole list."""
    return measure(labels, scores, offsets, [Metric("ndcg", k)], convention)[0].per_query


@dataclass(frozen=True, slots=True, eq=False)
class _PaddedQueries:
    """Queries of about the same length, the rows of matrices ``[m, width]`` padded on the right.

    Attributes:
        queries: ``[m]`` which ones.
        lengths: ``[m]`` of their lists, at least 1.
        documents: the position of each document; zero in the places that fill a short list.
        present: whether the place holds a document.
        labels, gains, relevant: of each document; zero in the places that fill a short list.
        ideal: DCG of the best order at each position.
        n_gains, n_relevant: ``[m]`` documents that count, for the graded and for the binary metrics.
        discounts: ``[width]``.
    """

    queries: Indices
    lengths: Indices
    documents: Indices
    present: Bits
    labels: Vector
    gains: Vector
    relevant: Bits
    ideal: Vector
    n_gains: Indices
    n_relevant: Indices
    discounts: Vector


class _Ranked:
    """One block in the order of its scores, to a depth; every member is made when first asked for."""

    def __init__(self, block: _PaddedQueries, negated: Vector, depth: int | None, ties: Ties) -> None:
        self.block = block
        # Padding comes last, whatever the scores are.
        keys = np.where(block.present, negated[block.documents], np.inf)
        if ties == "input":
            order = np.argsort(keys, axis=1, kind="stable")
        else:
            order = np.lexsort((block.labels if ties == "pessimistic" else -block.labels, keys), axis=1)
        self._order = order[:, :depth]

    @cached_property
    def gains(self) -> Vector:
        return np.take_along_axis(self.block.gains, self._order, axis=1)

    @cached_property
    def relevant(self) -> Bits:
        return np.take_along_axis(self.block.relevant, self._order, axis=1)

    @cached_property
    def positions(self) -> Vector:
        return np.arange(1, self._order.shape[1] + 1, dtype=np.float64)

    @cached_property
    def ndcg(self) -> Vector:
        """NDCG at each position; zero where the query has no gain."""
        width = self._order.shape[1]
        dcg = np.cumsum(self.gains * self.block.discounts[:width], axis=1)
        return np.divide(dcg, self.block.ideal[:, :width], out=dcg, where=self.block.n_gains[:, None] > 0)

    @cached_property
    def hits(self) -> Indices:
        """How many relevant documents there are up to each position."""
        return np.cumsum(self.relevant, axis=1)

    @cached_property
    def precisions(self) -> Vector:
        """Running sums of the precision at each relevant document."""
        return np.cumsum(np.where(self.relevant, self.hits / self.positions, 0.0), axis=1)

    def reciprocal_ranks(self, scale: float) -> Vector:
        """Running sums of 1 / p times the probability that position p is the first that satisfies the user."""
        content = self.gains / scale
        going_on = np.cumprod(1 - content, axis=1)
        content[:, 1:] *= going_on[:, :-1]
        return np.cumsum(content / self.positions, axis=1)


def _blocks(labels: Vector, offsets: Indices, convention: Convention) -> Iterator[_PaddedQueries]:
    lengths = np.diff(offsets)
    by_length = np.argsort(lengths, kind="stable")
    by_length = by_length[lengths[by_length] > 0]
    sizes = lengths[by_length]
    gains = np.exp2(labels) - 1
    relevant = convention.is_relevant(labels)
    discounts = convention.discounts(int(sizes[-1])) if len(sizes) else np.zeros(0)
    start = 0
    while start < len(by_length):
        # Rows at most a quarter longer than the shortest, and no more of them than fit.
        stop = int(np.searchsorted(sizes, 1.25 * sizes[start] + 4, side="right"))
        stop = min(stop, start + max(1, _BLOCK_CELLS // int(sizes[stop - 1])))
        queries, own = by_length[start:stop], sizes[start:stop]
        width = int(own[-1])
        columns = np.arange(width)
        present = columns < own[:, None]
        documents = np.where(present, offsets[queries][:, None] + columns, 0)
        own_gains = np.where(present, gains[documents], 0.0)
        own_relevant = present & relevant[documents]
        best = -np.sort(-own_gains, axis=1)
        yield _PaddedQueries(
            queries=queries,
            lengths=own,
            documents=documents,
            present=present,
            labels=np.where(present, labels[documents], 0.0),
            gains=own_gains,
            relevant=own_relevant,
            ideal=np.cumsum(best * discounts[:width], axis=1),
            n_gains=np.count_nonzero(own_gains, axis=1),
            n_relevant=np.count_nonzero(own_relevant, axis=1),
            discounts=discounts[:width],
        )
        start = stop


def _at(running: Vector | Indices, k: Indices) -> Vector:
    """Return each row's value at position ``k`` (from 1)."""
    return np.asarray(np.take_along_axis(running, (k - 1)[:, None], axis=1)[:, 0], np.float64)


def _depth(metrics: Sequence[Metric]) -> int | None:
    """Return how many positions the metrics look at; None is all."""
    cutoffs = [metric.cutoff for metric in metrics]
    return None if None in cutoffs else max((cutoff for cutoff in cutoffs if cutoff), default=1)


def _mean(per_query: Vector) -> float:
    counted = per_query[~np.isnan(per_query)]
    return float(counted.mean()) if len(counted) else float("nan")


def _checked_offsets(offsets: ArrayLike, labels: Vector) -> Indices:
    if labels.ndim != 1:
        raise InvalidData(f"labels: expected one per document, found shape {labels.shape}")
    checked = np.asarray(offsets, np.int64)
    fits = checked.ndim == 1 and len(checked) > 0 and checked[0] == 0 and checked[-1] == len(labels)
    if not fits or (np.diff(checked) < 0).any():
        raise InvalidData(
            f"offsets: expected to rise from 0 to the {len(labels)} documents, found {checked.tolist()[:5]} …"
        )
    return checked


def _checked_scores(scores: ArrayLike, labels: Vector) -> Vector:
    checked: Vector = np.asarray(scores, np.float64)
    if checked.shape != labels.shape:
        raise InvalidData(f"scores: expected one per document {labels.shape}, found {checked.shape}")
    if not np.isfinite(checked).all():
        position = int(np.flatnonzero(~np.isfinite(checked))[0])
        raise ScoringFailed(f"document {position} scored {checked[position]}; expected a finite score")
    return checked
