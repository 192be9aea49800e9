from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from localrank_training.learners.notes import Note, collected, note

if TYPE_CHECKING:
    import pytest


def test_a_note_goes_to_the_log_and_to_the_nearest_collector(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "localrank_training.learners"), collected() as outer:
        note("svmmap", "before", cuts=3)
        with collected() as inner:
            note("svmmap", "inside")
        note("svmmap", "after")
    note("svmmap", "to nobody")

    assert [said.text for said in outer] == ["before", "after"]
    assert outer[0] == Note("svmmap", "before", {"cuts": 3})
    assert [said.text for said in inner] == ["inside"]
    assert [record.message for record in caplog.records] == [
        f"svmmap: {text}" for text in ("before", "inside", "after")
    ]


def test_threads_do_not_hear_each_other() -> None:
    def fit(name: str) -> list[str]:
        with collected() as notes:
            for _ in range(100):
                note("mhr", name)
        return [said.text for said in notes]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fit, ["a", "b"])) == [["a"] * 100, ["b"] * 100]
