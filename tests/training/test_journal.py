"""A journal of finished work: what is known is not done again, and nothing else is taken for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidData, PublishFailed
from localrank_training.journal import Journal, each_known

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIECES: list[dict[str, Any]] = [{"fold": number} for number in range(4)]


def squares(journal: Journal | None, done: list[int]) -> list[Any]:
    def do(missing: list[int]) -> Iterator[dict[str, Any]]:
        for number in missing:
            done.append(number)
            yield {"square": number**2, "thirds": np.array([number / 3, np.nan]), "problem": None}

    return [
        (one["square"], one["problem"], one["thirds"].tobytes()) for one in each_known(PIECES, do, journal)
    ]


def test_what_is_known_is_not_done_again_and_is_the_same_to_the_bit(tmp_path: Path) -> None:
    path, done = tmp_path / "new" / "run.jsonl", list[int]()
    first = squares(Journal(path, "data", "settings"), done)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[2], lines[1][:-5]]))

    journal = Journal(path, "data", "settings")
    again = squares(journal, done)

    assert first == again == squares(None, [])
    assert (2, [0, 1, 2, 3, 1, 3]) == (journal.known, done)
    assert [lines[0], lines[2], lines[1], lines[3]] == path.read_text().splitlines(keepends=True)
    journal.remove()
    journal.remove()
    assert not path.exists()


def test_another_basis_takes_over_nothing(tmp_path: Path) -> None:
    done: list[int] = []
    squares(Journal(tmp_path / "run.jsonl", "data"), done)

    squares(Journal(tmp_path / "run.jsonl", "other data"), done)

    assert [*range(4), *range(4)] == done


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[1]",
        b'{"key": "a"}',
        b'{"key": "a", "found": 3}',
        b'{"key": "a", "found": {"thirds": {"float64": "!!AAAA"}}}',
        b'{"key": "a", "found": {"thirds": {}}}',
        b"\x93\xff",
    ],
)
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "run.jsonl").write_bytes(line + b"\n")

    with pytest.raises(InvalidData, match=r"run.jsonl:1: expected one finished trial, found "):
        Journal(tmp_path / "run.jsonl")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(PublishFailed, match=r"run.jsonl: cannot be written: "):
        squares(Journal(tmp_path / "file" / "run.jsonl"), [])
    with pytest.raises(PublishFailed, match="cannot be written: Is a directory"):
        Journal(tmp_path)
