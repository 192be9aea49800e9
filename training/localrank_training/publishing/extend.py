"""More judged queries for a published model: they join its clusters, its hash tables and its ranges; no scorer learns.

A new query is routed as the service would route it, and joins the cluster that answers it, as the paper treats a test
query. From then on it helps to route queries that are like it. Scorers, scales and what a missing value becomes stay as
they are, so the work depends on what is new: only new queries are ranked, signed and hashed. `against_retraining` tells
how far the result is from a model that has learned from everything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank import probe
from localrank.arrays import one_line
from localrank.artifact import Cluster, Provenance
from localrank.errors import InvalidConfiguration, InvalidData
from localrank.metrics import measure
from localrank.routing.router import AmongQueries, GlobalRouter, similar_queries
from localrank.routing.routers import LshRouter
from localrank.routing.search import automatic_planes
from localrank_training.data.clouds import Clouds
from localrank_training.data.preparing import aligned
from localrank_training.data.queries import concatenated
from localrank_training.evaluation.comparisons import compare_family
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.grouping.clustering import NO_CLUSTER
from localrank_training.journal import fingerprint
from localrank_training.parallel.processes import silent
from localrank_training.publishing.publish import described, known_as
from localrank_training.report.figures import CONVENTION, METRICS
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank.artifact import Artifact
    from localrank.ranker import Ranker
    from localrank.registry.versions import Reference, Registry
    from localrank.routing.route import Route
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.evaluation.evaluating import RankedQueries
    from localrank_training.parallel.processes import Progress

#: Training queries whose nearest others are looked up, to know how near is usual.
_LOOKED_AT = 500
#: One new query in this many is held out to compare with a retrained model; fewer than `_ENOUGH` prove nothing.
_HELD_OUT, _ENOUGH = 5, 8
#: New queries are unlike the others if their median similarity is below this quantile of theirs.
_RARE = 0.05
#: Hash tables are made anew if new ones would have this many more planes.
_TOO_FEW_PLANES = 2


@dataclass(frozen=True, slots=True, eq=False)
class Extended:
    """A ranker that knows more training queries.

    Attributes:
        ranker: what is to be served.
        queries: the new ones.
        clusters: ``[n_queries]`` which cluster each has joined; -1 is none.
        ranked: what the model made of them before it knew them.
        near: the median similarity of a new query to the most similar training query; None if the router holds none.
        usual: the same of the training queries among each other.
        notes: what is to be said of it.
    """

    ranker: Ranker
    queries: QuerySet
    clusters: Indices
    ranked: RankedQueries
    near: float | None
    usual: float | None
    notes: tuple[str, ...]

    __repr__ = one_line

    @property
    def joined(self) -> Indices:
        """``[n_clusters]`` how many queries have joined each cluster."""
        known = self.clusters[self.clusters >= 0]
        return np.bincount(known, minlength=len(self.ranker.scorers))

    def to_json(self) -> dict[str, Any]:
        """Counts and similarities, as JSON values."""
        return {
            "queries": len(self.queries),
            "documents": self.queries.n_docs,
            "joined": self.joined.tolist(),
            "in_no_cluster": int((self.clusters < 0).sum()),
            "median_similarity": self.near,
            "usual_similarity": self.usual,
            "notes": list(self.notes),
        }


def extend(
    artifact: Artifact, queries: QuerySet, *, again: bool = False, progress: Progress = silent
) -> Extended:
    """Let judged queries join the clusters, tables and ranges of a published model.

    Args:
        artifact: the version.
        queries: new ones.
        again: take them even if the version knows exactly these; they then count once more.
        progress: told what is ranked.

    Raises:
        InvalidConfiguration: the model has no clusters, or does not say what it has learned from.
        InvalidData: the queries do not fit the model's contract, or it knows exactly these.
    """
    name = f"{artifact.manifest.name}@{artifact.manifest.version}"
    ranker = artifact.ranker
    if isinstance(ranker.router, GlobalRouter):
        raise InvalidConfiguration(
            f"{name}: expected a model with clusters, found one global model; use 'localrank train' with all "
            "queries instead"
        )
    n_docs, n_lists = _learned_from(artifact, name)
    given, queries = queries, aligned(queries, ranker.contract)
    if not again:
        _refuse_known(artifact, name, given, queries)
    ranked = rank_all(ranker, queries, progress=progress)
    clusters = np.array([_cluster_of(route) for route in ranked.routes], np.int64)
    points = ranker.representation.of_all(Clouds(queries, ranker.contract))
    clusters[~np.asarray(points.known)] = NO_CLUSTER
    joining = np.flatnonzero(clusters >= 0)
    contract = ranker.contract.grown(queries.documents, queries.lengths.tolist(), n_docs, n_lists)
    router = ranker.router.grown(points.take(joining), clusters[joining], seed=_seed(artifact))
    near, usual, unlike = _similarities(ranker, ranked.routes)
    grown = replace(ranker, contract=contract, router=router)
    return Extended(grown, queries, clusters, ranked, near, usual, (*unlike, *_notes(ranker, grown)))


def publish_extended(
    registry: Registry, artifact: Artifact, extended: Extended, *, created: str | None = None
) -> Reference:
    """Publish what `extend` made as the next version of the same model; no alias moves.

    Figures of quality are those of the version before: the scorers are the same.
    """
    manifest, ranker = artifact.manifest, extended.ranker
    created = created or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = {"version": manifest.version, "created": created, **described(extended.queries)}
    clusters = [
        Cluster(one.size + int(more), one.exemplar, one.validation)
        for one, more in zip(manifest.clusters, extended.joined, strict=True)
    ]
    candidates = [*artifact.probe.documents, *extended.queries.clouds()]
    return registry.publish(
        manifest.name,
        ranker,
        Provenance(
            created=created,
            source={**manifest.source, "extended": [*manifest.source.get("extended", []), record]},
            probe=probe.choose(ranker, candidates),
            clusters=clusters,
            metrics=manifest.metrics,
            notes=[*manifest.notes, *extended.notes],
            stability=manifest.stability,
            query_map=artifact.query_map,
        ),
    )


@dataclass(frozen=True, slots=True)
class Retrained:
    """An extended model beside one that has learned from all queries, on new queries that neither knows.

    Attributes:
        queries: how many they were measured on.
        comparisons: the extended model against the retrained one.
        tau: mean of Kendall's tau-b between their orders.
    """

    queries: int
    comparisons: tuple[Comparison, ...]
    tau: float

    def to_json(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "kendall_tau": self.tau,
            "comparisons": [one.to_json() for one in self.comparisons],
        }


def against_retraining(
    artifact: Artifact,
    learned_from: QuerySet,
    queries: QuerySet,
    *,
    workers: int = 1,
    progress: Progress = silent,
) -> Retrained:
    """Extend with four fifths of the new queries, learn anew from all but the last fifth, and compare on that.

    The retrained model has the settings that were chosen for the published one; everything else is learned.

    Raises:
        InvalidData: there are too few new queries.
    """
    order = np.random.default_rng(_seed(artifact)).permutation(len(queries))
    held = queries.select(np.sort(order[: len(queries) // _HELD_OUT]))
    if len(held) < _ENOUGH:
        raise InvalidData(
            f"expected {_ENOUGH * _HELD_OUT} new queries or more to compare with a retrained model, found {len(queries)}"
        )
    rest = queries.select(np.sort(order[len(held) :]))
    grown = extend(artifact, rest, progress=progress).ranker
    config = TrainingConfig.of_version(artifact.manifest)
    known = aligned(learned_from, artifact.ranker.contract)
    anew = train(
        concatenated([known, aligned(rest, artifact.ranker.contract)]),
        config,
        workers=workers,
        progress=progress,
    ).built.ranker
    scores = [rank_all(ranker, held).scores for ranker in (grown, anew)]
    measured = [measure(held.labels, one, held.offsets, METRICS, CONVENTION) for one in scores]
    return Retrained(len(held), compare_family(*measured), _mean_tau(scores[0], scores[1], held))


def _mean_tau(ours: Vector, theirs: Vector, queries: QuerySet) -> float:
    """Return the mean of Kendall's tau-b over the queries in which both sides tell documents apart."""
    from scipy.stats import kendalltau

    found = [
        float(kendalltau(ours[queries.span(query)], theirs[queries.span(query)]).statistic)
        for query in range(len(queries))
        if np.ptp(ours[queries.span(query)]) > 0 and np.ptp(theirs[queries.span(query)]) > 0
    ]
    return float(np.mean(found)) if found else float("nan")


