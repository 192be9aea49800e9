"""Each reader against files written by hand: what every member means, and the limits of what is read.

The expected scores are computed from the files' own definitions, document by document; no library is asked.
"""

from __future__ import annotations

import copy
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.scorers import LinearScorer, StumpScorer, TreesScorer
from localrank_training.origins import FORMATS, read_model
from localrank_training.origins.model import Grove, TreeSplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank_training.origins import OriginModel

pytestmark = pytest.mark.usefixtures("arithmetic")


def read(tmp_path: Path, content: object, names: list[str] | None = None) -> OriginModel:
    path = tmp_path / "model"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_model(path, names=names)


def refused(tmp_path: Path, content: object, names: list[str] | None = None) -> str:
    with pytest.raises(InvalidData) as caught:
        read(tmp_path, content, names)
    return str(caught.value)


def scores(model: OriginModel, rows: list[list[float]]) -> list[float]:
    assert isinstance(model.scorer, LinearScorer | StumpScorer | TreesScorer)
    found: Vector = model.scorer.score_rows(np.array(rows, np.float32))
    return [float(score) for score in found]


def f32(value: float) -> float:
    return float(np.float32(value))


# --------------------------------------------------------------------------------------------------------- XGBoost

# Feature 0 below 0.5: leaf 10, else feature 1 below -1: leaf 20, else leaf 40. A missing feature 0 goes right, 1 left.
XGB_TREE = {
    "tree_param": {"size_leaf_vector": "1"},
    "left_children": [1, -1, 3, -1, -1],
    "right_children": [2, -1, 4, -1, -1],
    "split_indices": [0, 0, 1, 0, 0],
    "split_conditions": [0.5, 10.0, -1.0, 20.0, 40.0],
    "default_left": [0, 0, 1, 0, 0],
    "split_type": [0, 0, 0, 0, 0],
}


def sorted_out(codes: list[int], default_left: int = 1) -> dict[str, Any]:
    """The same tree, where feature 1 is a category and these codes of it go right."""
    return {
        **XGB_TREE,
        "split_type": [0, 0, 1, 0, 0],
        "default_left": [0, 0, default_left, 0, 0],
        "categories": codes,
        "categories_nodes": [2],
        "categories_segments": [0],
        "categories_sizes": [len(codes)],
    }


ROWS = [[0.0, 0.0], [0.5, -2.0], [0.5, -1.0], [np.nan, 0.0], [np.nan, np.nan], [0.6, np.nan]]
LEAVES = [10, 20, 40, 40, 20, 20]


def xgb(**changed: Any) -> dict[str, Any]:
    """A model of one tree; ``changed`` replaces the parameters, and others by their names."""
    parameters = {"num_class": "0", "num_target": "1", "num_feature": "2", "base_score": "0E0"}
    parameters.update({name: value for name, value in changed.items() if name in parameters})
    trees = changed.get("trees", [XGB_TREE])
    texts = changed.get("texts", [])
    encoded = {"offsets": [0, len(texts)], "values": texts} if texts else {"values": changed.get("enc", [])}
    return {
        "learner": {
            "learner_model_param": parameters,
            "objective": {"name": changed.get("objective", "rank:ndcg")},
            "feature_names": changed.get("names", []),
            "attributes": changed.get("attributes", {}),
            "gradient_booster": changed.get(
                "booster",
                {
                    "name": "gbtree",
                    "model": {
                        "trees": trees,
                        "cats": {"enc": [{}, encoded]} if encoded["values"] else {},
                        "gbtree_model_param": {"num_parallel_tree": changed.get("parallel", "1")},
                    },
                },
            ),
        }
    }


def test_an_xgboost_tree_goes_left_below_its_condition(tmp_path: Path) -> None:
    model = read(tmp_path, xgb())

    assert ("xgboost", 2, None, "nan", 0.0, None, ()) == (
        model.format,
        model.n_features,
        model.names,
        model.missing,
        model.offset,
        model.rounds,
        model.notes,
    )
    assert LEAVES == scores(model, ROWS)
    below = float(np.nextafter(np.float32(0.5), np.float32(0)))
    assert [10, 40] == scores(model, [[below, 0], [0.5, 0]])


