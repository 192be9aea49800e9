"""What nothing reads in a query string is refused: members of the body, and options that the route does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.service.conftest import queries_of_three_kinds

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.anyio

ROWS = queries_of_three_kinds(seed=7)[0].tolist()
TENSOR = {"name": "features", "datatype": "FP32", "shape": [len(ROWS), 4], "data": ROWS}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/rerank": {"features": ROWS},
    "/v2/rerank": {"documents": [{"features": row} for row in ROWS]},
    "/v1/rerank/batch": {"queries": [{"features": ROWS}]},
    "/v1/compare": {"candidate": "tiny@3", "features": ROWS},
    "/v1/evaluate": {"queries": [{"features": ROWS, "labels": [1] * len(ROWS)}]},
    "/v2/models/tiny/infer": {"inputs": [TENSOR]},
    "/v2/models/tiny/versions/3/infer": {"inputs": [TENSOR]},
}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/rerank", "model"),
        ("/v1/rerank", "top_n"),
        ("/v1/rerank", "documents"),
        ("/v2/rerank", "model"),
        ("/v2/rerank", "return_documents"),
        ("/v1/rerank/batch", "queries"),
        ("/v1/rerank/batch", "model"),
        ("/v1/compare", "baseline"),
        ("/v1/compare", "candidate"),
        ("/v1/evaluate", "model"),
        ("/v1/evaluate", "metrics"),
        *(
            (f"/v2/models/tiny{at}/infer", name)
            for at in ("", "/versions/3")
            for name in ("id", "parameters", "inputs", "outputs", "top_n", "timeout")
        ),
    ],
)
async def test_a_member_in_the_query_string_is_refused_by_name(
    path: str, name: str, client: httpx.AsyncClient
) -> None:
    answer = await client.post(f"{path}?z=1&{name}=", json=BODIES[path])

    assert (422, None) == (answer.status_code, answer.json()["pointer"])
    assert f"{name}: expected in the body, found in the query string" == answer.json()["detail"]


@pytest.mark.parametrize("path", BODIES)
async def test_what_is_no_member_is_refused_by_name_too(path: str, client: httpx.AsyncClient) -> None:
    """A misspelled option must not be ignored."""
    answer = await client.post(f"{path}?&=1&mod%65l_=1&%ff", json=BODIES[path])

    assert 422 == answer.status_code
    assert "unknown option 'model_' in the query string; expected none" == answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/v1/models", "none"),
        ("/v1/models/tiny", "none"),
        ("/v1/models/tiny/diff", "some of before, after"),
        ("/v1/models/tiny/sample", "some of query"),
        ("/v1/stats", "some of series"),
        ("/v1/experiments", "none"),
        ("/v2", "none"),
        ("/v2/models/tiny", "none"),
        ("/v2/models/stats", "none"),
        ("/info", "none"),
    ],
)
async def test_other_routes_refuse_options_that_they_do_not_know(
    path: str, options: str, client: httpx.AsyncClient
) -> None:
    answer = await client.get(f"{path}?z=1")

    assert 422 == answer.status_code
    assert f"unknown option 'z' in the query string; expected {options}" == answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/livez", "/startupz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready", "/"]
)
async def test_health_checks_and_the_page_may_have_any(path: str, client: httpx.AsyncClient) -> None:
    """Some balancers add options to their checks, and some sites to links."""
    assert 200 == (await client.get(f"{path}?z=1")).status_code


async def test_an_encoded_name_is_refused_too(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/rerank?%6dodel=other", json=BODIES["/v1/rerank"])

    assert "model: expected in the body, found in the query string" == answer.json()["detail"]


async def test_arrays_and_text_have_their_options_there(client: httpx.AsyncClient) -> None:
    import io

    buffer = io.BytesIO()
    np.save(buffer, np.array(ROWS, np.float32))
    array = await client.post(
        "/v1/rerank?model=tiny&top_n=2",
        content=buffer.getvalue(),
        headers={"content-type": "application/x-npy"},
    )
    text = await client.post(
        "/v1/evaluate?model=tiny&per_query=true&top_grade=3&metrics=p@1",
        content="1 qid:1 1:0.5 2:1\n0 qid:1 1:0.1\n",
        headers={"content-type": "text/plain"},
    )

    assert (200, 2) == (array.status_code, len(array.json()["results"]))
    assert 200 == text.status_code, text.text
    assert [1.0] == [one["metrics"]["p@1"] for one in text.json()["per_query"]]
