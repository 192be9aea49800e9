from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _both() -> None:
    """Run once: nothing here depends on who does the arithmetic."""
