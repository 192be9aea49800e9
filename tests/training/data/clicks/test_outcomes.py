"""What clicks say about an experiment, calculated by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from localrank_training.data.clicks.joining import JudgedImpression
from localrank_training.data.clicks.outcomes import METRICS, outcomes_of

GOOD: dict[str, Any] = {"name": "test", "arm": "baseline", "unit": "s", "share": 0.5}


def seen(
    time: float, clicked: set[int], n_documents: int = 4, pinned: int = 0, **part: Any
) -> JudgedImpression:
    """An impression whose document ``k`` stood at rank ``k``."""
    impression = {"time": time, "pinned": pinned, "experiment": {"name": "test", **part}}
    return JudgedImpression(impression, np.arange(1, n_documents + 1), clicked, {})


def of_unit(time: float, unit: str, arm: str, share: float, *, clicked: bool) -> JudgedImpression:
    return seen(time, {0} if clicked else set(), unit=unit, arm=arm, share=share)


def test_an_impression_is_worth_the_reciprocal_of_the_first_rank_that_was_clicked() -> None:
    clicked, reciprocal = METRICS["clicked"], METRICS["reciprocal_rank"]

    assert (1.0, 1.0, 0.0) == (clicked([0]), clicked([2, 3]), clicked([]))
    assert (1.0, 1 / 2, 1 / 4, 0.0) == (
        reciprocal([0, 2]),
        reciprocal([3, 1]),
        reciprocal([3]),
        reciprocal([]),
    )


def test_clicks_on_pinned_documents_say_nothing_of_a_version() -> None:
    """The ranks of a verdict are those among the documents that are not pinned."""
    mixed: dict[str, Any] = {"arm": "interleaved", "teams": ["baseline", "candidate"]}
    judged = [
        seen(1, {0, 1}, pinned=2, **mixed),
        seen(2, {1, 2}, pinned=2, **mixed),
        seen(3, {0, 3}, pinned=2, **mixed),
    ]

    [found] = outcomes_of(judged)

    assert {"baseline": 1 / 3, "candidate": 1 / 3} == found.means


def test_the_values_of_a_split_are_the_weighted_differences_from_the_guess() -> None:
    """z = t/pi (y - m) - (1 - t)/(1 - pi) (y - m); the guess m is 0, and the mean so far after 1, 2, 4, ... units."""
    judged = [
        of_unit(1, "a", "candidate", 0.25, clicked=True),
        of_unit(2, "a", "candidate", 0.25, clicked=False),
        of_unit(3, "b", "baseline", 0.25, clicked=True),
        of_unit(4, "c", "baseline", 0.25, clicked=False),
        of_unit(5, "d", "candidate", 0.1, clicked=True),
        of_unit(6, "e", "baseline", 0.1, clicked=True),
        of_unit(7, "f", "candidate", 0.25, clicked=False),
    ]

    [found] = outcomes_of(judged)

    values = [
        4 * (0.5 - 0.0),  # a: half of its impressions were clicked; then the guess is 1/2
        -4 / 3 * (1.0 - 0.5),  # b; then the guess is (1/2 + 1) / 2 = 3/4
        -4 / 3 * (0.0 - 0.75),  # c; the guess stays
        10 * (1.0 - 0.75),  # d; then the guess is 5/2 / 4 = 5/8
        -10 / 9 * (1.0 - 0.625),  # e
        4 * (0.0 - 0.625),  # f
    ]
    np.testing.assert_allclose(found.sample.values, sorted(values))
    assert (-10.0, 10.0) == (found.sample.least, found.sample.most)
    assert ("test", "split", 6) == (found.experiment, found.kind, found.units)
    assert {"candidate": 4, "baseline": 3} == found.impressions
    assert {"baseline": pytest.approx(2 / 3), "candidate": pytest.approx(0.5)} == found.means


@pytest.mark.parametrize(("share", "bound"), [(0.5, 2.0), (0.05, 20.0), (0.95, 20.0)])
def test_a_value_is_bounded_by_the_rarer_arm(share: float, bound: float) -> None:
    [found] = outcomes_of([of_unit(1, "a", "candidate", share, clicked=True)])

    np.testing.assert_allclose([found.sample.least, found.sample.most], [-bound, bound])
    assert {"baseline": 0.0, "candidate": 1.0} == found.means


def test_the_metric_of_a_split_is_the_one_that_is_asked_for() -> None:
    judged = [seen(1, {3, 1}, unit="s", arm="baseline", share=0.5)]

    [clicked], [rank] = outcomes_of(judged), outcomes_of(judged, metric="reciprocal_rank")

    assert (1.0, 0.5) == (clicked.means["baseline"], rank.means["baseline"])


@pytest.mark.parametrize(
    ("clicked", "preference"),
    [({0}, 1), ({1}, -1), ({0, 1}, 0), (set(), 0), ({2}, 0), ({0, 2}, 1), ({0, 3}, 0), ({1, 3}, -1)],
)
def test_the_team_with_more_clicks_is_preferred(clicked: set[int], preference: int) -> None:
    """The third document belongs to both."""
    judged = seen(1, clicked, arm="interleaved", teams=["candidate", "baseline", None, "baseline"])

    [found] = outcomes_of([judged])

    assert [preference] == found.sample.values.tolist()
    assert {"baseline": float(preference < 0), "candidate": float(preference > 0)} == found.means
    assert ("interleaving", 1, -1.0, 1.0) == (
        found.kind,
        found.units,
        found.sample.least,
        found.sample.most,
    )


def test_with_ranks_the_preference_is_that_of_balanced_interleaving() -> None:
    """The document at the second rank was the candidate's first; its team is not asked."""
    part: dict[str, Any] = {
        "arm": "interleaved",
        "teams": ["baseline", "baseline", "baseline"],
        "ranks": [[0, 2], [2, 0], [1, 1]],
    }

    [found] = outcomes_of([seen(1, {1}, **part), seen(2, {1}, **part), seen(3, {0}, **part)])

    assert ([-1.0, 1.0], [1.0, 2.0]) == (found.sample.values.tolist(), found.sample.counts.tolist())
    assert {"baseline": pytest.approx(1 / 3), "candidate": pytest.approx(2 / 3)} == found.means
    assert {"interleaved": 3} == found.impressions


