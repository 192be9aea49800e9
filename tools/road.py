"""Print the modules that a default training run enters, each below the one that first called it.

python -m tools.road
python -m tools.road request

``request`` prints every function of ours that one rerank request enters, from the bytes of a connection to those of the
answer: 20 documents as JSON, to ``models/demo``. Of several requests it shows the one with the fewest calls, because
the event loop also looks after connections now and then.

docs/understand/architecture.md shows what it prints. Calls while modules are imported are left out. A small set of synthetic
queries is learned from in one process, because `sys.setprofile` sees only this one.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import socket
import sys
import tempfile
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from localrank import load
from localrank.__main__ import main
from localrank_service.app import create_app
from localrank_service.http.protocol import Http
from localrank_service.models.live import LiveModel
from localrank_service.process.server import Server
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from types import FrameType

    from localrank.ranker import Ranker

PACKAGES = {"localrank_training.": "training/", "localrank.": "core/"}


class Road:
    """The modules of both packages that were entered, and from where first.

    Attributes:
        first: ``{module: (caller, function)}`` in the order in which modules were entered.
    """

    def __init__(self) -> None:
        self.first: dict[str, tuple[str | None, str]] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take note of a call from another module; `sys.setprofile` calls this."""
        here = _module(frame)
        if event != "call" or here is None or here in self.first or _imports(frame):
            return
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        self.first[here] = (None if caller is None else _module(caller), frame.f_code.co_name)

    def drawn(self, caller: str | None = None, depth: int = 0) -> list[str]:
        """Return a line for each module, further to the right than the module that called it first."""
        lines = []
        for module, (before, function) in self.first.items():
            if before == caller:
                package = next(package for package in PACKAGES if module.startswith(package))
                shown = PACKAGES[package] + module.removeprefix(package)
                lines.append(f"{'  ' * depth}{shown}  {function}")
                lines += self.drawn(module, depth + 1)
        return lines


def _module(frame: FrameType) -> str | None:
    name: str = frame.f_globals.get("__name__", "")
    return name if name.startswith(tuple(PACKAGES)) else None


def _imports(frame: FrameType | None) -> bool:
    """Tell whether a call is part of importing one of our modules: it only declares something."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _module(frame) is not None:
            return True
        frame = frame.f_back
    return False


class Calls:
    """The calls of our functions by one request, in their order.

    Attributes:
        entered: module and function of each; a generator that goes on counts again.
    """

    def __init__(self) -> None:
        self.entered: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take note of a call; `sys.setprofile` calls this."""
        module: str = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(("localrank.", "localrank_service.")):
            self.entered.append((module, frame.f_code.co_qualname))

    @property
    def changes(self) -> int:
        """How often a call is in another module than the one before."""
        return sum(one[0] != other[0] for one, other in pairwise(self.entered))

    def drawn(self) -> list[str]:
        """Return a line for each call, and one with the figures."""
        width = max(len(module) for module, _ in self.entered)
        lines = [f"{module:{width}}  {function}" for module, function in self.entered]
        n_modules = len({module for module, _ in self.entered})
        return [
            *lines,
            f"{len(self.entered)} calls, {n_modules} modules, {self.changes} changes of module",
        ]


async def calls_of_a_request(ranker: Ranker, repeats: int = 20) -> Calls:
    """Serve a ranker on a port of this process, and return the calls of one request for 20 documents."""
    app = create_app(Settings(), models=[LiveModel("demo", 1, ranker)])
    config = uvicorn.Config(app, http=cast("Any", Http), log_config=None, access_log=False, lifespan="on")
    server = Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started:  # noqa: ASYNC110 - the server sets no event
        await asyncio.sleep(0.01)
    found: list[Calls] = []
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        n_features = ranker.contract.n_features
        draw_one = random.Random(0).random
        rows = [[round(draw_one(), 4) for _ in range(n_features)] for _ in range(20)]
        body = json.dumps({"ids": [f"d{number}" for number in range(20)], "features": rows}).encode()
        head = (
            "POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        # The first ones fill caches.
        for repeat in range(repeats + 5):
            calls = Calls()
            sys.setprofile(calls if repeat >= 5 else None)
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            sys.setprofile(None)
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"expected status 200, found {answer[:40]!r}")
            length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            await asyncio.sleep(0.001)
            found += [calls] if repeat >= 5 else []
    finally:
        writer.close()
        server.should_exit = True
        await serving
    return min(found, key=lambda calls: len(calls.entered))


def draw() -> list[str]:
    """Train with the defaults, and return the drawing."""
    road = Road()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        data = str(Path(folder, "judged.txt"))
        main(["data", "synthesize", "--queries", "60", "--documents", "20", "--features", "6", "--out", data])
        sys.setprofile(road)
        try:
            main(["train", data, "--models-dir", folder, "--workers", "1"])
        finally:
            sys.setprofile(None)
    return [*road.drawn(), f"{len(road.first)} modules"]


if __name__ == "__main__":
    request = sys.argv[1:] == ["request"]
    lines = asyncio.run(calls_of_a_request(load("models/demo"))).drawn() if request else draw()
    sys.stdout.write("\n".join(lines) + "\n")
