"""One body for every error on every route."""

from __future__ import annotations

import ast
import asyncio
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote

import httpx
import orjson
import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

from localrank.errors import InvalidDocuments, LocalRankError
from localrank_service.app import create_app
from localrank_service.http.problems import LATER, STATUSES, Problem, Reason, pointer, problem_of
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Message, Receive, Scope, Send

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
MEMBERS = {"type", "title", "status", "detail", "instance", "error", "pointer"}


def check(response: httpx.Response) -> dict[str, Any]:
    """Assert that the response is a problem in full, and return it."""
    assert "application/problem+json" == response.headers["content-type"], response.text
    problem: dict[str, Any] = response.json()
    assert set(problem) == MEMBERS
    assert problem["status"] == response.status_code
    assert problem["error"] == problem["detail"] != ""
    assert problem["instance"] == f"urn:localrank:request:{response.headers['x-request-id']}"
    return problem


def families(root: type[LocalRankError]) -> Iterator[type[LocalRankError]]:
    yield root
    for child in root.__subclasses__():
        yield from families(child)


async def test_every_error_of_core_has_a_status() -> None:
    ours = {error for error in families(LocalRankError) if error.__module__.startswith("localrank")}

    assert ours == set(STATUSES)
    for error in ours:
        assert 400 <= problem_of(error("why")).status < 600


def raised_later() -> Iterator[tuple[str, bool]]:
    """Yield each place of the service that makes a 429 or 503, and whether it gives a reason."""
    for path in (ROOT / "service").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Problem"
                and any(
                    isinstance(one, ast.Constant) and one.value in LATER for one in ast.walk(node.args[0])
                )
            ):
                yield f"{path.name}:{node.lineno}", "reason" in [word.arg for word in node.keywords]


async def test_every_429_and_503_has_a_reason() -> None:
    found = dict(raised_later())

    assert len(found) > 10
    assert [] == [place for place, reasoned in found.items() if not reasoned]


async def test_an_answer_is_counted_by_its_reason_unless_it_is_a_health_check_s(
    tiny_model: LiveModel,
) -> None:
    key = {"X-API-Key": "the-admin-key"}
    app = create_app(Settings(admin_key=key["X-API-Key"]), models=[tiny_model])
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        promoted = await client.post(
            f"/v1/models/{tiny_model.name}/promote", json={"version": 1}, headers=key
        )
        app.state.service.drain()
        ready = await client.get("/readyz")
        counted = (await client.get("/metrics")).text

    assert [(503, "fixed"), (503, "stopping")] == [
        (one.status_code, one.json()["reason"]) for one in (promoted, ready)
    ]
    assert 'localrank_refused_total{reason="fixed"} 1.0' in counted
    assert "stopping" not in counted


async def test_the_page_says_of_every_reason_what_to_do() -> None:
    page = (ROOT / "docs" / "operate" / "operations.md").read_text()
    table = page.partition("| reason | status | what | what to do |\n")[2].partition("\n\n")[0]
    rows = [line.split(" | ") for line in table.splitlines()[1:]]
    described = {reason: advice for names, *_, advice in rows for reason in re.findall(r"`(\w+)`", names)}

    ended = {"head_timeout", "body_timeout", "slow_reader", "malformed"}
    assert {*get_args(Reason), *ended} == set(described)
    assert all(len(advice) > 10 for advice in described.values())


@pytest.mark.parametrize("status", [429, 503, 409])
async def test_a_reason_is_in_the_body_of_what_may_succeed_later(status: int) -> None:
    body = orjson.loads(Problem(status, "x", reason="storage").body(""))

    assert ("storage" if status in LATER else None) == body.get("reason")


async def test_pointers_escape_what_separates_them() -> None:
    assert "/a~1b/~0/3" == pointer("a/b", "~", 3)


def routes() -> list[tuple[str, str]]:
    return sorted(
        (method, route.path)
        for route in create_app(Settings()).routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    )


@pytest.mark.parametrize(("method", "path"), routes())
async def test_every_route_answers_a_wrong_method_with_a_problem(
    method: str, path: str, client: httpx.AsyncClient
) -> None:
    response = await client.request("PATCH", path.replace("{name}", "tiny").replace("{version}", "3"))

    assert 405 == check(response)["status"]
    assert method in response.headers["allow"]


