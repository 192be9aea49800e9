"""The offline half: data, clustering, learners, evaluation, publishing, and the command line.

The public interface, imported when it is first used:

    from localrank_training import LocalRanker                     the scikit-learn estimator
    from localrank_training import read, read_table                judged queries from files and tables
    from localrank_training import TrainingConfig, train, publish  what `localrank train` does
    from localrank_training import evaluate                        what `localrank evaluate` does
    from localrank_training import read_model                      models of other libraries
    from localrank_training import Learner, Lesson                 to write a learner of one's own (docs/use/plugins.md)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from localrank_training.data.reading import read, read_table
    from localrank_training.estimator import LocalRanker
    from localrank_training.evaluation.evaluating import evaluate
    from localrank_training.learners.lesson import Lesson
    from localrank_training.learners.role import Learner
    from localrank_training.origins import read_model
    from localrank_training.publishing.publish import publish
    from localrank_training.run.train import train
    from localrank_training.settings.config import TrainingConfig

__all__ = [
    "Learner",
    "Lesson",
    "LocalRanker",
    "QuerySet",
    "TrainingConfig",
    "evaluate",
    "publish",
    "read",
    "read_model",
    "read_table",
    "train",
]

#: Commands import this package too, and answer ``--help`` at once: nothing is imported here before it is used.
_HOMES = {
    "Learner": "learners.role",
    "Lesson": "learners.lesson",
    "LocalRanker": "estimator",
    "QuerySet": "data.queries",
    "TrainingConfig": "settings.config",
    "evaluate": "evaluation.evaluating",
    "publish": "publishing.publish",
    "read": "data.reading",
    "read_model": "origins",
    "read_table": "data.reading",
    "train": "run.train",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
