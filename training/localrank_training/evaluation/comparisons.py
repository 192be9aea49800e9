r"""Whether one ranking is better than another: paired differences over queries, with what they can and cannot show.

Everything here takes ``differences [n_queries]``, candidate minus baseline, of one metric in one convention. The
queries are what was sampled, so they are what is resampled; folds are not independent samples and are pooled first
(`localrank.metrics.Measured.pooled`).

With ``d_q`` the differences and ``s_q`` independent fair signs:

.. math::
    p_{\text{two-sided}} &= \Pr_s\big[\,|\sum_q s_q d_q| \ge |\sum_q d_q|\,\big]
        \quad \text{(sign flips; Fisher's randomisation test [smucker2007])} \\
    p_{\text{Holm},(i)} &= \max_{j \le i} \min(1, (m - j + 1)\, p_{(j)}) \quad \text{[holm1979]} \\
    \text{interval} &= \bar d \pm t_{1 - \alpha/2,\, c - 1} \; \mathrm{sd}(d) / \sqrt n,
        \qquad c = |\{q : d_q \ne 0\}| \\
    \text{detectable} &= (t_{1 - \alpha/2,\, c - 1} + t_{\text{power},\, c - 1}) \; \mathrm{sd}(d) / \sqrt n

Student's interval takes its degrees of freedom from the ``c`` queries that differ, because only those show how much
differences vary. With fewer than `ENOUGH` of them there is no interval, because it would have no meaning. It was chosen
by simulation on real differences, where it covers what it says and bootstrap intervals do not (``benchmarks/coverage``,
docs/understand/method.md, "Comparing two rankings"). Random signs come from a seed; memory is bounded.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import stdtr, stdtrit

from localrank.errors import InvalidConfiguration, InvalidData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank.metrics import Measured

#: What the candidate is suspected to be: different, better, or worse.
Alternative: TypeAlias = Literal["two-sided", "greater", "less"]
#: With fewer queries that differ, no interval is given.
ENOUGH = 8
#: How far a query must fall or rise to count as hurt or helped.
NOTABLE = 0.1
#: Differences below this are rounding: the two rankings are equally good.
_TIE = 1e-12
#: Numbers held at once while resampling.
_CELLS = 1 << 21


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of the mean difference."""

    low: float
    high: float
    level: float = 0.95

    def __str__(self) -> str:
        return f"[{self.low:+.4f}, {self.high:+.4f}]"


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """Whether the candidate is at most ``margin`` worse.

    Attributes:
        margin: stated before looking, positive.
        low: the one-sided lower confidence bound of the mean difference; None if too few queries differ.
        level: of that bound.
        holds: ``low > -margin``; not shown if there is no bound.
    """

    margin: float
    low: float | None
    level: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of two rankings of the same queries.

    Attributes:
        metric, convention: what was measured.
        candidate, baseline: the two means, over the queries compared.
        n_queries: how many were compared; ``n_left_out`` had no figure in this convention.
        difference: candidate minus baseline.
        interval: of the difference; None if fewer than `ENOUGH` queries differ.
        p: of the sign-flip test, two-sided.
        p_holm: the same, adjusted for the family it was compared in; `compare` alone is a family of one.
        p_t: of the paired t test, for reference; None if all differences are equal.
        wins, losses, ties: queries in which the candidate is better, worse, as good.
        helped, hurt: those of them that changed by more than `NOTABLE`.
        detectable: the difference that this many queries with this spread would show at 80 % power; None as above.
        non_inferiority: if a margin was given.
    """

    metric: str
    convention: str
    candidate: float
    baseline: float
    n_queries: int
    n_left_out: int
    difference: float
    interval: Interval | None
    p: float
    p_holm: float
    p_t: float | None
    wins: int
    losses: int
    ties: int
    helped: int
    hurt: int
    detectable: float | None
    non_inferiority: NonInferiority | None = None

    @property
    def interval_text(self) -> str:
        """The interval, or why there is none."""
        if self.interval is not None:
            return str(self.interval)
        return f"{self.wins + self.losses} of {self.n_queries} queries differ: too few for an interval"

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return asdict(self)


def clearly_above(differences: Vector, errors: float) -> bool:
    """Tell whether the mean of ``[n_queries]`` differences is above zero by more than ``errors`` standard errors."""
    return len(differences) > 1 and bool(differences.mean() > errors * standard_error(differences))


def standard_error(differences: Vector) -> float:
    """Return the standard error of the mean of ``[n_queries]`` differences; infinite for fewer than two."""
    return float(differences.std(ddof=1)) / len(differences) ** 0.5 if len(differences) > 1 else math.inf


def paired_differences(candidate: Measured, baseline: Measured) -> Vector:
    """Return candidate minus baseline for the queries that have a figure.

    Raises:
        InvalidData: the two are not the same metric, convention and queries.
    """
    for what in ("metric", "convention", "ties"):
        ours, theirs = getattr(candidate, what), getattr(baseline, what)
        if ours != theirs:
            names = [getattr(one, "name", str(one)) for one in (ours, theirs)]
            raise InvalidData(f"{what}: expected the same on both sides of a comparison, found {names}")
    if candidate.n_queries != baseline.n_queries:
        raise InvalidData(
            f"queries: expected the same on both sides of a comparison, found {candidate.n_queries} and "
            f"{baseline.n_queries}"
        )
    missing = np.isnan(candidate.per_query)
    if (missing != np.isnan(baseline.per_query)).any():
        raise InvalidData(
            "queries: expected the same empty queries on both sides of the comparison, found different ones"
        )
    return (candidate.per_query - baseline.per_query)[~missing]


def compare(
    candidate: Measured,
    baseline: Measured,
    *,
    seed: int = 0,
    permutations: int = 20_000,
    level: float = 0.95,
    margin: float | None = None,
) -> Comparison:
    """Compare two rankings of the same queries."""
    differences = paired_differences(candidate, baseline)
    _checked(differences)
    p = sign_flip_test(differences, permutations=permutations, seed=seed)
    mean = _mean(differences)
    kept = ~np.isnan(baseline.per_query)
    return Comparison(
        metric=candidate.name,
        convention=candidate.convention.name,
        candidate=float(candidate.per_query[kept].mean()),
        baseline=float(baseline.per_query[kept].mean()),
        n_queries=len(differences),
        n_left_out=candidate.n_queries - len(differences),
        difference=mean,
        interval=interval_of(differences, level=level),
        p=p,
        p_holm=p,
        p_t=paired_t(differences),
        wins=int(np.count_nonzero(differences > _TIE)),
        losses=int(np.count_nonzero(differences < -_TIE)),
        ties=int(np.count_nonzero(np.abs(differences) <= _TIE)),
        helped=int(np.count_nonzero(differences > NOTABLE)),
        hurt=int(np.count_nonzero(differences < -NOTABLE)),
        detectable=detectable_difference(differences),
        non_inferiority=None if margin is None else non_inferiority(differences, margin),
    )


def compare_family(
    candidates: Sequence[Measured], baselines: Sequence[Measured], **settings: Any
) -> tuple[Comparison, ...]:
    """Compare pair by pair and adjust the p values for the number of comparisons (Holm).

    A family is whatever one claim rests on: the metrics of one data set, or the data sets of one table.
    """
    found = [compare(ours, theirs, **settings) for ours, theirs in zip(candidates, baselines, strict=True)]
    adjusted = holm([one.p for one in found])
    return tuple(replace(one, p_holm=float(p)) for one, p in zip(found, adjusted, strict=True))


def sign_flip_test(
    differences: Vector, *, alternative: Alternative = "two-sided", permutations: int = 20_000, seed: int = 0
) -> float:
    """Return the p value of no difference, by flipping the signs of the queries' differences.

    Where all sign patterns are no more than ``permutations`` they are enumerated and p is exact. Else p is
    ``(1 + as extreme) / (1 + permutations)``, which is never zero and never too small on average.
    """
    if alternative not in get_args(Alternative):
        raise InvalidConfiguration(
            f"alternative {alternative!r}: expected one of {', '.join(get_args(Alternative))}"
        )
    if permutations < 1:
        raise InvalidConfiguration(f"permutations: expected at least 1, found {permutations}")
    _checked(differences)
    flipped = differences[differences != 0]
    n = len(flipped)
    if n == 0:
        return 1.0
    observed = float(flipped.sum())
    # The same sum in another order differs by rounding, and must count as equal.
    slack = 1e-12 * float(np.abs(flipped).sum())
    exact = 2**n <= permutations
    total = 2**n if exact else permutations
    table = _signed_sums(flipped)
    rng = np.random.default_rng(seed)
    extreme = 0
    step = max(1, _CELLS // len(table))
    for start in range(0, total, step):
        count = min(step, total - start)
        if exact:
            patterns = np.arange(start, start + count)[:, None] >> (8 * np.arange(len(table))) & 255
        else:
            patterns = rng.integers(0, 256, (count, len(table)), np.uint8)
        sums = table[np.arange(len(table)), patterns].sum(axis=1)
        if alternative == "two-sided":
            extreme += int(np.count_nonzero(np.abs(sums) >= abs(observed) - slack))
        elif alternative == "greater":
            extreme += int(np.count_nonzero(sums >= observed - slack))
        else:
            extreme += int(np.count_nonzero(sums <= observed + slack))
    return extreme / total if exact else (1 + extreme) / (1 + total)


def interval_of(differences: Vector, *, level: float = 0.95) -> Interval | None:
    """Return Student's interval of the mean difference; None if fewer than `ENOUGH` queries differ."""
    _check_level(level)
    half = _half_width(differences, 1 - (1 - level) / 2)
    mean = _mean(differences)
    return None if half is None else Interval(mean - half, mean + half, level)


