r"""What the clicks of a log say about each experiment, and which version users prefer.

`outcomes_of` gives values whose mean is 0 if both versions are equally good.

Interleaving: the value of an impression is 1 if the candidate's results were preferred, -1 if the baseline's, 0 if neither
(`localrank.rankings`). The coins are tossed again for each impression. So if users have no preference, its
expectation, given everything before, is 0, even if impressions of one session are alike.

A split or canary: users of a session are alike, so the value is that of a unit. Let :math:`y \in [0, 1]` be the mean metric of
its impressions, :math:`t` whether it got the candidate, :math:`\pi` the probability of that, and :math:`m` a guess of
:math:`y` from units that came before. Then

.. math:: z = \frac{t}{\pi} (y - m) - \frac{1 - t}{1 - \pi} (y - m)

has the candidate's effect on the metric as its expectation, whatever :math:`m` is; a good guess makes it vary less.

`verdict` judges them. You may look as often as you like and stop when there is a verdict. If both versions are equally
good, the probability of a verdict is at most ``alpha`` over the whole life of an experiment (`localrank.sequential`).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from localrank.rankings import balanced_preference, team_preference
from localrank.sequential import Sample, log_wealth, mean_interval, more_needed, needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from localrank_training.data.clicks.joining import JudgedImpression

Metric: TypeAlias = Literal["clicked", "reciprocal_rank"]
_TEAMS: Final = {"baseline": 0, "candidate": 1}
_ARMS: Final = ("baseline", "candidate")


def _clicked(ranks: Sequence[int]) -> float:
    return float(bool(ranks))


def _reciprocal_rank(ranks: Sequence[int]) -> float:
    return 1 / (1 + min(ranks)) if ranks else 0.0


#: What is asked of an impression, from the ranks that were clicked, from 0.
METRICS: Final[Mapping[Metric, Callable[[Sequence[int]], float]]] = {
    "clicked": _clicked,
    "reciprocal_rank": _reciprocal_rank,
}


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What is known of one experiment.

    Attributes:
        experiment: its name.
        kind: ``interleaving`` or ``split``, which a canary is too.
        impressions: that took part, by arm.
        units: values in the sample: impressions, or sessions of a split.
        means: of the metric by arm, for a split; for interleaving, the shares of impressions that prefer each.
        sample: of values whose mean is 0 if both are equally good.
    """

    experiment: str
    kind: Literal["interleaving", "split"]
    impressions: Mapping[str, int]
    units: int
    means: Mapping[str, float]
    sample: Sample


@dataclass(slots=True)
class _Unit:
    arm: str
    share: float
    values: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Gathered:
    preferences: list[int] = field(default_factory=list)
    units: dict[str, _Unit] = field(default_factory=dict)
    impressions: dict[str, int] = field(default_factory=dict)


def outcomes_of(
    judged: Iterable[JudgedImpression], *, metric: Metric = "clicked", experiment: str | None = None
) -> list[Outcomes]:
    """Return what the log says of each experiment, in the order of their names.

    Args:
        judged: impressions with their clicks.
        metric: of an impression of a split.
        experiment: the only one that is asked for.
    """
    taken: list[tuple[float, dict[str, Any], list[int]]] = []
    for one in judged:
        part: Any = one.impression.get("experiment")
        if _is_part(part) and (experiment is None or part["name"] == experiment):
            # Documents that the caller pinned stand first, whichever version answers.
            first = one.impression["pinned"] + 1
            places = (int(one.places[position]) for position in one.clicked)
            ranks = sorted(place - first for place in places if place >= first)
            taken.append((one.impression["time"], part, ranks))
    found: dict[str, _Gathered] = {}
    for _, part, ranks in sorted(taken, key=lambda one: one[0]):
        gathered = found.setdefault(part["name"], _Gathered())
        arm = part["arm"]
        gathered.impressions[arm] = gathered.impressions.get(arm, 0) + 1
        if arm == "interleaved":
            gathered.preferences.append(_preference(part, ranks))
        else:
            unit = gathered.units.setdefault(part["unit"], _Unit(arm, part["share"]))
            # If the share changed, a unit may have changed its arm; it counts for its first arm.
            if unit.arm == arm:
                unit.values.append(METRICS[metric](ranks))
    return [
        _interleaved(name, one) if one.preferences else _split(name, one)
        for name, one in sorted(found.items())
    ]


def _is_part(part: Any) -> bool:
    """Tell whether a logged part is one that can be used."""
    if not isinstance(part, dict) or not isinstance(part.get("name"), str):
        return False
    if part.get("arm") == "interleaved":
        return isinstance(part.get("teams"), list)
    share = part.get("share")
    return (
        part.get("arm") in _ARMS
        and isinstance(part.get("unit"), str)
        and isinstance(share, float)
        and 0 < share < 1
    )


def _preference(part: Mapping[str, Any], ranks: Sequence[int]) -> int:
    if part.get("ranks") is not None:
        return balanced_preference([(one, other) for one, other in part["ranks"]], ranks)
    return team_preference([_TEAMS.get(team) for team in part["teams"]], ranks)


def _interleaved(name: str, gathered: _Gathered) -> Outcomes:
    values = np.array(gathered.preferences, np.float64)
    means = {arm: float((values == sign).mean()) for arm, sign in zip(_ARMS, (-1, 1), strict=True)}
    return Outcomes(
        name, "interleaving", gathered.impressions, len(values), means, Sample.of(values, -1.0, 1.0)
    )


def _split(name: str, gathered: _Gathered) -> Outcomes:
    values: list[float] = []
    by_arm: dict[str, list[float]] = {arm: [] for arm in _ARMS}
    guess, seen, following = 0.0, 0.0, 1
    least = most = 1.0
    for number, unit in enumerate(gathered.units.values(), 1):
        value = float(np.mean(unit.values))
        by_arm[unit.arm].append(value)
        treated = unit.arm == "candidate"
        weight = 1 / unit.share if treated else -1 / (1 - unit.share)
        values.append(weight * (value - guess))
        least = most = max(most, 1 / unit.share, 1 / (1 - unit.share))
        seen += value
        # The guess comes from earlier units. It changes seldom, so that there are few different values.
        if number == following:
            guess, following = seen / number, 2 * following
    return Outcomes(
        name,
        "split",
        gathered.impressions,
        len(values),
        {arm: float(np.mean(one)) if one else 0.0 for arm, one in by_arm.items()},
        Sample.of(np.array(values), -least, most),
    )


@dataclass(frozen=True, slots=True)
class ExperimentVerdict:
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
) -> ExperimentVerdict:
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
    return ExperimentVerdict(
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


def sentences(found: ExperimentVerdict) -> list[str]:
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
