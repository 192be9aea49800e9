"""From judged queries to a ranker: the offline half of the method, top to bottom.

    contract      what the feature values become                            (core)
    sign          principal directions of every query's documents           (core)
    cluster       complete link on the signatures' similarity
    learn         a global scorer, and one per cluster
    route         hash tables over the signatures                           (core)

`build` does this for settled settings. `train` first makes the choices that the configuration leaves open, and
measures what the result is worth on queries that it was not built from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.contract import FeatureContract
from localrank.errors import InvalidData
from localrank.lsh import HyperplaneTables, automatic_planes, draw_planes
from localrank.ranker import Ranker
from localrank.routing import CentroidRouter, ExactRouter, GlobalRouter, LshRouter
from localrank.signature import QuerySigner, choose_components, spectrum
from localrank_training.clustering import cluster, medoids
from localrank_training.data.truncation import with_shorter_lists
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from localrank_training.parallel import in_parallel
from localrank_training.progress import silent

if TYPE_CHECKING:
    from localrank.arrays import Indices, Vector
    from localrank.routing import Router
    from localrank.scorers import Scorer, View
    from localrank.signature import Signatures
    from localrank_training.config import TrainingConfig
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.role import Learner
    from localrank_training.progress import Progress

__all__ = ["Built", "build", "learn_contract", "lists_of", "make_signer", "viewed"]

#: Fewer validation queries than this say nothing about when to stop learning a cluster.
_ENOUGH_TO_STOP_BY = 10


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A ranker and what is known of how it came about.

    Attributes:
        ranker: what serves.
        clusters: ``[n_lists]`` of the training queries, and then of their shorter lists where there are such; -1 for
            those without a signature.
        exemplars: ids of the most typical training query of each cluster.
        notes: what a reader of the report should know, such as clusters that had to fall back.
    """

    ranker: Ranker
    clusters: Indices
    exemplars: tuple[str, ...]
    notes: tuple[str, ...]


def learn_contract(queries: QuerySet, config: TrainingConfig) -> FeatureContract:
    """Learn what the model will expect of documents."""
    return FeatureContract.learn(
        queries.documents,
        queries.lengths.tolist(),
        names=queries.feature_names,
        missing=config.contract.policies(queries.feature_names),
        constant=config.contract.constant,
        normalise=config.contract.normalise,
    )


def lists_of(queries: QuerySet, config: TrainingConfig) -> tuple[QuerySet, Vector | None]:
    """Return what is learned from: the queries, with shorter lists of them where asked for, and what each counts."""
    if config.lists.lengths is None:
        return queries, None
    return with_shorter_lists(queries, config.lists.lengths, by=config.lists.by, seed=config.seed)


def viewed(queries: QuerySet, contract: FeatureContract, view: View) -> QuerySet:
    """Return the queries with their documents as a consumer of that view sees them, query by query as in serving."""
    documents = np.empty_like(queries.documents)
    for query in range(len(queries)):
        documents[queries.span(query)] = contract.view(queries.documents_of(query)).of(view)
    return queries.with_documents(documents)