def lower_bound(differences: Vector, *, level: float = 0.95) -> float | None:
    """Return the one-sided lower confidence bound of the mean difference; None if too few queries differ."""
    _check_level(level)
    half = _half_width(differences, level)
    return None if half is None else _mean(differences) - half


def non_inferiority(differences: Vector, margin: float, *, level: float = 0.95) -> NonInferiority:
    """Return whether the candidate is at most ``margin`` worse, at the one-sided level."""
    if not 0 < margin < np.inf:
        raise InvalidConfiguration(f"margin: expected a positive number, found {margin}")
    low = lower_bound(differences, level=level)
    return NonInferiority(margin, low, level, low is not None and low > -margin)


def paired_t(differences: Vector) -> float | None:
    """Return the two-sided p value of the paired t test; None if all differences are equal."""
    _checked(differences)
    n = len(differences)
    if (differences == differences[0]).all():
        return None
    t = _mean(differences) / (_spread(differences) / n**0.5)
    return float(2 * stdtr(n - 1, -abs(t)))


def holm(p_values: Sequence[float]) -> Vector:
    """Return p values adjusted for being a family, in the order given (Holm's step-down)."""
    p = np.asarray(p_values, np.float64)
    if ((p < 0) | (p > 1) | np.isnan(p)).any():
        raise InvalidData(f"p values: expected numbers from 0 to 1, found {p.tolist()}")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def detectable_difference(differences: Vector, *, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """Return the true difference that a two-sided test of this many queries would find with that power.

    None if fewer than `ENOUGH` queries differ.
    """
    if not (0 < power < 1 and 0 < alpha < 1):
        raise InvalidConfiguration(
            f"power and alpha: expected numbers between 0 and 1, found {power}, {alpha}"
        )
    half, more = _half_width(differences, 1 - alpha / 2), _half_width(differences, power)
    return half + more if half is not None and more is not None else None


def _half_width(differences: Vector, share: float) -> float | None:
    """Return the quantile of Student's distribution, in standard errors; None if too few queries differ."""
    _checked(differences)
    changed = int(np.count_nonzero(np.abs(differences) > _TIE))
    if changed < ENOUGH:
        return None
    standard_error = _spread(differences) / math.sqrt(len(differences))
    return float(stdtrit(changed - 1, share)) * standard_error


def _signed_sums(values: Vector) -> Vector:
    """Return ``[n_groups, 256]``: the signed sums of each eight values, by the byte whose set bits are minus.

    One random byte then flips eight queries, and a permutation is an eighth of the additions.
    """
    groups = np.concatenate([values, np.zeros(-len(values) % 8)]).reshape(-1, 8)
    signs = 1 - 2.0 * (np.arange(256)[:, None] >> np.arange(8) & 1)
    return np.asarray(groups @ signs.T, np.float64)


def _mean(differences: Vector) -> float:
    return float(differences.mean())


def _spread(differences: Vector) -> float:
    return float(differences.std(ddof=1))


def _checked(differences: Vector) -> None:
    if differences.ndim != 1:
        raise InvalidData(f"differences: expected one per query, found shape {differences.shape}")
    if not len(differences):
        raise InvalidData("differences: expected at least one query with a figure, found none")
    if not np.isfinite(differences).all():
        query = int(np.flatnonzero(~np.isfinite(differences))[0])
        raise InvalidData(
            f"difference of query {query}: expected a finite number, found {differences[query]}"
        )


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidConfiguration(f"level: expected a number between 0 and 1, found {level}")
