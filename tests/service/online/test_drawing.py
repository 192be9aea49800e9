"""Draws are always the same, uniform, and independent of those of other salts."""

from __future__ import annotations

from itertools import islice

import numpy as np
from scipy.stats import chi2_contingency, chisquare

from localrank_service.online.arms import coins, place, unit_of
from localrank_service.wire.query import Options

N_UNITS = 20_000
KEY = bytes(range(32))


def places(salt: str, count: int = N_UNITS) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([place(KEY, salt, f"session-{number}") for number in range(count)])


def test_a_unit_has_the_same_place_for_ever() -> None:
    """Fixed figures: another place after an update would move sessions from arm to arm."""
    found = [round(place(KEY, salt, "s1"), 8) for salt in ("web-4", "web-5")]
    assert [0.77640429, 0.86791907] == found
    assert [False, True, True, True, True, False] == list(islice(coins(KEY, "web-4", "r1"), 6))


def test_places_are_uniform() -> None:
    for salt in ("a", "b", "canary"):
        counts, _ = np.histogram(places(salt), bins=50, range=(0, 1))

        assert chisquare(counts).pvalue > 1e-4


def test_places_of_different_salts_are_independent() -> None:
    first, second = places("one"), places("two")

    table, _, _ = np.histogram2d(first, second, bins=10, range=((0, 1), (0, 1)))

    assert chi2_contingency(table).pvalue > 1e-4


def test_places_of_different_keys_are_independent() -> None:
    """Who knows the salt and the unit, but not the key, knows nothing of the place."""
    other = np.array([place(bytes(32), "one", f"session-{number}") for number in range(N_UNITS)])

    table, _, _ = np.histogram2d(places("one"), other, bins=10, range=((0, 1), (0, 1)))

    assert chi2_contingency(table).pvalue > 1e-4


def test_a_larger_share_keeps_the_units_that_it_had() -> None:
    found = places("web")

    assert set(np.flatnonzero(found < 0.05)) <= set(np.flatnonzero(found < 0.2))
    assert abs((found < 0.05).mean() - 0.05) < 0.01


def test_coins_are_fair_and_independent_of_places_and_of_each_other() -> None:
    tosses = np.array([list(islice(coins(KEY, "web", f"r{number}"), 130)) for number in range(4000)])

    assert abs(tosses.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(tosses[:, 0], tosses[:, 1])[0, 1]) < 0.06
    assert abs(np.corrcoef(tosses[:, 0], tosses[:, 128])[0, 1]) < 0.06  # of the next digest
    places_of = [place(KEY, "web", f"r{number}") for number in range(4000)]
    assert abs(np.corrcoef(tosses[:, 0], places_of)[0, 1]) < 0.06


def test_the_unit_is_what_the_request_names() -> None:
    options = Options(query_id=7, session_id="s")

    assert ("s", "7", "r") == tuple(
        unit_of(kind, options, "r") for kind in ("session_id", "query_id", "request")
    )
    assert None is unit_of("session_id", Options(), "r")
    assert 0 <= place(KEY, "salt", "\ud800") < 1  # half of a surrogate pair is a text in JSON
