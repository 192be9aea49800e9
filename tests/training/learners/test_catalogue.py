from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.features.contract import FeatureContract
from localrank_training.data.clouds import Clouds
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.seen import scores_of

if TYPE_CHECKING:
    from tests.training.learners.conftest import MakeQueries
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
        ("ranksvm", {"C": "1"}, "learner 'ranksvm': C: expected a number, found '1'"),
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


@pytest.mark.parametrize("method", [method for method in LEARNERS if method != "blend"])
def test_every_learner_learns_from_the_blocks_that_it_is_told(method: str, make_queries: MakeQueries) -> None:
    """Its documents are those blocks, and so are its scorer's: what it learned holds for a cloud with the same values."""
    queries = make_queries(12, 3, 2, seed=5)
    blocks = "[minmax, zscore * 0.25, rank]"
    contract = FeatureContract.learn(queries.documents, queries.lengths.tolist())
    clouds = Clouds(queries, contract)
    few: dict[str, dict[str, object]] = {
        "gbrt": {"num_iterations": 5},
        "lambdamart": {"num_iterations": 5},
        "lgmml": {"weights": "similarity"},
    }
    learner = make(method, {"blocks": "[ minmax,zscore*.25, rank]", **few.get(method, {})})

    assert blocks == learner.blocks
    lesson = Lesson(clouds.seen_as(blocks), blocks=blocks, widths=clouds.widths)
    scorer = learner.fit(lesson)

    seen = np.concatenate([scorer.score(cloud) for cloud in clouds])
    np.testing.assert_allclose(seen, scores_of(scorer, lesson), rtol=1e-9, atol=1e-12)
    assert len(set(seen.tolist())) > 1
