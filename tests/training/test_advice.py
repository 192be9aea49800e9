"""What would help most, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank_training.advice import FEWEST, advise, sample_of
from localrank_training.data.synthetic import Recipe, synthesize

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet


def planted(n_queries: int = 60, seed: int = 3) -> QuerySet:
    return synthesize(n_queries, Recipe(documents=(12, 20), features=8, kinds=1), seed=seed)[0]


def test_the_first_sentence_is_what_is_missed_most_with_its_figures() -> None:
    found = advise(planted())

    most = max(found.removals, key=lambda one: one.loss.difference)
    assert "features" == most.what
    assert found.sentences[0] == (
        "What would help most: more features. Without half of the features, ndcg@10 of a quick linear model is lower by "
        f"{most.loss.difference:.4f} {most.loss.interval}."
    )


def test_of_noise_nothing_clearly_helps() -> None:
    queries = planted()
    queries.labels[:] = np.random.default_rng(0).integers(0, 3, queries.n_docs)

    found = advise(queries)

    assert [] == found.clear
    assert found.sentences[0].startswith("It is not clear that more judged queries, more judged documents")


def test_twins_useless_features_missing_values_and_idle_queries_are_named() -> None:
    queries = planted()
    documents, labels = queries.documents.copy(), queries.labels.copy()
    documents[:, 2] = 7.0
    documents[::4, 5] = np.nan
    for query in range(len(queries)):
        first, second = queries.offsets[query], queries.offsets[query] + 1
        documents[second] = documents[first]
        labels[first], labels[second] = 3.0, 0.0
    labels[queries.span(7)] = 1.0

    found = advise(replace(queries, documents=documents, labels=labels))

    said = " ".join(found.sentences)
    assert "118 of" in said
    assert f"no ranker can be expected to exceed ndcg@10 {found.twins.ceiling:.4f} instead of 1.0000" in said
    assert f"Useless, because constant within every query: {queries.feature_names[2]}." in said
    assert f"Values are missing: {queries.feature_names[5]} (2" in said
    assert "1 of 60 queries have documents of one label only" in said
    assert json.loads(json.dumps(found.to_json()))["sentences"] == list(found.sentences)


def test_too_few_queries_are_refused() -> None:
    with pytest.raises(
        InvalidData, match="expected at least 10 queries with documents of different labels, found 9"
    ):
        advise(planted().select(range(FEWEST - 1)))


def test_a_sample_is_seeded_and_has_a_bound() -> None:
    queries = synthesize(400, Recipe(documents=(3, 4), features=4, kinds=1), seed=0)[0]

    first, second = sample_of(queries, 1), sample_of(queries, 1)

    assert 300 == len(first)
    assert first.query_ids == second.query_ids != sample_of(queries, 2).query_ids
