from __future__ import annotations

import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.role import Learner


def test_settings_reach_the_learner() -> None:
    assert RankSvm(C=2.0, total="sum") == make("ranksvm", {"C": 2, "total": "sum"})


@pytest.mark.parametrize("method", LEARNERS)
def test_every_learner_has_defaults_and_its_own_name(method: str) -> None:
    learner = make(method, {})

    assert isinstance(learner, Learner)
    assert method == learner.method


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("ranksvn", {}, "no learner 'ranksvn'; did you mean 'ranksvm'\\? \\(expected: ranksvm, svmmap"),
        (
            "ranksvm",
            {"c": 1.0},
            r"learner 'ranksvm': unknown setting 'c'.*expected: C, balance, total, tolerance",
        ),
        ("ranksvm", {"C": "1"}, "learner 'ranksvm': C: expected number, found '1'"),
        ("ranksvm", {"C": 0.0}, "learner 'ranksvm': C: expected more than 0, found 0.0"),
        ("ranksvm", {"total": "max"}, "total: expected one of 'mean', 'sum', found 'max'"),
        ("ranksvm", {"iterations": 0}, "iterations: expected at least 1, found 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(method: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make(method, settings)


def test_settings_are_checked_when_made_in_python() -> None:
    with pytest.raises(InvalidConfiguration, match="C: expected more than 0, found -1"):
        RankSvm(C=-1.0)