def test_the_sums_of_float32_agree_to_a_hundred_thousandth_and_others_to_the_twelfth_digit(
    tmp_path: Path,
) -> None:
    """The document promises so for each origin: docs/use/models-from-elsewhere.md."""
    models = [read(tmp_path, one) for one in (xgb(), linear([1, 2, 3]), "## AdaRank\n1:1", cat())]

    assert [1e-5, 1e-5, 1e-5, 1e-12] == [model.tolerance for model in models]


@pytest.mark.parametrize(
    ("objective", "base", "margin"),
    [
        ("rank:ndcg", "5E-1", 0.5),
        ("rank:ndcg", "[5E-1]", 0.5),
        ("reg:squarederror", "-7.25", -7.25),
        ("binary:logitraw", "0.25", 0.25),
        ("binary:logistic", "0.5", 0.0),
        ("binary:logistic", "0.2", math.log(0.2 / 0.8)),
        ("reg:logistic", "0.9", math.log(0.9 / 0.1)),
        ("count:poisson", "2.5", math.log(2.5)),
        ("reg:gamma", "0.5", math.log(0.5)),
        ("count:poisson", "0", 0.0),
        ("count:poisson", "-1.5", -1.5),
    ],
)
def test_a_base_score_is_turned_back_through_the_link(
    tmp_path: Path, objective: str, base: str, margin: float
) -> None:
    model = read(tmp_path, xgb(objective=objective, base_score=base))

    assert [10 + f32(margin), 20 + f32(margin)] == scores(model, ROWS[:2])


@pytest.mark.parametrize("base", ["0", "1", "-0.5", "1.5"])
def test_a_probability_lies_between_0_and_1(tmp_path: Path, base: str) -> None:
    message = refused(tmp_path, xgb(objective="binary:logistic", base_score=base))

    assert f"expected a base_score between 0 and 1 for binary:logistic, found {float(base):g}" in message


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"num_class": "2"}, "expected a model of one score, found num_class=2 and num_target=1"),
        ({"num_target": "2"}, "expected a model of one score, found num_class=0 and num_target=2"),
        ({"base_score": "[0.5,0.5]"}, "expected one base_score, found 2"),
        ({"base_score": "[]"}, "expected one base_score, found 0"),
        ({"objective": "multi:softmax"}, "expected an objective of one score (binary:hinge, "),
        ({"names": ["a"]}, "expected 2 names of features, found 1"),
        ({"num_feature": "1"}, "trees look at 2 features, num_feature is 1"),
        ({"trees": [{**XGB_TREE, "tree_param": {"size_leaf_vector": "2"}}]}, "expected leaves of one value"),
        ({"trees": [XGB_TREE, sorted_out([5])]}, "tree 0 takes feature 1 for a number and for a category"),
        ({"trees": [sorted_out([-1])]}, "expected categories from 0"),
        ({"trees": [sorted_out([10_000])]}, "expected at most 10000 values of a category, found 10001"),
        ({"trees": [sorted_out([4])], "enc": [1, 2, 3, 4]}, "a split names category 4, of 4"),
        ({"trees": [sorted_out([1])], "enc": [1, 2, 1.0]}, "different values of a category, found two"),
        (
            {"trees": [sorted_out([1])], "enc": [1, None]},
            "expected values of a category, found one that is empty",
        ),
        ({"trees": [sorted_out([1])], "enc": [1, []]}, "expected values of a category: expected a text"),
        ({"trees": [{**XGB_TREE, "left_children": [0, -1, 3, -1, -1]}]}, "a node has two parents"),
    ],
)
def test_an_xgboost_model_that_gives_no_ranking_is_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    assert words in refused(tmp_path, xgb(**changed))


