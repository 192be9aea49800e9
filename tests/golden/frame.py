"""Golden files: what LocalRank answers, recorded from itself, so that a test notices every change of it.

They prove nothing by themselves; other tests calculate the same numbers another way. ``make golden`` writes them anew
(``python -m tests.golden --only NAME`` one of them). Do that in a commit of its own, and say in its message what differs
and why.

A scene asks one public door (HTTP, the command line, a browser) and yields files, cases and answers. Times, ids and folders
are left out. Where the file was recorded with the same kernel of BLAS and the same libraries, every number must be the same
bit for bit. Elsewhere a scene says how near numbers must be, or which of them are compared at all.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_info

import localrank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
FILES, DATA, MODELS = HERE / "files", HERE / "data", HERE / "models"
ABOUT = (
    "Recorded from LocalRank itself: this is what it answers, not what would be right. "
    "Written anew by `make golden`, in a commit of its own that says what differs."
)
LIBRARIES = ("numpy", "scipy", "scikit-learn", "lightgbm")
_WIDTH = 150


@dataclass(frozen=True)
class Scene:
    """What asks one door.

    Attributes:
        answers: yields (file, case, answer), given an empty folder.
        libraries: those whose minor versions decide numbers.
        near: how near scores must be with another kernel or other libraries; other numbers, ten times that.
        only: the members of an answer that are compared there; all if empty.
    """

    answers: Callable[[Path], Iterator[tuple[str, str, Any]]]
    libraries: tuple[str, ...] = LIBRARIES
    near: float = 1e-6
    only: tuple[str, ...] = ()


def environment(libraries: tuple[str, ...]) -> dict[str, str]:
    """Return what numbers depend on: the kernel that OpenBLAS chose for this processor, and versions of libraries."""
    import scipy.linalg  # noqa: F401 - its BLAS is another one than numpy's

    kernels = {str(one["architecture"]) for one in threadpool_info() if one.get("internal_api") == "openblas"}
    return {
        "kernel": ", ".join(sorted(kernels)),
        **{name: ".".join(version(name).split(".")[:2]) for name in libraries},
    }


# ---------------------------------------------------------------------------------------------- what is left out

#: Members whose values differ from run to run, wherever they stand.
_VARYING = {
    "request_id", "instance", "generation", "run", "pid", "created", "since", "published", "python", "uptime_seconds",
    "per_second", "seconds", "loaded", "loaded_at", "started", "libraries", "milliseconds", "latest_seconds", "last_inference",
    "port", "runtime_dir", "threads",
}  # fmt: skip
_TEXTS = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
    (re.compile(r"(?<![\w.])\d+\.\d+ s\b"), "SECONDS s"),
)


def plain(value: Any, folder: Path | None = None, name: str = "") -> Any:
    """Return an answer without what differs from run to run: times, ids, dates and the folder of this run."""
    if value is not None and (name in _VARYING or (name == "workers" and isinstance(value, list))):
        return "…"
    if re.search(r"(_ms|_ns|_seconds|microseconds)$", name) and value is not None:
        return list(value) if isinstance(value, dict) else "…"
    if isinstance(value, dict):
        return {str(key): plain(inner, folder, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, folder) for inner in value]
    if value == localrank.__version__:
        return "VERSION"
    if isinstance(value, str):
        for pattern, text in _TEXTS:
            value = pattern.sub(text, value)
        return value if folder is None else value.replace(str(folder), "FOLDER")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


# ------------------------------------------------------------------------------------------------------- files


def written(value: Any, indent: int = 0, before: int = 0) -> str:
    """Write JSON, sorted, on as few lines as fit."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(line) + before <= _WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + 1
    if isinstance(value, list):
        parts = [written(one, inner, inner) for one in value]
        # Short ones stand beside each other.
        lines = [parts[0]]
        for part in parts[1:]:
            if (
                "\n" not in lines[-1] + part
                and inner + len(lines[-1]) + len(part) + 3 <= _WIDTH
                and len(part) < 30
            ):
                lines[-1] += ", " + part
            else:
                lines.append(part)
        opened, closed = "[", "]"
    else:
        labels = {key: json.dumps(key, ensure_ascii=False) + ": " for key in sorted(value)}
        lines = [label + written(value[key], inner, inner + len(label)) for key, label in labels.items()]
        opened, closed = "{", "}"
    return opened + (",\n" + " " * inner).join(lines) + closed


