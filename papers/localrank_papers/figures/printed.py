"""The numbers that LocalRank prints in its Figure 11, and a new count of what its sentences claim about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank_training.report import Table

if TYPE_CHECKING:
    from localrank.arrays import Vector

#: The paper calls figures nearly equal if they differ by at most this.
EQUAL = 0.001
SETS = ("TD2003", "TD2004", "HP2003", "HP2004", "NP2003", "NP2004", "OHSUMED", "YANDEX")
#: In the order of the figure's blocks; the paper does not label them, its Figures 9, 10 and 15 tell which is which.
METRICS = ("ndcg@1", "ndcg@5", "ndcg@10", "map")
_NONE = float("nan")
#: By algorithm ``[metrics, sets]``; MAP is not defined for Yandex's labels, and D&K did not finish there.
FIGURE_11: dict[str, tuple[tuple[float, ...], ...]] = {
    "SVMmap": (
        (0.364, 0.493, 0.765, 0.665, 0.591, 0.573, 0.676, 0.664),
        (0.368, 0.363, 0.829, 0.835, 0.801, 0.830, 0.621, 0.763),
        (0.385, 0.343, 0.840, 0.845, 0.821, 0.847, 0.601, 0.824),
        (0.269, 0.259, 0.781, 0.746, 0.707, 0.709, 0.563, _NONE),
    ),
    "RankBoost": (
        (0.360, 0.453, 0.714, 0.653, 0.636, 0.530, 0.617, 0.576),
        (0.325, 0.349, 0.854, 0.821, 0.816, 0.768, 0.597, 0.709),
        (0.347, 0.340, 0.868, 0.845, 0.836, 0.806, 0.582, 0.781),
        (0.277, 0.263, 0.782, 0.739, 0.740, 0.664, 0.545, _NONE),
    ),
    "D&K": (
        (0.424, 0.480, 0.699, 0.672, 0.636, 0.538, 0.588, _NONE),
        (0.366, 0.378, 0.848, 0.798, 0.836, 0.805, 0.577, _NONE),
        (0.367, 0.350, 0.862, 0.826, 0.860, 0.823, 0.572, _NONE),
        (0.298, 0.265, 0.770, 0.742, 0.749, 0.678, 0.529, _NONE),
    ),
    "KNN": (
        (0.313, 0.324, 0.762, 0.578, 0.584, 0.499, 0.638, 0.661),
        (0.369, 0.320, 0.817, 0.806, 0.807, 0.770, 0.616, 0.767),
        (0.322, 0.324, 0.831, 0.829, 0.817, 0.836, 0.580, 0.826),
        (0.232, 0.242, 0.762, 0.714, 0.702, 0.668, 0.547, _NONE),
    ),
    "LocalRank": (
        (0.404, 0.493, 0.765, 0.693, 0.623, 0.530, 0.647, 0.663),
        (0.383, 0.348, 0.837, 0.856, 0.791, 0.828, 0.623, 0.761),
        (0.392, 0.336, 0.850, 0.868, 0.815, 0.847, 0.611, 0.823),
        (0.327, 0.251, 0.789, 0.759, 0.717, 0.687, 0.558, _NONE),
    ),
}
_RIVALS = ("SVMmap", "RankBoost", "KNN", "D&K")


class Claim(NamedTuple):
    """How often LocalRank is said to win.

    Attributes:
        text: against whom.
        printed: the paper's share.
        equal: whether figures nearly equal count as won.
    """

    text: str
    printed: float
    equal: bool


CLAIMS = {
    "SVMmap": Claim("nearly equal (within .001) or better than SVMmap", 0.74, equal=True),
    "RankBoost": Claim("better than RankBoost", 0.74, equal=False),
    "KNN": Claim("better than KNN", 0.81, equal=False),
    "D&K": Claim("better than D&K", 0.64, equal=False),
}
BEST = Claim("best of all, or as good as the best", 0.42, equal=False)


def claims() -> list[tuple[str, float, float, float, int]]:
    """Return for each of the paper's five sentences: the text, the printed share, and from its own figure the share of cells in
    which LocalRank is better, in which it is at most `EQUAL` worse, and how many cells there are.
    """
    printed = {name: np.array(rows) for name, rows in FIGURE_11.items()}
    ours = printed["LocalRank"]
    rows = []
    for rival in _RIVALS:
        better, equal, cells = recounted(ours, printed[rival])
        rows.append((CLAIMS[rival].text, CLAIMS[rival].printed, better, equal, cells))
    others = np.nanmax(np.stack([printed[rival] for rival in _RIVALS])[:, np.isfinite(ours)], axis=0)
    own = ours[np.isfinite(ours)]
    best = float((own >= others).mean())
    rows.append((BEST.text, BEST.printed, best, float((own >= others - EQUAL - 1e-9).mean()), len(own)))
    return rows


def recounted(ours: Vector, theirs: Vector) -> tuple[float, float, int]:
    """Return the share of cells in which ours is larger, and in which it is at most `EQUAL` smaller, and their number.

    Cells that either side lacks are left out.
    """
    apart = (ours - theirs)[np.isfinite(ours) & np.isfinite(theirs)]
    # Printed figures have three digits. A printed difference of .001 must not become larger by rounding.
    return float((apart > 1e-9).mean()), float((apart >= -EQUAL - 1e-9).mean()), apart.size


def figure_11() -> Table:
    """Return the paper's figure."""
    return Table(
        "What the paper prints in Figure 11, on its own cleaned data",
        ("metric", "", *SETS),
        [
            (metric, name, *(None if np.isnan(one) else one for one in rows[number]))
            for number, metric in enumerate(METRICS)
            for name, rows in FIGURE_11.items()
        ],
    )
