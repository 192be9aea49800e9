"""A canary is taken back for what it does, in time, and hardly ever for nothing."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from localrank.sequential import share_interval
from localrank_service.online.arms import judged
from localrank_service.online.definition import Guardrails
from localrank_service.telemetry.experiments import RANK_BUCKETS, Arm


def arm(ok: int, *, degraded: int = 0, error: int = 0, seconds: float | np.ndarray | None = None) -> Arm:
    times = np.full(ok + degraded, 1e-3) if seconds is None else np.broadcast_to(seconds, ok + degraded)
    buckets = np.bincount(np.searchsorted(RANK_BUCKETS, times), minlength=len(RANK_BUCKETS) + 1)
    return Arm({"ok": ok, "degraded": degraded, "error": error}, [float(one) for one in buckets])


def test_a_candidate_that_always_fails_is_taken_back_after_the_minimum() -> None:
    rails = Guardrails(minimum_requests=20)

    assert None is judged(rails, arm(300), arm(0, error=19))
    breach = judged(rails, arm(300), arm(0, error=20))

    assert breach is not None
    assert "errors" == breach.reason
    assert "failed in 20 of 20 requests" in breach.evidence


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (arm(900, error=100), "errors"),
        (arm(700, degraded=300), "degraded"),
        (arm(1000, seconds=3e-3), "latency"),
        (arm(1000, seconds=1.1e-3), None),
        (arm(995, error=5), None),
        (arm(970, degraded=30), None),
    ],
)
def test_what_is_beyond_a_guardrail_is_named(candidate: Arm, reason: str | None) -> None:
    breach = judged(Guardrails(), arm(19_000), candidate)

    assert reason == (None if breach is None else breach.reason)


def test_one_slow_ranking_in_fifty_is_no_slow_quantile() -> None:
    times = np.where(np.arange(2000) % 50 == 0, 1.0, 1e-3)

    assert None is judged(Guardrails(), arm(20_000), arm(2000, seconds=times))


def test_nothing_is_said_of_a_candidate_without_a_baseline() -> None:
    assert None is judged(Guardrails(), arm(0), arm(500, degraded=0, seconds=9.0))


def test_a_candidate_that_is_as_good_is_hardly_ever_taken_back_although_it_is_judged_all_the_time() -> None:
    """With no margin at all, at level 0.1: judged after every 25 requests of the candidate, as long as 1,500."""
    rails = Guardrails(minimum_requests=25, alpha=0.1, errors=0.0, degraded=0.0, latency=1.0)
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(40):
        times = rng.lognormal(np.log(2e-3), 0.5, (4, 1500))
        failed = rng.random((4, 1500)) < 0.03
        for stop in range(25, 1501, 25):
            own = slice(0, stop)
            few, many = failed[:1, own], failed[1:, own]
            candidate = arm(int((~few).sum()), error=int(few.sum()), seconds=times[:1, own][~few])
            baseline = arm(int((~many).sum()), error=int(many.sum()), seconds=times[1:, own][~many])
            if judged(rails, baseline, candidate) is not None:
                wrong += 1
                break

    assert wrong <= 9  # of 40 at a level of 0.1, one in ten thousand times more than that


@pytest.mark.parametrize(("seconds", "reason"), [(2.0e-3, None), (2.8e-3, "latency")])
def test_the_candidate_may_take_so_many_times_as_long(seconds: float, reason: str | None) -> None:
    """Twice as long is allowed; buckets are a quarter wide."""
    breach = judged(Guardrails(latency=2.0), arm(50_000), arm(50_000, seconds=seconds))

    assert reason == (None if breach is None else breach.reason)
    if breach is not None:
        least, most = (float(one) for one in re.findall(r"([\d.]+) ms", breach.evidence))
        # The bound above the baseline's 1 ms, and the one below the candidate's time.
        assert most == pytest.approx(1e3 * min(bound for bound in RANK_BUCKETS if bound >= 1e-3), rel=1e-2)
        assert least == pytest.approx(1e3 * max(bound for bound in RANK_BUCKETS if bound < seconds), rel=1e-2)
        assert "the time that 95% of the rankings" in breach.evidence
        assert "2 times as long is allowed" in breach.evidence


def test_the_level_is_shared_by_three_guards_and_two_arms() -> None:
    """A candidate that fails is taken back as soon as its interval at a sixth of the level is above the baseline's."""
    rails = Guardrails(minimum_requests=10, alpha=0.06, errors=0.0, degraded=1.0)
    # Many failures on both sides: so a fifth or an eighth of the level would have another first number.
    baseline = arm(7000, error=3000)
    _, most = share_interval(3000, 10_000, 0.01)
    first = bisect_right(range(10_000), most, key=lambda n: share_interval(n, 10_000, 0.01)[0])

    found = [judged(rails, baseline, arm(10_000 - n, error=n)) for n in (first - 1, first)]

    assert [None, "errors"] == [None if one is None else one.reason for one in found]


@pytest.mark.parametrize("guard", ["errors", "degraded"])
def test_what_is_allowed_more_is_allowed(guard: str) -> None:
    bad = {"errors": "error", "degraded": "degraded"}[guard]
    baseline, candidate = arm(20_000), arm(14_000, **{bad: 6000})  # 30 % against nothing

    for allowed, reason in ((0.2, guard), (0.35, None)):
        one: Any = {guard: allowed}
        rails = replace(Guardrails(errors=1.0, degraded=1.0, latency=1000.0), **one)
        breach = judged(rails, baseline, candidate)
        assert reason == (None if breach is None else breach.reason)
        if breach is not None:
            said = {"errors": "failed", "degraded": "was degraded"}[guard]
            assert breach.evidence.startswith(f"the candidate {said} in 6000 of 20000 requests (at least ")
            assert "the baseline in 0 of 20000 (at most " in breach.evidence
            assert breach.evidence.endswith("20.0% more is allowed")


def test_a_baseline_that_fails_as_often_takes_nothing_back() -> None:
    assert None is judged(Guardrails(), arm(9000, error=1000), arm(900, error=100))
    assert None is judged(Guardrails(), arm(9000, degraded=1000), arm(900, degraded=100))
    assert None is judged(Guardrails(), arm(10_000, seconds=0.1), arm(1000, seconds=0.1))


@pytest.mark.parametrize("seconds", [1e-9, 1e9])
def test_times_beyond_all_bounds_prove_nothing_they_cannot(seconds: float) -> None:
    """All that is known of the shortest is the first bound, and of the longest that they are above the last."""
    least, most = RANK_BUCKETS[0], RANK_BUCKETS[-1]

    breach = judged(Guardrails(latency=1.0), arm(50_000, seconds=1e-9), arm(50_000, seconds=seconds))

    assert (breach is None) == (seconds == 1e-9)
    if breach is not None:
        found = [float(one) for one in re.findall(r"([\d.e+]+) ms", breach.evidence)]
        assert found == pytest.approx([1e3 * most, 1e3 * least], rel=1e-2)
    assert None is judged(Guardrails(), arm(50_000, seconds=1e9), arm(50_000, seconds=1e9))
