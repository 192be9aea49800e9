"""W3C Trace Context: what is read from a request, and what the answer says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from localrank_service.telemetry.tracing import trace_of

if TYPE_CHECKING:
    import httpx

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{PARENT}-01"


def headers(*values: str, state: str | None = None) -> list[tuple[bytes, bytes]]:
    found = [(b"host", b"localhost"), *((b"traceparent", value.encode()) for value in values)]
    return found if state is None else [*found, (b"tracestate", state.encode())]


@pytest.mark.parametrize(
    ("value", "sampled"),
    [
        (GOOD, True),
        (f" {GOOD} ", True),
        (f"00-{TRACE}-{PARENT}-00", False),
        (f"00-{TRACE}-{PARENT}-02", False),
        (f"00-{TRACE}-{PARENT}-ff", True),
        (f"01-{TRACE}-{PARENT}-01", True),
        (f"cc-{TRACE}-{PARENT}-01-what-a-later-version-says", True),
    ],
)
def test_the_caller_s_trace_goes_on(value: str, sampled: bool) -> None:  # noqa: FBT001
    trace = trace_of(headers(value, state="vendor=1"))

    assert (TRACE, PARENT, sampled) == (trace.trace_id, trace.parent_id, trace.sampled)
    assert "vendor=1" == trace.state
    assert re.fullmatch("[0-9a-f]{16}", trace.span_id)
    assert trace.span_id not in {PARENT, "0" * 16}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        TRACE,
        GOOD.upper(),
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01-",
        f"01-{TRACE}-{PARENT}-01more",
        f"0-{TRACE}-{PARENT}-01",
        f"0g-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}0-{PARENT}-01",
        f"00-{TRACE[:-1]}.-{PARENT}-01",
        f"00-{TRACE}-{PARENT[:-1]}-01",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-0g",
        f"00-{TRACE}-{PARENT}",
        f"00_{TRACE}_{PARENT}_01",
        f"{GOOD},{GOOD}",
    ],
)
def test_a_malformed_one_is_ignored_and_its_state_with_it(value: str) -> None:
    trace = trace_of(headers(value, state="vendor=1"))

    assert (None, False, "") == (trace.parent_id, trace.sampled, trace.state)
    assert re.fullmatch("[0-9a-f]{32}", trace.trace_id)
    assert TRACE != trace.trace_id


def test_a_repeated_one_is_ignored() -> None:
    assert TRACE != trace_of(headers(GOOD, GOOD)).trace_id


def test_states_of_several_headers_are_joined_in_order() -> None:
    several = [*headers(GOOD, state="a=1"), (b"tracestate", b""), (b"tracestate", b"b=2,c=3")]

    assert "a=1,b=2,c=3" == trace_of(several).state


def test_every_request_gets_a_span_of_its_own() -> None:
    assert 100 == len({trace_of(headers(GOOD)).span_id for _ in range(100)})
    assert 100 == len({trace_of(headers("no")).trace_id for _ in range(100)})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/v1/rerank", '{"features": [[1, 2, 3, 4]]}', 200), ("/v1/rerank", "{", 400), ("/v1/nope", "{}", 404)],
)
async def test_the_answer_passes_the_trace_on(
    path: str, body: str, status: int, client: httpx.AsyncClient
) -> None:
    sent = {"content-type": "application/json", "traceparent": GOOD}

    answer = await client.post(path, content=body, headers=sent)

    assert status == answer.status_code
    found = re.fullmatch(rf"00-{TRACE}-([0-9a-f]{{16}})-01", answer.headers["traceresponse"])
    assert found is not None
    assert found[1] != PARENT
    timings = answer.headers["server-timing"].split(", ")
    assert f'traceparent;desc="{found[0]}"' == timings[-1]
    assert (status == 200) == (len(timings) > 5)


@pytest.mark.anyio
async def test_a_malformed_trace_is_answered_with_a_new_one(client: httpx.AsyncClient) -> None:
    answer = await client.get("/livez", headers={"traceparent": "00-nonsense"})

    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-00", answer.headers["traceresponse"])


@pytest.mark.anyio
async def test_without_a_trace_the_answer_has_none(client: httpx.AsyncClient) -> None:
    answer = await client.get("/livez")

    assert not {"traceresponse", "traceparent", "server-timing"} & set(answer.headers)
