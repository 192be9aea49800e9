"""Real answers are as ``docs/openapi.json`` describes them: the golden scenes and the service's own tests ask here."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema

if TYPE_CHECKING:
    import httpx

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "docs" / "openapi.json").read_text("utf-8")
)
#: Larger answers are more of the same, and the validator is slow.
_LARGEST = 50_000
_PATHS = sorted(
    ((re.compile(re.sub(r"{\w+}", "[^/]+", path)), path) for path in DOCUMENT["paths"]),
    key=lambda one: one[1].count("{"),
)


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return what validates by one of the document's schemas."""
    return _validator(json.dumps({"$ref": f"#/components/schemas/{name}"}))


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**json.loads(schema), "components": DOCUMENT["components"]})


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """Return what the document says of the route that answers this path."""
    for pattern, template in _PATHS:
        if pattern.fullmatch(path):
            found: dict[str, Any] | None = DOCUMENT["paths"][template].get(method.lower())
            return found
    return None


def check(answer: httpx.Response) -> None:
    """Compare an answer with its description."""
    head = answer.headers.get("inference-header-content-length")
    body = answer.content[: int(head)] if head and not answer.is_error else answer.content
    media = "application/json" if head else answer.headers.get("content-type", "").partition(";")[0]
    if len(body) > _LARGEST or answer.request.method == "HEAD":
        return
    if answer.is_error:
        if media == "application/problem+json":
            validator("Problem").validate(json.loads(body))
        return
    operation = operation_of(answer.request.method, answer.request.url.path)
    if operation is None or answer.status_code != 200:
        return
    content = operation["responses"]["200"]["content"]
    assert media in content, f"{answer.request.url.path} answers {media}; described are {list(content)}"
    if "json" in media:
        _validator(json.dumps(content[media]["schema"])).validate(json.loads(body))


async def check_async(answer: httpx.Response) -> None:
    """Compare an answer with its description."""
    await answer.aread()
    check(answer)
