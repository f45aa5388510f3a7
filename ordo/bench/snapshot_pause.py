"""`ordo bench snapshot`: how long a service with a large state stands still for its snapshot, forked and not."""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Thread
from typing import Any

from ordo.bench.loads.echo_session import EchoSession
from ordo.bench.loads.large_state import FORKS_VARIABLE, STATE_MB_VARIABLE
from ordo.bench.loads.latency import percentiles_us
from ordo.bench.node_cost import family
from ordo.cluster.admin.local_member import LocalMember
from ordo.cluster.admin.orders import take_snapshot
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster

SERVICES = {
    "forked": "ordo.bench.loads.large_state:ForkedState",
    "standing": "ordo.bench.loads.large_state:StandingState",
}
SIZE_BYTES = 32
ROUND_TRIPS = 20
"""Between two looks whether the snapshot is done."""
CALM = {"service_timeout": "120s", "session_timeout": "120s"}
SNAPSHOT_TIMEOUT_S = 120.0


def measure_snapshot_pause(state_mb: int, round_trip_count: int) -> dict[str, Any]:
    """Return, by kind, in ms: a client's longest round trip before the snapshot and during it, and the fork itself."""
    return {
        "snapshot_state_mb": state_mb,
        "snapshot_pause_ms": {
            kind: _measure(service, state_mb, round_trip_count) for kind, service in SERVICES.items()
        },
    }


def _measure(service: str, state_mb: int, round_trip_count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="ordo-bench-") as folder:
        forks = Path(folder) / "forks"
        environment = {STATE_MB_VARIABLE: str(state_mb), FORKS_VARIABLE: str(forks)}
        with LocalCluster(service, member_count=1, sync="none", environment=environment, cluster=CALM) as cluster:
            member = LocalMember(load_config(cluster.config_path(cluster.await_leader())))
            cluster.await_value(lambda: len(family(cluster.pid(0))) > 1 or None, "the service container")
            with EchoSession(cluster.ingress_endpoints, SIZE_BYTES) as session:
                session.round_trips(ROUND_TRIPS)  # the service builds its state before it echoes the first
                before = percentiles_us(session.round_trips(round_trip_count))
                order = Thread(target=take_snapshot, args=(member, SNAPSHOT_TIMEOUT_S))
                order.start()
                longest_us, count = 0.0, 0
                while order.is_alive():
                    longest_us = max(longest_us, percentiles_us(session.round_trips(ROUND_TRIPS))["max"])
                    count += ROUND_TRIPS
                order.join()
        found = {"longest_before": before["max"] / 1000, "longest_during": longest_us / 1000, "round_trips": count}
        if forks.exists():
            found["fork"] = max(int(line) for line in forks.read_text().split()) / 1e6
        return {name: round(value, 1) for name, value in found.items()}
