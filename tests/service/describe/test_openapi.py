"""What the service says of itself is what it does."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from localrank_service.app import create_app
from localrank_service.describe import openapi
from localrank_service.describe.openapi import GROUPS, OPERATIONS, SCHEMAS, problems
from localrank_service.process.settings import Settings
from localrank_service.wire import npy

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.anyio

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
    )


async def test_the_committed_document_is_what_is_served(client: httpx.AsyncClient) -> None:
    served = (await client.get("/openapi.json")).json()

    assert json.loads(DOCUMENT.read_text()) == served, "run: make openapi"
    assert served == create_app(Settings()).openapi()


async def test_the_committed_document_has_the_same_order() -> None:
    served = create_app(Settings()).openapi()

    assert DOCUMENT.read_text() == json.dumps(served, indent=1) + "\n", "run: make openapi"


async def test_the_table_says_which_module_describes_a_route() -> None:
    table = re.findall(r"^``(\w+) (/\S*)`` +(\w+)$", openapi.__doc__ or "", re.MULTILINE)

    described = [
        (method.upper(), path, group.__name__.rpartition(".")[2])
        for group in GROUPS
        for method, path in group.OPERATIONS
    ]

    assert table == described


async def test_no_operation_and_no_schema_is_described_twice() -> None:
    groups = [*GROUPS, problems]

    assert len(SCHEMAS) == sum(len(group.SCHEMAS) for group in groups)
    assert len(OPERATIONS) == sum(len(group.OPERATIONS) for group in GROUPS)


async def test_every_schema_is_used() -> None:
    text = DOCUMENT.read_text()

    assert [] == [name for name in SCHEMAS if f'"#/components/schemas/{name}"' not in text]


async def test_the_options_of_arrays_are_described() -> None:
    operation = create_app(Settings()).openapi()["paths"]["/v1/rerank"]["post"]

    assert set(npy.OPTIONS) == {parameter["name"] for parameter in operation["parameters"]}
    assert {"application/json", npy.MEDIA_TYPE} == set(operation["requestBody"]["content"])


async def test_every_operation_is_described_and_no_other() -> None:
    document = create_app(Settings()).openapi()

    described = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert described == set(OPERATIONS)


@pytest.mark.parametrize("name", SCHEMAS)
async def test_every_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


#: Of features that are off, as `tests/service/experiments` has them on; and of versions, which only published ones have:
#: `tests/service/models/test_versions.py`.
ELSEWHERE = ("/v1/experiments", "/v1/models/{name}/diff")


@pytest.mark.parametrize(
    ("method", "path"), [key for key in OPERATIONS if key[0] == "get" and key[1] not in ELSEWHERE]
)
async def test_answers_are_as_described(method: str, path: str, client: httpx.AsyncClient) -> None:
    operation = OPERATIONS[method, path]

    response = await client.request(method, path.replace("{name}", "tiny").replace("{version}", "3"))

    assert 200 == response.status_code
    assert operation.media == response.headers["content-type"].partition(";")[0]
    if operation.answers:
        validator(operation.answers).validate(response.json())


@pytest.mark.parametrize(
    "members",
    [
        {"features": [[1, 2, 3, 4]]},
        {"features": [[1, None, 3, 4]], "ids": [1], "explain": "route"},
        {"documents": [{"id": "a", "features": {"bm25": 1, "new": 2}}, {"features": [1, 2, 3, 4]}]},
        *SCHEMAS["RerankRequest"]["examples"],
    ],
)
async def test_rerank_reads_and_answers_as_described(
    members: dict[str, Any], client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/rerank", json=members)

    validator("RerankRequest").validate(members)
    if "demo" == members.get("model"):
        assert 404 == response.status_code
        validator("Problem").validate(response.json())
    else:
        assert 200 == response.status_code
        validator("RerankAnswer").validate(response.json())


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"features": [], "documents": []},
        {"features": [1, 2, 3, 4]},
        {"features": [[1, 2, 3, "4"]]},
        {"documents": [{"id": 1}]},
        {"documents": [], "ids": []},
        {"features": [], "topn": 1},
    ],
)
async def test_what_is_refused_is_described_as_such(
    members: dict[str, Any], client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/rerank", json=members)

    assert 422 == response.status_code
    assert not validator("RerankRequest").is_valid(members)


async def test_the_documentation_needs_no_internet(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    sources = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)

    assert 200 == page.status_code
    assert "://" not in page.text.replace("http://www.w3.org/2000/svg", "")
    assert "url: 'openapi.json'" in page.text
    fetched = [source for source in sources if not source.startswith("data:")]
    assert {"docs/swagger-ui-bundle.js", "docs/swagger-ui.css"} == set(fetched)
    for source in fetched:
        file = await client.get(f"/{source}")
        assert (200, True) == (file.status_code, len(file.content) > 10_000)
        assert file.headers["content-type"].startswith(("text/javascript", "text/css"))


async def test_the_documentation_runs_its_own_scripts_only(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    [inline] = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()

    assert f"'self' 'sha256-{digest}'" == policy["script-src"]
    assert "'none'" == policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"]
    assert "'self'" == policy["connect-src"]
    assert "DENY" == page.headers["x-frame-options"]
    for path in ("/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css"):
        headers = (await client.get(path)).headers
        assert ("nosniff", "no-referrer") == (headers["x-content-type-options"], headers["referrer-policy"])
