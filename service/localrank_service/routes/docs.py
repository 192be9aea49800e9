"""``/docs``: Swagger UI over ``/openapi.json``, from files that come with a dependency, so it needs no internet."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html

from localrank_service.http.page_headers import PAGE_HEADERS, content_policy
from localrank_service.http.problems import Problem

router = APIRouter(include_in_schema=False)

_FILES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
_NO_ICON = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>"


@router.get("/docs")
async def docs() -> Response:
    """The page."""
    response = get_swagger_ui_html(
        openapi_url="openapi.json",
        title="LocalRank",
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url=_NO_ICON,
    )
    response.headers.update(PAGE_HEADERS | {"content-security-policy": _policy(bytes(response.body))})
    return response


@cache
def _policy(page: bytes) -> str:
    """Return the content security policy of the page."""
    scripts = [part.partition(b"</script>")[0] for part in page.split(b"<script>")[1:]]
    hashes = [f"'sha256-{b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts]
    return content_policy(
        script_src=" ".join(["'self'", *hashes]),  # the page's own, by its hash
        style_src="'self' 'unsafe-inline'",  # Swagger UI sets styles of elements
    )


@router.get("/docs/{name}")
async def docs_file(name: str) -> Response:
    """A file of the page."""
    if name not in _FILES:
        raise Problem(404, f"no file {name!r} in /docs")
    return Response(
        _read(name),
        media_type=_FILES[name],
        headers=PAGE_HEADERS | {"cache-control": "public, max-age=86400"},
    )


@cache
def _read(name: str) -> bytes:
    # Found, not imported: the package would only add to the application what stands above.
    spec = find_spec("fastapi_swagger")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise Problem(503, "fastapi-swagger, which holds the files of this page, is not installed")
    return (Path(folders[0]) / "resources" / name).read_bytes()
