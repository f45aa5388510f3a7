"""The metrics and the health of a node over HTTP, in a process of its own that only reads the node's shared memory.

`/metrics` for Prometheus; `/livez` and `/readyz` for programs that start nodes or send work: 200, or 503 with why.
Started and watched by the node (`[metrics] port`), which hands it the listening socket. With `[tracing] endpoint` it
also sends the spans of sampled requests, which it reads from there, to a collector.
"""

from __future__ import annotations

import argparse
import signal
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any

from ordo.cluster.monitoring.observation import Subject, observe
from ordo.runtime.children import die_with_parent
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.reporting.log_sink import drop_what_cannot_be_written

TEXT = "text/plain; charset=utf-8"
CONNECTIONS_MAX = 32
ADDRESS_CONNECTIONS_MAX = 16
REQUEST_TIMEOUT_S = 5.0


class HealthServer(ThreadingMixIn, HTTPServer):
    """One thread a connection, CONNECTIONS_MAX at a time, ADDRESS_CONNECTIONS_MAX of one address.

    One more is closed at once. A connection is ended REQUEST_TIMEOUT_S after it came, however slowly it speaks or
    listens.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, subject: Subject) -> None:
        super().__init__(listener.getsockname()[:2], HealthHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.subject = subject
        self._lock = threading.Lock()
        self._open: dict[socket.socket, tuple[str, int]] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        host = client_address[0]
        with self._lock:
            of_host = sum(one == host for one, _ in self._open.values())
            has_room = len(self._open) < CONNECTIONS_MAX and of_host < ADDRESS_CONNECTIONS_MAX
            if has_room:
                self._open[request] = host, _now_ns() + round(REQUEST_TIMEOUT_S * 1e9)
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                del self._open[request]

    def service_actions(self) -> None:
        """End connections that are past their time; the server calls it every half second."""
        now_ns = _now_ns()
        with self._lock:
            late = [one for one, (_, deadline_ns) in self._open.items() if now_ns >= deadline_ns]
        for one in late:
            with suppress(OSError):  # it has ended by itself
                one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a client that went away: they are no errors of the node."""


class HealthHandler(BaseHTTPRequestHandler):
    """GET and HEAD of three paths; nothing is read from a body."""

    server: HealthServer
    timeout = REQUEST_TIMEOUT_S
    server_version, sys_version = "ordo", ""

    def do_GET(self) -> None:
        path, subject = self.path.partition("?")[0], self.server.subject
        if path == "/metrics":
            from ordo.cluster.monitoring.metrics import CONTENT_TYPE, exposition

            self._answer(HTTPStatus.OK, exposition(subject), CONTENT_TYPE)
        elif path == "/livez":
            self._probe(observe(subject, _now_ms()).why_not_live())
        elif path == "/readyz":
            self._probe(observe(subject, _now_ms()).why_not_ready(subject.disk_free_bytes_min))
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there are /metrics, /livez and /readyz\n")

    do_HEAD = do_GET

    def _probe(self, trouble: str) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
        self._answer(status, f"{trouble or 'ok'}\n".encode())

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str = TEXT) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are not worth a line."""


def _now_ms() -> int:
    return SystemClock().epoch_ms()


def _now_ns() -> int:
    return SystemClock().now()


def main(arguments: list[str] | None = None) -> int:
    """Serve until it is told to end, or its parent is gone."""
    parser = argparse.ArgumentParser(prog="python -m ordo.cluster.monitoring.metrics_main", description=__doc__)
    parser.add_argument("--listener", type=int, required=True, help="file descriptor of the listening socket, -1: none")
    parser.add_argument("--trace-endpoint", default="", help="URL of a collector's traces")
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--member-id", type=int, required=True)
    parser.add_argument("--cluster-id", type=int, required=True)
    parser.add_argument("--aeron-dir", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--disk-free-min", type=int, required=True, help="bytes")
    parser.add_argument("--clock-error-max", type=int, required=True, help="nanoseconds")
    options = parser.parse_args(arguments)
    drop_what_cannot_be_written()
    if not die_with_parent(options.parent_pid, signal.SIGKILL):
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C in a terminal is for the node, which ends this process
    subject = Subject(
        options.member_id,
        options.cluster_id,
        options.aeron_dir,
        options.data_dir,
        options.disk_free_min,
        options.clock_error_max,
    )
    if options.trace_endpoint:
        from ordo.cluster.monitoring.trace_export import TraceExport

        export = TraceExport(options.trace_endpoint, subject)
        if options.listener < 0:
            export.run()
        threading.Thread(target=export.run, daemon=True).start()
    HealthServer(socket.socket(fileno=options.listener), subject).serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
