"""What a comparison is said to show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank_papers.figures.transfer import METRICS, compared, said


def comparison(low: float | None, high: float, p: float) -> Any:
    interval = None if low is None else SimpleNamespace(low=low, high=high)
    return SimpleNamespace(
        metric="map", candidate=0.5, baseline=0.25, difference=0.25, p_holm=p,
        interval=interval, interval_text="[INTERVAL]" if interval else "too few differ",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "p", "begins"),
    [
        (None, 0.0, 0.001, "Ours and theirs: MAP 0.5000 against 0.2500; too few differ."),
        (-0.1, 0.4, 0.001, "Ours and theirs cannot be told apart: MAP"),
        (0.0, 0.4, 0.001, "Ours and theirs cannot be told apart: MAP"),
        (-0.4, 0.0, 0.001, "Ours and theirs cannot be told apart: MAP"),
        (0.1, 0.4, 0.05, "Ours: better than theirs: MAP"),
        (-0.4, -0.1, 0.05, "Ours: worse than theirs: MAP"),
        (0.1, 0.4, 0.051, "Ours: better than theirs by the interval, but not after Holm's correction: MAP"),
        (-0.4, -0.1, 0.051, "Ours: worse than theirs by the interval, but not after Holm's correction: MAP"),
    ],
)
def test_no_more_is_said_than_the_interval_and_holm_allow(
    low: float | None, high: float, p: float, begins: str
) -> None:
    found = said(comparison(low, high, p), "Ours", "theirs")

    assert found.startswith(begins)
    if low is not None:
        assert found.endswith(
            f"0.5000 against 0.2500, difference +0.2500, 95 % interval [INTERVAL], p {p:.3f} (Holm)."
        )


def test_all_metrics_are_one_family() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = rng.random((20, 4)) + 0.2, rng.random((20, 4))

    found = compared(ours, theirs, "letor4")

    assert list(METRICS) == [one.metric for one in found]
    assert {("letor4", 20, 0)} == {(one.convention, one.n_queries, one.n_left_out) for one in found}
    assert pytest.approx((ours - theirs).mean(axis=0)) == [one.difference for one in found]
    assert all(one.p_holm >= one.p for one in found)
    assert max(one.p_holm / one.p for one in found) == pytest.approx(4)
