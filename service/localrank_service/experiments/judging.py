"""Whether a canary must be taken back. The statistics stay correct although they are read twice a second.

Each guardrail compares the candidate's interval with the baseline's (`localrank.sequential.share_interval`). The level is
shared out: a third to each guardrail, half of that to each arm. So a candidate that is no worse than allowed is taken
back with a probability of at most ``alpha``, however long the canary runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from localrank.sequential import share_interval
from localrank_service.telemetry.experiments import RANK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank_service.experiments.definition import Guardrails
    from localrank_service.telemetry.experiments import Arm

_GUARDS, _ARMS = 3, 2


class Breach(NamedTuple):
    """Why a canary must be taken back.

    Attributes:
        reason: ``errors``, ``degraded`` or ``latency``.
        evidence: a sentence with the figures.
    """

    reason: str
    evidence: str


def judged(guardrails: Guardrails, baseline: Arm, candidate: Arm) -> Breach | None:
    """Return why the candidate must be taken back, if it must."""
    if candidate.requests < guardrails.minimum_requests:
        return None
    alpha = guardrails.alpha / (_GUARDS * _ARMS)
    for reason, margin in (("errors", guardrails.errors), ("degraded", guardrails.degraded)):
        outcome = "error" if reason == "errors" else reason
        least, _ = share_interval(candidate.outcomes[outcome], candidate.requests, alpha)
        _, most = share_interval(baseline.outcomes[outcome], baseline.requests, alpha)
        if least > most + margin:
            said = "failed" if reason == "errors" else "was degraded"
            return Breach(
                reason,
                f"the candidate {said} in {candidate.outcomes[outcome]:.0f} of {candidate.requests:.0f} "
                f"requests (at least {least:.1%}), the baseline in {baseline.outcomes[outcome]:.0f} of "
                f"{baseline.requests:.0f} (at most {most:.1%}); {margin:.1%} more is allowed",
            )
    return _slower(guardrails, baseline, candidate, alpha)


def _slower(guardrails: Guardrails, baseline: Arm, candidate: Arm, alpha: float) -> Breach | None:
    """Compare the quantiles of the times.

    A time is below the candidate's quantile if it is certain that a smaller share of the rankings than the quantile's
    took at most this time. It is one event for all times, because more rankings take at most a longer time.
    """
    share = guardrails.quantile
    most = _first(baseline.buckets, share=share, alpha=alpha)
    least = _last(candidate.buckets, below=share, alpha=alpha)
    if most is None or least is None or least <= guardrails.latency * most:
        return None
    return Breach(
        "latency",
        f"the time that {share:.0%} of the rankings do not exceed is at least {least * 1e3:.3g} ms for the "
        f"candidate and at most {most * 1e3:.3g} ms for the baseline; {guardrails.latency:g} times as long is "
        "allowed",
    )


def _first(buckets: Sequence[float], *, share: float, alpha: float) -> float | None:
    """Return the least bound for which it is certain that at least this share of the times is at most the bound."""
    total, running = sum(buckets), 0.0
    for bound, count in zip(RANK_BUCKETS, buckets, strict=False):
        running += count
        if running >= share * total > 0 and share_interval(running, total, alpha)[0] >= share:
            return bound
    return None


def _last(buckets: Sequence[float], *, below: float, alpha: float) -> float | None:
    """Return the greatest bound for which it is certain that fewer than this share of the times are at most the
    bound.
    """
    total, running, found = sum(buckets), 0.0, None
    for bound, count in zip(RANK_BUCKETS, buckets, strict=False):
        running += count
        if running >= below * total or share_interval(running, total, alpha)[1] >= below:
            break
        found = bound
    return found
