from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost

from localrank.artifact import load
from localrank.errors import InvalidData
from localrank.features.feature import Feature
from localrank.registry.versions import Registry
from localrank.scorers import LinearScorer, StumpScorer, TreesScorer
from localrank_training.origins import read_model
from localrank_training.origins.asking import scores_here
from localrank_training.origins.checking import check, made_queries
from localrank_training.origins.importing import publish

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Matrix
    from localrank_training.origins import OriginModel

pytestmark = pytest.mark.usefixtures("arithmetic")

NAMES = ["bm25", "pagerank", "clicks", "age"]
GROUPS = np.repeat(np.arange(30), 20)


@pytest.fixture(scope="module")
def documents() -> Matrix:
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((600, 4)).astype(np.float32)
    documents[:, 2] = rng.integers(0, 4, 600)  # ties at thresholds
    documents[rng.random(documents.shape) < 0.1] = np.nan
    return documents


@pytest.fixture(scope="module")
def labels(documents: Matrix) -> Any:
    noise = np.random.default_rng(1).standard_normal(600)
    return np.digitize(np.nan_to_num(documents[:, 0]) + np.nan_to_num(documents[:, 2]) + noise, [0, 1.5, 3])


def agrees(path: Path, model: OriginModel) -> float:
    """Compare with the origin on documents at, above and between the model's own thresholds."""
    rows = np.concatenate([*made_queries(model, 1), *made_queries(model, 2)])
    if model.missing == "zero":
        assert not np.isnan(rows).any()
    against, expected = scores_here(model.format, path, rows, model.rounds or 0)
    assert isinstance(model.scorer, LinearScorer | TreesScorer)
    scores = model.scorer.score_rows(rows)

    return check(model, scores, expected, against).deviation


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "lambdarank"},
        {"objective": "lambdarank", "boosting": "dart", "drop_rate": 0.5},
        {"objective": "regression", "zero_as_missing": True},
        {"objective": "regression", "use_missing": False},
        {"objective": "binary", "boost_from_average": True},
        {"objective": "regression", "categorical_feature": [2]},
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    ],
)
def test_lightgbm_scores_are_equal_to_the_bit(
    tmp_path: Path, documents: Matrix, labels: Any, settings: dict[str, Any]
) -> None:
    target = labels > 1 if settings["objective"] == "binary" else labels
    categories = settings.get("categorical_feature", [])
    settings = {name: value for name, value in settings.items() if name != "categorical_feature"}
    data = lightgbm.Dataset(
        documents,
        target,
        group=np.full(30, 20),
        feature_name=NAMES,
        categorical_feature=categories,
        params={"verbosity": -1},
    )
    path = tmp_path / "model.txt"
    lightgbm.train({**settings, "verbosity": -1, "num_threads": 1}, data, 12).save_model(path)

    model = read_model(path)

    assert ("lightgbm", tuple(NAMES), 4) == (model.format, model.names, model.n_features)
    assert agrees(path, model) <= (1e-12 if settings.get("boosting") == "rf" else 0.0)
    if not categories:
        assert model.ranges is not None
        assert (
            pytest.approx((np.nanmin(documents[:, 0]), np.nanmax(documents[:, 0])), rel=1e-6)
            == model.ranges[0]
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "rank:ndcg"},
        {"objective": "rank:pairwise", "tree_method": "exact"},
        {"objective": "reg:squarederror", "base_score": 7.5},
        {"objective": "binary:logistic"},
        {"objective": "binary:logitraw", "base_score": 0.3},
        {"objective": "count:poisson"},
        # Since version 3.4 `dart` is the usual booster with these settings, and warns.
        {"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.5, "one_drop": 1, "verbosity": 0},
        {"objective": "reg:squarederror", "num_parallel_tree": 3, "subsample": 0.5},
        {"objective": "rank:ndcg", "max_leaves": 9, "grow_policy": "lossguide", "max_depth": 0},
        {"objective": "reg:squarederror", "gamma": 1e6},  # no tree has a split
    ],
)
def test_xgboost_scores_are_equal_but_for_float32(
    tmp_path: Path, documents: Matrix, labels: Any, settings: dict[str, Any]
) -> None:
    target = labels > 1 if settings["objective"].startswith("binary") else labels
    data = xgboost.DMatrix(documents, target, qid=GROUPS, feature_names=NAMES)
    path = tmp_path / "model.json"
    xgboost.train({**settings, "nthread": 1}, data, 12).save_model(path)

    model = read_model(path)

    assert ("xgboost", tuple(NAMES)) == (model.format, model.names)
    assert agrees(path, model) < 1e-6


