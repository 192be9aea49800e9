from __future__ import annotations

from typing import Any

import pytest

from localrank.errors import InvalidData
from localrank_training.run.choosing import choices_of, edges, folds_of
from localrank_training.settings.config import TrainingConfig


def config(**tables: Any) -> TrainingConfig:
    return TrainingConfig.from_tables(tables)


def test_clusters_and_settings_of_the_learner_are_chosen_together() -> None:
    choices = choices_of(config(clustering={"candidates": [3, 1]}, learner={"C": [0.1, 1], "total": "sum"}))

    assert [
        "C = 0.1, clusters = 1",
        "C = 1.0, clusters = 1",
        "C = 0.1, clusters = 3",
        "C = 1.0, clusters = 3",
    ] == [str(choice) for choice in choices]
    for choice in choices:
        assert choice.learner == choice.config.learner.candidates()[0]
        assert [choice.learner] == choice.config.learner.candidates()
        assert (choice.values["clusters"],) == choice.config.clustering.sizes


def test_localrank_chooses_the_number_of_clusters_and_c_together_with_one_global_model_among_them() -> None:
    made = [choice.values for choice in choices_of(TrainingConfig.read(method="localrank"))]

    sizes, strengths = (sorted({values[name] for values in made}) for name in ("clusters", "C"))
    assert 1 in sizes
    assert len(sizes) > 2
    assert len(strengths) > 2
    assert [{"C": C, "clusters": size} for size in sizes for C in strengths] == made


def test_neighbours_may_be_a_choice() -> None:
    clustering = {"method": "knn", "neighbours": [5, 20]}
    choices = choices_of(config(clustering=clustering, learner={"C": 1.0}, routing={"method": "exact"}))

    assert ["neighbours = 5", "neighbours = 20"] == [str(choice) for choice in choices]
    assert [5, 20] == [choice.config.clustering.neighbours for choice in choices]


@pytest.mark.parametrize(
    ("learner", "chosen", "said"),
    [
        (
            {"C": [1, 10, 100]},
            100,
            ["C = 100 is the largest value that was tried; larger ones may be better"],
        ),
        ({"C": [10, 1, 100]}, 1, ["C = 1 is the smallest value that was tried; smaller ones may be better"]),
        ({"C": [1, 10, 100]}, 10, []),
        ({"C": [1, 10]}, 10, []),
        ({"C": 1.0, "balance": [0, 0.3, 1]}, 1.0, []),
        (
            {"C": 1.0, "balance": [0, 0.3, 0.9]},
            0.9,
            ["balance = 0.9 is the largest value that was tried; larger ones may be better"],
        ),
        ({"C": 1.0, "total": ["mean", "sum"]}, "sum", []),
    ],
)
def test_a_choice_at_the_edge_of_its_grid_is_told(
    learner: dict[str, Any], chosen: object, said: list[str]
) -> None:
    choices = choices_of(config(clustering={"clusters": 2}, learner=learner))
    (choice,) = [choice for choice in choices if chosen in choice.values.values()]

    assert said == edges([one.values for one in choices], choice.values, choice.config)


@pytest.mark.parametrize(
    ("name", "tried", "chosen", "said"),
    [
        ("learner.C", [1.0, 2.0, 3.0], 1.0, "smallest value that was tried; smaller ones may be better"),
        (
            "clustering.share",
            [0.1, 0.5, 1.0],
            0.1,
            "smallest value that was tried; smaller ones may be better",
        ),
        ("clustering.share", [0.1, 0.5, 1.0], 1.0, None),
        ("selection.folds", [2, 3, 4], 2, None),
        ("selection.folds", [2, 3, 4], 4, "largest value that was tried; larger ones may be better"),
        ("selection.refit", [True, False, 2], True, None),
    ],
)
def test_an_edge_is_looked_up_in_the_table_of_its_name(
    name: str, tried: list[float], chosen: float, said: str | None
) -> None:
    """A share of 1 and two folds are as far as they go."""
    found = edges([{name: value} for value in tried], {name: chosen}, config())

    assert ([] if said is None else [f"{name} = {chosen:g} is the {said}"]) == found


def test_combinations_without_the_setting_are_no_values_of_it() -> None:
    tried = [{"learner.C": 1.0}, {}, {"learner.C": 2.0}]

    assert [] == edges(tried, {"learner.C": 2.0}, config())
    assert 1 == len(edges([*tried, {"learner.C": 0.5}], {"learner.C": 2.0}, config()))


@pytest.mark.parametrize(
    ("n_queries", "wanted", "sizes"), [(10, 3, [4, 3, 3]), (2, 5, [1, 1]), (6, 2, [3, 3])]
)
def test_every_query_is_in_one_fold(n_queries: int, wanted: int, sizes: list[int]) -> None:
    folds = folds_of(n_queries, wanted, 0)

    assert sizes == [len(fold) for fold in folds]
    assert list(range(n_queries)) == sorted(query for fold in folds for query in fold.tolist())
    assert all(fold.tolist() == sorted(fold.tolist()) for fold in folds)


@pytest.mark.parametrize("n_queries", [0, 1])
def test_one_query_cannot_be_held_out(n_queries: int) -> None:
    with pytest.raises(InvalidData, match=f"^expected at least 2 queries to train on, found {n_queries}$"):
        folds_of(n_queries, 5, 0)