@pytest.mark.parametrize("default_left", [0, 1])
def test_categories_of_an_xgboost_split_go_right_and_all_others_left(
    tmp_path: Path, default_left: int
) -> None:
    """Codes 3 and 4 stand for a value that is not known and for none."""
    model = read(tmp_path, xgb(trees=[sorted_out([2, 0], default_left)]))

    assert {1: ("0", "1", "2")} == model.categories
    none = 20 if default_left else 40
    assert [40, 20, 40, 20, none] == scores(model, [[1.0, code] for code in range(5)])


def test_an_xgboost_model_of_one_class_and_of_unused_features_is_read(tmp_path: Path) -> None:
    model = read(tmp_path, xgb(num_class="1", num_feature="3", names=["a", "b", "c"]))

    assert (3, ("a", "b", "c")) == (model.n_features, model.names)
    bare = xgb()
    bare["learner"]["learner_model_param"].pop("num_class")
    bare["learner"]["learner_model_param"].pop("num_target")
    del bare["learner"]["attributes"], bare["learner"]["feature_names"]
    bare["learner"]["gradient_booster"]["model"]["trees"][0] = {
        name: value for name, value in XGB_TREE.items() if name != "split_type"
    } | {"tree_param": {}}
    assert LEAVES == scores(read(tmp_path, bare), ROWS)


def stump(value: float) -> dict[str, Any]:
    """A tree that is a single leaf."""
    one = {"left_children": [-1], "right_children": [-1], "split_indices": [0], "default_left": [0]}
    return {**one, "split_conditions": [value], "tree_param": {}}


@pytest.mark.parametrize(
    ("best", "parallel", "expected"),
    [
        ("0", "1", 1),
        ("2", "1", 1 + 2 + 4),
        ("5", "1", 63),
        ("0", "2", 3),
        ("1", "2", 15),
        ("2", "2", 63),
        ("0", "0", 1),
    ],
)
def test_early_stopping_leaves_the_later_rounds_out(
    tmp_path: Path, best: str, parallel: str, expected: float
) -> None:
    """Six trees of 1, 2, 4, …, so that the score shows which count; the best iteration counts from 0."""
    trees = [stump(2.0**i) for i in range(6)]

    model = read(tmp_path, xgb(trees=trees, attributes={"best_iteration": best}, parallel=parallel))

    assert [expected] == scores(model, [[0, 0]])
    assert int(best) + 1 == model.rounds
    note = f"early stopping chose {int(best) + 1} rounds; the later ones are left out"
    assert ((note,) if expected < 63 else ()) == model.notes


def test_trees_that_were_dropped_count_by_their_weight(tmp_path: Path) -> None:
    """The weight is multiplied in float32; older versions write it in the booster, newer ones in the model."""
    trees = [stump(0.1), stump(3.0)]
    model = {"trees": trees, "gbtree_model_param": {}}
    older = {"name": "dart", "weight_drop": [0.7, 0.5], "gbtree": {"model": model}}
    newer = {"name": "gbtree", "model": {**model, "weight_drop": [0.7, 0.5]}}
    expected = float(np.float32(0.1) * np.float32(0.7)) + 1.5

    for booster in (older, newer):
        assert [expected] == scores(read(tmp_path, xgb(booster=booster)), [[0, 0]])


def linear(weights: list[float]) -> dict[str, Any]:
    return xgb(base_score="0.5", booster={"name": "gblinear", "model": {"weights": weights}})


def test_a_linear_xgboost_has_its_bias_last(tmp_path: Path) -> None:
    model = read(tmp_path, linear([2, -3, 0.25]))

    assert ("xgboost", "zero", 2, 0.75) == (model.format, model.missing, model.n_features, model.offset)
    assert [2.0, -6.0] == scores(model, [[1, 0], [0, 2]])
    assert "expected 2 weights and a bias, found 2 numbers" in refused(tmp_path, linear([1, 2]))
    assert "expected 2 weights and a bias, found 4 numbers" in refused(tmp_path, linear([1, 2, 3, 4]))


