"""What the HTTP/1.1 server of the service costs and holds, beside uvicorn's own with admission as ASGI middleware.

    python -m benchmarks.entrance [--parts requests,overload,clients,messages,stopping] [--repeats 7] [--seconds 5] [--out FILE]

Both serve the same application in the same process (`localrank_service.process.server`). ``middleware`` is what can be
said to uvicorn: requests are admitted by a layer around the application, which sees a head when it is read and takes a
turn when the application asks for the end of the body.

- *requests*: milliseconds of processor time for a request of 20, 100 and 1,000 documents, npy and JSON, in turn.
- *overload*: as `benchmarks.overload` does, with lists of 100 × 136.
- *clients*: clients that send nothing, half a head or half a body, or take no answers: how many are still connected after
  ten seconds (the limits are set to one or two); memory that half-sent requests take, where all may have 32 MiB.
- *messages*: requests sent ahead, and heads that two readers could understand in two ways: how many are answered or
  refused as they must be.
- *stopping*: connections that are reset when the service gets SIGTERM while eight clients ask without pause, each over one
  kept connection or over new ones.

There is no threshold; docs/decisions/http.md has the figures.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import arrivals, noise, overload, results, served_models, servers
from localrank.commands.output import print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

N_FEATURES = 136
SIZES = (20, 100, 1000)
#: What the service is told for the measurements of clients.
IMPATIENT = {
    "LOCALRANK_HEAD_TIMEOUT_SECONDS": "1",
    "LOCALRANK_BODY_TIMEOUT_SECONDS": "1.5",
    "LOCALRANK_KEEP_ALIVE_SECONDS": "2",
    "LOCALRANK_MAX_BODY_BYTES": str(4 << 20),
}
ALWAYS = frozenset({"/livez", "/readyz", "/startupz", "/metrics"})


class Sharer:
    """The state of a connection that admission needs."""

    due = 0.0
    period = 0


class Admitted:
    """Admission as a layer around the application."""

    def __init__(self, app: Any) -> None:
        self._app: ASGIApp = app
        self._admission = app.state.service.admission
        self._sharers: dict[object, Sharer] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from localrank_service.http.admission import Refusal, overloaded
        from localrank_service.http.aside import PERMIT
        from localrank_service.http.problems import respond

        if scope["type"] != "http" or scope["path"] in ALWAYS:
            await self._app(scope, receive, send)
            return
        length, content_type = 0, b""
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = int(value)
            elif name == b"content-type":
                content_type = value
        if len(self._sharers) > 10_000:
            self._sharers.clear()
        sharer = self._sharers.setdefault(scope["client"], Sharer())
        kind = scope["path"].encode(), content_type, length.bit_length()
        claim = self._admission.admit(sharer, kind)
        if isinstance(claim, Refusal):
            await respond(scope, overloaded(claim))(scope, receive, send)
            return

        async def take_turn() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                claim.arrive()
                if not claim.begin():
                    await claim.turn()
            return message

        PERMIT.set(claim)
        try:
            await self._app(scope, take_turn, send)
        finally:
            claim.finish()


def serve(port: int, models: str) -> None:
    """Serve with uvicorn's own protocol."""
    import uvicorn

    from localrank_service.app import create_app
    from localrank_service.process.server import Server
    from localrank_service.process.settings import Settings

    settings = Settings.from_environ({**os.environ, "LOCALRANK_MODELS_DIR": models})
    with socket.create_server(("127.0.0.1", port), backlog=2048) as listener:
        config = uvicorn.Config(
            Admitted(create_app(settings)),
            access_log=False,
            server_header=False,
            log_level="error",
            lifespan="on",
            ws="none",
            http="httptools",
            timeout_keep_alive=int(settings.keep_alive_seconds),
        )
        Server(config).run(sockets=[listener])


def ours(models: Path, **environ: Any) -> Any:
    return servers.localrank(models, **environ)


def middleware(models: Path, **environ: str) -> Any:
    port = servers.free_port()
    command = [sys.executable, "-m", "benchmarks.entrance", "--serve", str(port), "--models", str(models)]
    return servers.running(command, port, servers.get("/readyz"), environ=environ)


