"""What is counted of experiments, over all workers, and forgotten with their runs."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from localrank_service.telemetry.counts import Counts
from localrank_service.telemetry.experiments import RANK_BUCKETS, Arm, ExperimentMeters
from localrank_service.telemetry.instruments import MetricTable

if TYPE_CHECKING:
    from pathlib import Path


def arm(*times: float) -> Arm:
    """An arm whose rankings took these seconds."""
    found = Arm()
    for seconds in times:
        position = sum(bound < seconds for bound in RANK_BUCKETS)
        found.buckets[position] += 1
    return found


def test_times_are_told_apart_in_steps_of_a_quarter_from_20_microseconds_to_a_quarter_of_a_minute() -> None:
    steps = [after / before for before, after in pairwise(RANK_BUCKETS)]

    assert RANK_BUCKETS[0] == pytest.approx(20e-6)
    assert steps == pytest.approx([1.25] * 61)
    assert 15 < RANK_BUCKETS[-1] < 20


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.75, 0.95, 1.0])
def test_a_quantile_is_the_bound_above_the_time_that_has_its_rank(share: float) -> None:
    times = [1e-3 * 1.1**number for number in range(40)]
    exact = sorted(times)[math.ceil(share * len(times)) - 1]

    found = arm(*times).quantile(share)

    assert found == min(bound for bound in RANK_BUCKETS if bound >= exact)


def test_without_times_there_is_no_quantile_and_the_longest_are_the_last_bound() -> None:
    assert arm().quantile(0.5) is None
    assert arm(1e-3, 1e3, 1e3).quantile(0.5) == RANK_BUCKETS[-1]


def test_an_arm_has_as_many_requests_as_it_has_outcomes_and_begins_with_none() -> None:
    one, other = Arm(), Arm()
    one.outcomes |= {"ok": 3.0, "degraded": 2.0, "error": 1.0}
    one.buckets[0] += 1

    assert (6.0, 0.0) == (one.requests, other.requests)
    assert {"ok": 0.0, "degraded": 0.0, "error": 0.0} == other.outcomes
    assert (0.0, 0.0) == (sum(other.buckets), other.seconds)


@pytest.fixture
def several(tmp_path: Path) -> list[ExperimentMeters]:
    """The meters of two workers."""
    return [ExperimentMeters(MetricTable(Counts(tmp_path))) for _ in range(2)]


def test_the_arms_of_all_workers_are_added_by_run(several: list[ExperimentMeters]) -> None:
    for meters, seconds in zip(several, (0.001, 2.0), strict=True):
        for run in ("old", "new"):
            meters.requests.of("web", run, "candidate", "ok")[0] += 2.0
            meters.seconds.of("web", run, "candidate").observe(seconds)
        meters.requests.of("web", "new", "", "outside")[0] += 1.0
    several[0].seconds.of("web", "new", "baseline").observe(60.0)

    arms = several[1].arms(several[1]._counts.counted())

    assert {("old", "candidate"), ("new", "candidate"), ("new", "baseline"), ("new", "")} == arms.keys()
    candidate, baseline = arms["new", "candidate"], arms["new", "baseline"]
    assert (4.0, 2.001) == pytest.approx((candidate.outcomes["ok"], candidate.seconds))
    assert {"outside": 2.0} == {name: count for name, count in arms["new", ""].outcomes.items() if count}
    for seconds in (0.001, 2.0):
        assert 1.0 == candidate.buckets[sum(bound < seconds for bound in RANK_BUCKETS)]
    assert (2.0, 60.0) == (sum(candidate.buckets), baseline.seconds)
    assert 1.0 == baseline.buckets[-1]


def test_a_shadow_s_agreement_is_the_mean_over_all_workers_of_this_run_alone(
    several: list[ExperimentMeters],
) -> None:
    for meters, tau in zip(several, (0.5, -0.25), strict=True):
        for run, more in (("old", 0.3), ("new", 0.0)):
            meters.shadows.of("beside", run, "ranked")[0] += 2.0
            meters.shadows.of("beside", run, "failed")[0] += 1.0
            meters.kendall_tau.of("beside", run).observe(tau + more)
            meters.rank_biased_overlap.of("beside", run).observe(0.625 + more)
    several[0].overlap.of("beside", "old").observe(1.0)
    several[0].shadows.of("beside", "new", "dropped")[0] += 5.0

    found = several[0].shadowed(several[0]._counts.counted(), "new")

    assert {
        "ranked": 4,
        "dropped": 5,
        "failed": 2,
        "kendall_tau": 0.125,
        "rbo": 0.625,
        "overlap_at_10": None,
    } == found


def test_what_is_not_kept_is_forgotten_and_counted_from_zero_when_it_comes_again() -> None:
    meters = ExperimentMeters(MetricTable(Counts(None)))
    for run in ("old", "new"):
        meters.requests.of("web", run, "candidate", "ok")[0] += 3.0
        meters.kendall_tau.of("web", run).observe(0.5)
    meters.returns.of("web", "errors")[0] += 1.0

    meters.keep(["new"])
    kept = meters.arms(meters._counts.counted())
    shadowed = meters.shadowed(meters._counts.counted(), "old")
    meters.requests.of("web", "old", "candidate", "ok")[0] += 1.0

    assert {("new", "candidate"): 3.0} == {key: one.requests for key, one in kept.items()}
    assert shadowed["kendall_tau"] is None
    assert 1.0 == meters.arms(meters._counts.counted())["old", "candidate"].requests
    # How often canaries were taken back is told of no run.
    assert 1.0 == meters.returns.of("web", "errors")[0]


def test_agreement_is_counted_in_steps_that_tell_small_differences_near_1_apart() -> None:
    meters = ExperimentMeters(MetricTable(Counts(None)))
    for value in (-1.0, -0.3, 0.05, 0.65, 0.92, 0.97, 0.995):
        meters.kendall_tau.of("web", "new").observe(value)
        meters.overlap.of("web", "new").observe(abs(value))

    def bounds(instrument: object) -> dict[float, float]:
        family = instrument.family(meters._counts.counted())  # type: ignore[attr-defined]
        return {float(one.labels["le"]): one.value for one in family.samples if one.name.endswith("_bucket")}

    tau, overlap = bounds(meters.kendall_tau), bounds(meters.overlap)
    # Tenths near 1, fifths elsewhere; then 0.95 and 0.99.
    near = [0.8, 0.9, 0.95, 0.99, 1.0, math.inf]
    assert [-0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.7, *near] == list(tau)
    assert [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, *near] == list(overlap)
    assert [1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6, 7, 7] == list(tau.values())
