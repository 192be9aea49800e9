"""Folds of partitions and of folders, and which data sets are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank_papers.figures.folds import KNOWN, Data, Fold, everything, read_folds
from localrank_training.data.queries import QuerySet, default_names
from localrank_training.data.writing import write
from tests.papers.figures.made_up import small_data, uneven

if TYPE_CHECKING:
    from pathlib import Path


def of_size(n_queries: int, n_docs: int, n_features: int) -> QuerySet:
    offsets = np.linspace(0, n_docs, n_queries + 1).astype(np.int64)
    return QuerySet(
        documents=np.zeros((n_docs, n_features), np.float32),
        labels=np.zeros(n_docs),
        offsets=offsets,
        query_ids=tuple(map(str, range(n_queries))),
        feature_names=default_names(n_features),
        lines=np.arange(n_docs),
    )


def test_the_sizes_of_known_data_sets_are_as_their_publishers_say() -> None:
    assert {
        (106, 16140, 45): ("OHSUMED", "letor3"),
        (784, 15211, 46): ("MQ2008", "letor4"),
        (1692, 69623, 46): ("MQ2007", "letor4"),
        (10000, 1200192, 136): ("MSLR-WEB10K", "mslr"),
    } == KNOWN


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((106, 16140, 45), ("OHSUMED", "letor3")),
        ((106, 16139, 45), ("mine", "standard")),
        ((105, 16140, 45), ("mine", "standard")),
        ((106, 16140, 44), ("mine", "standard")),
    ],
)
def test_a_data_set_is_known_by_its_size(size: tuple[int, int, int], expected: tuple[str, str]) -> None:
    test = of_size(*size)
    # What is learned from does not count: every query is tested once.
    other = of_size(1, 2, size[2])

    found = Data.of("mine", [Fold(1, other, other, test)])

    assert expected == (found.name, found.convention)
    assert 1 == len(found.folds)


def test_everything_is_what_is_tested() -> None:
    data = small_data((3, 2))

    assert [f"q{number}" for number in range(5)] == list(everything(data.folds).query_ids)


def test_partitions_go_round(tmp_path: Path) -> None:
    """Fold k learns from three partitions from the k-th on, validates by the next and tests by the last."""
    for number in range(1, 6):
        write(uneven([3, 4], first=10 * number), tmp_path / f"S{number}.txt")

    folds = read_folds(tmp_path).folds

    def partitions(queries: QuerySet) -> list[int]:
        return [int(one.removeprefix("q")) // 10 for one in queries.query_ids[::2]]

    assert [1, 2, 3, 4, 5] == [fold.number for fold in folds]
    assert [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 1], [5, 1, 2]] == [partitions(one.train) for one in folds]
    assert [[4], [5], [1], [2], [3]] == [partitions(one.validation) for one in folds]
    assert [[5], [1], [2], [3], [4]] == [partitions(one.test) for one in folds]


def test_partitions_of_other_features_are_refused(tmp_path: Path) -> None:
    for number in range(1, 6):
        write(uneven([3], n_features=3 + (number == 4), first=number), tmp_path / f"S{number}.txt")

    with pytest.raises(InvalidData, match=r"expected the same features in all, found \[3, 3, 3, 4, 3\]"):
        read_folds(tmp_path)


def test_folders_are_taken_by_number_and_other_names_are_passed_over(tmp_path: Path) -> None:
    for number in (2, 10, 1):
        folder = tmp_path / f"Fold{number}"
        folder.mkdir()
        for name in ("train", "validation", "test"):
            write(uneven([3], first=number), folder / f"{name}.txt")
    for name in ("Fold", "FoldX", "Folds"):
        (tmp_path / name).mkdir()

    assert [1, 2, 10] == [fold.number for fold in read_folds(tmp_path).folds]


def test_plain_text_comes_before_packed_and_vali_before_validation(tmp_path: Path) -> None:
    folder = tmp_path / "Fold1"
    folder.mkdir()
    names = ("train.txt", "vali.txt", "test.txt", "train.txt.gz", "validation.txt", "test.txt.gz")
    for number, name in enumerate(names):
        write(uneven([3], first=number), folder / name)

    (fold,) = read_folds(tmp_path).folds

    assert ["q0", "q1", "q2"] == [part.query_ids[0] for part in (fold.train, fold.validation, fold.test)]
