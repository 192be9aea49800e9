"""One training run: make the open choices, measure the result, build the ranker.

The choices of `localrank_training.choices` are made on queries that the models are not built from: the validation queries
if there are some, else every training query in turn (cross-validation over queries, never over documents). The same
queries then say what the model is worth beside its own global scorer. The choices were made on these queries, so both
figures are a little too good. With validation queries and ``[selection] refit`` the ranker is then built once more,
from all judged queries.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.blocks import union
from localrank.brief import one_line
from localrank.errors import InvalidData
from localrank.metrics import CONVENTIONS, Judgements
from localrank_training import cross_fitting, guarding
from localrank_training.choices import Choice, Trial, choices_of, edges, folds_of
from localrank_training.clouds import Clouds
from localrank_training.data.queries import concatenated
from localrank_training.data.usable import placed, refuse_missing
from localrank_training.evaluation import Ranked, rank_all
from localrank_training.learners.budget import plan_fits
from localrank_training.learners.judged import differs_within
from localrank_training.learners.notes import Note, collected
from localrank_training.parallel import each_in_parallel, in_parallel
from localrank_training.pipeline import (
    Built,
    build,
    lesson_of,
    lists_of,
    plan_of,
    prepared,
    wants_route,
)
from localrank_training.progress import silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank.contract import FeatureContract
    from localrank.scorers import Scorer
    from localrank_training.config import TrainingConfig
    from localrank_training.cross_fitting import CrossFitted
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.blend import Blend
    from localrank_training.learners.budget import Plan as Fits
    from localrank_training.learners.role import Learner
    from localrank_training.pipeline import Plan
    from localrank_training.progress import Progress


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """How the trained kind of model does on queries that it was not built from.

    Attributes:
        how: where those queries come from, for people.
        queries: themselves, with their labels.
        ranked: what the models made of them.
        clusters: ``[n_queries]`` of the final ranker. Of a query that the final ranker has learned from it is the cluster
            that it is now in; -1 is none.
        learned_from: how many of the validation queries are training queries too, with the same documents and labels.
            Their figures say nothing about other queries.
    """

    how: str
    queries: QuerySet
    ranked: Ranked
    clusters: Indices
    learned_from: int = 0

    __repr__ = one_line


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A ranker, the settings that were settled, and the evidence.

    Attributes:
        built: the ranker.
        queries: it was learned from these: all training queries, and the validation queries too if it was refitted.
        config: with every choice made.
        learner: that learned the scorers.
        held_out: what it is worth.
        trials: what was tried.
        warnings: what a reader of the figures must know.
        cross_fitted: what a blend's run found out.
    """

    built: Built
    queries: QuerySet
    config: TrainingConfig
    learner: Learner
    held_out: HeldOut
    trials: tuple[Trial, ...]
    warnings: tuple[str, ...] = ()
    cross_fitted: CrossFitted | None = None

    __repr__ = one_line


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """The queries that a model is built from, those that judge it, and those that may stop it early.

    The parts are taken when they are needed. So only one set of queries is sent to other processes, for any number of
    splits.

    Attributes:
        queries: all of them.
        held: positions of those that the model is judged on and not built from; ``None`` if the validation queries judge.
        stop_by: the validation queries.
    """

    queries: QuerySet
    held: Indices | None
    stop_by: QuerySet | None

    @property
    def lesson(self) -> QuerySet:
        if self.held is None:
            return self.queries
        return self.queries.select(np.setdiff1d(np.arange(len(self.queries)), self.held))

    @property
    def exam(self) -> QuerySet:
        if self.held is not None:
            return self.queries.select(self.held)
        return cast("QuerySet", self.stop_by)


