"""What the files of the page are, without a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import localrank_service

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.anyio

FOLDER = Path(localrank_service.__file__).parent / "page"
FILES = sorted(path.name for path in FOLDER.iterdir())


async def test_the_page_is_small() -> None:
    assert sum((FOLDER / name).stat().st_size for name in FILES) < 150_000


@pytest.mark.parametrize("name", FILES)
async def test_every_file_is_served_under_a_strict_policy(name: str, client: httpx.AsyncClient) -> None:
    path = "/" if name == "index.html" else f"/page/{name}"

    response = await client.get(path)
    again = await client.get(path, headers={"if-none-match": response.headers["etag"]})

    assert (200, (FOLDER / name).read_bytes()) == (response.status_code, response.content)
    assert (304, b"") == (again.status_code, again.content)
    policy = dict(one.split(" ", 1) for one in response.headers["content-security-policy"].split("; "))
    assert "'none'" == policy["default-src"]
    assert {"'self'"} == {policy[name] for name in ("script-src", "style-src", "connect-src")}
    assert "'none'" == policy["frame-ancestors"]
    assert "'script'" == policy["require-trusted-types-for"]
    assert "nosniff" == response.headers["x-content-type-options"]


@pytest.mark.parametrize("name", FILES)
async def test_no_file_names_another_host_or_writes_markup(name: str) -> None:
    text = (FOLDER / name).read_text().replace("http://www.w3.org/2000/svg", "")

    assert [] == re.findall(r"https?://\S+", text)
    assert [] == re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|localStorage", text
    )
    assert "<script>" not in text
    assert " style=" not in text


async def test_the_page_is_not_under_its_files_twice(client: httpx.AsyncClient) -> None:
    assert 404 == (await client.get("/page/index.html")).status_code
    assert 404 == (await client.get("/page/")).status_code


async def test_without_a_probe_the_sample_is_of_usual_values(client: httpx.AsyncClient) -> None:
    query = (await client.get("/v1/models/tiny/sample")).json()

    assert 1 == (await client.get("/v1/models/tiny")).json()["samples"]
    assert 200 == (await client.post("/v1/rerank", json=query)).status_code


@pytest.mark.parametrize("asked", ["1", "-1", "x", "", "٣", "9999999999"])
async def test_a_sample_that_is_not_there_is_refused(asked: str, client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/models/tiny/sample", params={"query": asked})

    assert 422 == response.status_code
    assert "query: expected a number below 1" in response.json()["detail"]
