"""What judged queries are like, in a minute: of different kinds or not, what suits them, and what a model is worth.

It is a training run of the default method within a small budget, on as many queries as that affords. Every figure is of
queries that the models had not seen, with settings, locality and weights chosen without them. A run without the budget has
more rounds, seeds and settings, so its model should be a little better than these figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank_training.advice.helping import FEWEST, Advice, advise, drawn
from localrank_training.evaluation.leaks import Leaks, leaks_of
from localrank_training.grouping.kinds import SHAPE
from localrank_training.learners.budget import plan_fits
from localrank_training.parallel.processes import silent
from localrank_training.report.figures import report_of
from localrank_training.report.verdict import is_better
from localrank_training.run.blended import blend_for
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet
    from localrank_training.parallel.processes import Progress
    from localrank_training.report.figures import TrainingReport
    from localrank_training.run.train import Trained

#: Processor seconds, counted, that the quick run is planned for.
BUDGET = 60.0


@dataclass(frozen=True, slots=True)
class Assessment:
    """What was found.

    Attributes:
        queries, documents: that the quick run learned from, ``of`` how many queries.
        trained: by the quick run.
        report: its figures.
        command: that trains in earnest.
        advice: what should be done about the data.
        leaks: signs that the data do not say what they seem to say.
    """

    queries: int
    documents: int
    of: int
    trained: Trained
    report: TrainingReport
    command: str
    advice: Advice
    leaks: Leaks

    @property
    def sentences(self) -> tuple[str, ...]:
        """The conclusions; the last one says what to do."""
        return (*self._kinds(), f"{_capital(self.report.baseline.sentence)}.", self._next())

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "queries": self.queries,
            "documents": self.documents,
            "of_queries": self.of,
            "metrics": self.report.metrics_json(),
            "notes": list(self.report.notes),
            "command": self.command,
            "sentences": list(self.sentences),
            "advice": self.advice.to_json(),
            "leaks": self.leaks.to_json(),
        }

    def _kinds(self) -> tuple[str, ...]:
        found = None if self.report.blend is None else self.report.blend.localised
        if found is None:
            return ()
        way = "by their shape" if found.by == SHAPE else f"by {found.by}"
        if found.locality is None:
            return (f"Local models are not better by enough ({found.gain}; best parted {way}).",)
        return (f"The queries are of different kinds, parted {way}: local models gain {found.gain}.",)

    def _next(self) -> str:
        if self.report.verdict.outcome == "suspect":
            return f"{_capital(self.report.verdict.sentence.removeprefix('verdict: '))}."
        if is_better(self.report.baseline.comparisons):
            return f"Train it in earnest: {self.command}"
        return (
            "No figure of the quick model is clearly better, so look at the labels and features first; a whole run may still "
            f"find more: {self.command}"
        )


def assess(
    queries: QuerySet,
    *,
    command: str = "localrank train DATA",
    budget: float = BUDGET,
    workers: int = 1,
    seed: int = 0,
    progress: Progress = silent,
) -> Assessment:
    """Train the default quickly on a sample of the queries.

    Args:
        queries: judged.
        command: that trains on them in earnest.
        budget: processor seconds, counted, of the quick run.
        workers: processes.
        seed: of the sample.
        progress: told how far it is.

    Raises:
        InvalidData: fewer than ten queries have documents of different labels.
    """
    config = TrainingConfig.read(overrides=[f"learner.budget={budget}"])
    sample = affordable(queries, config, seed)
    trained = train(sample, config, workers=workers, progress=progress)
    return Assessment(
        queries=len(sample),
        documents=sample.n_docs,
        of=len(queries),
        trained=trained,
        report=report_of(trained, seed),
        command=command,
        advice=advise(queries, seed=seed),
        leaks=leaks_of(queries, seed=seed),
    )


def affordable(queries: QuerySet, config: TrainingConfig, seed: int) -> QuerySet:
    """Return queries that can teach something: as many as the budget affords without leaving out a member.

    Raises:
        InvalidData: fewer than ten queries have documents of different labels.
    """
    order = drawn(queries, seed)
    documents = np.cumsum(queries.lengths[order])
    blend = blend_for(queries, config)

    def affords(count: int) -> bool:
        plan = plan_fits(blend, int(documents[count - 1]), queries.n_features)
        return blend.budget is None or (
            plan.seconds <= blend.budget and len(plan.members) == len(blend.members)
        )

    low, high = FEWEST, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if affords(middle) else (low, middle - 1)
    return queries.select(np.sort(order[:low]))


def _capital(said: str) -> str:
    return said[0].upper() + said[1:]
