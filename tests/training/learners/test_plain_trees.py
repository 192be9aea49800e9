"""Forests of LightGBM and scikit-learn as plain arrays: their own predictions are the expectation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from localrank.errors import InvalidData
from localrank.scorers.walk import ForestLayout, NumpyWalk
from localrank_training.learners.forests import from_lightgbm, from_sklearn, mean, prefix_mean

if TYPE_CHECKING:
    from localrank.scorers import TreesScorer

N_FEATURES = 4


def documents(random: np.random.Generator, rows: int, kind: str) -> np.ndarray:
    """Values as they come: smooth, in few steps, huge and tiny, with holes, with zeros; the last column categories."""
    values = random.standard_normal((rows, N_FEATURES))
    if kind == "steps":
        values = np.round(values)
    if kind == "huge":
        values = np.sign(values) * 10.0 ** random.uniform(-37, 37, values.shape)
    if kind in {"holes", "zeros"}:
        values[random.random(values.shape) < 0.3] = np.nan if kind == "holes" else 0.0
    if kind == "tiny":
        values *= 1e-35
    values[:, -1] = random.integers(0, 50, rows)
    if kind == "holes":
        values[random.random(rows) < 0.2, -1] = np.nan
    return values.astype(np.float32)


KINDS = ["smooth", "steps", "huge", "holes", "zeros", "tiny"]


def assert_same_scores(
    expected: np.ndarray, scorer: TreesScorer, values: np.ndarray, rtol: float = 1e-12
) -> None:
    size = np.abs(scorer.values).max()
    for actual in (scorer.score_rows(values), NumpyWalk(ForestLayout.of(scorer)).score(values)):
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * size)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    seen=st.sampled_from(KINDS),
    asked=st.sampled_from(KINDS),
    missing=st.sampled_from([{}, {"use_missing": False}, {"zero_as_missing": True}]),
    categorical=st.sampled_from([[], [N_FEATURES - 1]]),
)
def test_scores_are_lightgbms(
    seed: int, seen: str, asked: str, missing: dict[str, Any], categorical: list[int]
) -> None:
    random = np.random.default_rng(seed)
    values = documents(random, 200, seen)
    labels = (
        np.nan_to_num(np.sign(values[:, 0])) + (np.nan_to_num(values[:, -1]) % 3 == 1) + random.random(200)
    )
    booster = lightgbm.train(
        {
            "objective": "regression", "num_leaves": 2 + seed % 40, "min_data_in_leaf": 2, "min_data_per_group": 2,
            "cat_smooth": 0.1, "max_cat_to_onehot": 2, "verbosity": -1, "num_threads": 1, "seed": 0, **missing,
        },
        lightgbm.Dataset(values, labels, categorical_feature=categorical),
        6,
    )  # fmt: skip
    questions = documents(random, 100, asked)
    questions[:7, -1] = [-1, -0.5, 49.9, 51, 1e9, 3e38, np.nan]

    scorer = from_lightgbm(booster.model_to_string())

    # The same numbers in double precision, as LightGBM compares them.
    assert_same_scores(booster.predict(questions.astype(np.float64), num_threads=1), scorer, questions)


def test_categorical_splits_were_met() -> None:
    """The property above would hold as well if LightGBM had found none."""
    random = np.random.default_rng(0)
    values = documents(random, 500, "smooth")
    booster = lightgbm.train(
        {
            "objective": "regression",
            "min_data_per_group": 2,
            "cat_smooth": 0.1,
            "verbosity": -1,
            "num_threads": 1,
        },
        lightgbm.Dataset(values, values[:, -1] % 3 == 1, categorical_feature=[N_FEATURES - 1]),
        5,
    )

    scorer = from_lightgbm(booster.model_to_string())

    assert (scorer.decisions & 1).sum() >= 5
    assert (scorer.category_words == 2).any()  # categories beyond 31


def test_scores_are_equal_to_the_bit_where_sums_are_in_one_order() -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal((2000, 10)).astype(np.float32)
    booster = lightgbm.train(
        {"objective": "regression", "num_leaves": 63, "verbosity": -1, "num_threads": 1},
        lightgbm.Dataset(values, values @ random.standard_normal(10)),
        100,
    )

    scores = from_lightgbm(booster.model_to_string()).score_rows(values)

    np.testing.assert_array_equal(booster.predict(values, num_threads=1), scores)


def test_a_random_forest_of_lightgbm_is_averaged() -> None:
    random = np.random.default_rng(0)
    values = documents(random, 300, "smooth")
    booster = lightgbm.train(
        {
            "objective": "regression",
            "boosting": "rf",
            "bagging_freq": 1,
            "bagging_fraction": 0.5,
            "verbosity": -1,
        },
        lightgbm.Dataset(values, values[:, 0].copy()),
        7,
    )

    assert_same_scores(booster.predict(values), from_lightgbm(booster.model_to_string()), values)


def test_transformed_objectives_give_their_raw_scores() -> None:
    random = np.random.default_rng(0)
    values = documents(random, 300, "smooth")
    booster = lightgbm.train(
        {"objective": "binary", "verbosity": -1}, lightgbm.Dataset(values, values[:, 0] > 0), 5
    )

    assert_same_scores(
        booster.predict(values, raw_score=True), from_lightgbm(booster.model_to_string()), values
    )


def test_a_booster_without_splits_is_a_constant() -> None:
    values = np.ones((30, 2), np.float32)
    booster = lightgbm.train(
        {"objective": "regression", "verbosity": -1}, lightgbm.Dataset(values, np.arange(30.0)), 3
    )

    scorer = from_lightgbm(booster.model_to_string())

    np.testing.assert_allclose(scorer.score_rows(values), np.arange(30.0).mean())


def _trained(**changes: Any) -> str:
    random = np.random.default_rng(0)
    values = documents(random, 300, "smooth")
    labels = np.arange(300) % 3 if "num_class" in changes else values[:, 0].copy()
    booster = lightgbm.train(
        {"objective": "regression", "verbosity": -1, "num_threads": 1, **changes},
        lightgbm.Dataset(values, labels),
        3,
    )
    return str(booster.model_to_string())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the text of a LightGBM model"),
        ("<xml/>", "expected the text of a LightGBM model"),
        (_trained(objective="multiclass", num_class=3), "num_tree_per_iteration=3"),
        (_trained(linear_tree=True), "linear_tree"),
        (_trained().replace("\nleaf_value=", "\nleaf_valve="), "cannot be read: 'leaf_value' is missing"),
        (
            _trained().replace("\nthreshold=", "\nthreshold=x "),
            "cannot be read: could not convert string to float: 'x'",
        ),
        (_trained().replace("\nleft_child=", "\nleft_child=7 "), "cannot be read: "),
        (
            _trained()[:2000],
            "expected 3 trees and 'end of trees', found 2 trees without 'end of trees': the file is cut",
        ),
        (
            _trained().split("end of trees", maxsplit=1)[0],
            "found 3 trees without 'end of trees': the file is cut off",
        ),
        (
            _trained().replace("\nTree=1\n", "\nTrunk=1\n"),
            "expected 3 trees .* found 2 trees: the file is cut off",
        ),
        (_trained().replace("\nTree=1\n", "\nTree=0\n\nTree=1\n"), "expected 3 trees .* found 4 trees$"),
    ],
)
def test_text_that_is_no_sum_of_trees_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        from_lightgbm(text)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**31),
    seen=st.sampled_from(KINDS),
    asked=st.sampled_from(KINDS),
    kind=st.sampled_from([ExtraTreesRegressor, RandomForestRegressor]),
    depth=st.sampled_from([None, 1, 4]),
)
def test_scores_are_scikit_learns(
    seed: int, seen: str, asked: str, kind: type[ExtraTreesRegressor], depth: int | None
) -> None:
    random = np.random.default_rng(seed)
    values = documents(random, 100, seen)
    labels = np.nan_to_num(np.sign(values[:, 0])) + random.random(100)
    forest = kind(n_estimators=5, max_depth=depth, random_state=0).fit(values, labels)
    questions = documents(random, 60, asked)
    # scikit-learn refuses NaN where it saw none; the trees have a direction for it all the same.
    asked_of = questions if np.isnan(values).any() else np.nan_to_num(questions)

    scorer = from_sklearn(forest.estimators_)

    assert_same_scores(forest.predict(asked_of), scorer, asked_of)
    assert np.isfinite(scorer.score_rows(questions)).all()


def test_the_mean_of_scorers_has_the_mean_of_their_scores() -> None:
    values = documents(np.random.default_rng(0), 300, "smooth")
    scorers = [from_lightgbm(_trained(seed=seed, feature_fraction=0.5)) for seed in range(3)]

    mixed = mean(scorers)

    np.testing.assert_allclose(
        mixed.score_rows(values), np.mean([scorer.score_rows(values) for scorer in scorers], axis=0)
    )
    np.testing.assert_allclose(mean([*scorers, None]).score_rows(values), 0.75 * mixed.score_rows(values))


def test_the_mean_over_numbers_of_trees_is_that_of_lightgbms_own_predictions() -> None:
    """A number beyond the last tree means all three."""
    values = documents(np.random.default_rng(0), 300, "smooth")
    text = _trained()
    booster = lightgbm.Booster(model_str=text)
    scorer = from_lightgbm(text)

    mixed = prefix_mean(scorer, (1, 2, 50))

    expected = np.mean([booster.predict(values, num_iteration=rounds) for rounds in (1, 2, 3)], axis=0)
    assert_same_scores(expected, mixed, values)
    assert prefix_mean(scorer, ()) is scorer


def test_a_text_without_the_sizes_of_its_trees_is_read() -> None:
    """LightGBM 2 wrote none."""
    text = _trained()
    (line,) = [one for one in text.split("\n") if one.startswith("tree_sizes=")]
    values = documents(np.random.default_rng(0), 50, "smooth")

    scorer = from_lightgbm(text.replace(f"{line}\n", ""))

    np.testing.assert_array_equal(from_lightgbm(text).score_rows(values), scorer.score_rows(values))


def test_trees_split_the_blocks_that_are_told() -> None:
    forest = ExtraTreesRegressor(n_estimators=2, random_state=0).fit([[0.0], [1.0]], [0.0, 1.0])

    assert ["raw", "zscore"] == [
        from_lightgbm(_trained()).blocks,
        from_lightgbm(_trained(), blocks="zscore").blocks,
    ]
    assert ["raw", "rank"] == [
        from_sklearn(forest.estimators_).blocks,
        from_sklearn(forest.estimators_, blocks="rank").blocks,
    ]
