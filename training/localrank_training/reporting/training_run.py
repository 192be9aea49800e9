"""The page of a training run: what the model is worth, what was chosen, what would help, how to make it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank_training.report import Facts, Page
from localrank_training.reporting.chosen import chosen
from localrank_training.reporting.differences import called, mean_of, named, signed
from localrank_training.reporting.features import features
from localrank_training.reporting.helping import advised, curved
from localrank_training.reporting.judged import contract_of, data
from localrank_training.reporting.locality import locality
from localrank_training.reporting.made import made
from localrank_training.reporting.quality import quality

if TYPE_CHECKING:
    from localrank_training.reporting.background import Background
    from localrank_training.reporting.made import Origin
    from localrank_training.reports import TrainingReport
    from localrank_training.training import Trained


def page_of_run(trained: Trained, report: TrainingReport, background: Background, origin: Origin) -> Page:
    """Return the page of a version that has just been published."""
    name, version = origin.manifest.name, origin.manifest.version
    missing = background.missing
    return Page(
        f"Training report: {name}, version {version}",
        _lead(report),
        [
            _facts(trained, report),
            quality(report, trained.held_out),
            chosen(report, trained),
            locality(report, trained, background.map),
            features(background.importances, report),
            advised(background.advice, missing.get("advice", "")),
            curved(background.curve, missing.get("curve", "")),
            data(background.inspection),
            contract_of(trained.built.ranker.contract, background.inspection),
            made(origin),
        ],
        foot=f"LocalRank {origin.manifest.source['libraries']['localrank']}, {origin.manifest.created}. This file asks no other "
        "host for anything.",
    )


def _lead(report: TrainingReport) -> str:
    said = named(report.verdict.sentence.removeprefix("verdict: "))
    return f"{said[0].upper()}{said[1:].rstrip('.')}."


def _facts(trained: Trained, report: TrainingReport) -> Facts:
    measured = report.local[-1]
    mean, interval = mean_of(measured.per_query)
    within = "" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}; "
    found: list[tuple[str, object, str]] = [(called(measured.name), mean, f"{within}on held-out queries")]
    if report.blend is not None:
        rival = report.blend.best
        against = rival.comparisons[-1]
        found.append(
            (
                f"{called(against.metric)} against its best member",
                signed(against.difference),
                f"`{rival.name}` alone",
            )
        )
    elif report.comparisons:
        against = report.comparisons[-1]
        found.append((f"{called(against.metric)} against its global scorer", signed(against.difference), ""))
    queries = trained.queries
    found.append(
        (
            "judged queries",
            len(queries),
            f"{queries.n_docs:,} documents, {queries.n_features:,} features",
        )
    )
    if report.clusters:
        ranker = trained.built.ranker
        own = sum(scorer is not ranker.global_scorer for scorer in ranker.scorers)
        found.append(
            (
                "clusters",
                len(report.clusters),
                f"{own} with a scorer of their own" if own else "all answered by the global scorer",
            )
        )
    return Facts(found)
