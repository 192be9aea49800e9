"""A receiver of OTLP over HTTP: what a collector is to the service that sends it spans."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What was received.

    Attributes:
        url: where it listens.
        spans: each with the attributes of its resource.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[tuple[dict[str, object], Span]] = []
        self.changed = threading.Condition()

    def receive(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self.changed:
            for resource in request.resource_spans:
                attributes = plain(resource.resource.attributes)
                self.spans += [(attributes, span) for scope in resource.scope_spans for span in scope.spans]
            self.changed.notify_all()

    def wait_for(self, count: int) -> list[Span]:
        """Return the spans once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans) >= count, timeout=30), len(self.spans)
            return [span for _, span in self.spans]


def plain(attributes: list[KeyValue]) -> dict[str, object]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "") for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Listen on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            known = ("/v1/traces", "application/x-protobuf") == (self.path, self.headers["content-type"])
            if known:
                collector.receive(body)
            self.send_response(200 if known else 404)
            self.send_header("content-type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
