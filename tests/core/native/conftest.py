from __future__ import annotations

import pytest

from localrank.native.library import library


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """These are tests of the compiled kernels themselves."""
    if library() is None:
        pytest.skip("the compiled kernels were not built when localrank was installed")
