from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.metrics import measure
from localrank_training.data import synthetic
from localrank_training.data.synthetic import (
    DEMO_FEATURES,
    DEMO_KINDS,
    DEMO_RECIPE,
    STRENGTHS,
    Drawn,
    Kinds,
    Recipe,
    demo_queries,
    synthesize,
)
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.run.pipeline import build
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank.ranker import Ranker
    from localrank_training.data.queries import QuerySet


def ndcg_at_10(queries: QuerySet, scores: list[Vector]) -> float:
    (ndcg,) = measure(queries.labels, np.concatenate(scores), queries.offsets, ["ndcg@10"], "standard-skip")
    return float(ndcg.mean)


def ndcg_of(ranker: Ranker, queries: QuerySet) -> tuple[float, float]:
    """NDCG@10 of the routed model, and of its global scorer alone."""
    clouds = list(queries.clouds())
    local = [ranker.rank(cloud).scores for cloud in clouds]
    global_ = [ranker.global_scorer.score(ranker.contract.cloud(cloud)) for cloud in clouds]
    return ndcg_at_10(queries, local), ndcg_at_10(queries, global_)


def gain(recipe: Recipe, *, clusters: int = 4, seed: int = 0) -> float:
    """By how much LocalRank beats its own global model on held-out queries of the same kinds."""
    lesson, _ = synthesize(200, recipe, seed=seed)
    exam, _ = synthesize(200, recipe, seed=seed, sample=1)
    config = TrainingConfig.from_tables({"clustering": {"clusters": clusters}})
    local, global_ = ndcg_of(build(lesson, config, RankSvm()).ranker, exam)
    return local - global_


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "recipe", [Recipe(), Recipe(noise=1.0), Recipe(separation=0.7, features=18, noise_features=6)]
)
def test_routed_models_win_where_kinds_are_far_apart(recipe: Recipe, seed: int) -> None:
    assert gain(recipe, seed=seed) > 0.10


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(Recipe(kinds=1), id="one kind"),
        pytest.param(Recipe(separation=0.0), id="the same is relevant for all kinds"),
        pytest.param(Recipe(shapes=0.0), id="clouds of all kinds look alike"),
    ],
)
def test_routed_models_do_not_win_where_there_is_nothing_to_route(recipe: Recipe, seed: int) -> None:
    assert gain(recipe, seed=seed) < 0.01


def test_one_scorer_per_kind_wins_though_clouds_look_alike() -> None:
    """There is something to win with clouds alike; only no router by shape can."""
    recipe = Recipe(shapes=0.0)
    lesson, kinds = synthesize(200, recipe)
    exam, exam_kinds = synthesize(200, recipe, sample=1)
    scorers = [RankSvm().fit(Lesson(lesson.select(np.flatnonzero(kinds == kind)))) for kind in range(4)]
    everyone = RankSvm().fit(Lesson(lesson))

    by_kind = [scorers[k].score_rows(cloud) for k, cloud in zip(exam_kinds, exam.clouds(), strict=True)]
    by_all = [everyone.score_rows(cloud) for cloud in exam.clouds()]

    assert ndcg_at_10(exam, by_kind) - ndcg_at_10(exam, by_all) > 0.10


def test_clusters_find_the_kinds_where_their_clouds_are_far_apart() -> None:
    lesson, kinds = synthesize(200)

    clusters = build(lesson, TrainingConfig.from_tables({"clustering": {"clusters": 4}}), RankSvm()).clusters

    pairs = {(int(kind), int(cluster)) for kind, cluster in zip(kinds, clusters, strict=True)}
    assert 4 == len(pairs)


def test_labels_follow_the_relevance_of_the_kind() -> None:
    """Without noise, no document lies above one that its kind's weights place higher."""
    recipe = Recipe(noise=0.0)
    queries, kinds = synthesize(20, recipe)
    relevance = Kinds.draw(recipe, 0).relevance

    for query, kind in enumerate(kinds):
        order = np.argsort(queries.documents_of(query) @ relevance[kind])
        assert (np.diff(queries.labels_of(query)[order]) >= 0).all()


def test_clouds_have_the_covariance_of_their_kind() -> None:
    recipe = Recipe(documents=(20_000, 20_000), kinds=2)
    queries, kinds = synthesize(2, recipe, seed=3)
    drawn = Kinds.draw(recipe, 3)

    for query, kind in enumerate(kinds):
        spread = drawn.directions[kind]
        expected = np.eye(10) + np.outer(spread[0], spread[0]) + np.outer(spread[1], spread[1])
        found = np.cov(queries.documents_of(query), rowvar=False)
        np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


