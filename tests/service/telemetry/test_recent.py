"""Quantiles over the last minutes are those of what was measured then."""

from __future__ import annotations

import itertools
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank_service.telemetry import recent
from localrank_service.telemetry.counts import Counts
from localrank_service.telemetry.recent import BOUNDS, QUANTILES, SECONDS, WINDOWS, Recent, within
from tests.service.telemetry.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

TIMES = st.lists(st.floats(BOUNDS[0], BOUNDS[-1]), min_size=1, max_size=300)
MOMENTS = st.lists(st.floats(0, 3000).map(lambda second: 5000 + second), max_size=60)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(recent, "time", clock)
    return clock


@given(TIMES)
def test_quantiles_are_within_a_tenth_of_the_sorted_times(times: list[float]) -> None:
    """Definition: the quantile q of n is the smallest of which ceil(q n) are at most as large."""
    counts = Counts(None)
    series = Recent(counts)
    for seconds in times:
        series.ranked("web", {"total": 1e3 * seconds})

    found = series.shown(counts.counted(), time.monotonic(), uptime=1e4)["15m"]["milliseconds"]["total"]

    for name, share in QUANTILES.items():
        exact = sorted(times)[math.ceil(share * len(times)) - 1]
        assert abs(found[name] / (1e3 * exact) - 1) < 0.1


