from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank_training.data.writing import write
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def folds_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five partitions of queries of two kinds: one model for both cannot be right, one for each can."""
    folder = tmp_path_factory.mktemp("two-kinds")
    queries = two_kinds(60)
    # Within [0, 1], as published sets are, so that nothing is scaled: scaling would make both kinds spread alike.
    queries = queries.with_documents((queries.documents / 100 + 0.5).astype(np.float32))
    for part in range(5):
        chosen = queries.select(np.arange(part * 12, part * 12 + 12))
        write(chosen, folder / f"S{part + 1}.txt.gz")
    return folder
