"""Versions as models of MLflow: log one to a run, load it from anywhere as a ``pyfunc`` model or as a `Ranker`.

    from localrank import mlflow as localrank_mlflow

    with mlflow.start_run():
        localrank_mlflow.log_model("models/web", name="ranker", registered_model_name="web")
    scores = mlflow.pyfunc.load_model("models:/web/1").predict(frame)      # [n_docs], higher is better
    ranker = localrank_mlflow.load_model("models:/web/1")                  # what the service runs

What MLflow stores is the version's folder as it is: a manifest and plain arrays, no pickle. Loading verifies it, digests and
probe, as everything does that loads a version. MLflow is imported when a function here is called and is no dependency of
this project: ``pip install mlflow``, or ``mlflow-skinny`` with pandas.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank._version import __version__
from localrank.artifact import Artifact, load
from localrank.errors import InvalidDocuments
from localrank.frames import as_tuple, is_missing
from localrank.registry import Registry

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank.ranker import Ranker

#: The column with the query of each row.
_QID = "qid"


def save_model(source: str | Path, path: str | Path, **options: Any) -> None:
    """Write a version as a model of MLflow into a folder.

    Args:
        source: the folder of a version (``models/web/3``) or of a model (``models/web``: its champion).
        path: the folder to write.
        options: of ``mlflow.pyfunc.save_model``, over those that are set here.
    """
    artifact = _artifact(source)
    _pyfunc().save_model(path=str(path), **_options(artifact), **_given(options, artifact))


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
            str(one["metric"]).replace("@", "_at_"): float(one["model"])
            for one in figures
            if one.get("model") is not None
        }
        if found:
            import_module("mlflow").log_metrics(found)
    return _pyfunc().log_model(**_options(artifact), **_given(options, artifact))


def load_model(uri: str) -> Ranker:
    """Return the ranker of a logged version: ``models:/web/1``, ``runs:/…/ranker``, or a folder."""
    folder = Path(import_module("mlflow").artifacts.download_artifacts(uri))
    [version] = [path.parent for path in folder.glob("data/*/manifest.json")]
    return load(version).ranker


class PyFunc:
    """What ``mlflow.pyfunc.load_model`` returns the `predict` of.

    Rows are documents. A table has the model's features as columns, in any order and among others, and ``qid`` if it
    holds several queries; without it all rows are one query. An array has the features in the model's order.
    """

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker

    def predict(self, model_input: Any, params: Any = None) -> Vector:  # noqa: ARG002 - MLflow passes it
        """Return ``[n_docs]`` the scores that the service would answer; higher is better."""
        documents, queries = self._rows(model_input)
        scores = np.empty(len(documents))
        for query in np.unique(queries):
            rows = np.flatnonzero(queries == query)
            scores[rows] = self.ranker.rank(documents[rows]).scores
        return scores

    def _rows(self, model_input: Any) -> tuple[Matrix, Any]:
        """Return the documents in the model's order, and the number of the query of each."""
        documents, unknown = self.ranker.contract.matrix(model_input)
        if _QID not in unknown:
            return documents, np.zeros(len(documents), np.int64)
        ids = as_tuple(model_input[_QID])
        unknown_at = next((row for row, value in enumerate(ids) if is_missing(value)), None)
        if unknown_at is not None:
            raise InvalidDocuments(f"qid: expected a query for each row, found none in row {unknown_at}")
        _, queries = np.unique(np.array([str(value) for value in ids], np.str_), return_inverse=True)
        return documents, queries


def _load_pyfunc(data_path: str) -> PyFunc:
    """Load what was logged; MLflow calls this by its name."""
    return PyFunc(load(Path(data_path)).ranker)


def _pyfunc() -> Any:
    return import_module("mlflow.pyfunc")


def _artifact(source: str | Path) -> Artifact:
    folder = Path(source).resolve()
    if not (folder / "manifest.json").is_file():
        folder = Registry(folder.parent).resolve(folder.name).path
    return load(folder)


def _options(artifact: Artifact) -> dict[str, Any]:
    return {"loader_module": __name__, "data_path": str(artifact.folder)}


def _given(options: dict[str, Any], artifact: Artifact) -> dict[str, Any]:
    """Return the options with what a caller has not said."""
    manifest = artifact.manifest
    defaults = {
        "signature": _signature(artifact.ranker),
        "pip_requirements": [f"localrank=={__version__}"],
        "metadata": {
            "localrank_model": manifest.name,
            "localrank_version": manifest.version,
            "localrank_contract": artifact.ranker.contract.digest,
        },
    }
    return defaults | options


def _signature(ranker: Ranker) -> Any:
    """Return what columns the model takes: numbers, and which query each row belongs to."""
    models = import_module("mlflow.models")
    types = import_module("mlflow.types")
    features = [types.ColSpec("double", name) for name in ranker.contract.names]
    qid = types.ColSpec(types.schema.AnyType(), _QID, required=False)
    return models.ModelSignature(
        inputs=types.Schema([*features, qid]), outputs=types.Schema([types.ColSpec("double")])
    )
