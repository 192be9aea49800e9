"""Objects on one line: sizes in place of numbers, and nothing longer than a reader wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from localrank.arrays import html_table, one_line


@dataclass
class Holder:
    value: Any
    other: int = 7

    __repr__ = one_line


class Pair(NamedTuple):
    first: int
    second: int


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (np.zeros((2, 3), np.float32), "float32[2, 3]"),
        ({"a": 1, "b": 2, "c": 3}, "{'a': 1, 'b': 2, 'c': 3}"),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, "<4 entries>"),
        ((1, "b", 2.5), "(1, 'b', 2.5)"),
        ([1, 2, 3, 4], "<4 of int>"),
        ((np.zeros(2),), "<1 of ndarray>"),
        ((), "()"),
        (((1, 2), [3]), "((1, 2), (3))"),
        (Pair(1, 2), "Pair(first=1, second=2)"),
        ("two\nlines", r"'two\nlines'"),
        ("x" * 58, "'" + "x" * 58 + "'"),
        ("x" * 59, "'" + "x" * 58 + "…"),
    ],
)
def test_a_dataclass_is_one_line_with_the_sizes_of_its_parts(value: object, shown: str) -> None:
    assert f"Holder(value={shown}, other=7)" == repr(Holder(value))


def test_a_table_for_notebooks_has_four_digits_and_no_markup_of_its_cells() -> None:
    table = html_table("a < b", ("x", "y & z"), [(1, 0.123456), (None, "<i>"), (2, "left")])

    assert (
        "<table><caption>a &lt; b</caption>\n"
        "<tr><th>x</th><th>y &amp; z</th></tr>\n"
        "<tr><td>1</td><td>0.1235</td></tr>\n"
        "<tr><td>–</td><td>&lt;i&gt;</td></tr>\n"
        "<tr><td>2</td><td>left</td></tr>\n"
        "</table>"
    ) == table
