r"""Synthetic queries from latent kinds, so that the truth is known.

A kind ``k`` says what is relevant, by weights ``r_k`` over the features, and what its clouds look like, by two
directions ``a_kj`` in which its documents differ most. A query has a kind and a place ``m_q``; its document ``i`` is

.. math::
    x_i = m_q + \sum_j z_{ij} a_{kj} + e_i, \qquad u_i = r_k \cdot (x_i - m_q) + \nu\, n_i

with ``z``, ``e`` and ``n`` standard normal. Its label is the number of thresholds that the usefulness ``u`` exceeds.
Kinds differ as much as the separations ``S`` and ``T`` say:

.. math::
    r_k \propto (1 - S) \frac{c}{\sigma_k(c)} + S \frac{s_k}{\sigma_k(s_k)}, \qquad
    a_{kj} = \delta_j \sqrt{d}\; \frac{(1 - T)\, b_j + T\, b_{kj}}{\|(1 - T)\, b_j + T\, b_{kj}\|}

``c`` is relevant for every kind and ``s_k`` for this one only: features dealt to it, made orthogonal to its directions,
so that the cloud does not show the answer. :math:`\sigma_k(v)^2 = \|v\|^2 + \sum_j (v \cdot a_{kj})^2` is the variance
of ``v . x`` within a query, by which ``r_k`` is scaled too: without noise, usefulness has variance one. The ``b`` are
patterns of signs that differ as much as possible. What the knobs do to a ranker: docs/understand/method.md, "Synthetic queries".

Numbers are rounded, so that a seed gives the same queries on processors whose last bits differ.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from localrank.errors import InvalidConfiguration
from localrank.settings import setting, settle
from localrank_training.data.queries import MAX_FEATURES, QuerySet, Texts, default_names
from localrank_training.data.rows import room

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.arrays import Indices, Matrix, Vector

#: What feature values are rounded to.
DECIMALS = 4

#: Queries whose places are drawn at a time.
_TOGETHER = 1000

#: How much documents differ along a kind's directions, per feature, where each feature has 1 of its own.
STRENGTHS = (2.0, 1.3)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What kinds of queries there are, and what they are like.

    Attributes:
        documents: fewest and most per query.
        features: columns, those that never matter (``noise_features``) included.
        kinds: latent kinds, K.
        separation: S, how much of what is relevant is a kind's own: 0 the same for all kinds, 1 nothing in common.
        shapes: T, how much of the cloud's directions is a kind's own; 0 makes clouds alike, so no router by shape
            can tell the kinds apart.
        noise: deviation of what no feature explains of a document's relevance, against 1 that they do.
        noise_features: columns that carry neither relevance nor shape.
        levels: labels 0 to ``levels - 1``.
        label_shares: how frequent each label is; by default each half as frequent as the one below.
        missing: share of values that are missing (NaN).
    """

    documents: tuple[int, int] = setting((30, 30), low=1, high=1_000_000)
    features: int = setting(10, low=1, high=MAX_FEATURES)
    kinds: int = setting(4, low=1)
    separation: float = setting(1.0, low=0, high=1)
    shapes: float = setting(1.0, low=0, high=1)
    noise: float = setting(0.3, low=0)
    noise_features: int = setting(0, low=0)
    levels: int = setting(5, low=2, high=1001)
    label_shares: tuple[float, ...] | None = setting(None, above=0)
    missing: float = setting(0.0, low=0, high=1)

    def __post_init__(self) -> None:
        settle(self)
        if self.documents[0] > self.documents[1]:
            raise InvalidConfiguration(
                f"documents: expected the smaller number first, found {self.documents[0]}, {self.documents[1]}"
            )
        if self.noise_features >= self.features:
            raise InvalidConfiguration(
                f"noise_features: expected fewer than the {self.features} features, found {self.noise_features}"
            )
        if self.label_shares is not None and len(self.label_shares) != self.levels:
            raise InvalidConfiguration(
                f"label_shares: expected {self.levels}, one per level, found {len(self.label_shares)}"
            )

    @property
    def thresholds(self) -> Vector:
        """``[levels - 1]`` of the relevance, between one label and the next."""
        shares = np.array(self.label_shares or [2.0**-level for level in range(self.levels)])
        below = np.cumsum(shares)[:-1] / shares.sum()
        deviation = float(np.sqrt(1.0 + self.noise**2))
        # Beyond half a hundred levels the upper ones are too rare for a double to tell from never.
        relevance = NormalDist(0.0, deviation)
        return np.array([relevance.inv_cdf(share) if share < 1 else np.inf for share in below])


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """What the kinds of one seed are.

    Attributes:
        relevance: ``[kinds, n_features]``, ``r``.
        directions: ``[kinds, 2, n_features]``, ``a``.
    """

    relevance: Vector
    directions: Vector

    @classmethod
    def draw(cls, recipe: Recipe, seed: int) -> Kinds:
        """Draw what each kind is."""
        rng = np.random.default_rng([seed, 0])
        useful = recipe.features - recipe.noise_features
        return cls.of(recipe, _signed(rng, useful), _dealt(rng, recipe.kinds, useful), rng)

    @classmethod
    def of(cls, recipe: Recipe, common: Vector, own: Vector, rng: np.random.Generator) -> Kinds:
        """Draw the directions of kinds whose relevant features are known.

        Args:
            recipe: of as many kinds as ``own`` has rows.
            common: ``[useful]`` weights of the features that matter to every kind.
            own: ``[kinds, useful]`` weights of those that matter to each.
            rng: draws the directions.
        """
        kinds, useful = own.shape
        patterns = _sign_patterns(rng, len(STRENGTHS) * (kinds + 1), useful)
        shared, theirs = np.split(patterns.reshape(kinds + 1, len(STRENGTHS), useful), [1])
        mixed = (1.0 - recipe.shapes) * shared + recipe.shapes * theirs
        scale = np.sqrt(useful) * np.array(STRENGTHS)
        directions = scale[:, None] * mixed / np.linalg.norm(mixed, axis=2, keepdims=True)
        relevance = np.empty_like(own)
        for kind, spread in enumerate(directions):
            alone = _across(own[kind], spread)
            relevance[kind] = (1.0 - recipe.separation) * common / _deviation(common, spread)
            relevance[kind] += recipe.separation * alone / _deviation(alone, spread)
            relevance[kind] /= _deviation(relevance[kind], spread)
        padding = recipe.features - useful
        return cls(
            relevance=np.pad(relevance, ((0, 0), (0, padding))),
            directions=np.pad(directions, ((0, 0), (0, 0), (0, padding))),
        )


