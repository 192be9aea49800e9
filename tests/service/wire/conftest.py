from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _both(arithmetic: str) -> None:
    """Read every body with the compiled kernels and without."""
