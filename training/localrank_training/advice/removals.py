"""The worth of judged data, measured by taking some away: queries, documents, features, right labels.

A quick linear model takes the same cross-validation several times over: with everything, with half of the training queries,
with half of the documents of each, with half of the features, and with a tenth of the labels redrawn. It is always examined
on whole queries with their own labels, so that the figures are paired query by query. Halves are drawn together with the rest,
so that each query, document and feature is taken away as often as every other.

Gains shrink: losing half of the data costs more than doubling the data would gain. This model is not good enough to
serve; it only measures the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.metrics import measure
from localrank_training.evaluation.comparisons import compare_family
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.parallel.processes import in_parallel, silent
from localrank_training.run.choosing import Split, folds_of
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Bits, Vector
    from localrank.metrics import Measured
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.parallel.processes import Progress

METRIC, CONVENTION = "ndcg@10", "standard"
_FOLDS = 3
#: Number of draws of each kind. It is even, because every second draw takes away what the draw before it kept.
_DRAWS = 4
#: Of the labels that are redrawn.
_REDRAWN = 0.1
#: Least squares within queries: it was the best of five quick models on four sets, and the fastest.
_LEARNER = ("linear", ["learner.blocks='zscore'", "learner.ridge=0.1"])


@dataclass(frozen=True, slots=True)
class Removal:
    """Something that was taken away.

    Attributes:
        what: `queries`, `documents`, `features` or `labels`.
        text: for people.
        loss: the figure with everything minus the figure without it; above zero if it helps.
    """

    what: str
    text: str
    loss: Comparison

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"what": self.what, "text": self.text, "loss": self.loss.to_json()}


def removals(
    queries: QuerySet, *, seed: int = 0, workers: int = 1, progress: Progress = silent
) -> tuple[Removal, ...]:
    """Measure what each removal costs, all adjusted for being looked at together."""
    folds = folds_of(len(queries), _FOLDS, seed)
    kinds = [("", 0), *((what, draw) for what in REMOVALS for draw in range(_DRAWS))]
    pieces = [(queries, fold, what, draw, seed) for what, draw in kinds for fold in range(_FOLDS)]
    found = in_parallel(
        _examined, pieces, workers=workers, progress=lambda done, total: progress("removals", done, total)
    )
    place = np.argsort(np.concatenate(folds))
    per_query = [
        np.concatenate(found[first : first + _FOLDS])[place] for first in range(0, len(found), _FOLDS)
    ]
    (whole,) = measure(queries.labels, np.zeros(queries.n_docs), queries.offsets, [METRIC], CONVENTION)

    def measured(values: Vector) -> Measured:
        return replace(whole, per_query=values, mean=float(values.mean()))

    means = [
        np.mean(per_query[1 + number * _DRAWS : 1 + (number + 1) * _DRAWS], axis=0)
        for number in range(len(REMOVALS))
    ]
    family = compare_family(
        [measured(per_query[0])] * len(REMOVALS), [measured(one) for one in means], seed=seed
    )
    return tuple(
        Removal(what, text, loss) for (what, (text, _)), loss in zip(REMOVALS.items(), family, strict=True)
    )


def _examined(queries: QuerySet, fold: int, what: str, draw: int, seed: int) -> Vector:
    """Return the figures of one fold's queries, learned from the others with something taken away."""
    split = Split(queries, folds_of(len(queries), _FOLDS, seed)[fold])
    training, held_out = split.training, split.held_out
    if what:
        # Draws come in pairs: the second takes away what the first has left.
        rng = np.random.default_rng([seed, fold, draw // 2, *what.encode()])
        training, held_out = REMOVALS[what][1](training, held_out, rng, draw % 2)
    method, overrides = _LEARNER
    missing = ["contract.missing='median'"] if np.isnan(queries.documents).any() else []
    config = TrainingConfig.read(method="global", learner=method, overrides=[*overrides, *missing])
    built = build(training, config, config.learner.candidates()[0])
    (found,) = measure(
        held_out.labels, rank_all(built.ranker, held_out).scores, held_out.offsets, [METRIC], CONVENTION
    )
    return found.per_query


def _half(size: int, rng: np.random.Generator, which: int) -> Bits:
    """Return ``[size]`` which are kept: half of them, or the other half; of one, that one."""
    first = rng.permutation(size) < (size + 1) // 2
    return first if which == 0 or size < 2 else ~first


def _half_the_queries(
    training: QuerySet, held_out: QuerySet, rng: np.random.Generator, which: int
) -> tuple[QuerySet, QuerySet]:
    # Queries that teach something are halved separately, so that some of them are left.
    teaches = np.array([len(np.unique(training.labels_of(query))) > 1 for query in range(len(training))])
    kept = np.zeros(len(training), np.bool_)
    for some in (np.flatnonzero(teaches), np.flatnonzero(~teaches)):
        kept[some] = _half(len(some), rng, which)
    return training.select(np.flatnonzero(kept)), held_out


def _half_the_documents(
    training: QuerySet, held_out: QuerySet, rng: np.random.Generator, which: int
) -> tuple[QuerySet, QuerySet]:
    kept = np.concatenate([_half(int(length), rng, which) for length in training.lengths])
    lengths = np.add.reduceat(kept, training.offsets[:-1], dtype=np.int64)
    return replace(
        training,
        documents=np.ascontiguousarray(training.documents[kept]),
        labels=training.labels[kept],
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        lines=training.lines[kept],
        comments=None,
    ), held_out


def _half_the_features(
    training: QuerySet, held_out: QuerySet, rng: np.random.Generator, which: int
) -> tuple[QuerySet, QuerySet]:
    kept = np.flatnonzero(_half(training.n_features, rng, which))
    names = tuple(training.feature_names[feature] for feature in kept)
    first, second = (
        replace(one, documents=np.ascontiguousarray(one.documents[:, kept]), feature_names=names)
        for one in (training, held_out)
    )
    return first, second


def _redrawn_labels(
    training: QuerySet, held_out: QuerySet, rng: np.random.Generator, which: int
) -> tuple[QuerySet, QuerySet]:
    rng = np.random.default_rng([int(rng.integers(2**32)), which])
    labels = training.labels.copy()
    for query in range(len(training)):
        own = training.labels_of(query)
        wrong = rng.random(len(own)) < _REDRAWN
        labels[training.span(query)][wrong] = rng.choice(own, int(wrong.sum()))
    return replace(training, labels=labels), held_out


#: For each removal: its text, and a function that changes the training queries and the examined queries.
REMOVALS: dict[
    str,
    tuple[str, Callable[[QuerySet, QuerySet, np.random.Generator, int], tuple[QuerySet, QuerySet]]],
] = {
    "queries": ("half of the judged queries", _half_the_queries),
    "documents": ("half of the judged documents of each query", _half_the_documents),
    "features": ("half of the features", _half_the_features),
    "labels": ("a tenth of the labels, which were redrawn at random", _redrawn_labels),
}
