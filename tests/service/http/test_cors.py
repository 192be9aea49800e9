"""Pages of other origins: what a browser is told, for every kind of request that it makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank_service.http.cors import Cors, parse_origins
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
SHOP, LOCAL, EVIL = "https://shop.example", "http://localhost:3000", "https://evil.example"
BODY = {"features": [[1, 2, 3, 4]]}
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type,x-api-key",
}
ALLOWED = "access-control-allow-origin"


@pytest.fixture
async def shared(connect: Any, tiny_model: LiveModel) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application with a key that pages of two origins may ask."""
    settings = Settings(cors_origins=f"{SHOP}, {LOCAL}", api_key="the-serving-key", admin_key="the-admin-key")
    async with connect(settings, models=[tiny_model]) as client:
        yield client


def words(response: httpx.Response, name: str) -> set[str]:
    return {word.strip().lower() for word in response.headers.get(name, "").split(",") if word.strip()}


@pytest.mark.parametrize("origin", [SHOP, LOCAL])
@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/v2/models/tiny/infer", "/v1/models"])
async def test_a_preflight_says_what_a_page_may_send(
    origin: str, path: str, shared: httpx.AsyncClient
) -> None:
    answer = await shared.options(path, headers={"origin": origin, **PREFLIGHT})

    assert (204, b"") == (answer.status_code, answer.content)
    assert origin == answer.headers[ALLOWED]
    assert {"get", "head", "post"} == words(answer, "access-control-allow-methods")
    assert {
        *("authorization", "x-api-key", "content-type", "content-encoding", "x-request-id"),
        *("localrank-trial", "traceparent", "tracestate", "inference-header-content-length"),
    } == words(answer, "access-control-allow-headers")
    assert 0 < int(answer.headers["access-control-max-age"]) <= 7200
    assert {"origin", "access-control-request-method", "access-control-request-headers"} == words(
        answer, "vary"
    )
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["x-request-id"]


async def test_a_page_may_read_the_answer_and_its_timings(shared: httpx.AsyncClient) -> None:
    headers = {"origin": SHOP, "x-api-key": "the-serving-key"}

    answer = await shared.post("/v1/rerank", json=BODY, headers=headers)

    assert 200 == answer.status_code
    assert SHOP == answer.headers[ALLOWED] == answer.headers["timing-allow-origin"]
    assert {"server-timing", "x-request-id", "retry-after", "traceresponse"} <= words(
        answer, "access-control-expose-headers"
    )
    assert {"origin"} == words(answer, "vary")
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/rerank", {}, 401),
        ("/v1/rerank", {"x-api-key": "a-wrong-key"}, 403),
        ("/v1/nope", {"x-api-key": "the-serving-key"}, 404),
        ("/v1/rerank", {"x-api-key": "the-serving-key", "content-type": "text/plain"}, 415),
    ],
)
async def test_a_page_may_read_why_it_was_refused(
    path: str, headers: dict[str, str], status: int, shared: httpx.AsyncClient
) -> None:
    answer = await shared.post(path, content="{}", headers={"origin": SHOP, **headers})

    assert (status, SHOP) == (answer.status_code, answer.headers[ALLOWED])


@pytest.mark.parametrize(
    "origin",
    [
        EVIL,
        "http://shop.example",
        "https://shop.example:8443",
        "https://shop.example.evil.example",
        "null",
        "",
    ],
)
async def test_other_pages_are_told_nothing(origin: str, shared: httpx.AsyncClient) -> None:
    preflight = await shared.options("/v1/rerank", headers={"origin": origin, **PREFLIGHT})
    key = {"x-api-key": "the-serving-key"}
    simple = await shared.get("/v1/models", headers={"origin": origin, **key})

    assert (403, "application/problem+json") == (preflight.status_code, preflight.headers["content-type"])
    for answer in (preflight, simple):
        assert not {name for name in answer.headers if name.startswith(("access-control-", "timing-allow"))}
        assert "origin" in words(answer, "vary")
    assert 200 == simple.status_code


async def test_a_request_that_is_no_preflight_is_no_preflight(shared: httpx.AsyncClient) -> None:
    key = {"x-api-key": "the-serving-key"}

    assert 405 == (await shared.options("/v1/rerank", headers=key)).status_code
    assert 405 == (await shared.options("/v1/rerank", headers=key | {"origin": SHOP})).status_code
    assert 405 == (await shared.options("/v1/rerank", headers=key | PREFLIGHT)).status_code
    assert {"origin"} == words(await shared.get("/livez"), "vary")


async def test_no_page_of_another_origin_changes_anything(shared: httpx.AsyncClient) -> None:
    headers = {"origin": SHOP, "x-api-key": "the-admin-key"}

    answers = [
        await shared.post("/v1/models/tiny/promote", json={"version": 1}, headers=headers),
        await shared.post("/v2/repository/models/tiny/unload", json={}, headers=headers),
    ]

    assert [403, 403] == [answer.status_code for answer in answers]
    assert all("origin 'https://shop.example'" in answer.json()["detail"] for answer in answers)