@given(MOMENTS)
def test_a_window_holds_its_slices_and_no_others(moments: list[float]) -> None:
    """Counted by hand: an observation is in a window if its slice began within it."""
    cells = [0.0] * recent.size(2)
    for moment in sorted(moments):
        recent.add(cells, moment // SECONDS, 1)
    now = max(moments, default=5000.0) + 7

    found = within([cells], now)

    for (_, several), window in zip(found, WINDOWS.values(), strict=True):
        first = now // SECONDS * SECONDS - window
        assert sum(moment >= first for moment in moments) == several


def test_a_window_begins_with_a_slice() -> None:
    """Slices of 15 s: at 1010 s the current one began at 1005, so the last minute at 945."""
    before, first, current, next_one = 944.9, 945.0, 1005.0, 1020.0
    cells = [0.0] * recent.size(1)
    for moment in (before, first, current, next_one):
        recent.add(cells, moment // SECONDS, 0)

    found = within([cells], 1010.0)

    assert 15 == SECONDS
    assert [2.0, 3.0, 3.0] == found[:, 0].tolist()


def test_quantiles_of_a_hundred_known_times(clock: Clock) -> None:
    counts = Counts(None)
    series = Recent(counts)
    for number in range(1, 101):
        # Apart by more than a bucket: 1.3 ^ (number / 4) ms, the 50th, 90th, 95th and 99th of them.
        series.ranked("web", {"total": 1.3 ** (number / 4)})

    found = series.shown(counts.counted(), clock.now, uptime=1e4)["1m"]["milliseconds"]["total"]

    for name, rank in {"p50": 50, "p90": 90, "p95": 95, "p99": 99}.items():
        assert 1.3 ** (rank / 4) == pytest.approx(found[name], rel=0.1)


def test_times_are_told_apart_from_10_microseconds_to_a_minute() -> None:
    assert BOUNDS[0] == pytest.approx(1e-5)
    assert BOUNDS[-2] < 60 <= BOUNDS[-1]


def test_a_window_lasts_no_longer_than_the_service(clock: Clock) -> None:
    """The clock stands 10 s behind the beginning of a slice."""
    counts = Counts(None)
    series = Recent(counts)
    for _ in range(14):
        series.ranked("web", {"total": 1.0})

    young = series.shown(counts.counted(), clock.now, uptime=7.0)
    old = series.shown(counts.counted(), clock.now, uptime=1e4)

    assert [7.0, 7.0, 7.0] == [window["seconds"] for window in young.values()]
    assert [2.0, 2.0, 2.0] == [window["per_second"] for window in young.values()]
    assert [70.0, 310.0, 910.0] == [window["seconds"] for window in old.values()]
    assert 14 / 70 == old["1m"]["per_second"] == old["1m"]["models"]["web"]["per_second"]


def test_models_are_those_that_were_named_and_asked(clock: Clock) -> None:
    counts = Counts(None)
    series = Recent(counts)
    series.ranked("old", {"total": 1.0})
    clock.now += 950.25  # the ring still holds it, and no window does
    series.refused("", "invalid")
    series.ranked("web", {"total": 1.0})

    found = series.series(counts.counted(), clock.now)
    windows = series.shown(counts.counted(), clock.now, uptime=1e4)

    assert {"web"} == found["models"].keys() == windows["15m"]["models"].keys()
    assert (1, 1) == (found["invalid"][-1], windows["15m"]["requests"]["invalid"])
    # The clock stood 10 s behind the beginning of a slice, and 960 is a multiple of 15.
    assert 0.25 == found["latest_seconds"]


def test_what_was_forgotten_is_looked_up_anew(clock: Clock) -> None:
    counts = Counts(None)
    series = Recent(counts)
    series.ranked("web", {"total": 1.0})
    counts.drop(lambda name, _labels: name in Recent.SERIES)
    series.forget()

    series.ranked("web", {"total": 1.0})

    window = series.shown(counts.counted(), clock.now, uptime=1e4)["1m"]["models"]["web"]
    assert {"ok": 1, "invalid": 0, "error": 0} == window["requests"]
    assert 1.0 == pytest.approx(window["milliseconds"]["total"]["p50"], rel=0.1)


def test_workers_add_up_and_a_window_moves_on(tmp_path: Path, clock: Clock) -> None:
    counts = [Counts(tmp_path), Counts(tmp_path)]
    one, other = map(Recent, counts)
    for _ in range(99):
        one.ranked("web", {"score": 1.0, "total": 2.0})
        clock.now += 0.1
    other.ranked("web", {"score": 100.0, "total": 2000.0})
    other.ranked("demo", {"total": 1.0})
    other.refused("web", "invalid")
    other.refused("", "error")

    def shown() -> dict[str, Any]:
        return one.shown(counts[1].counted(), clock.now, uptime=1e4)

    at_once = shown()
    clock.now += 80
    later = shown()
    clock.now += 1000
    at_last = shown()

    minute = at_once["1m"]["models"]["web"]
    assert {"ok": 100, "invalid": 1, "error": 0} == minute["requests"]
    assert {"p50", "p90", "p95", "p99"} == minute["milliseconds"]["score"].keys()
    assert 1.0 == pytest.approx(minute["milliseconds"]["score"]["p99"], rel=0.1)
    assert {"ok": 101, "invalid": 1, "error": 1} == at_once["1m"]["requests"]
    assert 60 <= at_once["1m"]["seconds"] < 75
    assert 101 + 2 == pytest.approx(at_once["1m"]["per_second"] * at_once["1m"]["seconds"], rel=0.01)
    assert {} == later["1m"]["models"]
    assert {"demo", "web"} == later["5m"]["models"].keys() == later["15m"]["models"].keys()
    assert {"ok": 0, "invalid": 0, "error": 0} == at_last["15m"]["requests"]
    assert {} == at_last["15m"]["milliseconds"]


def test_times_outside_of_all_bounds_are_shown_as_the_bound(clock: Clock) -> None:
    counts = Counts(None)
    series = Recent(counts)
    series.ranked("short", {"total": 0.0})
    series.ranked("long", {"total": 1e9})

    models = series.shown(counts.counted(), clock.now, uptime=1e4)["1m"]["models"]

    assert 0.01 == pytest.approx(models["short"]["milliseconds"]["total"]["p50"])
    assert 1e3 * BOUNDS[-1] == pytest.approx(models["long"]["milliseconds"]["total"]["p50"], rel=1e-2)


@pytest.mark.parametrize("bucket", [1, 2, 30, len(BOUNDS) - 2, len(BOUNDS) - 1])
def test_a_time_is_shown_as_the_middle_of_its_bucket(bucket: int, clock: Clock) -> None:
    """The geometric mean of both bounds, in milliseconds with three digits."""
    counts = Counts(None)
    series = Recent(counts)
    expected = float(f"{1e3 * math.sqrt(BOUNDS[bucket - 1] * BOUNDS[bucket]):.3g}")
    for number, seconds in enumerate((1.001 * BOUNDS[bucket - 1], 0.999 * BOUNDS[bucket])):
        series.ranked(f"model-{number}", {"total": 1e3 * seconds})

    models = series.shown(counts.counted(), clock.now, uptime=1e4)["1m"]["models"]

    for figures in models.values():
        assert dict.fromkeys(QUANTILES, expected) == figures["milliseconds"]["total"]


@pytest.mark.parametrize(
    ("n", "p50", "p90", "p95", "p99"),
    [
        (1, 1, 1, 1, 1),
        (2, 1, 2, 2, 2),
        (3, 2, 3, 3, 3),
        (10, 5, 9, 10, 10),
        (11, 6, 10, 11, 11),
        (200, 100, 180, 190, 198),
    ],
)
def test_a_quantile_is_the_one_of_its_rank(n: int, p50: int, p90: int, p95: int, p99: int) -> None:
    """Rank ceil(q n), counted from 1; every time has two buckets to itself, so that ranks are told apart."""
    few = len(BOUNDS) // 2
    buckets = np.zeros(len(BOUNDS) + 1)
    places = [1 + (rank - 1) * few * 2 // max(n, few * 2) for rank in range(1, n + 1)]
    for place in places:
        buckets[place] += 1

    found = recent.quantiles(buckets)

    assert found is not None
    for name, rank in {"p50": p50, "p90": p90, "p95": p95, "p99": p99}.items():
        place = places[rank - 1]
        assert math.sqrt(BOUNDS[place - 1] * BOUNDS[place]) == pytest.approx(found[name])


def test_empty_buckets_have_no_quantiles() -> None:
    assert recent.quantiles(np.zeros(len(BOUNDS) + 1)) is None


@given(st.lists(MOMENTS, min_size=1, max_size=3), st.integers(1, 3))
def test_a_slice_holds_what_was_counted_in_it_over_all_rings(
    rings: list[list[float]], n_buckets: int
) -> None:
    """Counted by hand: the last of 61 slices is the current one."""
    several = []
    for moments in rings:
        cells = [0.0] * recent.size(n_buckets)
        for position, moment in enumerate(sorted(moments)):
            recent.add(cells, moment // SECONDS, position % n_buckets)
        several.append(cells)
    now = max((moment for moments in rings for moment in moments), default=5000.0) + 7

    found = recent.by_slice(several, now)

    assert (61, n_buckets) == found.shape
    for position, counts in enumerate(found):
        number = now // SECONDS - 60 + position
        for bucket, count in enumerate(counts):
            assert count == sum(
                moment // SECONDS == number and place % n_buckets == bucket
                for moments in rings
                for place, moment in enumerate(sorted(moments))
            )


def test_slices_before_the_first_are_empty() -> None:
    """A machine that has just started: the monotonic clock begins at 0, and a ring that was never written holds zeros."""
    cells = [0.0] * recent.size(1)
    recent.add(cells, 1.0, 0)

    assert 1.0 == recent.by_slice([cells], 20.0).sum() == recent.by_slice([cells], 20.0)[60, 0]
    assert 0.0 == recent.by_slice([[0.0] * recent.size(1)], 20.0).sum()
    assert [1.0, 1.0, 1.0] == within([cells], 20.0)[:, 0].tolist()
    assert [0.0, 0.0, 0.0] == within([[5.0] * recent.size(1)], 20.0)[:, 0].tolist()


def test_a_slice_that_comes_round_again_begins_empty() -> None:
    cells = [0.0] * recent.size(3)
    for bucket in range(3):
        recent.add(cells, 7.0, bucket)
    recent.add(cells, 8.0, 0)

    recent.add(cells, 7.0 + 61, 1)

    assert [68.0, 0.0, 1.0, 0.0] == cells[7 * 4 : 8 * 4]
    assert [8.0, 1.0, 0.0, 0.0] == cells[8 * 4 : 9 * 4]
    assert 61 * 4 == len(cells) == recent.size(3)


def test_the_course_tells_requests_and_times_of_each_slice(clock: Clock) -> None:
    """One slice before the current one a request of 2 ms; in the current one two of 100 ms, a mistake and a failure."""
    counts = Counts(None)
    series = Recent(counts)
    series.ranked("web", {"score": 50.0, "total": 2.0})
    clock.now += SECONDS
    for _ in range(2):
        series.ranked("web", {"total": 100.0})
    series.ranked("demo", {"total": 1.0})
    series.refused("web", "invalid")
    series.refused("", "error")

    found = series.series(counts.counted(), clock.now)

    quiet = [0] * 59
    web = found["models"]["web"]
    assert {"seconds", "latest_seconds", "ok", "invalid", "error", "p50", "p99", "models"} == found.keys()
    assert ([*quiet, 1, 3], [*quiet, 0, 1], [*quiet, 0, 1]) == (found["ok"], found["invalid"], found["error"])
    assert ([*quiet, 1, 2], [*quiet, 0, 1], [*quiet, 0, 0]) == (web["ok"], web["invalid"], web["error"])
    assert [None] * 59 == web["p50"][:59] == found["p99"][:59]
    assert [2.0, 100.0] == pytest.approx(web["p50"][59:], rel=0.1)
    assert [2.0, 100.0] == pytest.approx(found["p99"][59:], rel=0.1)
    assert {"demo", "web"} == found["models"].keys()
    assert ["demo", "web"] == list(found["models"])
    assert (15, 10.0) == (found["seconds"], found["latest_seconds"])


def test_without_any_request_the_course_is_empty(clock: Clock) -> None:
    counts = Counts(None)
    series = Recent(counts)

    found = series.series(counts.counted(), clock.now)
    windows = series.shown(counts.counted(), clock.now, uptime=0.0)

    assert ([0] * 61, [None] * 61, {}) == (found["ok"], found["p50"], found["models"])
    nothing = {"requests": {"ok": 0, "invalid": 0, "error": 0}, "per_second": 0.0, "milliseconds": {}}
    assert {name: {"seconds": 0.0, **nothing, "models": {}} for name in WINDOWS} == windows


def test_a_model_that_was_only_refused_has_no_times(clock: Clock) -> None:
    counts = Counts(None)
    series = Recent(counts)
    series.refused("web", "error")

    found = series.series(counts.counted(), clock.now)["models"]["web"]
    window = series.shown(counts.counted(), clock.now, uptime=8.0)["5m"]["models"]["web"]

    assert (1, [None] * 61) == (found["error"][-1], found["p50"])
    assert {
        "requests": {"ok": 0, "invalid": 0, "error": 1}, "per_second": 0.125, "milliseconds": {}
    } == window  # fmt: skip


def test_the_rate_has_four_digits(clock: Clock) -> None:
    counts = Counts(None)
    series = Recent(counts)
    for _ in range(2):
        series.ranked("web", {"total": 1.0})

    found = series.shown(counts.counted(), clock.now, uptime=6.06)["1m"]

    assert (6.1, 0.33) == (found["seconds"], found["per_second"])
    assert 0.6667 == series.shown(counts.counted(), clock.now, uptime=3.0)["1m"]["per_second"]


def test_times_are_known_from_one_bucket_below_the_first_bound_to_one_above_the_last() -> None:
    """The number of bounds: steps of a fifth from 10 microseconds to the first above 60 s."""
    assert 87 == len(BOUNDS)
    assert [1.2] * 86 == pytest.approx([after / before for before, after in itertools.pairwise(BOUNDS)])
    assert {"1m": 60, "5m": 300, "15m": 900} == WINDOWS


@pytest.mark.anyio
async def test_stats_show_what_was_answered(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]] * 30})
    await client.post("/v1/rerank", json={"features": [[1, 2, 3]]})
    await client.post("/v1/rerank", json={"features": [[1, 2, 3, 4]], "model": "nope"})

    stats = (await client.get("/v1/stats")).json()

    assert (1, 1) == (stats["workers"], stats["in_flight"])
    assert {"1m", "5m", "15m"} == stats["windows"].keys()
    for window in stats["windows"].values():
        assert {"ok": 3, "invalid": 2, "error": 0} == window["requests"]
        assert {"ok": 3, "invalid": 1, "error": 0} == window["models"]["tiny"]["requests"]
        stages = window["models"]["tiny"]["milliseconds"]
        assert {"decode", "sign", "route", "score", "order", "encode", "total"} <= stages.keys()
        assert stages["total"]["p50"] <= stages["total"]["p99"]
        assert window["seconds"] <= stats["uptime_seconds"] + 0.1
