r"""Statistics that stay correct if they are read after every request.

A usual test is correct if it is read once. If it is read again and again until it is significant, it is wrong far more
often than its level says. These statistics use a *wealth*: the money of a gambler who bets against a hypothesis. If the
hypothesis is true, nobody's money grows: the probability that the wealth ever reaches :math:`1/\alpha` is at most
:math:`\alpha` (Ville's inequality, [ville1939]), however often one looks. So a hypothesis is rejected when the wealth
is :math:`1/\alpha`, and the hypotheses that are not rejected are a confidence interval at every time at once
([waudbysmith2023], [johari2022]).

Everything here depends on counts of values alone and not on their order, so that counts over all workers are enough.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Vector

#: Bets, as shares of the largest bet that can never lose everything. The best one is near effect / variance.
_BETS: Final = 0.5 * 2.0 ** (-0.5 * np.arange(17))
_STEPS: Final = 40
#: Times as much data that is looked ahead.
_FURTHEST: Final = 1e4


def share_interval(successes: float, trials: float, alpha: float) -> tuple[float, float]:
    r"""Return the interval of shares that this many successes among the trials do not reject; valid for all numbers of
    trials at once.

    The bets on each share :math:`p` are mixed by Beta(½, ½), after :math:`s` of :math:`n`:

    .. math:: W(p) = \frac{B(\frac12 + s, \frac12 + n - s)}{B(\frac12, \frac12)\, p^s (1 - p)^{n - s}}

    Args:
        successes: that were seen.
        trials: how often something was tried.
        alpha: the probability that the true share is ever outside.
    """
    if not trials:
        return 0.0, 1.0
    failures = trials - successes
    level = _log_beta(0.5 + successes, 0.5 + failures) - _log_beta(0.5, 0.5) + math.log(alpha)

    def rejected(share: float) -> bool:
        likelihood = _times_log(successes, share) + _times_log(failures, 1 - share)
        return level > likelihood

    observed = successes / trials
    return _edge(rejected, 0.0, observed), _edge(rejected, 1.0, observed)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _times_log(count: float, share: float) -> float:
    if not count:
        return 0.0
    return count * math.log(share) if share > 0 else -math.inf


def _edge(rejected: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return the end of the rejected values, between an accepted value and a rejected one."""
    if not rejected(outside):
        return outside
    for _ in range(_STEPS):
        middle = (outside + inside) / 2
        if rejected(middle):
            outside = middle
        else:
            inside = middle
    return outside


class Sample(NamedTuple):
    """Values between two bounds, and how often each was seen.

    Attributes:
        values: each once.
        counts: of each.
        least: that a value can be.
        most: that a value can be.
    """

    values: Vector
    counts: Vector
    least: float
    most: float

    @classmethod
    def of(cls, values: Vector, least: float, most: float) -> Sample:
        """Count the values."""
        unique, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
        return cls(unique, counts.astype(np.float64), least, most)

    @property
    def size(self) -> float:
        return float(self.counts.sum())

    @property
    def mean(self) -> float:
        return float(self.values @ self.counts / self.size) if self.size else 0.0

    @property
    def variance(self) -> float:
        return float((self.values - self.mean) ** 2 @ self.counts / self.size) if self.size else 0.0


def log_wealths(sample: Sample, mean: float = 0.0, *, times: float = 1.0) -> tuple[float, float]:
    r"""Return the logarithms of the wealth of those who bet that the mean is more, and that it is less.

    Each bet wins :math:`\lambda (x - m)` of what the gambler has:

    .. math:: W = \frac1J \sum_j \prod_i \bigl(1 + \lambda_j (x_i - m)\bigr)

    Its expectation never grows if the mean, given everything before, is :math:`m` (or on the other side of it), whatever
    the values depend on besides.

    Args:
        sample: of values :math:`x_i`.
        mean: the hypothesis :math:`m`.
        times: this often the same sample, to look ahead.
    """
    off = sample.values - mean
    counts = times * sample.counts
    up = np.log1p(np.outer(_BETS / max(mean - sample.least, 1e-12), off)) @ counts
    down = np.log1p(np.outer(_BETS / max(sample.most - mean, 1e-12), -off)) @ counts
    return _log_mean(up), _log_mean(down)


def log_wealth(sample: Sample, mean: float = 0.0, *, times: float = 1.0) -> float:
    """Return the logarithm of the wealth of one who bets half on each side: against a mean that is exactly this."""
    return _log_mean(np.array(log_wealths(sample, mean, times=times)))


def _log_mean(logarithms: Vector) -> float:
    highest = float(logarithms.max())
    return highest + math.log(float(np.exp(logarithms - highest).mean()))


def mean_interval(sample: Sample, alpha: float) -> tuple[float, float]:
    """Return the means that are not rejected, at every size of the sample at once.

    Args:
        sample: of values.
        alpha: the probability that the true mean is ever outside.
    """
    if not sample.size:
        return sample.least, sample.most
    limit = -math.log(alpha)

    def rejected(mean: float) -> bool:
        return log_wealth(sample, mean) >= limit

    return _edge(rejected, sample.least, sample.mean), _edge(rejected, sample.most, sample.mean)


def more_needed(sample: Sample, alpha: float) -> int | None:
    """Return how many more such values are needed to reject a mean of 0; ``None`` if this is unknown or far too
    many.
    """
    limit = -math.log(alpha)
    if not sample.size or log_wealth(sample, times=_FURTHEST) < limit:
        return None
    low, high = 1.0, _FURTHEST
    if log_wealth(sample) >= limit:
        return 0
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        if log_wealth(sample, times=middle) >= limit:
            high = middle
        else:
            low = middle
    return math.ceil((high - 1) * sample.size)


def needed(effect: float, variance: float, alpha: float, power: float) -> int:
    r"""Return how many values reject a mean of 0 with this probability, if their mean is ``effect``.

    The best of the bets grows to :math:`\exp(S^2 / 2 n \sigma^2)`, nearly, where the sum :math:`S` of the values is about
    normal, and a mixture of :math:`J` bets has at least a :math:`J`-th of it. So

    .. math:: n = \frac{\sigma^2}{\mu^2} \Bigl(z_\beta + \sqrt{2 \ln (J / \alpha)}\Bigr)^2

    is more than enough; simulations in the tests have at least this power.

    Args:
        effect: the mean :math:`\mu`.
        variance: of the values, :math:`\sigma^2`.
        alpha: the level.
        power: the probability.
    """
    beyond = NormalDist().inv_cdf(power) + math.sqrt(2 * math.log(2 * len(_BETS) / alpha))
    return math.ceil(variance / effect**2 * beyond**2)