async def test_every_page_may_be_allowed_and_still_no_credentials(
    connect: Any, tiny_model: LiveModel
) -> None:
    async with connect(Settings(cors_origins="*"), models=[tiny_model]) as client:
        preflight = await client.options("/v1/rerank", headers={"origin": EVIL, **PREFLIGHT})
        answer = await client.post("/v1/rerank", json=BODY, headers={"origin": EVIL, "cookie": "a=1"})

    assert (204, 200) == (preflight.status_code, answer.status_code)
    for one in (preflight, answer):
        assert "*" == one.headers[ALLOWED]
        assert "access-control-allow-credentials" not in one.headers
    assert "vary" not in answer.headers


async def test_off_by_default(client: httpx.AsyncClient) -> None:
    preflight = await client.options("/v1/rerank", headers={"origin": SHOP, **PREFLIGHT})
    answer = await client.post("/v1/rerank", json=BODY, headers={"origin": SHOP})

    assert (405, 200) == (preflight.status_code, answer.status_code)
    for one in (preflight, answer):
        assert not {
            name for name in one.headers if name.startswith(("access-control-", "timing-allow", "vary"))
        }


#: What a browser sends to any server without asking it first.
UNASKED = (
    "text/plain",
    "TEXT/plain; charset=utf-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    None,
)
ELSEWHERE: list[dict[str, str]] = [
    {"origin": EVIL},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},
    {"sec-fetch-site": "cross-site"},
    {"origin": EVIL, "sec-fetch-site": "same-site"},
    {"origin": "http://localhost", "sec-fetch-site": "cross-site"},
]
TEXT = "1 qid:1 1:1 2:2\n"


def with_type(kind: str | None, headers: dict[str, str]) -> dict[str, str]:
    return headers if kind is None else headers | {"content-type": kind}


def routes_with_a_body() -> list[tuple[str, str]]:
    paths = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    return [
        (method, path.replace("{name}", "tiny").replace("{version}", "3"))
        for path, operations in paths.items()
        for method in operations
        if method != "get"
    ]


@pytest.mark.parametrize("page", ELSEWHERE, ids=str)
async def test_no_page_elsewhere_can_send_what_needs_no_preflight(
    page: dict[str, str], client: httpx.AsyncClient
) -> None:
    routes = routes_with_a_body()
    assert ("post", "/v1/evaluate") in routes
    assert ("post", "/v2/repository/index") in routes

    for method, path in [*routes, ("post", "/v2/models/tiny/infer"), ("post", "/nowhere")]:
        for kind in UNASKED:
            answer = await client.request(method, path, content=TEXT, headers=with_type(kind, page))
            assert 403 == answer.status_code, (path, kind, answer.text)
            assert "LOCALRANK_CORS_ORIGINS" in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost"},
        {"origin": "HTTPS://Localhost", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
    ids=str,
)
async def test_the_page_of_the_service_and_clients_that_are_no_browser_may_send_text(
    headers: dict[str, str], client: httpx.AsyncClient
) -> None:
    answer = await client.post("/v1/evaluate", content=TEXT, headers=with_type("text/plain", headers))
    assert 200 == answer.status_code, answer.text
    assert 200 == (await client.post("/v2/repository/index", headers=headers)).status_code


async def test_pages_that_are_allowed_may_send_text(connect: Any, tiny_model: LiveModel) -> None:
    page = {"origin": SHOP, "sec-fetch-site": "cross-site", "content-type": "text/plain"}
    for origins in (SHOP, "*"):
        async with connect(Settings(cors_origins=origins), models=[tiny_model]) as client:
            answer = await client.post("/v1/evaluate", content=TEXT, headers=page)
            other = await client.post("/v1/evaluate", content=TEXT, headers=page | {"origin": EVIL})

        assert 200 == answer.status_code, answer.text
        assert (200 if origins == "*" else 403) == other.status_code


def test_a_repeated_origin_is_no_origin() -> None:
    twice = [(b"origin", SHOP.encode()), (b"origin", EVIL.encode())]

    assert [(b"vary", b"origin")] == Cors([SHOP]).headers(twice)


@pytest.mark.parametrize(
    "origins",
    [
        "shop.example",
        "https://shop.example/",
        "https://shop.example/path",
        "https://shop.example?x",
        "https://user@shop.example",
        "https://*.shop.example",
        "https://shop.example:443",
        "http://shop.example:80",
        "null",
        "*, https://shop.example",
        "https://a.example https://b.example",
    ],
)
def test_what_no_browser_sends_as_an_origin_is_refused(origins: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"^LOCALRANK_CORS_ORIGINS: expected "):
        Settings.from_environ({"LOCALRANK_CORS_ORIGINS": origins})


def test_origins_are_separated_by_commas() -> None:
    assert (SHOP, "http://[::1]:3000", "chrome-extension://abc") == parse_origins(
        "HTTPS://Shop.example , http://[::1]:3000,chrome-extension://abc,"
    )
    assert () == parse_origins(" ")
