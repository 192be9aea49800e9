"""The ways to rank that LocalRank compares itself with in Figure 11: RankBoost, KNN, and Duh and Kirchhoff's."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.measures import one_to_many
from localrank.metrics import Judgements
from localrank_papers.figures.geometry import Geometry
from localrank_papers.figures.transfer import School, figures_by
from localrank_papers.transductive import KernelFeatures, rank_transductively
from localrank_training.neighbours import nearest_queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Indices, Vector
    from localrank.representation import Points
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold


def boosted(fold: Fold, *, convention: str) -> Arrays:
    """Learn by RankBoost, as many rounds as MAP on validation queries wants; measure on test queries."""
    school = School.of(fold, "rankboost", {"metric": "map"}, convention)
    held_out = school.exams["validation"].queries
    scorer = school.learner.fit(replace(school.lesson, validation=held_out))
    return {"test": school.measured(scorer, "test")}


def neighbours(
    fold: Fold, *, counts: Sequence[int], settings: Sequence[Mapping[str, Any]], convention: str
) -> Arrays:
    """Rank every query by the model of the nearest training query and its K nearest [geng2008].

    Queries are the mean of their best documents, and near by the distance of these. The setting of SVMmap is that of one model; K
    is chosen on validation queries. Only models are learned that some query asks for.
    """
    school = one_model(fold, settings, convention)
    geometry = Geometry("top_documents", similarity="euclidean")
    train, validation, test = geometry.points(fold)
    nearest = nearest_queries(train, max(counts) + 1, "euclidean")

    def by(part: str, count: int, asked: Indices) -> Vector:
        found = school.measured(school.everything, part)
        for query in np.unique(asked[asked >= 0]).tolist():
            mine = np.flatnonzero(asked == query)
            scorer = school.taught(np.sort(nearest[query, : count + 1]))
            found[mine] = school.measured(scorer, part)[mine]
        return found

    before = time.process_time()
    within = [count for count in counts if count < len(train)] or [len(train) - 1]
    held_out = _nearest(validation, train)
    means = [by("validation", count, held_out)[:, 0].mean() for count in within]
    best = within[int(np.argmax(means))]
    found = by("test", best, _nearest(test, train))
    return {"test": found, "chosen": np.array([best]), "seconds": np.array([time.process_time() - before])}


def transduced(
    fold: Fold,
    *,
    kernels: Sequence[str],
    components: int,
    settings: Sequence[Mapping[str, Any]],
    most: int,
    seed: int,
    convention: str,
) -> Arrays:
    """Learn a model for each test query on kernel principal components of its documents [duh2008].

    The setting of SVMmap is that of one model. Of more than ``most`` test queries some are drawn.
    """
    school = one_model(fold, settings, convention)
    n_queries = len(fold.test)
    rng = np.random.default_rng([seed, fold.number])
    asked = np.sort(rng.permutation(n_queries)[:most])
    exam = school.exams["test"].queries.select(asked)
    judged = Judgements(exam.labels, exam.offsets, convention)
    found: Arrays = {"queries": asked}
    for kernel in kernels:
        before = time.process_time()
        features = KernelFeatures(kernel, components)  # type: ignore[arg-type]
        scores = rank_transductively(school.lesson, exam, school.learner, features)
        found[kernel] = figures_by(judged, scores)
        found[f"{kernel}, seconds"] = np.array([(time.process_time() - before) / max(len(asked), 1)])
    return found


def one_model(fold: Fold, settings: Sequence[Mapping[str, Any]], convention: str) -> School:
    """Return the fold with SVMmap by the setting whose model of all queries is best on the validation queries."""
    schools = [School.of(fold, "svmmap", values, convention) for values in settings]
    means = [school.measured(school.everything, "validation")[:, 0].mean() for school in schools]
    return schools[int(np.argmax(means))]


def _nearest(asked: Points, among: Points) -> Indices:
    """Return ``[n_queries]`` the nearest training query; -1 for a query that cannot be compared."""
    found = np.full(len(asked), -1)
    for query in np.flatnonzero(asked.known).tolist():
        found[query] = int(np.argmax(one_to_many(asked.of(query), among, "euclidean")))
    return found
