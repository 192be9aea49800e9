"""What operators may write down, and what they are told if it is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localrank_service.experiments.definition import document, parse
from localrank_service.http.problems import Problem

CANARY = {"name": "web-4", "kind": "canary", "model": "web", "candidate": "web@4"}


def written(*experiments: Any) -> bytes:
    return json.dumps({"experiments": experiments}).encode()


def test_what_is_left_out_has_the_defaults_of_the_kind() -> None:
    kinds = {kind: {**CANARY, "name": kind, "kind": kind} for kind in ("canary", "shadow")}
    mixed = {**CANARY, "name": "mixed", "kind": "interleaving", "model": "other"}

    canary, shadow, interleaving = parse(written(*kinds.values(), mixed))

    assert (5.0, "session_id", "canary") == (canary.percent, canary.unit, canary.salt)
    assert canary.guardrails is not None
    assert (50, 0.01) == (canary.guardrails.minimum_requests, canary.guardrails.alpha)
    assert (100.0, "request", None) == (shadow.percent, shadow.unit, shadow.guardrails)
    assert ("team_draft", 10) == (interleaving.method, interleaving.depth)


def test_a_document_is_read_as_it_was_written() -> None:
    found = parse(written({**CANARY, "percent": 12.5, "guardrails": {"latency": 3}}))

    assert found == parse(document(found))


def test_experiments_that_differ_in_anything_are_different_runs() -> None:
    one, again, other = (
        parse(written(CANARY | more))[0].run for more in ({}, {"percent": 5}, {"salt": "new"})
    )

    assert one == again != other


@pytest.mark.parametrize(
    ("experiments", "said", "at"),
    [
        ([CANARY | {"percnt": 5}], "unknown member 'percnt'", "/experiments/0/percnt"),
        ([CANARY | {"percent": 51}], "at most 50 for a canary", "/experiments/0/percent"),
        ([CANARY | {"percent": 0}], "percent: expected a number above 0", "/experiments/0/percent"),
        ([CANARY | {"candidate": "web"}], "name@version or name@alias", "/experiments/0/candidate"),
        ([CANARY | {"unit": "user"}], "one of session_id, query_id, request", "/experiments/0/unit"),
        ([CANARY | {"depth": 3}], "depth needs kind interleaving", "/experiments/0/depth"),
        ([CANARY | {"guardrails": {"p95": 1}}], "unknown member 'p95'", "/experiments/0/guardrails/p95"),
        ([CANARY | {"guardrails": {"alpha": 1}}], "alpha: expected", "/experiments/0/guardrails/alpha"),
        ([CANARY, CANARY], "two experiments are called 'web-4'", "/experiments/1/name"),
        ([CANARY, CANARY | {"name": "b"}], "both decide which version of 'web'", "/experiments/1/model"),
        ([{"name": "a"}], "without kind", "/experiments/0"),
        (["a"], "expected an object", "/experiments/0"),
    ],
)
def test_what_is_wrong_is_named(experiments: list[Any], said: str, at: str) -> None:
    with pytest.raises(Problem) as found:
        parse(written(*experiments))

    assert said in found.value.detail
    assert at == found.value.pointer
    assert 422 == found.value.status


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"experiments": {}}', b'{"experiments": [], "a": 1}']
)
def test_what_is_no_document_is_refused(content: bytes) -> None:
    with pytest.raises(Problem):
        parse(content)