def build(
    queries: QuerySet,
    config: TrainingConfig,
    learner: Learner,
    *,
    validation: QuerySet | None = None,
    global_scorer: Scorer | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Built:
    """Build a ranker with settled settings.

    Args:
        queries: what it learns from.
        config: the settings; ``clustering.clusters`` counts, not ``candidates``.
        learner: learns every scorer.
        validation: for learners that stop early.
        global_scorer: where it has been learned already from the same queries.
        workers: processes that learn the clusters; the result does not depend on it.
        progress: told how far it is.
    """
    queries, weights = lists_of(queries, config)
    contract = learn_contract(queries, config)
    normalised = viewed(queries, contract, "normalised")
    documents = normalised if learner.view == "normalised" else viewed(queries, contract, learner.view)
    held = None if validation is None else viewed(validation, contract, learner.view)
    lesson = Lesson(documents, weights, held)
    notes: tuple[str, ...] = ()
    if global_scorer is None:
        with collected() as said:
            global_scorer = learner.fit(lesson)
        notes = tuple(f"global scorer: {one.method}: {one.text}" for one in said)

    signer = make_signer(normalised, config)
    if config.clustering.method == "none":
        none = np.full(len(queries), -1, np.int64)
        ranker = Ranker(contract, signer, GlobalRouter(), (), global_scorer)
        return Built(ranker, none, (), notes)
    signatures = signer.sign_all(list(normalised.clouds()))
    clusters = cluster(signatures, config.clustering, config.seed, config.similarity.form)
    n_clusters = int(clusters.max(initial=-1)) + 1
    if n_clusters == 0:
        raise InvalidData(
            "no query has two different documents: there is nothing to cluster; train method 'global'"
        )

    exemplars = medoids(signatures, clusters, config.similarity.form)
    router = make_router(signatures, clusters, exemplars, config)
    members = [np.flatnonzero(clusters == number) for number in range(n_clusters)]
    if validation is None or held is None:
        exams: list[QuerySet | None] = [None] * n_clusters
    else:
        exams = _routed(held, viewed(validation, contract, "normalised"), signer, router, n_clusters)
    lesson = replace(
        lesson, start=global_scorer, towards=global_scorer if config.clustering.continuation else None
    )
    learned = in_parallel(
        _learn_cluster,
        [
            (learner, replace(lesson.select(chosen), validation=exam), global_scorer)
            for chosen, exam in zip(members, exams, strict=True)
        ],
        workers=workers,
        progress=lambda done, total: progress("clusters", done, total),
    )
    notes += tuple(
        f"cluster {number} ({len(chosen)} queries){text}"
        for number, (chosen, (_, texts)) in enumerate(zip(members, learned, strict=True))
        for text in texts
    )
    scorers = tuple(scorer for scorer, _ in learned)
    typical = tuple(queries.query_ids[exemplar] for exemplar in exemplars)
    return Built(Ranker(contract, signer, router, scorers, global_scorer), clusters, typical, notes)


def make_signer(normalised: QuerySet, config: TrainingConfig) -> QuerySigner:
    """Make what signs queries, with P as set, or as many directions as cover the share."""
    if config.representation.components is not None:
        return QuerySigner(config.representation.components)
    spectra = [spectrum(documents) for documents in normalised.clouds()]
    return QuerySigner(choose_components(spectra, config.representation.share, config.representation.most))


def make_router(
    signatures: Signatures, clusters: Indices, exemplars: Indices, config: TrainingConfig
) -> Router:
    """Make the router over the signed training queries."""
    settings, similarity = config.routing, config.similarity.form
    if settings.method == "centroid":
        return CentroidRouter(signatures.take(exemplars), similarity)
    signed = np.flatnonzero(clusters >= 0)
    known, theirs = signatures.take(signed), clusters[signed]
    if settings.method == "exact":
        return ExactRouter(known, theirs, similarity)
    planes = settings.planes if isinstance(settings.planes, int) else automatic_planes(len(signed))
    drawn = draw_planes(known.directions.shape[2], settings.tables, planes, config.seed)
    return LshRouter(
        known,
        theirs,
        HyperplaneTables.build(known, drawn, config.seed),
        rerank=settings.rerank,
        similarity=similarity,
        cap=settings.cap,
        probes=settings.probes,
        exact_below=None if settings.exact_below == "auto" else settings.exact_below,
        exemplars=tuple(np.searchsorted(signed, exemplars).tolist()),
    )


def _routed(
    held: QuerySet, normalised: QuerySet, signer: QuerySigner, router: Router, n_clusters: int
) -> list[QuerySet | None]:
    """Return for each cluster the validation queries that will come to it; all of them where too few would."""
    routes = [router.route(signer.sign(documents)).cluster for documents in normalised.clouds()]
    found: list[QuerySet | None] = []
    for cluster_number in range(n_clusters):
        here = np.array([query for query, route in enumerate(routes) if route == cluster_number], np.int64)
        found.append(held.select(here) if len(here) >= _ENOUGH_TO_STOP_BY else held)
    return found


def _learn_cluster(learner: Learner, lesson: Lesson, global_scorer: Scorer) -> tuple[Scorer, tuple[str, ...]]:
    """Learn one cluster's scorer, or take the global one if its queries teach nothing; also return the notes."""
    try:
        with collected() as said:
            scorer = learner.fit(lesson)
    except InvalidData as error:
        return global_scorer, (f" uses the global scorer: {error}",)
    return scorer, tuple(f": {one.method}: {one.text}" for one in said)
