"""Synthetic documents from the splits of a model, if there are no data: they reach every leaf of every tree.

Each feature takes values at each threshold, just above it and between thresholds, so that a comparison with the origin
notices a ``<`` that became a ``<=``, a default direction that is wrong, or a threshold that was rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from localrank.scorers import StumpScorer, TreesScorer
from localrank.scorers.trees import CATEGORICAL
from localrank.scorers.walk import ZERO_REACH

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector
    from localrank_training.origins.model import OriginModel

#: Queries and documents; a probe takes at most 200 documents of each.
_QUERIES, _DOCUMENTS = 16, 100
_MISSING = 0.1
_CATEGORIES = 256.0


def made_queries(model: OriginModel, seed: int = 0) -> list[Matrix]:
    """Return queries of one document and more."""
    rng = np.random.default_rng(seed)
    lengths = [1, *rng.integers(2, _DOCUMENTS + 1, _QUERIES - 1).tolist()]
    documents = np.empty((sum(lengths), model.n_features), np.float32)
    thresholds = _thresholds(model)
    for feature in range(model.n_features):
        values = _values(thresholds.get(feature, np.zeros(0)), rng)
        documents[:, feature] = rng.choice(values, len(documents))
    if model.missing == "nan":
        documents[rng.random(documents.shape) < _MISSING] = np.nan
    return [np.ascontiguousarray(part) for part in np.split(documents, np.cumsum(lengths)[:-1])]


def _thresholds(model: OriginModel) -> dict[int, Vector]:
    """Return the thresholds of each feature; for a feature of categories, the categories of its sets."""
    scorer = model.scorer
    if not isinstance(scorer, StumpScorer | TreesScorer) or not len(scorer.features):
        return {}
    order = np.argsort(scorer.features, kind="stable")
    used, begins = np.unique(scorer.features[order], return_index=True)
    parts = dict(zip(used.tolist(), np.split(scorer.thresholds[order], begins[1:]), strict=True))
    if isinstance(scorer, TreesScorer) and len(scorer.category_words):
        categories = np.arange(min(32.0 * scorer.category_words.max(), _CATEGORIES))
        for feature in np.unique(scorer.features[(scorer.decisions & CATEGORICAL) > 0]).tolist():
            parts[feature] = categories
    return parts


def _values(thresholds: Vector, rng: np.random.Generator) -> Matrix:
    """Return what a feature takes: whole numbers if nothing splits it, else values at, above and between."""
    plain = np.array([-1.0, 0.0, 1.0, 2.5])
    with np.errstate(over="ignore"):
        at = np.unique(thresholds).astype(np.float32)
        at = at[np.isfinite(at)]
        if not len(at):
            return np.concatenate([plain, rng.standard_normal(8)]).astype(np.float32)
        above, below = np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))
        between = at[:-1] / 2 + at[1:] / 2
        outside = np.array([at[0] - abs(at[0]) / 8 - 1, at[-1] + abs(at[-1]) / 8 + 1, 0.0], np.float32)
    values = np.concatenate([at, above, below, between, np.trunc(at), outside])
    finite: Matrix = values[np.isfinite(values)].astype(np.float32)
    # LightGBM takes everything that is not larger for zero before it looks at its trees.
    finite[np.abs(finite) <= ZERO_REACH] = 0.0
    return finite
