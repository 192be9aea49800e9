"""Whole queries are dealt into parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration, InvalidData
from localrank_training.data import sources
from localrank_training.data.columns import Columns
from localrank_training.data.reading import read
from localrank_training.data.splitting import split
from localrank_training.data.writing import FORMATS, SUFFIXES, Format

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet


def ids_of(path: Path) -> list[str]:
    return sorted(read([path]).query_ids)


def test_fractions_deal_whole_queries(tmp_path: Path, mixed: QuerySet) -> None:
    report = split([tmp_path / "mixed.txt"], tmp_path / "out", fractions=[0.6, 0.2, 0.2], seed=1)

    assert {"train.txt": 24, "validation.txt": 8, "test.txt": 8} == {
        name: q for name, (q, _) in report.items()
    }
    assert 500 == sum(documents for _, documents in report.values())
    parts = {name: read([tmp_path / "out" / name]) for name in report}
    assert sorted(mixed.query_ids) == sorted(q for part in parts.values() for q in part.query_ids)
    for name, part in parts.items():
        assert report[name] == (len(part), part.n_docs)
        chosen = mixed.select([mixed.query_ids.index(q) for q in part.query_ids])
        np.testing.assert_array_equal(chosen.documents, part.documents)
        np.testing.assert_array_equal(chosen.labels, part.labels)
        assert chosen.comments is not None
        assert part.comments is not None
        assert tuple(chosen.comments) == tuple(part.comments)
        assert mixed.feature_names == part.feature_names


@pytest.mark.parametrize(
    ("fractions", "sizes"),
    [([0.21, 0.22, 0.57], [8, 9, 23]), ([0.33, 0.33, 0.34], [13, 13, 14]), ([0.5125, 0.4875], [21, 19])],
)
def test_parts_are_within_one_query_of_their_share(
    tmp_path: Path, mixed: QuerySet, fractions: list[float], sizes: list[int]
) -> None:
    report = split([tmp_path / "mixed.txt"], tmp_path / "out", fractions=fractions)

    assert sizes == [queries for queries, _ in report.values()]
    for share, size in zip(fractions, sizes, strict=True):
        assert abs(share * len(mixed) - size) < 1


@pytest.mark.parametrize("to", FORMATS)
def test_a_seed_decides_and_the_format_does_not(tmp_path: Path, mixed: QuerySet, to: Format) -> None:
    assert 40 == len(mixed)
    first = [tmp_path / "mixed.txt"]
    split(first, tmp_path / "a", fractions=[0.5, 0.5], seed=1)
    split(first, tmp_path / "b", fractions=[0.5, 0.5], seed=1, to=to)
    split(first, tmp_path / "c", fractions=[0.5, 0.5], seed=2)

    suffix = SUFFIXES[to]
    assert ids_of(tmp_path / "a" / "train.txt") == ids_of(tmp_path / "b" / f"train{suffix}")
    assert ids_of(tmp_path / "a" / "train.txt") != ids_of(tmp_path / "c" / "train.txt")


def test_folds_rotate_as_letor_does(tmp_path: Path, mixed: QuerySet) -> None:
    report = split([tmp_path / "mixed.txt"], tmp_path / "out", folds=5)

    assert 15 == len(report)
    folder = tmp_path / "out"
    tests = [ids_of(folder / f"Fold{k}" / "test.txt") for k in range(1, 6)]
    validations = [ids_of(folder / f"Fold{k}" / "validation.txt") for k in range(1, 6)]
    assert sorted(mixed.query_ids) == sorted(q for part in tests for q in part)
    for k in range(5):
        # Fold 1 trains on S1 S2 S3, validates on S4, tests on S5; fold 2 validates on S5, tests on S1.
        assert tests[k] == validations[(k + 1) % 5]
        assert sorted(set(mixed.query_ids) - set(tests[k]) - set(validations[k])) == ids_of(
            folder / f"Fold{k + 1}" / "train.txt"
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either fractions or folds"),
        ({"folds": 3, "fractions": [0.5, 0.5]}, "either fractions or folds"),
        ({"folds": 2}, "expected 3 to 40 folds"),
        ({"folds": 41}, "expected 3 to 40 folds"),
        ({"fractions": [0.5, 0.6]}, "add up to 1"),
        ({"fractions": [1.0]}, "two or three fractions"),
        ({"fractions": [1.5, -0.5]}, "above 0"),
        ({"fractions": [float("nan"), 1.0]}, "add up to 1, found nan, 1.0"),
        ({"fractions": [1.0, float("nan")]}, "add up to 1, found 1.0, nan"),
        ({"fractions": [float("inf"), 1.0]}, "add up to 1, found inf, 1.0"),
        ({"fractions": [0.999, 0.001]}, "at least one query in each"),
    ],
)
def test_impossible_splits_are_refused(
    tmp_path: Path, mixed: QuerySet, options: dict[str, object], words: str
) -> None:
    assert 40 == len(mixed)
    with pytest.raises((InvalidConfiguration, InvalidData)) as caught:
        split([tmp_path / "mixed.txt"], tmp_path / "out", **options)  # type: ignore[arg-type]

    assert words in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_not_split_into(tmp_path: Path, mixed: QuerySet) -> None:
    assert 40 == len(mixed)
    with pytest.raises(InvalidData, match="a folder that does not exist yet"):
        split([tmp_path / "mixed.txt"], tmp_path, folds=3)


@pytest.mark.parametrize("options", [{}, {"fractions": [0.5, 0.6]}, {"fractions": [0.5, 0.5]}])
def test_what_can_be_refused_at_once_is_refused_before_the_data_are_read(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "out").write_text("")

    with pytest.raises((InvalidConfiguration, InvalidData)) as caught:
        split([tmp_path / "absent.txt"], tmp_path / "out", **options)

    assert "absent" not in str(caught.value)


def test_a_file_is_not_split_into(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("1 qid:1 1:1\n")

    with pytest.raises(InvalidData) as caught:
        split([path], path, folds=3)

    assert f"{path}: expected a folder that does not exist yet, found a file" == str(caught.value)


def test_folds_of_uneven_sizes_and_of_single_queries_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"1 qid:{i // 2} 1:{i}\n" for i in range(10)))

    three = split([path], tmp_path / "three", folds=3)
    five = split([path], tmp_path / "five", folds=5)

    # Five queries in three parts are 2, 2 and 1; each fold learns from one, validates on the next, tests on the last.
    assert [(2, 4), (2, 4), (1, 2)] == [
        three[f"Fold1/{name}.txt"] for name in ("train", "validation", "test")
    ]
    assert [(2, 4), (1, 2), (2, 4)] == [
        three[f"Fold2/{name}.txt"] for name in ("train", "validation", "test")
    ]
    assert [(1, 2), (2, 4), (2, 4)] == [
        three[f"Fold3/{name}.txt"] for name in ("train", "validation", "test")
    ]
    assert {(3, 6), (1, 2)} == set(five.values())
    assert 15 == len(five)


def test_queries_left_over_go_to_the_largest_remainders_first_ones_first(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"1 qid:{i} 1:{i}\n" for i in range(7)))

    # 3.5 and 3.5; 2.1, 2.1 and 2.8; 0.7 has to be one.
    halves = split([path], tmp_path / "halves", fractions=[0.5, 0.5])
    thirds = split([path], tmp_path / "thirds", fractions=[0.3, 0.3, 0.4])
    tenth = split([path], tmp_path / "tenth", fractions=[0.9, 0.1])

    assert {"train.txt": (4, 4), "test.txt": (3, 3)} == halves
    assert {"train.txt": (2, 2), "validation.txt": (2, 2), "test.txt": (3, 3)} == thirds
    assert {"train.txt": (6, 6), "test.txt": (1, 1)} == tenth


def test_the_seed_of_a_split_is_zero_by_default_and_deals_at_random(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"1 qid:{i} 1:{i}\n" for i in range(30)))
    parts = {}
    for name, options in (("a", {}), ("b", {"seed": 0}), ("c", {"seed": 1})):
        split([path], tmp_path / name, fractions=[0.5, 0.5], **options)  # type: ignore[arg-type]
        parts[name] = read([tmp_path / name / "train.txt"]).query_ids

    assert parts["a"] == parts["b"] != parts["c"]
    assert {"0", "1", "2", "3"} - set(parts["a"])  # not the first half
    # Within a part queries keep the order of the input.
    assert sorted(map(int, parts["a"])) == [int(query) for query in parts["a"]]


def test_a_split_tells_how_far_it_is_and_what_it_took(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("grade,qid,x,y\n1,a,2,3\n0,b,4,5\n")
    told: list[tuple[str, int, int]] = []
    said: list[str] = []

    report = split(
        [path],
        tmp_path / "out",
        fractions=[0.5, 0.5],
        to="parquet",
        progress=lambda task, done, total: told.append((task, done, total)),
        columns=Columns(label="grade", ignore=("y",)),
        say=said.append,
    )

    assert {"train.parquet": (1, 1), "test.parquet": (1, 1)} == report
    assert ["checking", "converting"] == list(dict.fromkeys(task for task, _, _ in told))
    assert 1 == len(said)
    assert ("x",) == read([tmp_path / "out" / "test.parquet"]).feature_names


def test_sparse_text_is_split_in_its_width(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("1 qid:a 2:5\n0 qid:a 1:1 4:2\n1 qid:b 3:7\n0 qid:b 1:1\n")

    report = split([path], tmp_path / "out", fractions=[0.5, 0.5], to="parquet")

    whole = read([path])
    for name in report:
        part = read([tmp_path / "out" / name])
        expected = whole.select([whole.query_ids.index(part.query_ids[0])])
        np.testing.assert_array_equal(expected.documents, part.documents)


@pytest.mark.parametrize(
    "fractions", [[0.29, 0.71], [0.07, 0.93], [0.57, 0.43], [0.1, 0.2, 0.7], [0.28, 0.14, 0.58]]
)
def test_shares_that_are_whole_but_for_rounding_are_met(tmp_path: Path, fractions: list[float]) -> None:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"1 qid:{i} 1:{i}\n" for i in range(100)))

    report = split([path], tmp_path / "out", fractions=fractions)

    assert [round(100 * share) for share in fractions] == [queries for queries, _ in report.values()]


@pytest.mark.parametrize(("off", "refused"), [(5e-10, False), (5e-9, True)])
def test_fractions_add_up_to_one_but_for_rounding(tmp_path: Path, off: float, *, refused: bool) -> None:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"1 qid:{i} 1:{i}\n" for i in range(4)))

    for number, first in enumerate((0.5 + off, 0.5 - off)):
        if refused:
            with pytest.raises(InvalidConfiguration) as caught:
                split([path], tmp_path / f"{number}", fractions=[first, 0.5])
            expected = f"expected two or three fractions above 0 that add up to 1, found {first}, 0.5"
            assert expected == str(caught.value)
        else:
            assert [2, 2] == [
                q for q, _ in split([path], tmp_path / f"{number}", fractions=[first, 0.5]).values()
            ]


@pytest.mark.parametrize("sparse", [False, True])
def test_documents_of_all_blocks_are_dealt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sparse: bool
) -> None:
    """Some blocks have no document of a part, others only such."""
    monkeypatch.setattr(sources, "BLOCK", 30)
    monkeypatch.setattr(sources, "_PIECE", 30)
    path = tmp_path / "in.txt"
    absent = "" if sparse else "2:0 "
    path.write_text("".join(f"{i % 3} qid:{i // 3} 1:{i} {absent}3:1 # d{i}\n" for i in range(60)))
    whole = read([path])

    report = split([path], tmp_path / "out", fractions=[0.2, 0.3, 0.5], to="parquet")

    assert [(4, 12), (6, 18), (10, 30)] == list(report.values())
    for name in report:
        part = read([tmp_path / "out" / name])
        expected = whole.select([whole.query_ids.index(query) for query in part.query_ids])
        np.testing.assert_array_equal(expected.documents, part.documents)
        np.testing.assert_array_equal(expected.labels, part.labels)
        assert list(expected.comments or ()) == list(part.comments or ())