def test_directions_are_as_strong_as_they_say() -> None:
    lengths = np.linalg.norm(Kinds.draw(Recipe(features=16), 0).directions, axis=2)

    np.testing.assert_allclose(lengths, np.tile(np.sqrt(16) * np.array(STRENGTHS), (4, 1)))


@pytest.mark.parametrize("separation", [0.0, 0.3, 1.0])
def test_usefulness_has_variance_one(separation: float) -> None:
    recipe = Recipe(separation=separation)
    kinds = Kinds.draw(recipe, 1)

    for relevance, spread in zip(kinds.relevance, kinds.directions, strict=True):
        covariance = np.eye(10) + spread.T @ spread
        np.testing.assert_allclose(relevance @ covariance @ relevance, 1.0)


def test_separation_is_how_much_of_what_is_relevant_differs() -> None:
    def cosines(separation: float) -> Vector:
        rows = Kinds.draw(Recipe(separation=separation, shapes=0.0), 0).relevance
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray((rows @ rows.T)[np.triu_indices(4, 1)])

    np.testing.assert_allclose(cosines(0.0), 1.0)
    assert cosines(0.3).mean() > cosines(0.6).mean() > cosines(1.0).mean()
    assert cosines(1.0).max() < 0.5


def test_shapes_are_how_much_the_directions_of_kinds_differ() -> None:
    def likeness(shapes: float) -> float:
        first = Kinds.draw(Recipe(shapes=shapes), 0).directions[:, 0]
        first = first / np.linalg.norm(first, axis=1, keepdims=True)
        return float(np.abs(first @ first.T)[np.triu_indices(4, 1)].mean())

    np.testing.assert_allclose(likeness(0.0), 1.0)
    assert likeness(0.0) > likeness(0.5) > likeness(1.0)
    assert likeness(1.0) < 0.3


def test_what_is_a_kinds_own_lies_across_its_cloud() -> None:
    kinds = Kinds.draw(Recipe(separation=1.0), 5)

    np.testing.assert_allclose(np.einsum("kjf,kf->kj", kinds.directions, kinds.relevance), 0.0, atol=1e-12)


def test_noise_features_carry_neither_relevance_nor_shape() -> None:
    kinds = Kinds.draw(Recipe(features=12, noise_features=5), 0)

    assert not kinds.relevance[:, 7:].any()
    assert not kinds.directions[..., 7:].any()
    assert kinds.relevance[:, :7].any(axis=0).all()


@pytest.mark.parametrize(
    ("shares", "noise"), [(None, 0.3), ((6.0, 3.0, 1.0), 0.0), ((1.0, 1.0, 1.0, 1.0), 2.0)]
)
def test_labels_are_as_frequent_as_asked_for(shares: tuple[float, ...] | None, noise: float) -> None:
    levels = 5 if shares is None else len(shares)
    recipe = Recipe(levels=levels, label_shares=shares, noise=noise)
    queries, _ = synthesize(1000, recipe)

    found = np.bincount(queries.labels.astype(int), minlength=levels) / queries.n_docs

    wanted = np.array(shares or [16 / 31, 8 / 31, 4 / 31, 2 / 31, 1 / 31])
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=0.01)


def test_there_may_be_more_levels_than_a_double_tells_apart() -> None:
    queries, _ = synthesize(3, Recipe(levels=200), seed=1)

    assert 0 <= queries.labels.min() < queries.labels.max() < 200


def test_missing_values_are_as_frequent_as_asked_for() -> None:
    queries, _ = synthesize(100, Recipe(missing=0.2))
    whole, _ = synthesize(100, Recipe())

    np.testing.assert_allclose(np.isnan(queries.documents).mean(), 0.2, atol=0.01)
    assert not np.isnan(whole.documents).any()


def test_lists_are_as_long_as_asked_for_and_kinds_even() -> None:
    queries, kinds = synthesize(102, Recipe(documents=(3, 7)))

    assert {3, 4, 5, 6, 7} == set(queries.lengths.tolist())
    assert [26, 26, 25, 25] == np.bincount(kinds).tolist()


def test_a_seed_gives_the_same_queries_again() -> None:
    first, first_kinds = synthesize(20, seed=7)
    second, second_kinds = synthesize(20, seed=7)

    np.testing.assert_array_equal(first.documents, second.documents)
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first_kinds, second_kinds)


def test_samples_and_seeds_give_other_queries() -> None:
    first, _ = synthesize(20)
    sample, _ = synthesize(20, sample=1)
    seed, _ = synthesize(20, seed=1)

    assert not np.isin(sample.documents, first.documents).all()
    assert not np.isin(seed.documents, first.documents).all()
    assert not set(first.query_ids) & set(sample.query_ids)


