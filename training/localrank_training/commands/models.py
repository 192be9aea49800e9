"""``localrank models``: published versions, their aliases, and what differs between them.

Imports core and Typer only, so that it works where models are served and nothing is trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrank_training.commands.output import (
    MANY,
    AsJson,
    ModelsDir,
    print_json,
    print_notes,
    print_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank import Registry
    from localrank.artifact import Manifest
    from localrank.difference import Change, Difference

__all__ = ["app"]

app = typer.Typer(
    name="models",
    help="List, show, verify, sign, promote, roll back, prune and compare published models.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a model.")]
_Reference = Annotated[str, typer.Argument(metavar="MODEL", help="NAME, NAME@VERSION or NAME@ALIAS.")]
_Alias = Annotated[str, typer.Option("--alias", help="Which alias to move.")]


@app.command("list", epilog="Example: localrank models list --models-dir models")
def list_(models_dir: ModelsDir = "models", as_json: AsJson = False) -> None:
    """List every version of every model."""
    from localrank.artifact import read_manifest
    from localrank.errors import ArtifactError

    registry = _registry(models_dir)
    answers: list[dict[str, Any]] = []
    for name in registry.models():
        aliases = registry.aliases(name)
        for version in registry.versions(name):
            answer: dict[str, Any] = {
                "name": name,
                "version": version,
                "aliases": sorted(alias for alias, number in aliases.items() if number == version),
            }
            try:
                manifest = read_manifest(registry.models_dir / name / str(version))
            except ArtifactError as error:
                answer |= {"error": str(error)}
            else:
                answer |= {
                    "created": manifest.created,
                    "features": manifest.contract.n_features,
                    "clusters": len(manifest.clusters),
                    "router": manifest.raw["router"].get("part"),
                    "bytes": sum(entry.size for entry in manifest.files.values()),
                }
            answers.append(answer)
    if as_json:
        print_json(answers)
        return
    if not answers:
        typer.echo(f"{models_dir}: no published model; localrank train publishes one", err=True)
        return
    figures = ("created", "features", "clusters", "router", "bytes")
    print_table(
        ("name", "version", "aliases", *figures),
        [
            (one["name"], one["version"], ", ".join(one["aliases"]), *(one.get(figure) for figure in figures))
            for one in answers
        ],
    )
    for one in answers:
        if "error" in one:
            typer.echo(f"broken: {one['error']}", err=True)


@app.command(epilog="Example: localrank models show demo@champion")
def show(model: _Reference, models_dir: ModelsDir = "models", as_json: AsJson = False) -> None:
    """Show what a version is, where it comes from and how it did on held-out queries."""
    from localrank.artifact import read_manifest

    registry = _registry(models_dir)
    reference = registry.resolve(model)
    manifest = read_manifest(reference.path)
    aliases = registry.aliases(reference.name)
    histories = {
        alias: [
            {"version": one.version, "since": one.since} for one in registry.history(reference.name, alias)
        ]
        for alias in sorted(aliases)
    }
    if as_json:
        print_json(
            {"path": str(reference.path), "aliases": aliases, "history": histories, "manifest": manifest.raw}
        )
        return
    contract = manifest.contract
    facts: list[tuple[str, object]] = [
        ("model", str(reference)),
        ("path", reference.path),
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
        ("scorers", ", ".join(sorted({form["kind"] for form in manifest.raw["scorers"]["forms"]}))),
        ("clusters", _clusters(manifest)),
        ("files", f"{len(manifest.files)}, {sum(entry.size for entry in manifest.files.values())} bytes"),
    ]
    width = max(len(name) for name, _ in facts)
    for name, fact in facts:
        typer.echo(f"{name:<{width}}  {fact}")
    if manifest.clusters:
        typer.echo()
        figures = sorted({figure for cluster in manifest.clusters for figure in cluster.validation or {}})
        print_table(
            ("cluster", "size", "exemplar", *figures),
            [
                (
                    i,
                    cluster.size,
                    cluster.exemplar,
                    *((cluster.validation or {}).get(figure) for figure in figures),
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
            typer.echo()
            print_table((title, ""), _flat({k: v for k, v in members.items() if not _is_table(v)}))
        for rows in members.values():
            if _is_table(rows):
                typer.echo()
                print_table(tuple(rows[0]), [tuple(map(_cell, row.values())) for row in rows], MANY)
    print_notes(manifest.notes)


@app.command(epilog="Example: localrank models verify demo web@3")
def verify(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="NAME, NAME@VERSION or NAME@ALIAS.")
    ],
    require_signature: Annotated[
        Path | None,
        typer.Option(
            "--require-signature",
            help="PEM file with Ed25519 public keys, of which one must have signed each version.",
        ),
    ] = None,
    models_dir: ModelsDir = "models",
    as_json: AsJson = False,
) -> None:
    """Check every byte of versions and rank their probes; fail at the first that is not good."""
    from localrank import artifact
    from localrank.artifact.signing import TrustedKeys

    registry = _registry(models_dir)
    trusted = None if require_signature is None else TrustedKeys.read(require_signature)
    answers = []
    for model in models:
        reference = registry.resolve(model)
        found = artifact.verify(reference.path, trusted=trusted)
        answer = {
            "name": reference.name,
            "version": reference.version,
            "files": len(found.manifest.files) + 1,
            "bytes": sum(entry.size for entry in found.manifest.files.values()),
            "probe": len(found.probe.documents),
            "deviation": found.deviation,
        }
        answers.append(answer)
        if not as_json:
            typer.echo(
                f"{reference} is good: {answer['files']} files, {answer['bytes']} bytes, {answer['probe']} probe "
                f"queries, scores within {found.deviation:.1e}"
            )
    if as_json:
        print_json(answers)


@app.command(epilog="Example: localrank models sign web@3 --key signing.pem")
def sign(
    model: _Reference,
    key: Annotated[
        Path, typer.Option("--key", help="PEM file with the Ed25519 private key.", show_default=False)
    ],
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="File with the password of the key.")
    ] = None,
    models_dir: ModelsDir = "models",
    as_json: AsJson = False,
) -> None:
    """Verify a version and sign its manifest; services can require that."""
    from localrank.artifact.signing import key_id, read_private_key

    password = None if password_file is None else password_file.read_bytes().strip()
    private = read_private_key(key, password)
    registry = _registry(models_dir)
    reference = registry.resolve(model)
    registry.sign(reference, private)
    identifier = key_id(private.public_key())
    if as_json:
        print_json({"name": reference.name, "version": reference.version, "key": identifier})
    else:
        typer.echo(f"{reference} is signed by the key {identifier[:16]}")


@app.command(epilog="Example: localrank models promote web 3 --alias challenger")
def promote(
    name: _Name,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="Which version.")],
    alias: _Alias = "champion",
    models_dir: ModelsDir = "models",
    as_json: AsJson = False,
) -> None:
    """Let an alias stand for a version, once the version has verified."""
    reference = _registry(models_dir).promote(name, version, alias)
    _say_alias(reference.name, alias, reference.version, as_json=as_json)


@app.command(epilog="Example: localrank models rollback web")
def rollback(
    name: _Name, alias: _Alias = "champion", models_dir: ModelsDir = "models", as_json: AsJson = False
) -> None:
    """Let an alias stand again for what it stood for before."""
    reference = _registry(models_dir).rollback(name, alias)
    _say_alias(reference.name, alias, reference.version, as_json=as_json)


@app.command(epilog="Example: localrank models prune web --keep 3")
def prune(
    name: _Name,
    keep: Annotated[int, typer.Option("--keep", min=0, help="How many of the newest versions stay.")] = 5,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also remove what aliases and their histories need, and such aliases."),
    ] = False,
    models_dir: ModelsDir = "models",
    as_json: AsJson = False,
) -> None:
    """Remove old versions, except those that an alias stands for or stood for."""
    registry = _registry(models_dir)
    pruned = registry.prune(name, keep, force=force)
    left = registry.versions(name) if name in registry.models() else []
    if as_json:
        print_json(
            {"name": name, "removed": pruned.versions, "aliases_removed": pruned.aliases, "left": left}
        )
        return
    typer.echo(f"removed: {_numbers(pruned.versions)}; left: {_numbers(left)}")
    for alias in pruned.aliases:
        typer.echo(f"the alias {alias!r} stood for a removed version and is gone")


@app.command(epilog="Example: localrank models diff web@2 web@3")
def diff(
    before: _Reference, after: _Reference, models_dir: ModelsDir = "models", as_json: AsJson = False
) -> None:
    """Compare two versions: settings, metrics, feature contract, rankings of their probes."""
    registry = _registry(models_dir)
    difference = registry.diff(before, after)
    if as_json:
        print_json({"before": before, "after": after, **difference.to_json()})
    else:
        _print_difference(difference)


def _print_difference(difference: Difference) -> None:
    parts: tuple[tuple[str, Sequence[Change]], ...] = (
        ("settings", difference.settings),
        ("metrics", difference.metrics),
        ("contract", difference.contract),
    )
    for title, changes in parts:
        if changes:
            print_table(
                (title, "before", "after"),
                [(one.path, _cell(one.before), _cell(one.after)) for one in changes],
            )
        else:
            typer.echo(f"{title}: the same")
        typer.echo()
    if difference.probe is None:
        typer.echo("probe: not comparable, the features are not the same")
        return
    print_table(
        ("probe of", "query", "documents", "cluster before", "after", "tau", "same first", "furthest move"),
        [
            (
                one.probe,
                one.query,
                one.documents,
                *one.clusters,
                one.tau,
                "yes" if one.same_first else "no",
                one.furthest,
            )
            for one in difference.probe
        ],
    )


def _registry(models_dir: str) -> Registry:
    from localrank import Registry
    from localrank.errors import ArtifactNotFound

    if not Path(models_dir).is_dir():
        raise ArtifactNotFound(f"{models_dir}: expected a directory of models, found none")
    return Registry(Path(models_dir))


def _say_alias(name: str, alias: str, version: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "alias": alias, "version": version})
    else:
        typer.echo(f"{name}@{alias} is version {version}")


def _flat(members: Mapping[str, Any], path: str = "") -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for name, value in members.items():
        inner = f"{path}.{name}" if path else name
        rows += _flat(value, inner) if isinstance(value, dict) else [(inner, _cell(value))]
    return rows


def _clusters(manifest: Manifest) -> str:
    """Return how many clusters there are, how large, and how many have a scorer of their own."""
    if not manifest.clusters:
        return "none"
    sizes = [cluster.size for cluster in manifest.clusters]
    scorers = manifest.raw["scorers"]
    own = sum(scorer != scorers["global"] or isinstance(scorer, int) for scorer in scorers["clusters"])
    return f"{len(sizes)} of {min(sizes)} to {max(sizes)} queries, {own} with a scorer of their own"


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


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values)) or "none"
