"""Judged queries from arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pytest

from localrank_training.data.queries import QuerySet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector


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


class MakeQueries(Protocol):
    def __call__(self, n_queries: int, n_features: int, levels: int | None, *, seed: int = 0) -> QuerySet: ...


@pytest.fixture
def make_queries() -> MakeQueries:
    """Queries of 1 to 30 documents whose labels follow a noisy linear score; ``levels`` of them, or real ones."""

    def make(n_queries: int, n_features: int, levels: int | None, *, seed: int = 0) -> QuerySet:
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 31, n_queries)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        documents = rng.standard_normal((offsets[-1], n_features)).astype(np.float32)
        relevance: Vector = documents @ rng.standard_normal(n_features) + rng.standard_normal(len(documents))
        labels = relevance if levels is None else np.clip(np.round(relevance + levels / 3), 0, levels - 1)
        return QuerySet(
            documents=documents,
            labels=labels,
            offsets=offsets,
            query_ids=tuple(map(str, range(n_queries))),
            feature_names=tuple(f"f{i + 1}" for i in range(n_features)),
            lines=np.arange(len(documents)),
        )

    return make
