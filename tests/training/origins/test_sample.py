"""Documents made of a model's splits: each side of each split, and no value that a request could not hold."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.scorers import LinearScorer, StumpScorer, TreesScorer
from localrank.scorers.trees import CATEGORICAL, MISSING_NAN
from localrank_training.origins.checking import made_queries
from localrank_training.origins.model import Grove, OriginModel, TreeSplit

THRESHOLDS = {0: [-2.0, 0.3, 4.0], 2: [1e30]}


def forest(thresholds: dict[int, list[float]] = THRESHOLDS) -> TreesScorer:
    grove = Grove()
    for feature, values in thresholds.items():
        for value in values:
            split = TreeSplit(feature, value, MISSING_NAN, -1.0, 1.0)
            grove.plant(split, lambda node: node, 3)
    return grove.scorer()


def of(scorer: object, missing: str = "nan", n_features: int = 4) -> OriginModel:
    return OriginModel("it", scorer, n_features, None, missing)  # type: ignore[arg-type]


def all_of(model: OriginModel, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.concatenate(made_queries(model, seed))


def test_there_are_sixteen_queries_of_one_document_and_up_to_a_hundred() -> None:
    lengths = np.concatenate([[len(q) for q in made_queries(of(forest()), seed)] for seed in range(20)])

    assert 16 * 20 == len(lengths)
    assert (lengths.reshape(20, 16)[:, 0] == 1).all()
    assert (2, 100) == (lengths.reshape(20, 16)[:, 1:].min(), lengths.max())
    for query in made_queries(of(forest())):
        assert np.float32 == query.dtype
        assert query.flags.c_contiguous
        assert 4 == query.shape[1]


def test_each_threshold_is_met_passed_by_one_float32_and_by_more() -> None:
    documents = all_of(of(forest()))

    for feature, values in THRESHOLDS.items():
        found = set(documents[:, feature].tolist())
        for value in np.array(values, np.float32):
            for near in (
                value,
                np.nextafter(value, np.float32(np.inf)),
                np.nextafter(value, -np.float32(np.inf)),
            ):
                assert float(near) in found
        present = [value for value in found if not np.isnan(value)]
        assert 0.0 in found
        # Outside of all thresholds, by an eighth and one at least.
        first, last = np.float32(min(values)), np.float32(max(values))
        assert min(present) in {float(first - abs(first) / 8 - 1), 0.0}
        assert max(present) == float(last + abs(last) / 8 + 1)
    # Halfway between neighbours, and whole numbers.
    between = np.float32(-2.0) / 2 + np.float32(0.3) / 2
    assert float(between) in set(documents[:, 0].tolist())
    assert min(documents[:, 0][~np.isnan(documents[:, 0])]) == np.float32(-3.25)


def test_a_feature_that_nothing_splits_takes_whole_numbers_and_others() -> None:
    for scorer in (forest(), LinearScorer(np.ones(4), "raw")):
        documents = all_of(of(scorer))
        found = set(documents[~np.isnan(documents[:, 1]), 1].tolist())

        assert {-1.0, 0.0, 1.0, 2.5} < found
        assert 4 + 8 == len(found)


def test_a_tenth_of_the_values_is_missing_if_the_model_takes_missing_values() -> None:
    share = np.mean([np.isnan(all_of(of(forest()), seed)).mean() for seed in range(10)])

    assert share == pytest.approx(0.1, abs=0.01)
    assert not np.isnan(all_of(of(forest(), "zero"))).any()


def test_values_are_finite_and_zero_if_lightgbm_takes_them_for_zero() -> None:
    largest = float(np.finfo(np.float32).max)
    documents = all_of(of(forest({0: [largest, -largest], 1: [1e-36, -1e-36], 2: [1e300]})))

    present = documents[~np.isnan(documents)]
    assert np.isfinite(present).all()
    assert largest in present
    assert -largest in present
    near = documents[:, 1][~np.isnan(documents[:, 1])]
    assert not ((near != 0) & (np.abs(near) <= np.float32(1e-35))).any()


def test_steps_have_thresholds_as_trees_have() -> None:
    steps = StumpScorer.of(np.array([1, 0, 1]), np.array([5.0, 0.25, 3.0]), np.array([1.0, 2.0, 4.0]), "raw")

    documents = all_of(of(steps, "zero", 2))

    assert {3.0, 4.0, 5.0} < set(documents[:, 1].tolist())
    assert {0.25} < set(documents[:, 0].tolist())
    assert not {3.0, 5.0} & set(documents[:, 0].tolist())


@pytest.mark.parametrize(("words", "most"), [(1, 31.0), (2, 63.0), (9, 255.0)])
def test_a_feature_of_categories_takes_those_of_its_sets(words: int, most: float) -> None:
    """A set has a bit for each category, 32 in a word; of very many only the first are made."""
    plain = forest({0: [0.5], 1: [0.5]})
    scorer = TreesScorer(
        splits=plain.splits,
        features=plain.features,
        thresholds=np.array([0.0, 0.5]),
        decisions=np.array([CATEGORICAL, MISSING_NAN], np.uint8),
        left=plain.left,
        right=plain.right,
        values=plain.values,
        category_words=np.array([words], np.int32),
        category_bits=np.full(words, 5, np.uint32),
    )

    documents = np.concatenate([all_of(of(scorer, n_features=2), seed) for seed in range(8)])

    found = documents[:, 0][~np.isnan(documents[:, 0])]
    outside = most + abs(most) / 8 + 1
    assert {0.0, 1.0, most} <= set(found.tolist())
    assert found.max() == outside
    assert 0.5 in documents[:, 1]
