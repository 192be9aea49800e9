"""``/docs``: Swagger UI over ``/openapi.json``, from files that come with a dependency, so it needs no internet; and ``/``: a page
to try a ranking and to watch the service, from the files in ``localrank_service/page``.

The page knows nothing that the public routes do not answer, so it needs no key to be read; what it asks may need one.
A page may run its own scripts and send requests to this service, nothing else. So texts in descriptions or answers
cannot run anything and cannot send anything elsewhere.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html

import localrank_service
from localrank_service.http.problems import Problem

router = APIRouter(include_in_schema=False)

#: What every page of this service tells the browser: nobody may frame it.
_EVERY_PAGE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}

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
    response.headers.update(_EVERY_PAGE | {"content-security-policy": _policy(bytes(response.body))})
    return response


def _content_policy(**directives: str) -> str:
    """Return the content security policy of a page; directives such as ``script_src`` replace the usual ones."""
    policy = _POLICY | {name.replace("_", "-"): value for name, value in directives.items()}
    return "; ".join(f"{name} {value}" for name, value in policy.items())


@cache
def _policy(page: bytes) -> str:
    """Return the content security policy of the page."""
    scripts = [part.partition(b"</script>")[0] for part in page.split(b"<script>")[1:]]
    hashes = [f"'sha256-{b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts]
    return _content_policy(
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
        headers=_EVERY_PAGE | {"cache-control": "public, max-age=86400"},
    )


@cache
def _read(name: str) -> bytes:
    # Found, not imported: the package would only add to the application what stands above.
    spec = find_spec("fastapi_swagger")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise Problem(
            503, "fastapi-swagger, which holds the files of this page, is not installed", reason="package"
        )
    return (Path(folders[0]) / "resources" / name).read_bytes()


_FOLDER = Path(localrank_service.__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX = "index.html"
_HEADERS = _EVERY_PAGE | {
    # Elements are made one by one: a text never becomes markup, which the browser checks.
    "content-security-policy": _content_policy()
    + "; require-trusted-types-for 'script'; trusted-types 'none'",
    # Asked for again each time, so that a new version of the service has a new page at once.
    "cache-control": "no-cache",
}


@router.get("/")
async def page(request: Request) -> Response:
    """The page."""
    return _answer(request, _INDEX)


@router.get("/page/{name}")
async def page_file(request: Request, name: str) -> Response:
    """A file of the page."""
    if name not in _files() or name == _INDEX:
        raise Problem(404, f"no file {name!r} in /page")
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    content, tag = _files()[name]
    headers = _HEADERS | {"etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[Path(name).suffix], headers=headers)


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """Return every file of the page with its tag, by name."""
    return {
        path.name: (content := path.read_bytes(), f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        for path in sorted(_FOLDER.iterdir())
        if path.suffix in _TYPES
    }
