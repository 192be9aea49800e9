"""What judged queries are like, in a minute: of different kinds or not, and which way of learning ranks them best.

A few quick models take the same cross-validation over a sample of the queries, so that their figures are paired query by
query. They are not tuned: the differences show where to look, not how good a long training run will be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localrank.metrics import Judgements
from localrank_training.advice.helping import METRIC, Advice, advise, sample_of
from localrank_training.evaluation.comparisons import compare_family
from localrank_training.evaluation.leaks import Leaks, leaks_of, suspicion
from localrank_training.evaluation.stability import flip_rates_of_known
from localrank_training.parallel.processes import silent
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from localrank.metrics import Measured
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.parallel.processes import Progress
    from localrank_training.run.train import Trained

CONVENTION = "standard"
#: A cluster is a kind of query if queries stay in it when they lose a tenth of their documents.
_STEADY = 0.1
_LEVEL = 0.05
_SHARED = ["selection.folds=3"]
#: Few trees, because an assessment should take only a minute.
_TREES = [*_SHARED, "learner.num_iterations=100", "learner.members=1", "learner.early_stopping_rounds=0"]
_CLUSTERS = ["clustering.method='complete_link'", "clustering.clusters=4"]
#: What is tried: a name, the learner, its settings, and the command that trains it in earnest.
_CANDIDATES = (
    ("one linear model", "ranksvm", _SHARED, "--learner ranksvm"),
    ("one model of trees", "lambdamart", _TREES, "--learner lambdamart"),
    (
        "linear models of 4 clusters",
        "ranksvm",
        [*_SHARED, *_CLUSTERS],
        "--learner ranksvm --set clustering.method='complete_link' --set clustering.candidates=[1,2,4,6]",
    ),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One quick model.

    Attributes:
        name: for people.
        mean: of the metric.
        against: the first candidate; None for itself.
        options: of ``localrank train``.
    """

    name: str
    mean: float
    against: Comparison | None
    options: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        against = None if self.against is None else self.against.to_json()
        return {"name": self.name, METRIC: self.mean, "against_first": against, "options": self.options}


@dataclass(frozen=True, slots=True)
class Assessment:
    """What was found.

    Attributes:
        queries, documents: that were looked at, ``of`` how many queries.
        candidates: the quick models.
        flips: the share of queries that change their cluster when a tenth of their documents is left out.
        sentences: the conclusions; the last one says what to do.
        advice: what should be done about the data.
        leaks: signs that the data do not say what they seem to say.
    """

    queries: int
    documents: int
    of: int
    candidates: tuple[Candidate, ...]
    flips: float
    sentences: tuple[str, ...]
    advice: Advice
    leaks: Leaks

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "queries": self.queries,
            "documents": self.documents,
            "of_queries": self.of,
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "flips": self.flips,
            "sentences": list(self.sentences),
            "advice": self.advice.to_json(),
            "leaks": self.leaks.to_json(),
        }


def assess(
    queries: QuerySet,
    *,
    command: str = "localrank train DATA",
    workers: int = 1,
    seed: int = 0,
    progress: Progress = silent,
) -> Assessment:
    """Train quick models on a sample of the queries and compare them.

    Args:
        queries: judged.
        command: that trains on them in earnest, without settings.
        workers: processes.
        seed: of samples.
        progress: told how far it is.

    Raises:
        InvalidData: fewer than ten queries have documents of different labels.
    """
    sample = sample_of(queries, seed)
    found: list[tuple[Trained, Measured]] = []
    for number, (_, learner, overrides, _) in enumerate(_CANDIDATES):
        config = TrainingConfig.read(method="global", learner=learner, overrides=overrides)
        trained = train(sample, config, workers=workers)
        held = trained.held_out
        judgements = Judgements(held.queries.labels, held.queries.offsets, CONVENTION)
        found.append((trained, judgements.measure(held.ranked.scores, [METRIC])[0]))
        progress("quick models", number + 1, len(_CANDIDATES))
    first = found[0][1]
    family = compare_family([measured for _, measured in found[1:]], [first] * (len(found) - 1), seed=seed)
    candidates = tuple(
        Candidate(name, measured.mean, against, options)
        for (name, _, _, options), (_, measured), against in zip(
            _CANDIDATES, found, (None, *family), strict=True
        )
    )
    local = found[-1][0].built
    flips = flip_rates_of_known(local.ranker, sample, local.clusters, seed)["drop_10_percent"]
    suspicious = (suspicion(trained.held_out.queries, [measured]) for trained, measured in found)
    best = next((f"{said[0].upper()}{said[1:]}." for said in suspicious if said), _best(candidates, command))
    sentences = (_kinds(flips), _local(family[-1]), best)
    advice = advise(queries, seed=seed)
    leaks = leaks_of(queries, seed=seed)
    return Assessment(len(sample), sample.n_docs, len(queries), candidates, flips, sentences, advice, leaks)


def _kinds(flips: float) -> str:
    stable = "stable" if flips <= _STEADY else "not stable"
    return (
        f"Clusters are {stable}: {flips:.0%} of the queries change their cluster if a tenth of their "
        "documents is left out."
    )


def _local(against: Comparison) -> str:
    figures = f"{METRIC} {against.difference:+.4f}, p = {against.p_holm:.2g}"
    if against.p_holm <= _LEVEL and against.difference > 0:
        return f"Local models are better than one linear model ({figures})."
    if against.p_holm <= _LEVEL:
        return f"Local models are worse than one linear model ({figures})."
    return f"Local models are not clearly better than one linear model ({figures})."


def _best(candidates: tuple[Candidate, ...], command: str) -> str:
    clear = [one for one in candidates if one.against is not None and one.against.p_holm <= _LEVEL]
    best = max(clear, key=lambda one: one.mean, default=candidates[0])
    if best.mean <= candidates[0].mean:
        return f"Nothing here is clearly better than {candidates[0].name}: start with {command} {candidates[0].options}."
    return (
        f"The best here is {best.name} ({command} {best.options}); without settings that command "
        "blends all of these."
    )