def test_xgboost_uses_the_rounds_that_early_stopping_chose(
    tmp_path: Path, documents: Matrix, labels: Any
) -> None:
    half = xgboost.DMatrix(documents[:300], labels[:300], qid=GROUPS[:300])
    held = xgboost.DMatrix(documents[300:], labels[300:], qid=GROUPS[300:])
    path = tmp_path / "model.json"
    booster = xgboost.train(
        {"objective": "rank:ndcg", "eta": 1.0, "nthread": 1},
        half,
        60,
        evals=[(held, "held")],
        early_stopping_rounds=5,
        verbose_eval=False,
    )
    booster.save_model(path)

    model = read_model(path)

    assert isinstance(model.scorer, TreesScorer)
    assert booster.best_iteration + 1 == model.rounds
    assert booster.best_iteration + 2 == model.scorer.n_trees  # the base score is a tree
    assert booster.num_boosted_rounds() > booster.best_iteration + 1
    assert agrees(path, model) < 1e-6
    assert "early stopping" in model.notes[0]


def test_a_linear_xgboost_becomes_weights(tmp_path: Path, documents: Matrix, labels: Any) -> None:
    data = xgboost.DMatrix(np.nan_to_num(documents), labels)
    path = tmp_path / "model.json"
    # Since version 3.4 this booster warns.
    settings = {"booster": "gblinear", "objective": "reg:squarederror", "verbosity": 0}
    xgboost.train(settings, data, 12).save_model(path)

    model = read_model(path)

    assert isinstance(model.scorer, LinearScorer)
    assert "zero" == model.missing
    assert agrees(path, model) < 1e-6


@pytest.mark.parametrize(
    "settings",
    [
        {"loss_function": "YetiRank"},
        {"loss_function": "QueryRMSE", "grow_policy": "Lossguide"},
        {"loss_function": "RMSE", "grow_policy": "Depthwise"},
        {"loss_function": "RMSE", "nan_mode": "Max"},
        {"loss_function": "Logloss"},
    ],
)
def test_catboost_scores_are_equal(
    tmp_path: Path, documents: Matrix, labels: Any, settings: dict[str, Any]
) -> None:
    target = labels > 1 if settings["loss_function"] == "Logloss" else labels
    pool = catboost.Pool(documents, target, group_id=GROUPS, feature_names=NAMES)
    path = tmp_path / "model.json"
    booster = catboost.CatBoost(
        {
            **settings,
            "iterations": 12,
            "depth": 4,
            "verbose": 0,
            "allow_writing_files": False,
            "thread_count": 1,
        }
    )
    booster.fit(pool)
    booster.save_model(str(path), format="json")

    model = read_model(path)

    assert ("catboost-json", tuple(NAMES)) == (model.format, model.names)
    assert agrees(path, model) <= 1e-12


LAMBDAMART = """## LambdaMART
## No. of trees = 2
## Learning rate = 0.1

<ensemble>
	<tree id="1" weight="0.1">
		<split>
			<feature> 3 </feature>
			<threshold> 0.5 </threshold>
			<split pos="left">
				<output> -1.25 </output>
			</split>
			<split pos="right">
				<feature> 1 </feature>
				<threshold> -2.1 </threshold>
				<split pos="left">
					<output> 0.3 </output>
				</split>
				<split pos="right">
					<output> 2.0 </output>
				</split>
			</split>
		</split>
	</tree>
	<tree id="2" weight="0.1">
		<split>
			<output> 0.7 </output>
		</split>
	</tree>
</ensemble>
"""


def ranklib(tmp_path: Path, text: str, names: list[str] | None = None) -> OriginModel:
    path = tmp_path / "model.txt"
    path.write_text(text)
    return read_model(path, names=names)


def test_a_ranklib_ensemble_is_read_as_ranklib_evaluates_it(tmp_path: Path) -> None:
    model = ranklib(tmp_path, LAMBDAMART)

    # Value not above the threshold goes left; the sum is of weight times output.
    rows = np.array(
        list(
            itertools.product([-2.1, np.nextafter(np.float32(-2.1), np.float32(0)), 1.0], [9.0], [0.5, 0.6])
        ),
        np.float32,
    )
    expected = [
        0.1 * (-1.25 if third <= np.float32(0.5) else 0.3 if first <= np.float32(-2.1) else 2.0) + 0.1 * 0.7
        for first, _, third in rows
    ]
    assert isinstance(model.scorer, TreesScorer)
    assert ("ranklib", 3, "zero") == (model.format, model.n_features, model.missing)
    np.testing.assert_allclose(model.scorer.score_rows(rows), expected, rtol=1e-7)


