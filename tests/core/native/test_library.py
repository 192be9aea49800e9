"""The library of compiled kernels: how it is built, opened and refused, and that its types are those of the header."""

from __future__ import annotations

import ctypes
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localrank import __version__
from localrank.native import library as native
from localrank.native.library import FOLDER, PATH, PROTOTYPES, Unusable, library, load, version_of
from tests.arithmetic import without_library
from tests.core.native.building import build_script, built

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

HEADER = (FOLDER / "native.h").read_text()


def declared() -> dict[str, tuple[list[str], str]]:
    """What native.h says that each function takes and returns; ``const`` and names left out."""
    found = {}
    plain = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
    for returns, name, takes in re.findall(
        r"^([\w ]+?[ *]+)(localrank_\w+)\(([^;]*)\);", plain, re.MULTILINE
    ):
        # An array of pairs is passed as the address of its first pair.
        arguments = [
            re.sub(r"\(\*\w+\)\[\d+\]", "*", one) for one in takes.split(",") if one.strip() != "void"
        ]
        found[name] = ([spelled(one) for one in arguments], spelled(f"{returns}result"))
    return found


def spelled(declaration: str) -> str:
    """``const float *row`` is ``float *``."""
    words = re.findall(r"\w+|\*", declaration.replace("const", ""))
    return f"{words[0]} *" if "*" in words else words[0]


def python_type(kind: type | None) -> str:
    """How C spells an argument type of ours."""
    plain: dict[type | None, str] = {
        None: "void",
        ctypes.c_int64: "int64_t",
        ctypes.c_double: "double",
        ctypes.c_char_p: "char *",
    }
    return plain[kind] if kind is None or kind in plain else kind.__name__


def test_the_types_that_python_gives_are_those_of_the_header() -> None:
    ours = {
        name: ([python_type(one) for one in takes], python_type(returns))
        for name, (takes, returns) in PROTOTYPES.items()
    }

    assert declared() == ours
    assert len(ours) >= 8


def test_every_function_that_the_library_exports_is_in_the_header() -> None:
    defined = {
        name
        for source in FOLDER.glob("*.c")
        for name in re.findall(
            r"^(?!static|INLINE)[\w *]*?(localrank_\w+)\(", source.read_text(), re.MULTILINE
        )
    }

    assert declared().keys() == defined


def test_the_structures_of_the_header_have_the_sizes_of_ours(tmp_path: Path) -> None:
    from localrank.native.search import _CANDIDATE, _Neighbour
    from localrank.scorers.bits import COLUMN, SPLIT
    from localrank.scorers.walk import NODE

    ours = {"node": NODE.itemsize, "column": COLUMN.itemsize, "split": SPLIT.itemsize}
    ours |= {"candidate": _CANDIDATE.itemsize, "neighbour": ctypes.sizeof(_Neighbour)}
    ours |= {"range": 16, "span": 32}
    checks = "".join(
        f"_Static_assert(sizeof({name}) == {size}, {name!r});\n".replace("'", '"')
        for name, size in ours.items()
    )
    (tmp_path / "sizes.c").write_text('#include "native.h"\n' + checks)

    command = [
        *build_script().compiler(),
        "-std=gnu11",
        "-I",
        str(FOLDER),
        "-c",
        "-o",
        str(tmp_path / "sizes.o"),
    ]
    done = subprocess.run([*command, str(tmp_path / "sizes.c")], check=False, capture_output=True, text=True)

    assert 0 == done.returncode, done.stderr


def test_only_the_native_package_passes_addresses() -> None:
    packages = [FOLDER.parent, *(FOLDER.parents[2] / half for half in ("service", "training"))]
    elsewhere = [
        str(path)
        for package in packages
        for path in package.rglob("*.py")
        if FOLDER not in path.parents
        and re.search(r"^\s*(import|from) ctypes|\.ctypes\b", path.read_text(), re.MULTILINE)
    ]

    assert [] == elsewhere


def test_what_is_built_is_opened(tmp_path: Path) -> None:
    path = built(tmp_path)

    assert PATH.name == path.name
    assert [path] == list(tmp_path.iterdir())
    assert version_of(FOLDER) == load(path).localrank_version().decode()


