"""CatBoost's JSON, as ``save_model("model.json", format="json")`` writes it [prokhorenkova2018].

Its usual trees ask one question per level, the same for all nodes of the level; here they become ordinary trees. A
document goes right if its value is above the border. A missing value counts as below all borders, or above all if
``nan_value_treatment`` is ``AsTrue``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank.scorers.trees import DEFAULT_LEFT, MISSING_NAN
from localrank_training.learners.forests import reason_of
from localrank_training.origins.model import Grove, OriginModel, TreeSplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: CatBoost adds in float64, in an order of its own.
_TOLERANCE = 1e-12
#: Levels; CatBoost itself allows 16.
_DEEPEST = 20


def read(members: Mapping[str, Any]) -> OriginModel:
    """Read the model, from its JSON.

    Raises:
        InvalidData: it gives several scores, uses categories or texts, or is not what CatBoost writes.
    """
    try:
        return _read(members)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InvalidData(f"CatBoost: this model cannot be read: {reason_of(error)}") from None


def _read(members: Mapping[str, Any]) -> OriginModel:
    info = members["features_info"]
    for kind in ("categorical_features", "text_features", "embedding_features"):
        if info.get(kind):
            raise InvalidData(
                f"CatBoost: expected features that are numbers, found {kind}, which cannot be imported; encode them as "
                "numbers and train again"
            )
    scale, biases = members.get("scale_and_bias", (1.0, [0.0]))
    bias = biases if isinstance(biases, list) else [biases]
    if len(bias) > 1:
        raise InvalidData(f"CatBoost: expected a model of one score, found {len(bias)}")
    described = sorted(info["float_features"], key=lambda feature: feature["flat_feature_index"])
    n_features = described[-1]["flat_feature_index"] + 1
    if [feature["flat_feature_index"] for feature in described] != list(range(n_features)):
        raise ValueError("expected the features to be numbered from 0 without gaps")
    columns = {feature["feature_index"]: feature for feature in described}
    grove = Grove()
    for tree in members.get("oblivious_trees", ()):
        _plant_levels(grove, tree, columns, float(scale))
    for tree in members.get("trees", ()):
        _plant_nested(grove, tree, columns, float(scale))
    grove.plant_constant(float(bias[0]) if bias else 0.0)
    names = tuple(feature.get("feature_id", "") for feature in described)
    named = all(names) and names != tuple(map(str, range(n_features)))
    return OriginModel(
        "catboost-json", grove.scorer(), n_features, names if named else None, "nan", tolerance=_TOLERANCE
    )


def _split(
    asked: Mapping[str, Any], columns: Mapping[int, Mapping[str, Any]], left: Any, right: Any
) -> TreeSplit:
    if asked.get("split_type", "FloatFeature") != "FloatFeature":
        raise InvalidData(f"CatBoost: expected splits of numbers, found {asked['split_type']}")
    feature = columns[asked["float_feature_index"]]
    goes_right = feature.get("nan_value_treatment") == "AsTrue"
    decision = MISSING_NAN | (0 if goes_right else DEFAULT_LEFT)
    return TreeSplit(feature["flat_feature_index"], float(np.float32(asked["border"])), decision, left, right)


def _plant_levels(
    grove: Grove, tree: Mapping[str, Any], columns: Mapping[int, Mapping[str, Any]], scale: float
) -> None:
    asked: Sequence[Mapping[str, Any]] = tree.get("splits") or ()
    values: Sequence[float] = tree["leaf_values"]
    depth = len(asked)
    if depth > _DEEPEST or len(values) != 1 << depth:
        raise InvalidData(
            f"CatBoost: expected {1 << min(depth, _DEEPEST)} leaves of one value for {depth} levels, found {len(values)}; "
            "a model of several scores gives no ranking"
        )

    def look(node: tuple[int, int]) -> TreeSplit | float:
        # The last level's answer is the highest bit of the position of the leaf.
        level, leaf = node
        if level == depth:
            return scale * values[leaf]
        return _split(asked[depth - 1 - level], columns, (level + 1, 2 * leaf), (level + 1, 2 * leaf + 1))

    grove.plant((0, 0), look, 2 << depth)


def _plant_nested(
    grove: Grove, tree: Mapping[str, Any], columns: Mapping[int, Mapping[str, Any]], scale: float
) -> None:
    def look(node: Mapping[str, Any]) -> TreeSplit | float:
        if "split" in node:
            return _split(node["split"], columns, node["left"], node["right"])
        if isinstance(node["value"], list):
            raise InvalidData(f"CatBoost: expected leaves of one value, found {len(node['value'])}")
        return scale * float(node["value"])

    grove.plant(tree, look, 1 << 30)  # JSON has no cycles