# -------------------------------------------------------------------------------------------------------- CatBoost

CAT_FEATURES = [
    {"feature_index": 0, "flat_feature_index": 0, "feature_id": "a", "nan_value_treatment": "AsFalse"},
    {"feature_index": 1, "flat_feature_index": 1, "feature_id": "b", "nan_value_treatment": "AsTrue"},
]
#: The first question is the lowest bit of the leaf's number.
CAT_TREE: dict[str, Any] = {
    "splits": [
        {"float_feature_index": 0, "border": 0.5, "split_type": "FloatFeature"},
        {"float_feature_index": 1, "border": -1.0},
    ],
    "leaf_values": [1.0, 2.0, 4.0, 8.0],
}


def cat(**changed: Any) -> dict[str, Any]:
    return {
        "features_info": {"float_features": CAT_FEATURES},
        "oblivious_trees": [CAT_TREE],
        "scale_and_bias": [1.0, [0.0]],
        **changed,
    }


def test_a_symmetric_tree_asks_one_question_for_each_bit_of_the_leaf(tmp_path: Path) -> None:
    model = read(tmp_path, cat())

    rows = [[0.5, -1.0], [0.6, -1.0], [0.5, 0.0], [0.6, 0.0], [np.nan, -1.0], [0.6, np.nan], [np.nan, np.nan]]
    assert ("catboost-json", 2, ("a", "b"), "nan") == (
        model.format,
        model.n_features,
        model.names,
        model.missing,
    )
    # Above the border is 1; missing is below all borders for "a" and above all for "b".
    assert [1, 2, 4, 8, 1, 8, 4] == scores(model, rows)


@pytest.mark.parametrize(
    ("written", "scale", "bias"),
    [([2.0, [0.5]], 2, 0.5), ([2.0, 0.5], 2, 0.5), ([3.0, []], 3, 0), (None, 1, 0)],
)
def test_scale_and_bias_are_applied(tmp_path: Path, written: object, scale: float, bias: float) -> None:
    members = cat(scale_and_bias=written)
    if written is None:
        del members["scale_and_bias"]

    model = read(tmp_path, members)

    assert [scale * 1 + bias, scale * 8 + bias] == scores(model, [[0, -1], [1, 0]])


ONE_HOT = {"split_type": "OneHotFeature", "cat_feature_index": 0, "value": -2}
KIND = {"feature_index": 0, "flat_feature_index": 2, "feature_id": "kind", "values": [-2, 7]}
TEXTS = [{"hash": 9, "value": "c"}, {"hash": 7, "value": "b"}, {"hash": 2**32 - 2, "value": "a"}]


def one_hot(**changed: Any) -> dict[str, Any]:
    """A tree that asks for the value "a" of a category."""
    tree = {"splits": [ONE_HOT], "leaf_values": [1.0, 2.0]}
    info = {
        "float_features": CAT_FEATURES,
        "categorical_features": [KIND],
        "cat_features_hash": TEXTS,
        **changed,
    }
    return cat(features_info=info, oblivious_trees=[tree])


def test_a_one_hot_split_sends_one_value_right(tmp_path: Path) -> None:
    """Hashes have a sign in splits. Values that no split asks for are the unknown value."""
    model = read(tmp_path, one_hot())

    assert {2: ("b", "a")} == model.categories
    assert [1, 2, 1, 1] == scores(model, [[0, 0, code] for code in range(4)])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"cat_features_hash": []},
            "expected the values of the category 'kind', found only their hashes; save",
        ),
        ({"cat_features_hash": TEXTS[:2]}, "found only their hashes"),
        ({"cat_features_hash": [*TEXTS, {"hash": 7, "value": "a"}]}, "found two with the same spelling"),
        (
            {"categorical_features": [{**KIND, "values": [7]}]},
            "asks for the value -2, which its feature does not",
        ),
        ({"ctrs": [{}]}, "expected one-hot splits of categories, found statistics of them (CTR)"),
        ({"text_features": [{}]}, "expected numbers and categories, found text_features"),
        ({"categorical_features": [{**KIND, "flat_feature_index": 1}]}, "numbered from 0 without gaps"),
    ],
)
def test_other_categories_of_catboost_are_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    assert words in refused(tmp_path, one_hot(**changed))


