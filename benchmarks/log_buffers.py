"""The longest duty cycle while streams and sessions begin and end, of a driver and of a node.

    python -m benchmarks.log_buffers [--streams 1000] [--sessions 1000] [--json f]

A driver on this thread is asked for exclusive publications by a client on the same thread, whose own time does not
count, and then for their end; each kind of channel with terms of three lengths, whose pages are allocated as they are
written (sparse) or with the file. A node of one member, its driver and service on this thread, is asked for sessions by
clients in another process, which then end.

Of each duty cycle two times are taken. By the clock, whatever else runs on the machine is in it. Processor time of the
thread, the kernel's for it included, is what the cycle took: page faults, files, sockets. As many streams are opened as
memory has room for, where their pages are allocated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from benchmarks.page import table
from ordo.bench.loads.echo import Echo
from ordo.bench.machine import describe_machine
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.node.node import Node, real_seams
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.garbage import settle_collector
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.streams.logbuffer import log_length_bytes
from tools.arguments import writable_file

MEMORY = "/dev/shm"
LONG_NS = 1_000_000
TERM_LENGTHS = {"64k": 64 << 10, "1m": 1 << 20, "16m": 16 << 20}
PER_TRANSPORT = 512
CONNECTING_MAX = 64
LIMIT_S = 300
SETTLE_S = 1.0
"""So long after it began to lead a node has nothing left to do for that."""
ECHO = "ordo.bench.loads.echo:Echo"


@dataclass
class Cycles:
    """What the duty cycles of one phase took, in ns: by the clock, and of the processor."""

    elapsed_ns: list[int] = field(default_factory=list)
    used_ns: list[int] = field(default_factory=list)

    def time(self, cycle: Callable[[], object]) -> None:
        """Run a duty cycle and note what it took."""
        used_ns, begun_ns = time.thread_time_ns(), time.perf_counter_ns()
        cycle()
        self.elapsed_ns.append(time.perf_counter_ns() - begun_ns)
        self.used_ns.append(time.thread_time_ns() - used_ns)

    def take(self) -> dict[str, float]:
        """Return the figures of a phase, and begin the next one."""
        figures: dict[str, float] = {"cycles": len(self.used_ns)}
        for name, times_ns in (("elapsed", self.elapsed_ns), ("used", self.used_ns)):
            figures[f"{name}_max_ms"] = max(times_ns, default=0) / 1e6
            figures[f"{name}_long"] = sum(one > LONG_NS for one in times_ns)
            times_ns.clear()
        return figures


def room_for(count: int, term_length: int, sparse: bool) -> int:
    """Return how many of the streams there is memory for."""
    if sparse:
        return count
    stats = os.statvfs(MEMORY)
    return max(1, min(count, stats.f_bavail * stats.f_frsize // 4 // log_length_bytes(term_length)))


# --- a driver ---------------------------------------------------------------------------------------------------------


def measure_streams(channel: str, count: int) -> dict[str, dict[str, float]]:
    """Open and close publications of one driver; the figures of both."""
    with tempfile.TemporaryDirectory(prefix="ordo-bench-", dir=MEMORY) as folder:
        config = MediaDriverSettings(
            directory=f"{folder}/driver",
            publication_linger_timeout_ns=100_000_000,
            counters_values_length=4 << 20,
            reserve_memory=True,
        )
        with MediaDriver(config) as driver:
            cycles, clock = Cycles(), SystemClock()

            def work() -> None:
                cycles.time(lambda: driver.do_work(clock.now()))

            client = TransportClient(config.directory, clock=clock, memory=FileMemoryProvider(), invoker=work)
            cycles.take()
            publications = [client.add_exclusive_publication(channel, 1 + one % 50) for one in range(count)]
            opened = cycles.take()
            for publication in publications:
                publication.close()
            conductor = driver.conductor.publications
            until_s = time.monotonic() + LIMIT_S
            while conductor.ipc or conductor.network:
                work()
                client.do_work(clock.now())
                assert time.monotonic() < until_s, f"streams did not end within {LIMIT_S} s"
            closed = cycles.take()
            client.close()
    return {"open": opened, "close": closed}


# --- a node -----------------------------------------------------------------------------------------------------------


class Sessions:
    """Sessions of a cluster that share a few drivers, in a process of their own: `--clients`."""

    def __init__(self, endpoints: dict[int, str], count: int) -> None:
        self.transports: list[ClientTransport] = []
        self.clients: list[ClusterClient] = []
        waiting: list[ClusterClient] = []
        for number in range(count):
            if number % PER_TRANSPORT == 0:
                self.transports.append(ClientTransport.embedded(clients_max=PER_TRANSPORT + 1))
            self.clients.append(self._make(endpoints, number))
            waiting.append(self.clients[-1])
            while len(waiting) >= CONNECTING_MAX or (waiting and number == count - 1):
                self._poll(waiting)
                waiting = [client for client in waiting if not client.is_connected]

    def _make(self, endpoints: dict[int, str], number: int) -> ClusterClient:
        return ClusterClient(
            endpoints,
            transport=self.transports[-1],
            wait=False,
            on_event=lambda _: None,  # that clients wait, which they do, is not said for each
            settings=ClientSettings(
                ingress_channel="aeron:udp?term-length=64k",
                egress_term_length_bytes=64 * 1024,
                egress_stream_id=10_000 + number,
                connect_timeout_s=LIMIT_S,
                connect_attempt_timeout_s=10,
            ),
        )

    def _poll(self, clients: list[ClusterClient]) -> None:
        for transport in self.transports:
            transport.drive()
        for client in clients:
            client.poll()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for transport in self.transports:
            transport.close()


def run_clients(endpoint: str, count: int, commands: IO[str]) -> None:
    """Open sessions when told to, say so, and close them when told to."""
    commands.readline()
    sessions = Sessions({0: endpoint}, count)
    print("open", flush=True)
    commands.readline()
    sessions.close()
    print("closed", flush=True)


@contextmanager
def client_process(endpoint: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """Start the clients, which wait to be told."""
    command = [sys.executable, "-m", "benchmarks.log_buffers", "--clients", endpoint, "--sessions", str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def measure_sessions(count: int) -> dict[str, dict[str, float]]:
    """Open and close sessions of a node; the figures of both."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ordo-bench-", dir=MEMORY)))
        cluster = LocalCluster(ECHO, member_count=1, service_mode="inline", sync="none", root=root / "cluster")
        stack.callback(cluster.close)
        config = load_config(cluster.root / "0.toml")
        node = Node(config, real_seams(), [Echo()])
        stack.callback(node.close)
        node.start()
        process = stack.enter_context(client_process(next(iter(cluster.ingress_endpoints.values())), count))
        cycles = Cycles()
        until_s = time.monotonic() + LIMIT_S

        def work_until(condition: Callable[[], bool]) -> dict[str, float]:
            while not condition():
                cycles.time(node.cycle.work)
                assert time.monotonic() < until_s, f"sessions took longer than {LIMIT_S} s"
            return cycles.take()

        def tell_and_work(open_at_end: int) -> dict[str, float]:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            return work_until(lambda: len(node.module.clients.sessions) == open_at_end)

        work_until(lambda: node.module.member.is_leader)
        settled_s = time.monotonic() + SETTLE_S
        work_until(lambda: time.monotonic() > settled_s)
        return {"open": tell_and_work(count), "close": tell_and_work(0)}


