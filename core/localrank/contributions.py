r"""What each feature adds to a document's score, compared with the mean score of its list.

Contributions :math:`\phi_{ij}` of feature ``j`` to document ``i`` of a list of ``n`` satisfy

.. math:: f(x_i) = \bar f + \sum_j \phi_{ij}, \qquad \bar f = \frac1n \sum_i f(x_i).

The base is the mean of the list, because only differences within a list matter to a ranking: a feature that is the same
in all its documents contributes nothing, and so do the blocks ``list`` and ``route``. The base of z-scores is zero.

linear
    :math:`w_j (x_{ij} - \bar x_j)`.
stumps
    :math:`\sum_{t:\,i_t = j} \alpha_t ([x_{ij} > \theta_t] - s_t)`, where :math:`s_t` is the share of the list's documents
    above the threshold.
trees
    along a document's path, what each step changes of the mean leaf value of those documents of the list that come
    there, for the feature that is split (path contributions [saabas2014], with the list as the sample).
sums, blends, fusion
    the same sums of their members' contributions; those of a z-score are divided by the deviation in the list.

For a product of two features (``quadratic``), each feature gets half. Contributions of linear scorers and stumps
without products are Shapley values too, with the list as the sample that absent features are drawn from. Those of trees
are not: a path's splits share its gain in the order in which they stand, where Shapley values take the mean over all
orders.

The columns of several blocks are added up for each feature, so every contribution has the name of a feature. A scorer
that is a member of several others is looked at once, with its weights added up
(`localrank.scorers.combination.contributions_of`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from localrank.errors import ExplanationRefused
from localrank.features.blocks import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.features.blocks import Cloud

#: From rows ``[n, width]`` of a list's documents to contributions of the columns, ``[n, width]``.
Parts: TypeAlias = "Callable[[Matrix], Vector]"

#: How many contributions of columns are held at a time.
_CELLS = 1 << 20
#: By how much sums may miss the scores, as a share of the largest score or contribution of the list.
_ROUNDING = 1e-6


class Advantage(NamedTuple):
    """How much more a feature adds to one document than to another.

    Attributes:
        feature: its position.
        amount: positive if it speaks for the first.
    """

    feature: int
    amount: float


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """What each feature adds to the scores of some documents of a list.

    Attributes:
        base: the mean score of the list.
        which: ``[n]`` positions of the documents.
        values: ``[n, n_features]``; with the base they add up to the score.
    """

    base: float
    which: Indices
    values: Vector

    def check(self, scores: Vector) -> None:
        """Compare with the scores of the list.

        Raises:
            ExplanationRefused: a sum misses its score by more than rounding.
        """
        missed = np.abs(scores[self.which] - self.base - self.values.sum(axis=1))
        size = max(np.abs(scores).max(initial=0.0), np.abs(self.values).max(initial=0.0))
        if not (missed <= _ROUNDING * size).all():
            raise ExplanationRefused(
                f"contributions miss the score of document {int(self.which[missed.argmax()])} by "
                f"{missed.max():.3g}; expected at most {_ROUNDING * size:.3g}: the scorer adds and subtracts "
                "large terms, so rounding is too large"
            )

    def between(self, first: int, second: int) -> list[Advantage]:
        """Return why one document of `which` is above another one, the feature with the largest difference first.

        The amounts add up to the difference of the scores. Features without a difference are left out.
        """
        apart = self.values[first] - self.values[second]
        order = np.argsort(-np.abs(apart), kind="stable")
        return [Advantage(int(feature), float(apart[feature])) for feature in order if apart[feature]]


def no_sum(scorer: str) -> ExplanationRefused:
    """Return the error for a scorer that is not a sum over features."""
    return ExplanationRefused(
        "expected a scorer that is a sum over features (linear, stumps or trees; or a sum, a blend or borda "
        f"by scores of such scorers), found {scorer}"
    )


def by_feature(cloud: Cloud, blocks: str, parts_of: Callable[[Matrix], Parts], which: Indices) -> Vector:
    """Return ``[len(which), n_features]``: the contributions of the columns of these blocks, added up for each feature.

    Args:
        cloud: the list.
        blocks: those that the columns belong to.
        parts_of: makes `Parts` of the rows of the whole list.
        which: positions of the documents.
    """
    rows = cloud.rows(blocks)
    parts = parts_of(rows)
    found = np.zeros((len(which), cloud.contract.n_features))
    step = max(1, _CELLS // rows.shape[1])
    for begin in range(0, len(which), step):
        part = slice(begin, begin + step)
        _add_up(parts(rows[which[part]]), cloud, blocks, found[part])
    return found


def _add_up(columns: Vector, cloud: Cloud, blocks: str, found: Vector) -> None:
    begin = 0
    for term in parse(blocks):
        end = begin + cloud.block(term.name).shape[1]
        here, begin = columns[:, begin:end], end
        if term.name == "quadratic":
            here = _halved(here, cloud.contract.n_columns)
        if term.name not in ("list", "route"):  # the same for all documents
            n_features = found.shape[1]
            found += here[:, :n_features]
            for column, feature in enumerate(cloud.contract.feature_of[n_features:], n_features):
                if column < here.shape[1]:  # `raw` has no encodings of two categories
                    found[:, feature] += here[:, column]


def _halved(products: Vector, n_columns: int) -> Vector:
    """Add the contributions of products, ordered as `localrank.features.scaling.products_of_pairs` has them, half to each."""
    found, begin = np.zeros((len(products), n_columns)), 0
    for column in range(n_columns):
        end = begin + n_columns - column
        half = products[:, begin:end] / 2
        found[:, column] += half.sum(axis=1)
        found[:, column:] += half
        begin = end
    return found
