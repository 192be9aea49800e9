"""A canary is taken back for what it does, in time, and hardly ever for nothing."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_service.experiments.definition import Guardrails
from localrank_service.experiments.judging import judged
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
