"""The slow parts of the page of a training run: what it shows besides the report of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localrank.errors import InvalidData
from localrank_training.advice.helping import advise
from localrank_training.advice.learning_curve import learning_curve
from localrank_training.data.clouds import Clouds
from localrank_training.data.inspection import inspect
from localrank_training.evaluation.features import importances_of
from localrank_training.parallel.processes import silent
from localrank_training.report.query_map import has_places, query_map

if TYPE_CHECKING:
    from localrank.points.similarity import QueryMap
    from localrank_training.advice.helping import Advice
    from localrank_training.advice.learning_curve import LearningCurve
    from localrank_training.data.inspection import Inspection
    from localrank_training.evaluation.features import Importances
    from localrank_training.parallel.processes import Progress
    from localrank_training.run.train import Trained
    from localrank_training.settings.config import TrainingConfig

#: Of fewer queries there is nothing to see on a map.
_FEWEST_ON_A_MAP = 3


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """The queries, the model and what would help.

    Attributes:
        inspection: of the queries that were learned from.
        importances: of the features; None if a scorer is no sum over features.
        map: of the queries; None if there is one model for all, or too few can be compared.
        advice: what should be done about the data; None if there are too few queries to say.
        curve: quality by number of queries; None if it was not asked for, or there are too few queries.
        missing: why a part is not there: `advice` or `curve` and a sentence.
    """

    inspection: Inspection
    importances: Importances | None
    map: QueryMap | None
    advice: Advice | None
    curve: LearningCurve | None
    missing: dict[str, str]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What it comes to."""
        curve = () if self.curve is None else (self.curve.sentence,)
        return (*curve, *(() if self.advice is None else self.advice.sentences))

    def to_json(self) -> dict[str, Any]:
        """What took time to find out, as JSON values."""
        return {
            "advice": None if self.advice is None else self.advice.to_json(),
            "learning_curve": None if self.curve is None else self.curve.to_json(),
            "missing": dict(self.missing),
        }


def background_of(
    trained: Trained,
    config: TrainingConfig,
    *,
    curve: bool = False,
    seed: int = 0,
    workers: int = 1,
    progress: Progress = silent,
) -> Background:
    """Look at the queries that a model was trained on.

    Args:
        trained: the model and the queries.
        config: the one that the run began with, choices left open, as the learning curve makes them each time.
        curve: also train on growing shares of the queries, which takes several times as long as the training.
        seed: of samples.
        workers: processes.
        progress: told how far it is.
    """
    queries, ranker = trained.queries, trained.built.ranker
    missing: dict[str, str] = {}
    progress("features", 0, 1)
    importances = importances_of(ranker, queries.lists)
    progress("features", 1, 1)
    drawn = None
    similarity = trained.config.similarity.name
    if len(trained.built.exemplars) > 1 and has_places(ranker, similarity):
        points = ranker.representation.of_all(Clouds(queries, ranker.contract))
        found = query_map(points, trained.built.clusters[: len(queries)], similarity, seed=seed)
        drawn = found if len(found.queries) >= _FEWEST_ON_A_MAP else None
    advice = None
    try:
        advice = advise(queries, seed=seed)
    except InvalidData as error:
        missing["advice"] = f"What should be done about the data is not known: {error}."
    line = None
    if curve:
        line = learning_curve(queries, config, workers=workers, progress=progress)
        if line is None:
            missing["curve"] = "There are too few queries for a learning curve."
    else:
        missing["curve"] = (
            "There is no learning curve; `--learning-curve` adds it. It trains on growing shares of the "
            "queries and takes several times as long as the training."
        )
    return Background(inspect(queries, progress=progress), importances, drawn, advice, line, missing)
