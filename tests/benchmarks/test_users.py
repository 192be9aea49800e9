"""Simulated users click as often as their models say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.users import Cascade, PositionBiased, User

ATTRACTIONS = np.array([0.9, 0.5, 1.0, 0.8])
DRAWS = 1500


def rates(user: User, attractions: np.ndarray = ATTRACTIONS) -> np.ndarray:
    """How often each rank is clicked."""
    random = np.random.default_rng(0)
    counts = np.zeros(len(attractions))
    for _ in range(DRAWS):
        counts[user.clicks(attractions, random)] += 1
    return np.asarray(counts / DRAWS)


#: More than four standard errors, of sqrt(1 / 4 / 1500) = 0.013 at most.
NEAR = 0.06


@pytest.mark.parametrize(
    ("user", "looks"),
    [
        (PositionBiased(), [1, 1 / 2, 1 / 3, 1 / 4]),
        (PositionBiased(2.0), [1, 1 / 4, 1 / 9, 1 / 16]),
        (PositionBiased(0.0), [1, 1, 1, 1]),
    ],
)
def test_a_place_is_looked_at_with_its_power(user: PositionBiased, looks: list[float]) -> None:
    np.testing.assert_allclose(rates(user), looks * ATTRACTIONS, atol=NEAR)


@pytest.mark.parametrize(("user", "satisfied"), [(Cascade(), 0.7), (Cascade(0.2), 0.2), (Cascade(0.0), 0.0)])
def test_a_cascade_goes_on_until_a_click_satisfies(user: Cascade, satisfied: float) -> None:
    """Rank ``k`` is reached if no click before it satisfied: the product of ``1 - attraction * satisfied``."""
    reached = np.cumprod([1.0, *(1 - satisfied * ATTRACTIONS[:-1])])

    np.testing.assert_allclose(rates(user), reached * ATTRACTIONS, atol=NEAR)


def test_a_user_who_is_satisfied_by_any_click_clicks_once() -> None:
    random = np.random.default_rng(1)

    assert {(), (0,), (1,), (2,)} == {tuple(Cascade(1.0).clicks(np.full(3, 0.5), random)) for _ in range(200)}


@pytest.mark.parametrize("user", [PositionBiased(0.0), Cascade(0.0)])
def test_ranks_come_in_order_and_nothing_without_attraction_is_clicked(user: User) -> None:
    assert [0, 2] == user.clicks(np.array([1.0, 0.0, 1.0, 0.0]), np.random.default_rng(0))
    assert [] == user.clicks(np.zeros(3), np.random.default_rng(0))