def train(
    queries: QuerySet,
    config: TrainingConfig,
    *,
    validation: QuerySet | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Trained:
    """Make the open choices, measure the result, and build the ranker."""
    _check_usable(queries, validation, config)
    if cross_fitting.takes(config):
        return _cross_fitted(queries, config, validation, workers, progress)
    choices = choices_of(config)
    splits = _splits(queries, validation, config)
    fitted = in_parallel(
        _fit_global,
        [(split, choices[0].config, config.learner.candidates()) for split in splits],
        workers=workers,
        progress=lambda done, total: progress("global scorers", done, total),
    )
    best, values, rehearsals = _rehearsed(choices, splits, fitted, workers, progress)
    chosen = choices[best]
    warnings = _said_of(queries) + edges([choice.values for choice in choices], chosen.values, chosen.config)
    trials = [
        Trial(str(choice), value, choice is chosen) for choice, value in zip(choices, values, strict=True)
    ]

    exam, ranked = _pooled(splits, [rehearsal.ranked for rehearsal in rehearsals])
    settled, ranked, gate = _gated(chosen.config, exam, ranked)
    evidence = guarding.pooled([rehearsal.evidence for rehearsal in rehearsals])
    guard, ranked, guard_says = guarding.choose_guard(exam, ranked, evidence, settled)
    warnings += gate + guard_says
    lesson, learner = queries, chosen.learner
    if validation is None:
        folds = folds_of(len(queries), config.selection.folds, config.seed)
        how = f"cross-validation over {len(queries)} training queries in {len(folds)} folds"
        built = build(queries, settled, learner, workers=workers, progress=progress)
        clusters, learned_from = built.clusters[np.concatenate(folds)], 0
    else:
        how = f"{len(validation)} validation queries"
        same = _same(validation, queries)
        learned_from = int((same >= 0).sum())
        known = fitted[0].scorers[chosen.number]
        if config.selection.refit:
            lesson = concatenated([queries, validation.select(np.flatnonzero(same < 0))])
            said = fitted[0].notes[chosen.number]
            local = learner.settled(rehearsals[0].learned or said)
            learner = learner.settled(said)
            built = build(lesson, settled, learner, local_learner=local, workers=workers, progress=progress)
            places = np.where(same >= 0, same, len(queries) + np.cumsum(same < 0) - 1)
            clusters = built.clusters[places]
            warnings.append(
                f"the figures come from models that did not learn from the {how}; the published model also "
                "learned from them"
            )
        else:
            built = build(
                queries,
                settled,
                learner,
                validation=validation,
                global_scorer=known,
                workers=workers,
                progress=progress,
            )
            clusters = np.array([-1 if route.cluster is None else route.cluster for route in ranked.routes])
    held_out = HeldOut(how, exam, ranked, clusters, learned_from)
    return Trained(
        guarding.guarded(built, guard),
        lesson,
        settled,
        learner,
        held_out,
        tuple(trials) if len(choices) > 1 else (),
        tuple(warnings),
    )


#: Files that are named in a sentence.
_NAMED = 5
#: What to do about missing values.
_MISSING = "set [contract] missing to median, zero, constant, nan or learned to accept missing values"


def _check_usable(queries: QuerySet, validation: QuerySet | None, config: TrainingConfig) -> None:
    """Refuse labels and missing values by their place in the input, before hours of work."""
    _check_labels_differ(queries)
    policies = config.contract.policies(queries.feature_names, queries.documents)
    for part in (queries, validation):
        if part is None or part.n_features != queries.n_features:
            continue
        with placed(part):
            CONVENTIONS["standard"].check(part.labels)
        refuse_missing(part, policies, _MISSING)


def _check_labels_differ(queries: QuerySet) -> None:
    """Refuse data in which all documents of each query have one label; a learner would count the queries of its fold."""
    counted = queries.weights is None or queries.weights > 0
    if np.any(differs_within(queries.labels, queries) & counted):
        return
    files = () if queries.origin is None else queries.origin.files
    where = ", ".join([*files[:_NAMED], *(["…"] if len(files) > _NAMED else [])])
    raise InvalidData(
        f"{where}{': ' if where else ''}expected two documents of one query with different labels, found none in "
        f"{len(queries)} queries of {queries.n_docs} documents"
    )


def plan_for(config: TrainingConfig, queries: QuerySet, validation: QuerySet | None = None) -> Fits | None:
    """Return what a cross-fitted blend will fit; `None` for other runs. `train` makes the same plan."""
    if not cross_fitting.takes(config):
        return None
    n_docs = queries.n_docs
    if validation is not None and config.selection.refit:
        n_docs += validation.n_docs
    return plan_fits(cast("Blend", config.learner.candidates()[0]), n_docs, queries.n_features)


def _drawn(queries: QuerySet, config: TrainingConfig) -> tuple[QuerySet, list[str]]:
    """Return as many queries as a blend learns from, drawn whole, and what is to be said of it."""
    most = cast("Blend", config.learner.candidates()[0]).documents
    if queries.n_docs <= most:
        return queries, []
    order = np.random.default_rng(config.seed).permutation(len(queries))
    within = np.cumsum(queries.lengths[order]) <= most
    within[0] = True
    some = queries.select(np.sort(order[within])).held()
    return some, [
        (
            f"{len(some)} of {len(queries)} queries were drawn at random for training, to stay within {most} "
            "documents"
        )
    ]


def _cross_fitted(
    queries: QuerySet,
    config: TrainingConfig,
    validation: QuerySet | None,
    workers: int,
    progress: Progress,
) -> Trained:
    """Train a blend. It needs no separate queries for its choices, so it also learns from validation queries. Without
    ``[selection] refit`` it does not; they measure the published model instead.
    """
    lesson, warnings = queries, _said_of(queries)
    if validation is not None:
        _check_features(validation, queries)
    if validation is not None and config.selection.refit:
        lesson = concatenated([queries, validation.select(np.flatnonzero(_same(validation, queries) < 0))])
        warnings.append("validation queries are used for training, like the training queries")
    lesson, said = _drawn(lesson, config)
    warnings += said
    found = cross_fitting.cross_fit(lesson, config, workers=workers, progress=progress)
    if validation is not None and not config.selection.refit:
        ranked = rank_all(found.built.ranker, validation)
        clusters = np.array([-1 if route.cluster is None else route.cluster for route in ranked.routes])
        how, learned = f"{len(validation)} validation queries", int((_same(validation, queries) >= 0).sum())
        held_out = HeldOut(how, validation, ranked, clusters, learned)
        evidence = guarding.evidence_of(found.built.ranker, validation) if config.guard.learn else None
    else:
        n_docs = lesson.n_docs
        how = f"{len(lesson)} judged queries, each scored by models that had not seen it"
        if found.rehearsal is None:
            how = f"{len(lesson)} judged queries that the model was trained on: too few to hold any out"
            held = rank_all(found.built.ranker, lesson)
        else:
            routes = found.routes[: len(lesson)]
            held = Ranked(found.scores[:n_docs], found.global_scores[:n_docs], routes)
        learned = len(lesson) if found.rehearsal is None else 0
        held_out = HeldOut(how, lesson, held, found.built.clusters[: len(lesson)], learned)
        # The models that had not seen a query no longer exist, so the scores of a blend of two clusters are unknown.
        evidence = None
        if config.guard.learn:
            evidence = guarding.Evidence(guarding.distances(found.built.ranker.contract, lesson), None)
    guard, ranked, said = guarding.choose_guard(held_out.queries, held_out.ranked, evidence, config)
    return Trained(
        guarding.guarded(found.built, guard),
        lesson,
        found.config,
        found.learner,
        replace(held_out, ranked=ranked),
        (),
        (*warnings, *said),
        cross_fitted=found,
    )


def _splits(queries: QuerySet, validation: QuerySet | None, config: TrainingConfig) -> list[_Split]:
    if validation is not None:
        _check_features(validation, queries)
        return [_Split(queries, None, validation)]
    return [
        _Split(queries, fold, None) for fold in folds_of(len(queries), config.selection.folds, config.seed)
    ]


def _check_features(validation: QuerySet, queries: QuerySet) -> None:
    if (validation.feature_names, validation.n_features) != (queries.feature_names, queries.n_features):
        raise InvalidData(
            f"the validation queries have other features than the training queries: expected "
            f"{queries.n_features} ({', '.join(queries.feature_names[:3])}, …), found {validation.n_features} "
            f"({', '.join(validation.feature_names[:3])}, …)"
        )


def _same(queries: QuerySet, others: QuerySet) -> Indices:
    """Return for each query the position among the others of one with the same documents and labels, or -1."""

    def digests(of: QuerySet) -> list[bytes]:
        return [
            hashlib.sha256(of.documents_of(query).tobytes() + of.labels_of(query).tobytes()).digest()
            for query in range(len(of))
        ]

    known = {digest: position for position, digest in enumerate(digests(others))}
    return np.array([known.get(digest, -1) for digest in digests(queries)], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """The contract of one split, and its global scorers: one per candidate, with what was noted of each.

    If a learner sees routes, it has no global scorer here, because each number of clusters has other routes.
    """

    scorers: list[Scorer | None]
    notes: list[list[Note]]
    contract: FeatureContract


def _fit_global(split: _Split, config: TrainingConfig, learners: Sequence[Learner]) -> _Fitted:
    """Fit every candidate on all queries of a split."""
    lists, weights = lists_of(split.lesson, config)
    clouds, held, _ = prepared(lists, split.stop_by, config, union(learner.blocks for learner in learners))
    fitted = _Fitted([], [], clouds.contract)
    start: Scorer | None = None
    for learner in learners:
        with collected() as notes:
            start = learner.learn(replace(lesson_of(clouds, held, weights, learner), start=start))
        fitted.scorers.append(None if wants_route(learner.blocks) else start)
        fitted.notes.append(notes)
    return fitted


def _rehearsed(
    choices: Sequence[Choice],
    splits: Sequence[_Split],
    fitted: Sequence[_Fitted],
    workers: int,
    progress: Progress,
) -> tuple[int, list[float], list[_Rehearsal]]:
    """Measure every choice on every split; return the best choice, all values, and the rankings of the best one.

    Choices of the same clusters stand together. They share one plan for each split, which is dropped after them.
    """
    sizes = [_shares(split.exam).sum() for split in splits]
    best, values = 0, list[float]()
    kept: list[_Rehearsal] = []
    plans: list[Plan | None] = [None] * len(splits)
    for _, together in itertools.groupby(choices, lambda choice: choice.config.clustering):
        alike = list(together)
        planned = [
            (split, alike[0].config, row.contract, like)
            for split, row, like in zip(splits, fitted, plans, strict=True)
        ]
        plans = in_parallel(_plan, planned, workers=workers)
        pieces = [
            (split, choice, row.scorers[choice.number], plan)
            for choice in alike
            for split, row, plan in zip(splits, fitted, plans, strict=True)
        ]
        results = each_in_parallel(_rehearse, pieces, workers=workers)
        for _ in alike:
            rows = []
            for result in itertools.islice(results, len(splits)):
                rows.append(result)
                progress(
                    "held-out models",
                    len(splits) * len(values) + len(rows),
                    len(splits) * len(choices),
                )
            values.append(float(np.average([row.value for row in rows], weights=sizes)))
            # If values are equal, the earlier choice stays; it has fewer clusters.
            if not kept or values[-1] > values[best]:
                best, kept = len(values) - 1, rows
    return best, values, kept


def _plan(split: _Split, config: TrainingConfig, contract: FeatureContract, like: Plan | None) -> Plan:
    """Plan the models of a split by its contract; take the points from an earlier plan of the split."""
    lists, _ = lists_of(split.lesson, config)
    return plan_of(Clouds(lists, contract), config, like)


@dataclass(frozen=True, slots=True, eq=False)
class _Rehearsal:
    """What a choice made of the exam of one split, its mean figure, what its clusters' learners noted, and what a guard may
    be chosen by.
    """

    ranked: Ranked
    value: float
    learned: tuple[Note, ...]
    evidence: guarding.Evidence | None


def _rehearse(split: _Split, choice: Choice, global_scorer: Scorer | None, plan: Plan) -> _Rehearsal:
    """Build a whole ranker on a split and let it take the exam."""
    built = build(
        split.lesson,
        choice.config,
        choice.learner,
        validation=split.stop_by,
        global_scorer=global_scorer,
        plan=plan,
    )
    exam = split.exam
    ranked = rank_all(built.ranker, exam)
    judgements = Judgements(exam.labels, exam.offsets)
    figures = judgements.per_query(ranked.scores, choice.config.selection.metric)
    shares = _shares(exam)
    value = float(np.average(figures, weights=shares)) if shares.any() else 0.0
    guards = choice.config.guard.learn and bool(built.ranker.scorers)
    evidence = guarding.evidence_of(built.ranker, exam) if guards else None
    return _Rehearsal(ranked, value, built.learned, evidence)


def _shares(queries: QuerySet) -> Vector:
    """Return ``[n_queries]`` how much each query counts in a choice."""
    return np.ones(len(queries)) if queries.weights is None else queries.weights


def _said_of(queries: QuerySet) -> list[str]:
    """Return notes about query weights, if there are some, and about files that were left out."""
    said = []
    if queries.skipped:
        files = "; ".join(one.reason for one in queries.skipped[:_NAMED])
        more = f"; and {len(queries.skipped) - _NAMED} more, which the manifest lists" * (
            len(queries.skipped) > _NAMED
        )
        said = [f"skipped {len(queries.skipped)} files of the training data: {files}{more}"]
    if queries.weights is None:
        return said
    low, high = queries.weights.min(), queries.weights.max()
    counted = (
        f"queries count by their weights, {low:g} to {high:g}, in training and in the choice of settings"
    )
    return [*said, f"{counted}; clusters and the figures count every query once"]


def _gated(
    config: TrainingConfig, exam: QuerySet, ranked: Ranked
) -> tuple[TrainingConfig, Ranked, list[str]]:
    """Let local models through if they were better than the global one by enough standard errors of the exam.

    Returns:
        The configuration and what was ranked, both without local models if they were not, and what is to be said.
    """
    settings = config.clustering
    if settings.method == "none" or not settings.local or not settings.gate:
        return config, ranked, []
    judgements = Judgements(exam.labels, exam.offsets)
    metric = config.selection.metric
    gains = judgements.per_query(ranked.scores, metric) - judgements.per_query(ranked.global_scores, metric)
    error = float(gains.std(ddof=1)) / len(gains) ** 0.5 if len(gains) > 1 else np.inf
    found = f"local models differ from the global one by {gains.mean():+.4f} in {metric}, standard error {error:.4f}"
    if gains.mean() > settings.gate * error:
        return config, ranked, [found]
    routes = tuple(route._replace(local=False) for route in ranked.routes)
    shut = (
        f"{found}: the difference is less than {settings.gate:g} standard errors above zero, so every cluster "
        "gets the global scorer"
    )
    return config.without_local(), Ranked(ranked.global_scores, ranked.global_scores, routes), [shut]


def _pooled(splits: Sequence[_Split], rehearsals: Sequence[Ranked]) -> tuple[QuerySet, Ranked]:
    """Put the exams of all splits together, in the order of the splits."""
    ranked = Ranked(
        np.concatenate([rehearsal.scores for rehearsal in rehearsals]),
        np.concatenate([rehearsal.global_scores for rehearsal in rehearsals]),
        tuple(itertools.chain.from_iterable(rehearsal.routes for rehearsal in rehearsals)),
    )
    return concatenated([split.exam for split in splits]), ranked
