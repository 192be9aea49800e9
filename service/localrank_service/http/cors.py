"""Pages of other origins that may ask this service from a browser (CORS, as the Fetch standard has it).

Without origins in the settings nothing here runs, and browsers keep the answers from such pages. A page is never
allowed to send cookies or other credentials that the browser holds: a key is sent in a header of its own. Routes that
change something refuse foreign origins all the same (`localrank_service.http.origin`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.responses import Response

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s,*]+")
_METHODS = "GET, HEAD, POST"
#: What a page may send beside what every page may send.
_REQUEST_HEADERS = ", ".join(
    (
        *(
            "Authorization",
            "X-API-Key",
            "Content-Type",
            "Content-Encoding",
            "Inference-Header-Content-Length",
        ),
        *("X-Request-Id", "LocalRank-Trial", "traceparent", "tracestate"),
    )
)
#: What a page may read beside what every page may read.
_ANSWER_HEADERS = ", ".join(
    (
        *(
            "Inference-Header-Content-Length",
            "Retry-After",
            "Server-Timing",
            "WWW-Authenticate",
            "X-Request-Id",
        ),
        "traceresponse",
    )
)
#: Seconds for which a browser may remember the answer to a preflight.
_REMEMBERED = "600"


def parse_origins(text: str) -> tuple[str, ...]:
    """Read origins that are separated by commas, or ``*`` alone.

    Raises:
        ValueError: one of them is no origin as browsers send it.
    """
    origins = tuple(one.strip().lower() for one in text.split(",") if one.strip())
    for origin in origins:
        if origin == "*" and len(origins) > 1:
            raise ValueError("expected origins, or * alone")
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ValueError("expected origins such as https://shop.example or http://localhost:3000")
        if re.fullmatch(r"http://.*:80|https://.*:443", origin):
            raise ValueError("expected origins without the default port, as browsers send them")
    return origins


class Cors:
    """The origins whose pages may ask."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)
        self._all = "*" in origins

    def headers(self, sent: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return what the answer to a request says to the browser."""
        # A cache must not show one page's answer to another's.
        vary = [] if self._all else [(b"vary", b"origin")]
        allowed = self._allowed(sent)
        if allowed is None:
            return vary
        return [
            (b"access-control-allow-origin", allowed),
            (b"access-control-expose-headers", _ANSWER_HEADERS.encode()),
            (b"timing-allow-origin", allowed),
            *vary,
        ]

    @staticmethod
    def is_preflight(sent: Iterable[tuple[bytes, bytes]]) -> bool:
        """Tell whether a browser asks with ``OPTIONS`` what a page may send."""
        names = {name for name, _ in sent}
        return b"origin" in names and b"access-control-request-method" in names

    def answer(self, sent: Iterable[tuple[bytes, bytes]]) -> Response:
        """Answer a preflight, or raise a `Problem` with status 403."""
        # Settings need this module before the framework is wanted.
        from starlette.responses import Response

        from localrank_service.http.problems import Problem

        if not self.allows(sent):
            raise Problem(
                403,
                "pages of this origin may not send requests to this service; LOCALRANK_CORS_ORIGINS "
                "lists the allowed origins",
            )
        return Response(
            status_code=204,
            headers={
                "access-control-allow-methods": _METHODS,
                "access-control-allow-headers": _REQUEST_HEADERS,
                "access-control-max-age": _REMEMBERED,
                "vary": "access-control-request-method, access-control-request-headers",
            },
        )

    def allows(self, sent: Iterable[tuple[bytes, bytes]]) -> bool:
        """Tell whether the page that sends this may ask."""
        return self._allowed(sent) is not None

    def _allowed(self, sent: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """Return the origin that is allowed, as the answer names it."""
        origins = [value for name, value in sent if name == b"origin"]
        if len(origins) != 1:
            return None
        if self._all:
            return b"*"
        return origins[0] if origins[0] in self._origins else None
