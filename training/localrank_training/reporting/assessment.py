"""The page of an assessment: are the queries of different kinds, is local better, what would help most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank._version import __version__
from localrank_training.assessment import METRIC
from localrank_training.report import Facts, Page, Pre, Section, Table
from localrank_training.reporting.differences import called, differences, named, within
from localrank_training.reporting.helping import advised
from localrank_training.reporting.judged import data

if TYPE_CHECKING:
    from localrank_training.assessment import Assessment
    from localrank_training.data.inspection import Inspection


def page_of_assessment(found: Assessment, inspection: Inspection, command: str) -> Page:
    """Return the page."""
    first, *others = found.candidates
    metric = called(METRIC)
    compared = [(one.name, one.against) for one in others if one.against is not None]
    rows = [
        (
            one.name,
            one.mean,
            "" if one.against is None else within(one.against.difference, one.against.interval),
            None if one.against is None else one.against.p_holm,
            f"`{one.options}`",
        )
        for one in found.candidates
    ]
    kinds, local, best = (named(one) for one in found.sentences)
    return Page(
        "Assessment of judged queries",
        best,
        [
            Facts(
                [
                    ("queries", found.of, f"{found.queries:,} of them were looked at"),
                    (f"{metric} of {first.name}", first.mean, "cross-validated"),
                    ("change their cluster", f"{found.flips:.0%}", "without a tenth of their documents"),
                ]
            ),
            Section(
                "Which models suit these queries",
                [
                    kinds,
                    local,
                    differences(
                        f"What quick models gain over {first.name}",
                        f"{first.name.capitalize()} reaches {metric} {first.mean:.4f}. Right of the line a model is better.",
                        [("difference", compared)],
                        unit=f"difference in {metric}",
                        names="model",
                    ),
                    Table(
                        "Quick models in the same cross-validation",
                        ("model", metric, "difference", "p (Holm)", "options of localrank train"),
                        rows,
                        "They show where to look, not how good a long training run will be. The number after "
                        "± is half of the 95 % interval.",
                    ),
                ],
            ),
            advised(found.advice),
            data(inspection),
            Section("How to make it again", [Pre(command)]),
        ],
        foot=f"LocalRank {__version__}. This file asks no other host for anything.",
    )
