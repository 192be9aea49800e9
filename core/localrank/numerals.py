"""Numbers as text: decimal digits with a sign, a point and an exponent (``-1.5e-3``).

Python's `float` also takes blanks, underscores, digits of other scripts, ``nan`` and ``inf``. These are refused here,
without a regular expression: over these characters `float` takes just the decimal numbers, in linear time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from localrank.arrays import Vector

_CHARACTERS = b"0123456789+-.eE"


def decimal(text: bytes) -> float | None:
    """Return the double nearest to a decimal number, which may be infinite; None if the text is anything else."""
    if text.translate(None, _CHARACTERS):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def decimals(text: bytes) -> Vector | None:
    """Return the numbers of a text in which spaces separate them; None if one of them is no decimal number."""
    if text.translate(None, _CHARACTERS + b" "):
        return None
    try:
        return np.array(list(map(float, text.split())), np.float64)
    except ValueError:
        return None
