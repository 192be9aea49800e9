"""The judged queries that a run was given, and what its model expects of new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank_training.report import Folded, Section, Table

if TYPE_CHECKING:
    from localrank.contract import FeatureContract
    from localrank_training.data.inspection import Inspection
    from localrank_training.report import Part

#: Features that are listed; a page of thousands would be no page.
_FEATURES = 300


def data(found: Inspection) -> Section:
    """Return the section with the data."""
    parts: list[Part] = [
        f"{found.n_queries:,} queries with {found.n_docs:,} documents of {found.n_features:,} features.",
    ]
    if found.label_levels == len(found.labels):
        rows: list[tuple[object, ...]] = [
            (label, int(count), f"{count / found.n_docs:.1%}") for label, count in found.labels.items()
        ]
        parts.append(Table("Labels", ("label", "documents", "share"), rows))
    else:
        parts.append(
            Table(
                f"Labels: {found.label_levels:,} different numbers",
                tuple(found.labels),
                [tuple(f"{value:g}" for value in found.labels.values())],
            )
        )
    parts.append(
        Table(
            "Documents of a query",
            tuple(found.lengths),
            [tuple(f"{value:.4g}" for value in found.lengths.values())],
        )
    )
    if found.suspicions:
        parts.append(
            Table(
                "What looks wrong, or should be checked",
                ("what", "found", "of", "such as"),
                [(one.what, one.count, one.of, ", ".join(one.examples)) for one in found.suspicions],
            )
        )
    return Section("The data", parts)


def contract_of(contract: FeatureContract, found: Inspection) -> Section:
    """Return the section with the contract."""
    known = {one.name: one for one in found.features}
    rows: list[tuple[object, ...]] = []
    for place, name in enumerate(contract.names[:_FEATURES]):
        one = known.get(name)
        rows.append(
            (
                name,
                *(f"{contract.quantiles[row, place]:.4g}" for row in (0, 4, -1)),
                contract.missing[place],
                None if one is None else one.missing,
                None if one is None else f"{one.zeros:.0%}",
            )
        )
    more = len(contract.names) - len(rows)
    return Section(
        "What the model expects",
        [
            (
                f"{len(contract.names):,} features, by name or in this order, normalised by "
                f"`{contract.normalise}`. A document that does not fit is refused with an error message. The "
                f"hash of the contract is `{contract.digest}`."
            ),
            Folded(
                "The features",
                [
                    Table(
                        "Features, their range in training and how missing values are replaced",
                        ("feature", "least", "median", "greatest", "if missing", "missing", "zeros"),
                        rows,
                        f"{more} more features are in the manifest." if more else "",
                    )
                ],
            ),
        ],
    )
