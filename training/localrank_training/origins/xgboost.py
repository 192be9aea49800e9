r"""XGBoost's JSON, as ``Booster.save_model("model.json")`` writes it [chen2016]: boosted trees, DART and linear models.

A document goes left if its value is *below* the threshold, in float32; that is the same as not above the float32 before
the threshold. The scores are margins (``output_margin=True``): ``base_score`` is turned back through the objective's
link first. XGBoost adds in float32 and this in float64, hence the tolerance.

A split on categories names those that go *right*; all others go left, also values that it does not know. One-hot splits
are the same with one category. Categories of a data frame are in the file with their values since version 3.1; else the codes
themselves are the values.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank.features.feature import MOST_VALUES
from localrank.scorers import LinearScorer
from localrank.scorers.trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN
from localrank_training.learners.forests import reason_of
from localrank_training.origins.model import Grove, OriginModel, TreeSplit, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: XGBoost adds up in float32.
TOLERANCE = 1e-5
_LOGIT = {"binary:logistic", "reg:logistic"}
_LOG = {"count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"}
_IDENTITY = {
    "rank:ndcg",
    "rank:pairwise",
    "rank:map",
    "reg:squarederror",
    "reg:linear",
    "reg:squaredlogerror",
    "reg:pseudohubererror",
    "reg:absoluteerror",
    "binary:hinge",
    "binary:logitraw",
}


def read(members: Mapping[str, Any]) -> OriginModel:
    """Read the model, from its JSON.

    Raises:
        InvalidData: it gives several scores, has too many categories, or is not what XGBoost writes.
    """
    try:
        return _read(members["learner"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InvalidData(f"XGBoost: this model cannot be read: {reason_of(error)}") from None


def _read(learner: Mapping[str, Any]) -> OriginModel:
    parameters = learner["learner_model_param"]
    if int(parameters.get("num_class", 0)) > 1 or int(parameters.get("num_target", 1)) > 1:
        raise InvalidData(
            f"XGBoost: expected a model of one score, found num_class={parameters.get('num_class')} and "
            f"num_target={parameters.get('num_target', '1')}; several scores give no ranking"
        )
    n_features = int(parameters["num_feature"])
    names = tuple(learner.get("feature_names") or ()) or None
    if names is not None and len(names) != n_features:
        raise InvalidData(f"XGBoost: expected {n_features} names of features, found {len(names)}")
    base = _margin(_base_score(str(parameters["base_score"])), learner["objective"]["name"])
    booster = learner["gradient_booster"]
    if booster["name"] == "gblinear":
        return _linear(booster["model"]["weights"], base, n_features, names)
    dropped: Sequence[float] = ()
    if booster["name"] == "dart":
        dropped, booster = booster["weight_drop"], booster["gbtree"]
    model = booster["model"]
    # Since version 3.4 any booster of trees may drop some.
    weights: Sequence[float] = dropped or model.get("weight_drop", ())
    trees, rounds = model["trees"], _best_rounds(learner)
    notes: tuple[str, ...] = ()
    if rounds is not None:
        per_round = max(1, int(model["gbtree_model_param"].get("num_parallel_tree", 1)))
        used = rounds * per_round
        notes = (f"early stopping chose {rounds} rounds; the later ones are left out",) * (used < len(trees))
        trees = trees[:used]
    grove = Grove()
    grove.plant_constant(base)
    categories = _categories(learner.get("feature_types") or (), model)
    for number, tree in enumerate(trees):
        _plant(grove, tree, number, weights[number] if weights else 1.0, categories)
    scorer = grove.scorer()
    if scorer.n_features > n_features:
        raise ValueError(f"trees look at {scorer.n_features} features, num_feature is {n_features}")
    return OriginModel(
        "xgboost",
        scorer,
        n_features,
        names,
        "nan",
        0.0,
        rounds,
        TOLERANCE,
        notes=notes,
        categories=categories,
    )


def _categories(types: Sequence[str], model: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    """Return the values of each feature that is a category, at their codes."""
    largest = {at: -1 for at, kind in enumerate(types) if kind == "c"}
    for tree in model["trees"]:
        for node, codes in _sets(tree).items():
            feature = tree["split_indices"][node]
            largest[feature] = max(largest.get(feature, -1), *codes, -1)
    named = model.get("cats", {}).get("enc", ())
    found = {}
    for at, last in largest.items():
        stated = _stated(named[at]) if at < len(named) else []
        if last >= MOST_VALUES:
            raise InvalidData(
                f"XGBoost: expected at most {MOST_VALUES} values of a category, found {last + 1}"
            )
        if stated and last >= len(stated):
            raise ValueError(f"a split names category {last}, of {len(stated)}")
        found[at] = values_of("XGBoost", stated or range(last + 1))
    return found


def _stated(encoded: Mapping[str, Any]) -> Sequence[object]:
    """Return the values of a data frame's category: numbers, or texts as bytes one after the other."""
    values, ends = encoded["values"], encoded.get("offsets")
    if ends is None:
        return list(values)
    texts = bytes(byte & 0xFF for byte in values)
    if not texts.isascii():
        raise InvalidData(
            "XGBoost: expected values of categories in ASCII, found others, which XGBoost cuts off in its file (3.2); rename "
            "them and train again"
        )
    return [texts[begin:end].decode() for begin, end in itertools.pairwise(ends)]


