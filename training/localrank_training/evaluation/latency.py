"""The cost of a scorer in the service. It is counted, not timed, so that the same data always give the same choices.

The unit is a microsecond of processor time for 100 documents on one core. The factors come from measurements of the
real scorers (docs/understand/quality.md, "What it costs"). Another machine has other factors, but almost the same proportions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank.scorers import distinct
from localrank.scorers.trees import TreesScorer
from localrank.scorers.walk import ForestLayout

if TYPE_CHECKING:
    from localrank.scorers import Scorer

#: What costs are given for.
DOCUMENTS = 100
#: Of every scorer: its rows are put together, its scores standardised.
_EACH = 30.0
#: A number of a row times a weight; a step down a tree that stays in the first caches, and down one that does not.
_PRODUCT, _STEP, _FAR_STEP = 0.001, 0.0011, 0.002
#: Nodes of sixteen trees, which are walked together, that the first caches hold.
_NEAR = 4096
_TOGETHER = 16


def microseconds(scorer: Scorer) -> float:
    """Return what scoring `DOCUMENTS` documents takes, members included, each once."""
    return sum(map(_alone, distinct([scorer])))


def _alone(scorer: Scorer) -> float:
    """Return what a scorer takes beside its members."""
    if scorer.members():
        return _EACH
    if isinstance(scorer, TreesScorer):
        near = _TOGETHER * 2 * len(scorer.features) <= _NEAR * max(scorer.n_trees, 1)
        steps = float(ForestLayout.of(scorer).depths.sum()) * DOCUMENTS
        return _EACH + steps * (_STEP if near else _FAR_STEP)
    numbers = sum(array.size for array in scorer.arrays().values())
    return _EACH + numbers * DOCUMENTS * _PRODUCT