def test_a_nested_tree_is_followed_from_its_root(tmp_path: Path) -> None:
    members = cat(
        scale_and_bias=[2.0, [1.0]],
        trees=[
            {
                "split": {"float_feature_index": 1, "border": 3.0},
                "left": {"value": 5},
                "right": {
                    "split": {"float_feature_index": 0, "border": 0.0},
                    "left": {"value": 7},
                    "right": {"value": 9},
                },
            }
        ],
    )
    del members["oblivious_trees"]

    assert [11, 15, 19, 19] == scores(read(tmp_path, members), [[0, 3], [0, 4], [1, 4], [1, np.nan]])


def test_catboost_names_that_only_count_are_none(tmp_path: Path) -> None:
    def named(*ids: str) -> tuple[str, ...] | None:
        features = [{**one, "feature_id": name} for one, name in zip(CAT_FEATURES, ids, strict=True)]
        return read(tmp_path, cat(features_info={"float_features": features})).names

    assert named("0", "1") is None
    assert named("a", "") is None
    assert ("1", "0") == named("1", "0")
    assert ("0", "b") == named("0", "b")


def test_catboost_features_are_found_by_their_index_whatever_their_order(tmp_path: Path) -> None:
    turned = [
        {"feature_index": 0, "flat_feature_index": 1, "feature_id": "second"},
        {"feature_index": 1, "flat_feature_index": 0, "feature_id": "first"},
    ]
    model = read(tmp_path, cat(features_info={"float_features": turned}))

    assert ("first", "second") == model.names
    # Index 0 is the second column here, whose border is 0.5.
    assert [1, 2, 4, 8] == scores(model, [[-1, 0], [-1, 1], [0, 0], [0, 1]])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"scale_and_bias": [1.0, [0.0, 1.0]]}, "expected a model of one score, found 2"),
        ({"features_info": {"float_features": CAT_FEATURES[1:]}}, "numbered from 0 without gaps"),
        ({"features_info": {"float_features": CAT_FEATURES, "text_features": [1]}}, "found text_features"),
        (
            {"features_info": {"float_features": CAT_FEATURES, "embedding_features": [1]}},
            "found embedding_features",
        ),
        (
            {"oblivious_trees": [{**CAT_TREE, "leaf_values": [1, 2, 3]}]},
            "expected 4 leaves of one value for 2 levels",
        ),
        (
            {"oblivious_trees": [{"splits": CAT_TREE["splits"] * 11, "leaf_values": [1]}]},
            "expected 1048576 leaves of one value for 22 levels, found 1",
        ),
        ({"trees": [{"value": [1, 2]}]}, "expected leaves of one value, found 2"),
        (
            {"trees": [{"split": {"split_type": "OnlineCtr"}, "left": {}, "right": {}}]},
            "expected splits of numbers and one-hot splits, found OnlineCtr",
        ),
    ],
)
def test_a_catboost_model_that_cannot_be_imported_is_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    assert words in refused(tmp_path, cat(**changed))


def test_a_catboost_tree_may_have_no_question(tmp_path: Path) -> None:
    model = read(tmp_path, cat(oblivious_trees=[{"splits": None, "leaf_values": [3]}, CAT_TREE]))

    assert [3 + 8] == scores(model, [[1, 0]])


# --------------------------------------------------------------------------------------------------------- RankLib


