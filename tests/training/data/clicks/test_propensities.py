"""Propensities, recovered from simulated users whose propensities are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from localrank.errors import InvalidData
from localrank_training.data.clicks.propensities import Propensities, Tally, fit, from_power, trusted


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
    """Of counts, against a general optimiser of the same likelihood, from several starts."""
    tally = simulated(np.array([1.0, 0.6, 0.3]), impressions=400, seed=5)
    pairs, places, shown, clicks = tally.arrays()
    n_pairs = int(pairs.max()) + 1

    def negated(parameters: np.ndarray) -> float:
        means = shown * np.exp(parameters[places] + parameters[3 + pairs])
        return float(means.sum() - clicks @ np.log(means))

    rng = np.random.default_rng(0)
    starts = [rng.normal(-1, 1, 3 + n_pairs) for _ in range(3)]
    best = min((minimize(negated, start, method="L-BFGS-B") for start in starts), key=lambda one: one.fun)
    expected = np.exp(best.x[:3])

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


def swapped(*cells: tuple[str, int, int, int]) -> Tally:
    """A tally of (document, place, times shown, clicks)."""
    tally = Tally()
    for document, place, shown, clicks in cells:
        for number in range(shown):
            tally.add(document, place, clicked=number < clicks)
    return tally


#: One document at two places, clicked twice as often at the first: any attraction fits, and the ratio is one half.
HALF = (("a", 1, 100, 40), ("a", 2, 100, 20))


def test_two_places_are_compared_by_their_rates_of_clicks() -> None:
    found = fit(swapped(*HALF))

    np.testing.assert_allclose(found.ratios, [1.0, 0.5], rtol=1e-4)
    assert ("em", 2) == (found.source, found.known)


@pytest.mark.parametrize(
    "others",
    [
        [("never clicked", 1, 50, 0), ("never clicked", 2, 50, 0)],
        [("at one place", 1, 50, 20)],
        [("at one place", 2, 50, 50)],
    ],
)
def test_documents_that_compare_nothing_change_nothing(others: list[tuple[str, int, int, int]]) -> None:
    np.testing.assert_array_equal(fit(swapped(*HALF)).ratios, fit(swapped(*others, *HALF)).ratios)


def test_places_beyond_a_gap_count_as_the_last_before_it() -> None:
    """The fourth and the fifth place are compared with each other, and neither with the first."""
    found = fit(swapped(*HALF, ("b", 4, 50, 20), ("b", 5, 50, 5)))

    assert 2 == found.known
    np.testing.assert_array_equal(found.ratios[1:], found.ratios[1])
    assert 5 == len(found.ratios)


def test_places_are_compared_along_a_chain_of_documents() -> None:
    """1 and 2 by one document, 2 and 3 by another: the ratios multiply, in whatever order they come."""
    chain = [*HALF, ("b", 2, 100, 30), ("b", 3, 100, 10)]

    for cells in (chain, chain[::-1]):
        found = fit(swapped(*cells))
        assert 3 == found.known
        np.testing.assert_allclose(found.ratios, [1.0, 1 / 2, 1 / 6], rtol=1e-3)


def test_a_place_that_nobody_clicks_has_a_small_propensity_but_some() -> None:
    found = fit(swapped(*HALF, ("a", 3, 100, 0)))

    assert 3 == found.known
    assert 0 < found.ratios[2] < 1e-5


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([("a", 2, 9, 3), ("a", 3, 9, 3)], "and were clicked, found none that reach the second place"),
        ([("a", 1, 9, 3), ("a", 3, 9, 3)], "and were clicked, found none that reach the second place"),
        ([("a", 1, 9, 3), ("b", 2, 9, 3)], "and were clicked, found none; send"),
        ([("a", 1, 9, 0), ("a", 2, 9, 0)], "and were clicked, found none; send"),
    ],
)
def test_places_that_nothing_compares_with_the_first_are_refused(
    cells: list[tuple[str, int, int, int]], message: str
) -> None:
    with pytest.raises(InvalidData, match=message):
        fit(swapped(*cells))


def test_a_tally_counts_by_pair_and_place() -> None:
    pairs, places, shown, clicks = swapped(("a", 1, 3, 2), ("b", 1, 1, 0), ("a", 4, 2, 2)).arrays()

    assert ([0, 1, 0], [0, 0, 3]) == (pairs.tolist(), places.tolist())
    assert ([3, 1, 2], [2, 0, 2]) == (shown.tolist(), clicks.tolist())


def test_ratios_are_written_and_read_back() -> None:
    made = Propensities(np.array([1.0, 1 / 3, 0.1]), 2, "em")

    assert {"ratios": [1.0, 0.333333, 0.1], "known": 2, "source": "em"} == made.to_json()
    read = Propensities.from_json({"ratios": [4, 2, 1.0]}, "places.json")
    assert ([1.0, 0.5, 0.25], 3, "places.json") == (read.ratios.tolist(), read.known, read.source)
    assert [1.0, 0.5, 0.25, 0.25] == [read.of(place) for place in (1, 2, 3, 4)]
    with pytest.raises(InvalidData, match="ratio of place 2: expected a number above 0, found 0"):
        Propensities.from_json({"ratios": [1, 0]}, "places.json")


def test_a_power_falls_with_the_place() -> None:
    half = from_power(0.5, 3)

    np.testing.assert_allclose(half.ratios, [1, 1 / np.sqrt(2), 1 / np.sqrt(3)])
    assert (3, "power:0.5") == (half.known, half.source)


def sparse(looks: np.ndarray, *, impressions: int, seed: int = 0) -> Tally:
    """Most documents are shown twice or thrice, the more attractive ones higher."""
    rng = np.random.default_rng(seed)
    places = len(looks)
    attraction = rng.uniform(0.05, 0.6, (impressions // 3, places))
    tally = Tally()
    for query in rng.integers(0, len(attraction), impressions).tolist():
        order = np.argsort(-(attraction[query] + 0.15 * rng.standard_normal(places)))
        clicked = rng.random(places) < looks * attraction[query, order]
        for place, document in enumerate(order.tolist()):
            tally.add((query, document), place + 1, clicked=bool(clicked[place]))
    return tally


def test_many_documents_that_were_shown_a_few_times_are_enough() -> None:
    looks = np.arange(1, 5) ** -1.0

    found = fit(sparse(looks, impressions=12_000))

    np.testing.assert_allclose(looks, found.ratios, rtol=0.1)


def test_the_errors_are_those_of_repeated_logs() -> None:
    looks = np.array([1.0, 0.6, 0.3])

    found = [fit(sparse(looks, impressions=1500, seed=seed)) for seed in range(40)]

    spread = np.std([np.log(one.ratios) for one in found], axis=0)[1:]
    expected = np.mean([one.errors for one in found], axis=0)[1:]
    # The standard error of a deviation of 40 values is 11 %; clicks vary a little less than counts.
    assert ((0.6 * expected < spread) & (spread < 1.35 * expected)).all()


def test_propensities_that_are_accepted_are_near_and_few_observations_are_refused() -> None:
    looks = np.arange(1, 6) ** -1.0
    enough, few = simulated(looks, impressions=20_000), simulated(looks, impressions=500)

    np.testing.assert_allclose(looks, trusted(fit(enough), enough).ratios, rtol=0.1)
    with pytest.raises(
        InvalidData, match=r"found place 2 with \d+ clicks, known within \d+%; it takes about"
    ):
        trusted(fit(few), few)


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        (
            [1.0, 0.5, 0.9],
            "that they fall from the first place on, found 0[.]8.* at place 3 after 0[.]4.* at place 2",
        ),
        ([0.8, 0.8, 0.8], "found none that is clearly below it: 1, "),
    ],
)
def test_propensities_that_do_not_fall_are_refused(looks: list[float], said: str) -> None:
    tally = simulated(np.array(looks), impressions=12_000)

    with pytest.raises(InvalidData, match=said):
        trusted(fit(tally), tally)


def test_rare_last_places_need_not_be_known() -> None:
    tally = simulated(np.array([1.0, 0.5]), impressions=12_000)
    for _ in range(100):
        tally.add((0, 0), 3, clicked=False)
    tally.add((0, 1), 3, clicked=True)

    found = trusted(fit(tally), tally)

    assert 2 == found.known
    assert found.ratios[1] == found.ratios[2]
