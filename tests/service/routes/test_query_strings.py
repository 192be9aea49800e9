"""Members of the body are refused in the query string, where nothing reads them."""

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
async def test_what_is_no_member_may_stand_there(path: str, client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{path}?trace=%6dodel&%ff", json=BODIES[path])

    assert 200 == answer.status_code, answer.text


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