def ensemble(weight: str, threshold: str, left: str, right: str) -> str:
    return (
        f"<ensemble><tree id='1' weight='{weight}'><split><feature> 2 </feature><threshold> {threshold} </threshold>"
        f"<split pos='left'><output> {left} </output></split><split pos='right'><output> {right} </output></split>"
        "</split></tree></ensemble>"
    )


def test_ranklib_computes_with_float32_and_adds_a_forest_up_as_a_mean(tmp_path: Path) -> None:
    """0.1 as float32 is more than 0.1: a value of 0.1 in a request is not above a threshold of 0.1."""
    one = ensemble("0.1", "0.1", "0.3", "0.7")
    model = read(tmp_path, f"## MART\n## a remark\n\n{one}\n")
    left, right = f32(0.3) * f32(0.1), f32(0.7) * f32(0.1)

    assert [left, right, left] == scores(
        model, [[0, 0.1], [0, float(np.nextafter(np.float32(0.1), np.float32(1)))], [0, 0.0]]
    )
    assert ("ranklib", 2, None, "zero", 0.0) == (
        model.format,
        model.n_features,
        model.names,
        model.missing,
        model.offset,
    )
    assert 1 == len(model.notes)
    assert "-norm" in model.notes[0]
    two = ensemble("1", "5", "4", "8")
    assert [4.0, 8.0] == scores(read(tmp_path, f"## Random Forests\n{two}\n"), [[0, 5], [0, 6]])
    three = "".join(ensemble("1", "5", left, "8") for left in ("3", "6", "12"))
    assert [7.0, 8.0] == pytest.approx(
        scores(read(tmp_path, f"## Random Forests\n{three}\n"), [[0, 5], [0, 6]])
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("## MART\n", "expected <ensemble>, found 0 of them"),
        ("## Random Forests\n<other/>", "expected <ensemble>, found 0 of them"),
        ("## MART\n<ensemble/><ensemble/>", "expected <ensemble>, found 2 of them"),
        ("## LambdaMART\n<ensemble/><ensemble/>", "expected <ensemble>, found 2 of them"),
        ("## AdaRank\n", "expected feature:weight, found nothing"),
        ("## RankBoost\n", "expected feature:threshold:weight"),
        ("## RankBoost\n1:2:3 1:2", "expected feature:threshold:weight"),
        ("## RankBoost\n0:2:3", "expected a feature from 1 to 100000, found 0"),
        ("## AdaRank\n-1:2", "expected a feature from 1 to 100000, found -1"),
        ("## AdaRank\n100001:2", "expected a feature from 1 to 100000, found 100001"),
        ("## AdaRank\n1:", "this AdaRank model cannot be read"),
    ],
)
def test_a_ranklib_file_that_lacks_something_is_refused(tmp_path: Path, text: str, words: str) -> None:
    assert words in refused(tmp_path, text)


def test_a_ranklib_forest_of_one_ensemble_and_the_last_feature_are_read(tmp_path: Path) -> None:
    assert 100_000 == read(tmp_path, "## AdaRank\n100000:2").n_features


def test_ranklib_weights_of_a_feature_and_of_none_add_up(tmp_path: Path) -> None:
    model = read(tmp_path, "## Linear Regression\n0:1.5 2:1 0:0.25 1:4 2:0.5", ["a", "b", "c", "d"])

    assert 1.75 == model.offset
    assert (4, ("a", "b", "c", "d")) == (model.n_features, model.names)
    assert [4.0, 1.5, 0.0, 0.0] == scores(model, np.eye(4).tolist())
    assert 2 == read(tmp_path, "## Linear Regression\n2:1 1:4", ["a", "b"]).n_features
    assert "the model looks at feature 2, found 1 names" in refused(tmp_path, "## AdaRank\n2:1", ["a"])