def _sets(tree: Mapping[str, Any]) -> dict[int, list[int]]:
    """Return by node the categories that go right."""
    listed = zip(
        *(tree.get(f"categories_{what}", ()) for what in ("nodes", "segments", "sizes")), strict=True
    )
    sets = {node: tree["categories"][begin : begin + size] for node, begin, size in listed}
    if any(code < 0 for codes in sets.values() for code in codes):
        raise ValueError("expected categories from 0")
    return sets


def _linear(
    weights: Sequence[float], base: float, n_features: int, names: tuple[str, ...] | None
) -> OriginModel:
    if len(weights) != n_features + 1:
        raise ValueError(f"expected {n_features} weights and a bias, found {len(weights)} numbers")
    return OriginModel(
        "xgboost",
        LinearScorer(np.array(weights[:-1], np.float64), "raw"),
        n_features,
        names,
        "zero",  # a missing feature adds nothing
        offset=base + float(weights[-1]),
        tolerance=TOLERANCE,
    )


def _base_score(text: str) -> float:
    """Read ``5E-1``, or ``[5E-1]`` since version 3.1."""
    values = json.loads("[" + text.strip("[]") + "]")
    if len(values) != 1:
        raise ValueError(f"expected one base_score, found {len(values)}")
    return float(values[0])


def _margin(base: float, objective: str) -> float:
    """Return what scores start from: the base score before the objective's link."""
    if objective in _LOGIT:
        if not 0 < base < 1:
            raise ValueError(f"expected a base_score between 0 and 1 for {objective}, found {base:g}")
        margin = math.log(base / (1 - base))
    elif objective in _LOG:
        margin = math.log(base) if base > 0 else base
    elif objective in _IDENTITY:
        margin = base
    else:
        known = ", ".join(sorted(_LOGIT | _LOG | _IDENTITY))
        raise InvalidData(f"XGBoost: expected an objective of one score ({known}), found {objective!r}")
    return float(np.float32(margin))


def _best_rounds(learner: Mapping[str, Any]) -> int | None:
    best = learner.get("attributes", {}).get("best_iteration")
    if best is None:
        return None
    if int(best) < 0:
        raise ValueError(f"expected a best_iteration from 0, found {best}")
    return int(best) + 1


def _plant(
    grove: Grove,
    tree: Mapping[str, Any],
    number: int,
    weight: float,
    categories: Mapping[int, tuple[str, ...]],
) -> None:
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise InvalidData(
            f"XGBoost: tree {number}: expected leaves of one value, found several (multi_strategy)"
        )
    left, right = tree["left_children"], tree["right_children"]
    features, defaults = tree["split_indices"], tree["default_left"]
    # Values are written with the fewest digits that read back to the same float32.
    conditions = np.array(tree["split_conditions"], np.float32)
    with np.errstate(over="ignore"):
        below = np.nextafter(conditions, np.float32(-np.inf))
    values = (conditions * np.float32(weight)).astype(np.float64)

    asks_category, sets = tree.get("split_type", ()), _sets(tree)

    def look(node: int) -> TreeSplit | float:
        if left[node] < 0:
            return float(values[node])
        known = categories.get(features[node])
        if bool(asks_category and asks_category[node]) != (known is not None):
            raise ValueError(f"tree {number} takes feature {features[node]} for a number and for a category")
        if known is not None:
            # Behind the known values stand the codes of a value that is not known, and of none.
            here = set(range(len(known) + 1)).difference(sets[node])
            here.update([len(known) + 1] * bool(defaults[node]))
            return TreeSplit(features[node], grove.category_set(here), CATEGORICAL, left[node], right[node])
        decision = MISSING_NAN | (DEFAULT_LEFT if defaults[node] else 0)
        return TreeSplit(features[node], float(below[node]), decision, left[node], right[node])

    grove.plant(0, look, len(left))