def _cluster_of(route: Route) -> int:
    """Return the cluster that a query belongs to, even if a guard let another scorer answer it."""
    if route.shares:
        return int(np.argmax(route.shares))
    return NO_CLUSTER if route.cluster is None else route.cluster


def _learned_from(artifact: Artifact, name: str) -> tuple[int, int]:
    """Return how many documents and lists the model's ranges come from."""
    source = artifact.manifest.source
    try:
        parts = [source["data"]["training"], *source.get("extended", [])]
        if source["configuration"]["selection"]["refit"] and "validation" in source["data"]:
            parts.append(source["data"]["validation"])
        return sum(int(part["documents"]) for part in parts), sum(int(part["queries"]) for part in parts)
    except (KeyError, TypeError, ValueError):
        raise InvalidConfiguration(
            f"{name}: expected a model that 'localrank train' has published, found one without information "
            "about its training data"
        ) from None


def _refuse_known(artifact: Artifact, name: str, given: QuerySet, queries: QuerySet) -> None:
    """Refuse data that the version was trained on or extended by, in the columns of either."""
    source = artifact.manifest.source
    known = known_as(source, fingerprint(given))
    if known is None and queries is not given:
        known = known_as(source, fingerprint(queries))
    if known is not None:
        raise InvalidData(
            f"expected queries that are new to {name}, found those that it {known}; they would count twice "
            "(--again accepts them)"
        )


