"""One training run: make the open choices, measure the result, build the ranker.

The choices of `localrank_training.choices` are made on queries that the model is not built from: the validation queries
if there are some, else every training query in turn (cross-validation over queries, never over documents). The same
queries then say what the model is worth beside its own global scorer. As the choices were made on them, both figures are
a little flattered.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank_training.choices import Trial, candidates, differing, folds_of, settings_of, trials_of
from localrank_training.evaluation import Ranked, rank_all
from localrank_training.learners.lesson import Lesson
from localrank_training.parallel import in_parallel
from localrank_training.pipeline import Built, build, learn_contract, lists_of, viewed
from localrank_training.progress import silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank.scorers import Scorer
    from localrank_training.config import TrainingConfig
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.role import Learner
    from localrank_training.progress import Progress

__all__ = ["HeldOut", "Trained", "train"]


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """How the trained kind of model does on queries that it was not built from.

    Attributes:
        how: where those queries come from, for people.
        queries: themselves, with their labels.
        ranked: what the models made of them.
        clusters: ``[n_queries]`` of the final ranker. Of a cross-validated query it is the cluster that it is now in,
            as each fold had clusters of its own; -1 is none.
        learned_from: how many of the validation queries are training queries too, with the same documents and labels:
            what is measured on those says nothing of other queries.
    """

    how: str
    queries: QuerySet
    ranked: Ranked
    clusters: Indices
    learned_from: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A ranker, the settings that were settled, and the evidence.

    Attributes:
        built: the ranker, learned from all training queries.
        config: with every choice made.
        learner: that learned the scorers.
        held_out: what it is worth.
        trials: what was tried.
    """

    built: Built
    config: TrainingConfig
    learner: Learner
    held_out: HeldOut
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """What a model is built from, what it is judged on, and what it may stop early by."""

    lesson: QuerySet
    exam: QuerySet
    stop_by: QuerySet | None


