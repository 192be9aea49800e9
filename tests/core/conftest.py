from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _both(arithmetic: str) -> None:
    """Run every test of core with the compiled kernels and with numpy."""
