"""``localrank tables``: commands for published tables and their generations. The core is enough for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrank.commands.output import print_json, print_table
from localrank.commands.parser import CommandGroup, path, whole_number
from localrank.commands.signing import sign_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank import Registry
    from localrank.registry.versions import Reference

_TABLE = "NAME or NAME@GENERATION"


def run(arguments: Sequence[str]) -> int:
    """Run one command, ``tables`` being the first argument; return its exit code."""
    group = CommandGroup(
        "tables",
        "Publish, list, show, verify, sign, promote, roll back, prune and push tables of features that models look up by id.",
        "localrank tables publish FILE publishes the next generation of a table (see its --help).",
        ["publish"],
    )
    group.add("list", list_, "--models-dir models")

    added = group.add("show", show, "items")
    added.add_argument("table", metavar="TABLE", help=_TABLE)

    added = group.add("verify", verify, "items items@3")
    added.add_argument("tables", nargs="+", metavar="TABLE", help=_TABLE)
    added.add_argument(
        "--require-signature",
        type=Path,
        metavar="FILE",
        help="PEM file with Ed25519 public keys; one of them must have signed each generation.",
    )

    added = group.add("sign", sign, "items --key signing.pem")
    added.add_argument("table", metavar="TABLE", help=_TABLE)
    added.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="PEM file with the Ed25519 private key."
    )
    added.add_argument(
        "--password-file", type=Path, metavar="FILE", help="File with the password of the key."
    )

    added = group.add("promote", promote, "items 3")
    added.add_argument("name", metavar="NAME", help="Name of a table.")
    added.add_argument("generation", type=whole_number, metavar="GENERATION", help="Its number.")

    added = group.add("rollback", rollback, "items")
    added.add_argument("name", metavar="NAME", help="Name of a table.")

    added = group.add("prune", prune, "items --keep 3")
    added.add_argument("name", metavar="NAME", help="Name of a table.")
    added.add_argument(
        "--keep",
        type=whole_number,
        default=3,
        help="How many of the newest generations to keep, at least 1 (default %(default)s)",
    )

    added = group.add("push", push, "s3://bucket/models items")
    added.add_argument(
        "url",
        type=path,
        metavar="URL",
        help="Folder of models at a URL that fsspec can write: s3://…, file:///…",
    )
    added.add_argument("names", nargs="+", metavar="NAME", help="Name of a table.")
    added.add_argument(
        "--force",
        action="store_true",
        help="Also replace what is looked into at the URL if it is a generation that this folder does not have.",
    )
    return group.run(arguments)


def list_(models_dir: str, *, as_json: bool) -> None:
    """List every generation of every table."""
    from localrank.errors import ArtifactError
    from localrank.registry.versions import Reference

    tables = _tables(models_dir)
    answers: list[dict[str, Any]] = []
    for name, number in tables.published():
        answer: dict[str, Any] = {"name": name, "generation": number}
        try:
            answer["current"] = tables.aliases(name).get(_CURRENT) == number
            answer |= _facts(Reference(name, number, tables.models_dir / name / str(number)))
        except ArtifactError as error:
            answer["error"] = str(error)
        answers.append(answer)
    if as_json:
        print_json(answers)
        return
    if not answers:
        print(f"{models_dir}: no published table; localrank tables publish makes one", file=sys.stderr)
        return
    figures = ("created", "items", "columns", "bytes")
    print_table(
        ("name", "generation", "current", *figures),
        [
            (
                *(one["name"], one["generation"], "yes" if one.get("current") else ""),
                *(one.get(figure) for figure in figures),
            )
            for one in answers
        ],
    )
    for one in answers:
        if "error" in one:
            print(f"broken: {one['error']}", file=sys.stderr)


def show(table: str, models_dir: str, *, as_json: bool) -> None:
    """Show a generation: its columns, its items, and where it comes from."""
    from localrank.tables.generation import read_manifest

    reference = _tables(models_dir).resolve(table)
    manifest = read_manifest(reference.path)
    if as_json:
        print_json({"path": str(reference.path), "manifest": manifest.raw})
        return
    facts = _facts(reference)
    print(f"{reference}: {facts['items']} items, {facts['bytes']} bytes, published {facts['created']}")
    print_table(
        ("column", "kind", "values"),
        [(one.name, one.kind, len(one.values) if one.kind == "category" else "") for one in manifest.columns],
    )


def verify(tables: Sequence[str], require_signature: Path | None, models_dir: str, *, as_json: bool) -> None:
    """Check every byte of generations, and that every id is found; fail at the first broken one."""
    from localrank.artifact.signing import TrustedKeys
    from localrank.tables import generation

    registry = _tables(models_dir)
    trusted = None if require_signature is None else TrustedKeys.read(require_signature)
    answers = []
    for one in tables:
        reference = registry.resolve(one)
        manifest = generation.verify(reference.path, trusted=trusted).manifest
        answers.append(
            {
                "name": reference.name,
                "generation": reference.version,
                "items": manifest.items,
                "bytes": manifest.size,
            }
        )
        if not as_json:
            print(f"{reference} is good: {manifest.items} items, {manifest.size} bytes")
    if as_json:
        print_json(answers)


def sign(table: str, key: Path, password_file: Path | None, models_dir: str, *, as_json: bool) -> None:
    """Verify a generation and sign its manifest; services can require that."""
    reference, identifier = sign_with(_tables(models_dir), table, key, password_file)
    if as_json:
        print_json({"name": reference.name, "generation": reference.version, "key": identifier})
    else:
        print(f"{reference} is signed by the key {identifier[:16]}")


def promote(name: str, generation: int, models_dir: str, *, as_json: bool) -> None:
    """Let models look into a generation, and into none after it, once it has verified."""
    _say_current(_tables(models_dir).promote(name, generation), as_json=as_json)


def rollback(name: str, models_dir: str, *, as_json: bool) -> None:
    """Let models look again into the generation before, once it has verified."""
    _say_current(_tables(models_dir).rollback(name), as_json=as_json)


def _say_current(reference: Reference, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": reference.name, "current": reference.version})
    else:
        print(f"{reference.name}: generation {reference.version} is looked into")


def prune(name: str, keep: int, models_dir: str, *, as_json: bool) -> None:
    """Remove old generations; services go on with those that they look into."""
    from localrank.errors import InvalidConfiguration

    if keep < 1:
        raise InvalidConfiguration(f"--keep: expected to keep 1 generation or more, found {keep}")
    tables = _tables(models_dir)
    pruned = tables.prune(name, keep, force=True)
    left = tables.versions(name)
    if as_json:
        print_json({"name": name, "removed": pruned.versions, "left": left})
        return
    removed = ", ".join(map(str, pruned.versions)) or "none"
    print(f"removed: {removed}; left: {', '.join(map(str, left))}")


def push(url: str, names: Sequence[str], models_dir: str, *, force: bool, as_json: bool) -> None:
    """Send the newest generation of tables to a URL; services that follow the URL look into them then."""
    from localrank.registry.remote import RemoteStore, push_table

    tables = _tables(models_dir)
    store = RemoteStore(url)
    answers = []
    for name in names:
        done = push_table(store, tables, name, force=force)
        answers.append({"name": name, "sent": done.sent, "current": done.aliases[_CURRENT]})
        if not as_json:
            sent = ", ".join(map(str, done.sent)) or "none"
            print(f"{name}: sent {sent}; generation {done.aliases[_CURRENT]} is looked into")
    if as_json:
        print_json(answers)


#: The alias of the generation that is looked into.
_CURRENT = "champion"


def _facts(reference: Reference) -> dict[str, Any]:
    from localrank.tables.generation import read_manifest

    manifest = read_manifest(reference.path)
    return {
        "created": manifest.created,
        "items": manifest.items,
        "columns": len(manifest.columns),
        "bytes": manifest.size,
    }


def _tables(models_dir: str) -> Registry:
    from localrank.registry.tables import tables_in

    return tables_in(Path(models_dir))
