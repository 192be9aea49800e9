r"""The engine that chooses settings: every candidate is measured on queries that its models were not built from.

A list where a learner takes one value is a choice, and so are the numbers of clusters. They are made together: the best
``C`` of one global model need not be the best for five clusters.

    choices_of    every combination of the open settings
    splits_of     the validation queries apart, or every training query in turn (cross-validation over queries)
    Candidates    figures of every combination on every split, and what the best one made of the held-out queries

`localrank_training.run.train` and `localrank_training.run.tune` ask it. A blend chooses its members' settings by scores of
single models, not of whole rankers: `localrank_training.learners.out_of_fold`. Both keep what they find in a
`localrank_training.journal`, so that a stopped run goes on where it was.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from localrank.errors import InvalidData
from localrank.features.blocks import union
from localrank.metrics import Judgements
from localrank.settings import settings_of, values_of
from localrank_training.data.clouds import Clouds
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.journal import each_known
from localrank_training.learners.notes import collected
from localrank_training.learners.settings import LearnerSettings
from localrank_training.parallel.processes import each_in_parallel, in_parallel, silent
from localrank_training.run import guarding
from localrank_training.run.pipeline import build, lesson_of, lists_of, plan_of, prepared, wants_route
from localrank_training.settings.steps import ClusteringSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from localrank.arrays import Indices, Vector
    from localrank.features.contract import FeatureContract
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.evaluating import RankedQueries
    from localrank_training.journal import Journal
    from localrank_training.learners.notes import Note
    from localrank_training.learners.role import Learner
    from localrank_training.parallel.processes import Progress
    from localrank_training.run.pipeline import Plan
    from localrank_training.settings.config import TrainingConfig


@dataclass(frozen=True, slots=True)
class Trial:
    """One combination that was tried, and the mean of the selection metric over the held-out queries."""

    setting: str
    value: float
    chosen: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One combination of the settings that a configuration leaves open.

    Attributes:
        config: with these settings.
        learner: learns its scorers.
        number: of the learner among those of the configuration.
        values: ``{setting: value}`` of the open settings only.
    """

    config: TrainingConfig
    learner: Learner
    number: int
    values: dict[str, Any]

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())


def choices_of(config: TrainingConfig) -> list[Choice]:
    """Return every combination, those of fewer clusters first."""
    learners = config.learner.candidates()
    combinations = [values_of(learner) for learner in learners]
    names = open_settings(combinations)
    sizes = config.clustering.sizes
    options = config.clustering.options
    found = []
    for size in sorted(set(sizes)) or (None,):
        for settled in options if size != 1 else ({},):
            named: dict[str, Any] = {"clusters": size} if len(sizes) > 1 else {}
            if len(options) > 1:
                named |= settled
            for number, (learner, settings) in enumerate(zip(learners, combinations, strict=True)):
                chosen = config.replace(learner=LearnerSettings(config.learner.method, settings))
                values = {name: settings[name] for name in names} | named
                found.append(Choice(chosen.with_clusters(size, **settled), learner, number, values))
    return found


