"""Which room imports which, read from the sources.

A room is a folder of a package, or a module beside the folders. Imports inside functions count; imports that only a type
checker runs count if they are asked for.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def imports_between_rooms(
    package: Path, *, types: bool = False, name: str | None = None, root: bool = False
) -> dict[str, set[str]]:
    """Return for each room of a package the other rooms that it imports.

    Args:
        package: its folder.
        types: whether imports that only a type checker runs count.
        name: of the package, if it is not the folder's.
        root: whether all modules beside the folders are one room, ``root``.
    """
    prefix = (name or package.name) + "."
    imports: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package).with_suffix("").parts
        if place == ("__init__",):
            continue
        here = "root" if root and len(place) == 1 else place[0]
        room = imports.setdefault(here, set())
        for imported in _imported(ast.parse(path.read_text()), types=types):
            inner = imported.removeprefix(prefix).partition(".")[0]
            if imported.startswith(prefix) and _is_room(package, inner):
                room.add("root" if root and not (package / inner).is_dir() else inner)
        room.discard(here)
    return imports


def cycles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return every group of rooms that import each other, directly or through others."""
    reached = {room: _reached(room, imports) for room in imports}
    groups = {
        frozenset(other for other in reached[room] if room in reached.get(other, ()))
        for room in imports
        if room in reached[room]
    }
    return sorted(sorted(group) for group in groups)


def _is_room(package: Path, name: str) -> bool:
    return (package / name).is_dir() or (package / f"{name}.py").is_file()


def _reached(room: str, imports: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [room]
    while waiting:
        new = imports.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def _imported(node: ast.AST, *, types: bool) -> Iterator[str]:
    """Yield what is imported: every module, and every name taken from one."""
    checked = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if checked and not types:
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imported(child, types=types)
