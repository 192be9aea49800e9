"""What validation queries choose, and what a comparison is said to show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank_papers.figures.transfer import METRICS, choose, compared, figures_of, said


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


class Fold:
    """Stands for the figures of one fold: two settings, three training queries, whose nodes are numbers of clusters."""

    def __init__(self, worth: dict[tuple[int, int], float], begin: int) -> None:
        self.tree, self.figures, self._worth, self._begin = range(3), {"validation": [0, 1]}, worth, begin
        self.asked: list[tuple[str, int, str]] = []

    def routed(self, part: str, clusters: int, by: str = "nearest") -> np.ndarray:
        self.asked.append((part, clusters, by))
        return np.array([clusters, clusters])

    def of_nodes(self, part: str, setting: int, nodes: np.ndarray) -> np.ndarray:
        value = self._worth.get((int(nodes[0]), setting), 0.0)
        if part == "validation":
            # Only the mean over queries of one metric decides.
            return np.array([[value - 0.1, 0, 0, 1 - value], [value + 0.1, 0, 0, 1 - value]])
        return np.full((2, len(METRICS)), 100.0 * self._begin + 10 * nodes[0] + setting)


@pytest.mark.parametrize(
    ("worth", "expected"),
    [
        ({(2, 1): 0.7}, (2, 1)),
        # Of equals the one with fewer clusters, then the first setting.
        ({(1, 1): 0.7, (2, 0): 0.7, (3, 1): 0.7}, (1, 1)),
        ({(3, 0): 0.7, (3, 1): 0.7}, (3, 0)),
        # There is no cut into more clusters than training queries.
        ({(4, 0): 0.9, (3, 1): 0.2}, (3, 1)),
    ],
)
def test_the_best_mean_on_validation_queries_is_chosen(
    worth: dict[tuple[int, int], float], expected: tuple[int, int]
) -> None:
    folds: Any = [Fold(worth, 1), Fold(worth, 2)]

    found = choose(folds, [4, 3, 2, 1], by="average")

    assert [expected] * 2 == [(one.clusters, one.setting) for one in found.choices]
    tests = 10 * expected[0] + expected[1]
    assert [100 + tests] * 2 + [200 + tests] * 2 == found.figures[:, 0].tolist()
    assert {"average"} == {by for *_, by in folds[0].asked}
    assert {1, 2, 3} == {clusters for _, clusters, _ in folds[0].asked}
    assert (2 if expected[0] == 1 else 0) == found.one_cluster


def test_another_metric_may_decide() -> None:
    folds: Any = [Fold({(2, 1): 0.7}, 1)]

    (found,) = choose(folds, [1, 2], metric="ndcg@10").choices

    # It is one less the first metric, so the first of the others is best.
    assert (1, 0) == (found.clusters, found.setting)


def test_given_choices_are_routed_as_wanted() -> None:
    folds: Any = [Fold({}, 1), Fold({}, 2)]
    chosen = choose(folds, [2]).choices

    found = figures_of(folds, chosen, lambda _one, part, clusters: np.array([clusters + len(part)] * 2))

    assert [160.0, 160.0, 260.0, 260.0] == found[:, 0].tolist()


def test_all_metrics_are_one_family() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = rng.random((20, 4)) + 0.2, rng.random((20, 4))

    found = compared(ours, theirs, "letor4")

    assert list(METRICS) == [one.metric for one in found]
    assert {("letor4", 20, 0)} == {(one.convention, one.n_queries, one.n_left_out) for one in found}
    assert pytest.approx((ours - theirs).mean(axis=0)) == [one.difference for one in found]
    assert all(one.p_holm >= one.p for one in found)
    assert max(one.p_holm / one.p for one in found) == pytest.approx(4)
