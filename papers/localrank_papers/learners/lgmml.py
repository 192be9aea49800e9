r"""L-GMML: several geometric mean metrics, each around an ideal document of its own [su2017].

1. Candidate sets are sampled: the documents of a query each or of several (section 3), or documents of all queries as one
   list (algorithm 2).
2. Each gives a metric (`localrank_papers.learners.gmml`) and an anchor: its relevant document with the best
   NDCG when the set is sorted by the distance to it.
3. :math:`f_q(x) = -\sum_r \theta_q(r) \, d_r(x) \, e^{-d_r(x)}`, with weights for each training query by stochastic
   gradient descent on the WARP loss (below).

The paper does not say which weights a query has that was not trained on; `LocalGeometricMeanMetrics.weights` does.

Weights of local metrics by weighted approximate rank pairwise loss (WARP), a vector for each query [weston2011].

With :math:`\phi_r(x)` the curve of the distance to anchor ``r``, a document of query ``q`` scores :math:`f_q(x) =
-\theta_q \cdot \phi(x)`. A relevant document :math:`x^+` is drawn, then others until one, :math:`x^-`, comes within a
margin of it; if it took ``N`` draws from ``n`` documents, about :math:`\lfloor n / N \rfloor` of them rank too high:

.. math::

    \ell = L(\lfloor n / N \rfloor) \, [\epsilon - f_q(x^+) + f_q(x^-)]_+, \qquad L(k) = \sum_{i=1}^k \frac{1}{\log_2(1 + i)},

.. math::

    \frac{\partial \ell}{\partial \theta_q} = L \, \big(\phi(x^+) - \phi(x^-)\big), \qquad
    \theta_q \leftarrow \Big[\theta_q - \mu \, \frac{\partial \ell}{\partial \theta_q}\Big]_+.

The number of draws with replacement is geometric, and the document that ends them any of the violators alike; so both
are drawn at once, and one step is made for every query at the same time, which the paper remarks are independent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from localrank.features.blocks import parse
from localrank.metrics import Metric
from localrank.points.signature import (
    PcaRepresentation,
    Similarity,
)
from localrank.scorers import AnchoredBySimilarityScorer, AnchoredScorer
from localrank.scorers.anchored import bent
from localrank.settings import setting
from localrank_papers.learners.gmml import (
    PairScatter,
    best_document,
    metric_transform,
    reduced,
    usable_queries,
)
from localrank_training.learners.notes import note
from localrank_training.learners.role import Grid, Learner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Bits, Indices, Matrix, Vector
    from localrank.scorers import Scorer
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.lesson import Lesson


def rank_weights(most: int) -> Vector:
    """Return ``L(0)`` to ``L(most)``."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, most + 2)))])


def loss(weights: Vector, near: Vector, far: Vector, *, margin: float, weight: float) -> float:
    """Return the loss of one relevant and one other document, of curves ``[n_anchors]`` each."""
    return weight * max(0.0, margin + float(weights @ near) - float(weights @ far))


def gradient(near: Vector, far: Vector, weight: Vector) -> Vector:
    """Return the gradient of `loss` by the weights where it is positive; any leading axes."""
    return np.asarray(weight[..., None] * (near - far), np.float64)


