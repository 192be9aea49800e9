"""Models that other libraries learned, read from their own files and published as global models.

    model = read_model(path)             the scorer, the features' names, what a missing value is
    importing.publish(model, ...)        checked against the origin's own scores, then published

A reader for each origin: `lightgbm`, `xgboost`, `catboost`, `ranklib`. None of them needs the library that it is named
after; `checking` asks the library for its scores if it is installed. Docs: docs/use/models-from-elsewhere.md.
"""

from localrank_training.origins.model import OriginModel
from localrank_training.origins.recognition import FORMATS, read_model

__all__ = ["FORMATS", "OriginModel", "read_model"]
