"""The server of metrics and health: how many connections it takes, and for how long."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.cluster.monitoring import metrics_main
from ordo.cluster.monitoring.metrics_main import ADDRESS_CONNECTIONS_MAX, CONNECTIONS_MAX, HealthServer
from ordo.cluster.monitoring.observation import Subject

PROBE = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HealthServer]:
    """A parameter says how long a request may take."""
    monkeypatch.setattr(metrics_main, "REQUEST_TIMEOUT_S", request.param)
    server = HealthServer(socket.create_server(("127.0.0.1", 0), backlog=128), Subject(0, 0, tmp_path, tmp_path))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def connect(server: HealthServer, source: str) -> socket.socket:
    return socket.create_connection(server.socket.getsockname(), timeout=10, source_address=(source, 0))


def is_answered(server: HealthServer, source: str) -> bool:
    with connect(server, source) as probe:
        try:
            probe.sendall(PROBE)
            return probe.recv(4096).startswith(b"HTTP/1.0 ")
        except ConnectionError:
            return False


@pytest.mark.parametrize("server", [600.0], indirect=True)
def test_one_address_does_not_shut_others_out(server: HealthServer) -> None:
    hogs = [connect(server, "127.0.0.2") for _ in range(3 * CONNECTIONS_MAX)]
    for hog in hogs[:ADDRESS_CONNECTIONS_MAX]:
        hog.sendall(PROBE[:20])
    assert not is_answered(server, "127.0.0.2")
    assert is_answered(server, "127.0.0.3")
    for hog in hogs:
        hog.close()


@pytest.mark.parametrize("server", [1.0], indirect=True)
def test_a_connection_that_drips_is_ended_in_time(server: HealthServer) -> None:
    begun_s = time.monotonic()
    with connect(server, "127.0.0.2") as slow:
        slow.settimeout(0.1)
        with pytest.raises(ConnectionError):
            while time.monotonic() < begun_s + 20:
                slow.sendall(b"G")
                try:
                    if slow.recv(1) == b"":
                        raise ConnectionError
                except TimeoutError:
                    pass
    assert time.monotonic() - begun_s < 15