def test_rankboost_adds_a_step_above_each_threshold(tmp_path: Path) -> None:
    text = "## RankBoost\n2:0.5:1.5 1:-Infinity:0.25 2:0.5:0.5 3:-2:8"
    model = read(tmp_path, text)

    assert 3 == model.n_features
    lowest = -float(np.finfo(np.float32).max)
    assert [0.25, 2.25, 0.25, 8.25] == scores(
        model, [[lowest, 0.5, -2], [0, 0.6, -2], [9, 0, -3], [9, 0, -1]]
    )
    assert 5 == read(tmp_path, text, ["a", "b", "c", "d", "e"]).n_features


# -------------------------------------------------------------------------------------------------------- LightGBM

LIGHTGBM = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=lambdarank
feature_names=a b
feature_infos=[-1.5:2.5] none
tree_sizes=300

Tree=0
num_leaves=2
num_cat=0
split_feature=0
split_gain=1
threshold=0.5
decision_type=2
left_child=-1
right_child=-2
leaf_value=1.5 -2.5
leaf_weight=1 1
leaf_count=1 1
internal_value=0
internal_weight=0
internal_count=2
is_linear=0
shrinkage=1


end of trees

pandas_categorical:null
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_lightgbm_text_is_read_with_either_line_end(tmp_path: Path, line_end: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(LIGHTGBM.replace("\n", line_end).encode())

    model = read_model(path)

    assert ("lightgbm", 2, ("a", "b"), 0.0) == (model.format, model.n_features, model.names, model.tolerance)
    assert ((-1.5, 2.5), None) == model.ranges
    assert [1.5, -2.5] == scores(model, [[0.5, 0], [0.6, 0]])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("max_feature_idx=1", "max_feature_idx=", "expected max_feature_idx to be a number, found ''"),
        ("max_feature_idx=1\n", "", "expected max_feature_idx to be a number, found None"),
        ("max_feature_idx=1", "max_feature_idx=2", "expected 3 features by max_feature_idx, found 2 names"),
        ("split_feature=0", "split_feature=2", "2 names and trees that look at 3"),
        (
            "pandas_categorical:null",
            'pandas_categorical:[["x"]]',
            "which features are the 1 categories of the pandas frame, found 0",
        ),
    ],
)
def test_a_lightgbm_text_that_contradicts_itself_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in LIGHTGBM
    assert words in refused(tmp_path, LIGHTGBM.replace(old, new))


@pytest.mark.parametrize(
    ("infos", "ranges"),
    [
        ("[0:1] [-2:inf]", ((0.0, 1.0), (-2.0, math.inf))),
        ("[0:1] 3:1:2", ((0.0, 1.0), None)),
        ("[0:1] [x:2]", ((0.0, 1.0), None)),
        ("[0:1]", None),
        ("[0:1] [0:1] [0:1]", None),
    ],
)
def test_ranges_are_read_where_lightgbm_writes_them(tmp_path: Path, infos: str, ranges: object) -> None:
    text = LIGHTGBM.replace("[-1.5:2.5] none", infos)

    assert ranges == read(tmp_path, text).ranges


def test_a_lightgbm_text_may_lack_names_and_categories(tmp_path: Path) -> None:
    text = LIGHTGBM.replace("feature_names=a b\n", "").replace("pandas_categorical:null\n", "")

    model = read(tmp_path, text)

    assert (None, 2) == (model.names, model.n_features)
    assert [1.5] == scores(model, [[0, 0]])
    broken = LIGHTGBM.replace("pandas_categorical:null", "pandas_categorical:[")
    assert ("a", "b") == read(tmp_path, broken).names


def test_a_mean_of_trees_may_round_in_another_place(tmp_path: Path) -> None:
    averaged = LIGHTGBM.replace("objective=lambdarank", "objective=lambdarank\naverage_output")

    assert 1e-12 == read(tmp_path, averaged).tolerance


# ----------------------------------------------------------------------------------------------------- recognition


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"features_info": {}},
            "expected a model of lightgbm, xgboost, ranklib, catboost-json, found something else",
        ),
        ({"oblivious_trees": []}, "found something else"),
        ({"tree_info": []}, "found its dump_model"),
        ("  \n [1]", "found its dump, which has no base score"),
        ("tree", "found something else"),
        ("#AdaRank\n1:1", "found something else"),
        ("", "found something else"),
        ("binf\0", "XGBoost's old binary form"),
    ],
)
def test_what_no_reader_knows_is_refused(tmp_path: Path, content: object, words: str) -> None:
    assert words in refused(tmp_path, content)


