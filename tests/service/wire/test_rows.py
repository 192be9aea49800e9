"""Rows that stand in JSON: nulls become NaN, and what is wrong is pointed at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.numbers import read_flat, read_rows


def locate(document: int, column: int | None) -> str:
    return pointer("f", document) if column is None else pointer("f", document, column)


def rows(*runs: list[Any]) -> np.ndarray[Any, Any]:
    count, firsts = 0, []
    for run in runs:
        firsts.append((count, run))
        count += len(run)
    return read_rows(firsts, (count, 2), "f[{}]", locate)


def test_runs_are_put_one_below_the_other() -> None:
    found = rows([[1, 2.5], [3, 4]], [[None, 5]], [[6, 10**30]])

    np.testing.assert_array_equal(np.array([[1, 2.5], [3, 4], [np.nan, 5], [6, 1e30]], np.float32), found)
    assert np.float32 == found.dtype
    assert (0, 2) == rows().shape


@pytest.mark.parametrize(
    ("wrong", "at", "said"),
    [
        (7, "/f/3", "f[3]: expected a list of numbers, found 7"),
        ({"a": 1}, "/f/3", "f[3]: expected a list of numbers, found an object"),
        ([1], "/f/3", "f[3] has 1 values; expected 2"),
        ([1, 2, 3], "/f/3", "f[3] has 3 values; expected 2"),
        ([1, "a"], "/f/3/1", 'f[3][1]: expected a number or null, found "a"'),
        ([True, None], "/f/3/0", "f[3][0]: expected a number or null, found true"),
        ([None, [1]], "/f/3/1", "f[3][1]: expected a number or null, found [1]"),
    ],
)
def test_the_first_wrong_value_is_pointed_at(wrong: Any, at: str, said: str) -> None:
    with pytest.raises(Problem) as caught:
        rows(
            [[1, 2], [3, 4]],
            [[5, None], wrong, ["x", "y"]] if type(wrong) is list and len(wrong) == 2 else [[5, 6], wrong],
        )

    assert (422, at, said) == (caught.value.status, caught.value.pointer, caught.value.detail)


def test_a_flat_list_is_read_run_by_run() -> None:
    found = read_flat([(0, [1, 2.5]), (2, [None]), (3, [4])], 4, "f", lambda place: f"/f/{place}")

    np.testing.assert_array_equal(np.array([1, 2.5, np.nan, 4], np.float32), found)
    with pytest.raises(Problem) as caught:
        read_flat([(0, [1]), (1, [None, "a"])], 3, "f", lambda place: f"/f/{place}")
    assert ("/f/2", 'f[2]: expected a number or null, found "a"') == (
        caught.value.pointer,
        caught.value.detail,
    )
