"""What would help most, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank_training.advice.helping import FEWEST, Advice, advise, sample_of
from localrank_training.advice.removals import Removal
from localrank_training.data.queries import QuerySet
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.evaluation.twins import Twins


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


def comparison(difference: float, p: float, detectable: float | None = None) -> Any:
    return SimpleNamespace(
        difference=difference,
        p_holm=p,
        detectable=detectable,
        interval=None,
        interval_text="few",
        baseline=0.4,
        candidate=0.5,
    )


def advice(*losses: tuple[str, float, float, float | None], **more: Any) -> Advice:
    found = tuple(
        Removal(what, f"half of the {what}", comparison(difference, p, detectable))
        for what, difference, p, detectable in losses
    )
    twins = Twins(documents=1000, equal=0, near=0, examples=(), ceiling=1.0, best=1.0)
    members = {
        "queries": 50,
        "documents": 1000,
        "of": 60,
        "idle": 0,
        "twins": twins,
        "useless": (),
        "missing": (),
    }
    return Advice(removals=found, **{**members, **more})


def test_what_is_clearly_missed_comes_first_and_the_rest_is_named() -> None:
    found = advice(
        ("queries", 0.01, 0.05, None),
        ("documents", 0.0, 0.01, None),
        ("features", 0.03, 0.01, None),
        ("labels", 0.05, 0.051, None),
    )

    assert ["features", "queries"] == [one.what for one in found.clear]
    assert (
        "What would help most: more features. Without half of the features, ndcg@10 of a quick linear model is lower by 0.0300.",
        "More judged queries would help too. Without half of the queries, ndcg@10 of a quick linear model is lower by 0.0100.",
        "It is not clear that more judged documents per query or more careful labels would help.",
    ) == found.sentences


@pytest.mark.parametrize(
    ("detectable", "said"),
    [([None, None], "(50 queries)"), ([0.02, None], "(50 queries; a loss of 0.0200 would have been found)"),
     ([0.02, 0.04], "(50 queries; a loss of 0.0400 would have been found)")],
)  # fmt: skip
def test_if_nothing_is_clear_it_says_what_would_have_been_found(
    detectable: list[float | None], said: str
) -> None:
    found = advice(("queries", 0.01, 0.5, detectable[0]), ("labels", -0.01, 0.01, detectable[1]))

    assert found.sentences[0].endswith(f"or more careful labels would help {said}.")
    title, header, rows = found.table()
    assert "ndcg@10 0.5000 with all of it" in title
    assert 5 == len(header)
    assert [
        ("half of the queries", 0.4, "+0.0100", "few", 0.5),
        ("half of the labels", 0.4, "-0.0100", "few", 0.01),
    ] == rows


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
    alike = replace(advice(("queries", 0.1, 0.01, None)).twins, **twins)

    found = advice(("queries", 0.1, 0.01, None), twins=alike).sentences[1:]

    assert bool(said) == len(found)
    assert said in "".join(found)


@pytest.mark.parametrize(("count", "more"), [(5, "."), (6, " and 1 more."), (7, " and 2 more.")])
def test_five_features_are_named(count: int, more: str) -> None:
    names = tuple(f"f{number}" for number in range(count))

    useless, missing = advice(
        ("queries", 0.1, 0.01, None), useless=names, missing=tuple((name, 0.25) for name in names)
    ).sentences[1:]

    assert f"Useless, because constant within every query: f0, f1, f2, f3, f4{more}" == useless
    assert f"Values are missing: f0 (25%), f1 (25%), f2 (25%), f3 (25%), f4 (25%){more} Fill them" in missing


def test_queries_of_one_label_are_counted() -> None:
    assert (
        "3 of 60 queries have documents of one label only"
        in advice(("queries", 0.1, 0.01, None), idle=3).sentences[1]
    )


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
    ids = [int(name) for name in sample_of(long(25, 1000), 0).query_ids]
    assert sorted(ids) == ids


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