def open_settings(combinations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the settings that differ between combinations."""
    return [name for name in combinations[0] if len({repr(settings[name]) for settings in combinations}) > 1]


def edges(
    tried_values: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any], config: TrainingConfig
) -> list[str]:
    """Return a sentence for each chosen number that is the smallest or largest one tried: better ones may lie beyond
    it.

    This does not count if the setting allows no smaller or larger number, or if only two were tried.

    Args:
        tried_values: the open settings of every combination, ``clusters``, those of the learner, or ``table.setting``.
        chosen: those of the best.
        config: of the best.
    """
    found = []
    for name, value in chosen.items():
        tried = {values[name] for values in tried_values if name in values}
        if len(tried) < 3 or not all(
            isinstance(one, int | float) and not isinstance(one, bool) for one in tried
        ):
            continue
        for edge, bound, word in ((min(tried), "low", "smallest"), (max(tried), "high", "largest")):
            if value == edge != _bound(config, name, bound):
                found.append(
                    f"{name} = {value:g} is the {word} value that was tried; "
                    f"{'smaller' if bound == 'low' else 'larger'} ones may be better"
                )
    return found


def _bound(config: TrainingConfig, name: str, bound: str) -> float | None:
    """Return the inclusive bound of a number that may be set."""
    table, _, setting = name.rpartition(".")
    settings = {
        "": (*settings_of(config.learner.kind), *settings_of(ClusteringSettings)),
        "learner": settings_of(config.learner.kind),
    }
    known = settings[table] if table in settings else settings_of(type(getattr(config, table)))
    limit: float | None = {one.name: one.bounds for one in known}[setting].get(bound)
    return limit


def folds_of(n_queries: int, wanted: int, seed: int) -> list[Indices]:
    """Return the queries of each fold of a cross-validation, a seeded partition."""
    n_folds = min(wanted, n_queries)
    if n_folds < 2:
        raise InvalidData(f"expected at least 2 queries to train on, found {n_queries}")
    shuffled = np.random.default_rng(seed).permutation(n_queries)
    return [np.sort(shuffled[i::n_folds]) for i in range(n_folds)]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The queries that a model is built from, those that judge it, and those that may stop it early.

    The parts are taken when they are needed. So only one set of queries is sent to other processes, for any number of
    splits.

    Attributes:
        queries: all of them.
        held: positions of those that the model is judged on and not built from; ``None`` if the validation queries judge.
        validation: the validation queries.
    """

    queries: QuerySet
    held: Indices | None
    validation: QuerySet | None = None

    @property
    def training(self) -> QuerySet:
        """What the model is built from."""
        if self.held is None:
            return self.queries
        return self.queries.select(np.setdiff1d(np.arange(len(self.queries)), self.held))

    @property
    def held_out(self) -> QuerySet:
        """What the model is judged on."""
        if self.held is not None:
            return self.queries.select(self.held)
        return cast("QuerySet", self.validation)


def splits_of(queries: QuerySet, config: TrainingConfig, validation: QuerySet | None = None) -> list[Split]:
    """Return the one split by validation queries, or those of a cross-validation."""
    if validation is not None:
        return [Split(queries, None, validation)]
    return [Split(queries, fold) for fold in folds_of(len(queries), config.selection.folds, config.seed)]


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """What one combination made of the held-out queries of one split.

    Attributes:
        ranked: the queries as its ranker orders them.
        local, global_: ``[n_queries]`` the selection metric of the ranker and of its global scorer.
        learned: what its clusters' learners noted.
        evidence: what a guard may be chosen by, if one is asked for.
    """

    ranked: RankedQueries
    local: Vector
    global_: Vector
    learned: tuple[Note, ...]
    evidence: guarding.Evidence | None


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """How one combination did, split by split.

    Attributes:
        local, global_: ``[n_queries]`` of each split: the selection metric of the rankers and of their global scorers.
        value: mean of ``local``, each query by its weight.
    """

    local: tuple[Vector, ...]
    global_: tuple[Vector, ...]
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class _Globals:
    """The contract of one split, and its global scorers by number of the learner, with what was noted of each.

    If a learner sees routes, it has no global scorer here, because each number of clusters has other routes.
    """

    contract: FeatureContract
    scorers: dict[int, Scorer | None]
    notes: dict[int, list[Note]]


class Candidates:
    """The combinations of one configuration, each measured on every split.

    They share what they have in common: the global scorer of a learner serves every clustering, and the clusters of a
    split serve every learner.

    Args:
        choices: combinations of one configuration; those of the same clusters stand together.
        splits: of the queries.
        journal: keeps the figures. What it knows is not made again, except the rankings of the best combination.
        workers: processes; the result does not depend on it.
        progress: told how far it is.
    """

    def __init__(
        self,
        choices: Sequence[Choice],
        splits: Sequence[Split],
        *,
        journal: Journal | None = None,
        workers: int = 1,
        progress: Progress = silent,
    ) -> None:
        self.choices, self.splits = choices, splits
        self._journal, self._workers, self._progress = journal, workers, progress
        self._globals: dict[int, _Globals] = {}
        self._examined: dict[tuple[int, int], Examined] = {}

    def figures(self) -> list[Figures]:
        """Return the figures of every combination."""
        pieces = list(itertools.product(range(len(self.choices)), range(len(self.splits))))
        whats = [
            {"configuration": self.choices[number].config.to_json(), "fold": split}
            for number, split in pieces
        ]
        results = each_known(
            whats, lambda missing: self._figures([pieces[place] for place in missing]), self._journal
        )
        shares = [weights_of(split.held_out) for split in self.splits]
        sizes = [float(one.sum()) for one in shares]
        found: list[Figures] = []
        best = 0
        for number in range(len(self.choices)):
            rows = []
            for row in itertools.islice(results, len(self.splits)):
                rows.append(row)
                self._progress("held-out models", len(self.splits) * number + len(rows), len(pieces))
            local, global_ = (tuple(np.array(row[name]) for row in rows) for name in ("local", "global"))
            means = [
                float(np.average(one, weights=share)) if share.any() else 0.0
                for one, share in zip(local, shares, strict=True)
            ]
            found.append(Figures(local, global_, float(np.average(means, weights=sizes))))
            if found[-1].value > found[best].value:
                best = number
            self._examined = {place: one for place, one in self._examined.items() if place[0] == best}
        return found

    def examined(self, number: int) -> list[Examined]:
        """Return what a combination made of every split: at once if it is the best of `figures`."""
        places = [(number, split) for split in range(len(self.splits))]
        missing = [place for place in places if place not in self._examined]
        self._examined.update(zip(missing, self._results(missing), strict=True))
        return [self._examined[place] for place in places]

    def global_scorer(self, number: int) -> tuple[Scorer | None, list[Note]]:
        """Return the global scorer of a combination on the first split, and what was noted of it."""
        self._fit_globals([0])
        fitted, learner = self._globals[0], self.choices[number].number
        return fitted.scorers[learner], fitted.notes[learner]

    def _figures(self, places: Sequence[tuple[int, int]]) -> Iterator[dict[str, Any]]:
        for place, result in zip(places, self._results(places), strict=True):
            self._examined[place] = result
            yield {"local": result.local.tolist(), "global": result.global_.tolist()}

    def _results(self, places: Sequence[tuple[int, int]]) -> Iterator[Examined]:
        """Build the ranker of every combination and split, and let it rank what is held out.

        Combinations of the same clusters share one plan for each split, which is dropped after them.
        """
        self._fit_globals(split for _, split in places)
        plans: dict[int, Plan] = {}
        for _, together in itertools.groupby(places, lambda place: self.choices[place[0]].config.clustering):
            alike = list(together)
            config = self.choices[alike[0][0]].config
            numbers = list(dict.fromkeys(split for _, split in alike))
            planned = [
                (self.splits[split], config, self._globals[split].contract, plans.get(split))
                for split in numbers
            ]
            plans |= zip(numbers, in_parallel(_plan, planned, workers=self._workers), strict=True)
            pieces = []
            for number, split in alike:
                choice = self.choices[number]
                scorer = self._globals[split].scorers[choice.number]
                pieces.append((self.splits[split], choice, scorer, plans[split]))
            yield from each_in_parallel(_examine, pieces, workers=self._workers)

    def _fit_globals(self, splits: Iterable[int]) -> None:
        """Fit the global scorers of these splits, each learner's from that of the one before."""
        missing = [split for split in dict.fromkeys(splits) if split not in self._globals]
        learners = {choice.number: choice.learner for choice in self.choices}
        fitted = in_parallel(
            _fit_globals,
            [(self.splits[split], self.choices[0].config, learners) for split in missing],
            workers=self._workers,
            progress=lambda done, total: self._progress("global scorers", done, total),
        )
        self._globals |= zip(missing, fitted, strict=True)


def _fit_globals(split: Split, config: TrainingConfig, learners: Mapping[int, Learner]) -> _Globals:
    """Fit every learner on all training queries of a split."""
    lists, weights = lists_of(split.training, config)
    blocks = union(learner.blocks for learner in learners.values())
    clouds, held, _ = prepared(lists, split.validation, config, blocks)
    fitted = _Globals(clouds.contract, {}, {})
    start: Scorer | None = None
    for number, learner in learners.items():
        with collected() as notes:
            start = learner.learn(replace(lesson_of(clouds, held, weights, learner), start=start))
        fitted.scorers[number] = None if wants_route(learner.blocks) else start
        fitted.notes[number] = notes
    return fitted


def _plan(split: Split, config: TrainingConfig, contract: FeatureContract, like: Plan | None) -> Plan:
    """Plan the models of a split by its contract; take the points from an earlier plan of the split."""
    lists, _ = lists_of(split.training, config)
    return plan_of(Clouds(lists, contract), config, like)


def _examine(split: Split, choice: Choice, global_scorer: Scorer | None, plan: Plan) -> Examined:
    """Build a whole ranker on a split, and let it rank the held-out queries."""
    built = build(
        split.training,
        choice.config,
        choice.learner,
        validation=split.validation,
        global_scorer=global_scorer,
        plan=plan,
    )
    held_out, config = split.held_out, choice.config
    ranked = rank_all(built.ranker, held_out)
    judged = Judgements(held_out.labels, held_out.offsets)
    guards = config.guard.learn and bool(built.ranker.scorers)
    return Examined(
        ranked,
        judged.per_query(ranked.scores, config.selection.metric),
        judged.per_query(ranked.global_scores, config.selection.metric),
        built.learned,
        guarding.evidence_of(built.ranker, held_out) if guards else None,
    )


def weights_of(queries: QuerySet) -> Vector:
    """Return ``[n_queries]`` how much each query counts in a choice."""
    return np.ones(len(queries)) if queries.weights is None else queries.weights
