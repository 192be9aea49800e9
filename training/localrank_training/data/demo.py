"""The queries that the demo model learns from: four kinds of web search with features that one can imagine.

Made up like all of `localrank_training.data.synthetic`; only the names and units are borrowed from web search. What a
kind looks for is written down here, so that a reader can hold the weights of the learned models against it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from localrank_training.data.synthetic import Kinds, Recipe, synthesize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Indices, Matrix
    from localrank_training.data.queries import QuerySet


class Feature(NamedTuple):
    """One column: its values have this mean, deviate by about three units of ``spread``, and are so round.

    ``matters`` is its weight for every kind of query.
    """

    name: str
    mean: float
    spread: float
    decimals: int
    matters: float


FEATURES = (
    Feature("bm25", 18.0, 1.5, 2, 0.5),
    Feature("title_match", 0.5, 0.04, 3, 0.5),
    Feature("body_match", 0.5, 0.04, 3, 0.5),
    Feature("url_length", 70.0, 5.0, 0, -0.3),
    Feature("pagerank", 0.5, 0.04, 4, 0.3),
    Feature("inlinks", 6.0, 0.5, 2, 0.3),
    Feature("freshness", 0.5, 0.04, 3, 0.3),
    Feature("clicks", 0.5, 0.04, 3, 0.5),
    Feature("dwell_time", 90.0, 7.0, 1, 0.5),
    Feature("spam", 0.5, 0.04, 3, -1.0),
)

#: What is relevant for one kind of query only, by feature.
KINDS: dict[str, dict[str, float]] = {
    "navigational": {"title_match": 1.0, "url_length": -1.0, "pagerank": 0.8},
    "informational": {"bm25": 1.0, "body_match": 1.0, "dwell_time": 0.8, "url_length": 0.4},
    "news": {"freshness": 1.0, "clicks": 0.8, "inlinks": -0.5},
    "reference": {"inlinks": 1.0, "pagerank": 0.6, "freshness": -0.6, "clicks": -0.4},
}

RECIPE = Recipe(
    documents=(20, 40), features=len(FEATURES), kinds=len(KINDS), separation=0.5, shapes=1.0, noise=0.4
)

#: Training, validation and test queries.
_SIZES = (200, 100, 200)


def demo_queries(seed: int = 0) -> tuple[QuerySet, QuerySet, QuerySet]:
    """Return training, validation and test queries: the same kinds, other queries."""
    train, validation, test = (queries for queries, _ in _samples(seed))
    return train, validation, test


def hidden_kinds(seed: int = 0) -> tuple[Indices, Indices, Indices]:
    """Return the position in `KINDS` of each query of `demo_queries`."""
    train, validation, test = (kinds for _, kinds in _samples(seed))
    return train, validation, test


def _samples(seed: int) -> Iterator[tuple[QuerySet, Indices]]:
    for sample, size in enumerate(_SIZES):
        queries, kinds = synthesize(size, RECIPE, seed=seed, sample=sample, kinds=_kinds(seed))
        yield _in_units(queries), kinds


def _kinds(seed: int) -> Kinds:
    common = np.array([feature.matters for feature in FEATURES])
    own = np.array([[kind.get(feature.name, 0.0) for feature in FEATURES] for kind in KINDS.values()])
    return Kinds.of(RECIPE, common, own, np.random.default_rng([seed, 0]))


def _in_units(queries: QuerySet) -> QuerySet:
    """Give every feature its scale, none of them below zero; labels were decided without it."""
    documents: Matrix = np.empty_like(queries.documents)
    for column, feature in enumerate(FEATURES):
        values = feature.mean + feature.spread * queries.documents[:, column].astype(np.float64)
        documents[:, column] = np.round(np.maximum(values, 0.0), feature.decimals)
    return replace(queries, documents=documents, feature_names=tuple(feature.name for feature in FEATURES))