@pytest.mark.parametrize(
    "missing", ["<feature> 3 </feature>", "<threshold> 0.5 </threshold>", ' pos="left"', ' pos="right"']
)
def test_a_ranklib_split_that_lacks_a_part_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(InvalidData, match="expected a split to have a feature, a threshold, a left and a"):
        ranklib(tmp_path, LAMBDAMART.replace(missing, "", 1))


def test_a_ranklib_forest_is_the_mean_of_its_ensembles(tmp_path: Path) -> None:
    ensemble = LAMBDAMART.split("\n\n", 1)[1]
    other = ensemble.replace("0.7", "1.7")

    one = ranklib(tmp_path, LAMBDAMART).scorer
    forest = ranklib(tmp_path, f"## Random Forests\n## No. of bags = 2\n\n{ensemble}\n{other}").scorer

    assert isinstance(one, TreesScorer)
    assert isinstance(forest, TreesScorer)
    rows = np.zeros((1, 3), np.float32)
    np.testing.assert_allclose(forest.score_rows(rows), one.score_rows(rows) + 0.1 / 2, atol=1e-8)


def test_ranklib_weights_and_steps_are_read(tmp_path: Path) -> None:
    weights = ranklib(tmp_path, "## Coordinate Ascent\n## Restart = 5\n1:0.5 3:-0.25", ["a", "b", "c", "d"])
    ada = ranklib(tmp_path, "## AdaRank\n## Iteration = 3\n2:0.5 1:1.0 2:0.25")
    linear = ranklib(tmp_path, "## Linear Regression\n## Lambda = 1.0E-10\n0:4.5 1:0.5 2:0.125")
    steps = ranklib(tmp_path, "## RankBoost\n## Iteration = 3\n2:0.5:1.5 1:-Infinity:0.25 2:0.5:0.5")

    rows = np.array([[1.0, 2.0, 4.0, 8.0], [0.0, 0.5, 0.0, 0.0]], np.float32)
    for model, expected in (
        (weights, [0.5 - 1.0, 0.0]),
        (ada, [1.0 + 0.75 * 2, 0.75 / 2]),
        (linear, [0.75, 0.0625]),
        (steps, [2.25, 0.25]),
    ):
        assert isinstance(model.scorer, LinearScorer | StumpScorer)
        np.testing.assert_allclose(model.scorer.score_rows(rows[:, : model.n_features]), expected)
    assert [4, 2, 2, 2] == [model.n_features for model in (weights, ada, linear, steps)]
    assert ("a", "b", "c", "d") == weights.names
    assert 4.5 == linear.offset


def trained(tmp_path: Path, documents: Matrix, labels: Any, **settings: Any) -> Path:
    path = tmp_path / "model.json"
    xgboost.train({"nthread": 1, **settings}, xgboost.DMatrix(documents, labels), 2).save_model(path)
    return path


def test_models_of_several_scores_are_refused(tmp_path: Path, documents: Matrix, labels: Any) -> None:
    several = trained(tmp_path, documents, labels, objective="multi:softprob", num_class=4)
    with pytest.raises(
        InvalidData, match=r"model.json: XGBoost: expected a model of one score, found num_class=4"
    ):
        read_model(several)

    pool = catboost.Pool(documents, labels)
    booster = catboost.CatBoost(
        {"loss_function": "MultiClass", "iterations": 2, "verbose": 0, "allow_writing_files": False}
    )
    booster.fit(pool)
    booster.save_model(str(several), format="json")
    with pytest.raises(InvalidData, match="CatBoost: expected a model of one score, found 4"):
        read_model(several)

    path = tmp_path / "model.txt"
    data = lightgbm.Dataset(documents, labels, params={"verbosity": -1})
    lightgbm.train({"objective": "multiclass", "num_class": 4, "verbosity": -1}, data, 2).save_model(path)
    with pytest.raises(
        InvalidData, match=r"expected a LightGBM model of one score, found num_tree_per_iteration=4"
    ):
        read_model(path)


def with_categories(documents: Matrix, labels: Any, *, gaps: bool) -> Any:
    """Return a frame of two categories and a number, which all matter."""
    import pandas as pd

    kinds = np.array(["b", "a", "d", "c", "e"])[(labels + np.arange(len(labels)) % 2) % 5]
    sizes = 40 + (np.arange(len(labels)) * 7 + labels) % 37
    frame = pd.DataFrame({"bm25": documents[:, 0], "kind": kinds, "size": sizes})
    if gaps:
        frame = frame.astype({"kind": object, "size": object})
        frame.loc[::7, "kind"] = frame.loc[::5, "size"] = None
    return frame


