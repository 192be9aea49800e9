"""docs/examples/localrank_mlflow.py, run by a real MLflow in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.environments import environment_with

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "models" / "demo"

#: What a user would write, and what it printed as JSON at the end.
LOGGED = """
import json, pathlib, sys
import mlflow, numpy as np, pandas as pd
import localrank
import localrank_mlflow

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
try:
    registered.predict(frame.assign(qid=["a", None, "b"] * 4))
    missing = ""
except Exception as error:
    missing = str(error)
print(json.dumps({
    "equal": registered.predict(frame).tolist() == expected.tolist(),
    "one": registered.predict(one).tolist() == expected[np.flatnonzero(frame["qid"] == "a")].tolist(),
    "saved": mlflow.pyfunc.load_model("saved").predict(frame).tolist() == expected.tolist(),
    "loaded": loaded.rank(rows).scores.tolist() == ranker.rank(rows).scores.tolist(),
    "metrics": metrics,
    "metadata": info.metadata,
    "refused": refused,
    "no query": missing,
    "pickles": [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))],
}))
"""


@pytest.mark.soak
def test_a_version_is_logged_registered_and_loaded(tmp_path: Path) -> None:
    python = environment_with(tmp_path / "environment", "mlflow-skinny")
    (tmp_path / "logged.py").write_text(LOGGED)
    shutil.copy(ROOT / "docs" / "examples" / "localrank_mlflow.py", tmp_path)

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
    assert "expected a query for each row" in found["no query"]
    assert [] == found["pickles"]