def test_a_format_that_is_asked_for_must_be_the_one_that_is_found(tmp_path: Path) -> None:
    contents = dict(
        zip(FORMATS, (LIGHTGBM, json.dumps(xgb()), "## AdaRank\n1:1", json.dumps(cat())), strict=True)
    )
    path = tmp_path / "model"

    for form, content in contents.items():
        path.write_text(content)
        assert form == read_model(path, form).format
        for other in set(FORMATS) - {form}:
            with pytest.raises(InvalidData, match=f"model: expected the format {other}, found {form}"):
                read_model(path, other)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="model: cannot be read: No such file or directory"):
        read_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a"], "expected 2 names of features, found 1"),
        (["a", "b", "c"], "expected 2 names of features, found 3"),
        (["a", ""], "expected every feature to have a name, found an empty one"),
        (["a", "a"], "expected names of features that differ, found 'a' twice"),
    ],
)
def test_names_are_checked_whether_given_or_in_the_file(tmp_path: Path, names: list[str], words: str) -> None:
    assert words in refused(tmp_path, xgb(), names)
    if len(names) == 2:
        assert words in refused(tmp_path, xgb(names=names))


def test_given_names_replace_those_of_the_file(tmp_path: Path) -> None:
    assert ("x", "y") == read(tmp_path, xgb(names=["a", "b"]), ["x", "y"]).names
    assert ("a", "b") == read(tmp_path, xgb(names=["a", "b"])).names


# ----------------------------------------------------------------------------------------------------------- grove


def numbered(depth: int) -> Callable[[Any], TreeSplit | float]:
    """A full tree, node ``n`` of which has the children ``2n + 1`` and ``2n + 2``; a leaf's value is its number."""
    first = (1 << depth) - 1

    def look(node: int) -> TreeSplit | float:
        return (
            float(node) if node >= first else TreeSplit(node % 2, float(node), 0, 2 * node + 1, 2 * node + 2)
        )

    return look


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_tree_has_at_most_as_many_nodes_as_allowed(depth: int) -> None:
    nodes = (1 << depth + 1) - 1
    Grove().plant(0, numbered(depth), nodes)

    with pytest.raises(ValueError, match=f"expected a tree of at most {nodes - 1} nodes, found more"):
        Grove().plant(0, numbered(depth), nodes - 1)


def test_trees_of_different_shapes_add_up() -> None:
    grove = Grove()
    depths = [2, 0, 3, 1]
    for depth in depths:
        grove.plant(0, numbered(depth), 99)
        grove.plant_constant(0.5)
    rows = np.random.default_rng(0).uniform(-1, 8, (50, 2)).astype(np.float32)

    def follow(row: Vector, look: Callable[[Any], TreeSplit | float]) -> float:
        node: Any = 0
        while isinstance(found := look(node), TreeSplit):
            node = found.left if row[found.feature] <= found.threshold else found.right
        return found

    expected = [sum(follow(row, numbered(depth)) + 0.5 for depth in depths) for row in rows]
    scorer = grove.scorer()
    assert expected == scorer.score_rows(rows).tolist()
    assert 8 == scorer.n_trees


def test_an_xgboost_tree_of_one_leaf_is_planted_between_others(tmp_path: Path) -> None:
    other = copy.deepcopy(XGB_TREE)
    other["split_conditions"] = [0.5, 1.0, -1.0, 2.0, 4.0]

    model = read(tmp_path, xgb(trees=[XGB_TREE, stump(100.0), other], base_score="1000"))

    assert [1100 + leaf * 1.1 for leaf in LEAVES] == pytest.approx(scores(model, ROWS))
