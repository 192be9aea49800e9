"""Both clients: they run the calls of `localrank.client.flows`, one for code that waits and one for asynchronous code."""

from __future__ import annotations

import time
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

import anyio
import httpx

from localrank.client import flows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from localrank.client.flows import Flow, Outcome

_T = TypeVar("_T")
_P = ParamSpec("_P")

#: Seconds that an idle connection is kept; the service keeps it for 75.
KEPT_IDLE = httpx.Limits(keepalive_expiry=30.0)


def _headers(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"authorization": f"Bearer {api_key}"}


def _waiting(
    flow: Callable[Concatenate[flows.Caller, _P], Flow[_T]],
) -> Callable[Concatenate[Client, _P], _T]:
    """Return the method of `Client` that runs a call."""

    @wraps(flow)
    def call(client: Client, /, *args: _P.args, **options: _P.kwargs) -> _T:
        return client.run(flow(client, *args, **options))

    return call


def _awaited(
    flow: Callable[Concatenate[flows.Caller, _P], Flow[_T]],
) -> Callable[Concatenate[AsyncClient, _P], Awaitable[_T]]:
    """Return the method of `AsyncClient` that runs a call."""

    @wraps(flow)
    async def call(client: AsyncClient, /, *args: _P.args, **options: _P.kwargs) -> _T:
        return await client.run(flow(client, *args, **options))

    return call


class Client(flows.Caller):
    """Asks a service. Close it, or use it in a ``with``. Several threads may share it.

    Args:
        base_url: of the service.
        api_key: if it wants one.
        model: for calls that name none; without it, the service's own.
        timeout: seconds that a call may take with all its retries.
        retries: of one call, at most.
        transport: instead of the network, for tests.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeout: float = 10.0,
        retries: int = 2,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(
            base_url=base_url, headers=_headers(api_key), limits=KEPT_IDLE, transport=transport
        )
        super().__init__(self._http, model, timeout, retries)

    rerank = _waiting(flows.rerank)
    scores = _waiting(flows.scores)
    rerank_batch = _waiting(flows.rerank_batch)
    feedback = _waiting(flows.feedback)
    evaluate = _waiting(flows.evaluate)
    models = _waiting(flows.models)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, flow: Flow[_T]) -> _T:
        """Do what a call asks for, and return what it returns."""
        try:
            step = flow.send(None)
            while True:
                step = flow.send(self._do(step))
        except StopIteration as end:
            found: _T = end.value
            return found

    def _do(self, step: httpx.Request | float) -> Outcome:
        if not isinstance(step, httpx.Request):
            time.sleep(step)
            return None
        try:
            return self._http.send(step)
        except httpx.TransportError as error:
            return error


class AsyncClient(flows.Caller):
    """Asks a service from asynchronous code, as `Client` does; its arguments are the same."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeout: float = 10.0,
        retries: int = 2,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url, headers=_headers(api_key), limits=KEPT_IDLE, transport=transport
        )
        super().__init__(self._http, model, timeout, retries)

    rerank = _awaited(flows.rerank)
    scores = _awaited(flows.scores)
    rerank_batch = _awaited(flows.rerank_batch)
    feedback = _awaited(flows.feedback)
    evaluate = _awaited(flows.evaluate)
    models = _awaited(flows.models)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def run(self, flow: Flow[_T]) -> _T:
        """Do what a call asks for, and return what it returns."""
        try:
            step = flow.send(None)
            while True:
                step = flow.send(await self._do(step))
        except StopIteration as end:
            found: _T = end.value
            return found

    async def _do(self, step: httpx.Request | float) -> Outcome:
        if not isinstance(step, httpx.Request):
            await anyio.sleep(step)
            return None
        try:
            # The limits of httpx are for each part of a request; this one is for all of it.
            with anyio.fail_after(step.extensions["timeout"]["read"]):
                return await self._http.send(step)
        except httpx.TransportError as error:
            return error
        except TimeoutError:
            return httpx.ReadTimeout("the call took too long", request=step)
