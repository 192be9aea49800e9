"""Judged queries in JSON and in LETOR text: options, limits of all queries together, and places of errors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from localrank.metrics import Convention, Metric
from localrank_service.apis.evaluate.reader import Exam, Judged, read_json, read_text
from localrank_service.http.problems import Problem
from localrank_service.wire.query import Limits
from tests.service.conftest import three_kinds

CONTRACT = three_kinds().contract
LIMITS = Limits(6, refuse_extra_features=False, max_numbers=24)
ROW = [1.0, 2.0, 3.0, 4.0]


def query(count: int, **more: Any) -> dict[str, Any]:
    return {"features": [ROW] * count, "labels": list(range(count)), **more}


def read(members: Any, *, limits: Limits = LIMITS, most: int = 3) -> Exam:
    return read_json(json.dumps(members).encode(), limits, most)


def queries(exam: Exam) -> list[Judged]:
    return list(exam.queries(CONTRACT, lambda: None))


def refused(members: Any, **more: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        queries(read(members, **more))
    return caught.value


def test_options_have_the_documented_defaults() -> None:
    exam = read({"queries": []})

    assert (None, None, False) == (exam.model, exam.contract, exam.per_query)
    assert [Metric("ndcg", 10), Metric("map")] == exam.metrics
    assert Convention.named("standard") == exam.convention
    assert [Metric("ndcg", 10), Metric("map")] == read({"queries": [], "metrics": []}).metrics


def test_options_are_taken_from_their_members() -> None:
    given = {
        "model": "m@2",
        "contract": CONTRACT.digest,
        "metrics": ["p@1"],
        "convention": "standard-skip",
        "top_grade": 7,
        "per_query": True,
    }
    options = [(name, str(value)) for name, value in given.items() if name not in {"metrics", "per_query"}]

    in_json = read({**given, "queries": []})
    in_text = read_text(b"", [*options, ("metrics", "p@1"), ("per_query", "true")], LIMITS, 3)

    for exam in (in_json, in_text):
        assert ("m@2", CONTRACT.digest, True, [Metric("p", 1)]) == (
            exam.model,
            exam.contract,
            exam.per_query,
            exam.metrics,
        )
        assert Convention.named("standard-skip").with_top_grade(7) == exam.convention
    assert (None, b"") == (in_json.body, in_text.body)
    assert [] == queries(in_text)


def test_queries_are_read_in_order_with_their_labels() -> None:
    exam = read({"queries": [query(2, query_id="a"), query(0), query(1, query_id=7)]})
    looked: list[int] = []

    found = list(exam.queries(CONTRACT, lambda: looked.append(1)))

    assert ["a", None, 7] == [one.query_id for one in found]
    assert [[0.0, 1.0], [], [0.0]] == [one.labels.tolist() for one in found]
    assert [(2, 4), (0, 4), (1, 4)] == [one.documents.matrix.shape for one in found]
    assert {np.dtype(np.float64)} == {one.labels.dtype for one in found}
    assert 3 == len(looked)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(5, refuse_extra_features=False), "the queries have more than 5 documents, the limit of this server"),
        (
            Limits(6, refuse_extra_features=False, max_numbers=23),
            "the queries have more than 23 numbers, the limit of this server",
        ),
    ],
)  # fmt: skip
def test_limits_hold_for_all_queries_together(limits: Limits, said: str) -> None:
    members = {"queries": [query(2), query(3), query(1)]}

    # Labels are numbers of the body, too; only those of the documents count here.
    exam = read(members, limits=Limits(6, refuse_extra_features=False))

    assert 6 == sum(len(one.labels) for one in queries(exam._replace(limits=LIMITS)))
    with pytest.raises(Problem) as caught:
        queries(exam._replace(limits=limits))
    assert (413, "/queries", said) == (caught.value.status, caught.value.pointer, caught.value.detail)


def test_so_many_queries_are_evaluated() -> None:
    assert 3 == len(read({"queries": [query(1)] * 3}).texts)
    problem = refused({"queries": [query(1)] * 4})
    assert (413, "/queries", "4 queries; this server evaluates 3 per request") == (
        problem.status,
        problem.pointer,
        problem.detail,
    )


@pytest.mark.parametrize(
    ("wrong", "at", "said"),
    [
        ({"features": [ROW]}, "/queries/1", "the query has no labels"),
        (query(1, labels=None), "/queries/1/labels", "labels: expected a list of numbers of at least 0, found null"),
        (query(1, labels="1"), "/queries/1/labels", 'labels: expected a list of numbers of at least 0, found "1"'),
        (query(1, labels=[-1]), "/queries/1/labels/0", "labels[0]: expected a number of at least 0, found -1"),
        (query(1, labels=[0, True]), "/queries/1/labels/1", "labels[1]: expected a number of at least 0, found true"),
        (query(1, labels=[0, 0, None]), "/queries/1/labels/2", "labels[2]: expected a number of at least 0, found null"),
        (query(1, labels=[0], query_id=[]), "/queries/1/query_id", "query_id: expected a text or an integer, found a list"),
        (query(1, labels=[1, 2]), "/queries/1/labels", "2 labels for 1 documents"),
        (query(1, model="m"), "/queries/1/model", "unknown member 'model'"),
        ({"features": [ROW[:3]], "labels": [1]}, "/queries/1/features/0", "has 3 values; expected 4"),
        ([], "/queries/1", "the query: expected an object, found a list"),
    ],
)  # fmt: skip
def test_a_wrong_query_is_pointed_at(wrong: Any, at: str, said: str) -> None:
    problem = refused({"queries": [query(1), wrong]})

    assert (422, at) == (problem.status, problem.pointer)
    assert said in problem.detail


@pytest.mark.parametrize(
    ("members", "at", "said"),
    [
        ({"metrics": ["map"] * 33}, "/metrics", "33 metrics; expected at most 32"),
        ({"metrics": ["ndcg@99999999999999999999"]}, "/metrics", "ndcg@99999999999999999999"),
        ({"metrics": ["ndcg@0"]}, "/metrics", "ndcg@0"),
        ({"metrics": "map"}, "/metrics", "metrics: expected a list of texts"),
        ({"metrics": [1]}, "/metrics", "metrics: expected a list of texts"),
        ({"top_grade": 0}, "/top_grade", "top_grade: expected an integer of at least 1, found 0"),
        ({"top_grade": 10**30}, "/top_grade", ""),
        ({"top_grade": 3, "convention": "letor4"}, "/top_grade", "its top grade is always"),
        ({"convention": "none"}, "/convention", "convention: expected one of letor3, letor4"),
        ({"per_query": "true"}, "/per_query", 'per_query: expected true or false, found "true"'),
        ({"per_query": None}, "/per_query", "per_query: expected true or false, found null"),
        ({"queries": None}, "/queries", "queries: expected a list of objects, found null"),
    ],
)
def test_a_wrong_option_is_pointed_at(members: dict[str, Any], at: str, said: str) -> None:
    problem = refused({"queries": [], **members})

    assert (422, at) == (problem.status, problem.pointer)
    assert said in problem.detail
    assert 32 == len(read({"queries": [], "metrics": ["map"] * 32}).metrics)


def test_another_contract_is_refused() -> None:
    problem = refused({"queries": [], "contract": "sha256:0"})

    assert (409, "/contract", "contract-mismatch") == (problem.status, problem.pointer, problem.kind)


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ([("metric", "map")], 422, "unknown option 'metric' in the query string; expected some of model, metrics"),
        ([("model", "a"), ("model", "a")], 400, "option 'model' stands twice in the query string"),
        ([("top_grade", "x")], 422, 'top_grade: expected an integer of at least 1, found "x"'),
        ([("top_grade", "9" * 18)], 422, "top grade: expected 1 to"),
        ([("per_query", "yes")], 422, 'per_query: expected true or false, found "yes"'),
        ([("metrics", "auc")], 422, "metric 'auc'"),
    ],
)  # fmt: skip
def test_wrong_options_of_text_point_nowhere_in_the_body(
    options: list[tuple[str, str]], status: int, said: str
) -> None:
    with pytest.raises(Problem) as caught:
        read_text(b"", options, LIMITS, 3)

    assert (status, None) == (caught.value.status, caught.value.pointer)
    assert said in caught.value.detail


def test_text_is_read_with_the_model() -> None:
    body = b"1 qid:a 1:1 2:2 3:3 4:4\n0 qid:b 1:1\n2 qid:a 4:9\n"

    found = queries(read_text(body, (), LIMITS, 3))

    assert ["a", "b"] == [one.query_id for one in found]
    assert [[1.0, 2.0], [0.0]] == [one.labels.tolist() for one in found]
    assert [[ROW, [0, 0, 0, 9]], [[1, 0, 0, 0]]] == [one.documents.matrix.tolist() for one in found]
    assert ("", None) == (found[0].documents.locate(1, 2), found[0].documents.ids)
    with pytest.raises(Problem, match="1 queries, the limit of this server"):
        queries(read_text(body, (), LIMITS, 1))
