"""One table says what a request may hold: to the parser, to OpenAPI and in docs/use/http.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank_service.apis.adapters import ADAPTER
from localrank_service.apis.cohere import COHERE
from localrank_service.apis.compare import COMPARE
from localrank_service.apis.evaluate.reader import EVALUATE, JUDGED
from localrank_service.apis.feedback import FEEDBACK
from localrank_service.apis.models.route import PROMOTE, ROLLBACK
from localrank_service.apis.rerank import npy
from localrank_service.apis.rerank.reader import RERANK
from localrank_service.apis.v2.reader import BINARY_OUTPUT, INFER_PARAMETERS
from localrank_service.apis.v2.tensors import BINARY_INPUT
from localrank_service.http.problems import Problem
from localrank_service.online.definition import GUARDRAILS, MEMBERS
from localrank_service.wire.members import (
    Member,
    by_name,
    check,
    check_names,
    check_query_string,
    names_of,
    plain_values,
)
from tests.described import DOCUMENT

if TYPE_CHECKING:
    import httpx

ROOT = Path(__file__).parents[3]
TABLES = (
    *(RERANK, COHERE, COMPARE, MEMBERS, GUARDRAILS, INFER_PARAMETERS, BINARY_INPUT, BINARY_OUTPUT),
    *(ADAPTER, EVALUATE, FEEDBACK, JUDGED, PROMOTE, ROLLBACK),
)


@pytest.mark.parametrize("table", [RERANK, COHERE, COMPARE, MEMBERS, GUARDRAILS, INFER_PARAMETERS])
def test_the_docs_show_every_member_and_what_it_means(table: tuple[Member, ...]) -> None:
    rows = "".join(f"| `{member.name}` | {member.meaning} |\n" for member in table)

    assert f"|---|---|\n{rows}\n" in (ROOT / "docs" / "use" / "http.md").read_text()


@pytest.mark.parametrize(
    ("table", "not_null"),
    [
        (RERANK, {"documents", "features", "columns", "allow_degraded", "return_documents"}),
        (COMPARE, {"documents", "features", "columns", "candidate"}),
        (COHERE, {"documents", "return_documents", "allow_degraded"}),
        (JUDGED, {"documents", "features", "columns", "labels"}),
        (EVALUATE, {"per_query", "queries"}),
        (ADAPTER, {"allow_degraded"}),
        (INFER_PARAMETERS, {"allow_degraded"}),
        (BINARY_INPUT, set()),
        (BINARY_OUTPUT, set()),
        (FEEDBACK, {"request_id", "click", "grade"}),
        (PROMOTE, {"version", "alias"}),
        (ROLLBACK, {"alias"}),
        (MEMBERS, {member.name for member in MEMBERS}),
        (GUARDRAILS, {member.name for member in GUARDRAILS}),
    ],
)
def test_null_stands_for_what_is_left_out_except_where_that_means_something_else(
    table: tuple[Member, ...], not_null: set[str]
) -> None:
    assert not_null == {member.name for member in table if not member.nullable}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("allow_degraded", "true", True),
        ("allow_degraded", "false", False),
        ("allow_degraded", "True", "True"),
        ("allow_degraded", "1", "1"),
        ("top_n", "0", 0),
        ("top_n", "12", 12),
        ("top_n", "9" * 18, 10**18 - 1),
        ("top_n", "9" * 19, "9" * 19),
        ("top_n", "-1", "-1"),
        ("top_n", "1.0", "1.0"),
        ("top_n", "1_0", "1_0"),
        ("top_n", "\u0661", "\u0661"),
        ("timeout_ms", "5", 5.0),
        ("timeout_ms", "0.25", 0.25),
        ("timeout_ms", "1e3", "1e3"),
        ("timeout_ms", "nan", "nan"),
        ("timeout_ms", ".", "."),
        ("timeout_ms", "1.", "1."),
        ("timeout_ms", "9" * 12 + "." + "9" * 12, 1e12),
        ("timeout_ms", "9" * 13, "9" * 13),
        ("timeout_ms", "0." + "9" * 13, "0." + "9" * 13),
        ("model", "12", "12"),
        ("query_id", "12", "12"),
        ("explain", "true", "true"),
    ],
)
def test_a_query_string_has_numbers_and_flags(name: str, text: str, value: object) -> None:
    [found] = plain_values({name: text}, by_name(RERANK)).values()

    assert (type(value), value) == (type(found), found)


def test_what_is_no_text_already_stays_as_it_is() -> None:
    found = plain_values({"metrics": ["map"], "per_query": "true"}, by_name(EVALUATE))

    assert {"metrics": ["map"], "per_query": True} == found


def test_an_unknown_member_is_named_with_its_place_and_those_that_are_known() -> None:
    with pytest.raises(Problem) as caught:
        check_names(["alias", "a/b"], by_name(PROMOTE), "/x")

    assert (422, "/x/a~1b", "unknown member 'a/b'; expected some of version, alias") == (
        caught.value.status,
        caught.value.pointer,
        caught.value.detail,
    )
    check_names(["alias", "version"], by_name(PROMOTE))


def test_a_wrong_value_is_shown_with_its_place() -> None:
    with pytest.raises(Problem) as caught:
        check({"unknown": 1, "alias": "a", "version": 0}, by_name(PROMOTE), "/x")

    assert (422, "/x/version", "version: expected an integer of at least 1, found 0") == (
        caught.value.status,
        caught.value.pointer,
        caught.value.detail,
    )


def test_openapi_describes_every_member() -> None:
    described = {"RerankRequest": RERANK, "CohereRequest": COHERE}

    for name, table in described.items():
        properties = DOCUMENT["components"]["schemas"][name]["properties"]
        assert [member.name for member in table] == list(properties)
        assert [member.meaning for member in table] == [one["description"] for one in properties.values()]


def test_the_query_string_of_arrays_has_members_of_the_table() -> None:
    assert set(npy.OPTIONS) <= set(by_name(RERANK))


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["route", "standard"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)


@given(value=anything | st.lists(st.integers(-1, 9), max_size=3), member=st.sampled_from(sum(TABLES, ())))
def test_the_parser_accepts_what_the_schema_describes(value: Any, member: Member) -> None:
    if member.kind.accepts is None:
        return
    # To JSON Schema 1.0 is an integer; to the parser it is not.
    whole = isinstance(value, float) or (
        isinstance(value, list) and any(isinstance(one, float) for one in value)
    )
    described = jsonschema.Draft202012Validator(member.kind.schema).is_valid(value) and not whole

    try:
        check({member.name: value}, by_name((member,)))
        accepted = True
    except Problem:
        accepted = False

    assert (described or (member.nullable and value is None)) == accepted


ROW = [1.0, 2.0, 3.0, 4.0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("datatype", "status"),
    [("FP32", 200), ("FP64", 200), ("float16", 422), ("float32", 422), ("float64", 422)],
)
async def test_the_open_inference_protocol_names_number_types_as_it_does(
    datatype: str, status: int, client: httpx.AsyncClient
) -> None:
    tensor = {"name": "features", "datatype": datatype, "shape": [1, 4], "data": ROW}

    response = await client.post("/v2/models/tiny/infer", json={"inputs": [tensor]})

    assert status == response.status_code, response.text
    if status == 422:
        assert "/inputs/0/datatype" == response.json()["pointer"]


@pytest.mark.parametrize("query_string", [b"", b"&&=&", b"=top_n", b"trace=1", b"&trace&trace=%&"])
def test_options_may_stand_in_the_query_string(query_string: bytes) -> None:
    check_query_string(query_string, names_of(RERANK), ("trace",))


@pytest.mark.parametrize("query_string", [b"topn=1", b"trace=1&topn", b"t%6fpn=top_n"])
def test_other_words_may_not_stand_in_the_query_string(query_string: bytes) -> None:
    with pytest.raises(Problem, match=r"^unknown option 'topn' in the query string; expected some of trace$"):
        check_query_string(query_string, names_of(RERANK), ("trace",))


@pytest.mark.parametrize("query_string", [b"top_n=1", b"top_n", b"top_n=", b"x=1&top_n=1=2", b"&top_n=1&x"])
def test_members_may_not_stand_in_the_query_string(query_string: bytes) -> None:
    with pytest.raises(Problem, match=r"^top_n: expected in the body, found in the query string") as refused:
        check_query_string(query_string, names_of(RERANK))

    assert 422 == refused.value.status
