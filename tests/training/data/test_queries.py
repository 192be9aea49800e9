"""Sets of judged queries in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank_training.data import queries as queries_module
from localrank_training.data import rows
from localrank_training.data.queries import Gap, Origin, concatenated, default_names, repeated
from tests.training.data.sets import query_set

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet


@pytest.fixture
def four() -> QuerySet:
    """Four queries of 1, 2, 3 and 1 documents with one feature, weights and places."""
    documents = np.arange(7, dtype=np.float32)[:, None]
    made = query_set(documents, [0, 1, 1, 2, 2, 2, 3], list(range(7)))
    return replace(made, weights=np.array([1.0, 2.0, 3.0, 4.0]), positions=np.arange(7) * 10)


@pytest.mark.parametrize(
    ("names", "found"), [((), None), (("a",), None), (("a", "b", "c", "b", "a"), "b"), (("", ""), "")]
)
def test_the_first_name_that_was_there_before_is_found(names: tuple[str, ...], found: str | None) -> None:
    assert found == repeated(names)


def test_features_without_names_are_counted_from_one() -> None:
    assert ("f1", "f2", "f3") == default_names(3)
    assert () == default_names(0)


def test_a_gap_says_what_was_found_and_what_was_made_of_it() -> None:
    expected = (
        "a.txt: 2 of 9 lines lack features that other lines have, first line 4 without feature 3; "
        "these are read as zeros"
    )

    assert expected == str(Gap("a.txt", 4, 3, 2, 9))


def test_an_origin_finds_the_file_of_each_document() -> None:
    origin = Origin(("a", "b", "c"), np.array([0, 2, 3]), np.array([1, 5, 2, 7, 8], np.int32))

    assert ["a:1", "a:5", "b:2", "c:7", "c:8"] == [origin.of(position) for position in range(5)]


def test_chosen_queries_keep_their_weights_and_places(four: QuerySet) -> None:
    chosen = four.select([2, 0])

    assert chosen.weights is not None
    assert chosen.positions is not None
    assert [3, 1] == chosen.weights.tolist()
    assert [30, 40, 50, 0] == chosen.positions.tolist()
    assert np.int64 == chosen.offsets.dtype


def test_queries_without_weights_count_one_beside_others_and_were_not_shown(four: QuerySet) -> None:
    plain = replace(four, weights=None, positions=None)

    both, neither = concatenated([four, plain]), concatenated([plain, plain])

    assert both.weights is not None
    assert both.positions is not None
    assert [1, 2, 3, 4, 1, 1, 1, 1] == both.weights.tolist()
    assert [0, 10, 20, 30, 40, 50, 60, *[0] * 7] == both.positions.tolist()
    assert np.int64 == both.positions.dtype
    assert neither.weights is None
    assert neither.positions is None
    assert [0, 1, 3, 6, 7, 8, 10, 13, 14] == both.offsets.tolist()
    assert np.int64 == both.offsets.dtype
    assert [*range(7), *range(7)] == both.labels.tolist() == both.lines.tolist()
    assert ("q0", "q1", "q2", "q3") * 2 == both.query_ids
    assert both.comments is None


def test_documents_of_several_parts_are_joined_in_memory_only_if_they_fit(
    four: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(concatenated([four, four]).documents, np.ndarray)

    monkeypatch.setattr(rows, "HELD", 4 * 14 - 1)
    joined = concatenated([four, four]).documents

    assert isinstance(joined, rows.Joined)
    assert [*range(7), *range(7)] == np.asarray(joined)[:, 0].tolist()


@pytest.mark.parametrize("most", [55, 56])
def test_a_set_is_held_in_memory_if_it_is_not_too_large(
    four: QuerySet, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    apart = four.with_documents(rows.Joined([four.documents, four.documents]).as_matrix)
    monkeypatch.setattr(queries_module, "HELD", most)

    held = apart.held().documents

    assert [*range(7), *range(7)] == held[:, 0].tolist()
    # Otherwise all of it is in a temporary file.
    assert (most == 56) == held.flags.owndata


def test_portions_are_of_about_a_million_numbers(four: QuerySet) -> None:
    wide = replace(four, documents=np.lib.stride_tricks.as_strided(four.documents, (7, 2**19), (4, 0)))

    assert 2**20 == rows.CELLS
    assert [(0, 1), (1, 2), (2, 3), (3, 4)] == list(wide.portions())
    assert [(0, 4)] == list(four.portions())
    assert [(0, 1), (1, 2), (2, 3), (3, 4)] == list(four.portions(0))


def test_pages_of_a_mapped_file_are_given_back_when_they_were_seen(
    four: QuerySet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(queries_module, "forget", lambda _, begin, end: seen.append((begin, end)))
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", 0, (7, 1))
    mapped[:] = four.documents
    stored = four.with_documents(mapped)

    documents = stored.documents_of(2)
    assert [(3, 6)] == seen
    assert [3, 4, 5] == documents[:, 0].tolist()
    assert not isinstance(documents, np.memmap)
    assert np.shares_memory(four.documents, four.documents_of(2))

    seen.clear()
    assert [(0, 2), (2, 3), (3, 4)] == list(stored.portions(3))
    assert [(0, 3), (3, 6), (6, 7)] == seen