def test_values_have_few_decimals() -> None:
    """Last bits differ between processors; what is rounded away cannot."""
    documents = synthesize(20)[0].documents.astype(np.float64)

    np.testing.assert_allclose(documents * 1e4, np.round(documents * 1e4), atol=0.01)


@pytest.mark.parametrize("features", [1, 2, 3])
def test_fewer_features_than_a_kind_needs_are_shared(features: int) -> None:
    queries, _ = synthesize(10, Recipe(features=features, kinds=6))

    assert np.isfinite(queries.documents).all()
    assert len(np.unique(queries.labels)) > 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"documents": (5, 4)}, "documents: expected the smaller number first, found 5, 4"),
        ({"documents": (0, 4)}, "documents: expected at least 1, found 0"),
        ({"separation": 1.5}, "separation: expected at most 1, found 1.5"),
        ({"features": 4, "noise_features": 4}, "noise_features: expected fewer than the 4 features, found 4"),
        ({"levels": 3, "label_shares": (1.0, 1.0)}, "label_shares: expected 3, one per level, found 2"),
        ({"kinds": 0}, "kinds: expected at least 1, found 0"),
    ],
)
def test_recipes_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        Recipe(**settings)


def test_the_demos_routed_model_beats_its_global_model_by_far() -> None:
    lesson, validation, exam = demo_queries()
    config = TrainingConfig.from_tables(
        {"clustering": {"candidates": [2, 4, 6]}, "learner": {"C": [10.0, 1000.0]}}
    )

    ranker = train(lesson, config, validation=validation).built.ranker

    local, global_ = ndcg_of(ranker, exam)
    assert local - global_ > 0.10
    assert local > 0.85


def test_the_demos_features_have_names_and_units() -> None:
    lesson, validation, exam = demo_queries()

    assert tuple(feature.name for feature in DEMO_FEATURES) == lesson.feature_names == exam.feature_names
    assert [200, 100, 200] == [len(lesson), len(validation), len(exam)]
    means = np.array([feature.mean for feature in DEMO_FEATURES])
    np.testing.assert_allclose(lesson.documents.mean(axis=0), means, rtol=0.05)
    assert (lesson.documents >= 0).all()
    url_length = lesson.documents[:, lesson.feature_names.index("url_length")]
    np.testing.assert_array_equal(url_length, np.round(url_length))


def test_the_demos_kinds_name_features_that_exist() -> None:
    names = {feature.name for feature in DEMO_FEATURES}

    assert all(set(kind) <= names for kind in DEMO_KINDS.values())
    assert [50, 50, 50, 50] == np.bincount(Drawn(200, DEMO_RECIPE).kind_of).tolist()


def test_the_demos_scorers_show_what_their_kind_looks_for() -> None:
    """The feature a kind wants most, before all others, has a positive weight in the scorer learned for it alone."""
    lesson, _, _ = demo_queries()
    kinds = Drawn(200, DEMO_RECIPE).kind_of
    scale = np.array([feature.spread for feature in DEMO_FEATURES], np.float32)
    lesson = replace(lesson, documents=lesson.documents / scale)

    for number, wanted in enumerate(DEMO_KINDS.values()):
        scorer = RankSvm().fit(Lesson(lesson.select(np.flatnonzero(kinds == number))))
        favourite = next(iter(wanted))
        assert scorer.weights[lesson.feature_names.index(favourite)] > 0.5 * np.abs(scorer.weights).max()


#: Our own output, rounded to four decimals. To write it anew, print the same things.
FIRST = {
    0: [11.81, 0.308, 0.421, 76.0, 0.5775, 6.02, 0.406, 0.498, 109.1, 0.658],
    1: [11.78, 0.467, 0.515, 75.0, 0.3032, 8.03, 0.55, 0.421, 124.4, 0.562],
}
LABELS = [[3095, 1563, 784, 403, 224], [1492, 765, 349, 187, 94], [3044, 1496, 758, 437, 181]]


def test_the_seed_is_zero_by_default() -> None:
    queries = demo_queries()

    assert np.array_equal(queries[0].documents, demo_queries(0)[0].documents)
    assert LABELS == [np.bincount(part.labels.astype(int)).tolist() for part in queries]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_first_document_is_known(seed: int) -> None:
    train, _, _ = demo_queries(seed)

    np.testing.assert_allclose(train.documents[0], FIRST[seed], rtol=1e-6)


