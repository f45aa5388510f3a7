"""Probes of a member's health, one after the other: the whole of it, from the connection to the last byte."""

from __future__ import annotations

import socket
from pathlib import Path

from ordo.cluster.monitoring import metrics_main
from ordo.cluster.monitoring.metrics_main import HealthServer
from ordo.cluster.monitoring.observation import Subject
from ordo.runtime.native.clock import VirtualClock
from tests.budget.turns import begin_phase, end_phase, turn_of_probe

PROBES_PHASE = "probes"
PROBE_COUNT = 40


def drive_probes(data_dir: Path, aeron_dir: Path, clock: VirtualClock) -> None:
    """Asks whether a member is ready, as whoever starts nodes does every few seconds; what asks is counted, too."""
    metrics_main._now_ms = clock.epoch_ms  # the members' clock stands still
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    server = HealthServer(listener, Subject(0, 0, aeron_dir, data_dir))

    def probe() -> None:
        with socket.create_connection(address) as client:
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            server.handle_request()
            answer = b"".join(iter(lambda: client.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.0 200 ") and answer.endswith(b"\r\n\r\nok\n"), answer

    try:
        for _ in range(PROBE_COUNT // 4):
            probe()
        begin_phase(PROBES_PHASE)
        for _ in range(PROBE_COUNT):
            turn_of_probe(probe)
        end_phase(PROBES_PHASE)
    finally:
        server.server_close()
