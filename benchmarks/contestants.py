"""The rankers that `benchmarks.quality` compares: the default, and what a user would train instead.

Every one learns from the same judged queries, those for training and those for validation. A baseline makes its choices on
the validation queries or by cross-validation over all of them, and then learns from all of them.

- `auto`: ``localrank train`` without options.
- `global`: ``localrank train --method global``, RankSVM with C chosen on the validation queries, refitted.
- `lambdamart`: ``localrank train --learner lambdamart``, stopped on the validation queries, refitted.
- `lightgbm`: LightGBM's lambdarank; leaves and rounds by cross-validation over queries. Labels that are not whole numbers
  are numbered, each with its own gain.
- `catboost`: CatBoost's YetiRank with its defaults; rounds by cross-validation over queries. It is not among the
  project's dependencies: ``pip install catboost``.
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.metrics import Judgements
from localrank_training.data.queries import concatenated
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

METRICS = ("map", "ndcg@10")
_PARTS = 3
_LIGHTGBM_ROUNDS = 300
_CATBOOST_ROUNDS = 300


@dataclass(frozen=True, eq=False)
class Answer:
    """What one contestant made of one held-out set.

    Attributes:
        scores: ``[n_docs]`` of the held-out set.
        seconds: of processor time to learn.
        validation: mean of MAP and NDCG@10 on the validation queries before it learned from them; NaN if not known.
    """

    scores: Vector
    seconds: float
    validation: float = float("nan")


def figures_of(queries: QuerySet, scores: Vector) -> Vector:
    """Return ``[2, n_queries]`` MAP and NDCG@10; NaN without a relevant document."""
    judgements = Judgements(queries.labels, queries.offsets, "standard-skip")
    return np.array([one.per_query for one in judgements.measure(scores, METRICS)])


def _ours(settings: Mapping[str, Any]) -> Callable[[QuerySet, QuerySet, QuerySet], Answer]:
    def answer(lesson: QuerySet, validation: QuerySet, held_out: QuerySet) -> Answer:
        started = time.process_time()
        trained = train(lesson, TrainingConfig.read(**settings), validation=validation)
        seconds = time.process_time() - started
        held = trained.held_out
        value = float(np.nanmean(figures_of(held.queries, held.ranked.scores)))
        return Answer(rank_all(trained.built.ranker, held_out).scores, seconds, value)

    return answer


def _lightgbm(lesson: QuerySet, validation: QuerySet, held_out: QuerySet) -> Answer:
    import lightgbm

    started = time.process_time()
    queries = concatenated([lesson, validation])
    part_of = np.random.default_rng(0).permutation(np.arange(len(queries)) % _PARTS)

    whole = bool((queries.labels == np.trunc(queries.labels)).all())
    levels = np.arange(31.0) if whole else np.unique(queries.labels)

    def dataset(some: QuerySet) -> lightgbm.Dataset:
        grades = np.searchsorted(levels, some.labels)
        return lightgbm.Dataset(some.documents, grades, group=some.lengths, free_raw_data=False)

    def settings(leaves: int) -> dict[str, Any]:
        return {
            "objective": "lambdarank",
            "label_gain": (np.exp2(levels) - 1).tolist(),
            "metric": "ndcg",
            "eval_at": [10],
            "learning_rate": 0.05,
            "num_leaves": leaves,
            "num_threads": 1,
            "deterministic": True,
            "seed": 0,
            "verbosity": -1,
        }

    curves = {}
    for leaves in (7, 31):
        found = []
        for part in range(_PARTS):
            recorded: dict[str, Any] = {}
            known = dataset(queries.select(np.flatnonzero(part_of != part)))
            held = dataset(queries.select(np.flatnonzero(part_of == part)))
            lightgbm.train(
                settings(leaves),
                known,
                _LIGHTGBM_ROUNDS,
                valid_sets=[held],
                callbacks=[lightgbm.record_evaluation(recorded)],
            )
            found.append(recorded["valid_0"]["ndcg@10"])
        curves[leaves] = np.mean(found, axis=0)
    leaves = max(curves, key=lambda one: float(curves[one].max()))
    rounds = int(np.argmax(curves[leaves])) + 1
    model = lightgbm.train(settings(leaves), dataset(queries), rounds)
    seconds = time.process_time() - started
    return Answer(np.asarray(model.predict(held_out.documents), np.float64), seconds)


def _catboost(lesson: QuerySet, validation: QuerySet, held_out: QuerySet) -> Answer:
    catboost: Any = importlib.import_module("catboost")
    started = time.process_time()
    queries = concatenated([lesson, validation])
    part_of = np.random.default_rng(0).permutation(np.arange(len(queries)) % _PARTS)

    def pool(some: QuerySet) -> Any:
        return catboost.Pool(
            some.documents, some.labels, group_id=np.repeat(np.arange(len(some)), some.lengths)
        )

    def ranker(rounds: int) -> Any:
        return catboost.CatBoostRanker(
            loss_function="YetiRank",
            eval_metric="NDCG:top=10;type=Exp",
            iterations=rounds,
            thread_count=1,
            random_seed=0,
            verbose=0,
            allow_writing_files=False,
        )

    curves = []
    for part in range(_PARTS):
        model = ranker(_CATBOOST_ROUNDS)
        held = pool(queries.select(np.flatnonzero(part_of == part)))
        model.fit(pool(queries.select(np.flatnonzero(part_of != part))), eval_set=held, use_best_model=False)
        (name,) = [name for name in model.get_evals_result()["validation"] if "top=10" in name]
        curves.append(model.get_evals_result()["validation"][name])
    rounds = int(np.argmax(np.mean(curves, axis=0))) + 1
    model = ranker(rounds)
    model.fit(pool(queries))
    seconds = time.process_time() - started
    return Answer(np.asarray(model.predict(held_out.documents), np.float64), seconds)


#: ``contestant(lesson, validation, held_out)``, by name; the first is the default.
CONTESTANTS: Mapping[str, Callable[[QuerySet, QuerySet, QuerySet], Answer]] = {
    "auto": _ours({}),
    "global": _ours({"method": "global"}),
    "lambdamart": _ours({"learner": "lambdamart"}),
    "lightgbm": _lightgbm,
    "catboost": _catboost,
}