def played(scene: Scene, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the answers of a scene: ``{file: {case: answer}}``."""
    files: dict[str, dict[str, Any]] = {}
    for file, case, answer in scene.answers(folder):
        cases = files.setdefault(file, {})
        assert case not in cases, f"{file}: two cases {case!r}"
        # Through text, as a reader of the file has it.
        cases[case] = json.loads(json.dumps(plain(answer, folder)))
    return files


def record(scene: Scene, folder: Path) -> dict[str, int]:
    """Write the golden files of a scene; return how many cases each has."""
    files = played(scene, folder)
    for file, cases in files.items():
        head = {"about": ABOUT, "recorded with": environment(scene.libraries)}
        FILES.mkdir(exist_ok=True)
        (FILES / f"{file}.json").write_text(written({**head, "cases": cases}) + "\n", encoding="utf-8")
    return {file: len(cases) for file, cases in files.items()}


# -------------------------------------------------------------------------------------------------- comparing


def mismatches(scene: Scene, folder: Path) -> list[str]:
    """Return how the answers of a scene differ from its golden files, a line for each member."""
    wrong = []
    for file, cases in played(scene, folder).items():
        path = FILES / f"{file}.json"
        golden = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cases": {}}
        here = environment(scene.libraries)
        same = golden.get("recorded with") == here
        for case in sorted({*cases, *golden["cases"]}):
            if case not in cases or case not in golden["cases"]:
                wrong.append(
                    f"{path.name} | {case} | {'is in the file, but is not asked' if case not in cases else 'is not in the file'}"
                )
                continue
            expected, found = golden["cases"][case], cases[case]
            if not same and scene.only:
                expected, found = ({name: one.get(name) for name in scene.only} for one in (expected, found))
            wrong += [
                f"{path.name} | {case} | {line}"
                for line in differences(expected, found, None if same else scene.near)
            ]
    return wrong


_DECIMAL = re.compile(r"[-+−]?\d+\.\d+(e[-+]?\d+)?|sha256:[0-9a-f]+")
#: Members that hold scores, or figures of a training run.
_SCORES = re.compile(r"score|/data/|/read/|/figures/")


def differences(expected: Any, found: Any, near: float | None = None, where: str = "") -> Iterator[str]:
    """Yield a line for each member that differs.

    Args:
        expected: of the golden file.
        found: what was answered now.
        near: how near scores must be, and other numbers ten times that; none: the same bits. Scores that are nearer may then
            be in any order, and numbers within texts are not compared.
        where: the member that both are.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted({*expected, *found}):
            if name not in found:
                yield f"{where}/{name}: expected {_brief(expected[name])}, found nothing"
            elif name not in expected:
                yield f"{where}/{name}: expected nothing, found {_brief(found[name])}"
            else:
                yield from differences(expected[name], found[name], near, f"{where}/{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        if near is not None:
            expected, found = _untied(expected, near), _untied(found, near)
        for position, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, near, f"{where}/{position}")
    elif isinstance(expected, list) and isinstance(found, list):
        at = next(
            (n for n, (one, other) in enumerate(zip(expected, found, strict=False)) if one != other),
            min(len(expected), len(found)),
        )
        yield f"{where}: expected {len(expected)} entries, found {len(found)}; from {at}: {_brief(expected[at:])}, {_brief(found[at:])}"
    elif near is not None and isinstance(expected, float) and isinstance(found, float | int):
        within = near if _SCORES.search(where) else 10 * near
        if not math.isclose(expected, found, rel_tol=within, abs_tol=within):
            yield f"{where}: expected {expected!r}, found {found!r}"
    elif near is not None and isinstance(expected, str) and isinstance(found, str):
        if _DECIMAL.sub("#", expected) != _DECIMAL.sub("#", found):
            yield f"{where}: expected {_brief(expected)}, found {_brief(found)}"
    elif type(expected) is not type(found) or expected != found:
        yield f"{where}: expected {_brief(expected)}, found {_brief(found)}"


def _untied(results: list[Any], near: float) -> list[Any]:
    """Return results with those of nearly equal scores ordered by their positions in the request."""
    if not all(isinstance(one, dict) and {"index", "score"} <= one.keys() for one in results):
        return results
    groups: list[list[Any]] = []
    for one in results:
        if groups and math.isclose(groups[-1][-1]["score"], one["score"], rel_tol=near, abs_tol=near):
            groups[-1].append(one)
        else:
            groups.append([one])
    ordered = [one for group in groups for one in sorted(group, key=lambda result: int(result["index"]))]
    return [{**one, "rank": position} for position, one in enumerate(ordered, 1)]


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "…"
