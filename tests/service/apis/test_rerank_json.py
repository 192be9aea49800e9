"""Forms of a request in JSON: what each costs, and where its parts stand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from localrank_service.apis.rerank import reader as rerank_json
from localrank_service.http.problems import Problem
from localrank_service.wire.query import Limits, Options
from tests.service.conftest import NAMES, three_kinds

pytestmark = pytest.mark.usefixtures("arithmetic")

CONTRACT = three_kinds().contract
LIMITS = Limits(100_000, refuse_extra_features=False)
ROW = [1.0, 2.0, 3.0, 4.0]


def read(members: dict[str, Any] | bytes, limits: Limits = LIMITS) -> rerank_json.JsonQuery:
    body = members if isinstance(members, bytes) else json.dumps(members).encode()
    return rerank_json.JsonQuery.read(body, limits)


def refused(members: dict[str, Any] | bytes, limits: Limits = LIMITS) -> Problem:
    with pytest.raises(Problem) as caught:
        read(members, limits).documents(CONTRACT)
    return caught.value


def test_every_option_is_taken_from_its_member() -> None:
    members = {
        "model": "m",
        "query_id": "q",
        "top_n": 3,
        "contract": "c",
        "timeout_ms": 1.5,
        "allow_degraded": False,
        "fallback_feature": "f",
        "session_id": 7,
        "features": [ROW],
    }

    options = read(members).options

    assert options == Options(
        model="m",
        query_id="q",
        top_n=3,
        explain="none",
        contract="c",
        compare=None,
        timeout_ms=1.5,
        allow_degraded=False,
        fallback_feature="f",
        timeout_at="/timeout_ms",
        session_id=7,
    )
    compared = read({"features": [ROW], "explain": "contributions", "compare": [0, 1]}).options
    assert ((0, 1), "contributions", True) == (compared.compare, compared.explain, compared.allow_degraded)
    assert Options() == read({"features": [ROW]}).options


def test_what_is_not_plain_costs_sixteen_times_its_bytes(arithmetic: str) -> None:
    """Without compiled code no body is plain."""
    plain = json.dumps({"features": [ROW]}).encode()
    other = json.dumps({"documents": [{"features": {"a": 1.0}}]}).encode()

    assert (16 if arithmetic == "numpy" else 1) * len(plain) == read(plain).cost
    assert 16 * len(other) == read(other).cost


@pytest.mark.parametrize(("count", "status"), [(2**15, 409), (2**15 + 1, 422)])
def test_so_many_features_may_be_named(count: int, status: int) -> None:
    """As many as the limit are looked at, and lack those of the model."""
    problem = refused({"features": [ROW], "feature_names": [f"x{number}" for number in range(count)]})

    assert status == problem.status


@pytest.mark.parametrize(
    ("members", "found", "first", "whole"),
    [
        ({"features": [ROW] * 3}, "/features/2/1", "/features/2/0", "/features/2"),
        ({"features": [[*ROW[:1], None, None, None]] * 3}, "/features/2/1", "/features/2/0", "/features/2"),
        (
            {"documents": [{"features": ROW}] * 3},
            "/documents/2/features/1",
            "/documents/2/features/0",
            "/documents/2/features",
        ),
        (
            {"documents": [{"features": dict(zip(NAMES, ROW, strict=True))}] * 3},
            "/documents/2/features/pagerank",
            "/documents/2/features/bm25",
            "/documents/2/features",
        ),
        (
            {"documents": [{"features": {"bm25": 1.0, "new": 1.0}, "id": "a"}] * 3},
            "/documents/2/features",
            "/documents/2/features/bm25",
            "/documents/2/features",
        ),
        (
            {"features": [ROW] * 3, "feature_names": [*NAMES[::-1]]},
            "/features/2/2",
            "/features/2/3",
            "/features/2",
        ),
    ],
)  # fmt: skip
def test_every_form_knows_where_a_feature_stands(
    members: dict[str, Any], found: str, first: str, whole: str
) -> None:
    """The places of the second and the first feature of the model, and of the document."""
    documents = read(members).documents(CONTRACT)

    assert (found, first, whole) == (
        documents.locate(2, 1),
        documents.locate(2, 0),
        documents.locate(2, None),
    )


@pytest.mark.parametrize("named", [True, False])
def test_features_that_the_model_does_not_know_are_counted_by_document(*, named: bool) -> None:
    """Also if documents with and without names are mixed: the list of names belongs to those without."""
    known = dict(zip(NAMES, ROW, strict=True))
    documents: list[Any] = [{"features": known | {"a": 1}}, {"features": known | {"a": None, "b": 2}}]
    members: dict[str, Any] = {"documents": documents}
    if named:
        members["feature_names"] = [*NAMES, "c"]
        documents += [{"features": [*ROW, 9]}, {"features": [*ROW, 9]}, {"features": [*ROW, 9]}]

    read_ones = read(members).documents(CONTRACT)

    assert {"a": 2, "b": 1} | ({"c": 3} if named else {}) == read_ones.ignored
    assert [ROW] * len(documents) == read_ones.matrix.tolist()
    assert read_ones.ids is None


@pytest.mark.parametrize(
    "documents",
    [
        [{"id": "a", "features": ROW}, {"features": ROW}, {"id": 7, "features": ROW}],
        [{"features": ROW, "id": "a"}, {"features": [None, *ROW[1:]]}, {"features": ROW, "id": 7}],
    ],
)
def test_some_documents_may_have_ids(documents: list[Any]) -> None:
    assert ["a", None, 7] == read({"documents": documents}).documents(CONTRACT).ids


@pytest.mark.parametrize("value", [1.0, None])
@pytest.mark.parametrize(("count", "status"), [(3, 200), (4, 413)])
def test_each_form_has_as_many_documents_as_allowed(value: float | None, count: int, status: int) -> None:
    row = [1.0, value, 3.0, 4.0]
    limits = Limits(3, refuse_extra_features=False)
    for members, at in (
        ({"features": [row] * count}, "/features"),
        ({"documents": [{"features": row}] * count}, "/documents"),
    ):
        if status == 200:
            assert (count, 4) == read(members, limits).documents(CONTRACT).matrix.shape
        else:
            problem = refused(members, limits)
            assert (status, at) == (problem.status, problem.pointer)


def test_documents_of_many_cells_are_read_run_by_run_in_order() -> None:
    """A run has some thousand cells; each document names one feature only."""
    count = 3000
    body = {"documents": [{"features": {"ctr:7d": position}, "id": position} for position in range(count)]}

    documents = read(body).documents(CONTRACT)

    expected = np.full((count, 4), np.nan, np.float32)
    expected[:, 2] = np.arange(count)
    np.testing.assert_array_equal(expected, documents.matrix)
    assert list(range(count)) == documents.ids