def learn_weights(
    curves: Vector,
    relevant: Bits,
    offsets: Indices,
    *,
    start: Vector,
    rounds: int,
    step: float,
    margin: float,
    rng: np.random.Generator,
) -> Vector:
    """Return ``[n_queries, n_anchors]`` weights, none negative.

    Args:
        curves: ``[n_docs, n_anchors]``, what each distance is worth.
        relevant: ``[n_docs]``; each query has relevant and other documents.
        offsets: ``[n_queries + 1]``.
        start: ``[n_anchors]`` the weights of every query at first.
        rounds: steps for each query.
        step: size of a step.
        margin: how much better a relevant document must score.
        rng: draws documents.
    """
    n_queries = len(offsets) - 1
    query_of = np.repeat(np.arange(n_queries), np.diff(offsets))
    n_relevant = np.bincount(query_of[relevant], minlength=n_queries)
    n_other = np.diff(offsets) - n_relevant
    places = np.flatnonzero(relevant)
    begins = np.cumsum(n_relevant) - n_relevant
    of_rank = rank_weights(int(n_other.max()))
    weights = np.tile(start, (n_queries, 1))
    for _ in range(rounds):
        scores = -np.vecdot(curves, weights[query_of])
        positive = places[begins + rng.integers(n_relevant)]
        violates = ~relevant & (margin + scores > scores[positive][query_of])
        n_violating = np.bincount(query_of[violates], minlength=n_queries)
        steps = np.flatnonzero(n_violating)
        if not len(steps):
            # None of the drawn documents has a violator, but other relevant documents may have one.
            continue
        violating = n_violating[steps]
        draws = rng.geometric(violating / n_other[steps])
        first = (np.cumsum(n_violating) - n_violating)[steps]
        negative = np.flatnonzero(violates)[first + rng.integers(violating)]
        found = gradient(curves[positive[steps]], curves[negative], of_rank[n_other[steps] // draws])
        weights[steps] = np.maximum(weights[steps] - step * found, 0.0)
    return weights


Weights: TypeAlias = Literal["uniform", "mean", "similarity"]

#: A list or several, which of its documents are relevant, and how much each list counts.
CandidateSet: TypeAlias = "tuple[QuerySet, Bits, Vector]"

#: The scale of a metric comes from distances in this many queries.
_ENOUGH = 300
#: Relevant documents of a set that are tried as its anchor.
_CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class LocalGeometricMeanMetrics(Learner):
    """Learn several geometric mean metrics, each around an ideal document of its own."""

    metrics: int = setting(
        20,
        low=1,
        meaning="number of candidate sets that are sampled; fewer if there are few queries, because no set comes "
        "twice",
    )
    candidate_sets: Literal["queries", "documents"] = setting(
        "queries",
        meaning="what a candidate set is: whole queries, whose documents are compared within each query; or "
        "documents drawn from all queries, relevant and other ones, as one list (algorithm 2 of the "
        "paper)",
    )
    documents_per_set: int = setting(
        1000,
        low=3,
        meaning='largest number of documents in a candidate set, with `candidate_sets = "documents"`',
    )
    queries_per_set: int = setting(
        10,
        low=1,
        meaning="number of queries whose documents make a candidate set, at most half of all queries; 1 is section 3 "
        "of the paper",
    )
    weights: Weights = setting(
        "mean",
        meaning="weights for a new query: the same for all metrics (nothing is trained), the mean of the weights "
        "of the training queries, or their mean weighted by similarity to the signature of the list",
    )
    regularisation: float = setting(0.1, above=0, meaning="added to both scatters, whose mean variance is 1")
    t: float = setting(
        0.5,
        low=0,
        high=1,
        meaning="from the inverse scatter within relevant documents (0) to the scatter between relevant and other "
        "documents (1)",
    )
    relevant: float = setting(1.0, meaning="lowest label that counts as relevant")
    rank: int | None = setting(
        None, low=1, meaning="number of rows of each metric that are kept; all by default"
    )
    curve: Literal["turning", "rising"] = setting(
        "rising",
        meaning="`turning` is the curve of the paper: it falls beyond a distance of 1, so that the farthest documents "
        "come before others; `rising` continues to rise there",
    )
    reach: float = setting(
        1.0, above=0, high=1, meaning="share of the training documents that are nearer than 1 to each anchor"
    )
    rounds: int = setting(100, low=1, meaning="steps of gradient descent for each query")
    step: float = setting(0.1, above=0, meaning="size of a step, in units of the initial weights")
    margin: float = setting(0.1, low=0, meaning="margin of the WARP loss, in units of a score")
    metric: str = setting("ndcg@10", check=Metric.parse, meaning="metric that an anchor maximises in its set")
    similarity: Similarity = setting("eq5", meaning="form of the similarity of signatures")
    components: int = setting(3, low=1, high=8, meaning="directions of a signature")
    bandwidth: float = setting(
        0.05, low=1e-3, high=1e3, meaning="difference in similarity that divides the weight of a query by e"
    )
    seed: int = setting(0, low=0, meaning="seed of all random draws")
    blocks: str = setting(
        "normalised", check=parse, meaning="blocks of features that distances are measured in"
    )

    method: ClassVar[str] = "lgmml"
    grid: ClassVar[Grid] = {"t": (0.3, 0.5, 0.7, 0.9)}

    def fit(self, lesson: Lesson) -> Scorer:
        lesson.refuse_towards(self.method, "its metrics are closed forms of sampled queries")
        lesson.check(self.method)
        queries = lesson.queries
        relevant, shares = usable_queries(queries, self.relevant, lesson.shares, self.method)
        rng = np.random.default_rng(self.seed)
        sampled = self.sampled(queries, relevant, shares, rng)
        if self.weights == "uniform":
            return sampled
        trained = np.flatnonzero(shares)
        rows = np.isin(queries.query_of, trained)
        some, own = queries.select(trained), shares[trained]
        learned = learn_weights(
            bent(sampled.distances(some.documents), sampled.curve),
            relevant[rows],
            some.offsets,
            start=sampled.weights,
            rounds=self.rounds,
            step=self.step / len(sampled.weights),
            margin=self.margin,
            rng=rng,
        )
        empty = np.asarray(~learned.any(axis=1))
        if empty.any():
            note(
                self.method,
                f"{np.count_nonzero(empty)} of {len(empty)} queries lost all weights and got equal ones",
                queries_without_weights=int(np.count_nonzero(empty)),
            )
            learned[empty] = sampled.weights
        if self.weights == "mean":
            return AnchoredScorer(
                sampled.transforms, sampled.origins, own @ learned, sampled.curve, sampled.blocks
            )
        signatures = PcaRepresentation(self.components).sign_all(list(some.clouds()))
        return AnchoredBySimilarityScorer(sampled, learned, own, signatures, self.similarity, self.bandwidth)

    def sampled(
        self, queries: QuerySet, relevant: Bits, shares: Vector, rng: np.random.Generator
    ) -> AnchoredScorer:
        """Return the metrics and anchors of sampled candidate sets, with equal weights."""
        seen = np.flatnonzero(shares)
        if len(seen) > _ENOUGH:
            seen = rng.choice(seen, _ENOUGH, replace=False)
        documents = queries.select(np.sort(seen)).documents
        draw = self._of_documents if self.candidate_sets == "documents" else self._of_queries
        transforms, anchors, values = [], [], []
        for some, own, counted in draw(queries, relevant, shares, rng):
            scatter = PairScatter.of(some, own, counted)
            transform = reduced(
                metric_transform(scatter, regularisation=self.regularisation, t=self.t), self.rank
            )
            anchor, value = best_document(
                some, own, counted, transform, metric=self.metric, candidates=_CANDIDATES, rng=rng
            )
            scale = self._scale(transform, anchor, documents)
            transforms.append(transform * scale)
            anchors.append(anchor)
            values.append(value)
        note(
            self.method,
            f"{len(values)} metrics; their anchors reach a mean {self.metric} of {np.mean(values):.4f} in their own sets",
            value=float(np.mean(values)),
        )
        stacked = np.stack(transforms)
        origins = np.matmul(stacked, np.stack(anchors)[:, :, None])[..., 0]
        return AnchoredScorer(
            stacked, origins, np.full(len(values), 1.0 / len(values)), self.curve, self.blocks
        )

    def _of_queries(
        self, queries: QuerySet, relevant: Bits, shares: Vector, rng: np.random.Generator
    ) -> Iterator[CandidateSet]:
        query_of = queries.query_of
        for chosen in self._drawn(shares, rng):
            yield (
                queries.select(chosen),
                relevant[np.isin(query_of, chosen)],
                shares[chosen] / shares[chosen].sum(),
            )

    def _of_documents(
        self, queries: QuerySet, relevant: Bits, shares: Vector, rng: np.random.Generator
    ) -> Iterator[CandidateSet]:
        """Draw documents of all queries that count: up to half of them relevant, the rest others, as one list."""
        chance = shares[queries.query_of]
        kinds = [np.flatnonzero(kind & (chance > 0)) for kind in (relevant, ~relevant)]
        half = self.documents_per_set // 2
        for _ in range(self.metrics):
            drawn = [
                rng.choice(rows, min(half, len(rows)), replace=False, p=chance[rows] / chance[rows].sum())
                for rows in kinds
            ]
            rows = np.sort(np.concatenate(drawn))
            one_list = replace(
                queries,
                documents=queries.documents[rows],
                labels=queries.labels[rows],
                offsets=np.array([0, len(rows)]),
                query_ids=("candidate set",),
                lines=queries.lines[rows],
                comments=None,
            )
            yield one_list, relevant[rows], np.ones(1)

    def _drawn(self, shares: Vector, rng: np.random.Generator) -> list[Indices]:
        """Draw the queries of each candidate set, ascending."""
        available = int(np.count_nonzero(shares))
        # Sets of more than half of the queries would be too much alike.
        size = min(self.queries_per_set, -(-available // 2))
        if size == 1:
            count = min(self.metrics, available)
            sets = list(rng.choice(len(shares), count, replace=False, p=shares)[:, None])
        else:
            drawn = (rng.choice(len(shares), size, replace=False, p=shares) for _ in range(self.metrics))
            sets = [np.array(one) for one in dict.fromkeys(tuple(np.sort(one).tolist()) for one in drawn)]
        if len(sets) < self.metrics:
            note(
                self.method,
                f"{len(sets)} metrics instead of {self.metrics}: {available} training queries have no more "
                "sets",
                metrics=len(sets),
            )
        return sets

    def _scale(self, transform: Vector, anchor: Vector, documents: Matrix) -> float:
        """Return the factor by which the share `reach` of the documents is within a distance of 1."""
        apart = (documents - anchor) @ transform.T
        farthest = float(np.quantile(np.sqrt(np.vecdot(apart, apart)), self.reach))
        return 1.0 / farthest if farthest > 0 else 1.0
