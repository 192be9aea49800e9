"""Every learner by its name in configuration; plug-ins included (`localrank_training.plugins`)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from localrank.settings import checked
from localrank_training.plugins import Components

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank_training.learners.role import Learner

_HERE = "localrank_training.learners"


def _is_learner(name: str, found: Any) -> bool:
    # Names are listed without this module, which needs numpy.
    from localrank_training.learners.role import Learner

    return (
        isinstance(found, type)
        and Learner in found.__mro__
        and dataclasses.is_dataclass(found)
        and getattr(found, "method", None) == name
    )


LEARNERS: Components[type[Learner]] = Components(
    "learner",
    "localrank.learners",
    {
        "ranksvm": f"{_HERE}.ranksvm:RankSvm",
        "svmmap": f"{_HERE}.svmmap:SvmMap",
        "linear": f"{_HERE}.linear:LeastSquares",
        "rankboost": f"{_HERE}.rankboost:RankBoost",
        "gbrt": f"{_HERE}.boosting:Gbrt",
        "lambdamart": f"{_HERE}.boosting:LambdaMart",
        "extra_trees": f"{_HERE}.forests:ExtraTrees",
        "random_forest": f"{_HERE}.forests:RandomForest",
        "best_feature": f"{_HERE}.best_feature:BestFeature",
        "blend": f"{_HERE}.blend:Blend",
    },
    "a dataclass that inherits from localrank_training.Learner, with this name as its `method`",
    _is_learner,
)


def make(method: str, settings: Mapping[str, object], where: str = "") -> Learner:
    """Make a learner of its settings; what is left out has its default.

    Args:
        method: its name in configuration.
        settings: one value each.
        where: how the place is called in messages.

    Raises:
        InvalidConfiguration: no such learner, or a setting is unknown, of the wrong type or out of range.
    """
    return checked(LEARNERS.named(method), settings, where or f"learner {method!r}")
