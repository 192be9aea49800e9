"""Which version users prefer, judged by the clicks so far.

You may look as often as you like and stop when there is a verdict. If both versions are equally good, the probability
of a verdict is at most ``alpha`` over the whole life of an experiment (`localrank.sequential`).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from localrank.sequential import log_wealth, mean_interval, more_needed, needed

if TYPE_CHECKING:
    from localrank_training.clicks.outcomes import Outcomes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one experiment.

    Attributes:
        experiment: its name.
        kind: ``interleaving`` or ``split``.
        impressions: by arm.
        units: that were counted: impressions, or sessions of a split.
        means: by arm, of the metric or of preferences.
        effect: what the candidate is ahead; negative if it is behind.
        interval: holds the true effect at all looks with a probability of at least 1 - ``alpha``.
        p: the least level at which there would be a verdict now.
        alpha: the level.
        better: ``candidate``, ``baseline``, or none as long as nothing is certain.
        more: expected number of further units if the trend continues; none if this is unknown.
        effect_asked: the effect that matters.
        units_for_effect: units after which an effect of this size is found, with probability ``power``.
        power: that probability.
    """

    experiment: str
    kind: str
    impressions: dict[str, int]
    units: int
    means: dict[str, float]
    effect: float
    interval: tuple[float, float]
    p: float
    alpha: float
    better: Literal["candidate", "baseline"] | None
    more: int | None
    effect_asked: float
    units_for_effect: int | None
    power: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def verdict(
    outcomes: Outcomes,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    effect: float = 0.05,
    minimum: int = 100,
) -> Verdict:
    """Return what is known of one experiment.

    Args:
        outcomes: of it.
        alpha: the probability of any verdict, ever, if both versions are equally good.
        power: with which the effect that matters is to be found.
        effect: that matters.
        minimum: units before any verdict.
    """
    sample = outcomes.sample
    wealth = log_wealth(sample) if sample.size else 0.0
    certain = wealth >= -math.log(alpha) and outcomes.units >= minimum
    more = more_needed(sample, alpha)
    if not certain and outcomes.units < minimum:
        more = max(more or 0, minimum - outcomes.units)
    return Verdict(
        outcomes.experiment,
        outcomes.kind,
        dict(outcomes.impressions),
        outcomes.units,
        dict(outcomes.means),
        sample.mean,
        mean_interval(sample, alpha),
        min(1.0, math.exp(-wealth)),
        alpha,
        ("candidate" if sample.mean > 0 else "baseline") if certain else None,
        0 if certain else more,
        effect,
        needed(effect, sample.variance, alpha, power) if sample.variance else None,
        power,
    )


def sentences(found: Verdict) -> list[str]:
    """Return what to tell a person."""
    unit = "impressions" if found.kind == "interleaving" else "sessions"
    counts = ", ".join(f"{arm} {count:,}" for arm, count in sorted(found.impressions.items()))
    said = "preferred by" if found.kind == "interleaving" else "metric"
    means = ", ".join(f"{arm} {mean:.4f}" for arm, mean in found.means.items())
    low, high = found.interval
    side = "behind" if found.effect < 0 else "ahead"
    lines = [
        f"{found.experiment} ({found.kind}): {found.units:,} {unit}; impressions: {counts}",
        (
            f"  {said}: {means}; the candidate is {side}: {found.effect:+.4f} [{low:+.4f}, {high:+.4f}], p "
            f"{found.p:.2g}, valid at any time"
        ),
    ]
    if found.better is not None:
        lines.append(f"  the {found.better} is better, at level {found.alpha:g}")
    elif found.more is not None:
        lines.append(
            f"  no conclusion yet: about {found.more:,} more {unit} will probably be needed if this continues"
        )
    else:
        lines.append(
            f"  no conclusion yet, and no sign of a difference: the {unit} so far favour neither version"
        )
    if found.better is None and found.units_for_effect is not None:
        lines.append(
            f"  a true effect of {found.effect_asked:g} is found with probability {found.power:g} after "
            f"{found.units_for_effect:,} {unit} in all"
        )
    return lines
