"""Hooks as processes, and receivers in a thread that answer what a function says and keep what they took."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ordo.deploy.launcher import LocalCluster
from tests.forks import start_ordo
from tests.patience import patient

TAKEN = 204


class Hook:
    """`ordo webhook` as a process."""

    def __init__(self, cluster: LocalCluster, name: str, url: str, log_path: Path, *options: str) -> None:
        self.log_path = log_path
        endpoints = ",".join(cluster.ingress_endpoints.values())
        words = ["webhook", name, url, "--endpoints", endpoints, *options]
        with log_path.open("ab") as log:
            self.process = start_ordo(words, log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(patient(60))


@contextmanager
def hook(cluster: LocalCluster, name: str, url: str, log_path: Path, *options: str) -> Iterator[Hook]:
    """A hook that is killed if the block leaves it running."""
    running = Hook(cluster, name, url, log_path, *options)
    try:
        yield running
    finally:
        running.kill()


class Got(NamedTuple):
    """A post as it came in."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def payload(self) -> str:
        return str(json.loads(self.body)["payload"])


class Posts:
    """All posts that came in, in this order, and those whose answer was that they are taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.all: list[Got] = []
        self.taken: list[Got] = []
        self.url = ""

    def add(self, got: Got, status: int) -> None:
        with self._changed:
            self.all.append(got)
            if 200 <= status < 300:
                self.taken.append(got)
            self._changed.notify_all()

    def await_taken(self, count: int, running: Hook) -> list[Got]:
        """The posts that were taken, once so many different ones were; fails when their hook has ended."""
        deadline_s = time.monotonic() + patient(60)
        with self._changed:
            while len({one.id for one in self.taken}) < count:
                assert running.process.poll() is None, running.log_path.read_text()
                assert time.monotonic() < deadline_s, f"{len(self.taken)} of {count} taken, {len(self.all)} came"
                self._changed.wait(0.5)
            return list(self.taken)

    def effects(self) -> list[str]:
        """What a receiver has that does each id once: the payloads."""
        return [one.payload for one in {got.id: got for got in reversed(self.taken)}.values()][::-1]


@contextmanager
def receiver(answer: Callable[[Got], int] = lambda _: TAKEN) -> Iterator[Posts]:
    """Receive posts at `url` until the block is left."""
    posts = Posts()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got = Got({name.lower(): value for name, value in self.headers.items()}, body)
            status = answer(got)
            posts.add(got, status)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    posts.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield posts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
