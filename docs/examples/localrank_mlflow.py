"""Versions as models of MLflow: log one to a run, load it from anywhere as a ``pyfunc`` model or as a `Ranker`.

    import localrank_mlflow

    with mlflow.start_run():
        localrank_mlflow.log_model("models/web", name="ranker", registered_model_name="web")
    scores = mlflow.pyfunc.load_model("models:/web/1").predict(frame)      # [n_docs], higher is better
    ranker = localrank_mlflow.load_model("models:/web/1")                  # what the service runs

Copy this file into your project. MLflow stores the version's folder as it is (a manifest and plain arrays, no pickle) and
this file with it. Whoever loads it needs ``localrank`` and ``mlflow``, or ``mlflow-skinny`` with pandas. Loading verifies
digests and probe.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema
from mlflow.types.schema import AnyType

import localrank
from localrank import Ranker, Registry
from localrank.artifact import Artifact, load

#: The column with the query of each row.
QID = "qid"


def log_model(source: str | Path, *, metrics: bool = True, **options: Any) -> Any:
    """Log a version to the active run; return MLflow's ``ModelInfo``.

    Args:
        source: the folder of a version (``models/web/3``) or of a model (``models/web``: its champion).
        metrics: also log the version's held-out figures as metrics of the run, ``ndcg@10`` as ``ndcg_at_10``.
        options: of ``mlflow.pyfunc.log_model``, such as ``name`` and ``registered_model_name``.
    """
    artifact = _artifact(source)
    if metrics:
        figures = artifact.manifest.metrics.get("figures", ())
        found = {
            one["metric"].replace("@", "_at_"): one["model"]
            for one in figures
            if one.get("model") is not None
        }
        mlflow.log_metrics(found)
    return mlflow.pyfunc.log_model(**_described(artifact) | options)


def save_model(source: str | Path, path: str | Path, **options: Any) -> None:
    """Write a version as a model of MLflow into a folder; the arguments are those of `log_model`."""
    mlflow.pyfunc.save_model(path=str(path), **_described(_artifact(source)) | options)


def load_model(uri: str) -> Ranker:
    """Return the ranker of a logged version: ``models:/web/1``, ``runs:/…/ranker``, or a folder."""
    folder = Path(mlflow.artifacts.download_artifacts(uri))
    [version] = [path.parent for path in folder.glob("data/*/manifest.json")]
    return load(version).ranker


class PyFunc:
    """What ``mlflow.pyfunc.load_model`` returns the `predict` of.

    Rows are documents. A table has the model's features as columns, in any order and among others, and ``qid`` if it
    holds several queries; without it all rows are one query. An array has the features in the model's order.
    """

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker

    def predict(self, model_input: Any, params: Any = None) -> np.ndarray[Any, Any]:  # noqa: ARG002 - MLflow passes it
        """Return ``[n_docs]`` the scores that the service would answer; higher is better."""
        documents, unknown = self.ranker.contract.matrix(model_input)
        queries = np.zeros(len(documents), np.int64)
        if QID in unknown:
            if model_input[QID].isna().any():
                raise ValueError("qid: expected a query for each row, found none in some row")
            queries = np.unique(model_input[QID].astype(str), return_inverse=True)[1]
        scores = np.empty(len(documents))
        for query in np.unique(queries):
            rows = np.flatnonzero(queries == query)
            scores[rows] = self.ranker.rank(documents[rows]).scores
        return scores


def _load_pyfunc(data_path: str) -> PyFunc:
    """Load what was logged; MLflow calls this by its name."""
    return PyFunc(load(Path(data_path)).ranker)


def _artifact(source: str | Path) -> Artifact:
    folder = Path(source).resolve()
    if not (folder / "manifest.json").is_file():
        folder = Registry(folder.parent).resolve(folder.name).path
    return load(folder)


def _described(artifact: Artifact) -> dict[str, Any]:
    """Return what MLflow stores of a version: folder, code, columns, requirements, and where it comes from."""
    contract = artifact.ranker.contract
    features = [ColSpec("double", name) for name in contract.names]
    return {
        "loader_module": Path(__file__).stem,
        "code_paths": [__file__],
        "data_path": str(artifact.folder),
        "signature": ModelSignature(
            inputs=Schema([*features, ColSpec(AnyType(), QID, required=False)]),
            outputs=Schema([ColSpec("double")]),
        ),
        "pip_requirements": [f"localrank=={localrank.__version__}"],
        "metadata": {
            "localrank_model": artifact.manifest.name,
            "localrank_version": artifact.manifest.version,
            "localrank_contract": contract.digest,
        },
    }
