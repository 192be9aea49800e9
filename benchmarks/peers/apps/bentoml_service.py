"""A service of BentoML."""

from typing import Any

import bentoml
import numpy as np
from scoring import load


@bentoml.service(workers=1, logging={"access": {"enabled": False}}, metrics={"enabled": False})
class Scorer:
    """Scores documents."""

    def __init__(self) -> None:
        self.model = load()

    @bentoml.api  # type: ignore[untyped-decorator]
    def score(self, features: np.ndarray) -> np.ndarray:
        scores: np.ndarray[Any, Any] = self.model(features)
        return scores
