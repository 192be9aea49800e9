"""Ways to change a version behind its own back, with a manifest that still fits where it should; files that are none."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.artifact.manifest import seal

if TYPE_CHECKING:
    from collections.abc import Callable


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's name must be short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the members of a manifest and seal it again, as somebody would who knows the format."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    change(manifest)
    write_manifest(folder, manifest)


def write_manifest(folder: Path, manifest: Any) -> None:
    (folder / "manifest.json").write_bytes(seal(json.dumps(manifest)))


def relist(folder: Path, name: str, **members: Any) -> None:
    """Let the manifest say what a file now is, but for the members given."""
    content = (folder / name).read_bytes()
    found = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    edit(folder, lambda manifest: manifest["files"][name].update(found | members))


def put(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Replace an array by what ``change`` makes of it, and list what comes out."""
    array = np.asarray(change(np.load(folder / name)))
    np.save(folder / name, array)
    relist(folder, name, dtype=array.dtype.name, shape=list(array.shape))
