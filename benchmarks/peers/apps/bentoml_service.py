"""A service of BentoML."""

import os
from typing import Any

import bentoml
import numpy as np


@bentoml.service(workers=1, logging={"access": {"enabled": False}}, metrics={"enabled": False})
class Linear:
    """A weighted sum of the features."""

    def __init__(self) -> None:
        self.weights = np.load(os.environ["PEER_WEIGHTS"])

    @bentoml.api  # type: ignore[untyped-decorator]
    def score(self, features: np.ndarray) -> np.ndarray:
        scores: np.ndarray[Any, Any] = features @ self.weights
        return scores
