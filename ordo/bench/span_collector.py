"""Takes the spans of traces by OTLP over HTTP, as a collector does, and keeps them in memory."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ordo.runtime.closing import Closing

STATUS_TAKEN = 200


class SpanCollector(Closing, ThreadingHTTPServer):
    """On a free port of loopback, served by a thread of its own while the context lasts.

    `traces`: by trace id and name of the span, what OTLP calls a Span; of several members' the one that ended first.
    `counts`: by trace id, how many spans have come.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.traces: dict[bytes, dict[str, Any]] = defaultdict(dict)
        self.counts: Counter[bytes] = Counter()
        self._thread = threading.Thread(target=self.serve_forever, name="ordo-span-collector")

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/traces"

    def take(self, body: bytes) -> int:
        """Keep the spans of one request. Returns the HTTP status of the response."""
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in (span for scope in part.scope_spans for span in scope.spans):
                self.counts[span.trace_id] += 1
                spans = self.traces[span.trace_id]
                known = spans.setdefault(span.name, span)
                if span.end_time_unix_nano < known.end_time_unix_nano:
                    spans[span.name] = span
        return STATUS_TAKEN

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: SpanCollector

    def do_POST(self) -> None:
        status = self.server.take(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: requests are not worth a line."""
