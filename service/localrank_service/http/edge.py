"""The one layer around every request: its id, its key, its meters, and the last resort when something breaks.

Plain ASGI and the only middleware, because every layer costs each request. No exception passes it: whatever was not
foreseen is logged with the request's id and answered with a 500 that tells nothing else.

A route whose endpoint reads the request itself is a `DirectRoute`: nothing is solved, validated or wrapped between it and
the router. It is described in OpenAPI as any other, and the handlers of the application answer its errors. They surround
all routes, so the additional ones that the framework puts around each route are left out: they take a tenth of the time
of a small request.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from localrank.errors import LocalRankError
from localrank_service.http.admission import ALWAYS, WHY
from localrank_service.http.messages import REQUEST_ID
from localrank_service.http.origin import is_unasked, page_elsewhere
from localrank_service.http.problems import FAILED, LATER, Problem, problem_of, respond

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from localrank_service.http.cors import Cors
    from localrank_service.http.keys import Keys
    from localrank_service.telemetry.meters import Meters
    from localrank_service.telemetry.observing import Observer

_log = logging.getLogger("localrank.service")
#: Callers may send any method names; the number of counters must not grow with them.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Headers that browsers add.
_OF_PAGES = frozenset({b"origin", b"sec-fetch-site"})
#: Methods whose answers a page elsewhere cannot read; they change nothing and have no body.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Edge:
    """Wraps the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Keys,
        meters: Meters,
        observer: Observer,
        cors: Cors | None,
        direct: Mapping[tuple[str, str], DirectRoute],
    ) -> None:
        self._app = app
        self._direct = direct
        self._keys = keys
        self._meters = meters
        self._observer = observer
        self._cors = cors
        self._in_flight = meters.in_flight.of()

    # Complexity 17: one clause for each way in which a request ends; a function for each would cost every request.
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: C901
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        headers = scope["headers"]
        request_id, traced, by_page, trial = _identity(headers)
        scope["request_id"] = request_id.decode()
        if method == "HEAD":
            # Whatever GET answers, without its body.
            scope = {**scope, "method": "GET"}
        status = 0
        counted = method if method in _METHODS else "other"
        observation = self._observer.observe(scope, counted, traced=traced)

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", request_id))
                if observation is not None:
                    message["headers"] += observation.headers()
                if self._cors is not None:
                    message["headers"] += self._cors.headers(headers)
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        self._in_flight[0] += 1.0
        try:
            if self._cors is not None and method == "OPTIONS" and self._cors.is_preflight(headers):
                # Without a key: the browser sends it with the request that may follow.
                await self._cors.answer(headers)(scope, receive, send_on)
                return
            if by_page and method not in _READING:
                self._check_page(headers)
            self._keys.check(scope)
            scope["trial"] = _is_trial(trial)
            # A route that is known by its whole path needs neither the router nor the framework's layers before it.
            if route := None if scope.get("root_path") else self._direct.get((method, scope["path"])):
                scope["route"] = route
            await (route.app if route else self._app)(scope, receive, send_on)
        except Problem as problem:
            await respond(scope, problem)(scope, receive, send_on)
        except LocalRankError as error:
            await respond(scope, problem_of(error))(scope, receive, send_on)
        except ClientDisconnect:
            status = 499
        except Exception:
            extra = {"request_id": scope["request_id"]}
            if observation is not None and observation.trace is not None:
                extra["trace_id"] = observation.trace.trace_id
            _log.exception("%s %s failed", method, scope["path"], extra=extra)
            if status:
                raise
            failure = Problem(500, FAILED)
            await respond(scope, failure)(scope, receive, send_on)
        finally:
            self._in_flight[0] -= 1.0
            path = getattr(scope.get("route"), "path", "other")
            self._meters.answered(path, counted, status)
            if status in LATER:
                self._count_refusal(scope)
            if observation is not None:
                observation.finish(status, path)

    def _count_refusal(self, scope: Scope) -> None:
        """Count why a request is to be sent again later; what the load causes was counted where it was refused."""
        reason = scope.get("reason")
        if reason is not None and reason not in WHY and scope["path"].encode() not in ALWAYS:
            self._meters.refused_requests.of(reason)[0] += 1.0

    def _check_page(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Refuse a body that a page elsewhere sends without having asked, unless such pages may ask."""
        page = page_elsewhere(headers)
        if page is None or not is_unasked(headers) or (self._cors is not None and self._cors.allows(headers)):
            return
        raise Problem(
            403,
            f"{page}; pages of other origins may send this only if LOCALRANK_CORS_ORIGINS lists their origin",
        )


def _is_trial(sent: bytes | None) -> bool:
    """Tell whether the request is a trial, by its header."""
    if sent not in {None, b"true", b"false"}:
        raise Problem(400, "header LocalRank-Trial: expected true or false, found another value")
    return sent == b"true"


def _identity(headers: Sequence[tuple[bytes, bytes]]) -> tuple[bytes, bool, bool, bytes | None]:
    """Return the request's id, a new one if the caller sent none that is well formed; whether it is traced; whether a
    browser sends it for a page; and whether the caller calls it a trial.
    """
    request_id, traced, by_page, trial = b"", False, False, None
    for name, sent in headers:
        if name == b"x-request-id":
            request_id = request_id or sent
        elif name == b"traceparent":
            traced = True
        elif name in _OF_PAGES:
            by_page = True
        elif name == b"localrank-trial":
            trial = sent
    if not request_id or not REQUEST_ID.fullmatch(request_id):
        request_id = secrets.token_hex(16).encode()
    return request_id, traced, by_page, trial


class DirectRoute(APIRoute):
    """Calls ``endpoint(request)`` and sends the response that it returns."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        endpoint = self.endpoint

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = answer


class Answer(Response):
    """JSON, and how long each stage took to make it."""

    def __init__(self, content: bytes, server_timing: str) -> None:
        # Faster than the framework's way, because status, content type and headers are known.
        self.status_code = 200
        self.background = None
        self.body = content
        self.raw_headers = [
            (b"server-timing", server_timing.encode()),
            (b"content-length", b"%d" % len(content)),
            (b"content-type", b"application/json"),
        ]
