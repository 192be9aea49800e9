"""Judged queries from arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pytest

from localrank_training.data.queries import QuerySet

if TYPE_CHECKING:
    from collections.abc import Sequence


class Judged(Protocol):
    def __call__(self, documents: Sequence[object], labels: Sequence[object]) -> QuerySet: ...


@pytest.fixture(scope="session")
def judged() -> Judged:
    """Make a `QuerySet` of one array of documents and one of labels per query."""

    def make(documents: Sequence[object], labels: Sequence[object]) -> QuerySet:
        clouds = [np.asarray(cloud, np.float32) for cloud in documents]
        rows = np.concatenate(clouds)
        return QuerySet(
            documents=np.ascontiguousarray(rows),
            labels=np.concatenate([np.asarray(those, np.float64) for those in labels]),
            offsets=np.concatenate([[0], np.cumsum([len(cloud) for cloud in clouds])]).astype(np.int64),
            query_ids=tuple(str(q) for q in range(len(clouds))),
            feature_names=tuple(f"f{i + 1}" for i in range(rows.shape[1])),
            lines=np.arange(len(rows)),
        )

    return make
