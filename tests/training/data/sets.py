"""Sets of judged queries, and files of them, for the tests of this room."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from localrank_training.data.queries import QuerySet
from localrank_training.data.reading import Grouping, read_table
from localrank_training.data.writing import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def query_set(
    documents: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    queries: Sequence[int],
    labels: Sequence[float],
    *,
    names: Sequence[str] | None = None,
    comments: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
) -> QuerySet:
    """Build a set from documents in input order."""
    first = {query: number for number, query in enumerate(dict.fromkeys(queries))}
    grouping = Grouping(np.array([first[query] for query in queries]), len(first))
    return QuerySet(
        documents=documents[grouping.order],
        labels=np.array(labels, np.float64)[grouping.order],
        offsets=grouping.offsets,
        query_ids=tuple(f"q{query}" if ids is None else ids[query] for query in first),
        feature_names=tuple(names or (f"f{i + 1}" for i in range(documents.shape[1]))),
        lines=grouping.order,
        comments=None if comments is None else tuple(comments[int(i)] for i in grouping.order),
    )


def named(names: list[str] | bytes, **columns: Any) -> Any:
    """Return a table whose schema names the features of its lists."""
    stored = names if isinstance(names, bytes) else json.dumps(names).encode()
    return pa.table(columns).replace_schema_metadata({b"localrank.feature_names": stored})


def put(path: Path, content: Any, *, plain: bool = False) -> Path:
    """Write a file: text, bytes, or a table as Parquet or Arrow; ``plain`` Arrow files are as others write them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str | bytes):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path
    table = pa.table(content)
    if path.suffix != ".arrow":
        pq.write_table(table, path)
    elif plain:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, 100)
    else:
        labels = table["label"].to_numpy()
        good = table.set_column(0, "label", pa.array(np.zeros(len(labels))))
        queries = read_table(good)
        object.__setattr__(queries, "labels", labels)
        write(queries, path)
    return path
