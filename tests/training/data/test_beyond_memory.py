"""Learning from more documents than are held: the same models, in memory that does not grow with the data."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.features import columns
from localrank_training.data import rows
from localrank_training.data.queries import QuerySet, default_names
from localrank_training.data.reading import read
from localrank_training.data.rows import Rows, scratch
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.data.writing import write
from localrank_training.journal import fingerprint
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

LEARNERS: dict[str, dict[str, Any]] = {
    "linear": {},
    "ranksvm": {"C": 1.0},
    "lambdamart": {"num_iterations": 4, "members": 1, "min_data_in_leaf": 3},
    "random_forest": {"trees": 5},
}


@pytest.mark.parametrize("learner", ["linear", "ranksvm", "lambdamart"])
@pytest.mark.parametrize("clustering", [{"method": "none"}, {"clusters": 2}], ids=["one model", "clusters"])
def test_models_are_the_same_however_much_is_held(
    learner: str, clustering: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainingConfig.from_tables(
        {
            "learner": {"method": learner, **LEARNERS[learner]},
            "clustering": clustering,
            "selection": {"folds": 3},
            "contract": {"missing": "median"},
        }
    )
    made, _ = synthesize(30, Recipe(documents=(6, 12), features=5, missing=0.05))
    write(made, tmp_path / "mapped.arrow")
    expected = train(replace(made, origin=None), config)
    monkeypatch.setattr(rows, "HELD", 0)
    monkeypatch.setattr(rows, "HELD_OF_MAPPED", 0)
    monkeypatch.setattr(columns, "CELLS", 300)

    found = train(read([tmp_path / "mapped.arrow"]), config)

    assert isinstance(found.held_out.queries.documents, Rows)
    assert expected.built.ranker.contract.digest == found.built.ranker.contract.digest
    np.testing.assert_array_equal(expected.held_out.ranked.scores, found.held_out.ranked.scores)
    for documents in made.lists[::7]:
        np.testing.assert_array_equal(
            expected.built.ranker.rank(documents).scores, found.built.ranker.rank(documents).scores
        )
    assert fingerprint(expected.queries) == fingerprint(found.queries)


TRAIN = """
import json, sys, threading
from pathlib import Path

def held():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024

from localrank.__main__ import main
from localrank_training import cli
from localrank_training.publishing import publish
from localrank_training.run import train
from localrank_training.data import reading
import lightgbm, sklearn
peak, done = [0], threading.Event()
def watch():
    while not done.wait(0.01):
        peak[0] = max(peak[0], held())
watcher = threading.Thread(target=watch)
before = held()
watcher.start()
code = main(["train", sys.argv[1], "--learner", "linear", "--set", "learner.ridge=0.1", "--set", "selection.folds=2",
             "--workers", "1", "--models-dir", sys.argv[2]])
done.set()
watcher.join()
print(json.dumps({"code": code, "grown": peak[0] - before}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    n_queries, n_docs, n_features = 4000, 100, 200
    random = np.random.default_rng(0)
    documents = scratch(n_queries * n_docs, n_features)
    for begin in range(0, len(documents), 50_000):
        documents[begin : begin + 50_000] = random.random((50_000, n_features), np.float32)
    queries = QuerySet(
        documents=documents,
        labels=random.integers(0, 3, n_queries * n_docs).astype(np.float64),
        offsets=np.arange(n_queries + 1) * n_docs,
        query_ids=tuple(str(query) for query in range(n_queries)),
        feature_names=default_names(n_features),
        lines=np.arange(n_queries * n_docs),
    )
    write(queries, tmp_path / "large.arrow")
    size = documents.nbytes
    del documents, queries

    ran = subprocess.run(
        [sys.executable, "-c", TRAIN, str(tmp_path / "large.arrow"), str(tmp_path / "models")],
        capture_output=True,
        text=True,
        check=True,
    )

    found = json.loads(ran.stdout.splitlines()[-1])
    assert 0 == found["code"]
    assert 300 << 20 < size
    assert found["grown"] < 260 << 20