def test_values_deviate_by_about_three_units_of_their_spread_and_are_so_round() -> None:
    train, validation, test = demo_queries()

    assert (20, 40) == (train.lengths.min(), train.lengths.max())
    documents = np.concatenate([train.documents, validation.documents, test.documents]).astype(np.float64)
    for column, feature in zip(documents.T, DEMO_FEATURES, strict=True):
        assert 2.5 < column.std() / feature.spread < 3.0
        scaled = column * 10**feature.decimals
        np.testing.assert_allclose(np.round(scaled), scaled, atol=0.01)
        assert np.abs(scaled / 10 - np.round(scaled / 10)).max() > 0.05
        assert 0.95 < column.mean() / feature.mean < 1.05


# ---------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "settings",
    [
        {"documents": (1, 1_000_000)},
        {"documents": (7, 7)},
        {"features": 1},
        {"kinds": 1},
        {"separation": 0.0},
        {"shapes": 1.0},
        {"noise": 0.0},
        {"noise_features": 9},
        {"levels": 2},
        {"levels": 1001},
        {"missing": 1.0},
        {"levels": 3, "label_shares": (1e-9, 1.0, 5.0)},
    ],
    ids=str,
)
def test_recipes_may_go_to_their_limits(settings: dict[str, Any]) -> None:
    recipe = Recipe(**settings)

    for name, value in settings.items():
        assert value == getattr(recipe, name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"documents": (1, 1_000_001)}, "documents: expected at most 1000000, found 1000001"),
        ({"features": 0}, "features: expected at least 1, found 0"),
        ({"features": 100_001}, "features: expected at most 100000, found 100001"),
        ({"separation": -0.1}, r"separation: expected at least 0, found -0\.1"),
        ({"shapes": 1.1}, r"shapes: expected at most 1, found 1\.1"),
        ({"shapes": -0.1}, "shapes: expected at least 0"),
        ({"noise": -0.1}, "noise: expected at least 0"),
        ({"noise": float("inf")}, "noise: expected a number, found inf"),
        ({"noise_features": -1}, "noise_features: expected at least 0"),
        ({"noise_features": 10}, "noise_features: expected fewer than the 10 features, found 10"),
        ({"levels": 1}, "levels: expected at least 2, found 1"),
        ({"levels": 1002}, "levels: expected at most 1001, found 1002"),
        ({"levels": 2, "label_shares": (1.0, 0.0)}, r"label_shares: expected more than 0, found 0\.0"),
        ({"missing": 1.1}, "missing: expected at most 1"),
        ({"missing": -0.1}, "missing: expected at least 0"),
    ],
    ids=str,
)
def test_recipes_beyond_their_limits_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        Recipe(**settings)


def test_places_are_drawn_before_the_rest_however_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many places are drawn together is no part of the seed."""
    recipe = Recipe(documents=(1, 4), features=3)
    expected, _ = synthesize(25, recipe, seed=2)

    for together in (1, 7, 24, 25, 26):
        monkeypatch.setattr(synthetic, "_TOGETHER", together)
        np.testing.assert_array_equal(expected.documents, synthesize(25, recipe, seed=2)[0].documents)


def test_clouds_lie_around_places_of_their_own() -> None:
    """A query's place is standard normal: so are the means of large clouds, and no two are alike."""
    queries, _ = synthesize(400, Recipe(documents=(200, 200), features=6), seed=4)

    places = np.stack([cloud.mean(axis=0) for cloud in queries.clouds()])

    # The mean of 200 documents deviates from the place by about 2.6 / sqrt(200) = 0.2.
    np.testing.assert_allclose(places.std(axis=0), 1.0, atol=0.15)
    np.testing.assert_allclose(places.mean(axis=0), 0.0, atol=0.2)


def test_queries_are_numbered_from_one_and_samples_by_the_million() -> None:
    assert ("1", "2", "3") == synthesize(3)[0].query_ids
    assert ("2000001", "2000002", "2000003") == synthesize(3, sample=2)[0].query_ids


def test_drawn_queries_are_the_same_each_time_they_are_gone_through() -> None:
    recipe = Recipe(documents=(2, 5), missing=0.1)
    drawn = Drawn(6, recipe, seed=1, sample=3)
    queries, kinds = synthesize(6, recipe, seed=1, sample=3)

    for _ in range(2):
        documents, labels = zip(*drawn, strict=True)
        np.testing.assert_array_equal(queries.documents, np.concatenate(documents).astype(np.float32))
        np.testing.assert_array_equal(queries.labels, np.concatenate(labels))
    np.testing.assert_array_equal(kinds, drawn.kind_of)
    np.testing.assert_array_equal(queries.offsets, drawn.offsets)


