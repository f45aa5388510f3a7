"""What a client of few messages gets while another one floods the cluster.

    python -m benchmarks.fairness [--quick] [--rounds 3] [--mode inline] [--json out.json]

Three members, their service and two clients on this machine, nothing synced. The first client sends 1,000 messages of
32 bytes a second at fixed times; a round trip counts from the time at which its message was due, so that a client that
was held up does not leave out what it could not send. The flood is a native client with up to a million messages on the
way. Each row is a fresh cluster; rows take turns, and medians of the rounds are told.

    alone          no flood
    large backlog  service_backlog = "1g": what is taken waits behind all that the flood has sent
    default        as a cluster is without any settings
    quota          session_messages = 20000
    first lane     the first client's principal has first = true

The page cache, the scheduler and the other processes of a small machine are in every row: compare rows of one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.page import table
from benchmarks.pairs import End, Samples, medians
from ordo.bench.loads.latency import new_histogram, record, value_at_ns
from ordo.bench.machine import describe_machine
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster, ServiceMode
from ordo.runtime.security.tokens import hash_token, new_token

SERVICE = "ordo.bench.loads.echo_native:NativeEcho"
PRINCIPAL, TOKEN = "desk", new_token()
SIZE_BYTES = 32
INTERVAL_NS = 1_000_000
FLOOD_WINDOW = 1_000_000
ANSWER_TIMEOUT_S = 20


@dataclass(frozen=True)
class Row:
    """One setting of the cluster."""

    has_flood: bool = True
    cluster: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Effort:
    """How long each row takes, and how often it is measured."""

    rounds: int = 3
    settle_s: int = 1
    duration_s: int = 5
    mode: ServiceMode = "inline"


def list_rows() -> dict[str, Row]:
    """The rows by name."""
    token = {"principal": PRINCIPAL, "hash": hash_token(TOKEN), "roles": ["ingress"]}
    lane = {
        "tokens": [token],
        "authentication": {"anonymous_roles": ["ingress"]},
        "principals": [{"name": PRINCIPAL, "first": True}],
    }
    return {
        "alone": Row(has_flood=False),
        "large backlog": Row(cluster={"service_backlog": "1g"}),
        "default": Row(),
        "quota": Row(tables={"quotas": {"session_messages": 20_000}}),
        "first lane": Row(tables=lane),
    }


class PacedClient:
    """Sends at fixed times, and keeps how long each message took from when it was due."""

    def __init__(self, cluster: LocalCluster, credentials: bytes) -> None:
        self._due_ns: list[int] = []
        self._answered = 0
        self.times_ns: list[int] = []
        self._client = ClusterClient(
            cluster.ingress_endpoints,
            "aeron:udp?endpoint=127.0.0.1:0",
            on_message=self._on_message,
            settings=ClientSettings(credentials=credentials),
        )

    def close(self) -> None:
        self._client.close()

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        number = int.from_bytes(payload[:8], "little")
        assert number == self._answered, f"echo {number} came instead of {self._answered}"
        self._answered += 1
        self.times_ns.append(time.monotonic_ns() - self._due_ns[number])

    def run(self, duration_s: float) -> None:
        """Send for so long, and take every answer."""
        begin_ns = due_ns = time.monotonic_ns()
        end_ns = begin_ns + int(duration_s * 1e9)
        limit_ns = end_ns + int(ANSWER_TIMEOUT_S * 1e9)
        while due_ns < end_ns or self._answered < len(self._due_ns):
            now_ns = time.monotonic_ns()
            if now_ns > limit_ns:
                sys.exit(f"{len(self._due_ns) - self._answered} answers are missing")
            if due_ns < end_ns and now_ns >= due_ns:
                payload = len(self._due_ns).to_bytes(8, "little") + bytes(SIZE_BYTES - 8)
                if self._client.offer(payload) > 0:
                    self._due_ns.append(due_ns)
                    due_ns += INTERVAL_NS
                    continue
            if self._client.poll() == 0:
                self._client.park(max(0.0, min(due_ns - now_ns, INTERVAL_NS)) / 1e9)


@contextmanager
def flood_of(cluster: LocalCluster) -> Iterator[End]:
    """A native client that is connected and sends nothing yet."""
    endpoints = ",".join(f"{member}={where}" for member, where in cluster.ingress_endpoints.items())
    with End([sys.executable, "-m", "benchmarks.cluster_peer", endpoints, str(SIZE_BYTES), "1408"]) as end:
        end.await_line("ready")
        yield end


def measure_row(row: Row, effort: Effort) -> dict[str, float]:
    """The paced client's p50 and p99, and how much the flood carried."""
    with LocalCluster(
        SERVICE, sync="none", service_mode=effort.mode, cluster=row.cluster, tables=row.tables
    ) as cluster:
        cluster.await_leader()
        with flood_of(cluster) as flood:
            client = PacedClient(cluster, TOKEN.encode() if "tokens" in row.tables else b"")
            if row.has_flood:
                flood.tell(f"flood {SIZE_BYTES} {FLOOD_WINDOW} {effort.settle_s * 2 + effort.duration_s}")
            client.run(effort.settle_s)
            settled = len(client.times_ns)
            client.run(effort.duration_s)
            rate = float(flood.await_line("flood")[0]) if row.has_flood else 0.0
            client.close()
        histogram = new_histogram()
        record(histogram, client.times_ns[settled:])
        return {
            "p50_ms": value_at_ns(histogram, 50) / 1e6,
            "p99_ms": value_at_ns(histogram, 99) / 1e6,
            "flood_per_s": rate,
        }


def measure(effort: Effort) -> dict[str, dict[str, float]]:
    """Medians by row."""
    rows = list_rows()
    samples: Samples = {name: [] for name in rows}
    for number in range(effort.rounds):
        for name in list(rows) if number % 2 == 0 else list(reversed(rows)):
            print(f"{time.strftime('%H:%M:%S')} round {number + 1}: {name}", file=sys.stderr)
            samples[name].append(measure_row(rows[name], effort))
    return medians(samples)


def describe(figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The table."""
    head = ["cluster", "p50 ms", "p99 ms", "the flood, a second"]
    cells = [
        [name, f"{one['p50_ms']:.1f}", f"{one['p99_ms']:.1f}", f"{one['flood_per_s']:,.0f}"]
        for name, one in figures.items()
    ]
    return table(head, cells)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure a client of few messages beside a flood.")
    parser.add_argument("--quick", action="store_true", help="one short round: to see that it runs, not to quote")
    parser.add_argument("--rounds", type=int, default=Effort.rounds)
    parser.add_argument("--mode", choices=("inline", "process"), default=Effort.mode, help="where the service runs")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    chosen = parser.parse_args(arguments)
    effort = Effort(rounds=chosen.rounds, mode=chosen.mode)
    if chosen.quick:
        effort = Effort(rounds=1, duration_s=1, mode=chosen.mode)
    machine = describe_machine()
    figures = measure(effort)
    print(f"{machine['processor']}, {machine['cores']} cores; load average before the run {machine['load_average_1m']}")
    print("\n".join(describe(figures)))
    if chosen.json:
        chosen.json.write_text(json.dumps({"machine": machine, "rows": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
