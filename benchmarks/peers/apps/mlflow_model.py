"""A model of MLflow, saved with its signature where the first argument says."""

import os
import sys
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.models import infer_signature


class Linear(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A weighted sum of the features."""

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:  # noqa: ARG002 - MLflow's names
        return np.asarray(model_input) @ self.weights


if __name__ == "__main__":
    model = Path(os.environ["PEER_MODEL"])
    example = np.zeros((2, int(os.environ["PEER_FEATURES"])))
    settings: dict[str, Any] = {
        "signature": infer_signature(example, np.zeros(2)),
        "pip_requirements": [],
    }
    if model.suffix == ".npy":
        mlflow.pyfunc.save_model(sys.argv[1], python_model=Linear(np.load(model)), **settings)
    else:
        import lightgbm

        mlflow.lightgbm.save_model(lightgbm.Booster(model_file=model), sys.argv[1], **settings)
