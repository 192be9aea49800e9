"""Trees on all workers of a real cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from distributed import Client

from localrank.artifact import load
from localrank.errors import WorkersLost
from localrank.registry.versions import Registry
from localrank_training.data.queries import QuerySet
from localrank_training.learners.boosting import LambdaMart
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from localrank_training.parallel import dask_workers as module
from localrank_training.parallel.dask_trees import TreeSample, _shares, grown_on_workers
from localrank_training.parallel.dask_workers import dask_workers
from localrank_training.publishing.publish import publish
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from tests.training.parallel.dask_cluster import Cluster, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TREES = {
    "num_iterations": 10,
    "members": 1,
    "feature_fraction": 1.0,
    "bagging_fraction": 1.0,
    "early_stopping_rounds": 0,
    "min_data_in_leaf": 5,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("dask"), 2) as running:
        yield running


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 120.0)


def of_few_values(n_queries: int = 120, n_docs: int = 40, seed: int = 0) -> QuerySet:
    """Make queries whose features have a few values each, so that all machines bin them alike."""
    rng = np.random.default_rng(seed)
    documents = rng.integers(0, 12, (n_queries * n_docs, 20)).astype(np.float32)
    worth = documents[:, 0] + np.where(documents[:, 1] > 6, documents[:, 2], -documents[:, 3])
    labels = np.digitize(worth + rng.normal(size=len(worth)), [2.0, 8.0, 14.0]).astype(np.float64)
    return QuerySet(
        documents=documents,
        labels=labels,
        offsets=np.arange(n_queries + 1, dtype=np.int64) * n_docs,
        query_ids=tuple(f"q{i}" for i in range(n_queries)),
        feature_names=tuple(f"f{i + 1}" for i in range(20)),
        lines=np.arange(len(documents)),
    )


def config_of(method: str, **more: Any) -> TrainingConfig:
    return TrainingConfig.from_tables(
        {
            "clustering": {"method": "none"},
            "selection": {"refit": False},
            "learner": {"method": method, "spread": True, **TREES, **more},
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lambdamart", "gbrt"])
def test_trees_of_all_workers_are_those_of_one_machine_and_are_published_and_verified(
    method: str, cluster: Cluster, tmp_path: Path
) -> None:
    queries, held = of_few_values(), of_few_values(30, seed=1)
    config = config_of(method)
    here = train(queries, config, validation=held)

    with dask_workers(cluster.address) as workers:
        workers._client.wait_for_workers(2, timeout=120)
        there = train(queries, config, validation=held, workers=workers.threads)

    reference = publish(Registry(tmp_path), "web", there, queries, validation=held)
    served = load(reference.path)

    for documents in held.clouds():
        np.testing.assert_allclose(
            here.built.ranker.rank(documents).scores,
            served.ranker.rank(documents).scores,
            rtol=1e-4,
            atol=1e-4,
        )


def test_without_a_cluster_they_are_grown_here_and_it_says_so() -> None:
    (learner,) = config_of("gbrt").learner.candidates()

    with collected() as notes:
        learner.fit(Lesson(of_few_values(20, 20)))

    assert any("spread needs a Dask cluster" in note.text for note in notes)


@pytest.mark.soak
def test_a_worker_that_is_killed_ends_the_fit_with_a_sentence(tmp_path: Path) -> None:
    queries = of_few_values()
    (learner,) = config_of("lambdamart").learner.candidates()
    assert isinstance(learner, LambdaMart)
    judged = TreeSample(queries.documents, queries.labels, queries.lengths)
    with started(tmp_path, 2) as own, Client(own.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
        victim = min(client.run(os.getpid).values())

        def kill() -> None:
            deadline = time.monotonic() + 120
            while not client.run_on_scheduler(_growing) and time.monotonic() < deadline:
                time.sleep(0.1)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(WorkersLost, match=r"is gone.* Nothing was published"):
            grown_on_workers(own.address, learner._settings(0), 1_000_000, judged)
        killer.join()


def _growing(dask_scheduler: Any = None) -> bool:
    return sum("_train_part" in str(key) for key in dask_scheduler.tasks) == 2


@pytest.mark.parametrize(
    ("lengths", "workers", "expected"),
    [
        ([5, 5, 5, 5], 2, [2, 2]),
        ([1, 1, 1, 9], 2, [3, 1]),
        ([9, 1, 1, 1], 2, [1, 3]),
        ([3], 4, [1]),
        ([2, 2, 2], 3, [1, 1, 1]),
    ],
)
def test_every_worker_gets_whole_queries(lengths: list[int], workers: int, expected: list[int]) -> None:
    parts = _shares(np.array(lengths), workers)

    assert len(lengths) == sum(part.stop - part.start for part in parts)
    assert expected == [part.stop - part.start for part in parts]
