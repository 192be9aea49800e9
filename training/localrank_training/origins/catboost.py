"""CatBoost's JSON, as ``save_model("model.json", format="json")`` writes it [prokhorenkova2018].

Its usual trees ask one question per level, the same for all nodes of the level; here they become ordinary trees. A
document goes right if its value is above the border. A missing value counts as below all borders, or above all if
``nan_value_treatment`` is ``AsTrue``.

A one-hot split sends one value of a category right. The file has hashes of the values, and their texts only if it was saved with
``pool=``. Statistics of categories (CTR) are refused: they depend on hashes of all values and of their combinations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from localrank.errors import InvalidData
from localrank.scorers.trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN
from localrank_training.learners.forests import reason_of
from localrank_training.origins.asking import HASH, values_asked
from localrank_training.origins.model import Grove, OriginModel, TreeSplit, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: CatBoost adds in float64, in an order of its own.
_TOLERANCE = 1e-12
_TRUTHS = "CatBoost writes true and false as 1 and 0: send these for a category of truth values"
#: Levels; CatBoost itself allows 16.
_DEEPEST = 20


def read(members: Mapping[str, Any]) -> OriginModel:
    """Read the model, from its JSON.

    Raises:
        InvalidData: it gives several scores, uses texts or statistics of categories, or is not what CatBoost writes.
    """
    try:
        return _read(members)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InvalidData(f"CatBoost: this model cannot be read: {reason_of(error)}") from None


def _read(members: Mapping[str, Any]) -> OriginModel:
    info = members["features_info"]
    for kind in ("text_features", "embedding_features"):
        if info.get(kind):
            raise InvalidData(
                f"CatBoost: expected numbers and categories, found {kind}, which cannot be imported; encode them as "
                "numbers and train again"
            )
    if info.get("ctrs") or members.get("ctr_data"):
        raise InvalidData(
            "CatBoost: expected one-hot splits of categories, found statistics of them (CTR), which cannot be imported; set "
            "one_hot_max_size to the number of values and train again"
        )
    scale, biases = members.get("scale_and_bias", (1.0, [0.0]))
    bias = biases if isinstance(biases, list) else [biases]
    if len(bias) > 1:
        raise InvalidData(f"CatBoost: expected a model of one score, found {len(bias)}")
    categorical = info.get("categorical_features", ())
    numbers = info.get("float_features", ()) if categorical else info["float_features"]
    described = sorted((*numbers, *categorical), key=lambda feature: feature["flat_feature_index"])
    n_features = described[-1]["flat_feature_index"] + 1
    if [feature["flat_feature_index"] for feature in described] != list(range(n_features)):
        raise ValueError("expected the features to be numbered from 0 without gaps")
    columns = _Kinds(
        {feature["feature_index"]: feature for feature in numbers},
        {feature["feature_index"]: _category(feature, info) for feature in categorical},
    )
    grove = Grove()
    for tree in members.get("oblivious_trees", ()):
        _plant_levels(grove, tree, columns, float(scale))
    for tree in members.get("trees", ()):
        _plant_nested(grove, tree, columns, float(scale))
    grove.plant_constant(float(bias[0]) if bias else 0.0)
    names = tuple(feature.get("feature_id", "") for feature in described)
    named = all(names) and names != tuple(map(str, range(n_features)))
    categories = {one.position: values_of("CatBoost", one.texts) for one in columns.categories.values()}
    truths = [at for at, values in categories.items() if values and {"0", "1"}.issuperset(values)]
    return OriginModel(
        "catboost-json",
        grove.scorer(),
        n_features,
        names if named else None,
        "nan",
        tolerance=_TOLERANCE,
        notes=(_TRUTHS,) * bool(truths),
        categories=categories,
    )


class _Category(NamedTuple):
    """A category: its position among all features, and the texts that splits ask for, with their hashes."""

    position: int
    texts: list[str]
    hashes: list[int]


class _Kinds(NamedTuple):
    """The features of each kind, by their position in it."""

    numbers: Mapping[int, Mapping[str, Any]]
    categories: Mapping[int, _Category]


def _category(feature: Mapping[str, Any], info: Mapping[str, Any]) -> _Category:
    known = values_asked(feature, info)
    if len({code for code, _ in known}) < len(set(feature.get("values", ()))):
        raise InvalidData(
            f"CatBoost: expected the values of the category {feature.get('feature_id', '')!r}, found only their hashes; save "
            'the model again with save_model("model.json", format="json", pool=the training data)'
        )
    return _Category(feature["flat_feature_index"], [text for _, text in known], [code for code, _ in known])


def _split(grove: Grove, asked: Mapping[str, Any], columns: _Kinds, left: Any, right: Any) -> TreeSplit:
    kind = asked.get("split_type", "FloatFeature")
    if kind == "OneHotFeature":
        category, wanted = columns.categories[asked["cat_feature_index"]], asked["value"] & HASH
        if wanted not in category.hashes:
            raise ValueError(f"a split asks for the value {asked['value']}, which its feature does not have")
        # Behind the texts stand the codes of a value that no split asks for, and of none.
        others = [code for code, found in enumerate([*category.hashes, -1, -1]) if found != wanted]
        return TreeSplit(category.position, grove.category_set(others), CATEGORICAL, left, right)
    if kind != "FloatFeature":
        raise InvalidData(f"CatBoost: expected splits of numbers and one-hot splits, found {kind}")
    feature = columns.numbers[asked["float_feature_index"]]
    goes_right = feature.get("nan_value_treatment") == "AsTrue"
    decision = MISSING_NAN | (0 if goes_right else DEFAULT_LEFT)
    return TreeSplit(feature["flat_feature_index"], float(np.float32(asked["border"])), decision, left, right)


def _plant_levels(grove: Grove, tree: Mapping[str, Any], columns: _Kinds, scale: float) -> None:
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
        return _split(
            grove, asked[depth - 1 - level], columns, (level + 1, 2 * leaf), (level + 1, 2 * leaf + 1)
        )

    grove.plant((0, 0), look, 2 << depth)


def _plant_nested(grove: Grove, tree: Mapping[str, Any], columns: _Kinds, scale: float) -> None:
    def look(node: Mapping[str, Any]) -> TreeSplit | float:
        if "split" in node:
            return _split(grove, node["split"], columns, node["left"], node["right"])
        if isinstance(node["value"], list):
            raise InvalidData(f"CatBoost: expected leaves of one value, found {len(node['value'])}")
        return scale * float(node["value"])

    grove.plant(tree, look, 1 << 30)  # JSON has no cycles
