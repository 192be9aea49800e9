"""The body that creates a model in the Learning to Rank plug-in of Elasticsearch or OpenSearch.

``POST _ltr/_featureset/FEATURES/_createmodel`` takes a name, a type and a definition. Trees have the type
``model/xgboost+json``: XGBoost's dump, in which a value *below* the threshold goes to ``yes``. So thresholds here are the
float32 after ours. Linear models have the type ``model/linear``: a weight for each feature of the set.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.exports.plain_form import PlainTrees, PlainWeights
from localrank.exports.trees import Leaf, Split, nested

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.scorers import TreesScorer


def body(model: PlainTrees | PlainWeights, name: str, features: Sequence[str]) -> dict[str, Any]:
    """Return the body of the request; the feature set must have features of these names."""
    if isinstance(model, PlainWeights):
        kind = "model/linear"
        definition: Any = dict(zip(features, model.weights.tolist(), strict=True))
    else:
        kind = "model/xgboost+json"
        definition = [tree for forest in model.forests for tree in _trees(forest, features)]
    # The definition is a text within the JSON.
    text = json.dumps(definition, separators=(",", ":"))
    return {"model": {"name": name, "model": {"type": kind, "definition": text}}}


def _trees(forest: TreesScorer, features: Sequence[str]) -> Iterator[dict[str, Any]]:
    def leaf(one: Leaf) -> dict[str, Any]:
        return {"nodeid": one.number, "leaf": _number(np.float32(one.value))}

    def split(one: Split, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {
            "nodeid": one.number,
            "depth": one.depth,
            "split": features[one.feature],
            "split_condition": _number(_after(one.threshold)),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": (left if one.missing_left else right)["nodeid"],
            "children": [left, right],
        }

    return nested(forest, leaf, split)


def _after(threshold: np.float32) -> np.float32:
    """Return the next float32; the largest one unchanged, because every document is below it."""
    largest = np.finfo(np.float32).max
    return np.float32(largest if threshold >= largest else np.nextafter(threshold, np.float32(np.inf)))


def _number(value: np.float32) -> float:
    """Return the number with the fewest digits that read back to the same float32."""
    return float(str(value))
