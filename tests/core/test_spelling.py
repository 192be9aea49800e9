from __future__ import annotations

import pytest

from localrank.errors import did_you_mean, no_such


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trian", "; did you mean 'train'?"),
        ("trani", "; did you mean 'train'?"),
        ("frobnicate", ""),
        (3, ""),
    ],
)
def test_only_a_name_that_is_near_is_proposed(name: object, expected: str) -> None:
    assert expected == did_you_mean(name, ("rank", "train", "tune"))


def test_one_name_is_proposed_though_several_are_near() -> None:
    assert "; did you mean 'rank'?" == did_you_mean("rnk", ["drank", "rank", "ranks"])


def test_a_name_that_does_not_exist_is_told_with_those_that_do() -> None:
    assert "no method 'blobal'; did you mean 'global'? (expected: auto, global)" == no_such(
        "method", "blobal", (name for name in ("auto", "global"))
    )
    assert "no setting 'x' (expected: none)" == no_such("setting", "x", ())
