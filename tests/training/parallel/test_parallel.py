"""Pieces of work: their order, who does them, and with how many threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from threadpoolctl import threadpool_info

from localrank_training.parallel.processes import (
    alone,
    available_cores,
    each_in_parallel,
    elsewhere,
    elsewhere_now,
    in_parallel,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


def added(left: int, right: int) -> tuple[int, int]:
    return left + right, os.getpid()


def threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


class Abacus:
    """Does the pieces itself and remembers how many."""

    def __init__(self) -> None:
        self.done: list[int] = []

    def each(self, work: Callable[..., T], pieces: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        self.done.append(len(pieces))
        return (work(*piece) for piece in pieces)


PIECES = [(1, 2), (3, 4), (5, 6)]


def test_results_come_in_the_order_of_the_pieces_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []

    found = in_parallel(added, PIECES, progress=lambda done, all_: told.append((done, all_)))

    assert [(3, os.getpid()), (7, os.getpid()), (11, os.getpid())] == found
    assert [(1, 3), (2, 3), (3, 3)] == told
    assert [] == in_parallel(added, [])
    assert [] == in_parallel(added, [], workers=4)


def test_one_worker_is_this_process_even_if_others_could_do_it() -> None:
    abacus = Abacus()

    with elsewhere(abacus):
        alone_ = [total for total, _ in in_parallel(added, PIECES, workers=1)]
        counted = [total for total, _ in each_in_parallel(added, PIECES, workers=2)]

    assert [3, 7, 11] == alone_ == counted
    assert [3] == abacus.done


def test_the_pieces_go_elsewhere_only_inside() -> None:
    outer, inner = Abacus(), Abacus()

    assert elsewhere_now() is None
    with elsewhere(outer):
        with elsewhere(inner):
            assert elsewhere_now() is inner
        assert elsewhere_now() is outer
    assert elsewhere_now() is None
    with pytest.raises(ZeroDivisionError), elsewhere(outer):
        raise ZeroDivisionError
    assert elsewhere_now() is None


def test_a_piece_is_done_with_one_thread() -> None:
    before = threads()

    assert {1} == set(alone(threads, ()))
    assert before == threads()
    assert (5, os.getpid()) == alone(added, (2, 3))


def test_cores_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    few = available_cores()
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    all_of_them = available_cores()
    monkeypatch.setattr(os, "cpu_count", lambda: None)

    assert (3, 6, 1) == (few, all_of_them, available_cores())
