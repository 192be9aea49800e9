from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from localrank import native

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module", params=["compiled", "numpy"])
def arithmetic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run a module's tests with what was compiled, and as where nothing could be compiled."""
    if request.param == "compiled":
        if native.library() is None:
            pytest.skip("nothing was compiled when localrank was installed")
        yield
        return
    nowhere: Path = tmp_path_factory.mktemp("nothing") / "arithmetic.native"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(native, "built_path", lambda: nowhere)
        native.library.cache_clear()
        yield
    native.library.cache_clear()
