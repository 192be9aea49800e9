"""Parquet, row group by row group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from localrank_training.data.columns import AS_NAMED
from localrank_training.data.parquet import ParquetReader

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_read_is_not_kept(tmp_path: Path) -> None:
    n_rows, n_features = 320_000, 32
    values = np.random.default_rng(0).random((n_features, n_rows), np.float32)
    table = pa.table(
        {"label": np.zeros(n_rows), "qid": np.repeat(np.arange(n_rows // 100), 100).astype(str)}
        | {f"f{number}": column for number, column in enumerate(values)}
    )
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=n_rows // 16)
    del table
    reader = ParquetReader(tmp_path / "large.parquet", AS_NAMED)
    before, most, rows = pa.total_allocated_bytes(), 0, 0

    for batch, _ in reader.batches(reader.layout.names):
        rows += len(batch.labels)
        most = max(most, pa.total_allocated_bytes() - before)

    assert n_rows == rows
    assert most < values.nbytes / 2