@pytest.mark.parametrize("one_hot", [1, 100], ids=["partitions", "one-hot"])
@pytest.mark.parametrize("frame_of_codes", [False, True])
def test_categories_rank_by_their_values_as_xgboost_does(
    tmp_path: Path, documents: Matrix, labels: Any, one_hot: int, *, frame_of_codes: bool
) -> None:
    frame = with_categories(documents, labels, gaps=True)
    table = frame.astype({"kind": "category", "size": "category"})
    asked = frame
    if frame_of_codes:
        table = np.stack([frame["bm25"], table["kind"].cat.codes, table["size"].cat.codes], axis=1).astype(
            float
        )
        table[:, 1:][table[:, 1:] < 0] = np.nan
        asked = table.astype(np.float32)
    kinds = {"feature_types": ["q", "c", "c"], "feature_names": list(frame)} if frame_of_codes else {}
    data = xgboost.DMatrix(table, labels, enable_categorical=True, **kinds)
    path = tmp_path / "model.json"
    settings = {"tree_method": "hist", "max_cat_to_onehot": one_hot, "nthread": 1}
    booster = xgboost.train(settings, data, 10)
    booster.save_model(path)

    imported = publish(Registry(tmp_path / "models"), "web", read_model(path), path)

    assert imported.check is not None
    ranker = load(imported.reference.path).ranker
    kind, _ = ranker.contract.special.values()
    if frame_of_codes:
        assert {"0", "1", "2", "3", "4"} == set(kind.values)
        asked = [[bm25, *[None if np.isnan(one) else int(one) for one in codes]] for bm25, *codes in asked]
    else:
        assert ("a", "b", "c", "d", "e") == kind.values  # noqa: PD011
    np.testing.assert_allclose(ranker.rank(asked).scores, booster.predict(data), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("grow", ["SymmetricTree", "Depthwise"])
def test_one_hot_categories_rank_by_their_values_as_catboost_does(
    tmp_path: Path, documents: Matrix, labels: Any, grow: str
) -> None:
    frame = with_categories(documents, labels, gaps=False)
    frame["sale"] = labels % 2 == 0
    pool = catboost.Pool(frame, labels, cat_features=["kind", "size", "sale"])
    path = tmp_path / "model.json"

    def trained(largest: int) -> Any:
        settings = {
            "iterations": 20,
            "depth": 4,
            "verbose": 0,
            "allow_writing_files": False,
            "thread_count": 1,
        }
        booster = catboost.CatBoost({**settings, "one_hot_max_size": largest, "grow_policy": grow})
        booster.fit(pool)
        booster.save_model(str(path), format="json", pool=pool)
        return booster

    booster = trained(100)

    imported = publish(Registry(tmp_path / "models"), "web", read_model(path), path)

    assert imported.check is not None
    assert imported.check.deviation < 1e-12
    ranker = load(imported.reference.path).ranker
    assert ("kind", "size", "sale") == tuple(ranker.contract.special)
    assert any("send these for a category of truth values" in note for note in imported.notes)
    frame = frame.astype({"sale": int})
    np.testing.assert_allclose(ranker.rank(frame).scores, booster.predict(pool), rtol=1e-12, atol=1e-12)
    new = frame.assign(kind="new", size=1)
    np.testing.assert_allclose(ranker.rank(new).scores, booster.predict(new), rtol=1e-12, atol=1e-12)
    trained(2)
    with pytest.raises(InvalidData, match="found statistics of them"):
        read_model(path)


def test_categories_of_a_pandas_frame_rank_by_their_values_as_lightgbm_does(
    tmp_path: Path, documents: Matrix, labels: Any
) -> None:
    import pandas as pd

    kinds = np.array(["b", "a", "d", "c"])[labels]
    frame = pd.DataFrame(
        {"bm25": documents[:, 0], "kind": kinds, "sale": labels % 2 == 0, "size": labels + 40}
    )
    frame.loc[::7, "kind"] = None
    frame = frame.astype({"kind": "category", "size": "category"})
    settings = {"verbosity": -1, "num_threads": 1, "min_data_per_group": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(frame, labels, params=settings), 20)
    text = tmp_path / "model.txt"
    booster.save_model(text)

    imported = publish(Registry(tmp_path / "models"), "web", read_model(text), text)

    assert imported.check is not None
    assert not imported.check.deviation
    ranker = load(imported.reference.path).ranker
    kind, size = (ranker.contract.special[name] for name in ("kind", "size"))
    assert Feature("kind", "category", ("a", "b", "c", "d"), missing="constant") == kind
    assert Feature("size", "category", ("40", "41", "42", "43"), missing="constant") == size
    asked = frame.astype({"kind": object, "sale": float, "size": int})
    np.testing.assert_array_equal(booster.predict(frame), ranker.rank(asked).scores)
    # A value that it did not know goes where none goes.
    new, none = asked.assign(kind="new"), asked.assign(kind=None)
    np.testing.assert_array_equal(ranker.rank(new).scores, ranker.rank(none).scores)
    # A column that no tree uses may be of either kind.
    content = text.read_text()
    infos = next(line for line in content.splitlines() if line.startswith("feature_infos="))
    text.write_text(content.replace(infos, infos.rsplit(" ", 1)[0] + " none"))
    with pytest.raises(InvalidData, match="which features are the 2 categories of the pandas frame, found 1"):
        read_model(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x04\x95", "found a Python pickle, which would run code"),
        (b"{L\x00", "XGBoost's binary JSON; save it as text"),
        (b"CBM1\x00", "CatBoost's binary form; save it as JSON"),
        (b'[{"nodeid": 0, "leaf": 1}]', "found its dump, which has no base score"),
        (b'{"tree_info": []}', "found its dump_model"),
        (b"{", "expected JSON, found"),
        (b"[" * 100_000, "expected JSON, found"),
        (b"hello", "expected a model of lightgbm, xgboost, ranklib, catboost-json, found something else"),
        (b"\xff\xfe", "found bytes that are not text"),
        (b"## ListNet\n", "RankLib: expected one of LambdaMART, .*, found 'ListNet'"),
        (
            b"## MART\n<ensemble><tree weight='1'><split/></tree></ensemble>",
            "expected a split to have a feature",
        ),
        (b'## MART\n<!DOCTYPE x [<!ENTITY a "b">]><ensemble/>', "found a declaration"),
        (b"## MART\n<ensemble>", "RankLib: this MART model cannot be read"),
        (b"## AdaRank\n0:1", "expected feature:weight, found nothing"),
        (b"## AdaRank\n99999999:1", "expected a feature from 1 to 100000, found 99999999"),
        (b'{"learner": {}}', "XGBoost: this model cannot be read: 'learner_model_param' is missing"),
        (
            b'{"features_info": {}, "trees": []}',
            "CatBoost: this model cannot be read: 'float_features' is missing",
        ),
    ],
)
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)

    with pytest.raises(InvalidData, match=message):
        read_model(path)