CONTESTANTS: dict[str, Callable[..., Any]] = {"ours": ours, "middleware": middleware}


# --- requests ---


def requests(models: Path, options: argparse.Namespace) -> list[results.Row]:
    """Measure processor time for requests, the contestants in turn."""
    wires = {
        "npy": ("application/x-npy", served_models.as_npy),
        "JSON": ("application/json", served_models.as_json),
    }
    rows: list[results.Row] = []
    with ExitStack() as stack:
        running = {name: stack.enter_context(start(models)) for name, start in CONTESTANTS.items()}
        for size in SIZES:
            for wire, (kind, write) in wires.items():
                sent = servers.post("/v1/rerank", write(served_models.documents(size, N_FEATURES)), kind)
                count = int(np.clip(200_000 // size, 500, 3000))
                found: dict[str, list[float]] = {name: [] for name in running}
                for _ in range(options.repeats + 1):
                    for name, server in running.items():
                        used = server.cpu()
                        arrivals.closed(server.port, sent, count)
                        found[name].append(1e3 * (server.cpu() - used) / count)
                for name, each in found.items():
                    ratios = np.divide(each[1:], found["ours"][1:]).tolist()
                    rows.append({
                        "server": name, "wire": wire, "documents": size, "ms": float(np.median(each[1:])),
                        "times": float(np.median(ratios)), "interval": results.interval(ratios),
                    })  # fmt: skip
    return rows


# --- overload ---


def overloaded(models: Path, options: argparse.Namespace) -> list[results.Row]:
    """Ask for three times as much as a worker can answer."""
    processors = sorted(os.sched_getaffinity(0))
    body = served_models.as_npy(served_models.documents(100, N_FEATURES))
    sent = servers.post("/v1/rerank", body, "application/x-npy")
    rows: list[results.Row] = []
    options.poisson = False
    os.sched_setaffinity(0, {processors[-1]})
    try:
        for name, start in CONTESTANTS.items():
            with ExitStack() as stack:
                with overload.on(processors[0]):
                    server = stack.enter_context(start(models))
                arrivals.closed(server.port, sent, 50)
                found: list[results.Row] = []
                for _ in range(min(options.repeats, 3)):
                    try:
                        (peak, row), disturbed = noise.measured(partial(overload.once, server, sent, options))
                    except arrivals.Refused as error:
                        found.append({"failed": str(error)})
                        continue
                    found.append({"peak": peak.rate, **row, **disturbed._asdict()})
                good = [row for row in found if "failed" not in row]
                failed = [row["failed"] for row in found if "failed" in row]
                rows.append({
                    "server": name, "failed": failed,
                    **{key: float(np.median([row[key] for row in good])) for key in overload.FIGURES if good},
                })  # fmt: skip
    finally:
        os.sched_setaffinity(0, set(processors))
    return rows


# --- clients ---

HEAD = b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"features": [[' + b",".join([b"1.0"] * N_FEATURES) + b"]]}"
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
SLOW = {
    "nothing": b"",
    "half a head": HEAD,
    "half a body": HEAD + b"Content-Length: 1000\r\n\r\n{",
    "a kept connection": REQUEST,
}


def connect(port: int) -> socket.socket:
    wire = socket.create_connection(("127.0.0.1", port), 20)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wire


def open_still(wire: socket.socket) -> bool:
    """Tell whether the server has not closed its side."""
    wire.settimeout(0.05)
    try:
        while wire.recv(1 << 20):
            pass
    except TimeoutError:
        return True
    except OSError:
        pass
    return False


def clients(models: Path, _options: argparse.Namespace) -> list[results.Row]:
    """Hold connections in every way."""
    rows = []
    for name, start in CONTESTANTS.items():
        with start(models, **IMPATIENT) as server, ExitStack() as stack:
            row: results.Row = {"server": name}
            held = {what: [stack.enter_context(connect(server.port)) for _ in range(8)] for what in SLOW}
            for what, wires in held.items():
                for wire in wires:
                    wire.sendall(SLOW[what])
            greedy = [stack.enter_context(connect(server.port)) for _ in range(8)]
            for wire in greedy:
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                wire.setblocking(False)  # noqa: FBT003
                with suppress(BlockingIOError):
                    for _ in range(2000):
                        wire.send(servers.get("/openapi.json"))
            time.sleep(10.0)
            for what, wires in held.items():
                row[f"{what}, of 8"] = sum(map(open_still, wires))
            sockets = {entry.split()[3] for entry in Path("/proc/net/tcp").read_text().splitlines()[1:]
                       if entry.split()[1].endswith(f":{server.port:04X}") and greedy_port(entry, greedy)}  # fmt: skip
            row["takes no answers"] = "held" if "01" in sockets else "ended"
        with start(models, LOCALRANK_MAX_BODY_BYTES=str(4 << 20)) as server, ExitStack() as stack:
            before = server.memory()[server.pid]
            for _ in range(48):
                wire = stack.enter_context(connect(server.port))
                wire.settimeout(1.0)
                with suppress(OSError):
                    wire.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (4 << 20) + b" " * ((4 << 20) - 10))
            row["192 MiB half sent, MB"] = round(server.memory()[server.pid] - before)
        rows.append(row)
    return rows


def greedy_port(entry: str, wires: Sequence[socket.socket]) -> bool:
    """Tell whether a line of /proc/net/tcp is about one of these connections."""
    return int(entry.split()[2].split(":")[1], 16) in {wire.getsockname()[1] for wire in wires}


# --- messages ---


def asked(*lines: bytes, body: bytes = b"", first: bytes = b"POST /v1/rerank HTTP/1.1") -> bytes:
    return b"\r\n".join([first, b"Host: localhost", *lines]) + b"\r\n\r\n" + body


LENGTH = b"Content-Length: %d" % len(BODY)
JSON = b"Content-Type: application/json"
SMUGGLING = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: What is sent, and the statuses of all answers; the connection must end after a refusal.
MESSAGES: dict[str, tuple[bytes, list[int]]] = {
    "three sent ahead": (REQUEST * 3, [200, 200, 200]),
    "a refusal, then a good one": (
        asked(LENGTH, b"Content-Type: text/x", body=BODY) + REQUEST,
        [415, 200],
    ),
    "a good one, then garbage": (REQUEST + b"garbage\r\n\r\n", [200, 400]),
    "two lengths": (asked(LENGTH, b"Content-Length: 3", JSON, body=BODY), [400]),
    "length and chunks": (asked(LENGTH, b"Transfer-Encoding: chunked", JSON, body=BODY), [400]),
    "chunked twice": (asked(b"Transfer-Encoding: chunked, chunked", JSON, body=b"0\r\n\r\n" + SMUGGLING), [400]),
    "gzip, chunked": (asked(b"Transfer-Encoding: gzip, chunked", JSON, body=b"0\r\n\r\n" + SMUGGLING), [501]),
    "chunks in HTTP/1.0": (
        asked(b"Transfer-Encoding: chunked", JSON, body=b"0\r\n\r\n", first=b"POST /v1/rerank HTTP/1.0"),
        [400],
    ),
    "bare LF in a head": (asked(b"X: 1\nTransfer-Encoding: chunked", LENGTH, JSON, body=BODY), [400]),
    "a size of chunk with a sign": (asked(b"Transfer-Encoding: chunked", JSON, body=b"+1\r\nx\r\n0\r\n\r\n"), [400]),
    "a chunk longer than its size": (asked(b"Transfer-Encoding: chunked", JSON, body=b"1\r\nxyz\r\n0\r\n\r\n"), [400]),
    "no host": (b"GET /livez HTTP/1.1\r\n\r\n", [400]),
    "two hosts": (b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", [400]),
    "a host with a space": (b"GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", [400]),
    "HTTP/2.0": (b"GET /livez HTTP/2.0\r\nHost: a\r\n\r\n", [505]),
    "70 KB of head": (asked(b"X: " + b"x" * 70_000), [431]),
    "4,000 headers": (asked(*[b"X: 1"] * 4000), [431]),
    "five empty lines": (b"\r\n" * 5 + REQUEST, [400]),
    "3,000 tiny chunks": (
        asked(b"Transfer-Encoding: chunked", JSON, body=b"1\r\n \r\n" * 3_000 + b"0\r\n\r\n"),
        [413],
    ),
    "another expectation": (asked(b"Expect: the best", LENGTH, JSON, body=BODY), [417]),
    "an offer of h2c with a body": (
        asked(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMA", LENGTH, JSON,
              body=BODY) + REQUEST,
        [200, 200],
    ),
}  # fmt: skip


def statuses(port: int, sent: bytes) -> tuple[list[int], bool]:
    """Return the statuses of all answers within a second, and whether errors have the service's form."""
    found, ours, left = [], True, b""
    with connect(port) as wire, suppress(OSError):
        with suppress(OSError):
            wire.sendall(sent)
        wire.settimeout(1.0)
        while part := wire.recv(1 << 20):
            left += part
    while left.startswith(b"HTTP/1.1 "):
        head, _, left = left.partition(b"\r\n\r\n")
        found.append(int(head[9:12]))
        ours = ours and (found[-1] < 400 or b"application/problem+json" in head)
        left = left[servers.declared(head) or 0 :]
    return found, ours


def messages(models: Path, _options: argparse.Namespace) -> list[results.Row]:
    """Send what no client library would."""
    rows = []
    for name, start in CONTESTANTS.items():
        with start(models) as server:
            other = {}
            for what, (sent, expected) in MESSAGES.items():
                found, problem = statuses(server.port, sent)
                if found != expected or not problem:
                    other[what] = f"{found}" + ("" if problem else ", plain text")
            rows.append(
                {
                    "server": name,
                    "as expected": len(MESSAGES) - len(other),
                    "of": len(MESSAGES),
                    "other": other,
                }
            )
    return rows


# --- stopping ---


def ask_on(port: int, *, kept: bool, stop: threading.Event, found: list[str]) -> None:
    """Ask without pause; note each connection that broke within a request."""
    wire = None
    while not stop.is_set():
        try:
            if wire is None:
                wire = connect(port)
        except OSError:
            return  # nobody listens any more
        try:
            wire.sendall(REQUEST)
            answer = wire.recv(1 << 16)
        except OSError:
            answer = b""
        if not answer.startswith(b"HTTP/1.1 200"):
            found.append("lost" if not answer else answer[9:12].decode())
            wire.close()
            wire = None
        elif not kept or b"connection: close" in answer:
            wire.close()
            wire = None


def stopping(models: Path, options: argparse.Namespace) -> list[results.Row]:
    """Stop the service while clients ask."""
    rows = []
    for name, start in CONTESTANTS.items():
        lost = {True: 0, False: 0}
        for _ in range(options.repeats):
            for kept in lost:
                with start(models) as server:
                    found: list[str] = []
                    stop = threading.Event()
                    asking = [
                        threading.Thread(target=ask_on, args=(server.port,), kwargs={"kept": kept, "stop": stop, "found": found})
                        for _ in range(8)
                    ]  # fmt: skip
                    for thread in asking:
                        thread.start()
                    time.sleep(0.5)
                    os.kill(server.pid, signal.SIGTERM)
                    time.sleep(2.5)
                    stop.set()
                    for thread in asking:
                        thread.join(25)
                    lost[kept] += found.count("lost")
        rows.append({
            "server": name, "stops": options.repeats,
            "lost, kept connections": lost[True], "lost, new connections": lost[False],
        })  # fmt: skip
    return rows


PARTS: dict[str, Callable[[Path, argparse.Namespace], list[results.Row]]] = {
    "requests": requests,
    "overload": overloaded,
    "clients": clients,
    "messages": messages,
    "stopping": stopping,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--serve", type=int, metavar="PORT", help="only serve the middleware")
    parser.add_argument("--models")
    results.add_out(parser)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.models)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder)
        served_models.publish(models, served_models.ranker(1000, N_FEATURES))
        for part in options.parts.split(","):
            rows = PARTS[part](models, options)
            results.write_beside(options.out, **{part: rows})
            print_table(
                tuple(rows[0]),
                [
                    tuple(f"{one:.4g}" if isinstance(one, float) else one for one in row.values())
                    for row in rows
                ],
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
