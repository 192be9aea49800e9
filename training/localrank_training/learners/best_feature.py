r"""The best single feature with its direction, used as a ranker: what every model must beat.

.. math:: f(x) = \pm x_k

with the feature ``k`` and the sign of the best mean metric on the training queries. Comparing every model with it, query by query,
is called best-feature calibration [kuzi2019].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from localrank.errors import InvalidData
from localrank.features.blocks import parse
from localrank.metrics import Judgements, Metric
from localrank.scorers import LinearScorer
from localrank.settings import setting
from localrank_training.learners.notes import note
from localrank_training.learners.role import Learner

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson


@dataclass(frozen=True, slots=True)
class BestFeature(Learner):
    """Rank by the one feature, upwards or downwards, that ranks the training queries best."""

    metric: str = setting("ndcg@10", check=Metric.parse, meaning="metric that the feature maximises")
    direction: Literal["both", "up", "down"] = setting(
        "both",
        meaning="which values are good: large ones (up), small ones (down), or the better of the two",
    )

    blocks: str = setting("normalised", check=parse, meaning="blocks of features to choose from")

    method: ClassVar[str] = "best_feature"

    def fit(self, lesson: Lesson) -> LinearScorer:
        """Learn one scorer; see `Learner.fit`.

        Documents with equal values are ranked worst first, so that a feature earns nothing by the order of the input.
        """
        lesson.refuse_towards(self.method, "there is nothing between two features")
        lesson.check(self.method)
        lesson = lesson.counted()
        queries = lesson.queries
        signs = {"both": (1.0, -1.0), "up": (1.0,), "down": (-1.0,)}[self.direction]
        feature, sign, best = best_feature(queries, self.metric, lesson.shares, signs)
        name = queries.feature_names[feature]
        note(
            self.method,
            f"{'large' if sign > 0 else 'small'} values of feature {name!r} reach {self.metric} {best:.4f} in training",
            value=best,
            feature=feature,
        )
        weights = np.zeros(queries.n_features)
        weights[feature] = sign
        return LinearScorer(weights, self.blocks)


def best_feature(
    queries: QuerySet, metric: str, weights: Vector | None = None, signs: tuple[float, ...] = (1.0, -1.0)
) -> tuple[int, float, float]:
    """Return the feature that ranks the queries best, its sign (1 is large values first), and the mean it reaches.

    Codes of categories have no order, so they are left out; all blocks but ``raw`` have encodings instead.

    Raises:
        InvalidData: there are only codes.
    """
    judgements = Judgements(queries.labels, queries.offsets)
    best, feature, sign = -np.inf, 0, 1.0
    for column, known in enumerate(queries.features):
        if known.kind == "category":
            continue
        values = queries.documents[:, column].astype(np.float64)
        for tried in signs:
            (measured,) = judgements.measure(tried * values, [metric], ties="pessimistic")
            mean = float(np.average(measured.per_query, weights=weights))
            if mean > best:
                best, feature, sign = mean, column, tried
    if best == -np.inf:
        raise InvalidData(
            "best_feature: expected a number, found codes of categories only; take blocks other than raw"
        )
    return feature, sign, best