# --- all of it --------------------------------------------------------------------------------------------------------


def measure(streams: int, sessions: int, term_lengths: Sequence[str] = tuple(TERM_LENGTHS)) -> list[dict[str, object]]:
    """Measure everything; a row for each phase of each kind of stream."""
    rows: list[dict[str, object]] = []
    for sparse in (True, False):
        for text in term_lengths:
            count = room_for(streams, TERM_LENGTHS[text], sparse)
            for medium, channel in (("IPC", "aeron:ipc?"), ("UDP", "aeron:udp?endpoint=127.0.0.1:45678|")):
                found = measure_streams(f"{channel}term-length={text}|sparse={str(sparse).lower()}", count)
                name = f"{medium}, {text}, {'sparse' if sparse else 'allocated'}"
                rows += [{"what": name, "count": count, "phase": phase, **found[phase]} for phase in found]
    found = measure_sessions(sessions)
    return rows + [{"what": "sessions", "count": sessions, "phase": phase, **found[phase]} for phase in found]


def describe(rows: Sequence[dict[str, object]]) -> list[str]:
    """Return the table of the figures."""
    head = ["what", "how many", "phase", "longest, of the processor", "over 1 ms", "longest by the clock", "over 1 ms"]
    return table(
        head,
        [
            [
                str(row["what"]),
                str(row["count"]),
                str(row["phase"]),
                f"{row['used_max_ms']:.2f} ms",
                f"{row['used_long']} of {row['cycles']}",
                f"{row['elapsed_max_ms']:.2f} ms",
                str(row["elapsed_long"]),
            ]
            for row in rows
        ],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure duty cycles while streams and sessions begin and end.")
    parser.add_argument("--streams", type=int, default=1000, help="how many publications at most")
    parser.add_argument("--sessions", type=int, default=1000, help="how many sessions of a cluster")
    parser.add_argument("--json", type=writable_file, help="write the figures to this file as well")
    parser.add_argument("--clients", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.clients:
        run_clients(chosen.clients, chosen.sessions, sys.stdin)
        return 0
    if chosen.streams < 1 or chosen.sessions < 1:
        parser.error("--streams and --sessions must be above 0")
    machine = describe_machine()
    settle_collector()
    rows = measure(chosen.streams, chosen.sessions)
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print("\n".join(describe(rows)))
    if chosen.json:
        chosen.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