def test_names_may_be_given() -> None:
    names = ["a", "b"]

    assert ("a", "b") == synthesize(2, Recipe(features=2), feature_names=names)[0].feature_names
    assert ("f1", "f2") == synthesize(2, Recipe(features=2))[0].feature_names


def test_no_value_is_minus_zero() -> None:
    documents = synthesize(60, Recipe(documents=(200, 200)))[0].documents

    zeros = documents[documents == 0]
    assert len(zeros)
    assert not np.signbit(zeros).any()


@pytest.mark.parametrize(("kinds", "useful"), [(3, 10), (4, 4), (5, 3), (2, 7)])
def test_features_are_dealt_out_evenly(kinds: int, useful: int) -> None:
    """Each kind gets as many as there are for each, between 0.5 and 1 in size; none is shared while there are enough."""
    weights = synthetic._dealt(np.random.default_rng(0), kinds, useful)

    share = max(1, useful // kinds)
    assert [share] * kinds == (weights != 0).sum(axis=1).tolist()
    sizes = np.abs(weights[weights != 0])
    assert 0.5 <= sizes.min() <= sizes.max() <= 1.0
    if kinds <= useful:
        assert 1 == (weights != 0).sum(axis=0).max()


def test_signed_weights_are_of_both_signs_and_between_a_half_and_one() -> None:
    weights = synthetic._signed(np.random.default_rng(0), 2000)

    assert np.abs(weights).min() == pytest.approx(0.5, abs=0.01)
    assert np.abs(weights).max() == pytest.approx(1.0, abs=0.01)
    assert (weights > 0).mean() == pytest.approx(0.5, abs=0.05)


def test_patterns_of_signs_are_unit_rows_that_are_as_different_as_they_come() -> None:
    patterns = synthetic._sign_patterns(np.random.default_rng(0), 6, 16)

    np.testing.assert_allclose(np.abs(patterns), 1 / 4)
    # Of 16 signs there are 16 patterns at right angles; among 256 tries one is always nearly so.
    likeness = np.abs(patterns @ patterns.T)[np.triu_indices(6, 1)]
    assert likeness.max() <= 0.25


def test_what_lies_within_the_directions_is_kept_if_nothing_else_is_there() -> None:
    directions = np.array([[2.0, 0, 0], [0, 3.0, 0]])

    np.testing.assert_allclose([0, 0, 5], synthetic._across(np.array([1.0, 2, 5]), directions), atol=1e-12)
    np.testing.assert_allclose([1, 2, 0], synthetic._across(np.array([1.0, 2, 0]), directions))


def test_thresholds_split_the_relevance_as_the_shares_say() -> None:
    """The relevance is normal with the variance 1 + noise²."""
    thresholds = Recipe(levels=3, label_shares=(2.0, 1.0, 1.0), noise=0.75).thresholds

    np.testing.assert_allclose([0.0, 0.6744897501960817 * 1.25], thresholds, atol=1e-12)
    assert np.isinf(Recipe(levels=200).thresholds[-1])


def test_a_few_queries_are_known() -> None:
    """Our own output; to write it anew, print the same things."""
    recipe = Recipe(documents=(2, 4), features=6, noise_features=1, missing=0.1, kinds=3)

    queries, kinds = synthesize(4, recipe, seed=3)

    nothing = np.nan
    np.testing.assert_allclose(
        queries.documents[[0, 3, 6, 11]],
        [
            [0.7489, 1.433, -0.5061, nothing, 0.9808, nothing],
            [2.0569, 0.9536, nothing, nothing, 1.6884, 1.0873],
            [1.3363, nothing, 2.502, 2.6266, 2.4511, 0.6097],
            [2.5772, -1.7171, -2.5371, -0.6606, -3.0741, -0.868],
        ],
        rtol=1e-5,
    )
    assert [1, 2, 2, 0, 0, 4, 0, 0, 0, 1, 0, 0] == queries.labels.tolist()
    assert [0, 1, 2, 0] == kinds.tolist()
    assert [0, 3, 7, 10, 12] == queries.offsets.tolist()


def test_the_usual_recipe() -> None:
    usual = Recipe(
        documents=(30, 30),
        features=10,
        kinds=4,
        separation=1.0,
        shapes=1.0,
        noise=0.3,
        noise_features=0,
        levels=5,
        label_shares=None,
        missing=0.0,
    )

    assert usual == Recipe()
    assert (4, (2.0, 1.3), 1000) == (synthetic.DECIMALS, STRENGTHS, synthetic._TOGETHER)
    assert (10, 30) == synthesize(1)[0].documents.shape[::-1]
