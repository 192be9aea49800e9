"""What operators may write down, and what they are told if it is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

import jsonschema
import pytest

from localrank_service.http.problems import Problem
from localrank_service.online.definition import GUARDRAILS, document, parse

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
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"experiments": {}}',
        b'{"experiments": [], "a": 1}',
        b'{"experiments": [], "experiments": []}',
        b'{"experiments": [{"name": "a", "name": "b"}]}',
    ],
)
def test_what_is_no_document_is_refused(content: bytes) -> None:
    with pytest.raises(Problem):
        parse(content)


def refused(member: str, value: object, **more: object) -> str | None:
    """Where and whether a value is refused."""
    try:
        parse(written({**CANARY, **more, member: value}))
    except Problem as problem:
        return problem.pointer
    return None


@pytest.mark.parametrize(
    ("member", "good", "bad"),
    [
        ("percent", [0.001, 50, 50.0], [0, -1, 50.001, "5", True, None]),
        ("salt", ["a", "a" * 128], ["", "a" * 129, 1]),
        ("name", ["a", "1", "a" * 64, "a._-b"], ["", "a" * 65, "-a", "a b", 1]),
        ("model", ["a" * 64], ["a" * 65, "web@1", ""]),
        ("candidate", ["a@1", "a@b", "a" * 64 + "@" + "b" * 64], ["a@", "@1", "a@1@2", "a@" + "b" * 65]),
        ("kind", ["canary", "split", "shadow", "interleaving"], ["", "Canary", 1, None]),
        ("unit", ["session_id", "query_id", "request"], ["", None, []]),
        ("guardrails", [{}], [[], None, "a"]),
    ],
)
def test_members_have_limits(member: str, good: list[object], bad: list[object]) -> None:
    assert [None] * len(good) == [refused(member, value) for value in good]
    assert [f"/experiments/0/{member}"] * len(bad) == [refused(member, value) for value in bad]


@pytest.mark.parametrize(
    ("member", "good", "bad"),
    [
        ("minimum_requests", [10, 1_000_000], [9, 1_000_001, 50.0, True]),
        ("alpha", [1e-9, 0.2], [0, 0.201, "0.1"]),
        ("errors", [0, 1, 0.5], [-0.001, 1.001]),
        ("degraded", [0, 1], [-0.001, 1.001]),
        ("latency", [1, 1.5, 1000], [0.999, 1000.5]),
        ("quantile", [1e-9, 0.999], [0, 0.9991, 1]),
    ],
)
def test_guardrails_have_limits(member: str, good: list[object], bad: list[object]) -> None:
    at = f"/experiments/0/guardrails/{member}"

    assert [None] * len(good) == [refused("guardrails", {member: value}) for value in good]
    assert [at] * len(bad) == [refused("guardrails", {member: value}) for value in bad]
    kind = {one.name: one.kind for one in GUARDRAILS}[member]
    valid = jsonschema.Draft202012Validator(dict(kind.schema)).is_valid
    # JSON Schema takes 50.0 for an integer.
    assert all(map(valid, good))
    assert not any(valid(value) for value in bad if value != 50.0)


def test_interleaving_and_splits_have_limits_of_their_own() -> None:
    mixed = {"kind": "interleaving"}

    assert [None, None, *["/experiments/0/depth"] * 3] == [
        refused("depth", value, **mixed) for value in (1, 100, 0, 101, 1.5)
    ]
    assert (None, "/experiments/0/method") == (
        refused("method", "balanced", **mixed),
        refused("method", "other", **mixed),
    )
    for kind in ("split", "shadow", "interleaving"):
        assert [None, "/experiments/0/percent"] == [
            refused("percent", value, kind=kind) for value in (100, 100.5)
        ]
    for member, value in (("guardrails", {}), ("method", "balanced"), ("depth", 3)):
        assert f"/experiments/0/{member}" == refused(member, value, kind="split")


def test_defaults_are_those_that_the_members_describe() -> None:
    canary, split = parse(written(CANARY, {**CANARY, "name": "half", "kind": "split", "model": "other"}))

    assert (50.0, "session_id", "half", None, None, None) == (
        split.percent,
        split.unit,
        split.salt,
        split.guardrails,
        split.method,
        split.depth,
    )
    described = {
        one.name: float(re.findall(r"([\d.]+) if left out", one.meaning.replace("\n", " "))[0])
        for one in GUARDRAILS
    }
    assert canary.guardrails is not None
    assert described == asdict(canary.guardrails)
    assert canary.to_json().keys() == {
        "name", "kind", "model", "candidate", "percent", "unit", "salt", "guardrails"
    }  # fmt: skip


def test_a_document_has_a_largest_size_and_number_of_experiments() -> None:
    def shadows(count: int) -> bytes:
        return written(*({**CANARY, "name": f"s{number}", "kind": "shadow"} for number in range(count)))

    assert 32 == len(parse(shadows(32)))
    for content, status, at in (
        (shadows(33), 422, "/experiments"),
        (shadows(1).ljust(256 * 1024 + 1), 413, ""),
        (b"[]", 422, ""),
        (b"{", 400, ""),
    ):
        with pytest.raises(Problem) as found:
            parse(content)
        assert (status, at) == (found.value.status, found.value.pointer)
    assert 1 == len(parse(shadows(1).ljust(256 * 1024)))


def test_several_shadows_may_run_besides_one_that_answers() -> None:
    besides = [{**CANARY, "name": f"s{number}", "kind": "shadow"} for number in range(2)]

    assert ["web-4", "s0", "s1"] == [one.name for one in parse(written(CANARY, *besides))]
    assert ["s0", "web-4"] == [one.name for one in parse(written(besides[0], CANARY))]
    elsewhere = {**CANARY, "name": "demo-2", "model": "demo"}
    assert 2 == len(parse(written(CANARY, elsewhere)))
    with pytest.raises(Problem) as found:
        parse(written(besides[0], CANARY, {**CANARY, "name": "c"}))
    assert "/experiments/2/model" == found.value.pointer


def test_a_document_is_written_for_people_too() -> None:
    content = document(parse(written(CANARY)))

    assert content.endswith(b"}\n")
    assert b'\n  "experiments": [\n    {\n      "name": "web-4",' in content
