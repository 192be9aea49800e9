"""The decision whether a new version replaces the champion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank.artifact import load
from localrank.errors import ArtifactNotFound, InvalidData, InvalidDocuments
from localrank.metrics import measure
from localrank.registry.versions import CHAMPION
from localrank_training.evaluation import rank_all
from localrank_training.report.figures import CONVENTION, METRICS
from localrank_training.report.verdict import against_served

if TYPE_CHECKING:
    from localrank.registry.versions import Registry
    from localrank_training.report.figures import TrainingReport
    from localrank_training.run.train import Trained


def better_than_served(
    registry: Registry, name: str, trained: Trained, report: TrainingReport
) -> tuple[bool, str]:
    """Compare what was trained with the champion, on the queries that training held out.

    Returns:
        Whether to promote, and a sentence that says why.
    """
    if report.verdict.outcome == "suspect":
        return False, "not promoted, because of the verdict"
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
