"""What a page in somebody's browser, or a caller with a clever path, tries with a real server."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localrank import artifact
from localrank.artifact import Provenance
from localrank.registry.versions import Registry
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

ROOT = Path(__file__).parents[2]
ADMIN = "the-admin-key"
BODY = {"features": [[0.5] * 10]}
#: Every route that changes something, with a body that would.
CHANGES: dict[str, dict[str, Any]] = {
    "/v1/models/demo/promote": {"version": 2},
    "/v1/models/demo/rollback": {},
    "/v2/repository/models/demo/load": {},
    "/v2/repository/models/demo/unload": {},
}
#: Those that are no POST.
UNUSUAL = [("put", "/v1/experiments/demo"), ("delete", "/v1/experiments/demo")]
#: What a page may send to any server without asking it first, and what an odd client sends.
SIMPLE = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", None)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo model in two versions; both were champion, and the first is."""
    models = tmp_path_factory.mktemp("attacks") / "models"
    shutil.copytree(ROOT / "models", models)
    first = artifact.load(models / "demo" / "1")
    registry = Registry(models)
    registry.publish(
        "demo", first.ranker, Provenance("2026-01-02T00:00:00Z", source={}, probe=first.probe.documents)
    )
    registry.promote("demo", 2)
    registry.promote("demo", 1)
    return models


@pytest.fixture(scope="module")
def client(models: Path) -> Iterator[httpx.Client]:
    """A service that needs no key to rank."""
    log = models.parent / "server.log"
    with serving(models, "--admin-key", ADMIN, "--workers", "1", log=log) as running:
        yield running
    said = log.read_text()
    assert "Traceback" not in said
    assert ADMIN not in said


def state(client: httpx.Client, models: Path) -> tuple[Any, ...]:
    """What an attack would change."""
    served = client.get("/v1/models").json()["models"]
    return served, (models / "demo" / "aliases.json").read_bytes(), sorted(models.parent.rglob("*"))


def test_the_changes_are_all_there_are() -> None:
    """A new route that changes something belongs in the list above."""
    paths = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    needing = {
        (method, path.replace("{name}", "demo"))
        for path, operations in paths.items()
        for method, operation in operations.items()
        # The others may be asked without a key if none is configured.
        if {} not in operation.get("security", [{}])
    }

    assert needing == {("post", path) for path in CHANGES} | set(UNUSUAL)


@pytest.mark.parametrize(("method", "path"), UNUSUAL)
def test_no_page_can_change_anything_by_an_unusual_method(
    method: str, path: str, client: httpx.Client, models: Path
) -> None:
    """A browser asks before it sends these; a page is refused even if it did not."""
    before = state(client, models)
    page = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}

    for key in ({}, {"x-api-key": ADMIN}):
        answer = client.request(method, path, json={"kind": "split"}, headers=page | key)
        assert answer.status_code in {401, 403}, (key, answer.text)

    assert before == state(client, models)


@pytest.mark.parametrize("path", CHANGES)
def test_no_page_can_change_anything(path: str, client: httpx.Client, models: Path) -> None:
    """Cross-site request forgery; the key stands for whatever a browser might be made to send."""
    before = state(client, models)
    page = {"origin": "https://evil.example", "sec-fetch-site": "cross-site", "cookie": "session=1"}

    for kind in SIMPLE:
        for key in ({}, {"x-api-key": ADMIN}):
            headers = page | key | ({} if kind is None else {"content-type": kind})
            answer = client.post(path, content=json.dumps(CHANGES[path]), headers=headers)
            assert answer.status_code in {401, 403}, (kind, key, answer.text)
    # Without an origin, as old browsers send forms, the content type gives the page away.
    for kind in SIMPLE:
        headers = {"x-api-key": ADMIN} | ({} if kind is None else {"content-type": kind})
        answer = client.post(path, content=json.dumps(CHANGES[path]), headers=headers)
        assert answer.status_code == 415, (kind, answer.text)
    preflight = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    refused = client.options(path, headers=preflight)
    assert 405 == refused.status_code
    assert "access-control-allow-origin" not in refused.headers

    assert before == state(client, models)


@pytest.mark.parametrize(
    "path", ["/v1/rerank", "/v2/rerank", "/v2/models/demo/infer", "/v1/models", *CHANGES]
)
def test_no_page_can_ask_under_a_name_of_its_own(path: str, client: httpx.Client, models: Path) -> None:
    """DNS rebinding: the page's own host name leads to this service, so the page may read every answer."""
    before = state(client, models)
    for host in ("evil.example", f"evil.example:{client.base_url.port}", "127.0.0.1.evil.example"):
        headers = {"host": host, "origin": f"http://{host}", "x-api-key": ADMIN}
        method = "GET" if path == "/v1/models" else "POST"

        answer = client.request(method, path, json=CHANGES.get(path, BODY), headers=headers)

        assert 403 == answer.status_code
        assert "expected localhost, an IP address" in answer.json()["detail"]
    assert before == state(client, models)


UP = (
    "..",
    "%2e%2e",
    "..%2f..",
    "%2e%2e%2f%2e%2e",
    "..%5c..",
    "%252e%252e",
    "%c0%ae%c0%ae",
    "....",
    ".",
    "%00",
    "demo%00",
)
FILES = ("etc/passwd", "aliases.json", "1/manifest.json")


def raw(client: httpx.Client, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
    """Send a path as it is, as no client library would."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {ADMIN}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as wire:
        wire.sendall(head.encode("latin-1") + body)
        answer = b"".join(iter(lambda: wire.recv(1 << 16), b"")).decode()
    return int(answer.split()[1]), answer


@pytest.mark.parametrize("up", UP)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/{up}/{file}"),
        ("GET", "/docs/{up}/{file}"),
        ("GET", "/docs/{up}{file}"),
        ("GET", "/v1/models/{up}%2f{file}"),
        ("GET", "/v1/models/{up}/schema"),
        ("GET", "/v1/models/demo@{up}/clusters"),
        ("GET", "/v2/models/{up}/versions/{up}"),
        ("POST", "/v2/models/{up}/infer"),
        ("POST", "/v1/models/{up}/promote"),
        ("POST", "/v2/repository/models/{up}/load"),
        ("POST", "/v2/repository/models/{up}/unload"),
    ],
)
def test_no_path_leads_out_of_its_folder(
    up: str, method: str, path: str, client: httpx.Client, models: Path
) -> None:
    before = state(client, models)

    for file in FILES:
        status, answer = raw(client, method, path.format(up=up, file=file), b'{"version": 1}')
        assert 400 <= status < 500, answer
        assert "root:" not in answer
        assert "format_version" not in answer
        assert str(models.parent) not in answer

    assert before == state(client, models)


@pytest.mark.parametrize(
    "name", ["../demo", "/etc/passwd", "demo/1", "demo@../1", "..", ".", "demo\0", "\\\\host\\x", "demo@1/.."]
)
def test_no_name_in_a_body_leads_out_of_its_folder(name: str, client: httpx.Client, models: Path) -> None:
    before = state(client, models)

    asked = client.post("/v1/rerank", json=BODY | {"model": name})
    alias = client.post(
        "/v1/models/demo/promote", json={"version": 1, "alias": name}, headers={"x-api-key": ADMIN}
    )

    assert 404 == asked.status_code
    assert 422 == alias.status_code
    assert str(models.parent) not in asked.text + alias.text
    assert before == state(client, models)
