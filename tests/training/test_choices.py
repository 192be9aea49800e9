from __future__ import annotations

from typing import Any

import pytest

from localrank_training.choices import choices_of, edges
from localrank_training.config import TrainingConfig


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


def test_one_cluster_is_one_global_model() -> None:
    (choice,) = choices_of(config(clustering={"clusters": 1}, learner={"C": 1}))

    assert ("none", "global") == (choice.config.clustering.method, choice.config.routing.method)


def test_what_is_settled_is_no_choice() -> None:
    (choice,) = choices_of(config(clustering={"clusters": 4}, learner={"C": 10}))

    assert {} == choice.values


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


def test_many_clusters_are_at_an_edge_and_one_is_not() -> None:
    choices = choices_of(config(learner={"C": 1.0}))
    tried = [choice.values for choice in choices]

    assert [] == edges(tried, choices[0].values, choices[0].config)
    assert ["clusters = 5 is the largest value that was tried; larger ones may be better"] == edges(
        tried, choices[-1].values, choices[-1].config
    )
