"""The model that Solr's Learning to Rank module stores: ``PUT /schema/model-store``.

Trees become a `MultipleAdditiveTreesModel`, whose numbers are texts, weights a `LinearModel`. Solr compares a value with
the threshold *plus* 1e-6, in float32, so that is taken off here. ``missing`` says which way a feature goes that Solr has as
NaN (since 9.2, with ``"defaultValue": "NaN"`` on the feature); earlier versions refuse it, hence ``missing`` is optional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.exports.plain_form import PlainTrees, PlainWeights
from localrank.exports.trees import Leaf, Split, nested

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.scorers import TreesScorer

_PACKAGE = "org.apache.solr.ltr.model"
#: Solr's NODE_SPLIT_SLACK.
_SLACK = np.float32(1e-6)


def body(
    model: PlainTrees | PlainWeights, name: str, features: Sequence[str], *, missing: bool = False
) -> dict[str, Any]:
    """Return the model; the feature store must have features of these names.

    Args:
        model: what to write.
        name: under which Solr stores it.
        features: in the order of the columns.
        missing: whether splits say where a missing feature goes.
    """
    params: dict[str, Any]
    if isinstance(model, PlainWeights):
        kind = "LinearModel"
        params = {"weights": dict(zip(features, model.weights.tolist(), strict=True))}
    else:
        kind = "MultipleAdditiveTreesModel"
        params = {
            "trees": [
                {"weight": "1", "root": root}
                for forest in model.forests
                for root in _trees(forest, features, missing=missing)
            ]
        }
    return {
        "class": f"{_PACKAGE}.{kind}",
        "name": name,
        "features": [{"name": feature} for feature in features],
        "params": params,
    }


def _trees(forest: TreesScorer, features: Sequence[str], *, missing: bool) -> Iterator[dict[str, Any]]:
    def leaf(one: Leaf) -> dict[str, Any]:
        return {"value": str(np.float32(one.value))}

    def split(one: Split, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        side = {"missing": "left" if one.missing_left else "right"} if missing else {}
        threshold = str(_without_slack(one.threshold))
        return {
            "feature": features[one.feature],
            "threshold": threshold,
            **side,
            "left": left,
            "right": right,
        }

    return nested(forest, leaf, split)


def _without_slack(threshold: np.float32) -> np.float32:
    """Return a float32 that becomes the threshold when Solr adds its slack, or the smallest possible number above it.

    Usually the sum is the threshold. Sometimes no float32 has this sum. Then the sum is one of the next numbers above
    the threshold, so that values at the threshold, which are common, still go left.
    """
    down, up = np.float32(-np.inf), np.float32(np.inf)
    stored = threshold - _SLACK
    while stored + _SLACK < threshold:
        stored = np.nextafter(stored, up)
    while stored + _SLACK > threshold and (lower := np.nextafter(stored, down)) + _SLACK >= threshold:
        stored = lower
    return stored
