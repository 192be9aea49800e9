"""Work on a real Dask scheduler with real worker processes, which die, come and go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.errors import InvalidConfiguration, InvalidData, WorkersLost
from localrank_training.parallel import dask_workers as module
from localrank_training.parallel.dask_workers import DaskWorkers, dask_workers
from localrank_training.parallel.processes import in_parallel
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds
from tests.training.parallel import dask_pieces
from tests.training.parallel.dask_cluster import Cluster, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("dask"), 2) as running:
        yield running


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 120.0)


def processes(workers: DaskWorkers) -> list[int]:
    return list(workers._client.run(os.getpid).values())


@given(
    st.recursive(
        st.integers()
        | st.text()
        | st.sampled_from([np.float32, np.int64]).map(lambda kind: np.arange(80_000, dtype=kind)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )
)
@settings(max_examples=25)
def test_what_is_taken_apart_comes_together_again(value: Any) -> None:
    content, arrays = module._apart(value)

    assert len(content) < 100_000
    np.testing.assert_equal(module._together(content, arrays), value)


@pytest.mark.slow
def test_pieces_come_back_in_their_order_and_an_array_is_sent_once(cluster: Cluster) -> None:
    matrix = np.arange(100_000.0).reshape(100, -1)

    with dask_workers(cluster.address) as workers:
        found = in_parallel(dask_pieces.scaled, [(matrix, factor) for factor in range(20)], workers=2)

        assert [matrix.sum() * factor for factor in range(20)] == found
        assert 1 == len(workers._sent)
        in_parallel(dask_pieces.scaled, [(matrix[:, :1], 1.0)], workers=2)
        assert {} == workers._sent


@pytest.mark.slow
def test_what_is_mapped_from_a_file_that_workers_see_is_read_by_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    np.save(tmp_path / "matrix.npy", np.arange(100_000.0).reshape(100, -1))
    matrix = np.load(tmp_path / "matrix.npy", mmap_mode="r")

    with dask_workers(cluster.address) as workers:
        found = in_parallel(dask_pieces.scaled, [(matrix[20:], 1.0), (matrix, 2.0)], workers=2)

        assert [matrix[20:].sum(), matrix.sum() * 2] == found
        assert {} == workers._sent
        assert [] == workers.notes


@pytest.mark.slow
def test_what_workers_do_not_see_is_sent_and_said(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "matrix.npy", np.arange(100_000.0))
    matrix = np.load(tmp_path / "matrix.npy", mmap_mode="r")
    monkeypatch.setattr(module, "stamp_of", dask_pieces.blind)

    with dask_workers(cluster.address) as workers:
        found = in_parallel(dask_pieces.scaled, [(matrix, 1.0)], workers=2)

        assert [matrix.sum()] == found
        assert 1 == len(workers._sent)
        (note,) = workers.notes
    assert "worker tcp://" in note
    assert "does not have the same file" in note
    assert "matrix.npy" in note


@pytest.mark.slow
def test_what_a_worker_no_longer_sees_is_sent(cluster: Cluster, tmp_path: Path) -> None:
    """As for a worker that joined later, on a machine without the volume."""
    np.save(tmp_path / "matrix.npy", np.arange(100_000.0))
    matrix = np.load(tmp_path / "matrix.npy", mmap_mode="r")

    with dask_workers(cluster.address) as workers:
        in_parallel(dask_pieces.scaled, [(matrix, 1.0)], workers=2)
        (tmp_path / "matrix.npy").unlink()
        found = in_parallel(dask_pieces.scaled, [(matrix, 3.0)] * 4, workers=2)

        assert [matrix.sum() * 3] * 4 == found
        assert 1 == len(workers._sent) == len(workers.notes)


@pytest.mark.slow
def test_an_error_of_a_piece_is_the_callers(cluster: Cluster) -> None:
    with dask_workers(cluster.address), pytest.raises(InvalidData, match="line 3"):
        in_parallel(dask_pieces.refuse, [("line 3",)], workers=2)


@pytest.mark.slow
def test_outside_of_it_nothing_runs_on_the_cluster(cluster: Cluster) -> None:
    with dask_workers(cluster.address):
        away = in_parallel(dask_pieces.where, [(0.0,)], workers=2)
    here = in_parallel(dask_pieces.where, [(0.0,)], workers=1)

    assert [os.getpid()] == here != away


@pytest.mark.slow
@pytest.mark.parametrize(
    "tables",
    [
        {"clustering": {"candidates": [1, 2]}, "learner": {"method": "ranksvm", "C": [1.0, 10.0]}},
        {
            "clustering": {"method": "prototypes", "clusters": 2, "shrink": [0.5], "share": [0.2]},
            "learner": {
                "method": "blend",
                "local": 1,
                "members": [
                    {"method": "linear", "blocks": "zscore", "ridge": [0.03, 0.3], "balance": "queries"},
                    {"method": "extra_trees", "blocks": "raw", "trees": 5},
                ],
            },
        },
    ],
)
def test_training_there_gives_the_model_of_training_here(tables: dict[str, Any], cluster: Cluster) -> None:
    queries, config = two_kinds(), TrainingConfig.from_tables(tables)
    here = train(queries, config)

    with dask_workers(cluster.address) as workers:
        there = train(queries, config, workers=workers.threads)

    assert here.config == there.config
    assert [str(trial) for trial in here.trials] == [str(trial) for trial in there.trials]
    np.testing.assert_array_equal(here.held_out.ranked.scores, there.held_out.ranked.scores)
    for documents in queries.clouds():
        np.testing.assert_array_equal(
            here.built.ranker.rank(documents).scores, there.built.ranker.rank(documents).scores
        )


@pytest.mark.soak
def test_a_worker_that_is_killed_costs_time_only(tmp_path: Path) -> None:
    matrix = np.ones((300, 300))
    with started(tmp_path, 2) as own, dask_workers(own.address) as workers:
        own_results = workers.each(dask_pieces.scaled, [(matrix, factor) for factor in range(40)])
        found = [next(own_results)]
        os.kill(processes(workers)[0], signal.SIGKILL)
        found += list(own_results)

    assert [90_000.0 * factor for factor in range(40)] == found


@pytest.mark.soak
def test_what_only_a_dead_worker_held_is_sent_again(tmp_path: Path) -> None:
    matrix, marker = np.ones((300, 300)), tmp_path / "died"
    with started(tmp_path, 1) as own, dask_workers(own.address):
        in_parallel(dask_pieces.scaled, [(matrix, 1.0)], workers=2)

        assert ["alive"] == in_parallel(dask_pieces.die, [(str(marker),)], workers=2)
        assert [180_000.0] == in_parallel(dask_pieces.scaled, [(matrix, 2.0)], workers=2)


@pytest.mark.soak
def test_a_worker_that_joins_gets_its_share(tmp_path: Path) -> None:
    with started(tmp_path, 1) as own, dask_workers(own.address) as workers:
        pieces = workers.each(dask_pieces.where, [(0.3,)] * 400)
        seen = {next(pieces)}
        own.add_worker()
        deadline = time.monotonic() + 120
        for process in pieces:
            seen.add(process)
            if len(seen) == 2:
                break
            assert time.monotonic() < deadline

    assert 2 == len(seen)


@pytest.mark.soak
def test_results_may_be_left_when_the_cluster_is_left(tmp_path: Path) -> None:
    with started(tmp_path, 1) as own, dask_workers(own.address) as workers:
        pieces = workers.each(dask_pieces.where, [(0.1,)] * 20)
        next(pieces)

    pieces.close()


@pytest.mark.soak
def test_a_piece_that_ends_every_worker_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    with (
        started(tmp_path, 1) as own,
        dask_workers(own.address),
        pytest.raises(WorkersLost, match=r"ended every worker .* too little memory. Nothing was published"),
    ):
        in_parallel(dask_pieces.die, [()], workers=2)


@pytest.mark.soak
def test_a_piece_beyond_the_memory_of_its_worker_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    with (
        started(tmp_path, 1, "--memory-limit", "400MiB") as own,
        dask_workers(own.address),
        pytest.raises(WorkersLost, match="too little memory"),
    ):
        in_parallel(dask_pieces.fill_memory, [(2**30,)], workers=2)


@pytest.mark.soak
def test_a_scheduler_that_is_gone_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    with started(tmp_path, 1) as own, dask_workers(own.address) as workers:
        pieces = workers.each(dask_pieces.where, [(0.1,)] * 400)
        next(pieces)
        own.scheduler.kill()

        with pytest.raises(WorkersLost, match=r"the scheduler is gone\. Nothing was published"):
            list(pieces)


@pytest.mark.soak
def test_a_client_that_is_killed_leaves_nothing_and_may_come_back(tmp_path: Path, cluster: Cluster) -> None:
    judged, models = tmp_path / "judged.txt", tmp_path / "models"
    localrank = [sys.executable, "-m", "localrank"]
    synthetic = ["--queries", "60", "--documents", "15", "--features", "6", "--kinds", "2"]
    subprocess.run([*localrank, "data", "synthesize", *synthetic, "--out", str(judged)], check=True)
    train_there = [*localrank, "train", str(judged), "--name", "web", "--method", "localrank"]
    train_there += ["--models-dir", str(models), "--dask", cluster.address]
    with subprocess.Popen(train_there, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        with dask_workers(cluster.address) as workers:
            deadline = time.monotonic() + 120
            while not workers._client.run_on_scheduler(_tasks) and client.poll() is None:
                assert time.monotonic() < deadline
        client.kill()

    assert not models.exists() or not [
        path for path in models.rglob("*") if path.is_file() and path.name != ".lock"
    ]
    assert 0 == subprocess.run(train_there, check=False, capture_output=True).returncode
    assert (
        0
        == subprocess.run(
            [*localrank, "models", "verify", "web", "--models-dir", str(models)], check=False
        ).returncode
    )


def _tasks(dask_scheduler: Any = None) -> int:
    return len(dask_scheduler.tasks)


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 1.0)

    with (
        pytest.raises(
            InvalidConfiguration, match=r"--dask tcp://127\.0\.0\.1:9: expected a Dask scheduler, found none"
        ),
        dask_workers("tcp://127.0.0.1:9"),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("nonsense", "missing port number"),
        ("ftp://x:1", "unknown address scheme 'ftp'"),
        ("tcp://10.0.0.5", "missing port number"),
        ("tcp://10.0.0.5:port", "invalid literal"),
        ("tcp://:8786", "found the host '' and the port 8786"),
        ("tcp://10.0.0.5:99999", "found the host '10.0.0.5' and the port 99999"),
    ],
)
def test_what_is_no_address_is_refused_before_a_client_is_made(
    address: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("distributed.Client")

    with (
        pytest.raises(
            InvalidConfiguration, match=f"--dask {address}: expected the address of a Dask scheduler.*{found}"
        ),
        dask_workers(address),
    ):
        pass


@pytest.mark.slow
def test_a_scheduler_without_workers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(tmp_path, 0) as own:
        monkeypatch.setattr(module, "_PATIENCE", 3.0)
        with (
            pytest.raises(
                InvalidConfiguration, match=r"expected a worker within 3 s, found none; start some"
            ),
            dask_workers(own.address),
        ):
            pass


@pytest.mark.slow
def test_workers_of_another_version_are_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_versions", lambda: {"numpy": "1.0"})

    said = r"worker tcp:.*: expected numpy 1\.0 as here, found 2"
    with pytest.raises(InvalidConfiguration, match=said), dask_workers(cluster.address):
        pass


@pytest.mark.slow
def test_local_workers_are_started_and_ended(capfd: pytest.CaptureFixture[str]) -> None:
    with dask_workers("local") as workers:
        found = processes(workers)
        assert os.getpid() not in found

    for process in found:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert "Traceback" not in capfd.readouterr().err


def test_one_of_workers_and_dask_is_enough() -> None:
    from localrank.__main__ import main

    assert 2 == main(["train", "nowhere.txt", "--workers", "2", "--dask", "local"])


@pytest.mark.slow
def test_threads_are_those_of_the_cluster(cluster: Cluster) -> None:
    with dask_workers(cluster.address) as workers:
        deadline = time.monotonic() + 120
        while len(workers._client.nthreads()) < 2:
            assert time.monotonic() < deadline
            threading.Event().wait(0.1)
        assert 2 == workers.threads
