"""Running code as on a machine that could not build the compiled kernels."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localrank.native import library as native

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_library(path: Path = Path("/nowhere/arithmetic.native")) -> Iterator[None]:
    """Look for the library at this path, where it cannot be used."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(native, "PATH", path)
        native.library.cache_clear()
        yield
    native.library.cache_clear()
