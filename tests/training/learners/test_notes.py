from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from localrank_training.learners.notes import Note, collected, figure, note


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


def test_a_figure_is_the_mean_over_the_notes_that_have_it() -> None:
    notes = [
        Note("gbrt", "", {"rounds": 10}),
        Note("gbrt", "", {"value": 3}),
        Note("gbrt", "", {"rounds": 15}),
    ]

    assert (12.5, 3.0) == (figure(notes, "rounds"), figure(notes, "value"))
    assert figure(notes, "cuts") is None
    assert figure([], "rounds") is None


def test_what_is_noted_after_a_failure_goes_to_the_outer_collector() -> None:
    with collected() as outer:
        with pytest.raises(ZeroDivisionError), collected():
            raise ZeroDivisionError
        note("mhr", "after")

    assert ["after"] == [said.text for said in outer]
