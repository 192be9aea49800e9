"""Propensities, recovered from simulated users whose propensities are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from localrank.errors import InvalidData
from localrank_training.clicks.propensities import Propensities, Tally, fit, from_power


def simulated(looks: np.ndarray, *, impressions: int, seed: int = 0, swaps: bool = True) -> Tally:
    """Users of the position-based model; each time a query's documents stand in another order."""
    rng = np.random.default_rng(seed)
    places = len(looks)
    attraction = rng.uniform(0.05, 0.9, (40, places))
    tally = Tally()
    for query in rng.integers(0, 40, impressions):
        order = rng.permutation(places) if swaps else np.arange(places)
        clicked = rng.random(places) < looks * attraction[query, order]
        for place, document in enumerate(order.tolist()):
            tally.add((int(query), document), place + 1, clicked=bool(clicked[place]))
    return tally


@pytest.mark.parametrize("eta", [0.5, 1.0, 2.0])
def test_known_propensities_are_recovered_from_clicks(eta: float) -> None:
    looks = np.arange(1, 9) ** -eta

    found = fit(simulated(looks, impressions=20_000))

    # The rarest clicks: place 8 of eta 2, about 20,000 x 0.0156 x 0.47 = 150 of them, 8 % standard error.
    np.testing.assert_allclose(looks, found.ratios, rtol=0.25)
    np.testing.assert_allclose(looks[:4], found.ratios[:4], rtol=0.12)
    assert 8 == found.known


def test_two_rankers_are_enough_to_compare_places() -> None:
    """As in an interleaving test: neighbours swap, so that places are compared along a chain."""
    rng = np.random.default_rng(3)
    looks = np.array([1.0, 0.7, 0.5, 0.4])
    attraction = rng.uniform(0.2, 0.9, (30, 4))
    tally = Tally()
    for _ in range(30_000):
        query, swapped = int(rng.integers(30)), int(rng.integers(4))
        order = list(range(4))
        if swapped < 3:
            order[swapped], order[swapped + 1] = order[swapped + 1], order[swapped]
        for place, document in enumerate(order):
            clicked = rng.random() < looks[place] * attraction[query, document]
            tally.add((query, document), place + 1, clicked=bool(clicked))

    np.testing.assert_allclose(looks, fit(tally).ratios, rtol=0.08)


def test_the_ratios_have_the_greatest_likelihood() -> None:
    """Against a general optimiser of the same likelihood, from several starts."""
    tally = simulated(np.array([1.0, 0.6, 0.3]), impressions=400, seed=5)
    pairs, places, shown, clicks = tally.arrays()
    n_pairs = int(pairs.max()) + 1

    def negated(parameters: np.ndarray) -> float:
        look, attract = 1 / (1 + np.exp(-parameters[:3])), 1 / (1 + np.exp(-parameters[3:]))
        chance = look[places] * attract[pairs]
        return -float(clicks @ np.log(chance) + (shown - clicks) @ np.log1p(-chance))

    rng = np.random.default_rng(0)
    starts = [rng.normal(0, 1, 3 + n_pairs) for _ in range(3)]
    best = min((minimize(negated, start, method="L-BFGS-B") for start in starts), key=lambda one: one.fun)
    expected = 1 / (1 + np.exp(-best.x[:3]))

    np.testing.assert_allclose(expected / expected[0], fit(tally).ratios, rtol=0.02)


def test_places_that_cannot_be_compared_count_as_the_last_that_can() -> None:
    tally = simulated(np.array([1.0, 0.5]), impressions=500)
    for _ in range(50):
        tally.add("always third", 3, clicked=True)

    found = fit(tally)

    assert 2 == found.known
    assert found.ratios[1] == found.ratios[2] == found.of(3) == found.of(30)


def test_a_log_without_swaps_tells_nothing_and_says_what_to_do() -> None:
    tally = simulated(np.array([1.0, 0.5]), impressions=500, swaps=False)

    with pytest.raises(InvalidData, match="send a query_id with each query, log an interleaving test"):
        fit(tally)
    with pytest.raises(InvalidData, match="expected documents that were shown"):
        fit(Tally())


def test_a_formula_and_a_file_give_ratios() -> None:
    power = from_power(1.0, 4)

    assert [1, 1 / 2, 1 / 3, 1 / 4] == power.ratios.tolist()
    read = Propensities.from_json({"ratios": [2, 1]}, "places.json")
    assert [1.0, 0.5] == read.ratios.tolist()


@pytest.mark.parametrize("ratios", [[], [1, 0], [1, -1], [1, "x"], None, [True]])
def test_ratios_that_are_none_are_refused(ratios: object) -> None:
    with pytest.raises(InvalidData, match=r"places\.json"):
        Propensities.from_json({"ratios": ratios}, "places.json")
