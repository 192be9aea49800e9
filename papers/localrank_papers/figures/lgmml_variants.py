r"""The method of the code released with L-GMML. It differs from the paper; for comparison only [su2017].

1. A number of different queries are drawn. In each, the documents are in the order of the file, and their positions decide.
   The first ``n`` are "similar". To find ``n``, the code takes the different labels in order of appearance, and counts the
   documents with a label in the first half of these. The last documents are "dissimilar" to them: as many as have label 0,
   and one more. Both sets hold all labels.
2. All pairs within the first set, and all pairs between the first and the second set, are shuffled. The code keeps the
   same number of both: 80 % of the smaller number of pairs. Their scatters, plus 0.1 of the identity, are :math:`S` and
   :math:`D`.
3. The metric is the point at :math:`t = 1` from :math:`S^{-1}` to :math:`D`: :math:`D` itself, or :math:`S^{-1}` if that is the
   better conditioned of the two, because the ends are exchanged without :math:`t` becoming :math:`1 - t`.
4. The anchor is one of the first documents of the list, the one with the best NDCG@10 if the list is sorted by the distance to it.
5. A list is sorted ascending by :math:`-\sqrt{\sum_r \theta_r d_r e^{-d_r}}`: the farthest first, as long as distances are below one.
6. The weights of a query are kept by its name and are 1 for any other, so training does not matter for test queries.

Columns are divided by their norm over all documents that are loaded, those of a test set by its own. A query at which the code
stops (no document of another label than 0, or no anchor with an NDCG above zero) is passed over here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank.points.signature import PcaRepresentation
from localrank.scorers import AnchoredBySimilarityScorer, AnchoredScorer
from localrank.scorers.anchored import bent
from localrank_papers.figures.geometry import contract_of
from localrank_papers.learners.gmml import usable_queries
from localrank_papers.learners.lgmml import LocalGeometricMeanMetrics, learn_weights, rank_weights
from localrank_training.data.clouds import Clouds
from localrank_training.learners.catalogue import make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.seen import scores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.scorers import Scorer
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_training.data.queries import QuerySet

_RATE, _REGULARISATION, _T = 0.8, 0.1, 1.0
#: How much better than the relevant document a document must be to be a violator.
_VIOLATES = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """Metrics and anchors.

    Attributes:
        metrics: ``[m, n_features, n_features]``.
        anchors: ``[m, n_features]``.
    """

    metrics: Vector
    anchors: Vector

    def first(self, size: int) -> Released:
        """Return the first metrics of all."""
        return replace(self, metrics=self.metrics[:size], anchors=self.anchors[:size])

    def distances(self, documents: Matrix) -> Vector:
        """Return ``[n_docs, m]``."""
        found = np.empty((len(documents), len(self.metrics)))
        for number, (metric, anchor) in enumerate(zip(self.metrics, self.anchors, strict=True)):
            apart = documents - anchor
            found[:, number] = np.sqrt(np.maximum(np.vecdot(apart @ metric, apart), 0.0))
        return found

    def scores(self, documents: Matrix) -> Vector:
        """Return ``[n_docs]`` scores, higher before lower, with the weights of a query that is not known."""
        return self.combined(self.distances(documents))

    def combined(self, distances: Vector, weights: Vector | float = 1.0) -> Vector:
        """Return ``[n_docs]`` scores by weights ``[n_docs, m]``."""
        return np.asarray(np.sqrt((weights * distances * np.exp(-distances)).sum(axis=1)), np.float64)


def learn_released(queries: QuerySet, wanted: int, rng: np.random.Generator) -> Released:
    """Draw queries and return the metric and the anchor of each; fewer than wanted if there are fewer."""
    found = []
    for query in rng.permutation(len(queries)):
        one = _of_query(queries.documents_of(query).astype(np.float64), queries.labels_of(query), rng)
        if one is not None:
            found.append(one)
        if len(found) == wanted:
            break
    if not found:
        raise InvalidData("released L-GMML: expected a query with a relevant document, found none")
    return Released(np.stack([metric for metric, _ in found]), np.stack([anchor for _, anchor in found]))


def parts_as_released(labels: Vector) -> tuple[int, int, int]:
    """Return how many documents are "similar", from which position others are "dissimilar", and how many may be the anchor."""
    _, first = np.unique(labels, return_index=True)
    appearing = labels[np.sort(first)]
    similar = int(np.isin(labels, appearing[: len(appearing) // 2]).sum())
    beyond = len(labels) - int((labels == 0).sum())
    # The code counts positions from 1, so the second set includes the last document that should not belong to it.
    return similar, beyond - 1, int((labels == appearing[0]).sum())


def _of_query(documents: Vector, labels: Vector, rng: np.random.Generator) -> tuple[Vector, Vector] | None:
    if not (labels > 0).any():
        return None
    similar, beyond, candidates = parts_as_released(labels)
    high, low = np.arange(similar), np.arange(beyond, len(labels))
    within = np.stack(np.triu_indices(similar, 1), axis=1)
    between = np.stack(np.meshgrid(high, low, indexing="ij"), axis=-1).reshape(-1, 2)
    kept = round(_RATE * min(len(within), len(between)))
    scatters = []
    for pairs in (within, between):
        chosen = pairs[rng.permutation(len(pairs))[:kept]]
        apart = documents[chosen[:, 0]] - documents[chosen[:, 1]]
        scatters.append(apart.T @ apart + _REGULARISATION * np.eye(documents.shape[1]))
    metric = mean_as_released(scatters[0], scatters[1], _T)
    judged = Judgements(labels, [0, len(labels)])
    values = np.empty(candidates)
    for number in range(candidates):
        apart = documents - documents[number]
        values[number] = judged.per_query(-np.vecdot(apart @ metric, apart), "ndcg@10")[0]
    best = int(values.argmax())
    return (metric, documents[best]) if values[best] > 0 else None


def mean_as_released(similar: Vector, dissimilar: Vector, t: float) -> Vector:
    """Return the point at ``t`` between the inverse of one scatter and the other, exchanged if the first is worse conditioned."""
    first, second = np.linalg.inv(similar), dissimilar
    if np.linalg.cond(first) > np.linalg.cond(second):
        first, second = second, first
    lower = np.linalg.cholesky(0.5 * (first + first.T))
    inner = np.linalg.solve(lower, np.linalg.solve(lower, second).T)
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    root = lower @ vectors * np.maximum(values, 0.0) ** (0.5 * t)
    return np.asarray(root @ root.T, np.float64)


def released_weights(distances: Vector, queries: QuerySet, rounds: int, rng: np.random.Generator) -> Vector:
    """Return ``[n_queries, m]`` the weights that its descent ends with, after ``rounds`` steps for each query on average."""
    curves = distances * np.exp(-distances)
    weights = np.ones((len(queries), distances.shape[1]))
    of_rank = rank_weights(int(queries.lengths.max()))
    for step in range(1, rounds * len(queries) + 1):
        query = int(rng.integers(len(queries)))
        labels, own = queries.labels_of(query), curves[queries.span(query)]
        nothing = np.flatnonzero(labels == 0)
        if not len(nothing) or not labels.any():
            continue
        nothing = rng.permutation(nothing)
        positive = rng.choice(np.flatnonzero(labels == labels.max()))
        values = -np.sqrt(own @ weights[query])
        violating = np.flatnonzero(values[nothing] + _VIOLATES > values[positive])
        tries = int(violating[0]) + 1 if len(violating) else 1
        rate = 1.0 / (1.0 + np.exp(step / (100 * len(queries))))
        change = own[nothing[tries - 1]] - own[positive]
        weights[query] = np.maximum(
            weights[query] - rate * of_rank[round(len(nothing) / tries)] * change, 0.0
        )
    return weights


# ------------------------------------------------------------------------------------------------
# L-GMML on one fold of judged queries: as its paper has it, as its released code does it, and with test labels [su2017].
#
# ``paper``
#     Labels make the similar and dissimilar sets, the metric is the geometric mean (t = 1/2), the nearest document comes first and
#     the gradient has the right sign. A candidate set is of documents of all queries (algorithm 2) or of one query (section 3); the
#     paper has both. Neither paper nor code says what weights a new query has: equal ones, the mean of the training queries', or
#     their mean by similarity.
# ``released code``
#     What runs (`released_lgmml`).
# ``label leak``
#     Weights fitted to the labels of the test query itself: such a ranking cannot be served, but it is a bound for all
#     weights.
#
# Every column is divided by its norm over all documents, as in section 4.5. The model of ``m`` metrics has the first
# ``m`` metrics of one draw, so a sweep over ``m`` learns each metric only once.

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
        found[RELEASED, number] = judged.every_per_query(released.first(size).scores(own.documents), METRICS)
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
            found[place : place + 3, number] = [judged.every_per_query(one, METRICS) for one in ways]
            found[leaked, number] = judged.every_per_query(
                _leaked(some, test, learner, rounds, seed), METRICS
            )
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


# ------------------------------------------------------------------------------------------------ other learners


def alone(fold: Fold, *, learner: str, settings: Sequence[Mapping[str, Any]], convention: str) -> Arrays:
    """Measure one of our learners on test queries, ``[n_metrics, n_queries]``; settings by MAP on validation queries."""
    scorer, exam, seconds = _best(fold, learner, settings)
    judged = Judgements(fold.test.labels, fold.test.offsets, convention)
    return {
        "figures": judged.every_per_query(scores_of(scorer, exam), METRICS),
        "seconds": np.array([seconds]),
    }


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