def test_clicks_on_documents_that_were_not_shown_do_not_count() -> None:
    one = seen(1, {0, 1}, arm="interleaved", teams=["candidate", "baseline"])
    one.places[1] = 0

    [found] = outcomes_of([one])

    assert [1.0] == found.sample.values.tolist()


def test_experiments_come_by_name_and_one_may_be_asked_for() -> None:
    judged = [seen(number, {0}, **{**GOOD, "name": name}) for number, name in enumerate("bcabb")]

    assert [("a", 1), ("b", 3), ("c", 1)] == [
        (one.experiment, one.impressions["baseline"]) for one in outcomes_of(judged)
    ]
    assert ["b"] == [one.experiment for one in outcomes_of(judged, experiment="b")]
    assert [] == outcomes_of(judged, experiment="d")


@pytest.mark.parametrize(
    "broken",
    [
        {"name": None},
        {"arm": "both"},
        {"arm": None},
        {"unit": 3},
        {"unit": None},
        {"share": None},
        {"share": "0.5"},
        {"share": 0.0},
        {"share": 1.0},
        {"share": -0.5},
        {"arm": "interleaved"},
        {"arm": "interleaved", "teams": "candidate"},
    ],
)
def test_a_part_with_one_thing_missing_or_wrong_is_left_out(broken: dict[str, Any]) -> None:
    assert 1 == len(outcomes_of([seen(1, set(), **GOOD)]))
    assert [] == outcomes_of([seen(1, set(), **{**GOOD, **broken})])
