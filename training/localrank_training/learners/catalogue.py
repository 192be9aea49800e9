"""Every learner by its name in configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank.errors import InvalidConfiguration
from localrank.settings import checked
from localrank.spelling import no_such
from localrank_training.learners.best_feature import BestFeature
from localrank_training.learners.blend import Blend
from localrank_training.learners.boosting import Gbrt, LambdaMart
from localrank_training.learners.forests import ExtraTrees, RandomForest
from localrank_training.learners.gmml import GeometricMeanMetric
from localrank_training.learners.lgmml import LocalGeometricMeanMetrics
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.mhr import MultipleHyperplanes
from localrank_training.learners.rankboost import RankBoost
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.rmlr import RobustMetric
from localrank_training.learners.svmmap import SvmMap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank_training.learners.role import Learner

LEARNERS: dict[str, type[Learner]] = {
    learner.method: learner
    for learner in (
        RankSvm,
        SvmMap,
        LeastSquares,
        RankBoost,
        MultipleHyperplanes,
        Gbrt,
        LambdaMart,
        ExtraTrees,
        RandomForest,
        GeometricMeanMetric,
        LocalGeometricMeanMetrics,
        RobustMetric,
        BestFeature,
        Blend,
    )
}


def make(method: str, settings: Mapping[str, object], where: str = "") -> Learner:
    """Make a learner of its settings; what is left out has its default.

    Args:
        method: its name in configuration.
        settings: one value each.
        where: how the place is called in messages.

    Raises:
        InvalidConfiguration: no such learner, or a setting is unknown, of the wrong type or out of range.
    """
    if method not in LEARNERS:
        raise InvalidConfiguration(no_such("learner", method, LEARNERS))
    return checked(LEARNERS[method], settings, where or f"learner {method!r}")