def train(
    queries: QuerySet,
    config: TrainingConfig,
    *,
    validation: QuerySet | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Trained:
    """Make the open choices, measure the result, and build the ranker from all the training queries."""
    splits, order, how = _splits(queries, validation, config)
    learners = candidates(config.learner.method, config.learner.settings)
    trials: list[Trial] = []

    fitted = in_parallel(
        _fit_global,
        [(split, config, learners) for split in splits],
        workers=workers,
        progress=lambda done, total: progress("global scorers", done, total),
    )
    chosen = 0
    if len(learners) > 1:
        values = _mean_over(
            [
                [_value(scores, split.exam, config) for scores in row.scores]
                for row, split in zip(fitted, splits, strict=True)
            ],
            splits,
        )
        chosen = int(np.argmax(values))
        trials += trials_of("learner", [differing(learner, learners) for learner in learners], values, chosen)
    learner = learners[chosen]
    global_scorers = [row.scorers[chosen] for row in fitted]
    config = config.replace(learner=replace(config.learner, settings=settings_of(learner)))

    sizes = config.clustering.candidates or (config.clustering.clusters,)
    options = [
        config.replace(clustering=replace(config.clustering, clusters=size, candidates=None))
        for size in sizes
    ]
    if validation is None:
        rehearsals = in_parallel(
            _rehearse,
            [
                (split, option, learner, scorer)
                for option in options
                for split, scorer in zip(splits, global_scorers, strict=True)
            ],
            workers=workers,
            progress=lambda done, total: progress("held-out models", done, total),
        )
        rows = [rehearsals[i : i + len(splits)] for i in range(0, len(rehearsals), len(splits))]
        whole: list[Built] = []
    else:
        # The only split is learned from all the training queries, so what is rehearsed is what is published.
        whole = [
            build(
                queries,
                option,
                learner,
                validation=validation,
                global_scorer=global_scorers[0],
                workers=workers,
                progress=progress,
            )
            for option in options
        ]
        rows = [[rank_all(built.ranker, validation)] for built in whole]
    best = 0
    if len(options) > 1:
        values = _mean_over(
            [[_value(row[i].scores, split.exam, config) for row in rows] for i, split in enumerate(splits)],
            splits,
        )
        best = int(np.argmax(values))
        trials += trials_of("clustering", [f"clusters = {size}" for size in sizes], values, best)
    config = options[best]
    built = whole[best] if whole else build(queries, config, learner, workers=workers, progress=progress)
    exam, ranked = _pooled(splits, rows[best])
    clusters = (
        np.array([-1 if route.cluster is None else route.cluster for route in ranked.routes])
        if order is None
        else built.clusters[order]
    )
    learned_from = 0 if validation is None else _shared(queries, validation)
    return Trained(built, config, learner, HeldOut(how, exam, ranked, clusters, learned_from), tuple(trials))


def _splits(
    queries: QuerySet, validation: QuerySet | None, config: TrainingConfig
) -> tuple[list[_Split], Indices | None, str]:
    """Return the splits, which training queries are held out in what order where they are, and a word for people."""
    if validation is not None:
        if (validation.feature_names, validation.n_features) != (queries.feature_names, queries.n_features):
            raise InvalidData(
                f"the validation queries have other features than the training queries: expected "
                f"{queries.n_features} ({', '.join(queries.feature_names[:3])}, …), found {validation.n_features} "
                f"({', '.join(validation.feature_names[:3])}, …)"
            )
        return [_Split(queries, validation, validation)], None, f"{len(validation)} validation queries"
    folds = folds_of(len(queries), config.selection.folds, config.seed)
    everything = np.arange(len(queries))
    splits = [
        _Split(queries.select(np.setdiff1d(everything, fold)), queries.select(fold), None) for fold in folds
    ]
    how = f"cross-validation over {len(queries)} training queries in {len(folds)} folds"
    return splits, np.concatenate(folds), how


def _shared(queries: QuerySet, others: QuerySet) -> int:
    """Return how many of the others are, whatever they are called, among the queries."""

    def digests(of: QuerySet) -> list[bytes]:
        return [
            hashlib.sha256(of.documents_of(query).tobytes() + of.labels_of(query).tobytes()).digest()
            for query in range(len(of))
        ]

    known = set(digests(queries))
    return sum(digest in known for digest in digests(others))


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    scorers: list[Scorer]
    scores: list[Vector]


def _fit_global(split: _Split, config: TrainingConfig, learners: Sequence[Learner]) -> _Fitted:
    """Fit every candidate on all queries of a split."""
    lists, weights = lists_of(split.lesson, config)
    contract = learn_contract(lists, config)
    fitted = _Fitted([], [])
    start: Scorer | None = None
    for learner in learners:
        documents, exam = (viewed(part, contract, learner.view) for part in (lists, split.exam))
        stop_by = None if split.stop_by is None else viewed(split.stop_by, contract, learner.view)
        start = learner.fit(Lesson(documents, weights, stop_by, start=start))
        fitted.scorers.append(start)
        fitted.scores.append(np.concatenate([start.score(documents) for documents in exam.clouds()]))
    return fitted


def _rehearse(split: _Split, config: TrainingConfig, learner: Learner, global_scorer: Scorer) -> Ranked:
    """Build a whole ranker on a split and let it take the exam."""
    built = build(split.lesson, config, learner, global_scorer=global_scorer)
    return rank_all(built.ranker, split.exam)


def _value(scores: Vector, exam: QuerySet, config: TrainingConfig) -> float:
    return float(Judgements(exam.labels, exam.offsets).per_query(scores, config.selection.metric).mean())


def _mean_over(values: Sequence[Sequence[float]], splits: Sequence[_Split]) -> Vector:
    """Return the mean over queries of what was measured split by split, ``[n_candidates]``."""
    return np.average(np.array(values), axis=0, weights=[len(split.exam) for split in splits])


def _pooled(splits: Sequence[_Split], rehearsals: Sequence[Ranked]) -> tuple[QuerySet, Ranked]:
    """Put the exams of all splits together, in the order of the splits."""
    exams = [split.exam for split in splits]
    first = exams[0]
    pooled = (
        first
        if len(exams) == 1
        else replace(
            first,
            documents=np.concatenate([exam.documents for exam in exams]),
            labels=np.concatenate([exam.labels for exam in exams]),
            offsets=np.concatenate([[0], np.cumsum(np.concatenate([exam.lengths for exam in exams]))]),
            query_ids=tuple(itertools.chain.from_iterable(exam.query_ids for exam in exams)),
            lines=np.concatenate([exam.lines for exam in exams]),
            comments=None,
        )
    )
    ranked = Ranked(
        np.concatenate([rehearsal.scores for rehearsal in rehearsals]),
        np.concatenate([rehearsal.global_scores for rehearsal in rehearsals]),
        tuple(itertools.chain.from_iterable(rehearsal.routes for rehearsal in rehearsals)),
    )
    return pooled, ranked
