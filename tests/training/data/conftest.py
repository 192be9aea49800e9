from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank_training.data.writing import write
from tests.training.data.sets import query_set

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet


@pytest.fixture
def mixed(tmp_path: Path) -> QuerySet:
    """A set with everything in it, in ``mixed.txt`` and ``mixed.txt.names``."""
    rng = np.random.default_rng(5)
    documents = rng.standard_normal((500, 7)).astype(np.float32)
    documents[rng.random((500, 7)) < 0.1] = np.nan
    queries = query_set(
        documents,
        rng.integers(0, 40, 500).tolist(),
        rng.choice([0.0, 1.0, 2.5], 500).tolist(),
        names=[f"feature {i}" for i in range(7)],
        comments=[f" docid = GX{i}" if i % 3 else "" for i in range(500)],
    )
    write(queries, tmp_path / "mixed.txt")
    return queries
