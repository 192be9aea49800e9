"""Queries to try a model with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.probe import Probe
from localrank_service.apis.models.schema import count_samples, sample

if TYPE_CHECKING:
    from localrank_service.models.live import LiveModel

QUERIES = [np.full((size, 4), number, np.float32) for number, size in enumerate((3, 1, 2))]


def test_a_model_without_a_probe_has_one_sample_of_values_that_training_saw(tiny_model: LiveModel) -> None:
    found = sample(tiny_model, 0)

    assert 1 == count_samples(tiny_model)
    assert ("tiny@3", "example", ["a", "b", "c"]) == (found["model"], found["query_id"], found["ids"])
    assert (3, 4) == np.shape(found["features"])


def test_queries_of_the_probe_that_can_be_reordered_are_samples(tiny_model: LiveModel) -> None:
    ranker = tiny_model.ranker
    rankings = [ranker.rank(query) for query in QUERIES]
    routes, scores = tuple(one.route for one in rankings), tuple(one.scores for one in rankings)
    model = replace(tiny_model, probe=Probe(tuple(QUERIES), routes, scores))

    found = [sample(model, position) for position in range(2)]

    assert 2 == count_samples(model)
    assert [("tiny@3", "probe-0"), ("tiny@3", "probe-1")] == [
        (one["model"], one["query_id"]) for one in found
    ]
    for query, one in zip((QUERIES[0], QUERIES[2]), found, strict=True):
        np.testing.assert_array_equal(query, one["features"])
    single = replace(tiny_model, probe=Probe((QUERIES[1],), routes[1:2], scores[1:2]))
    assert (1, "example") == (count_samples(single), sample(single, 0)["query_id"])