def synthesize(
    n_queries: int,
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    sample: int = 0,
    kinds: Kinds | None = None,
    feature_names: Sequence[str] | None = None,
) -> tuple[QuerySet, Indices]:
    """Make queries; return them and each one's hidden kind.

    Args:
        n_queries: how many.
        recipe: what they are like.
        seed: of everything: the kinds and the queries.
        sample: other queries of the same kinds, as a test set is to a training set.
        kinds: the kinds, if they are given instead of drawn.
        feature_names: by default ``f1``, ``f2``, ....
    """
    drawn = Drawn(n_queries, recipe, seed=seed, sample=sample, kinds=kinds)
    queries = replace(drawn.whole(), comments=None)
    if feature_names is not None:
        queries = replace(queries, feature_names=tuple(feature_names))
    return queries, drawn.kind_of


class Drawn:
    """The queries of `synthesize`, one at a time, so that they are never all in memory.

    Attributes:
        recipe: what they are like.
        kind_of: ``[n_queries]`` the hidden kind of each.
        offsets: ``[n_queries + 1]`` where the documents of each begin.
        query_ids: ``[n_queries]``.
    """

    def __init__(
        self,
        n_queries: int,
        recipe: Recipe | None = None,
        *,
        seed: int = 0,
        sample: int = 0,
        kinds: Kinds | None = None,
    ) -> None:
        self.recipe = recipe or Recipe()
        self._kinds = kinds or Kinds.draw(self.recipe, seed)
        rng = np.random.default_rng([seed, 1, sample])
        self.kind_of: Indices = rng.permutation(np.arange(n_queries) % self.recipe.kinds)
        fewest, most = self.recipe.documents
        lengths = rng.integers(fewest, most, n_queries, endpoint=True)
        self.offsets: Indices = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._rng = rng
        self.query_ids = [str(sample * 1_000_000 + query + 1) for query in range(n_queries)]

    def comment_of(self, query: int) -> str:
        """Return what a document of this query says of its kind."""
        return f"kind={self.kind_of[query]}"

    def whole(self) -> QuerySet:
        """Return all queries, with the kind of each as comments."""
        documents = room(int(self.offsets[-1]), self.recipe.features)
        labels = np.empty(len(documents))
        for query, (rows, of_query) in enumerate(self):
            span = slice(self.offsets[query], self.offsets[query + 1])
            documents[span], labels[span] = rows, of_query
        kinds = pa.array([self.comment_of(query) for query in range(len(self.kind_of))], pa.large_string())
        return QuerySet(
            documents=documents,
            labels=labels,
            offsets=self.offsets,
            query_ids=tuple(self.query_ids),
            feature_names=default_names(self.recipe.features),
            lines=np.arange(len(documents)),
            comments=Texts(kinds, np.repeat(np.arange(len(self.kind_of)), np.diff(self.offsets))),
        )

    def __iter__(self) -> Iterator[tuple[Vector, Vector]]:
        """Yield the documents and the labels of each query."""
        recipe, n_features = self.recipe, self.recipe.features
        # The places of all queries are drawn before everything else: ``places`` draws them, ``rng`` skips them.
        places, rng = copy.deepcopy(self._rng), copy.deepcopy(self._rng)
        for begin in range(0, len(self.kind_of), _TOGETHER):
            rng.standard_normal((min(_TOGETHER, len(self.kind_of) - begin), n_features))
        for query, kind in enumerate(self.kind_of):
            relevance, directions = self._kinds.relevance[kind], self._kinds.directions[kind]
            length = int(self.offsets[query + 1] - self.offsets[query])
            offset = rng.standard_normal((length, len(directions))) @ directions
            offset += rng.standard_normal((length, n_features))
            useful = offset @ relevance + recipe.noise * rng.standard_normal(length)
            documents = np.round(places.standard_normal(n_features) + offset, DECIMALS) + 0.0
            if recipe.missing:
                documents[rng.random((length, n_features)) < recipe.missing] = np.nan
            yield documents, np.searchsorted(recipe.thresholds, useful)


