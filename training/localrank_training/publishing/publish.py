"""A trained ranker becomes a version in the registry, with a record of its origin, and perhaps the champion."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from localrank import probe
from localrank.artifact import Cluster, Provenance, load
from localrank.errors import ArtifactNotFound, InvalidData, InvalidDocuments
from localrank.metrics import measure
from localrank.registry.versions import CHAMPION
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.evaluation.features import importances_of
from localrank_training.journal import fingerprint, libraries
from localrank_training.report.figures import CONVENTION, METRICS, report_of
from localrank_training.report.query_map import map_of
from localrank_training.report.verdict import against_served, is_better

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.registry.versions import Reference, Registry
    from localrank_training.data.queries import QuerySet
    from localrank_training.report.figures import TrainingReport
    from localrank_training.run.train import Trained


def publish(
    registry: Registry,
    name: str,
    trained: Trained,
    queries: QuerySet,
    *,
    validation: QuerySet | None = None,
    report: TrainingReport | None = None,
    created: str | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Reference:
    """Publish a trained ranker as the next version of ``name``; no alias moves.

    Args:
        registry: where to.
        name: the model's name.
        trained: what `localrank_training.run.train.train` returned.
        queries: it was trained on.
        validation: choices were made on; probe queries are drawn from them if there are some.
        report: where it was made already.
        created: when, as text; now by default.
        asked: how the run was started, for another one like it: data, columns, baseline and settings.
    """
    report = report or report_of(trained)
    source: dict[str, Any] = {
        "data": {"training": described(queries)}
        | ({"validation": described(validation)} if validation else {}),
        "configuration": trained.config.to_json(),
        "trials": [trial.to_json() for trial in trained.trials],
        "libraries": libraries(),
        "python": platform.python_version(),
    } | ({} if trained.cross_fitted is None else {"plan": trained.cross_fitted.plan.to_json()})
    if asked is not None:
        source["asked"] = dict(asked)
    ranker = trained.built.ranker
    importances = importances_of(ranker, queries.lists)
    clusters = (
        []
        if not ranker.scorers
        else [
            Cluster(
                cluster.size,
                cluster.exemplar,
                {
                    **cluster.figures,
                    **({} if importances is None else {"features": importances.features(number)}),
                },
            )
            for number, cluster in enumerate(report.clusters)
        ]
    )
    candidates = (validation or queries).lists
    return registry.publish(
        name,
        ranker,
        Provenance(
            created=created or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            source=source,
            probe=probe.choose(ranker, candidates),
            clusters=clusters,
            metrics=report.metrics_json()
            | ({} if importances is None else {"importances": importances.table()}),
            notes=report.notes,
            stability=report.stability,
            query_map=map_of(
                ranker,
                trained.queries,
                trained.built.clusters,
                trained.config.similarity.name,
                seed=trained.config.seed,
            ),
        ),
    )


def known_as(source: Mapping[str, Any], digest: str) -> str | None:
    """Return how a version knows exactly these queries, if it does.

    Args:
        source: of the version's manifest.
        digest: the `fingerprint` of the queries.

    Returns:
        ``learned from``, ``was extended by``, or None.
    """
    data = source.get("data", {})
    selection = source.get("configuration", {}).get("selection", {})
    learned = [data.get("training"), data.get("validation") if selection.get("refit") else None]
    known = {one["fingerprint"]: "was extended by" for one in source.get("extended", ())}
    known |= {one["fingerprint"]: "learned from" for one in learned if one is not None}
    return known.get(digest)


def described(queries: QuerySet) -> dict[str, Any]:
    """Return what a version says of the queries that it comes from."""
    return {
        "fingerprint": fingerprint(queries),
        "queries": len(queries),
        "documents": queries.n_docs,
        "features": queries.n_features,
        **({} if queries.weights is None else {"weighted": True}),
        **({"skipped": [one._asdict() for one in queries.skipped]} if queries.skipped else {}),
    }


def better_than_served(
    registry: Registry, name: str, trained: Trained, report: TrainingReport, *, allow_suspicious: bool = False
) -> tuple[bool, str]:
    """Compare what was trained with the champion, on the queries that training held out.

    Returns:
        Whether to promote, and a sentence that says why.
    """
    if report.verdict.outcome == "suspect" and not allow_suspicious:
        return False, "not promoted, because of the verdict"
    if report.baseline.given and not is_better(report.baseline.comparisons):
        return False, f"not promoted: {report.baseline.sentence}"
    try:
        served = registry.resolve(f"{name}@{CHAMPION}")
    except ArtifactNotFound:
        return True, f"promoted: {name} had no {CHAMPION}"
    held = trained.held_out.queries
    try:
        scores = rank_all(load(served.path).ranker, held).scores
    except (InvalidData, InvalidDocuments) as error:
        return False, f"not promoted: {served} cannot rank these queries, so there is no comparison: {error}"
    verdict = against_served(
        report.local, measure(held.labels, scores, held.offsets, METRICS, CONVENTION), str(served)
    )
    return verdict.outcome == "better", verdict.sentence
