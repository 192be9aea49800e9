"""What ``localrank models show`` prints of one version: what it is, where it comes from, and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localrank.commands.output import MANY, ROWS, print_notes, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from localrank.artifact import Manifest
    from localrank.registry.versions import Reference


def print_version(
    reference: Reference, manifest: Manifest, aliases: Mapping[str, int], report: Path | None
) -> None:
    """Print the facts, the clusters, and every figure that the manifest has.

    Args:
        reference: which version.
        manifest: of the version.
        aliases: of its model, and what each stands for.
        report: of its training, if it has one.
    """
    contract = manifest.contract
    facts: list[tuple[str, object]] = [
        ("model", str(reference)),
        ("path", reference.path),
        ("report", report or "none: localrank train --report FILE makes one"),
        ("created", manifest.created),
        ("manifest", f"sha256:{manifest.sha256}"),
        (
            "aliases",
            ", ".join(sorted(alias for alias, number in aliases.items() if number == reference.version)),
        ),
        ("contract", contract.digest),
        ("features", f"{contract.n_features}: {_shortly(contract.names)}"),
        ("normalise", contract.normalise),
        ("missing", ", ".join(sorted(set(contract.missing)))),
        ("representation", _described(manifest.raw["representation"])),
        ("router", manifest.raw["router"].get("part")),
        ("guard", _guarded(manifest.raw.get("guard", {}))),
        ("scorers", ", ".join(sorted({form["kind"] for form in manifest.raw["scorers"]["forms"]}))),
        ("clusters", _clusters(manifest)),
        ("files", f"{len(manifest.files)}, {sum(entry.size for entry in manifest.files.values())} bytes"),
    ]
    if contract.categories:
        found = (contract.features[at] for at in contract.categories)
        facts.append(("categories", _shortly([f"{one.name} ({len(one.values)})" for one in found])))
    if contract.of_query:
        facts.append(("of the query", _shortly([contract.names[at] for at in contract.of_query])))
    if directed := [one for one in contract.features if one.monotone]:
        facts.append(("monotone", _shortly([f"{one.name} {one.monotone:+d}" for one in directed])))
    if baseline := manifest.metrics.get("baseline"):
        facts.append(("baseline", baseline["sentence"]))
    width = max(len(name) for name, _ in facts)
    for name, fact in facts:
        print(f"{name:<{width}}  {fact}")
    if manifest.clusters:
        print()
        figures = sorted({figure for cluster in manifest.clusters for figure in cluster.validation or {}})
        print_table(
            ("cluster", "size", "exemplar", *figures),
            [
                (
                    i,
                    cluster.size,
                    cluster.exemplar,
                    *(_cell((cluster.validation or {}).get(figure)) for figure in figures),
                )
                for i, cluster in enumerate(manifest.clusters)
            ],
            MANY,
        )
    for title, members in (
        ("metrics", manifest.metrics),
        ("stability", manifest.stability),
        ("source", manifest.source),
    ):
        if members:
            print()
            print_table((title, ""), _flat(members))
        for name, rows in _tables(members):
            # Tables within a row, such as comparisons, are only in --json.
            columns = [column for column in rows[0] if not any(_is_table(row[column]) for row in rows)]
            print(f"\n{title}.{name}")
            print_table(columns, [[_cell(row[column]) for column in columns] for row in rows], ROWS)
    print_notes(manifest.notes)


def _flat(members: Mapping[str, Any], path: str = "") -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for name, value in members.items():
        inner = f"{path}.{name}" if path else name
        if isinstance(value, dict):
            rows += _flat(value, inner)
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            if not _is_table(value):
                rows += _flat({str(place): one for place, one in enumerate(value, 1)}, inner)
        else:
            rows.append((inner, _cell(value)))
    return rows


def _tables(members: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the tables within tables of a manifest, each with its place."""
    for name, value in members.items():
        inner = f"{path}.{name}" if path else name
        if isinstance(value, dict):
            yield from _tables(value, inner)
        elif _is_table(value):
            yield inner, value


def _clusters(manifest: Manifest) -> str:
    """Return how many clusters there are, how large, and how many have a scorer of their own."""
    if not manifest.clusters:
        return "none"
    sizes = [cluster.size for cluster in manifest.clusters]
    scorers = manifest.raw["scorers"]
    own = sum(scorer != scorers["global"] or isinstance(scorer, int) for scorer in scorers["clusters"])
    return f"{len(sizes)} of {min(sizes)} to {max(sizes)} queries, {own} with a scorer of their own"


def _guarded(guard: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return the thresholds that a guard has."""
    found = [
        f"{measure} {value:.3g}: {rung}"
        for measure, rungs in guard.items()
        for rung, value in rungs.items()
        if value is not None
    ]
    return ", ".join(found) or "none"


def _described(part: dict[str, Any]) -> str:
    """Return a part of the manifest as its name and settings."""
    settings = [f"{name} = {value}" for name, value in part["fields"].items() if not isinstance(value, dict)]
    return ", ".join([part["part"], *settings])


def _is_table(value: object) -> bool:
    """Whether it is a list of rows that all have the same columns."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, dict) and row.keys() == value[0].keys() for row in value)
    )


def _cell(value: object) -> object:
    if isinstance(value, float) and value and abs(value) < 1e-3:
        return f"{value:.3g}"
    return _shortly(value) if isinstance(value, list | tuple) else value


def _shortly(values: Sequence[object], most: int = 6) -> str:
    shown = ", ".join(map(str, values[:most]))
    return shown if len(values) <= most else f"{shown}, ... ({len(values)})"
