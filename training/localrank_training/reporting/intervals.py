r"""Intervals that pages draw, beside those of `localrank_training.comparisons`.

Of a share ``k / n`` [wilson1927]_, with the normal quantile ``z``:

.. math::
    \frac{1}{1 + z^2 / n} \Big( \hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} + \frac{z^2}{4 n^2}} \Big)
"""

from __future__ import annotations

import math

#: Of 95 %.
_Z = 1.959963984540054


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of ``n`` independent cases."""
    spread = _Z**2 / n
    middle = share + spread / 2
    half = _Z * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))