def _seed(artifact: Artifact) -> int:
    seed: int = artifact.manifest.source["configuration"].get("seed", 0)
    return seed


def _similarities(
    ranker: Ranker, routes: Sequence[Route]
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Return how similar new queries are to training queries, and those to each other: medians, and what that means."""
    found = [route.similarity for route in routes if route.similarity is not None]
    router = ranker.router
    if not isinstance(router, AmongQueries) or not found:
        return None, None, ()
    step = -(-len(router.points) // _LOOKED_AT)
    others = []
    for query in range(0, len(router.points), step):
        point = router.points.of(query)
        closest = similar_queries(point, router.points, router.clusters, router.similarity, 2)
        others += [one.similarity for one in closest if one.query != query][:1]
    near = float(np.median(found))
    if not others:
        return near, None, ()
    unlike = near < float(np.quantile(others, _RARE))
    note = (
        "most new queries are less similar to the training queries than these are to each other: train again"
    )
    return near, float(np.median(others)), (note,) if unlike else ()


def _notes(before: Ranker, grown: Ranker) -> tuple[str, ...]:
    notes = []
    if grown.contract.digest != before.contract.digest:
        notes.append(
            "the hash of the contract has changed, because the ranges of its features have grown: clients "
            "that send the hash must fetch the new one; the scaling of features is the same"
        )
    if grown.router is before.router:
        notes.append(
            f"the router {before.router.strategy!r} holds no training queries: the new ones do not change any "
            "route"
        )
    if isinstance(grown.router, LshRouter):
        planes, wanted = grown.router.tables.planes.shape[1], automatic_planes(len(grown.router.points))
        if wanted - planes >= _TOO_FEW_PLANES:
            notes.append(
                f"the hash tables have {planes} planes, chosen for fewer queries; now {wanted} would be "
                "better: train again"
            )
    return tuple(notes)
