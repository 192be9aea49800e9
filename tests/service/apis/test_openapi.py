"""What the service says of itself is what it does.

Every answer of these tests, and of the golden scenes, is compared with its description (`tests.described`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from localrank_service.apis.rerank import npy
from localrank_service.app import create_app
from localrank_service.process.settings import Settings
from tests.described import DOCUMENT, validator

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = pytest.mark.anyio

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    (method, path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


async def test_the_committed_document_is_what_is_served(client: httpx.AsyncClient) -> None:
    served = create_app(Settings()).openapi()

    assert FILE.read_text() == json.dumps(served, indent=1) + "\n", "run: make openapi"
    assert served == (await client.get("/openapi.json")).json()


async def test_every_schema_is_one_and_is_used() -> None:
    text = FILE.read_text()

    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert f'"#/components/schemas/{name}"' in text


async def test_the_options_of_arrays_are_described() -> None:
    operation = OPERATIONS["post", "/v1/rerank"]

    assert set(npy.OPTIONS) == {parameter["name"] for parameter in operation["parameters"]}
    assert {"application/json", npy.MEDIA_TYPE} == set(operation["requestBody"]["content"])


async def test_answers_have_exactly_the_described_members() -> None:
    """Else a member that is missing or misspelt would go unnoticed."""
    answer = {"name": "localrank", "version": "1", "extensions": []}

    assert validator("ServerMetadata").is_valid(answer)
    assert not validator("ServerMetadata").is_valid(answer | {"more": 1})
    assert not validator("ServerMetadata").is_valid({"name": "localrank", "version": "1"})
    assert {"global", "clusters"} < set(SCHEMAS["Clusters"]["properties"])
    assert [] == [
        name for name, schema in SCHEMAS.items() if "description" in schema and not schema["description"]
    ]


#: Of features that are off, as `tests/service/online` has them on; and of versions, which only published ones have:
#: `tests/service/apis/test_versions.py`.
ELSEWHERE = ("/v1/experiments", "/v1/models/{name}/diff")


@pytest.mark.parametrize(
    ("method", "path"), [key for key in OPERATIONS if key[0] == "get" and key[1] not in ELSEWHERE]
)
async def test_every_reading_route_answers(method: str, path: str, client: httpx.AsyncClient) -> None:
    response = await client.request(method, path.replace("{name}", "tiny").replace("{version}", "3"))

    assert 200 == response.status_code


@pytest.mark.parametrize("name", [name for name, schema in SCHEMAS.items() if "examples" in schema])
async def test_examples_are_valid(name: str) -> None:
    for example in SCHEMAS[name]["examples"]:
        validator(name).validate(example)


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
    else:
        assert 200 == response.status_code


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"features": [], "documents": []},
        {"features": [1, 2, 3, 4]},
        {"features": [[1, 2, 3, [4]]]},
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


def arrays(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        kind = value.get("type")
        if kind == "array" or (isinstance(kind, list) and "array" in kind):
            yield value
        for inner in value.values():
            yield from arrays(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from arrays(inner)


async def test_generators_of_clients_find_what_they_need() -> None:
    names = {operation["operationId"]: path for (_, path), operation in OPERATIONS.items()}
    parts = [
        parameter["schema"]
        for operation in OPERATIONS.values()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "path"
    ]

    assert len(names) == len(OPERATIONS)
    assert all(
        name.isidentifier() and "__" not in name and not name.endswith(("_get", "_post")) for name in names
    )
    expected = {
        "rerank": "/v1/rerank",
        "rerank_batch": "/v1/rerank/batch",
        "rerank_as_cohere": "/v2/rerank",
        "rerank_opensearch": "/v1/adapters/opensearch",
        "list_models": "/v1/models",
        "infer_of_version": "/v2/models/{name}/versions/{version}/infer",
        "load_model": "/v2/repository/models/{name}/load",
    }
    assert expected.items() <= names.items()
    assert [{"url": "/", "description": "Where this document comes from"}] == DOCUMENT["servers"]
    assert all(len(operation["tags"]) == 1 for operation in OPERATIONS.values())
    assert len(parts) > 10
    assert all(part == {"type": "string"} for part in parts)
    assert all("items" in array for array in arrays(DOCUMENT))


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
