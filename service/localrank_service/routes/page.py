"""``/``: a page to try a ranking and to watch the service, from the files in ``localrank_service/page``.

The page knows nothing that the public routes do not answer, so it needs no key to be read; what it asks may need one.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

import localrank_service
from localrank_service.http.page_headers import PAGE_HEADERS, content_policy
from localrank_service.http.problems import Problem

router = APIRouter(include_in_schema=False)

_FOLDER = Path(localrank_service.__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX = "index.html"
_HEADERS = PAGE_HEADERS | {
    # Elements are made one by one: a text never becomes markup, which the browser checks.
    "content-security-policy": content_policy()
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