def test_a_library_of_another_version_is_refused(tmp_path: Path) -> None:
    script = build_script()
    stale = script.compile_native(FOLDER, tmp_path / "stale.so", "0.0.7")

    with pytest.raises(
        Unusable, match=rf"^stale.so was built for version 0.0.7, expected {__version__}; install localrank"
    ):
        load(stale)


def test_a_library_that_is_older_than_its_sources_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "native"
    shutil.copytree(FOLDER, sources, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (sources / "walk.c").write_text((sources / "walk.c").read_text() + "/* changed */\n")
    monkeypatch.setattr(native, "FOLDER", sources)

    with pytest.raises(Unusable, match="is older than its sources; install localrank again"):
        load(built(tmp_path))


def test_without_sources_the_version_alone_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = built(tmp_path)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(native, "FOLDER", tmp_path / "empty")

    assert load(path).localrank_version()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"for another processor", r"library.so cannot be opened \(.*\); install localrank again$"),
        (None, "library.so was not built when localrank was installed; install again with"),
    ],
)
def test_a_library_that_cannot_be_opened_is_refused_in_one_sentence(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "library.so"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(Unusable, match=reason):
        load(path)


def test_a_library_without_our_functions_is_refused(tmp_path: Path) -> None:
    source, path = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("int nothing(void) { return 0; }\n")
    subprocess.run([*build_script().compiler(), "-shared", "-fPIC", "-o", path, source], check=True)

    with pytest.raises(Unusable, match="localrank_version"):
        load(path)


def test_without_a_library_the_log_says_so_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with without_library(tmp_path / "arithmetic.native"), caplog.at_level(logging.WARNING):
        assert library() is None
        assert library() is None

    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        "compiled kernels unavailable; using the slower numpy code: arithmetic.native was not built"
    )


def test_importing_the_core_opens_no_library() -> None:
    probe = (
        "import localrank; from localrank.native.library import library; print(library.cache_info().currsize)"
    )

    answer = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)

    assert "0" == answer.stdout.strip()


BROKEN = "sh -c 'echo broken compiler >&2; exit 1'"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-compiler", "there is no C compiler: no-such-compiler was not found"),
        ("", "there is no C compiler: CC was not found"),
        (BROKEN, r"the C compiler failed \(.*, exit code 1\): broken compiler$"),
        ("false", r"the C compiler failed \(false, exit code 1\): it printed nothing$"),
    ],
)
def test_a_compiler_that_is_missing_or_fails_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    script = build_script()
    monkeypatch.setenv("CC", command)

    with pytest.raises(script.CompilerError, match=reason):
        script.compile_native(FOLDER, tmp_path / "arithmetic.native", __version__)

    assert [] == list(tmp_path.iterdir())


class Application:
    """What the build tool shows."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, message: str) -> None:
        self.warnings.append(message)

    def abort(self, message: str) -> None:
        raise SystemExit(message)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Any, Application, dict[str, Any]]]:
    """Runs the build hook for a wheel with a compiler."""
    script = build_script()
    monkeypatch.delenv("LOCALRANK_REQUIRE_NATIVE", raising=False)

    def run(compiler: str) -> tuple[Any, Application, dict[str, Any]]:
        monkeypatch.setenv("CC", compiler)
        made = script.Native.__new__(script.Native)
        made.root, made.app = str(FOLDER.parents[2]), Application()
        made.metadata = type("Metadata", (), {"version": __version__})
        data: dict[str, Any] = {"force_include": {}}
        made.initialize("standard", data)
        return made, made.app, data

    return run


def test_a_wheel_holds_the_library(hook: Any) -> None:
    made, app, data = hook("cc")

    ((path, place),) = data["force_include"].items()
    assert "localrank/native/arithmetic.native" == place
    assert load(Path(path)).localrank_version()
    assert [] == app.warnings
    assert not data["pure_python"]
    made.finalize("standard", data, "")
    assert not Path(path).exists()


def test_a_wheel_without_a_compiler_is_pure_and_warns(hook: Any) -> None:
    _, app, data = hook("no-such-compiler")

    assert {"force_include": {}} == data
    (warning,) = app.warnings
    assert "there is no C compiler: no-such-compiler was not found" in warning


def test_the_library_can_be_required(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRANK_REQUIRE_NATIVE", "1")

    with pytest.raises(
        SystemExit, match=r"^LOCALRANK_REQUIRE_NATIVE=1, but the C compiler failed .*broken compiler$"
    ):
        hook(BROKEN)
