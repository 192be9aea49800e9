"""The data and the contract on a page: counts, shares and ranges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank_training.report import Folded, Table
from localrank_training.reporting.judged import contract_of, data


def inspection(**more: Any) -> Any:
    found = {
        "n_queries": 1200, "n_docs": 8000, "n_features": 3, "label_levels": 2, "labels": {"0": 6000.0, "1": 2000.0},
        "lengths": {"least": 3.0, "median": 123.456, "most": 40.0}, "suspicions": (), "features": [],
    }  # fmt: skip
    return SimpleNamespace(**{**found, **more})


def test_labels_are_counted_with_their_shares() -> None:
    said, labels, lengths = data(inspection()).parts

    assert "1,200 queries with 8,000 documents of 3 features." == said
    assert isinstance(labels, Table)
    assert [("0", 6000, "75.0%"), ("1", 2000, "25.0%")] == labels.rows
    assert isinstance(lengths, Table)
    assert [("3", "123.5", "40")] == lengths.rows


def test_of_many_different_labels_the_range_is_told() -> None:
    _, labels, _ = data(inspection(label_levels=1500, labels={"least": 0.5, "most": 2.25})).parts

    assert isinstance(labels, Table)
    assert ("Labels: 1,500 different numbers", ("least", "most"), [("0.5", "2.25")]) == (
        labels.title,
        labels.header,
        labels.rows,
    )


def test_what_looks_wrong_is_listed() -> None:
    one = SimpleNamespace(what="constant features", count=2, of=9, examples=["f1", "f2"])

    *_, table = data(inspection(suspicions=(one,))).parts

    assert isinstance(table, Table)
    assert [("constant features", 2, 9, "f1, f2")] == table.rows


@pytest.mark.parametrize(("count", "caption"), [(300, ""), (302, "2 more features are in the manifest.")])
def test_three_hundred_features_have_their_ranges(count: int, caption: str) -> None:
    names = tuple(f"f{number}" for number in range(count))
    quantiles = np.arange(9)[:, None] * 1000.0 + np.arange(count)
    contract: Any = SimpleNamespace(
        names=names,
        quantiles=quantiles,
        missing=["zero", *["reject"] * (count - 1)],
        normalise="none",
        digest="abc",
    )
    known = [SimpleNamespace(name="f1", missing=7, zeros=0.256)]

    said, folded = contract_of(contract, inspection(features=known)).parts

    assert str(said).startswith(f"{count} features, by name or in this order, normalised by `none`.")
    assert isinstance(folded, Folded)
    (table,) = folded.parts
    assert isinstance(table, Table)
    # The first, the middle and the last of nine quantiles.
    assert ("f0", "0", "4000", "8000", "zero", None, None) == table.rows[0]
    assert ("f1", "1", "4001", "8001", "reject", 7, "26%") == table.rows[1]
    assert (300, caption) == (len(table.rows), table.caption)
