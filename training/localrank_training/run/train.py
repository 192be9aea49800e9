"""One training run, and the start of it: make the open choices, measure the result, build the ranker.

A configuration leaves choices open. They are made on queries that the models are not built from: the validation queries
if there are some, else every training query in turn (cross-validation over queries, never over documents). The same
queries then say what the model is worth beside its own global scorer. The choices were made on these queries, so both
figures are a little too good. With validation queries and ``[selection] refit`` the ranker is then built once more,
from all judged queries.

    train           check the queries, then one of
      _blend        the default: `localrank_training.run.blended` chooses by scores of the members
      _best         every other configuration: `localrank_training.run.choosing` measures whole rankers; the best is taken

`localrank_training.run.pipeline` builds a ranker of settled settings.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from localrank.arrays import one_line
from localrank.errors import InvalidData
from localrank.metrics import CONVENTIONS, Judgements
from localrank_training.data.preparing import placed, refuse_missing, with_kinds
from localrank_training.data.queries import concatenated
from localrank_training.evaluation.comparisons import clearly_above, standard_error
from localrank_training.evaluation.evaluating import RankedQueries, rank_all
from localrank_training.journal import Journal, fingerprint, libraries
from localrank_training.learners.budget import plan_fits
from localrank_training.learners.judged import differs_within
from localrank_training.parallel.processes import silent
from localrank_training.run import blended, guarding
from localrank_training.run.choosing import Candidates, Trial, choices_of, edges, folds_of, splits_of
from localrank_training.run.pipeline import Built, build, served

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Indices
    from localrank.features.contract import FeatureContract
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.blend import Blend
    from localrank_training.learners.budget import FitPlan
    from localrank_training.learners.role import Learner
    from localrank_training.parallel.processes import Progress
    from localrank_training.run.blended import CrossFitted
    from localrank_training.settings.config import TrainingConfig


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
    ranked: RankedQueries
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


def train(
    queries: QuerySet,
    config: TrainingConfig,
    *,
    validation: QuerySet | None = None,
    journal: Journal | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Trained:
    """Make the open choices, measure the result, and build the ranker.

    Args:
        queries: judged queries.
        config: the settings.
        validation: queries to make the choices on, instead of holding out training queries.
        journal: keeps what is found, so that a stopped run goes on where it was (`journal_in`).
        workers: processes; the result does not depend on it.
        progress: told how far it is.
    """
    _check_usable(queries, validation, config)
    way = _blend if blended.takes(config) else _best
    found = way(queries, config, validation, journal=journal, workers=workers, progress=progress)
    return replace(found, warnings=(*found.warnings, *_of_tables(found.built.ranker.contract)))


#: What a missing number becomes, by its policy.
_BECOMES = {
    "nan": "stay missing, as the scorers learned it from gaps of the training data",
    "median": "become the median of the training data",
    "zero": "become 0",
    "constant": "become the constant of the contract",
    "reject": "are refused",
}


def _of_tables(contract: FeatureContract) -> list[str]:
    """Return what becomes of features that are looked up, for documents that their tables do not have."""
    named: dict[str, list[str]] = {}
    for at in contract.looked_up:
        if contract.features[at].kind == "category":
            means = "count as no value of the category"
        else:
            means = _BECOMES[contract.missing[at]]
        named.setdefault(means, []).append(contract.names[at])
    return [
        f"documents that a table does not have: missing values of {', '.join(map(repr, names[:_NAMED]))}"
        + f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)
        + f" {means}"
        for means, names in named.items()
    ]


def basis_of(
    queries: QuerySet, config: TrainingConfig | None = None, validation: QuerySet | None = None
) -> list[str]:
    """Return what the results of a run depend on: data, settings and libraries."""
    return [
        *(fingerprint(part) for part in (queries, validation) if part is not None),
        *([] if config is None else [json.dumps(config.to_json(), sort_keys=True)]),
        json.dumps(libraries(), sort_keys=True),
    ]


def journal_in(
    folder: Path, queries: QuerySet, config: TrainingConfig, validation: QuerySet | None = None
) -> Journal:
    """Return the journal of a run in a hidden file of a folder; other data, settings or libraries have another file."""
    basis = basis_of(queries, config, validation)
    digest = hashlib.sha256(" ".join(basis).encode()).hexdigest()
    return Journal(folder / f".training-{digest[:16]}.jsonl", *basis)


def _best(
    queries: QuerySet,
    config: TrainingConfig,
    validation: QuerySet | None,
    *,
    journal: Journal | None,
    workers: int,
    progress: Progress,
) -> Trained:
    """Take the combination that is best on queries that its models were not built from; of equals the first."""
    if validation is not None:
        validation = _as_in(validation, queries)
    choices = choices_of(config)
    splits = splits_of(queries, config, validation)
    candidates = Candidates(choices, splits, journal=journal, workers=workers, progress=progress)
    values = [figures.value for figures in candidates.figures()]
    # If values are equal, the earlier choice stays; it has fewer clusters.
    best = values.index(max(values))
    chosen, examined = choices[best], candidates.examined(best)
    warnings = _said_of(queries) + edges([choice.values for choice in choices], chosen.values, chosen.config)
    trials = [
        Trial(str(choice), value, choice is chosen) for choice, value in zip(choices, values, strict=True)
    ]

    held_out = concatenated([split.held_out for split in splits])
    settled, ranked, gate = _gated(
        chosen.config, held_out, RankedQueries.joined([one.ranked for one in examined])
    )
    evidence = guarding.pooled([one.evidence for one in examined])
    guard, ranked, guard_says = guarding.choose_guard(held_out, ranked, evidence, settled)
    warnings += gate + guard_says
    everything, learner = queries, chosen.learner
    if validation is None:
        folds = folds_of(len(queries), config.selection.folds, config.seed)
        how = f"cross-validation over {len(queries)} training queries in {len(folds)} folds"
        built = build(queries, settled, learner, workers=workers, progress=progress)
        clusters, learned_from = built.clusters[np.concatenate(folds)], 0
    else:
        how = f"{len(validation)} validation queries"
        same = _same(validation, queries)
        learned_from = int((same >= 0).sum())
        known, said = candidates.global_scorer(best)
        if config.selection.refit:
            everything = concatenated([queries, validation.select(np.flatnonzero(same < 0))])
            local = learner.settled(examined[0].learned or said)
            learner = learner.settled(said)
            built = build(
                everything, settled, learner, local_learner=local, workers=workers, progress=progress
            )
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
            clusters = ranked.clusters
    return Trained(
        guarding.guarded(served(built), guard),
        everything,
        settled,
        learner,
        HeldOut(how, held_out, ranked, clusters, learned_from),
        tuple(trials) if len(choices) > 1 else (),
        tuple(warnings),
    )


#: Files that are named in a sentence.
_NAMED = 5
#: What to do about missing values.
_MISSING = "--set contract.missing=median (or zero, constant, nan) accepts missing values"


def _check_usable(queries: QuerySet, validation: QuerySet | None, config: TrainingConfig) -> None:
    """Refuse labels and missing values by their place in the input, before hours of work."""
    _check_labels_differ(queries)
    policies = config.contract.policies(
        queries.feature_names,
        queries.documents,
        looked_up=[one.name for one in queries.features if one.table is not None],
    )
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


def plan_for(config: TrainingConfig, queries: QuerySet, validation: QuerySet | None = None) -> FitPlan | None:
    """Return what a cross-fitted blend will fit; `None` for other runs. `train` makes the same plan."""
    if not blended.takes(config):
        return None
    n_docs = queries.n_docs
    if validation is not None and config.selection.refit:
        n_docs += validation.n_docs
    return plan_fits(blended.blend_for(queries, config), n_docs, queries.n_features)


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


def _blend(
    queries: QuerySet,
    config: TrainingConfig,
    validation: QuerySet | None,
    *,
    journal: Journal | None,
    workers: int,
    progress: Progress,
) -> Trained:
    """Train a blend. It needs no separate queries for its choices, so it also learns from validation queries. Without
    ``[selection] refit`` it does not; they measure the published model instead.
    """
    everything, warnings = queries, _said_of(queries)
    if validation is not None:
        validation = _as_in(validation, queries)
    if validation is not None and config.selection.refit:
        new = validation.select(np.flatnonzero(_same(validation, queries) < 0))
        everything = concatenated([queries, new])
        warnings.append("validation queries are used for training, like the training queries")
    everything, said = _drawn(everything, config)
    warnings += said
    found = blended.cross_fit(everything, config, journal=journal, workers=workers, progress=progress)
    evidence = None
    if validation is not None and not config.selection.refit:
        ranked = rank_all(found.built.ranker, validation)
        how, learned = f"{len(validation)} validation queries", int((_same(validation, queries) >= 0).sum())
        held_out = HeldOut(how, validation, ranked, ranked.clusters, learned)
        if config.guard.learn:
            evidence = guarding.evidence_of(found.built.ranker, validation)
    else:
        n_docs, n_queries = everything.n_docs, len(everything)
        if found.out_of_fold is None:
            how = f"{n_queries} judged queries that the model was trained on: too few to hold any out"
            ranked, learned = rank_all(found.built.ranker, everything), n_queries
        else:
            how, learned = f"{n_queries} judged queries, each scored by models that had not seen it", 0
            ranked = RankedQueries(
                found.scores[:n_docs], found.global_scores[:n_docs], found.routes[:n_queries]
            )
        held_out = HeldOut(how, everything, ranked, found.built.clusters[:n_queries], learned)
        # The models that had not seen a query no longer exist, so the scores of a blend of two clusters are unknown.
        if config.guard.learn:
            evidence = guarding.Evidence(guarding.distances(found.built.ranker.contract, everything), None)
    guard, ranked, said = guarding.choose_guard(held_out.queries, held_out.ranked, evidence, config)
    return Trained(
        guarding.guarded(served(found.built), guard),
        everything,
        found.config,
        found.learner,
        replace(held_out, ranked=ranked),
        found.trials,
        (*warnings, *said),
        cross_fitted=found,
    )


def _as_in(validation: QuerySet, queries: QuerySet) -> QuerySet:
    """Return the validation queries with the codes of the training queries; refuse other features."""
    if (validation.feature_names, validation.n_features) != (queries.feature_names, queries.n_features):
        raise InvalidData(
            f"the validation queries have other features than the training queries: expected "
            f"{queries.n_features} ({', '.join(queries.feature_names[:3])}, …), found {validation.n_features} "
            f"({', '.join(validation.feature_names[:3])}, …)"
        )
    return with_kinds(validation, queries.features)


def _same(queries: QuerySet, others: QuerySet) -> Indices:
    """Return for each query the position among the others of one with the same documents and labels, or -1."""

    def digests(of: QuerySet) -> list[bytes]:
        return [
            hashlib.sha256(of.documents_of(query).tobytes() + of.labels_of(query).tobytes()).digest()
            for query in range(len(of))
        ]

    known = {digest: position for position, digest in enumerate(digests(others))}
    return np.array([known.get(digest, -1) for digest in digests(queries)], np.int64)


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
    config: TrainingConfig, queries: QuerySet, ranked: RankedQueries
) -> tuple[TrainingConfig, RankedQueries, list[str]]:
    """Let local models through if they were better than the global one by enough standard errors on the held-out queries.

    Returns:
        The configuration and what was ranked, both without local models if they were not, and what is to be said.
    """
    settings = config.clustering
    if settings.method == "none" or not settings.local or not settings.gate:
        return config, ranked, []
    judgements = Judgements(queries.labels, queries.offsets)
    metric = config.selection.metric
    gains = judgements.per_query(ranked.scores, metric) - judgements.per_query(ranked.global_scores, metric)
    found = (
        f"local models differ from the global one by {gains.mean():+.4f} in {metric}, standard error "
        f"{standard_error(gains):.4f}"
    )
    if clearly_above(gains, settings.gate):
        return config, ranked, [found]
    routes = tuple(route._replace(local=False) for route in ranked.routes)
    shut = (
        f"{found}: the difference is less than {settings.gate:g} standard errors above zero, so every cluster "
        "gets the global scorer"
    )
    return config.without_local(), RankedQueries(ranked.global_scores, ranked.global_scores, routes), [shut]
