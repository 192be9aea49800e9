"""What should be done about judged queries, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.features.feature import Feature
from localrank_training.advice.helping import FEWEST, Advice, advise, sample_of
from localrank_training.data.queries import QuerySet
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.evaluation.twins import Twins


def planted(n_queries: int = 60, seed: int = 3) -> QuerySet:
    return synthesize(n_queries, Recipe(documents=(12, 20), features=8, kinds=1), seed=seed)[0]


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
    assert f"Useless, because there is one value everywhere: {queries.feature_names[2]}." in said
    assert f"Values are missing: {queries.feature_names[5]} (2" in said
    assert "1 of 60 queries have documents of one label only" in said
    assert json.loads(json.dumps(found.to_json()))["sentences"] == list(found.sentences)


def test_too_few_queries_are_refused() -> None:
    with pytest.raises(
        InvalidData, match="expected at least 10 queries with documents of different labels, found 9"
    ):
        advise(planted().select(range(FEWEST - 1)))


def advice(**more: Any) -> Advice:
    twins = Twins(documents=1000, equal=0, near=0, examples=(), ceiling=1.0, best=1.0)
    members = {
        "queries": 50,
        "documents": 1000,
        "of": 60,
        "idle": 0,
        "twins": twins,
        "useless": (),
        "of_query": (),
        "missing": (),
    }
    return Advice(**{**members, **more})


@pytest.mark.parametrize(
    ("twins", "said"),
    [
        ({"equal": 4, "ceiling": 0.8, "best": 0.9, "examples": ("a",)}, "most of them in query a"),
        ({"equal": 4, "ceiling": 0.8, "best": 0.9, "examples": ("a", "b")}, "0.8000 instead of 0.9000. "),
        # Equal documents that cost nothing, and hardly any that are near each other.
        ({"equal": 4, "ceiling": 0.9, "best": 0.9, "near": 10}, ""),
        ({"equal": 0, "ceiling": 0.8, "best": 0.9, "near": 10}, ""),
        ({"near": 11, "examples": ("a", "b")}, "11 of 1000 documents are almost equal"),
        ({"near": 11, "examples": ("a", "b")}, "most of them in queries a, b"),
    ],
)  # fmt: skip
def test_twins_are_named_if_they_cost_something_or_are_more_than_a_hundredth(
    twins: dict[str, Any], said: str
) -> None:
    alike = replace(advice().twins, **twins)

    found = advice(twins=alike).sentences

    assert bool(said) == len(found)
    assert said in "".join(found)


@pytest.mark.parametrize(("count", "more"), [(5, "."), (6, " and 1 more."), (7, " and 2 more.")])
def test_five_features_are_named(count: int, more: str) -> None:
    names = tuple(f"f{number}" for number in range(count))

    useless, of_query, missing = advice(
        useless=names, of_query=names, missing=tuple((name, 0.25) for name in names)
    ).sentences

    assert f"Useless, because there is one value everywhere: f0, f1, f2, f3, f4{more}" == useless
    assert of_query.startswith(
        f"Constant within every query: f0, f1, f2, f3, f4{more} Name such features of the query"
    )
    assert f"Values are missing: f0 (25%), f1 (25%), f2 (25%), f3 (25%), f4 (25%){more} Fill them" in missing


def test_a_feature_that_is_named_as_the_query_s_is_not_named_again() -> None:
    queries = planted()
    documents = queries.documents.copy()
    documents[:, 1] = documents[:, 2] = queries.query_of
    name, other = queries.feature_names[1:3]

    found = advise(replace(queries, documents=documents, special={name: Feature(name, scope="query")}))

    assert (other,) == found.of_query


def test_queries_of_one_label_are_counted() -> None:
    assert "3 of 60 queries have documents of one label only" in advice(idle=3).sentences[0]


def test_a_sample_has_twenty_thousand_documents_at_most_but_ten_queries() -> None:
    def long(n_queries: int, n_docs: int) -> QuerySet:
        return QuerySet(
            np.zeros((n_queries * n_docs, 1), np.float32),
            np.tile(np.arange(n_docs) % 2, n_queries).astype(float),
            np.arange(n_queries + 1) * n_docs,
            tuple(map(str, range(n_queries))),
            ("a",),
            np.arange(n_queries * n_docs),
        )

    assert 20 == len(sample_of(long(25, 1000), 0))
    assert 10 == len(sample_of(long(12, 4000), 0))
    # In their order, whatever was drawn.
    first, again, other = (sample_of(long(25, 1000), seed).query_ids for seed in (0, 0, 1))
    assert sorted(map(int, first)) == [*map(int, first)]
    assert first == again != other


def test_missing_values_are_named_most_first() -> None:
    queries = planted(20)
    documents = queries.documents.copy()
    documents[::10, 1] = np.nan
    documents[::2, 6] = np.nan

    found = advise(replace(queries, documents=documents))

    assert [queries.feature_names[one] for one in (6, 1)] == [name for name, _ in found.missing]
    assert [np.isnan(documents[:, one]).mean() for one in (6, 1)] == pytest.approx(
        [share for _, share in found.missing]
    )
    assert (20, 20, 0, queries.n_docs) == (found.queries, found.of, found.idle, found.documents)
