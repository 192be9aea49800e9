"""Where results are kept, what is said while they are made, and what happens if they cannot be kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import PublishFailed
from localrank_papers.figures import fits as module
from localrank_papers.figures.fits import Fit, Fits, Planned
from tests.papers.figures.made_up import small_data

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold


def doubled(_fold: Fold | None, number: int) -> Arrays:
    return {"found": np.array([2.0 * number])}


def tripled(_fold: Fold | None, number: int) -> Arrays:
    return {"found": np.array([3.0 * number])}


def some(count: int) -> list[Fit]:
    return [Fit(doubled, settings={"number": number}) for number in range(count)]


def test_a_result_is_kept_by_its_address_and_nothing_beside_it(tmp_path: Path) -> None:
    (fit,) = some(1)

    found = Fits(tmp_path).of(fit)

    assert {"found": [0.0]} == {name: array.tolist() for name, array in found.items()}
    (path,) = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert tmp_path / fit.address[:2] / f"{fit.address[2:]}.npz" == path
    assert re.fullmatch(r"[0-9a-f]{64}", fit.address)


def test_a_plan_counts_each_fit_once(tmp_path: Path) -> None:
    fits = Fits(tmp_path)
    fits.run(some(2))

    found = fits.planned([*some(5), *some(3)])

    assert Planned(5, 2) == found
    assert "5 fits: 2 on disk, 3 to do" == str(found)


def test_everything_that_makes_a_fit_is_in_its_address() -> None:
    first, second = small_data().folds
    fits = [
        Fit(doubled, first, {"number": 1}),
        Fit(doubled, second, {"number": 1}),
        Fit(doubled, None, {"number": 1}),
        Fit(doubled, first, {"number": 2}),
        Fit(tripled, first, {"number": 1}),
    ]

    assert 5 == len({fit.address for fit in fits})
    assert Fit(doubled, None, {"a": 1, "b": 2}).address == Fit(doubled, None, {"b": 2, "a": 1}).address


def test_another_version_or_source_is_another_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [some(1)[0].address]
    monkeypatch.setattr(module, "__version__", "0.0.0")
    addresses.append(some(1)[0].address)
    monkeypatch.setattr("inspect.getsource", lambda _: "changed")
    addresses.append(some(1)[0].address)

    assert 3 == len(set(addresses))


def test_progress_is_told_before_the_first_and_after_each(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    fits = Fits(tmp_path)
    fits.run(some(1))

    fits.run(some(3), lambda *step: told.append(step))

    assert [("fits", 1, 3), ("fits", 2, 3), ("fits", 3, 3)] == told


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        # After one of four, and 31 s: three are left, each as long.
        (31.0, ["2 of 5 fits, about 2 min left", "3 of 5 fits, about 62 s left", "4 of 5 fits, about 31 s left"]),
        (30.0, ["3 of 5 fits, about 60 s left"]),
        (16.0, ["3 of 5 fits, about 32 s left"]),
        (5.0, []),
    ],
)  # fmt: skip
def test_what_is_left_is_said_after_more_than_half_a_minute_and_never_at_the_end(
    step: float, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    fits = Fits(tmp_path, say=said.append)
    fits.run(some(1))
    clock = iter(np.arange(0.0, 1000.0, step).tolist())
    monkeypatch.setattr("time.monotonic", clock.__next__)

    fits.run(some(5))

    assert expected == said


def test_more_fits_are_announced_only_if_some_are_missing(tmp_path: Path) -> None:
    said: list[str] = []
    fits = Fits(tmp_path, say=said.append)
    fits.run(some(1))

    fits.run_more(some(1))
    assert [] == said
    fits.run_more(some(3))

    assert ["more, by what was chosen: 3 fits: 1 on disk, 2 to do"] == said
    assert Planned(3, 3) == fits.planned(some(3))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(PublishFailed, match=r"file/.*npz: cannot be written: Not a directory"):
        Fits(tmp_path / "file").of(some(1)[0])


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (89.0, "89 s"), (90.0, "2 min"), (100.0, "2 min"), (300.0, "5 min")],
)
def test_durations_are_seconds_up_to_a_minute_and_a_half(seconds: float, expected: str) -> None:
    assert expected == module._duration(seconds)
