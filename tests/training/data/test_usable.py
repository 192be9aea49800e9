"""Missing values and labels that cannot be used are named by file and line, before the work begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.features.contract import FeatureContract
from localrank_training.config import TrainingConfig
from localrank_training.data import usable
from localrank_training.data.alignment import aligned
from localrank_training.data.reading import read
from localrank_training.data.usable import placed, refuse_missing
from localrank_training.run.train import train
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet

QUICK = TrainingConfig.from_tables({"clustering": {"method": "none"}, "routing": {"method": "global"}})


def with_holes(*places: tuple[int, int]) -> QuerySet:
    queries = two_kinds(4)
    documents = queries.documents.copy()
    for place in places:
        documents[place] = np.nan
    return replace(queries, documents=documents)


@pytest.mark.parametrize("cells", [5, 40, 1 << 22])
def test_the_first_missing_value_is_named_and_the_others_counted(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usable, "_CELLS", cells)
    queries = with_holes((3, 0), (17, 4), (17, 2), (40, 2))

    with pytest.raises(InvalidData) as error:
        refuse_missing(queries, ["nan", "zero", "reject", "reject", "reject"], "do this")

    expected = "query 'q1': expected a value of 'f3', found none, and 1 more document lacks values; do this"
    assert expected == str(error.value)


def test_values_that_are_replaced_may_be_missing() -> None:
    queries = with_holes((3, 0))

    refuse_missing(queries, "median", "")
    refuse_missing(queries, ["nan", *["reject"] * 4], "")


def test_a_model_that_replaces_nothing_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:2 2:3\n0 qid:1 1:? 2:4\n")
    queries = read([tmp_path / "a.txt"])
    contract = FeatureContract.learn(np.zeros((2, 2), np.float32), [2], names=("f1", "f2"))

    with pytest.raises(
        InvalidData, match=r"a\.txt:2, query '1': expected a value of 'f1', found none; the model"
    ):
        aligned(queries, contract)


def test_training_says_what_to_do_about_missing_values() -> None:
    with pytest.raises(
        InvalidData,
        match=r"query 'q0': expected a value of 'f2', found none; set \[contract\] missing to median",
    ):
        train(with_holes((2, 1)), QUICK)


def test_a_label_that_cannot_be_used_has_a_place(tmp_path: Path) -> None:
    lines = [f"{i % 2} qid:{i // 4} 1:{i} 2:{-i}\n" for i in range(16)]
    lines[9] = "1001 qid:2 1:3 2:4\n"
    (tmp_path / "a.txt").write_text("".join(lines))
    queries = read([tmp_path / "a.txt"])

    with pytest.raises(
        InvalidData, match=r"a\.txt:10, query '2': label of document 9: expected 0 to 1000, found 1001"
    ):
        train(queries, QUICK)
    with pytest.raises(InvalidData, match=r"^other$"), placed(queries):
        raise InvalidData("other")
