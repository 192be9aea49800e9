"""The build script of the package, without the build tool that runs it."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from unittest import mock

import pytest

from localrank import __version__
from localrank.native.library import FOLDER, PATH

SCRIPT = Path(__file__).parents[3] / "hatch_build.py"


def build_script() -> types.ModuleType:
    interface = types.ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = object  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("hatch_build", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {interface.__name__: interface}):
        spec.loader.exec_module(module)
    return module


def built(folder: Path, *options: str) -> Path:
    """Compile the library with more options; skip where there is no compiler."""
    script = build_script()
    try:
        script.compiler()
    except script.CompilerError as problem:
        pytest.skip(str(problem))
    path: Path = script.compile_native(FOLDER, folder / PATH.name, __version__, options)
    return path