def _dealt(rng: np.random.Generator, kinds: int, useful: int) -> Vector:
    """Weights on features of each kind's own: the features are dealt out; with too few, kinds share some."""
    weights = np.zeros((kinds, useful))
    share = max(1, useful // kinds)
    order = np.concatenate([rng.permutation(useful) for _ in range(-(-kinds * share // useful))])
    for kind in range(kinds):
        weights[kind, order[kind * share : (kind + 1) * share]] = _signed(rng, share)
    return weights


def _signed(rng: np.random.Generator, count: int) -> Vector:
    """Numbers that matter: between 0.5 and 1, or between -1 and -0.5."""
    return np.asarray(rng.uniform(0.5, 1.0, count) * rng.choice([-1.0, 1.0], count))


def _sign_patterns(rng: np.random.Generator, count: int, width: int) -> Vector:
    """Unit rows of equal magnitudes. Each is the best of 256 tries: the one least similar to the rows before it.

    Equal magnitudes, because query-wise scaling would undo others.
    """
    patterns = np.empty((count, width))
    for row in range(count):
        tries = rng.choice([-1.0, 1.0], (256, width)) / np.sqrt(width)
        likeness = np.abs(np.einsum("td,rd->tr", tries, patterns[:row])).max(axis=1, initial=0.0)
        patterns[row] = tries[int(np.argmin(np.round(likeness, 9)))]
    return patterns


def _across(weights: Vector, directions: Vector) -> Vector:
    """Return the part of the weights that is orthogonal to the directions; all of it if nothing would be left."""
    frame = np.linalg.qr(directions.T)[0]
    rest = weights - frame @ (frame.T @ weights)
    return rest if np.linalg.norm(rest) > 1e-6 * np.linalg.norm(weights) else weights


def _deviation(weights: Vector, directions: Vector) -> float:
    """Return the standard deviation of the weighted sum within a query."""
    return float(np.sqrt(weights @ weights + np.sum((directions @ weights) ** 2)))


# ---------------------------------------------------------------------------------------------------- the demo
#
# Four kinds of web search with features that one can imagine: only their names and units are borrowed. What a kind looks
# for is written down here, so that a reader can hold the weights of the learned models against it.


class DemoFeature(NamedTuple):
    """One column: its values have this mean, deviate by about three units of ``spread``, and are so round.

    ``matters`` is its weight for every kind of query.
    """

    name: str
    mean: float
    spread: float
    decimals: int
    matters: float


DEMO_FEATURES = (
    DemoFeature("bm25", 18.0, 1.5, 2, 0.5),
    DemoFeature("title_match", 0.5, 0.04, 3, 0.5),
    DemoFeature("body_match", 0.5, 0.04, 3, 0.5),
    DemoFeature("url_length", 70.0, 5.0, 0, -0.3),
    DemoFeature("pagerank", 0.5, 0.04, 4, 0.3),
    DemoFeature("inlinks", 6.0, 0.5, 2, 0.3),
    DemoFeature("freshness", 0.5, 0.04, 3, 0.3),
    DemoFeature("clicks", 0.5, 0.04, 3, 0.5),
    DemoFeature("dwell_time", 90.0, 7.0, 1, 0.5),
    DemoFeature("spam", 0.5, 0.04, 3, -1.0),
)

#: What is relevant for one kind of query only, by feature.
DEMO_KINDS: dict[str, dict[str, float]] = {
    "navigational": {"title_match": 1.0, "url_length": -1.0, "pagerank": 0.8},
    "informational": {"bm25": 1.0, "body_match": 1.0, "dwell_time": 0.8, "url_length": 0.4},
    "news": {"freshness": 1.0, "clicks": 0.8, "inlinks": -0.5},
    "reference": {"inlinks": 1.0, "pagerank": 0.6, "freshness": -0.6, "clicks": -0.4},
}

DEMO_RECIPE = Recipe(
    documents=(20, 40),
    features=len(DEMO_FEATURES),
    kinds=len(DEMO_KINDS),
    separation=0.5,
    shapes=1.0,
    noise=0.4,
)

#: Training, validation and test queries.
_DEMO_SIZES = (200, 100, 200)


def demo_queries(seed: int = 0) -> tuple[QuerySet, QuerySet, QuerySet]:
    """Return training, validation and test queries: the same kinds, other queries."""
    kinds = _demo_world(seed)
    train, validation, test = (
        _in_units(synthesize(size, DEMO_RECIPE, seed=seed, sample=sample, kinds=kinds)[0])
        for sample, size in enumerate(_DEMO_SIZES)
    )
    return train, validation, test


def _demo_world(seed: int) -> Kinds:
    common = np.array([feature.matters for feature in DEMO_FEATURES])
    own = np.array(
        [[kind.get(feature.name, 0.0) for feature in DEMO_FEATURES] for kind in DEMO_KINDS.values()]
    )
    return Kinds.of(DEMO_RECIPE, common, own, np.random.default_rng([seed, 0]))


def _in_units(queries: QuerySet) -> QuerySet:
    """Give every feature its scale, none of them below zero; labels were decided without it."""
    documents: Matrix = np.empty_like(queries.documents)
    for column, feature in enumerate(DEMO_FEATURES):
        values = feature.mean + feature.spread * queries.documents[:, column].astype(np.float64)
        documents[:, column] = np.round(np.maximum(values, 0.0), feature.decimals)
    return replace(
        queries, documents=documents, feature_names=tuple(feature.name for feature in DEMO_FEATURES)
    )
