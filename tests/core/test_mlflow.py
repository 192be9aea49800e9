"""Versions as models of MLflow: by a real MLflow, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import localrank
from localrank.errors import InvalidDocuments
from localrank.mlflow import PyFunc
from tests.environments import environment_with

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "models" / "demo"

#: What a user would write, and what it printed as JSON at the end.
LOGGED = """
import json, pathlib, sys
import mlflow, numpy as np, pandas as pd
import localrank
from localrank import mlflow as localrank_mlflow

models = pathlib.Path(sys.argv[1])
mlflow.set_tracking_uri(pathlib.Path("runs").resolve().as_uri())
with mlflow.start_run() as run:
    info = localrank_mlflow.log_model(models, name="ranker", registered_model_name="web")
metrics = mlflow.get_run(run.info.run_id).data.metrics

ranker = localrank.load(models)
rng = np.random.default_rng(0)
low, high = ranker.contract.quantiles[0], ranker.contract.quantiles[-1]
rows = (low + (high - low) * rng.random((12, ranker.contract.n_features))).astype("float32")
frame = pd.DataFrame(rows.astype(float), columns=list(ranker.contract.names))
frame["qid"] = ["b", "a", "b", "a"] * 3
registered = mlflow.pyfunc.load_model("models:/web/1")
expected = np.empty(12)
for qid in "ab":
    found = np.flatnonzero(frame["qid"] == qid)
    expected[found] = ranker.rank(rows[found]).scores
one = frame[frame["qid"] == "a"].drop(columns="qid")
loaded = localrank_mlflow.load_model(info.model_uri)
localrank_mlflow.save_model(models / "1", "saved")
files = sorted(path.name for path in pathlib.Path("saved").rglob("*") if path.is_file())
try:
    registered.predict(frame.drop(columns=["bm25"]))
    refused = ""
except Exception as error:
    refused = str(error)
print(json.dumps({
    "equal": registered.predict(frame).tolist() == expected.tolist(),
    "one": registered.predict(one).tolist() == expected[np.flatnonzero(frame["qid"] == "a")].tolist(),
    "saved": mlflow.pyfunc.load_model("saved").predict(frame).tolist() == expected.tolist(),
    "loaded": loaded.rank(rows).scores.tolist() == ranker.rank(rows).scores.tolist(),
    "metrics": metrics,
    "metadata": info.metadata,
    "refused": refused,
    "pickles": [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))],
}))
"""


@pytest.mark.soak
def test_a_version_is_logged_registered_and_loaded(tmp_path: Path) -> None:
    python = environment_with(tmp_path / "environment", "mlflow-skinny")
    (tmp_path / "logged.py").write_text(LOGGED)

    done = subprocess.run(
        [python, "-W", "ignore", "logged.py", DEMO],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        # Without the packages of its databases, MLflow keeps runs in files, if it is told that it may.
        env=os.environ | {"MLFLOW_ALLOW_FILE_STORE": "true"},
    )

    assert 0 == done.returncode, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["equal"], found["one"], found["saved"], found["loaded"]) == (True, True, True, True)
    held_out = json.loads((DEMO / "1" / "manifest.json").read_text())["metrics"]["figures"]
    assert {one["metric"].replace("@", "_at_"): one["model"] for one in held_out} == found["metrics"]
    assert ("demo", 1) == (found["metadata"]["localrank_model"], found["metadata"]["localrank_version"])
    assert "bm25" in found["refused"]
    assert [] == found["pickles"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    names = localrank.load(DEMO).contract.names
    rows = np.random.default_rng(0).random((6, len(names)), np.float32)
    return pd.DataFrame(rows.astype(float), columns=list(names)).assign(qid=[2, 10, 2, 10, 2, 10], url="x")


@pytest.mark.parametrize("table", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_a_table_is_scored_query_by_query_by_the_names_of_its_columns(
    table: object, frame: pd.DataFrame
) -> None:
    ranker = localrank.load(DEMO)
    shuffled = frame[frame.columns[::-1]]

    scores = PyFunc(ranker).predict(table(shuffled))  # type: ignore[operator]

    rows = frame.drop(columns=["qid", "url"]).to_numpy(np.float32)
    for qid in (2, 10):
        of_query = np.flatnonzero(frame["qid"] == qid)
        assert ranker.rank(rows[of_query]).scores.tolist() == scores[of_query].tolist()


@pytest.mark.parametrize(
    "qid", [[1.0, np.nan, 2.0] * 2, ["a", None, "b"] * 2, pd.array([1, None, 2] * 2, "Int64")]
)
def test_a_row_of_no_query_is_refused(frame: pd.DataFrame, qid: Any) -> None:
    with pytest.raises(InvalidDocuments, match="qid: expected a query for each row, found none in row 1"):
        PyFunc(localrank.load(DEMO)).predict(frame.assign(qid=qid))


def test_an_array_is_one_query() -> None:
    ranker = localrank.load(DEMO)
    rows = np.random.default_rng(1).random((4, ranker.contract.n_features))

    assert ranker.rank(rows.astype(np.float32)).scores.tolist() == PyFunc(ranker).predict(rows).tolist()


def test_mlflow_is_not_imported_before_it_is_used() -> None:
    code = "import sys, localrank.mlflow; sys.exit('mlflow' in sys.modules or 'pandas' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode
