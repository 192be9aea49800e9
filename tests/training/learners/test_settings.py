"""A learner as a configuration writes it, with its choices."""

from __future__ import annotations

from typing import Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.learners.boosting import LambdaMart
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.settings import LearnerSettings
from localrank_training.learners.svmmap import SvmMap


def test_a_list_is_a_choice_and_every_combination_is_a_learner() -> None:
    """The last setting changes fastest."""
    made = LearnerSettings.from_table({"method": "svmmap", "C": [1, 2.5], "relevant": (1, 2)}, "run.toml")

    assert [
        SvmMap(C=C, relevant=relevant) for C in (1.0, 2.5) for relevant in (1.0, 2.0)
    ] == made.candidates()
    assert [{"C": 1, "relevant": 1}, {"C": 1, "relevant": 2}] == made.combinations()[:2]


def test_a_setting_that_is_itself_a_list_is_one_value() -> None:
    made = LearnerSettings.from_table({"method": "lambdamart", "averaged": [5, 10], "num_leaves": [3, 7]}, "")

    assert [LambdaMart(averaged=(5, 10), num_leaves=leaves) for leaves in (3, 7)] == made.candidates()


def test_what_is_left_out_is_ranksvm_with_its_own_choices() -> None:
    plain, chosen = LearnerSettings.from_table({}, ""), LearnerSettings.from_table({"C": 7}, "")

    assert [RankSvm(C=C) for C in RankSvm.grid["C"]] == plain.candidates()
    assert [RankSvm(C=7.0)] == chosen.candidates()
    assert {"method": "ranksvm", "C": 7} == chosen.to_table()
    assert LearnerSettings.from_table(chosen.to_table(), "") == chosen
    assert RankSvm is plain.kind


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"method": 3}, "^run.toml: method: expected a name, found 3$"),
        (
            {"method": "ranksvn"},
            r"^run.toml: no learner 'ranksvn'; did you mean 'ranksvm'\? \(expected: ranksvm, ",
        ),
        ({"C": []}, "^run.toml: C: expected at least one value to choose from, found none$"),
        ({"C": [1, -1]}, "^run.toml: C: expected more than 0, found -1.0$"),
        ({"c": 1}, "^run.toml: unknown setting 'c'"),
        ({"name": "lambdamart"}, "^run.toml: unknown setting 'name'; it is called 'method' here$"),
    ],
)
def test_a_table_that_is_no_learner_is_refused(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidConfiguration, match=sentence):
        LearnerSettings.from_table(table, "run.toml")


def test_a_choice_of_nothing_names_the_learner_if_no_place_is_known() -> None:
    with pytest.raises(InvalidConfiguration, match=r"^learner 'ranksvm': C: expected at least one value"):
        LearnerSettings("ranksvm", {"C": []}).combinations()