@pytest.mark.parametrize(("method", "path"), routes())
async def test_every_route_answers_its_own_failure_without_telling_why(
    method: str,
    path: str,
    connect: Any,
    tiny_model: LiveModel,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("the secret reason")

    app_settings = Settings(admin_key="admin-key")
    async with connect(app_settings, models=[tiny_model]) as client:
        app = client._transport.app
        stateless = {"/", "/livez", "/v2", "/openapi.json", "/docs"}
        if path in stateless or path.startswith(("/docs/", "/page/")):
            return
        app.state.service = Broken()
        with caplog.at_level(logging.ERROR):
            response = await client.request(
                method,
                path.replace("{name}", "tiny").replace("{version}", "3"),
                params={"before": "1", "after": "2"} if path.endswith("/diff") else None,
                json={} if method == "POST" else None,
                headers={"x-request-id": "the-id", "x-api-key": "admin-key"},
            )

    problem = check(response)
    assert 500 == problem["status"]
    assert "secret" not in response.text
    assert any("the-id" == getattr(record, "request_id", None) for record in caplog.records)


@pytest.mark.parametrize(
    "path", ["/nope", "/v1/nope", "/v1", "/v1/rerank/", "/%ff", "/docs/nope", "/page/nope"]
)
async def test_an_unknown_path_is_a_problem(path: str, client: httpx.AsyncClient) -> None:
    response = await client.get(path)

    assert 404 == check(response)["status"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        ('{"features": [[1]]}', 422),
        ('{"features": [], "model": "nope"}', 404),
        ('{"features": [], "contract": "nope"}', 409),
    ],
)
async def test_refused_rankings_are_problems(body: str, status: int, client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/rerank", content=body, headers={"content-type": "application/json"})

    assert status == check(response)["status"]


async def test_a_score_that_is_not_finite_is_our_fault_and_named(connect: Any, make_ranker: Any) -> None:
    ranker = make_ranker()
    for scorer in (*ranker.scorers, ranker.global_scorer):
        scorer.weights[:] = 1e308

    async with connect(models=[LiveModel("tiny", 1, ranker)]) as client:
        response = await client.post("/v1/rerank", json={"features": [[1e38, 2, 3, 4]]})

    assert 500 == check(response)["status"]
    assert "document 0 scored" in response.json()["detail"]


async def test_an_overlong_path_or_query_is_no_failure(client: httpx.AsyncClient) -> None:
    response = await client.get("/" + "x" * 10_000, params={"q": "y" * 10_000})

    assert 404 == check(response)["status"]


async def test_a_caller_that_hangs_up_is_no_failure(
    tiny_model: LiveModel, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(Settings(), models=[tiny_model])
    messages: list[Any] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/rerank", "headers": headers, "query_string": b""}
    await app(scope, receive, send)

    assert [] == sent
    assert [] == caplog.records
    exposed = app.state.service.meters.expose().decode()
    assert 'localrank_http_requests_total{method="POST",route="/v1/rerank",status="499"} 1.0' in exposed
    assert "localrank_inflight_requests 0.0" in exposed


async def test_a_failure_after_the_answer_has_begun_ends_the_connection(
    connect: Any, tiny_model: LiveModel, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can be said any more: a second answer would be read as a part of the first."""

    class Half:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half of", "more_body": True})
            raise RuntimeError("the secret reason")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async with connect(models=[tiny_model]) as client:
        app = client._transport.app
        app.router.routes.insert(0, Route("/half", Half()))
        scope = client.build_request("GET", "/half")
        with pytest.raises(RuntimeError, match="the secret reason"), caplog.at_level(logging.ERROR):
            await app(asgi(scope), lambda: asyncio.sleep(60), send)
        counted = (await client.get("/metrics")).text

    assert ["http.response.start", "http.response.body"] == [message["type"] for message in sent]
    assert any("/half failed" in record.getMessage() for record in caplog.records)
    assert re.search(r'localrank_http_requests_total{[^}]*status="200"} 1', counted)


def asgi(request: httpx.Request) -> Scope:
    """The request as a server hands it to the application."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.url.path,
        "raw_path": request.url.raw_path,
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


async def test_every_error_of_core_has_the_status_on_the_page() -> None:
    page = (ROOT / "docs" / "use" / "http.md").read_text()
    rows = re.findall(r"^\| (`(?:urn:localrank:problem:|…:).*`) \| (\d{3}) \|", page, re.MULTILINE)
    described = {kind: int(status) for kinds, status in rows for kind in re.findall(r":([a-z-]+)`", kinds)}

    statuses = {str(problem_of(error("")).kind): status for error, status in STATUSES.items()}

    assert statuses == {kind: described[kind] for kind in statuses}


@pytest.mark.parametrize(
    ("problem", "kind", "title", "instance"),
    [
        (Problem(413, "x"), "about:blank", "Content Too Large", "abc"),
        (Problem(422, "x"), "about:blank", "Unprocessable Content", "a/b%20"),
        (Problem(404, "x"), "about:blank", "Not Found", "a-b.c_d~e"),
        (Problem(409, "x", kind="contract-mismatch"), "urn:localrank:problem:contract-mismatch", "Contract mismatch", ""),
    ],
)  # fmt: skip
async def test_a_body_says_it_all(problem: Problem, kind: str, title: str, instance: str) -> None:
    members = orjson.loads(problem.body(instance))

    assert {
        "type": kind,
        "title": title,
        "status": problem.status,
        "detail": "x",
        "instance": f"urn:localrank:request:{quote(instance, safe='')}",
        "error": "x",
        "pointer": None,
    } == members
    assert ({}, {}) == (problem.headers, problem.members)


async def test_an_error_of_core_keeps_its_sentence_and_its_place() -> None:
    problem = problem_of(InvalidDocuments("what is wrong"), "/features/3")

    assert (422, "what is wrong", "/features/3", "invalid-documents") == (
        problem.status,
        problem.detail,
        problem.pointer,
        problem.kind,
    )


def test_every_type_of_problem_is_on_the_page() -> None:
    given = (ROOT / "service").rglob("*.py")
    named = {
        kind
        for path in given
        for kind in re.findall(r"^ +kind=\"([a-z-]+)\",$", path.read_text(), re.MULTILINE)
    }
    kinds = named | {problem_of(error("")).kind for error in STATUSES}
    page = (ROOT / "docs" / "use" / "http.md").read_text()

    described = set(re.findall(r"(?:urn:localrank:problem|…):([a-z-]+)`", page))

    assert {"deadline", "feature-off"} <= named
    assert kinds == described