def test_a_tree_with_a_cycle_is_refused(tmp_path: Path, documents: Matrix, labels: Any) -> None:
    path = trained(tmp_path, documents, labels)
    members = json.loads(path.read_text())
    tree = members["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["left_children"][1] = 0
    path.write_text(json.dumps(members))

    with pytest.raises(InvalidData, match="a node has two parents"):
        read_model(path)


def test_names_of_features_must_be_as_many_and_differ(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="the model looks at feature 3, found 2 names"):
        ranklib(tmp_path, LAMBDAMART, ["a", "b"])
    with pytest.raises(InvalidData, match="expected names of features that differ, found 'a' twice"):
        ranklib(tmp_path, LAMBDAMART, ["a", "b", "a"])
    path = tmp_path / "model.txt"
    with pytest.raises(InvalidData, match="expected the format xgboost, found ranklib"):
        read_model(path, "xgboost")


def test_a_check_notices_one_wrong_score(tmp_path: Path, documents: Matrix, labels: Any) -> None:
    path = trained(tmp_path, documents, labels)
    model = read_model(path)
    _, expected = scores_here(model.format, path, documents)
    wrong = expected.copy()
    wrong[17] += 0.01

    with pytest.raises(InvalidData, match=r"expected the score .* for document 18, found"):
        check(model, model.scorer.score_rows(documents), wrong, "XGBoost")  # type: ignore[attr-defined]


@pytest.mark.parametrize("kept", ["\nparameters:\n", "\n[num_leaves: "])
def test_a_lightgbm_file_that_ends_in_its_parameters_is_refused(
    tmp_path: Path, documents: Matrix, labels: Any, kept: str
) -> None:
    """LightGBM itself crashes on such a file, so it may not be asked."""
    path = tmp_path / "model.txt"
    quick = {"verbose": -1, "num_leaves": 2, "num_threads": 1}
    text = lightgbm.train(quick, lightgbm.Dataset(documents, labels), 1).model_to_string()
    path.write_text(text[: text.index(kept) + len(kept)])

    with pytest.raises(
        InvalidData, match=r"expected 'end of parameters', found the end of the file: it is cut off$"
    ):
        read_model(path)
