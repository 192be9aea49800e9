from __future__ import annotations

import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.choices import candidates
from localrank_training.learners.ranksvm import RankSvm


def test_lists_become_every_combination() -> None:
    learners = candidates("ranksvm", {"C": [0.1, 1.0], "total": ["mean", "sum"]})

    assert [
        RankSvm(0.1, total="mean"),
        RankSvm(0.1, total="sum"),
        RankSvm(1.0, total="mean"),
        RankSvm(1.0, total="sum"),
    ] == learners


def test_one_wrong_candidate_is_named() -> None:
    with pytest.raises(InvalidConfiguration, match="C: expected more than 0, found -1"):
        candidates("ranksvm", {"C": [1, -1]})
