"""Which features matter to a model, overall and in each cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank_training.report import Axis, Bars, Plot, Section, Table

if TYPE_CHECKING:
    from localrank_training.importances import Importances
    from localrank_training.report import Part
    from localrank_training.reports import TrainingReport

_SHOWN, _CLUSTERS, _OF_A_CLUSTER = 15, 25, 4
#: Deviations of a 95 % interval.
_Z = 1.96


def features(importances: Importances | None, report: TrainingReport) -> Section:
    """Return the section."""
    title = "Which features matter"
    if importances is None:
        return Section(
            title,
            [
                (
                    "There are no importances, because a score of this model is not a sum over features. "
                    "Linear models, trees and blends of these have importances."
                )
            ],
        )
    parts: list[Part] = [_plot(importances)]
    unused = [name for name, share in zip(importances.names, importances.overall, strict=True) if share == 0]
    if unused:
        some = ", ".join(f"`{name}`" for name in unused[:10])
        more = f" and {len(unused) - 10} more" if len(unused) > 10 else ""
        parts.append(
            f"{len(unused)} of {len(importances.names)} features add nothing to any score: {some}{more}."
        )
    if len(report.clusters) > 1:
        parts.append(_by_cluster(importances, report))
    return Section(title, parts)


def _plot(found: Importances) -> Plot:
    order = [int(one) for one in np.argsort(-found.overall, kind="stable")[:_SHOWN] if found.overall[one] > 0]
    shares, half = 100 * found.overall, 100 * _Z * found.errors
    known = bool(np.isfinite(found.errors).all())
    together = float(found.overall[order[:3]].sum())
    places = list(range(len(order)))
    return Plot(
        "Importance of features",
        f"The first {min(3, len(order))} of {len(found.names)} features carry {together:.0%} of what features add to scores.",
        x=Axis("feature", categories=[found.names[one] for one in order]),
        y=Axis("share of what features add to scores", unit="%"),
        marks=[
            Bars(
                "",
                places,
                [float(shares[one]) for one in order],
                [max(0.0, float(shares[one] - half[one])) for one in order] if known else None,
                [float(shares[one] + half[one]) for one in order] if known else None,
            )
        ],
        intervals="95 % intervals over queries" if known else "",
        sideways=True,
    )


def _by_cluster(found: Importances, report: TrainingReport) -> Table:
    rows = []
    order = sorted(range(len(report.clusters)), key=lambda number: -report.clusters[number].size)[:_CLUSTERS]
    for number in order:
        shares = found.clusters[number]
        first = [int(one) for one in np.argsort(-shares, kind="stable")[:_OF_A_CLUSTER] if shares[one] > 0]
        said = ", ".join(f"`{found.names[one]}` {shares[one]:.0%}" for one in first)
        more = shares - found.overall
        most = int(np.argmax(more))
        apart = (
            f"`{found.names[most]}` {100 * more[most]:+.0f} points" if first and more[most] >= 0.005 else ""
        )
        rows.append((number, report.clusters[number].size, said, apart.replace("-", "−")))
    return Table(
        "Important features of each cluster",
        ("cluster", "queries", "most important", "more than overall"),
        rows,
        "Points are percentage points above the share over all queries.",
    )
