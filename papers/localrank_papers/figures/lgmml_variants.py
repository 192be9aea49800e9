"""L-GMML on one fold of judged queries: as its paper has it, as its released code does it, and with test labels [su2017].

``paper``
    Labels make the similar and dissimilar sets, the metric is the geometric mean (t = 1/2), the nearest document comes first and
    the gradient has the right sign. A candidate set is of documents of all queries (algorithm 2) or of one query (section 3); the
    paper has both. Neither paper nor code says what weights a new query has: equal ones, the mean of the training queries', or
    their mean by similarity.
``released code``
    What runs (`released_lgmml`).
``label leak``
    Weights fitted to the labels of the test query itself: such a ranking cannot be served, but it is a bound for all
    weights.

Every column is divided by its norm over all documents, as in section 4.5. The model of ``m`` metrics has the first
``m`` metrics of one draw, so a sweep over ``m`` learns each metric only once.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.metrics import Judgements
from localrank.scorers import AnchoredBySimilarityScorer, AnchoredScorer
from localrank.scorers.anchored import bent
from localrank.signature import PcaRepresentation
from localrank_papers.figures.geometry import contract_of
from localrank_papers.figures.released_lgmml import Released, learn_released, released_weights
from localrank_papers.learners.anchors import usable_queries
from localrank_papers.learners.lgmml import LocalGeometricMeanMetrics
from localrank_papers.learners.warp import learn_weights
from localrank_training.clouds import Clouds
from localrank_training.learners.catalogue import make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.seen import scores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from localrank.arrays import Indices, Vector
    from localrank.scorers import Scorer
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_training.data.queries import QuerySet

METRICS = ("map", "ndcg@5", "ndcg@10", "ndcg@20")
#: In the order of `sweep`.
VARIANTS = (
    "paper, algorithm 2, equal weights",
    "paper, algorithm 2, mean weights",
    "paper, algorithm 2, weights by similarity",
    "paper, section 3, equal weights",
    "paper, section 3, mean weights",
    "paper, section 3, weights by similarity",
    "released code",
    "label leak (test labels), algorithm 2",
    "label leak (test labels), section 3",
)
RELEASED = VARIANTS.index("released code")
#: The paper's choices as far as it says; `metrics` is set by the sweep.
PAPER_LEARNER = LocalGeometricMeanMetrics(
    candidate_sets="documents", documents_per_set=200, t=0.5, curve="turning", blocks="raw"
)
_OF_ONE_QUERY = replace(PAPER_LEARNER, candidate_sets="queries", queries_per_set=1)
_BANDWIDTH, _COMPONENTS = 0.05, 3


def sweep(fold: Fold, *, sizes: Sequence[int], rounds: int, convention: str, seed: int) -> Arrays:
    """Measure all variants for several numbers of metrics.

    Returns:
        ``figures [n_variants, n_sizes, n_metrics, n_queries]`` on test queries; ``training`` NDCG@10 of the released code with its
        trained weights and with equal ones on training queries ``[2, n_queries]``; ``seconds [n_sizes]`` to learn as in the paper.
    """
    train, test = by_column_norm(fold.train), by_column_norm(fold.test, fold.train)
    released = learn_released(train, max(sizes), np.random.default_rng(seed))
    own = by_column_norm(fold.test)
    judged = Judgements(test.labels, test.offsets, convention)
    found = np.empty((len(VARIANTS), len(sizes), len(METRICS), len(test)))
    seconds = np.zeros(len(sizes))
    for number, size in enumerate(sizes):
        found[RELEASED, number] = _measured(judged, released.first(size).scores(own.documents))
    for learner, place, leaked in ((PAPER_LEARNER, 0, -2), (_OF_ONE_QUERY, 3, -1)):
        before = time.process_time()
        every = _sampled(learner, train, max(sizes), seed)
        to_sample = (time.process_time() - before) / len(every.weights)
        for number, size in enumerate(sizes):
            some = _first(every, size)
            before = time.process_time()
            learned = _weights(some, train, learner, rounds, seed)
            if place == 0:
                seconds[number] = time.process_time() - before + size * to_sample
            by_similarity = _by_similarity(some, learned, train)
            ways = (
                some.score_rows(test.documents),
                some.score_with(learned.weights.mean(axis=0), test.documents),
                np.concatenate([by_similarity.score_rows(one) for one in test.clouds()]),
            )
            found[place : place + 3, number] = [_measured(judged, one) for one in ways]
            found[leaked, number] = _measured(judged, _leaked(some, test, learner, rounds, seed))
    return {"figures": found, "training": _on_training(released, train, rounds, seed), "seconds": seconds}


def _sampled(learner: LocalGeometricMeanMetrics, train: QuerySet, metrics: int, seed: int) -> AnchoredScorer:
    relevant, shares = usable_queries(train, learner.relevant, np.full(len(train), 1.0 / len(train)), "lgmml")
    return replace(learner, metrics=metrics).sampled(train, relevant, shares, np.random.default_rng(seed))


def by_column_norm(queries: QuerySet, of: QuerySet | None = None) -> QuerySet:
    """Divide every column by its norm over all documents, those of `of` if it is given."""
    norms = np.sqrt(np.sum(np.square((of or queries).documents.astype(np.float64)), axis=0))
    return queries.with_documents((queries.documents / np.where(norms > 0, norms, 1.0)).astype(np.float32))


def _first(scorer: AnchoredScorer, size: int) -> AnchoredScorer:
    """Return the first metrics; all of them if the queries gave fewer."""
    size = min(size, len(scorer.weights))
    return replace(
        scorer,
        transforms=scorer.transforms[:size],
        origins=scorer.origins[:size],
        weights=np.full(size, 1.0 / size),
    )


class _Weights:
    """Weights of queries that have relevant and other documents.

    Attributes:
        queries: which ones.
        weights: ``[n, n_metrics]``.
    """

    def __init__(self, queries: Indices, weights: Vector) -> None:
        self.queries, self.weights = queries, weights


def _weights(
    scorer: AnchoredScorer, queries: QuerySet, learner: LocalGeometricMeanMetrics, rounds: int, seed: int
) -> _Weights:
    """Fit weights to each query by WARP."""
    relevant = queries.labels >= learner.relevant
    n_relevant = np.bincount(queries.query_of[relevant], minlength=len(queries))
    usable = np.flatnonzero((n_relevant > 0) & (n_relevant < queries.lengths))
    some = queries.select(usable)
    learned = learn_weights(
        bent(scorer.distances(some.documents), scorer.curve),
        some.labels >= learner.relevant,
        some.offsets,
        start=scorer.weights,
        rounds=rounds,
        step=learner.step / len(scorer.weights),
        margin=learner.margin,
        rng=np.random.default_rng(seed),
    )
    learned[~learned.any(axis=1)] = scorer.weights
    return _Weights(usable, learned)


def _by_similarity(scorer: AnchoredScorer, learned: _Weights, train: QuerySet) -> AnchoredBySimilarityScorer:
    some = train.select(learned.queries)
    signatures = PcaRepresentation(_COMPONENTS).sign_all(list(some.clouds()))
    shares = np.full(len(some), 1.0 / len(some))
    return AnchoredBySimilarityScorer(scorer, learned.weights, shares, signatures, "eq5", _BANDWIDTH)


def _leaked(
    scorer: AnchoredScorer, test: QuerySet, learner: LocalGeometricMeanMetrics, rounds: int, seed: int
) -> Vector:
    """Score test documents by weights fitted to their own labels."""
    scores = scorer.score_rows(test.documents)
    learned = _weights(scorer, test, learner, rounds, seed)
    for query, weights in zip(learned.queries.tolist(), learned.weights, strict=True):
        scores[test.span(query)] = scorer.score_with(weights, test.documents_of(query))
    return scores


def _on_training(released: Released, train: QuerySet, rounds: int, seed: int) -> Vector:
    judged = Judgements(train.labels, train.offsets)
    distances = released.distances(train.documents)
    weights = released_weights(distances, train, rounds, np.random.default_rng(seed))
    trained = released.combined(distances, weights[train.query_of])
    return np.stack([judged.per_query(one, "ndcg@10") for one in (trained, released.combined(distances))])


def _measured(judged: Judgements, scores: Vector) -> Vector:
    return np.stack([one.per_query for one in judged.measure(scores, METRICS)])


# ------------------------------------------------------------------------------------------------ other learners


def alone(fold: Fold, *, learner: str, settings: Sequence[Mapping[str, Any]], convention: str) -> Arrays:
    """Measure one of our learners on test queries, ``[n_metrics, n_queries]``; settings by MAP on validation queries."""
    scorer, exam, seconds = _best(fold, learner, settings)
    judged = Judgements(fold.test.labels, fold.test.offsets, convention)
    return {"figures": _measured(judged, scores_of(scorer, exam)), "seconds": np.array([seconds])}


def noisy(
    fold: Fold,
    *,
    learner: str,
    settings: Sequence[Mapping[str, Any]],
    columns: int,
    convention: str,
    seed: int,
) -> Arrays:
    """Do the same with this many columns of noise beside the features, uniform in [0, 1]."""
    rng = np.random.default_rng([seed, columns, fold.number])
    parts = [_with_noise(part, columns, rng) for part in (fold.train, fold.validation, fold.test)]
    return alone(replace(fold, train=parts[0], validation=parts[1], test=parts[2]), learner=learner, settings=settings,
                 convention=convention)  # fmt: skip


def _with_noise(queries: QuerySet, columns: int, rng: np.random.Generator) -> QuerySet:
    noise = rng.random((queries.n_docs, columns), np.float32)
    names = (*queries.feature_names, *(f"noise {number}" for number in range(1, columns + 1)))
    return replace(
        queries, documents=np.ascontiguousarray(np.hstack([queries.documents, noise])), feature_names=names
    )


def _best(fold: Fold, learner: str, settings: Sequence[Mapping[str, Any]]) -> tuple[Scorer, Lesson, float]:
    """Return the scorer of the best settings, the test queries as it sees them, and processor seconds of its one fit."""
    contract = contract_of(fold)
    clouds = [Clouds(part, contract) for part in (fold.train, fold.validation, fold.test)]
    found: tuple[float, Scorer, float] | None = None
    for values in settings:
        one = make(learner, values)
        train, held = clouds[0].seen_as(one.blocks), clouds[1].seen_as(one.blocks)
        before = time.process_time()
        scorer = one.fit(Lesson(train, validation=held, blocks=one.blocks, widths=clouds[0].widths))
        seconds = time.process_time() - before
        exam = Lesson(held, blocks=one.blocks, widths=clouds[1].widths)
        worth = 0.0
        if len(settings) > 1:
            worth = float(
                Judgements(held.labels, held.offsets).per_query(scores_of(scorer, exam), "map").mean()
            )
        if found is None or worth > found[0]:
            found = worth, scorer, seconds
    if found is None:
        raise ValueError("settings: expected at least one")
    blocks = make(learner, settings[0]).blocks
    return found[1], Lesson(clouds[2].seen_as(blocks), blocks=blocks, widths=clouds[2].widths), found[2]


def scoring_seconds(
    fold: Fold, *, sizes: Sequence[int], learners: Mapping[str, Mapping[str, Any]], repeats: int, seed: int
) -> Arrays:
    """Measure processor seconds per test document: of L-GMML by number of metrics, and of other learners."""
    train, test = by_column_norm(fold.train), by_column_norm(fold.test, fold.train)
    every = _sampled(PAPER_LEARNER, train, max(sizes), seed)
    scorers = [_first(every, size) for size in sizes]
    ways: list[Callable[[], object]] = [
        lambda one=one: [one.score_rows(documents) for documents in test.clouds()]  # type: ignore[misc]
        for one in scorers
    ]
    for name, settings in learners.items():
        scorer, exam, _ = _best(fold, name, [settings])
        parts = [exam.select([query]) for query in range(len(exam.queries))]
        ways.append(lambda scorer=scorer, parts=parts: [scores_of(scorer, one) for one in parts])  # type: ignore[misc]
    took = np.full(len(ways), np.inf)
    for _ in range(repeats):
        for number, way in enumerate(ways):
            before = time.process_time()
            way()
            took[number] = min(took[number], time.process_time() - before)
    took /= test.n_docs
    return {"lgmml": took[: len(sizes)], "others": took[len(sizes) :]}
