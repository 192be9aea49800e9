"""``localrank models``: commands for published versions and their aliases.

The core is enough for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank.commands.output import print_json, print_notes, print_table
from localrank.commands.parser import CommandGroup, path, whole_number
from localrank.commands.signing import sign_with
from localrank.commands.versions import print_version
from localrank.exports import ENGINES

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from localrank import Registry

_REFERENCE = "NAME, NAME@VERSION or NAME@ALIAS"


def run(arguments: Sequence[str]) -> int:
    """Run one command, ``models`` being the first argument; return its exit code."""
    return _group().run(arguments)


def _group() -> CommandGroup:
    group = CommandGroup(
        "models",
        "List, show, verify, sign, promote, roll back, prune, compare, push and pull published models.",
        "localrank models import FILE publishes a model of another library (see its --help).",
        ["import"],
    )
    command = group.add
    command("list", list_, "--models-dir models")

    added = command("show", show, "demo@champion")
    added.add_argument("model", metavar="MODEL", help=_REFERENCE)

    added = command("verify", verify, "demo web@3")
    added.add_argument("models", nargs="+", metavar="MODEL", help=_REFERENCE)
    added.add_argument(
        "--require-signature",
        type=Path,
        metavar="FILE",
        help="PEM file with Ed25519 public keys; one of them must have signed each version.",
    )

    added = command("sign", sign, "web@3 --key signing.pem")
    added.add_argument("model", metavar="MODEL", help=_REFERENCE)
    added.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="PEM file with the Ed25519 private key."
    )
    added.add_argument(
        "--password-file", type=Path, metavar="FILE", help="File with the password of the key."
    )

    added = command("promote", promote, "web 3 --alias challenger")
    added.add_argument("name", metavar="NAME", help="Name of a model.")
    added.add_argument("version", type=whole_number, metavar="VERSION", help="Which version.")
    _add_alias(added)

    added = command("rollback", rollback, "web")
    added.add_argument("name", metavar="NAME", help="Name of a model.")
    _add_alias(added)

    added = command("prune", prune, "web --keep 3")
    added.add_argument("name", metavar="NAME", help="Name of a model.")
    added.add_argument(
        "--keep",
        type=whole_number,
        default=5,
        help="How many of the newest versions to keep (default %(default)s)",
    )
    added.add_argument(
        "--force",
        action="store_true",
        help="Also remove older versions that aliases name or named, and the aliases of removed versions.",
    )

    added = command("export", export, "web --to opensearch --out web.json")
    added.add_argument("model", metavar="MODEL", help=_REFERENCE)
    added.add_argument(
        "--to", required=True, choices=ENGINES, help="The search engine that will use the model."
    )
    added.add_argument("--name", help="Name of the model in the engine (default: the name here)")
    added.add_argument("--out", type=path, metavar="FILE", help="File to write (default: standard output)")
    added.add_argument(
        "--global-scorer",
        action="store_true",
        help="Export only the global scorer, without the clusters.",
    )

    added = command("diff", diff, "web@2 web@3")
    added.add_argument("before", metavar="BEFORE", help=_REFERENCE)
    added.add_argument("after", metavar="AFTER", help=_REFERENCE)

    added = command("push", push, "s3://bucket/models web")
    added.add_argument(
        "url", metavar="URL", help="Folder of models at a URL that fsspec can write: s3://…, file:///…"
    )
    added.add_argument("names", nargs="+", metavar="NAME", help="Name of a model.")
    added.add_argument(
        "--force",
        action="store_true",
        help="Also replace aliases at the URL that name versions which this folder does not have.",
    )

    added = command("pull", pull, "s3://bucket/models --models-dir copy")
    added.add_argument(
        "url", metavar="URL", help="Folder of models at a URL that fsspec can read: s3://…, https://…"
    )
    added.add_argument(
        "names", nargs="*", metavar="NAME", help="Name of a model (default: all models at the URL)"
    )
    return group


def _add_alias(command: ArgumentParser) -> None:
    command.add_argument("--alias", default="champion", help="Which alias to move (default %(default)s)")


def list_(models_dir: str, *, as_json: bool) -> None:
    """List every version of every model."""
    from localrank.artifact import read_manifest
    from localrank.errors import ArtifactError

    registry = _registry(models_dir)
    answers: list[dict[str, Any]] = []
    unlisted: list[str] = []
    for name in registry.models():
        try:
            aliases = registry.aliases(name)
        except ArtifactError as error:
            # One model with broken aliases does not hide the others, nor its own versions.
            aliases = {}
            unlisted.append(str(error))
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
        _print_broken(unlisted)
        return
    if not answers:
        print(f"{models_dir}: no published model; localrank train publishes one", file=sys.stderr)
        return
    figures = ("created", "features", "clusters", "router", "bytes")
    print_table(
        ("name", "version", "aliases", *figures),
        [
            (one["name"], one["version"], ", ".join(one["aliases"]), *(one.get(figure) for figure in figures))
            for one in answers
        ],
    )
    _print_broken([*unlisted, *(one["error"] for one in answers if "error" in one)])


def _print_broken(errors: Sequence[str]) -> None:
    for error in errors:
        print(f"broken: {error}", file=sys.stderr)


def show(model: str, models_dir: str, *, as_json: bool) -> None:
    """Show a version: what it is, where it comes from, and its figures on held-out queries."""
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
    report = registry.report_path(reference)
    if as_json:
        print_json(
            {
                "path": str(reference.path),
                "report": str(report) if report.is_file() else None,
                "aliases": aliases,
                "history": histories,
                "manifest": manifest.raw,
            }
        )
        return
    print_version(reference, manifest, aliases, report if report.is_file() else None)


def verify(models: Sequence[str], require_signature: Path | None, models_dir: str, *, as_json: bool) -> None:
    """Check every byte of versions and rank their probes; fail at the first broken one."""
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
            print(
                f"{reference} is good: {answer['files']} files, {answer['bytes']} bytes, {answer['probe']} probe "
                f"queries, scores within {found.deviation:.1e}"
            )
    if as_json:
        print_json(answers)


def sign(model: str, key: Path, password_file: Path | None, models_dir: str, *, as_json: bool) -> None:
    """Verify a version and sign its manifest; services can require that."""
    reference, identifier = sign_with(_registry(models_dir), model, key, password_file)
    if as_json:
        print_json({"name": reference.name, "version": reference.version, "key": identifier})
    else:
        print(f"{reference} is signed by the key {identifier[:16]}")


def promote(name: str, version: int, alias: str, models_dir: str, *, as_json: bool) -> None:
    """Verify a version, then point an alias at it."""
    reference = _registry(models_dir).promote(name, version, alias)
    _say_alias(reference.name, alias, reference.version, as_json=as_json)


def rollback(name: str, alias: str, models_dir: str, *, as_json: bool) -> None:
    """Point an alias back at the version that it named before."""
    reference = _registry(models_dir).rollback(name, alias)
    _say_alias(reference.name, alias, reference.version, as_json=as_json)


def prune(name: str, keep: int, models_dir: str, *, force: bool, as_json: bool) -> None:
    """Remove old versions; keep those that aliases or their histories name."""
    registry = _registry(models_dir)
    pruned = registry.prune(name, keep, force=force)
    left = registry.versions(name) if name in registry.models() else []
    if as_json:
        print_json(
            {"name": name, "removed": pruned.versions, "aliases_removed": pruned.aliases, "left": left}
        )
        return
    print(f"removed: {_numbers(pruned.versions)}; left: {_numbers(left)}")
    for alias in pruned.aliases:
        print(f"removed the alias {alias!r}: its version is removed")


def export(
    model: str,
    to: str,
    name: str | None,
    out: str | None,
    models_dir: str,
    *,
    global_scorer: bool,
    as_json: bool,
) -> None:
    """Write the request body that uploads a model to the ranking plug-in of a search engine."""
    from localrank import artifact
    from localrank.exports.engines import export as exported

    reference = _registry(models_dir).resolve(model)
    found = exported(
        artifact.load(reference.path).ranker, to, name or reference.name, global_scorer=global_scorer
    )
    print_notes(found.notes, err=True)
    if out is None:
        print_json(found.body)
        return
    Path(out).write_text(json.dumps(found.body, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json({"model": str(reference), "to": to, "file": out, "notes": found.notes})
    else:
        print(f"wrote {reference} for {to} to {out}")


def diff(before: str, after: str, models_dir: str, *, as_json: bool) -> None:
    """Compare two versions: settings, metrics, feature contract, rankings of their probes."""
    from localrank.commands.differences import print_difference

    registry = _registry(models_dir)
    difference = registry.diff(before, after)
    if as_json:
        print_json({"before": before, "after": after, **difference.to_json()})
    else:
        print_difference(difference)


def push(url: str, names: Sequence[str], models_dir: str, *, force: bool, as_json: bool) -> None:
    """Send the versions that the aliases of a model name to a URL, then the aliases; services follow the URL."""
    from localrank.registry.remote import RemoteStore
    from localrank.registry.remote import push as pushed

    registry = _registry(models_dir)
    store = RemoteStore(url)
    answers = []
    for name in names:
        done = pushed(store, registry, name, force=force)
        answers.append({"name": name, "sent": done.sent, "aliases": done.aliases})
        if not as_json:
            aliases = ", ".join(
                f"{alias} is version {version}" for alias, version in sorted(done.aliases.items())
            )
            print(f"{name}: sent {_numbers(done.sent)}; {aliases}")
    if as_json:
        print_json(answers)


def pull(url: str, names: Sequence[str], models_dir: str, *, as_json: bool) -> None:
    """Fetch and verify the versions that aliases at a URL name, then set the same aliases here."""
    from localrank.errors import ArtifactCorrupt
    from localrank.registry.mirror import Mirror, pulling
    from localrank.registry.remote import RemoteStore

    store = RemoteStore(url)
    with pulling(Path(models_dir)):
        done = Mirror(store, Path(models_dir)).pull(names)
    if as_json:
        moved = [
            {"name": one.name, "alias": one.alias, "version": one.version, "before": one.before}
            for one in done.moved
        ]
        print_json({"fetched": done.fetched, "moved": moved, "removed": done.removed, "broken": done.broken})
    else:
        for line in done.lines():
            print(line)
        if not (done.changed or done.broken):
            print("nothing has changed")
    if done.broken:
        address, reason = next(iter(done.broken.items()))
        more = f" (and {len(done.broken) - 1} more)" if len(done.broken) > 1 else ""
        raise ArtifactCorrupt(f"{store.url}: {address}: {reason}{more}")


def _registry(models_dir: str) -> Registry:
    from localrank import Registry
    from localrank.errors import ArtifactNotFound

    if not Path(models_dir).is_dir():
        raise ArtifactNotFound(f"{models_dir}: expected a folder of models, found none")
    return Registry(Path(models_dir))


def _say_alias(name: str, alias: str, version: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "alias": alias, "version": version})
    else:
        print(f"{name}@{alias} is version {version}")


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values)) or "none"
